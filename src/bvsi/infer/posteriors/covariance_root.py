"""Square roots of covariances, also of singular ones, whatever the units of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-14
"""Eigenvalues of the correlation matrix below this part of the largest are rounding."""
OFF_SUBSPACE = 1e-9
"""Distance from the affine subspace, in standard deviations, that still counts as rounding."""
ROUNDING = 16 * np.finfo(np.float64).eps
"""The same, in parts of the coefficient."""


@dataclass(frozen=True, eq=False)
class CovarianceRoot:
    """Σ = R Rᵀ with R (d, k) of full rank k ≤ d, and R⁺ = left inverse of R (k, d).

    R = S V Λ^½ and R⁺ = Λ^-½ Vᵀ S⁻¹, where S = diag(Σ)^½ and S⁻¹ΣS⁻¹ = V Λ Vᵀ without the eigenvalues that vanish.
    """

    R: Array
    inverse: Array

    @property
    def rank(self) -> int:
        """The number k of directions with variance."""
        return int(self.R.shape[1])

    @property
    def logdet(self) -> float:
        """log det RᵀR: of Σ, or the product of its positive eigenvalues where it is singular."""
        # rows by size and pivoted columns keep small units from drowning in large ones
        rows = np.argsort(-np.abs(self.R).max(axis=1, initial=0.0))
        diagonal = np.diag(scipy.linalg.qr(self.R[rows], mode="r", pivoting=True)[0])
        return 2 * float(np.log(np.abs(diagonal)).sum())

    def distance(self, theta: Array, mean: Array) -> float:
        """δᵀΣ⁺δ with δ = θ − mean; infinite where δ does not lie in the range of Σ."""
        offset = theta - mean
        white = self.inverse @ offset
        sd = np.linalg.norm(self.R, axis=1)
        scaled = np.abs(np.divide(offset, sd, out=np.zeros_like(offset), where=sd > 0)).max(initial=0.0)
        allowed = OFF_SUBSPACE * (1 + scaled) * sd + ROUNDING * (np.abs(theta) + np.abs(mean))
        return float(white @ white) if np.all(np.abs(offset - self.R @ white) <= allowed) else np.inf


def covariance_root(covariance: Array) -> CovarianceRoot:
    """The root of a covariance (d, d); one row and column of zeros is a coefficient that is known."""
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0, sd, 1.0)
    eigenvalues, V = np.linalg.eigh(covariance / scale[:, None] / scale)
    V = V * _signs(V)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues.max(initial=0.0)
    root = np.sqrt(eigenvalues[kept])
    return CovarianceRoot(scale[:, None] * V[:, kept] * root, V[:, kept].T / root[:, None] / scale)


def _signs(V: Array) -> Array:
    """±1 for every column (d,): with it the first entry that is not small is positive.

    Eigenvectors have any sign, and rounding decides which; draws of a covariance should not depend on that.
    """
    if not V.size:
        return np.ones(V.shape[1])
    first = np.argmax(np.abs(V) > 0.5 * np.abs(V).max(axis=0, initial=0.0), axis=0)
    return np.asarray(np.where(np.take_along_axis(V, first[None], axis=0)[0] < 0, -1.0, 1.0))
