"""Estimating equations, each a few small sums over blocks and experiments.

    H = XᵀWX,   g = XᵀWr(θ),   q = r(θ)ᵀWr(θ)                       normal equations
    the same with X̃ = X − J ε̂, and S = Cov(g), N                     profile equations (:mod:`bvsi.likelihood.block`)
    ZᵀWZ and B = E[ζᵀWζ],   Z = [y, X]                              moment equations
    A = Σ_k Z_kᵀ W_k X_k,   c = Σ_k Z_kᵀ W_k y_k                     instrumental equations

Working with r(θ) instead of y keeps all digits: the update is ``θ + H⁻¹g``, and q has no cancellation.

Moment equations are least squares at fixed weights, with what noise adds to it taken off: E[ZᵀWZ] = Z_0ᵀWZ_0 + B for
noise-free Z_0, ζ = [Σ_j a_kj M ε_j, Σ_j b_kj J_i ε_j], whatever the weights W, as long as they do not follow the noise.
Solving (H − N) θ = g − c with B = [. cᵀ; c N] is therefore unbiased: a safe ground on which to compare models that are
far from the truth, where regressors smoothed by their own residual would be smoothed by misfit.

In instrumental equations regressors of other times, Z_k = X_{k−L} + X_{k+L}, stand in for those whose noise is in the
residual. L is the smallest shift at which two blocks share no data: the noise of Z_k is then independent of block k, so
that E[Z_kᵀW_k r_k(θ*)] = 0. The solution of A θ = c is consistent whatever the noise level, if not efficient: a safe
start.

The residual density has three pieces, misfit, log-determinant and change of variables, each with its exact gradient:

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import FactorisedGroup, Part, over_groups, stencil_row
from bvsi.residual import Residuals


def _summed(parts: Sequence[object], *names: str) -> list[Any]:
    """Sums of some fields over parts."""
    return [np.sum([getattr(part, name) for part in parts], axis=0) for name in names]


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal equations at one θ.

    Attributes
    ----------
    H
        (d, d).
    g
        (d,).
    q
        Per experiment and block, tuple of (K,).
    logdet
        Log det Σ summed over blocks.
    n
        Residuals used.
    """

    H: Array
    g: Array
    q_blocks: tuple[Array, ...]
    logdet: float
    n: int

    @staticmethod
    def none(d: int) -> NormalEquations:
        """Those of no residuals at all."""
        return NormalEquations(np.zeros((d, d)), np.zeros(d), (), 0.0, 0)

    @staticmethod
    def total(parts: Sequence[NormalEquations], q_blocks: tuple[Array, ...]) -> NormalEquations:
        """Sum over parts; ``q_blocks`` sorts their q by experiment and block."""
        H, g = _summed(parts, "H", "g")
        return NormalEquations(H, g, q_blocks, sum(part.logdet for part in parts), sum(part.n for part in parts))

    @property
    def q(self) -> float:
        """rᵀWr."""
        return float(sum(q.sum() for q in self.q_blocks))

    def times(self, factor: int) -> NormalEquations:
        """Those of residuals that count so often."""
        q = tuple(factor * one for one in self.q_blocks)
        return NormalEquations(factor * self.H, factor * self.g, q, factor * self.logdet, factor * self.n)

    def moved(self, step: Array) -> NormalEquations:
        """The equations at θ + step with the same W; q by block is scaled to the new total."""
        q = self.q - 2 * self.g @ step + step @ self.H @ step
        scale = q / self.q if self.q > 0 else 1.0
        return replace(self, g=self.g - self.H @ step, q_blocks=tuple(scale * b for b in self.q_blocks))


