"""Sparse products on a fixed pattern, planned once and evaluated for many value sets: Σ_m A_m B_mᵀ and Aᵀ diag(c) B."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError
from bvsi.linalg.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Product:
    """``out = Σ_m A_m B_mᵀ`` with all A_m on one pattern and all B_m on another.

    Make it with :meth:`plan`.

    Parameters
    ----------
    left: pattern of the A_m, (n, k).
    right: pattern of the B_m, (p, k).
    """

    left: Pattern
    right: Pattern

    @staticmethod
    def plan(left: Pattern, right: Pattern) -> Product:
        """A Bᵀ for matrices on two patterns; that of the product is computed when it is first asked for."""
        if left.shape[1] != right.shape[1]:
            raise BvsiError(f"A Bᵀ needs as many columns in A as in B; shapes {left.shape} and {right.shape}")
        return Product(left, right)

    @cached_property
    def out(self) -> Pattern:
        """Pattern of the result, (n, p): every entry that can be nonzero, whatever the values."""
        # A product of ones cannot cancel, so SciPy keeps every structural entry.
        transposed, _ = self.right.transpose
        ones = self.left.matrix(np.ones(self.left.nnz)) @ transposed.matrix(np.ones(self.right.nnz))
        return Pattern.from_matrix(ones)

    def values(self, left_values: ArrayLike, right_values: ArrayLike, *, symmetric: bool = False) -> Array:
        """Values of Σ_m A_m B_mᵀ on ``out``, (out.nnz,).

        Parameters
        ----------
        left_values: (m, left.nnz), or (left.nnz,) for one A.
        right_values: (m, right.nnz), or (right.nnz,) for one B.
        symmetric: half the price, where the result is known to be symmetric and its pattern is.
        """
        from bvsi.linalg.product_kernel import row_products, symmetric_row_products

        A, B = _value_sets(left_values, self.left, "left_values"), _value_sets(right_values, self.right, "right_values")
        if len(A) != len(B):
            raise BvsiError(f"left_values has {len(A)} value sets and right_values {len(B)}; they must agree")
        transposed, order = self.right.transpose
        left = (self.left.indptr, self.left.indices, A)
        right = (transposed.indptr, transposed.indices, B.take(order, axis=1))
        values = np.empty(self.out.nnz)
        out = (self.out.indptr, self.out.indices, values)
        if symmetric:
            symmetric_row_products(left, right, out, self.out.transpose[1])
        else:
            row_products(left, right, out, self.out.shape[1])
        return values

    def gradient(self, weights: ArrayLike, left_values: ArrayLike) -> Array:
        """``∂⟨W, Σ_m A_m B_mᵀ⟩/∂B_m = Wᵀ A_m`` on the pattern of the B_m, (m, right.nnz).

        Parameters
        ----------
        weights: W, (out.nnz,); entries off the pattern do not enter.
        left_values: (m, left.nnz), or (left.nnz,) for one A.
        """
        from bvsi.linalg.product_kernel import product_gradient

        A, W = _value_sets(left_values, self.left, "left_values"), _value_sets(weights, self.out, "weights")[0]
        (by_rows, order), (by_columns, columns_order) = self.out.transpose, self.left.transpose
        out = np.empty((len(A), self.right.nnz))
        product_gradient(
            (by_rows.indptr, by_rows.indices, W[order]),
            (by_columns.indptr, by_columns.indices, A.take(columns_order, axis=1)),
            (self.right.indptr, self.right.indices, out),
            self.out.shape[0],
        )
        return out


def _value_sets(values: ArrayLike, pattern: Pattern, name: str) -> Array:
    array = np.ascontiguousarray(values, dtype=np.float64)
    sets = array[None] if array.ndim == 1 else array
    if sets.ndim != 2 or sets.shape[1] != pattern.nnz:
        raise BvsiError(f"{name} must have shape (m, {pattern.nnz}) or ({pattern.nnz},); it is {array.shape}")
    return sets


@dataclass(frozen=True, eq=False)
class Congruence:
    """``out_m = Aᵀ diag(c_m) B`` for A (q × n) and B (q × p) on patterns of their own; make it with :meth:`plan`.

    Attributes
    ----------
    out
        Pattern of the result, (n × p): every entry that can be nonzero, whatever the values.
    """

    left: Pattern
    right: Pattern
    out: Pattern

    @staticmethod
    def plan(left: Pattern, right: Pattern) -> Congruence:
        """Find the pattern of AᵀB."""
        if left.shape[0] != right.shape[0]:
            raise BvsiError(f"Aᵀ B needs as many rows in A as in B; shapes {left.shape} and {right.shape}")
        transposed, _ = left.transpose
        ones = transposed.matrix(np.ones(left.nnz)) @ right.matrix(np.ones(right.nnz))
        return Congruence(left, right, Pattern.from_matrix(ones))

    def values(self, A: Array, B: Array, c: Array) -> Array:
        """Aᵀ diag(c_m) B on ``out`` for values A (left.nnz,), B (right.nnz,) and c (q, m), (m, out.nnz)."""
        transposed, order = self.left.transpose
        from bvsi.linalg.product_kernel import congruences

        result = np.empty((self.out.nnz, c.shape[1]))
        congruences(
            (transposed.indptr, transposed.indices, A[order]),
            (self.right.indptr, self.right.indices, np.ascontiguousarray(B)),
            np.ascontiguousarray(c),
            (self.out.indptr, self.out.indices, result),
            self.out.shape[1],
        )
        return np.ascontiguousarray(result.T)

    def adjoint(self, A: Array, B: Array, G: Array) -> Array:
        """(A G Bᵀ)_qq for values G (out.nnz,), (q,): ⟨G, Aᵀ diag(c) B⟩ is its inner product with c."""
        from bvsi.linalg.product_kernel import congruence_adjoint

        transposed, order = self.left.transpose
        result = np.zeros(self.left.shape[0])
        congruence_adjoint(
            (transposed.indptr, transposed.indices, A[order]),
            (self.right.indptr, self.right.indices, np.ascontiguousarray(B)),
            (self.out.indptr, self.out.indices, np.ascontiguousarray(G)),
            result,
            self.out.shape[1],
        )
        return result
