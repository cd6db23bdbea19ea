"""The residual density: misfit, log-determinant and change of variables, each with its exact gradient.

    −log p(r_θ | θ) = ½ q + ½ log det Σ + ½ n log 2π,      q = Σ_k r_kᵀ W_k r_k        (block weighting)

    ∂q/∂θ_i         = −2 Σ_k [X_ki − Σ_j b_kj J_i ε̂_kj]ᵀ w_k,      w_k = W_k r_k,   ε̂_kj = Σ_u,j C_kjᵀ w_k
    ∂ log det Σ/∂θ_i = Σ_k tr(W_k ∂Σ_k/∂θ_i) = −2 Σ_kj b_kj ⟨W_k C_kj Σ_u,j, J_i⟩

which is eq:full_likelihood_gradient_component. The inner product needs its left side on the pattern of J_i only: one
set of numbers per block for all operators. Of W it takes the entries on the pattern of Σ, the selected inverse.

r_θ is a function of the data, r_k of û_0 … û_k. Its density as one of the data has the factor Π_k |det C_kk(θ)|,
C_kk = ∂r_k/∂û_k at the newest time of the block:

    log |det C_kk| = ½ log det(C_kk Σ_u C_kkᵀ) − ½ log det Σ_u,

the same log-determinant once more, with that time alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import FactorisedGroup, Part, over_groups, stencil_row


@dataclass(frozen=True, eq=False)
class ValueGradient:
    """A number that depends on θ, and its gradient (d,); zeros where that was not asked for."""

    value: float
    gradient: Array

    def __add__(self, other: ValueGradient) -> ValueGradient:
        return ValueGradient(self.value + other.value, self.gradient + other.gradient)

    def __mul__(self, factor: float) -> ValueGradient:
        return ValueGradient(factor * self.value, factor * self.gradient)


@dataclass(frozen=True, eq=False)
class Density:
    """The pieces of log p(r_θ | θ).

    Attributes
    ----------
    q
        rᵀWr.
    logdet
        Log det Σ.
    change
        Σ_k log |det C_kk|.
    n
        Number of residuals. What was not asked for is zero.
    """

    q: ValueGradient
    logdet: ValueGradient
    change: ValueGradient
    n: int

    def times(self, count: int) -> Density:
        """That of residuals that count so often."""
        return Density(self.q * count, self.logdet * count, self.change * count, self.n * count)

    @staticmethod
    def total(parts: Sequence[Density]) -> Density:
        """Sum over experiments."""
        q, logdet, change = (parts[0].q, parts[0].logdet, parts[0].change)
        for part in parts[1:]:
            q, logdet, change = q + part.q, logdet + part.logdet, change + part.change
        return Density(q, logdet, change, sum(part.n for part in parts))


def logdet_slope(part: Part, one: FactorisedGroup) -> Array:
    """∂ log det Σ_kk/∂θ of one block of a group, (d,)."""
    plan, inside = part.covariance, one.b != 0
    CS = plan.sensitivities_times_noise(one.times[inside], one.C[inside])
    G = one.b[inside, None] * plan.product.gradient(one.factor.selected_inverse(), CS)
    sums = (part.residuals.operators_inner(g, int(j)) for g, j in zip(G, one.times[inside], strict=True))
    return -2.0 * np.asarray(sum(sums, start=np.zeros(part.residuals.d)))


def change_of_variables(part: Part, theta: Array, gradient: bool) -> ValueGradient:
    """Σ_k log |det C_kk| of one experiment, whatever the weighting."""
    check_change_of_variables(part)
    noise = part.covariance.noise

    def of_group(one: FactorisedGroup) -> ValueGradient:
        constant, n = sum(noise.logdet(int(j)) for j in _newest(part, one.group.blocks)), len(one.group.blocks)
        slope = logdet_slope(part, one) if gradient else np.zeros(len(theta))
        return ValueGradient(0.5 * (n * one.factor.logdet() - constant), 0.5 * n * slope)

    terms = over_groups(part, theta, of_group, newest=True)
    return sum(terms, start=ValueGradient(0.0, np.zeros(len(theta))))


def _newest(part: Part, blocks: Integers) -> list[int]:
    return [int(stencil_row(part.residuals.structure, int(k))[0][-1]) for k in blocks]


def check_change_of_variables(part: Part) -> None:
    """Refuse where the residuals are not a change of variables: as many per block as unknowns, a new time in each."""
    structure = part.residuals.structure
    if structure.active is not None:
        raise BvsiError(
            f"jacobian: the change of variables from data to residuals needs all residuals, and {part.label} has some "
            "that depend on values that were not measured; leave it out, or use Profile()."
        )
    newest = _newest(part, np.arange(structure.n_blocks))
    if structure.n_rows != structure.n_state or len(set(newest)) < len(newest):
        raise BvsiError(
            f"jacobian: the change of variables from data to residuals needs as many residuals per block as unknowns "
            f"({structure.n_rows} and {structure.n_state} in {part.label}) and one new time per block; leave it out, "
            "or use Profile()."
        )
