"""Estimating equations of the profile estimator: regressors at data smoothed by their own residual.

    ε̂_kj = Σ_u,j C_kjᵀ W_k r_k            X̃_ki = X_ki − Σ_j b_kj J_i(û_j) ε̂_kj
    H = X̃ᵀWX̃,   g = X̃ᵀWr = −½ ∇_θ (rᵀ W(θ) r)

ε − ε̂ is uncorrelated with r, so that E[g] = 0 at the truth: no bias from noise in X. For error bars:

    S = Cov(g) = Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l = Σ_j V_jᵀ Σ_u,j V_j,      V_j = Σ_k C_kjᵀ W_k X̃_k
    N = E[ξᵀWξ],   ξ_ki = Σ_j b_kj J_i(û_j) (ε − ε̂)_kj,      E[½∇²Q] = H − N

S has the correlation between blocks that the weights leave out. N is what noise left in X̃ adds to H: E[Q(θ)] is n plus
the misfit of the noise-free data, so its curvature is that of noise-free regressors. N comes from one draw of ε, which
is enough, since it sums over all residuals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.blocks import over_groups
from bvsi.likelihood.covariance import FactorisedGroup, Part, stencil_row
from bvsi.likelihood.normal_equations import NormalEquations, accumulate
from bvsi.residual.system import residual_weights

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ProfileEquations:
    """Estimating equations at one θ.

    equations: H, g and q with the smoothed regressors.
    scores: X̃_kᵀW_k r_k by experiment, each (K, d).
    S: covariance of g (d, d) under the noise model; N: what noise adds to H (d, d); None where not asked for.
    """

    equations: NormalEquations
    scores: tuple[Array, ...]
    S: Array | None
    N: Array | None

    @staticmethod
    def total(parts: list[ProfileEquations]) -> ProfileEquations:
        """Sum over experiments."""
        equations = NormalEquations.total(
            [part.equations for part in parts], tuple(q for part in parts for q in part.equations.q_blocks)
        )
        scores = tuple(s for part in parts for s in part.scores)
        return ProfileEquations(equations, scores, _sum([p.S for p in parts]), _sum([p.N for p in parts]))


@dataclass(frozen=True, eq=False)
class OpenEquations:
    """Profile equations of a part of an experiment.

    V: V_j (n_u, d) of the times that other parts have as well; these are not in S, see :func:`shared_spread`.
    """

    equations: ProfileEquations
    V: dict[int, Array]


def block_profile_equations(
    part: Part, theta: Array, *, smoothing: float, rng: np.random.Generator | None
) -> ProfileEquations:
    """Profile equations of one experiment with block weighting.

    smoothing: factor on ε̂; 1 is the profile estimator, 0 the lagged one, between lies a path from one to the other.
    rng: for the draw that N takes; None leaves S and N out.
    """
    return open_profile_equations(part, theta, smoothing=smoothing, rng=rng).equations


def shared_spread(part: Part, V: Mapping[int, Array]) -> Array:
    """What times of a part add to S, (d, d), from V_j summed over all blocks that have them."""
    d = part.residuals.d
    return sum((V[j].T @ part.covariance.noise_times(j, V[j]) for j in sorted(V)), start=np.zeros((d, d)))


def open_profile_equations(
    part: Part,
    theta: Array,
    *,
    smoothing: float,
    rng: np.random.Generator | None,
    shared: frozenset[int] = frozenset(),
) -> OpenEquations:
    """The same of a part of an experiment; shared: its times that other parts have as well."""
    structure, d = part.residuals.structure, part.residuals.d
    draw = None if rng is None else part.covariance.noise.draws(rng)
    q, scores = np.zeros(structure.n_blocks), np.zeros((structure.n_blocks, d))
    spread = None if draw is None else _Spread(part, shared)
    equations = []
    for one in over_groups(part, theta, lambda group: _Smoother(part, theta, group, smoothing, draw).equations()):
        for slab in one.slabs:
            q[slab.blocks], scores[slab.blocks] = slab.equations.q_blocks[0], slab.scores
            equations.append(slab.equations)
        if spread is not None:
            spread.add(one)
    S, N, V = (None, None, {}) if spread is None else (spread.S, spread.N, spread.V)
    total = NormalEquations.total([NormalEquations.none(d), *equations], (q,))
    return OpenEquations(ProfileEquations(total, (scores,), S, N), V)


@dataclass(frozen=True, eq=False)
class _Slab:
    """Equations of some blocks of a group; scores: (blocks, d)."""

    blocks: Integers
    equations: NormalEquations
    scores: Array


@dataclass(frozen=True, eq=False)
class _GroupEquations:
    """Equations of a group of blocks, and its part of N (d, d) and of V: time → (n_u, d)."""

    slabs: tuple[_Slab, ...]
    N: Array
    V: dict[int, Array]


class _Smoother:
    """Profile equations of the blocks of one group, which share C, b and J. Threads have one each.

    draw: noise by time, (n_u,) each; without it neither N nor V is worked out.
    """

    def __init__(
        self, part: Part, theta: Array, one: FactorisedGroup, smoothing: float, draw: list[Array] | None
    ) -> None:
        residuals = part.residuals
        self.plan, self.residuals, self.one = part.covariance, residuals, one
        self.smoothing, self.draw = smoothing, draw
        self.C = [residuals.structure.pattern.matrix(c) for c in one.C]
        self.weights = residual_weights(theta)
        structure = residuals.structure
        self.rows, self.inactive = structure.block_rows, structure.inactive(int(one.group.blocks[0]))

    def equations(self) -> _GroupEquations:
        """All equations of the group, a slab of its blocks at a time."""
        d, factor = self.residuals.d, self.one.factor
        logdet, slabs = factor.logdet(), []
        N, V = np.zeros((d, d)), dict[int, Array]()
        for blocks in self.one.group.slabs(1 + d if self.draw is None else 1 + 2 * d):
            Z = self.columns(blocks)
            white = factor.whiten(Z.reshape(len(Z), -1)).reshape(Z.shape)
            smoothed = np.ascontiguousarray(white[:, :, : 1 + d])
            equations = accumulate(smoothed, np.zeros(d), int(self.rows[blocks].sum()), len(blocks) * logdet)
            scores = np.einsum("nk,nki->ki", smoothed[:, :, 0], smoothed[:, :, 1:])
            slabs.append(_Slab(blocks, equations, scores))
            if self.draw is not None:
                xi = np.ascontiguousarray(white[:, :, 1 + d :]).reshape(-1, d)
                N += xi.T @ xi
                self.add_spread(V, blocks, smoothed[:, :, 1:])
        return _GroupEquations(tuple(slabs), N, V)

    def columns(self, blocks: Integers) -> Array:
        """[r, X̃] of some blocks, (N, blocks, 1 + d); with a draw [r, X̃, ξ], (N, blocks, 1 + 2d)."""
        Z = self.residuals.Z[:, blocks]  # a copy, since blocks is an index array
        Z[:, :, 0] = r = Z @ self.weights
        if self.draw is None:
            if self.smoothing:
                Z[:, :, 1:] -= self.smoothing * self.operators_on(self.noise_estimate(r))
            return Z
        # The data and the draw go through the same solve and the same operators, side by side.
        drawn = self.drawn(blocks)
        residual = sum(C @ e for C, e in zip(self.C, drawn, strict=True))
        estimate = self.noise_estimate(np.concatenate([r, residual], axis=1))
        n = len(blocks)
        for e, hat, b in zip(drawn, estimate, self.one.b, strict=True):
            if b:
                hat[:, n:] = e - hat[:, n:]
        moved = self.operators_on(estimate)
        Z[:, :, 1:] -= self.smoothing * moved[:, :n]
        return np.concatenate([Z, moved[:, n:]], axis=2)

    def drawn(self, blocks: Integers) -> list[Array]:
        """The draw at each time of the stencil, (n_u, blocks) each."""
        assert self.draw is not None
        times = [stencil_row(self.residuals.structure, int(k))[0] for k in blocks]
        return [np.stack([self.draw[row[m]] for row in times], axis=1) for m in range(len(self.C))]

    def noise_estimate(self, r: Array) -> list[Array]:
        """ε̂_kj = Σ_u,j C_kjᵀ W_k r_k of each time of the stencil, (n_u, columns) each; empty where b is zero."""
        Wr = self.one.factor.solve(r)
        triples = zip(self.one.times, self.one.b, self.C, strict=True)
        return [self.plan.noise_times(int(j), C.T @ Wr) if b else np.zeros(0) for j, b, C in triples]

    def operators_on(self, epsilon: list[Array]) -> Array:
        """Σ_j b_kj J_i(û_j) ε_kj, (N, columns, d); zero where residuals are not used."""
        columns = next(e.shape[1] for e, b in zip(epsilon, self.one.b, strict=True) if b)
        total = np.zeros((self.residuals.structure.n_rows, columns, self.residuals.d))
        for time, b, e in zip(self.one.times, self.one.b, epsilon, strict=True):
            if b:
                total += self.residuals.operators_on(int(time), b * e)
        total[self.inactive] = 0.0
        return total

    def add_spread(self, V: dict[int, Array], blocks: Integers, white: Array) -> None:
        """Add C_kjᵀ W_k X̃_k of some blocks to V by time, from whitened X̃ (N, blocks, d)."""
        n, d = len(blocks), self.residuals.d
        times = [stencil_row(self.residuals.structure, int(k))[0] for k in blocks]
        WX = self.one.factor.whiten_transposed(np.ascontiguousarray(white).reshape(-1, n * d))
        for m, C in enumerate(self.C):
            spread = (C.T @ WX).reshape(-1, n, d)
            for position, row in enumerate(times):
                j = int(row[m])
                V[j] = V[j] + spread[:, position] if j in V else spread[:, position]


class _Spread:
    """Sums N and S = Σ_j V_jᵀ Σ_u,j V_j over groups; V_j is dropped once all groups with time j have been added.

    shared: times whose V_j stays, and does not enter S.
    """

    def __init__(self, part: Part, shared: frozenset[int]) -> None:
        residuals, plan = part.residuals, part.covariance
        self.plan, self.shared = plan, shared
        self.N, self.S = np.zeros((residuals.d, residuals.d)), np.zeros((residuals.d, residuals.d))
        self.V: dict[int, Array] = {}
        times = [
            {int(j) for k in group.blocks for j in stencil_row(residuals.structure, int(k))[0]}
            for group in plan.groups(residuals)
        ]
        self.missing = Counter(j for some in times for j in some)

    def add(self, one: _GroupEquations) -> None:
        """Add a group; groups have to come in a fixed order for the sums to be the same to the last digit."""
        self.N += one.N
        for j, V in one.V.items():
            self.V[j] = self.V[j] + V if j in self.V else V
            self.missing[j] -= 1
            if not self.missing[j] and j not in self.shared:
                V = self.V.pop(j)
                self.S += V.T @ self.plan.noise_times(j, V)


def _sum(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.sum(known, axis=0) if known else None
