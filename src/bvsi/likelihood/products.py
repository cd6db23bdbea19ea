"""All residuals of an experiment as functions of all its states, and what noise does to them.

    (C e)_k = Σ_j (a_kj M − b_kj G_j) e_j,      (Cᵀ w)_j = Σ_k (a_kj Mᵀ − b_kj G_jᵀ) w_k

G_j = Σ_i θ_i J_i(û_j) − J_0(û_j), J_0 that of known terms of the left side. These are products with C, Cᵀ and Σ_u,
without their matrices. Residuals are arrays (N, K), states (n_u, T). Residuals that are not used have zero rows in C
and a one on the diagonal of Σ.

How much of each operator is noise, equation by equation, and how rough that noise is:

    y-noise  n_e = E‖Σ_j (a_kj M + b_kj J_0) ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²
    share  ν_ei = n_ei/‖X_i‖²
    roughness  ρ_ei² = n_ei/E‖Σ_j b_kj J_i(û_j) ε̃_j‖²,     ε̃ = MᵀMε field by field, each as long as ε

summed over the residuals of equation e that are used; ε is one draw of the noise, enough for sums this long. ε̃ is ε
averaged over neighbours, so that ρ is the larger the more derivatives an operator has. Fields without an equation have
no mass block; all fields are therefore smoothed with the mass matrix of the first equation.

Of a tile, residuals that are weighted with the inverse W = Σ⁻¹ of their covariance, the profile equations are

    ε̂ = Σ_u Cᵀ W r,   X̃_i = X_i − J_i ε̂,      H = X̃ᵀWX̃,   g = X̃ᵀWr = −½ ∇_θ (rᵀ W(θ) r)
    N = E[ξᵀWξ],   ξ_i = J_i (ε − ε̂),      E[½∇²Q] = H − N

ε − ε̂ is uncorrelated with r, so that E[g] = 0 at the truth: no bias from noise in X. N is what noise left in X̃ adds to
H: E[Q(θ)] is n plus the misfit of the noise-free data, so its curvature is that of noise-free regressors. N comes from
one draw of ε, which is enough, since it sums over all residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.likelihood.covariance import Part, Weights
from bvsi.likelihood.equations import MomentEquations, NormalEquations, ValueGradient
from bvsi.linalg import Factor
from bvsi.linalg.kronecker import dense_if_full
from bvsi.residual import Sensitivity, Structure
from bvsi.residual.jacobians import summed_each
from bvsi.residual.system import residual_weights

# Residuals of draws that are weighted at a time: 8 MB.
_AT_ONCE = 1_000_000


class SpaceTime:
    """C(θ) and Σ_u of one experiment.

    Attributes
    ----------
    part
        Its residuals and plan.
    G
        Σ_i θ_i J_i − J_0.
    M
        Mass matrix.
    seen
        Places of its states in those of an experiment of which it is a tile; None where it is the experiment.
    """

    def __init__(self, part: Part, theta: Array, seen: Any = None) -> None:
        structure, self.seen = part.residuals.structure, seen
        self.plan, self.residuals, self.structure = part.covariance, part.residuals, structure
        self.a, self.b = (dense_if_full(stencil) for stencil in (structure.a, structure.b))
        self.M = structure.mass
        self.G: Sensitivity = part.residuals.jacobians(theta)

    def states(self, e: Array) -> Array:
        """Its states, from all of the experiment."""
        return e if self.seen is None else e[self.seen]

    def sensitivity(self, e: Array) -> Array:
        """C e, (N, K)."""
        return self.structure.only_active(self.M.summed(self.a, e) - self.G.summed(self.b, e))

    def spread(self, w: Array) -> Array:
        """Σ_u Cᵀ w, (n_u, T): the noise that goes with weighted residuals w = W r."""
        return self.plan.noise_everywhere(self.transposed(w))

    def transposed(self, w: Array) -> Array:
        """Cᵀ w for w (N, K) or (N, K, m), (n_u, T) or (n_u, T, m)."""
        w = self.structure.only_active(np.array(w))
        return self.M.summed_transposed(self.a, w) - self.G.summed_transposed(self.b, w)

    def covariance(self, w: Array) -> Array:
        """Σ w = C Σ_u Cᵀ w for w (N, K, m)."""
        out = np.stack([self.sensitivity(self.spread(w[:, :, m])) for m in range(w.shape[2])], axis=2)
        if self.structure.active is not None:
            out[~self.structure.active] = w[~self.structure.active]
        return out

    def gram(self, w: Array, shared: frozenset[int] = frozenset()) -> tuple[Array, dict[int, Array]]:
        """wᵀ Σ w = Σ_j V_jᵀ Σ_u,j V_j, V = Cᵀ w, for w (N, K, m); (m, m).

        Parameters
        ----------
        shared
            Times that do not enter; their V_j (n_u, m) is returned.
        """
        m, size, some = w.shape[2], self.structure.n_state * self.structure.n_times, sorted(shared)
        gram, apart = np.zeros((m, m)), {j: np.empty((self.structure.n_state, m)) for j in some}
        together = m if m * size <= _AT_ONCE * 50 else 1
        for first in range(0, m, together):
            columns = slice(first, first + together)
            V = self.transposed(w[:, :, columns])
            for j in some:
                apart[j][:, columns] = V[:, j]
            V[:, some] = 0.0
            spread = self.plan.noise_everywhere(V)
            if together == m:
                gram = np.tensordot(V, spread, axes=((0, 1), (0, 1)))
            else:
                gram[:, first] = np.einsum("nki,nk->i", w, self.sensitivity(spread[:, :, 0]), optimize=True)
        return np.asarray(0.5 * (gram + gram.T)), apart

    def operators(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_j, (N, K, d)."""
        return self.structure.only_active(summed_each(self.residuals.J, self.b, e, self.structure.n_rows))

    def draw(self, rng: Rng) -> Array:
        """One draw of the noise, (n_u, T)."""
        return np.stack(self.plan.noise.draws(rng)).T


