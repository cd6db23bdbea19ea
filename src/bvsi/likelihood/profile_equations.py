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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import BlockGroup, Part, sensitivities, stencil_row
from bvsi.likelihood.normal_equations import NormalEquations, accumulate
from bvsi.linalg import Factor
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


def block_profile_equations(
    part: Part, theta: Array, *, smoothing: float, rng: np.random.Generator | None
) -> ProfileEquations:
    """Profile equations of one experiment with block weighting.

    smoothing: factor on ε̂; 1 is the profile estimator, 0 the lagged one, between lies a path from one to the other.
    rng: for the draw that N takes; None leaves S and N out.
    """
    residuals = part.residuals
    structure, d = residuals.structure, residuals.d
    q, scores = np.zeros(structure.n_blocks), np.zeros((structure.n_blocks, d))
    spread = None if rng is None else _Spread(part, rng)
    parts = []
    for group, factor in part.factors(theta):
        smoother = _Smoother(part, theta, group, factor)
        logdet = factor.logdet()
        for blocks in group.slabs(1 + d):
            Z = smoother.smoothed(blocks, smoothing)
            white = factor.whiten(Z.reshape(len(Z), -1)).reshape(Z.shape)
            parts.append(accumulate(white, np.zeros(d), len(blocks) * logdet))
            q[blocks] = parts[-1].q_blocks[0]
            scores[blocks] = np.einsum("nk,nki->ki", white[:, :, 0], white[:, :, 1:])
            if spread is not None:
                spread.add(smoother, blocks, Z[:, :, 1:])
    S, N = (None, None) if spread is None else (spread.S(), spread.N)
    return ProfileEquations(NormalEquations.total(parts, (q,)), (scores,), S, N)


class _Smoother:
    """Smoothing for the blocks of one group, which share C, b and J."""

    def __init__(self, part: Part, theta: Array, group: BlockGroup, factor: Factor) -> None:
        residuals = part.residuals
        self.plan, self.residuals, self.factor = part.covariance, residuals, factor
        first = int(group.blocks[0])
        self.times, values = sensitivities(residuals, theta, first)
        self.b = stencil_row(residuals.structure, first)[2]
        self.C = [residuals.structure.pattern.matrix(c) for c in values]
        self.C_transposed = [c.T.tocsr() for c in self.C]
        self.weights = residual_weights(theta)

    def smoothed(self, blocks: Integers, smoothing: float) -> Array:
        """[r, X̃] of some blocks, (N, blocks, 1 + d)."""
        Z = self.residuals.Z[:, blocks]  # a copy, since blocks is an index array
        Z[:, :, 0] = r = Z @ self.weights
        if smoothing:
            Z[:, :, 1:] -= smoothing * self.operators_on(self.noise_estimate(r))
        return Z

    def noise_estimate(self, r: Array) -> list[Array]:
        """ε̂_kj = Σ_u,j C_kjᵀ W_k r_k of each time of the stencil, (n_u, blocks) each; zero where b is."""
        Wr = self.factor.solve(r)
        pairs = zip(self.times, self.b, self.C_transposed, strict=True)
        return [self.plan.noise_times(int(j), Ct @ Wr) if b else np.zeros(0) for j, b, Ct in pairs]

    def operators_on(self, epsilon: list[Array]) -> Array:
        """Σ_j b_kj J_i(û_j) ε_kj, (N, blocks, d)."""
        structure = self.residuals.structure
        columns = next(e.shape[1] for e, b in zip(epsilon, self.b, strict=True) if b)
        total = np.zeros((structure.n_rows, columns, self.residuals.d))
        for time, b, e in zip(self.times, self.b, epsilon, strict=True):
            if b:
                for i, J in enumerate(self.residuals.J):
                    total[:, :, i] += b * J.apply(int(time), e)
        return total


class _Spread:
    """Accumulates S and N over the blocks of an experiment."""

    def __init__(self, part: Part, rng: np.random.Generator) -> None:
        residuals, structure, plan = part.residuals, part.residuals.structure, part.covariance
        self.plan, self.structure = plan, structure
        self.V = np.zeros((structure.n_times, structure.n_state, residuals.d))
        self.N = np.zeros((residuals.d, residuals.d))
        self.draw = [plan.noise.sample(j, rng) for j in range(structure.n_times)]

    def add(self, smoother: _Smoother, blocks: Integers, X: Array) -> None:
        """Add the part of some blocks with smoothed regressors X (N, blocks, d)."""
        times = [stencil_row(self.structure, int(k))[0] for k in blocks]
        WX = smoother.factor.solve(np.ascontiguousarray(X).reshape(len(X), -1))
        for m, Ct in enumerate(smoother.C_transposed):
            spread = (Ct @ WX).reshape(-1, len(blocks), X.shape[2])
            for position, row in enumerate(times):
                self.V[row[m]] += spread[:, position]
        drawn = [np.stack([self.draw[row[m]] for row in times], axis=1) for m in range(len(smoother.C))]
        estimate = smoother.noise_estimate(sum(C @ e for C, e in zip(smoother.C, drawn, strict=True)))
        left = [e - h if b else h for e, h, b in zip(drawn, estimate, smoother.b, strict=True)]
        xi = smoother.operators_on(left)
        white = smoother.factor.whiten(xi.reshape(len(xi), -1)).reshape(-1, X.shape[2])
        self.N += white.T @ white

    def S(self) -> Array:
        """Σ_j V_jᵀ Σ_u,j V_j."""
        return np.asarray(sum(V.T @ self.plan.noise_times(j, V) for j, V in enumerate(self.V)))


def _sum(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.sum(known, axis=0) if known else None
