"""Cholesky factors of small dense matrices, scaled so that unknowns of different units do not spoil each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScaledCholesky:
    """H = S L Lᵀ S, S = diag(H)^½.

    scale: (d,) the diagonal of S; L: (d, d), lower triangular.
    """

    scale: Array
    L: Array

    def solve(self, g: Array) -> Array:
        """H⁻¹ g."""
        inner = scipy.linalg.cho_solve((self.L, True), g / self.scale)
        return np.asarray(inner / self.scale)

    def inverse(self) -> Array:
        """H⁻¹, symmetric."""
        inner = scipy.linalg.cho_solve((self.L, True), np.eye(len(self.scale)))
        inverse = inner / self.scale[:, None] / self.scale
        return np.asarray(0.5 * (inverse + inverse.T))

    def whiten_rows(self, A: Array) -> Array:
        """A S⁻¹ L⁻ᵀ, for rows A (m, d)."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, (A / self.scale).T, lower=True).T)
