"""Numeric kernels on the supernodal structure of an analysis: factor, solves, selected inverse.

Importing this module imports Numba.

Kernels work on arrays that the caller allocates for them: nothing is shared between calls, so several threads may use
one symbolic analysis. They run without the interpreter lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Integers
from bvsi.linalg.blas import PLAIN, TRANSPOSED, gemm, kernel, part, potrf, potri, symm_left, syrk, trsm_right


def work_space(first: Integers, stack_size: int) -> tuple[NDArray[Any], ...]:
    """What :func:`factorise` works on: allocated here, since to compile allocations takes as long as to compile loops.

    ``stack`` has the update matrices, and ``place`` says where on it they are; ``position`` is that of a row within a
    supernode, ``target`` that of a row of its child; the children are a linked list (child, sibling).
    """
    n, total = int(first[-1]), len(first) - 1
    position, target, place = (np.empty(size, np.int64) for size in (n, n, total))
    child, sibling = (np.full(total, -1, np.int64) for _ in range(2))
    return np.empty(stack_size), position, target, child, sibling, place, np.zeros(1, np.int32)


@kernel
def factorise(structure: Any, L: Any, work: Any, blas: Any) -> Any:
    """``A = L Lᵀ`` in place by the multifrontal method.

    Every supernode J adds up its part of A and the update matrices of its children, factorises its diagonal
    block, and passes ``U_J = Σ_children U − L_below L_belowᵀ`` on to its parent. Children are eliminated
    right before their parent, so the update matrices live on a stack.

    Parameters
    ----------
    structure: ``Analysis.structure``.
    L: values; on entry the lower triangle of A at its places and zero elsewhere, on return the factor.
    work: (stack, position and target (n,), child, sibling and place (n_super,), info (1,)), see :func:`work_space`.
    blas: addresses.

    Returns
    -------
    −1, or the row (in the order of L) whose pivot is not positive.
    """
    first, parent, row_start, rows, value_start = structure
    stack, position, target, child, sibling, place, info = work
    top = 0
    for J in range(len(first) - 1):
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
            for r in range(len(below)):
                target[r] = position[below[r]]
            _extend_add(child_update, len(below), target, block, n_rows, n_columns, update)
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


@part
def _extend_add(
    child_update: Any, m_child: int, target: Any, block: Any, n_rows: int, n_columns: int, update: Any
) -> None:
    """Add a child's update matrix to its parent, at the rows ``target``: to columns of L, or to the parent's update."""
    m = n_rows - n_columns
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
def solve_lower(structure: Any, L: Any, X: Any, k: int, work: Any, blas: Any) -> None:
    """``X ← L⁻¹ X`` in place, X (n·k,) with rows of k values: for BLAS that is Xᵀ (k, n), stored by columns.

    ``work`` has k values for each of the most rows below a supernode.
    """
    first, _, row_start, rows, value_start = structure
    for J in range(len(first) - 1):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = L[value_start[J] : value_start[J + 1]]
        own = X[first[J] * k :]
        trsm_right(blas, TRANSPOSED, k, n_columns, block, n_rows, own, k)
        if m > 0:
            gemm(blas, PLAIN, TRANSPOSED, k, m, n_columns, 1.0, own, k, block[n_columns:], n_rows, 0.0, work, k)
            for r in range(m):
                target = rows[row_start[J] + n_columns + r] * k
                for c in range(k):
                    X[target + c] -= work[r * k + c]


@kernel
def solve_upper(structure: Any, L: Any, X: Any, k: int, work: Any, blas: Any) -> None:
    """``X ← L⁻ᵀ X`` in place, X and work as for :func:`solve_lower`."""
    first, _, row_start, rows, value_start = structure
    for J in range(len(first) - 2, -1, -1):
        n_columns = first[J + 1] - first[J]
        n_rows = row_start[J + 1] - row_start[J]
        m = n_rows - n_columns
        block = L[value_start[J] : value_start[J + 1]]
        own = X[first[J] * k :]
        if m > 0:
            for r in range(m):
                source = rows[row_start[J] + n_columns + r] * k
                for c in range(k):
                    work[r * k + c] = X[source + c]
            gemm(blas, PLAIN, PLAIN, k, n_columns, m, -1.0, work, k, block[n_columns:], n_rows, 1.0, own, k)
        trsm_right(blas, PLAIN, k, n_columns, block, n_rows, own, k)


@kernel
def takahashi(structure: Any, L: Any, blas: Any) -> Any:
    """``Z = (L Lᵀ)⁻¹`` at the places of L, from the last supernode to the first.

    With J the columns of a supernode and R the rows below it::

        Y = L_RJ L_JJ⁻¹        Z_RJ = −Z_RR Y        Z_JJ = (L_JJ L_JJᵀ)⁻¹ − Yᵀ Z_RJ

    Z_RR is known by then: the rows R of a supernode are all in the structure of the supernodes that own them.

    Parameters
    ----------
    structure: ``Analysis.structure``.
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


@part
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
