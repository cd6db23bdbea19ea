"""Weighted normal equations, accumulated over blocks and experiments.

    H = XᵀWX        g = XᵀWr(θ)        q = r(θ)ᵀWr(θ)

Working with r(θ) instead of y keeps all digits: the update is ``θ + H⁻¹g``, and q has no cancellation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.residual.system import residual_weights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal equations at one θ.

    H: (d, d); g: (d,); q: per experiment and block, tuple of (K,); logdet: log det Σ summed over blocks;
    n: residuals used.
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
        return NormalEquations(
            np.sum([part.H for part in parts], axis=0),
            np.sum([part.g for part in parts], axis=0),
            q_blocks,
            sum(part.logdet for part in parts),
            sum(part.n for part in parts),
        )

    @property
    def q(self) -> float:
        """rᵀWr."""
        return float(sum(q.sum() for q in self.q_blocks))

    def moved(self, step: Array) -> NormalEquations:
        """The equations at θ + step with the same W; q by block is scaled to the new total."""
        q = self.q - 2 * self.g @ step + step @ self.H @ step
        scale = q / self.q if self.q > 0 else 1.0
        return replace(self, g=self.g - self.H @ step, q_blocks=tuple(scale * b for b in self.q_blocks))


def accumulate(Z: Array, theta: Array, n: int, logdet: float = 0.0) -> NormalEquations:
    """Normal equations of whitened columns Z = R [y, X], (N, K, 1 + d) in C order, of n residuals that are used."""
    N, K, m = Z.shape
    flat = Z.reshape(-1, m)
    r = flat @ residual_weights(theta)
    H = flat.T @ flat
    q = np.square(r.reshape(N, K)).sum(axis=0)
    return NormalEquations(H[1:, 1:], (flat.T @ r)[1:], (q,), logdet, n)
