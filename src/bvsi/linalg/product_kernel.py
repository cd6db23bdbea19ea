"""Numba kernel of :mod:`bvsi.linalg.pattern`; importing this module imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvsi.linalg.blas import kernel


@kernel
def row_products(left: Any, right: Any, out: Any, columns: int) -> None:
    """``out = Σ_m A_m B_m`` row by row: scatter into a dense work row, then read it off on the fixed pattern.

    Parameters
    ----------
    left: (indptr, indices, values (m, nnz)) of the A_m by rows.
    right: the same of the B_m (already transposed, so that their rows run along the columns of the result).
    out: (indptr, indices, values (nnz,)); the values are overwritten.
    columns: number of columns of the result.
    """
    left_start, left_column, A = left
    right_start, right_column, B = right
    out_start, out_column, result = out
    work = np.zeros(columns)
    for row in range(len(out_start) - 1):
        for m in range(A.shape[0]):
            for e in range(left_start[row], left_start[row + 1]):
                a = A[m, e]
                inner = left_column[e]
                for f in range(right_start[inner], right_start[inner + 1]):
                    work[right_column[f]] += a * B[m, f]
        for slot in range(out_start[row], out_start[row + 1]):
            result[slot] = work[out_column[slot]]
            work[out_column[slot]] = 0.0  # ready for the next row; every touched entry is on the pattern


@kernel
def symmetric_row_products(left: Any, right: Any, out: Any, mirror: Any) -> None:
    """The same for a symmetric result: entries on and above the diagonal, each written to its mirror image too.

    Parameters
    ----------
    left, right, out: as for :func:`row_products`; columns are ascending in every row.
    mirror: (nnz,) slot of the transposed entry.
    """
    left_start, left_column, A = left
    right_start, right_column, B = right
    out_start, out_column, result = out
    n = len(out_start) - 1
    work = np.zeros(n)
    begin = right_start[:-1].copy()  # first entry of every row of B on or above the diagonal; it only moves on
    for row in range(n):
        for e in range(left_start[row], left_start[row + 1]):
            inner = left_column[e]
            while begin[inner] < right_start[inner + 1] and right_column[begin[inner]] < row:
                begin[inner] += 1
        for m in range(A.shape[0]):
            for e in range(left_start[row], left_start[row + 1]):
                a = A[m, e]
                if a != 0.0:  # zero between two fields, in the mass matrix and where an equation reads only one
                    for f in range(begin[left_column[e]], right_start[left_column[e] + 1]):
                        work[right_column[f]] += a * B[m, f]
        for slot in range(out_start[row], out_start[row + 1]):
            column = out_column[slot]
            if column >= row:
                result[slot] = work[column]
                result[mirror[slot]] = work[column]
                work[column] = 0.0


@kernel
def product_gradient(weights: Any, left: Any, right: Any, inner: int) -> None:
    """``G_m = Wᵀ A_m`` on the pattern of the B_m: a row of Wᵀ is laid out densely and multiplied with columns of A_m.

    Parameters
    ----------
    weights: (indptr, indices, values (nnz,)) of Wᵀ by rows.
    left: (indptr, indices, values (m, nnz)) of the A_m by columns.
    right: (indptr, indices, values (m, nnz)) of G by rows; the values are overwritten.
    inner: number of columns of Wᵀ.
    """
    weight_start, weight_column, W = weights
    left_start, left_row, A = left
    right_start, right_column, G = right
    work = np.zeros(inner)
    for row in range(len(right_start) - 1):
        for e in range(weight_start[row], weight_start[row + 1]):
            work[weight_column[e]] = W[e]
        for m in range(A.shape[0]):
            for slot in range(right_start[row], right_start[row + 1]):
                column = right_column[slot]
                total = 0.0
                for f in range(left_start[column], left_start[column + 1]):
                    total += work[left_row[f]] * A[m, f]
                G[m, slot] = total
        for e in range(weight_start[row], weight_start[row + 1]):
            work[weight_column[e]] = 0.0


@kernel
def congruences(left: Any, right: Any, c: Any, out: Any, columns: int) -> None:
    """``out_m = Aᵀ diag(c_m) B`` row by row, all m side by side: scatter into dense work rows, then read them off.

    Parameters
    ----------
    left: (indptr, indices, values (nnz,)) of Aᵀ by rows; right: the same of B.
    c: (q, m) in C order.
    out: (indptr, indices, values (nnz, m)); the values are overwritten.
    columns: number of columns of the result.
    """
    left_start, left_column, A = left
    right_start, right_column, B = right
    out_start, out_column, result = out
    m = c.shape[1]
    work = np.zeros((columns, m))
    for row in range(len(out_start) - 1):
        for e in range(left_start[row], left_start[row + 1]):
            q = left_column[e]
            for f in range(right_start[q], right_start[q + 1]):
                product = A[e] * B[f]
                column = right_column[f]
                for i in range(m):
                    work[column, i] += product * c[q, i]
        for slot in range(out_start[row], out_start[row + 1]):
            column = out_column[slot]
            for i in range(m):
                result[slot, i] = work[column, i]
                work[column, i] = 0.0


@kernel
def congruence_adjoint(left: Any, right: Any, weights: Any, out: Any, columns: int) -> None:
    """``out_q += Σ_ij A_qi G_ij B_qj``: a row of G is laid out densely and met by the points that its function reaches.

    Parameters
    ----------
    left, right: as for :func:`congruences`.
    weights: (indptr, indices, values (nnz,)) of G by rows.
    out: (q,), added to.
    columns: number of columns of G.
    """
    left_start, left_column, A = left
    right_start, right_column, B = right
    weight_start, weight_column, G = weights
    work = np.zeros(columns)
    for row in range(len(weight_start) - 1):
        for slot in range(weight_start[row], weight_start[row + 1]):
            work[weight_column[slot]] = G[slot]
        for e in range(left_start[row], left_start[row + 1]):
            q = left_column[e]
            total = 0.0
            for f in range(right_start[q], right_start[q + 1]):
                total += B[f] * work[right_column[f]]
            out[q] += A[e] * total
        for slot in range(weight_start[row], weight_start[row + 1]):
            work[weight_column[slot]] = 0.0
