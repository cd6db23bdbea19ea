"""Weighted normal equations, accumulated over blocks and experiments.

    H = XᵀWX        g = XᵀWr(θ)        q = r(θ)ᵀWr(θ)

Working with r(θ) instead of y keeps all digits: the update is ``θ + H⁻¹g``, and q has no cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal equations at one θ.

    H: (d, d); g: (d,); q: per experiment and block, tuple of (K,); logdet: log det Σ summed over blocks; n: residuals.
    """

    H: Array
    g: Array
    q_blocks: tuple[Array, ...]
    logdet: float
    n: int

    @property
    def q(self) -> float:
        """rᵀWr."""
        return float(sum(q.sum() for q in self.q_blocks))

    def moved(self, step: Array) -> float:
        """rᵀWr at θ + step with the same W: q − 2 gᵀstep + stepᵀ H step."""
        return float(self.q - 2 * self.g @ step + step @ self.H @ step)


def gram(columns: Array) -> tuple[Array, Array]:
    """Gram matrix of whitened columns [r, X], summed over rows and blocks.

    columns: (N, K, 1 + d). Returns (1+d, 1+d), and rᵀr by block (K,).
    """
    flat = columns.reshape(-1, columns.shape[2])
    return flat.T @ flat, np.einsum("nk,nk->k", columns[:, :, 0], columns[:, :, 0])