@dataclass(frozen=True, eq=False)
class ProfileEquations:
    """Estimating equations at one θ.

    Attributes
    ----------
    equations
        H, g and q with the smoothed regressors.
    scores
        X̃_kᵀW_k r_k by experiment, each (K, d).
    S
        Covariance of g (d, d) under the noise model.
    N
        What noise adds to H (d, d); both None where not asked for.
    V
        V_j (n_u, d) of times that other parts of the experiment have as well; these are not in S yet.
    """

    equations: NormalEquations
    scores: tuple[Array, ...]
    S: Array | None
    N: Array | None
    V: Mapping[int, Array] = field(default_factory=dict)

    @staticmethod
    def total(parts: Sequence[ProfileEquations]) -> ProfileEquations:
        """Sum over experiments."""
        q = tuple(q for part in parts for q in part.equations.q_blocks)
        equations = NormalEquations.total([part.equations for part in parts], q)
        scores = tuple(s for part in parts for s in part.scores)
        S, N = (
            None if any(getattr(part, name) is None for part in parts) else _summed(parts, name)[0]
            for name in ("S", "N")
        )
        return ProfileEquations(equations, scores, S, N)


@dataclass(frozen=True, eq=False)
class MomentEquations:
    """ZᵀWZ and B, both (1 + d, 1 + d), of n residuals."""

    gram: Array
    noise: Array
    n: int

    @staticmethod
    def total(parts: Sequence[MomentEquations]) -> MomentEquations:
        """Sum over experiments."""
        gram, noise = _summed(parts, "gram", "noise")
        return MomentEquations(gram, noise, sum(part.n for part in parts))


@dataclass(frozen=True, eq=False)
class InstrumentalEquations:
    """A (d, d), not symmetric, and c (d,)."""

    A: Array
    c: Array

    @staticmethod
    def total(parts: Sequence[InstrumentalEquations]) -> InstrumentalEquations:
        """Sum over parts."""
        return InstrumentalEquations(*_summed(parts, "A", "c"))


def instrument_shift(a: Any, b: Any) -> int:
    """Smallest L > 0 with which blocks k and k + L of a stencil (K × T) share no time."""
    used = sparse.csr_array(abs(a) + abs(b))
    used.sort_indices()
    first, last = used.indices[used.indptr[:-1]], used.indices[used.indptr[1:] - 1]
    shifts = (shift for shift in range(1, len(first)) if np.all(last[:-shift] < first[shift:]))
    return next(shifts, len(first))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Regressors around a part of an experiment: before (N, K_b, d) and after (N, K_a, d) its own blocks.

    Attributes
    ----------
    shift
        L of the whole experiment.
    """

    before: Array
    after: Array
    shift: int


def instrumental_equations(part: Part, theta: Array, around: Neighbours | None = None) -> InstrumentalEquations:
    """A and c of one experiment with W = W(θ); zero where the experiment is too short to have instruments.

    Parameters
    ----------
    around
        The rest of the experiment as far as it matters, where the part is not all of it.
    """
    residuals, structure = part.residuals, part.residuals.structure
    N, K, m = residuals.Z.shape
    shift = instrument_shift(structure.a, structure.b) if around is None else around.shift

    def of_group(one: FactorisedGroup) -> Array:
        gram = np.zeros((m - 1, m))
        for blocks in one.slabs(2 * m, N):
            columns = np.concatenate([residuals.Z[:, blocks], _instruments(residuals, blocks, shift, around)], axis=2)
            white = one.factor.whiten(columns.reshape(N, -1)).reshape(-1, 2 * m - 1)
            gram += white[:, m:].T @ white[:, :m]
        return gram

    grams = over_groups(part, theta, of_group) if shift < K or around is not None else ()
    total = sum(grams, start=np.zeros((m - 1, m)))
    return InstrumentalEquations(total[:, 1:], total[:, 0])


def _instruments(residuals: Residuals, blocks: Integers, shift: int, around: Neighbours | None) -> Array:
    """X_{k−L} + X_{k+L}, those that exist, (N, blocks, d)."""
    K = residuals.structure.n_blocks
    total = np.zeros((len(residuals.Z), len(blocks), residuals.d))
    sources = [(0, residuals.X)]
    if around is not None:
        sources += [(-around.before.shape[1], around.before), (K, around.after)]
    for other in (blocks - shift, blocks + shift):
        for first, X in sources:
            there = (other >= first) & (other < first + X.shape[1])
            total[:, there] += X[:, other[there] - first]
    return total


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
        constant, n = sum(noise.logdet(int(j)) for j in _newest(part, one.blocks)), len(one.blocks)
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