class Products(Protocol):
    """C, Σ_u and operators of some residuals (N, K); states have the shape that :meth:`states` gives them."""

    def states(self, e: Array) -> Array:
        """States (n_u, T) of the experiment."""

    def sensitivity(self, e: Array) -> Array:
        """C e, (N, K)."""

    def spread(self, w: Array) -> Array:
        """Σ_u Cᵀ w for w (N, K)."""

    def operators(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_j, (N, K, d)."""


class Solver(Protocol):
    """W = Σ⁻¹ for residuals Z (N, K, m)."""

    def solve(self, Z: Array) -> Array:
        """W Z."""

    def grams(self, some: Sequence[Array], *, weighted: bool = False) -> tuple[list[Array], Array | None]:
        """ZᵀWZ (m, m) of each Z, from one pass over the factor, and W Z of the first if it is asked for."""

    def white(self, Z: Array) -> Array | None:
        """R Z with RᵀR = W by block, (N, K, m), at half the price of W Z; None where blocks share one R."""

    def logdet(self, *, needed: bool = True) -> float:
        """log det Σ; without a factor an error where it is needed, else NaN."""

    def slope(self) -> Array:
        """Its gradient with respect to θ, (d,)."""


@dataclass(frozen=True, eq=False)
class Factored:
    """W from a Cholesky factor, of Σ or of the Σ_kk that all blocks share.

    Attributes
    ----------
    rows
        Residuals k N + i of which Σ is; None for Σ_kk.
    blocks
        How often what is factorised stands in Σ.
    slope_of_one
        Gradient of its log-determinant.
    """

    factor: Factor
    rows: Integers | slice | None
    blocks: int
    slope_of_one: Callable[[], Array]

    def solve(self, Z: Array) -> Array:
        """W Z."""
        return self._back(self.factor.solve(self._columns(Z)), Z)

    def grams(self, some: Sequence[Array], *, weighted: bool = False) -> tuple[list[Array], Array | None]:
        """ZᵀWZ of each and W Z of the first, from half a solve each."""
        white = self.factor.whiten(self._columns(np.concatenate(some, axis=2)))
        parts = np.split(
            white.reshape(-1, sum(Z.shape[2] for Z in some)), np.cumsum([Z.shape[2] for Z in some]), axis=1
        )
        found, first = [own.T @ own for own in parts[: len(some)]], parts[0].reshape(len(white), -1)
        return found, self._back(self.factor.whiten_transposed(first), some[0]) if weighted else None

    def white(self, Z: Array) -> Array | None:
        """L⁻¹ Z, where all blocks have the same L."""
        return self.factor.whiten(self._columns(Z)).reshape(Z.shape) if self.rows is None else None

    def logdet(self, *, needed: bool = True) -> float:
        """log det Σ."""
        del needed
        return self.blocks * self.factor.logdet()

    def slope(self) -> Array:
        """∂ log det Σ/∂θ."""
        return self.blocks * self.slope_of_one()

    def _columns(self, Z: Array) -> Array:
        N, K, m = Z.shape
        if self.rows is None:
            return Z.reshape(N, K * m)
        return np.ascontiguousarray(Z.transpose(1, 0, 2)).reshape(K * N, m)[self.rows]

    def _back(self, columns: Array, like: Array) -> Array:
        N, K, m = like.shape
        if self.rows is None:
            return columns.reshape(N, K, m)
        return in_place(columns, self.rows, N, K)


def in_place(columns: Array, rows: Integers | slice, N: int, K: int) -> Array:
    """Columns (rows, m) of residuals k N + i where these stand, (N, K, m), and zeros elsewhere."""
    out = np.zeros((K * N, columns.shape[1]))
    out[rows] = columns
    return out.reshape(K, N, -1).transpose(1, 0, 2)


class TileEquations(NamedTuple):
    """Profile equations of one tile: sums, scores by block (K, d), and if wanted N and W X̃ (N, K, d)."""

    equations: NormalEquations
    scores: Array
    N: Array | None
    WX: Array | None


@dataclass(frozen=True, eq=False)
class Whole:
    """A tile at one θ: its residuals, and the inverse of their whole covariance.

    Attributes
    ----------
    Z
        y and X, (N, K, 1 + d).
    n
        Residuals used.
    place
        Where they stand in arrays (N, K, …) of the experiment.
    """

    Z: Array
    n: int
    theta: Array
    products: Products
    solver: Solver
    place: Any = np.s_[:, :]

    @cached_property
    def r(self) -> Array:
        """r(θ), (N, K)."""
        return self.Z @ residual_weights(self.theta)

    def profile_equations(
        self, *, smoothing: float = 1.0, draw: Array | None = None, weighted: bool = True
    ) -> TileEquations:
        """H, g and q with X̃ = X − smoothing · J ε̂, and N from a draw of the noise of the experiment, (n_u, T).

        Parameters
        ----------
        weighted
            Whether W X̃ is wanted too, for S: of one tile S is H.
        """
        if not smoothing and draw is None and (white := self.solver.white(self.Z)) is not None:
            return self._lagged(white)
        columns, X, drawn = self.r[:, :, None], self.Z[:, :, 1:], None
        if draw is not None:  # it goes through the same solve as the data
            drawn = self.products.states(draw)
            columns = np.stack([self.r, self.products.sensitivity(drawn)], axis=2)
        W_columns = self.solver.solve(columns)
        W_r = W_columns[:, :, 0]
        if smoothing:
            X = X - smoothing * self.products.operators(self.products.spread(W_r))
        xi = [] if drawn is None else [self.products.operators(drawn - self.products.spread(W_columns[:, :, 1]))]
        (H, *N), WX = self.solver.grams([X, *xi], weighted=weighted and drawn is not None)
        q, scores = np.einsum("nk,nk->k", self.r, W_r), np.einsum("nki,nk->ki", X, W_r)
        equations = NormalEquations(H, scores.sum(axis=0), (q,), self.solver.logdet(needed=False), self.n)
        return TileEquations(equations, scores, N[0] if N else None, WX if weighted and N else None)

    def _lagged(self, white: Array) -> TileEquations:
        """H, g and q with X itself, from R [y X] (N, K, 1 + d), which is written over: half a solve."""
        white[:, :, 0] = white @ residual_weights(self.theta)
        blocks = white.transpose(1, 2, 0) @ white.transpose(1, 0, 2)
        q, scores, H = blocks[:, 0, 0], blocks[:, 1:, 0], blocks[:, 1:, 1:].sum(axis=0)
        equations = NormalEquations(H, scores.sum(axis=0), (q,), self.solver.logdet(needed=False), self.n)
        return TileEquations(equations, scores, None, None)

    def misfit(self, gradient: bool) -> ValueGradient:
        """q, with ∇q = −2 X̃ᵀWr from the same solve."""
        W_r = self.solver.solve(self.r[:, :, None])[:, :, 0]
        slope = np.zeros(len(self.theta))
        if gradient:
            smoothed = self.Z[:, :, 1:] - self.products.operators(self.products.spread(W_r))
            slope = -2.0 * np.einsum("nki,nk->i", smoothed, W_r)
        return ValueGradient(float(np.vdot(self.r, W_r)), slope)

    def determinant(self, gradient: bool) -> ValueGradient:
        """log det Σ."""
        return ValueGradient(self.solver.logdet(), self.solver.slope() if gradient else np.zeros(len(self.theta)))


def weighted_draws(products: SpaceTime, weights: Weights, n: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
    """C ε and W C ε for n draws of the noise, (N, K, m) each, a few draws at a time."""
    structure = products.structure
    together = max(1, _AT_ONCE // max(1, structure.n_rows * structure.n_blocks))
    for start in range(0, n, together):
        count = min(together, n - start)
        r = np.stack([products.sensitivity(products.plan.noise.draw(rng)) for _ in range(count)], axis=2)
        yield r, weights(r)


def noise_estimate(
    part: Part, theta: Array, weights: Weights, estimates: Array, times: slice | Integers
) -> dict[str, Array]:
    """ε̂ = Σ_u Cᵀ W r by field at some times, (K, n_dofs) each; û − ε̂ satisfies the equation to first order.

    Parameters
    ----------
    estimates
        Number of tiles of the weights that touch each time, (T,), over which the mean is taken.
    """
    structure, r = part.residuals.structure, part.residuals.residual(theta)
    estimate = SpaceTime(part, theta).spread(weights(r[:, :, None])[:, :, 0]) / estimates
    by_field = estimate.reshape(len(structure.fields), structure.n_dofs, structure.n_times)
    seen, pairs = structure.thinned or structure.blur, zip(structure.fields, by_field, strict=True)
    return {field: (seen.everywhere(own, times) if seen else own[:, times]).T for field, own in pairs}


def moment_equations(part: Part, theta: Array, weights: Weights, *, rng: Rng, draws: int) -> MomentEquations:
    """Moment equations of one experiment at fixed weights; B is the mean over draws of the noise."""
    products, d = SpaceTime(part, theta), part.residuals.d
    columns = [part.residuals.Z]
    for _ in range(draws):
        draw = products.draw(rng)
        columns += [part.residuals.left_terms(draw)[:, :, None], products.operators(draw)]
    stack = np.concatenate(columns, axis=2)
    Z, WZ = (one.reshape(-1, (1 + draws) * (1 + d)) for one in (stack, weights(stack)))
    grams = [Z[:, s : s + 1 + d].T @ WZ[:, s : s + 1 + d] for s in range(0, (1 + draws) * (1 + d), 1 + d)]
    return MomentEquations(grams[0], np.mean(grams[1:], axis=0), part.residuals.n)


@dataclass(frozen=True, eq=False)
class NoiseShare:
    """How much of the left sides and operators is noise, by equation.

    Attributes
    ----------
    y
        Noise in the left sides (E,).
    X
        In the operators (E, d).
    size
        ‖X_i‖² (E, d).
    share
        ν (E, d), zero where an operator does not stand in the equation.
    roughness
        ρ (E, d), zero where an operator has no noise.
    even
        Of a series, how evenly operators carry the noise of the equation's own field over time, 1 for that field
        itself, (E, d); zero where there is space.
    """

    y: Array
    X: Array
    size: Array
    share: Array
    roughness: Array
    even: Array

    @staticmethod
    def of(parts: Sequence[NoiseSizes]) -> NoiseShare:
        """From the sizes of all parts."""
        y, X, smooth, size, even = (np.sum(one, axis=0) for one in zip(*parts, strict=True))
        share, rough = (np.divide(X, by, out=np.zeros_like(X), where=by > 0) for by in (size, smooth))
        return NoiseShare(y, X, size, share, np.sqrt(rough), even)


#: Noise in the left sides (E,), in the operators (E, d), the same of ε̃ (E, d), ‖X_i‖² (E, d), and how even it is.
NoiseSizes = tuple[Array, Array, Array, Array, Array]


def noise_sizes(part: Part, rng: Rng) -> NoiseSizes:
    """Sizes of noise of one experiment."""
    residuals, structure = part.residuals, part.residuals.structure
    draw = np.stack(part.covariance.noise.draws(rng)).T
    smoothed = _smoothed(draw, structure)
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T

    def sizes(tested: Array) -> Array:
        return np.asarray(equations @ np.square(structure.only_active(tested)).sum(axis=1))

    y = sizes(residuals.left_terms(draw))
    each = (summed_each(residuals.J, structure.b, e, structure.n_rows) for e in (draw, smoothed))
    X, smooth = (np.stack([sizes(one) for one in np.moveaxis(X, 2, 0)], axis=1) for X in each)
    return y, X, smooth, equations @ np.square(residuals.X).sum(axis=1), _evenness(part)


def _evenness(part: Part) -> Array:
    """(Σ_j |c_ej|)² / (T Σ_fj c_fj²), c_fj = ∂F_i(û_j)/∂u_f without space; (E, d)."""
    structure = part.residuals.structure
    even = np.zeros((len(structure.equations), len(part.residuals.J)))
    if structure.coordinates.shape[1]:
        return even
    for i, J in enumerate(part.residuals.J):
        for term in J.at_nodes():
            e = int(structure.equation_of_row[term.tests.rows.start])
            squares = sum(float(np.mean(np.square(other.factor))) for other in J.at_nodes())
            if structure.fields[term.first] == structure.equations[e] and squares > 0:
                even[e, i] = float(np.mean(np.abs(term.factor))) ** 2 / squares
    return even


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
