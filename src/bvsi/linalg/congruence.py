"""Matrices Aᵀ diag(c) B on a fixed pattern for many c at once, and the adjoint of that map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.linalg import compiled
from bvsi.linalg.pattern import Pattern

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Congruence:
    """``out_m = Aᵀ diag(c_m) B`` for A (q × n) and B (q × p) on patterns of their own; make it with :meth:`plan`.

    out: pattern of the result, (n × p): every entry that can be nonzero, whatever the values.
    """

    left: Pattern
    right: Pattern
    out: Pattern

    @staticmethod
    def plan(left: Pattern, right: Pattern) -> Congruence:
        """Work out the pattern of AᵀB."""
        if left.shape[0] != right.shape[0]:
            raise BvsiError(f"Aᵀ B needs as many rows in A as in B; shapes {left.shape} and {right.shape}")
        transposed, _ = left.transpose
        ones = transposed.matrix(np.ones(left.nnz)) @ right.matrix(np.ones(right.nnz))
        return Congruence(left, right, Pattern.from_matrix(ones))

    def values(self, A: Array, B: Array, c: Array) -> Array:
        """Aᵀ diag(c_m) B on ``out`` for values A (left.nnz,), B (right.nnz,) and c (q, m), (m, out.nnz)."""
        transposed, order = self.left.transpose
        if not compiled.numba_available():
            left, right = transposed.matrix(A[order]), self.right.matrix(B)
            return np.stack([self.out.gather(left.multiply(one[None]).tocsr() @ right) for one in c.T])
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
        if not compiled.numba_available():
            met = (self.left.matrix(A) @ self.out.matrix(G)).multiply(self.right.matrix(B))
            return np.asarray(met.sum(axis=1)).ravel()
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
