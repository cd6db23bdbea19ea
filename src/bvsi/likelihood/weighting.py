"""Weightings: which part of the residual covariance the likelihood keeps.

isotropic  W = I                                classical VSI
block      W = blockdiag(Σ_kk(θ))⁻¹             the paper (eq:block_diagonal_residual_covariance)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import CovariancePlan, factors, plan_covariance
from bvsi.likelihood.noise import Noise
from bvsi.likelihood.normal_equations import NormalEquations, gram
from bvsi.linalg import Backend, Factor
from bvsi.residual import Residuals, Structure

Array = NDArray[np.float64]

# Columns whitened at once; the linear algebra works in blocks of this size anyway.
_COLUMNS = 64


class Weighting(Protocol):
    """A choice of W."""

    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan | None:
        """What can be prepared before θ is known."""

    def normal_equations(
        self, plan: CovariancePlan | None, residuals: Residuals, theta: Array, label: str
    ) -> NormalEquations:
        """H, g and q of one experiment at θ."""


@dataclass(frozen=True)
class Isotropic:
    """W = I: every residual counts alike (sec:discussion_VSI_likelihood)."""

    def plan(self, structure: Structure, noise: Noise) -> None:
        """Nothing to prepare."""
        del structure, noise

    def normal_equations(
        self, plan: CovariancePlan | None, residuals: Residuals, theta: Array, label: str
    ) -> NormalEquations:
        """XᵀX, Xᵀr and rᵀr."""
        del plan, label
        r = residuals.residual(theta)
        flat = residuals.X.reshape(-1, residuals.X.shape[2])
        q = np.einsum("nk,nk->k", r, r)
        return NormalEquations(flat.T @ flat, flat.T @ r.ravel(), (q,), 0.0, residuals.n)


@dataclass(frozen=True)
class Block:
    """W = blockdiag(Σ_kk(θ))⁻¹: noise propagated within each time block, correlation between blocks left out.

    backend: Cholesky engine; by default the fastest available.
    """

    backend: Backend | None = None

    def plan(self, structure: Structure, noise: Noise) -> CovariancePlan:
        """Patterns, products and symbolic factorisation."""
        return plan_covariance(structure, noise, self.backend)

    def normal_equations(
        self, plan: CovariancePlan | None, residuals: Residuals, theta: Array, label: str
    ) -> NormalEquations:
        """One factorisation per distinct covariance, one half solve per column."""
        assert plan is not None
        d = len(theta)
        total = np.zeros((1 + d, 1 + d))
        q = np.zeros(residuals.structure.n_blocks)
        logdet = 0.0
        for group, factor in factors(plan, residuals, theta, label):
            logdet += len(group.blocks) * factor.logdet()
            size = max(1, _COLUMNS // (1 + d))
            for start in range(0, len(group.blocks), size):
                blocks = group.blocks[start : start + size]
                products, by_block = gram(_whitened(factor, residuals, theta, blocks))
                total += products
                q[blocks] = by_block
        return NormalEquations(total[1:, 1:], total[1:, 0], (q,), logdet, residuals.n)


def _whitened(factor: Factor, residuals: Residuals, theta: Array, blocks: NDArray[np.int64]) -> Array:
    """R [r, X] for some blocks, (N, blocks, 1 + d), RᵀR = W."""
    N, d = residuals.structure.n_rows, len(theta)
    X = residuals.X[:, blocks]
    columns = np.empty((N, len(blocks), 1 + d))
    columns[:, :, 1:] = X
    columns[:, :, 0] = residuals.y[:, blocks] - X @ theta
    return factor.whiten(columns.reshape(N, -1)).reshape(columns.shape)
