"""Entries of A⁻¹ on the structure of L + Lᵀ, by the Takahashi recursion; importing this imports Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvsi.linalg.blas import PLAIN, TRANSPOSED, gemm, potri, symm_left, trsm_right
from bvsi.linalg.jit import kernel


@kernel
def takahashi(structure: Any, L: Any, blas: Any) -> Any:
    """``Z = (L Lᵀ)⁻¹`` at the places of L, from the last supernode to the first.

    With J the columns of a supernode and R the rows below it:

        Y = L_RJ L_JJ⁻¹        Z_RJ = −Z_RR Y        Z_JJ = (L_JJ L_JJᵀ)⁻¹ − Yᵀ Z_RJ

    Z_RR is known by then: the rows R of a supernode are all in the structure of the supernodes that own them.

    Parameters
    ----------
    structure: ``Symbolic.structure``.
    L: values of the factor.
    blas: addresses.

    Returns
    -------
    Z in the layout of L; the strict upper triangles of the diagonal blocks hold nothing of use.
    """
    first, _, row_start, rows, value_start = structure
    n_super = len(first) - 1
    owner = np.empty(first[n_super], np.int64)
    most = 0
    for J in range(n_super):
        owner[first[J] : first[J + 1]] = J
        most = max(most, row_start[J + 1] - row_start[J] - first[J + 1] + first[J])
    Z = L.copy()
    Z_RR = np.empty(most * most)
    position = np.empty(most, np.int64)
    info = np.zeros(1, np.int32)
    for J in range(n_super - 1, -1, -1):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = Z[value_start[J] : value_start[J + 1]]
        if m == 0:
            potri(blas, n_columns, block, n_rows, info)
            continue
        Y = np.empty(m * n_columns)
        for c in range(n_columns):
            Y[c * m : (c + 1) * m] = block[c * n_rows + n_columns : (c + 1) * n_rows]
        trsm_right(blas, PLAIN, m, n_columns, block, n_rows, Y, m)
        below = rows[row_start[J] + n_columns : row_start[J + 1]]
        _gather(structure, owner, below, Z, position, Z_RR)
        Z_RJ = block[n_columns:]
        symm_left(blas, m, n_columns, -1.0, Z_RR, m, Y, m, 0.0, Z_RJ, n_rows)
        potri(blas, n_columns, block, n_rows, info)
        gemm(blas, TRANSPOSED, PLAIN, n_columns, n_columns, m, -1.0, Y, m, Z_RJ, n_rows, 1.0, block, n_rows)
    return Z


@kernel
def _gather(structure: Any, owner: Any, below: Any, Z: Any, position: Any, Z_RR: Any) -> None:
    """Lower triangle of Z on the rows and columns ``below``, (m, m) by columns."""
    first, _, row_start, rows, value_start = structure
    m = len(below)
    begin = 0
    while begin < m:
        # The columns below[begin:end] belong to one supernode K; find all later rows in its structure once.
        K = owner[below[begin]]
        end = begin
        while end < m and below[end] < first[K + 1]:
            end += 1
        q = row_start[K]
        for r in range(begin, m):
            while rows[q] < below[r]:
                q += 1
            position[r] = q - row_start[K]
        n_rows = row_start[K + 1] - row_start[K]
        for c in range(begin, end):
            source = value_start[K] + (below[c] - first[K]) * n_rows
            for r in range(c, m):
                Z_RR[c * m + r] = Z[source + position[r]]
        begin = end
