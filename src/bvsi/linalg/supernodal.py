"""Numeric kernels on the supernodal structure of :mod:`bvsi.linalg.symbolic`; importing this imports Numba.

All kernels work on arrays that the caller allocates or that they allocate themselves: nothing is shared
between calls, so several threads may use one symbolic analysis. They run without the interpreter lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bvsi.linalg.blas import PLAIN, TRANSPOSED, gemm, potrf, syrk, trsm_right
from bvsi.linalg.jit import kernel


@kernel
def factorise(structure: Any, L: Any, stack_size: int, blas: Any) -> Any:
    """``A = L Lᵀ`` in place by the multifrontal method.

    Every supernode J adds up its part of A and the update matrices of its children, factorises its diagonal
    block, and passes ``U_J = Σ_children U − L_below L_belowᵀ`` on to its parent. Children are eliminated
    right before their parent, so the update matrices live on a stack.

    Parameters
    ----------
    structure: ``Symbolic.structure``.
    L: values; on entry the lower triangle of A at its places and zero elsewhere, on return the factor.
    stack_size: ``Symbolic.stack_size``.
    blas: addresses.

    Returns
    -------
    −1, or the row (in the order of L) whose pivot is not positive.
    """
    first, parent, row_start, rows, value_start = structure
    n_super = len(first) - 1
    stack = np.empty(stack_size)
    position = np.empty(first[n_super], np.int64)  # of a row within the current supernode
    child = np.full(n_super, -1, np.int64)
    sibling = np.full(n_super, -1, np.int64)
    place = np.empty(n_super, np.int64)  # of every waiting update matrix on the stack
    info = np.zeros(1, np.int32)
    top = 0
    for J in range(n_super):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = L[value_start[J] : value_start[J + 1]]
        update = stack[top : top + m * m]
        base = top  # where the updates of the children begin
        has_children = child[J] != -1
        if has_children:
            update[:] = 0.0
            for q in range(n_rows):
                position[rows[row_start[J] + q]] = q
        C = child[J]
        while C != -1:
            base = min(base, place[C])
            below = rows[row_start[C] + first[C + 1] - first[C] : row_start[C + 1]]
            child_update = stack[place[C] : place[C] + len(below) * len(below)]
            _extend_add(child_update, below, position, block, n_rows, n_columns, update)
            C = sibling[C]
        potrf(blas, n_columns, block, n_rows, info)
        if info[0] != 0:
            return first[J] + info[0] - 1
        top = base
        if m > 0:
            panel = block[n_columns:]
            trsm_right(blas, TRANSPOSED, m, n_columns, block, n_rows, panel, n_rows)
            syrk(blas, m, n_columns, -1.0, panel, n_rows, 1.0 if has_children else 0.0, update, m)
            if has_children:
                # Down over the children's updates, which are used up. Forward copying is safe: base ≤ place.
                for k in range(m * m):
                    stack[base + k] = update[k]
            place[J] = base
            top = base + m * m
            sibling[J] = child[parent[J]]
            child[parent[J]] = J
    return -1


@kernel
def _extend_add(
    child_update: Any, below: Any, position: Any, block: Any, n_rows: int, n_columns: int, update: Any
) -> None:
    """Add a child's update matrix to its parent: to the columns of L, or to the parent's own update."""
    m_child = len(below)
    m = n_rows - n_columns
    target = np.empty(m_child, np.int64)
    for r in range(m_child):
        target[r] = position[below[r]]
    for c in range(m_child):
        column = target[c]
        source = c * m_child
        if column < n_columns:
            offset = column * n_rows
            for r in range(c, m_child):
                block[offset + target[r]] += child_update[source + r]
        else:
            offset = (column - n_columns) * m - n_columns
            for r in range(c, m_child):
                update[offset + target[r]] += child_update[source + r]


@kernel
def solve_lower(structure: Any, L: Any, X: Any, blas: Any) -> None:
    """``X ← L⁻¹ X`` in place, X (n, k) in C order: for BLAS that is Xᵀ (k, n), stored by columns."""
    first, _, row_start, rows, value_start = structure
    k = X.shape[1]
    flat = X.reshape(-1)
    work = np.empty(_most_rows_below(first, row_start) * k)
    for J in range(len(first) - 1):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = L[value_start[J] : value_start[J + 1]]
        own = flat[first[J] * k :]
        trsm_right(blas, TRANSPOSED, k, n_columns, block, n_rows, own, k)
        if m > 0:
            gemm(blas, PLAIN, TRANSPOSED, k, m, n_columns, 1.0, own, k, block[n_columns:], n_rows, 0.0, work, k)
            for r in range(m):
                target = rows[row_start[J] + n_columns + r] * k
                for c in range(k):
                    flat[target + c] -= work[r * k + c]


@kernel
def solve_upper(structure: Any, L: Any, X: Any, blas: Any) -> None:
    """``X ← L⁻ᵀ X`` in place, X (n, k) in C order."""
    first, _, row_start, rows, value_start = structure
    k = X.shape[1]
    flat = X.reshape(-1)
    work = np.empty(_most_rows_below(first, row_start) * k)
    for J in range(len(first) - 2, -1, -1):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = L[value_start[J] : value_start[J + 1]]
        own = flat[first[J] * k :]
        if m > 0:
            for r in range(m):
                source = rows[row_start[J] + n_columns + r] * k
                for c in range(k):
                    work[r * k + c] = flat[source + c]
            gemm(blas, PLAIN, PLAIN, k, n_columns, m, -1.0, work, k, block[n_columns:], n_rows, 1.0, own, k)
        trsm_right(blas, PLAIN, k, n_columns, block, n_rows, own, k)


@kernel
def _most_rows_below(first: Any, row_start: Any) -> Any:
    largest = 0
    for J in range(len(first) - 1):
        largest = max(largest, row_start[J + 1] - row_start[J] - first[J + 1] + first[J])
    return largest
