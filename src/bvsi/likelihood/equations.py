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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.likelihood.covariance import FactorisedGroup, Part, over_groups
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
        for blocks in one.group.slabs(2 * m):
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
