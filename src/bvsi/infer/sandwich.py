"""Covariance of an estimator from its estimating equations: H⁻¹ S H⁻¹.

S is the covariance of the score g = Σ_k g_k: from the noise model, or from the scores of the blocks themselves,

    S = Σ_{|l| ≤ L} (1 − |l|/(L+1)) Σ_k g_k g_{k+l}ᵀ        (Bartlett weights),

which also sees blocks where the discretisation fails.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SCORE_LAGS = 2
"""Blocks further apart than this share no data in the stencils at hand."""


def sandwich(inverse: Array, S: Array) -> Array:
    """H⁻¹ S H⁻¹, symmetric; inverse is H⁻¹."""
    covariance = inverse @ S @ inverse
    return np.asarray(0.5 * (covariance + covariance.T))


def score_covariance(scores: tuple[Array, ...], lags: int = SCORE_LAGS) -> Array:
    """S from the block scores of each experiment, (K, d) each."""
    d = scores[0].shape[1]
    total = np.zeros((d, d))
    for g in scores:
        total += g.T @ g
        for lag in range(1, min(lags, len(g) - 1) + 1):
            cross = g[lag:].T @ g[:-lag]
            total += (1 - lag / (lags + 1)) * (cross + cross.T)
    return total
