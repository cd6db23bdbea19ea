"""Kernels of Stein's method on particles near N(0, I): the direction that moves them, and how far they are.

    φ(x) = 1/n Σ_j [κ(x_j, x) s_j + ∇_{x_j} κ(x_j, x)],      s_j = ∇ log p(x_j)                      (eq:SVGD)
    KSD² = ‖φ‖² = 1/n² Σ_ij [κ s_iᵀs_j + s_iᵀ∇_j κ + s_jᵀ∇_i κ + tr ∇_i∇_j κ]

    κ(x, y) = exp(−|x − y|²/h) + c (1 + (x − x̄)ᵀ(y − x̄)),      h = median |x_i − x_j|²

The linear part makes mean and covariance right: at φ = 0 it asks that Σ s_j = 0 and Σ s_j (x_j − x̄)ᵀ = −n I, which are
identities of p. Without it the particles are too close together, the more so the fewer they are for the dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MedianRBF:
    """The kernel above.

    linear: c; 0 is the plain radial kernel of the paper.
    """

    linear: float = 0.3

    def __post_init__(self) -> None:
        if not (np.isfinite(self.linear) and self.linear >= 0):
            raise BvsiError(f"linear: a number that is not negative is needed, such as 0.3; got {self.linear}.")

    def independent(self, x: Array) -> float:
        """E[KSD²] of as many independent draws of N(0, I): 1/n (k + 2k/h + c (k² + 2k)), with the h of x (n, k)."""
        n, k = x.shape
        return float((k + 2 * k / max(_distances(x)[1], 1.0) + self.linear * (k * k + 2 * k)) / n)

    def direction(self, x: Array, s: Array) -> tuple[Array, float]:
        """φ (n, k) at all particles x (n, k) with scores s (n, k), and KSD²."""
        n, k = x.shape
        D, h = _distances(x)
        K = np.exp(-D / h)
        phi = (K @ s + (2 / h) * (x * K.sum(axis=1)[:, None] - K @ x)) / n
        pull = (2 / h) * (np.einsum("ik,ik->i", s, x)[:, None] - s @ x.T)
        ksd2 = max(0.0, float(np.mean(K * (s @ s.T + pull + pull.T + 2 * k / h - 4 * D / h**2))))
        if not self.linear:
            return phi, ksd2
        y = x - x.mean(axis=0)
        moments = s.T @ y / n + np.eye(k)
        phi += self.linear * (s.mean(axis=0) + y @ moments.T)
        return phi, ksd2 + self.linear * (float(np.square(moments).sum()) + float(np.square(s.mean(axis=0)).sum()))


def _distances(x: Array) -> tuple[Array, float]:
    """|x_i − x_j|² (n, n), and their median."""
    y = x - x.mean(axis=0)  # digits would be lost far from the origin
    squares = np.square(y).sum(axis=1)
    D = np.maximum(squares[:, None] + squares - 2 * y @ y.T, 0.0)
    return D, max(float(np.median(D[np.triu_indices(len(x), 1)])), np.finfo(float).tiny)


def variance_shortfall(x: Array, s: Array) -> float:
    """1 + 1/(nk) Σ_j s_jᵀ(x_j − x̄): zero by Stein's identity, v − 1 short for N(0, I) and particles of variance v."""
    n, k = x.shape
    return float(1.0 + np.vdot(s, x - x.mean(axis=0)) / (n * k))
