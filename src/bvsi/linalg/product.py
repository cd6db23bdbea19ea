"""Sparse products on a fixed pattern: Σ_m A_m B_mᵀ, planned once, evaluated for many value sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.linalg import compiled
from bvsi.linalg.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Product:
    """``out = Σ_m A_m B_mᵀ`` with all A_m on one pattern and all B_m on another.

    Make it with :meth:`plan`.

    Parameters
    ----------
    left: pattern of the A_m, (n, k).
    right: pattern of the B_m, (p, k).
    out: pattern of the result, (n, p): every entry that can be nonzero, whatever the values.
    """

    left: Pattern
    right: Pattern
    out: Pattern

    @staticmethod
    def plan(left: Pattern, right: Pattern) -> Product:
        """Work out the pattern of A Bᵀ."""
        if left.shape[1] != right.shape[1]:
            raise BvsiError(f"A Bᵀ needs as many columns in A as in B; shapes {left.shape} and {right.shape}")
        # A product of ones cannot cancel, so SciPy keeps every structural entry.
        transposed, _ = right.transpose
        ones = left.matrix(np.ones(left.nnz)) @ transposed.matrix(np.ones(right.nnz))
        return Product(left, right, Pattern.from_matrix(ones))

    def values(self, left_values: ArrayLike, right_values: ArrayLike) -> NDArray[np.float64]:
        """Values of Σ_m A_m B_mᵀ on ``out``, (out.nnz,).

        Parameters
        ----------
        left_values: (m, left.nnz), or (left.nnz,) for one A.
        right_values: (m, right.nnz), or (right.nnz,) for one B.
        """
        A = _value_sets(left_values, self.left, "left_values")
        B = _value_sets(right_values, self.right, "right_values")
        if len(A) != len(B):
            raise BvsiError(f"left_values has {len(A)} value sets and right_values {len(B)}; they must agree")
        return self._compiled(A, B) if compiled.numba_available() else self._scipy(A, B)

    def _compiled(self, A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
        from bvsi.linalg.product_kernel import row_products

        transposed, order = self.right.transpose
        out = np.empty(self.out.nnz)
        row_products(
            (self.left.indptr, self.left.indices, A),
            (transposed.indptr, transposed.indices, np.ascontiguousarray(B[:, order])),
            (self.out.indptr, self.out.indices, out),
            self.out.shape[1],
        )
        return out

    def _scipy(self, A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
        transposed, order = self.right.transpose
        out = np.zeros(self.out.nnz)
        for a, b in zip(A, B, strict=True):
            # SciPy drops sums that cancel exactly; `gather` puts the rest back on the fixed pattern.
            out += self.out.gather(self.left.matrix(a) @ transposed.matrix(b[order]))
        return out


def _value_sets(values: ArrayLike, pattern: Pattern, name: str) -> NDArray[np.float64]:
    array = np.ascontiguousarray(values, dtype=np.float64)
    sets = array[None] if array.ndim == 1 else array
    if sets.ndim != 2 or sets.shape[1] != pattern.nnz:
        raise BvsiError(f"{name} must have shape (m, {pattern.nnz}) or ({pattern.nnz},); it is {array.shape}")
    return sets
