"""All residuals of an experiment as functions of all its states, and what noise does to them.

    (C e)_k = Σ_j (a_kj M − b_kj G_j) e_j,      (Cᵀ w)_j = Σ_k (a_kj Mᵀ − b_kj G_jᵀ) w_k,      G_j = Σ_i θ_i J_i(û_j)

These are products with C, Cᵀ and Σ_u, without their matrices. Residuals are arrays (N, K), states (n_u, T). Residuals
that are not used have zero rows in C and a one on the diagonal of Σ.

How much of each operator is noise, equation by equation, and how rough that noise is:

    y-noise  n_e = E‖Σ_j a_kj M ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²,     share  ν_ei = n_ei/‖X_i‖²
    roughness  ρ_ei² = n_ei/E‖Σ_j b_kj J_i(û_j) ε̃_j‖²,     ε̃ = MᵀMε field by field, each as long as ε

summed over the residuals of equation e that are used; ε is one draw of the noise, enough for sums this long. ε̃ is ε
averaged over neighbours, so that ρ is the larger the more derivatives an operator has. Fields without an equation have
no mass block; all fields are therefore smoothed with the mass matrix of the first equation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part, Weights
from bvsi.likelihood.equations import MomentEquations
from bvsi.linalg.kronecker import dense_if_full
from bvsi.residual import Sensitivity, Structure

Array = NDArray[np.float64]
Rng = np.random.Generator

# Residuals of draws that are weighted at a time: 8 MB.
_AT_ONCE = 1_000_000


class SpaceTime:
    """C(θ) and Σ_u of one experiment.

    Attributes
    ----------
    part
        Its residuals and plan.
    G
        Σ_i θ_i J_i.
    M
        Mass matrix.
    """

    def __init__(self, part: Part, theta: Array) -> None:
        structure = part.residuals.structure
        self.plan, self.residuals, self.structure = part.covariance, part.residuals, structure
        self.a, self.b = (dense_if_full(stencil) for stencil in (structure.a, structure.b))
        self.M = structure.mass
        self.G: Sensitivity = part.residuals.jacobians(theta)

    def time_terms(self, e: Array) -> Array:
        """Σ_j a_kj M e_j, (N, K)."""
        return self.structure.only_active(self.M.summed(self.a, e))

    def sensitivity(self, e: Array) -> Array:
        """C e, (N, K)."""
        return self.structure.only_active(self.time_terms(e) - self.G.summed(self.b, e))

    def spread(self, w: Array) -> Array:
        """Σ_u Cᵀ w, (n_u, T): the noise that goes with weighted residuals w = W r."""
        w = self.structure.only_active(np.array(w))
        transposed = self.M.summed_transposed(self.a, w) - self.G.summed_transposed(self.b, w)
        return self.plan.noise_everywhere(transposed)

    def covariance(self, w: Array) -> Array:
        """Σ w = C Σ_u Cᵀ w for w (N, K, m)."""
        out = np.stack([self.sensitivity(self.spread(w[:, :, m])) for m in range(w.shape[2])], axis=2)
        if self.structure.active is not None:
            out[~self.structure.active] = w[~self.structure.active]
        return out

    def operators(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_j, (N, K, d)."""
        out = np.empty((self.structure.n_rows, self.structure.n_blocks, self.residuals.d))
        for i, J in enumerate(self.residuals.J):
            out[:, :, i] = J.summed(self.b, e)
        return self.structure.only_active(out)

    def draw(self, rng: Rng) -> Array:
        """One draw of the noise, (n_u, T)."""
        return np.stack(self.plan.noise.draws(rng)).T


