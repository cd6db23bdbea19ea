"""Numba kernel of :mod:`bvsi.linalg.product`; importing this module imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
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
