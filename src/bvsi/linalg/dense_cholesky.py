"""Cholesky factor of a matrix that is mostly full, by LAPACK: no pattern, no symbolic analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack, solve_triangular

from bvsi.errors import NotPositiveDefiniteError
from bvsi.linalg.factor import as_columns, check_pivots, not_positive_definite
from bvsi.linalg.pattern import Pattern

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DenseFactor:
    """``A = UᵀU``; U (n, n) upper triangular, in Fortran order.

    pattern: makes the pattern on which the inverse is wanted.
    """

    U: Array
    pattern: Callable[[], Pattern]

    @staticmethod
    def of(A: Array, pattern: Callable[[], Pattern], *, label: str = "matrix") -> DenseFactor:
        """Factorise A (n, n) in C order, in place; its lower triangle is read. Errors are those of sparse back ends."""
        diagonal = A.diagonal().copy()
        finite = np.isfinite(diagonal)
        if not finite.all():
            row = int(finite.argmin())
            raise NotPositiveDefiniteError(
                f"{label}: entries are NaN or infinite, the first in row {row}. "
                "Look for NaN in the data, for overflow, or for coefficients that have diverged.",
                label,
                row,
            )
        U, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        if info > 0:
            raise not_positive_definite(label, info - 1, float(diagonal[info - 1]))
        check_pivots(U.diagonal() ** 2, diagonal, np.arange(len(A)), label)
        return DenseFactor(U, pattern)

    @property
    def backend(self) -> str:
        """``dense``."""
        return "dense"

    def logdet(self) -> float:
        """``2 Σ_i log U_ii``."""
        return float(2.0 * np.log(self.U.diagonal()).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B``."""
        columns = as_columns(B, len(self.U))
        X, _ = lapack.dpotrs(self.U, columns, lower=0)
        return np.asarray(np.ascontiguousarray(X).reshape(np.shape(B)))

    def whiten(self, B: ArrayLike) -> Array:
        """``U⁻ᵀ B``."""
        whitened = solve_triangular(self.U, as_columns(B, len(self.U)), trans="T", check_finite=False)
        return np.asarray(np.ascontiguousarray(whitened).reshape(np.shape(B)))

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``U⁻¹ Y``."""
        solved = solve_triangular(self.U, as_columns(Y, len(self.U)), check_finite=False)
        return np.asarray(np.ascontiguousarray(solved).reshape(np.shape(Y)))

    def gram(self, B: ArrayLike) -> Array:
        """``BᵀA⁻¹B``."""
        whitened = self.whiten(as_columns(B, len(self.U)))
        return np.asarray(whitened.T @ whitened)

    def selected_inverse(self) -> Array:
        """Entries of A⁻¹ on the pattern."""
        pattern = self.pattern()
        inverse, _ = lapack.dpotri(self.U, lower=0)
        rows, columns = np.minimum(pattern.rows, pattern.indices), np.maximum(pattern.rows, pattern.indices)
        return np.asarray(inverse[rows, columns])