def weighted_draws(products: SpaceTime, weights: Weights, n: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
    """C ε and W C ε for n draws of the noise, (N, K, m) each, a few draws at a time."""
    structure = products.structure
    together = max(1, _AT_ONCE // max(1, structure.n_rows * structure.n_blocks))
    for start in range(0, n, together):
        count = min(together, n - start)
        r = np.stack([products.sensitivity(products.draw(rng)) for _ in range(count)], axis=2)
        yield r, weights(r)


def noise_estimate(part: Part, theta: Array, weights: Weights, estimates: Array) -> dict[str, Array]:
    """ε̂ = Σ_u Cᵀ W r by field, (T, n_dofs) each; û − ε̂ satisfies the equation to first order.

    Parameters
    ----------
    estimates
        Number of tiles of the weights that touch each time, (T,), over which the mean is taken.
    """
    structure, r = part.residuals.structure, part.residuals.residual(theta)
    estimate = SpaceTime(part, theta).spread(weights(r[:, :, None])[:, :, 0]) / estimates
    by_field = estimate.reshape(len(structure.fields), structure.n_dofs, structure.n_times)
    return {field: values.T for field, values in zip(structure.fields, by_field, strict=True)}


def moment_equations(part: Part, theta: Array, weights: Weights, *, rng: Rng, draws: int) -> MomentEquations:
    """Moment equations of one experiment at fixed weights; B is the mean over draws of the noise."""
    products, d = SpaceTime(part, theta), part.residuals.d
    columns = [part.residuals.Z]
    for _ in range(draws):
        draw = products.draw(rng)
        columns += [products.time_terms(draw)[:, :, None], products.operators(draw)]
    stack = np.concatenate(columns, axis=2)
    WZ = weights(stack)
    grams = [
        np.einsum("nki,nkj->ij", stack[:, :, s : s + 1 + d], WZ[:, :, s : s + 1 + d])
        for s in range(0, (1 + draws) * (1 + d), 1 + d)
    ]
    return MomentEquations(grams[0], np.mean(grams[1:], axis=0), part.residuals.n)


@dataclass(frozen=True, eq=False)
class NoiseShare:
    """How much of the time terms and operators is noise, by equation.

    Attributes
    ----------
    y
        Noise in the time terms (E,).
    X
        In the operators (E, d).
    smooth
        Same of ε̃ (E, d).
    size
        ‖X_i‖² (E, d).
    """

    y: Array
    X: Array
    smooth: Array
    size: Array

    @staticmethod
    def total(parts: Sequence[NoiseShare]) -> NoiseShare:
        """Sum over parts."""
        fields = ("y", "X", "smooth", "size")
        return NoiseShare(*(np.sum([getattr(part, field) for part in parts], axis=0) for field in fields))

    @property
    def share(self) -> Array:
        """ν (E, d), zero where an operator does not stand in the equation."""
        return np.divide(self.X, self.size, out=np.zeros_like(self.X), where=self.size > 0)

    @property
    def roughness(self) -> Array:
        """ρ (E, d), zero where an operator has no noise."""
        return np.sqrt(np.divide(self.X, self.smooth, out=np.zeros_like(self.X), where=self.smooth > 0))


def noise_share(part: Part, rng: Rng) -> NoiseShare:
    """Sizes of noise of one experiment."""
    residuals, structure = part.residuals, part.residuals.structure
    draw = np.stack(part.covariance.noise.draws(rng)).T
    smoothed = _smoothed(draw, structure)
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T

    def sizes(tested: Array) -> Array:
        return np.asarray(equations @ np.square(structure.only_active(tested)).sum(axis=1))

    y = sizes(structure.mass.summed(structure.a, draw))
    X, smooth = (np.stack([sizes(J.summed(structure.b, e)) for J in residuals.J], axis=1) for e in (draw, smoothed))
    return NoiseShare(y, X, smooth, equations @ np.square(residuals.X).sum(axis=1))


def _smoothed(epsilon: Array, structure: Structure) -> Array:
    """ε̃ for ε (n_u, T): MᵀMε field by field, each as long as ε, with the tests of the first equation."""
    T = epsilon.shape[1]
    fields = epsilon.reshape(len(structure.fields), structure.n_dofs, T)
    first = structure.fields.index(structure.equations[0]) * structure.n_dofs
    rows = structure.equation_of_row == 0
    out = np.empty_like(fields)
    for field, own in zip(out, fields, strict=True):
        alone = np.zeros_like(epsilon)
        alone[first : first + structure.n_dofs] = own
        tested = structure.mass.everywhere(alone) * rows[:, None]
        averaged = structure.mass.transposed_everywhere(tested)[first : first + structure.n_dofs]
        length, wanted = (np.linalg.norm(values, axis=0) for values in (averaged, own))
        field[:] = averaged * np.divide(wanted, length, out=np.zeros(T), where=length > 0)
    return out.reshape(epsilon.shape)
