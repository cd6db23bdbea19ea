"""Estimating equations of the profile estimator: regressors at data smoothed by their own residual.

    ε̂_kj = Σ_u,j C_kjᵀ W_k r_k            X̃_ki = X_ki − Σ_j b_kj J_i(û_j) ε̂_kj
    H = X̃ᵀWX̃,   g = X̃ᵀWr = −½ ∇_θ (rᵀ W(θ) r)

ε − ε̂ is uncorrelated with r, so that E[g] = 0 at the truth: no bias from noise in X. The sandwich needs

    S = Σ_kl X̃_kᵀ W_k Cov(r_k, r_l) W_l X̃_l = Σ_j V_jᵀ Σ_u,j V_j,      V_j = Σ_k C_kjᵀ W_k X̃_k,

which has the correlation between blocks that the weights leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import BlockGroup, CovariancePlan, factors, sensitivities, stencil_row
from bvsi.likelihood.normal_equations import NormalEquations, accumulate
from bvsi.linalg import Factor
from bvsi.residual import Residuals

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Columns handled at once in solves.
_COLUMNS = 64


@dataclass(frozen=True, eq=False)
class ProfileEquations:
    """Estimating equations at one θ.

    equations: H, g and q with the smoothed regressors.
    scores: X̃_kᵀW_k r_k by experiment, each (K, d).
    S: covariance of g (d, d) under the noise model; None where it was not asked for.
    """

    equations: NormalEquations
    scores: tuple[Array, ...]
    S: Array | None

    @staticmethod
    def total(parts: list[ProfileEquations]) -> ProfileEquations:
        """Sum over experiments."""
        equations = NormalEquations.total(
            [part.equations for part in parts], tuple(q for part in parts for q in part.equations.q_blocks)
        )
        known = [part.S for part in parts if part.S is not None]
        S = np.sum(known, axis=0) if known else None
        return ProfileEquations(equations, tuple(s for part in parts for s in part.scores), S)


def block_profile_equations(
    plan: CovariancePlan, residuals: Residuals, theta: Array, label: str, *, smoothing: float, sandwich: bool
) -> ProfileEquations:
    """Profile equations of one experiment with block weighting.

    smoothing: factor on ε̂; 1 is the profile estimator, 0 the lagged one, between lies a path from one to the other.
    sandwich: whether to compute S.
    """
    structure, d = residuals.structure, residuals.d
    q, scores = np.zeros(structure.n_blocks), np.zeros((structure.n_blocks, d))
    V = np.zeros((structure.n_times, structure.n_state, d)) if sandwich else None
    parts = []
    for group, factor in factors(plan, residuals, theta, label):
        smoother = _Smoother(plan, residuals, theta, group, factor)
        logdet = factor.logdet()
        for blocks in _slabs(group.blocks, d):
            Z = smoother.smoothed(blocks, smoothing)
            white = factor.whiten(Z.reshape(len(Z), -1)).reshape(Z.shape)
            part = accumulate(white, np.zeros(d), len(blocks) * logdet)
            q[blocks] = part.q_blocks[0]
            scores[blocks] = np.einsum("nk,nki->ki", white[:, :, 0], white[:, :, 1:])
            parts.append(part)
            if V is not None:
                smoother.spread(blocks, Z[:, :, 1:], V)
    S = None if V is None else sum(V[j].T @ plan.noise_times(j, V[j]) for j in range(structure.n_times))
    return ProfileEquations(NormalEquations.total(parts, (q,)), (scores,), S)


class _Smoother:
    """Smoothing and its transpose for the blocks of one group, which share C, b and J."""

    def __init__(
        self, plan: CovariancePlan, residuals: Residuals, theta: Array, group: BlockGroup, factor: Factor
    ) -> None:
        self.plan, self.residuals, self.theta, self.factor = plan, residuals, theta, factor
        first = int(group.blocks[0])
        self.times, values = sensitivities(residuals, theta, first)
        self.b = stencil_row(residuals.structure, first)[2]
        self.C_transposed = [residuals.structure.pattern.matrix(c).T.tocsr() for c in values]
        r = residuals.residual(theta)[:, group.blocks]
        self.r = dict(zip(group.blocks.tolist(), r.T, strict=True))
        self.Wr = dict(zip(group.blocks.tolist(), factor.solve(r).T, strict=True))

    def smoothed(self, blocks: Integers, smoothing: float) -> Array:
        """[r, X̃] of some blocks, (N, blocks, 1 + d)."""
        Z = self.residuals.Z[:, blocks].copy()
        Z[:, :, 0] = np.stack([self.r[k] for k in blocks.tolist()], axis=1)
        Wr = np.stack([self.Wr[k] for k in blocks.tolist()], axis=1)
        for time, b, Ct in zip(self.times, self.b, self.C_transposed, strict=True):
            if b and smoothing:
                epsilon = self.plan.noise_times(int(time), Ct @ Wr)
                for i, J in enumerate(self.residuals.J):
                    Z[:, :, 1 + i] -= smoothing * b * J.apply(self.residuals.structure.pattern, int(time), epsilon)
        return Z

    def spread(self, blocks: Integers, X: Array, V: Array) -> None:
        """Add C_kjᵀ W_k X̃_k of some blocks to V_j, in place."""
        N, _, d = X.shape
        WX = self.factor.solve(np.ascontiguousarray(X).reshape(N, -1))
        rows = [stencil_row(self.residuals.structure, int(k))[0] for k in blocks]
        for m, Ct in enumerate(self.C_transposed):
            spread = (Ct @ WX).reshape(-1, len(blocks), d)
            for position, times in enumerate(rows):
                V[times[m]] += spread[:, position]


def _slabs(blocks: Integers, d: int) -> list[Integers]:
    size = max(1, _COLUMNS // (1 + d))
    return [blocks[start : start + size] for start in range(0, len(blocks), size)]
