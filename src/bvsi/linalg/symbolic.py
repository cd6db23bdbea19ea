"""Symbolic Cholesky analysis: where the entries of L are, found once per pattern.

L is stored by *supernodes*: runs of consecutive columns that share one row structure, each a dense trapezoid
(rows × columns, stored by columns), so that the numeric work is dense algebra. Columns whose structures
nearly agree are merged too and a few zeros stored, since larger blocks are faster. Importing this module
imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bvsi.common.arrays import Integers
from bvsi.linalg.blas import kernel, part
from bvsi.linalg.cholesky import Analysis
from bvsi.linalg.pattern import Pattern


def analyse_pattern(pattern: Pattern, permutation: Integers) -> Analysis:
    """Symbolic factorisation of a symmetric pattern under a fill-reducing permutation.

    The permutation is refined to a postorder of the elimination tree: the fill is the same, and the columns
    of a supernode, as well as the subtrees of the multifrontal method, become contiguous.
    """
    n = pattern.shape[0]
    given = np.ascontiguousarray(permutation, dtype=np.int64)
    tree, ancestor = _none(n), _none(n)
    elimination_tree((pattern.indptr, pattern.indices, given, _inverse(given)), tree, ancestor)
    order = np.empty(n, np.int64)
    postorder(tree, _none(n), _none(n), np.empty(n, np.int64), order)
    perm = given[order]
    inverse = _inverse(perm)
    # The same tree with its vertices renumbered.
    parent = np.where(tree[order] >= 0, _inverse(order)[tree[order]], -1)
    matrix = (pattern.indptr, pattern.indices, perm, inverse)
    counts = np.ones(n, np.int64)
    column_counts(matrix, parent, counts, _none(n))
    first, row_start = relaxed_supernodes(parent, counts)
    super_parent, rows = row_structure(matrix, first, row_start)
    n_columns, n_rows = np.diff(first), np.diff(row_start)
    value_start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_columns * n_rows)])
    local = np.arange(n, dtype=np.int64) - np.repeat(first[:-1], n_columns)
    diagonal = np.repeat(value_start[:-1], n_columns) + local * (np.repeat(n_rows, n_columns) + 1)
    slots = _none(pattern.nnz)
    entry_slots(matrix, (first, row_start, rows, value_start), np.empty(n, np.int64), slots)
    lower = np.flatnonzero(slots >= 0)
    _, mirror = pattern.transpose
    slots = np.where(slots >= 0, slots, slots[mirror])
    return Analysis(
        pattern=pattern,
        permutation=perm,
        first=first,
        parent=super_parent,
        row_start=row_start,
        rows=rows,
        value_start=value_start,
        diagonal=diagonal,
        slots=slots,
        lower=lower,
        stack_size=update_stack_size(first, row_start, super_parent),
    )


def _inverse(permutation: Integers) -> Integers:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse


def _none(n: int) -> Integers:
    """−1 at n places."""
    return np.full(n, -1, np.int64)


# Kernels get their results and work space as arguments: to compile an allocation takes as long as to compile the loops.


@kernel
def elimination_tree(matrix: Any, parent: Any, ancestor: Any) -> None:
    """``parent[j] = min{i > j: L_ij ≠ 0}``, −1 at a root (Liu's algorithm with path compression); −1 on entry."""
    indptr, indices, perm, inverse = matrix
    for j in range(len(perm)):
        for e in range(indptr[perm[j]], indptr[perm[j] + 1]):
            i = inverse[indices[e]]
            while i != -1 and i < j:
                following = ancestor[i]
                ancestor[i] = j
                if following == -1:
                    parent[i] = j
                i = following


@kernel
def postorder(parent: Any, child: Any, sibling: Any, stack: Any, order: Any) -> None:
    """Vertices of a forest, children before parents and every subtree contiguous (depth first).

    ``child``, the first one not yet visited, and ``sibling`` are −1 on entry.
    """
    n = len(parent)
    for j in range(n - 1, -1, -1):
        if parent[j] != -1:
            sibling[j] = child[parent[j]]
            child[parent[j]] = j
    done = 0
    for root in range(n):
        if parent[root] != -1:
            continue
        depth = 0
        stack[0] = root
        while depth >= 0:
            vertex = stack[depth]
            below = child[vertex]
            if below == -1:
                order[done] = vertex
                done += 1
                depth -= 1
            else:
                child[vertex] = sibling[below]
                depth += 1
                stack[depth] = below


@kernel
def column_counts(matrix: Any, parent: Any, counts: Any, visited: Any) -> None:
    """Entries of every column of L with the diagonal: row i of L is the subtree that row i of A spans.

    ``counts`` is 1 on entry, ``visited`` −1.
    """
    indptr, indices, perm, inverse = matrix
    for i in range(len(perm)):
        visited[i] = i
        for e in range(indptr[perm[i]], indptr[perm[i] + 1]):
            k = inverse[indices[e]]
            while k < i and visited[k] != i:
                counts[k] += 1
                visited[k] = i
                k = parent[k]


def fundamental_supernodes(parent: Integers, counts: Integers) -> Integers:
    """First columns, and n: column j joins j − 1 if that is its only child and has just one row more."""
    n = len(parent)
    children = np.bincount(parent[parent >= 0], minlength=n)
    joins = (parent[:-1] == np.arange(1, n)) & (counts[:-1] == counts[1:] + 1) & (children[1:] == 1)
    return np.concatenate([np.zeros(1, np.int64), 1 + np.flatnonzero(~joins), np.full(1, n, np.int64)])


def relaxed_supernodes(parent: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """First column of every supernode, and n; where its rows begin, and their number.

    Supernodes are fundamental ones, merged with their last child if that is cheap.
    """
    start = fundamental_supernodes(parent, counts)
    columns, rows = np.diff(start), counts[start[:-1]]
    kept = np.ones(len(rows), np.bool_)
    merge_supernodes(parent, start[:-1].copy(), columns, rows, np.zeros_like(rows), np.empty_like(rows), kept)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns[kept])])
    return first, np.concatenate([np.zeros(1, np.int64), np.cumsum(rows[kept])])


@kernel
def merge_supernodes(parent: Any, start: Any, columns: Any, rows: Any, zeros: Any, stack: Any, kept: Any) -> None:
    """First columns, columns and rows of merged supernodes, in place of those of the last that is merged.

    ``zeros`` is 0 on entry and ``kept`` true; supernodes that join a later one are no longer kept. The stack has those
    that are kept so far: its top is the one that ends where the next begins.
    """
    top = 0
    for J in range(len(start)):
        while top > 0:
            child = stack[top - 1]
            parent_column = parent[start[J] - 1]
            if parent_column < start[J] or parent_column >= start[J] + columns[J]:
                break
            added = columns[child]
            merged_zeros = zeros[child] + zeros[J] + added * (rows[J] - rows[child] + added)
            if not _is_cheap(added + columns[J], added + rows[J], merged_zeros):
                break
            start[J] = start[child]
            columns[J] += added
            rows[J] += added
            zeros[J] = merged_zeros
            kept[child] = False
            top -= 1
        stack[top] = J
        top += 1


@part
def _is_cheap(columns: int, rows: int, zeros: int) -> Any:
    """CHOLMOD's rule: 4 columns at most, or less than 80%, 10%, 5% zeros for up to 16, 48, more columns."""
    size = columns * (columns + 1) / 2 + columns * (rows - columns)
    share = zeros / size
    relaxed = (columns <= 16 and share < 0.8) or (columns <= 48 and share < 0.1)
    return columns <= 4 or relaxed or share < 0.05


def row_structure(matrix: tuple[Integers, ...], first: Integers, row_start: Integers) -> tuple[Integers, Integers]:
    """The parent of every supernode, −1 at a root, and the rows of all, in ascending order in each."""
    n, total = first[-1], len(first) - 1
    owner = np.repeat(np.arange(total), np.diff(first))
    rows, parent = np.empty(row_start[-1], np.int64), _none(total)
    unite_rows(matrix, (first, owner, row_start), _none(n), _none(total), _none(total), rows, parent)
    offset = n * np.repeat(np.arange(total), np.diff(row_start))
    return parent, np.sort(rows + offset) - offset


@part
def _unite(i: int, J: int, end: int, seen: Any, rows: Any, at: int) -> Any:
    """Add row i to those of supernode J, unless it is there or one of its columns; where the next row goes."""
    if i < end or seen[i] == J:
        return at
    seen[i] = J
    rows[at] = i
    return at + 1


@kernel
def unite_rows(matrix: Any, columns: Any, seen: Any, child: Any, sibling: Any, rows: Any, parent: Any) -> None:
    """Rows of every supernode: its columns, its entries of A below them, its children's rows; and its parent.

    ``seen``, ``child``, ``sibling`` and ``parent`` are −1 on entry.
    """
    indptr, indices, perm, inverse = matrix
    first, owner, row_start = columns
    n = len(perm)
    for J in range(len(parent)):
        end, at, next_row = first[J + 1], row_start[J], n
        for j in range(first[J], end):
            rows[at] = j
            at += 1
        for j in range(first[J], end):
            for e in range(indptr[perm[j]], indptr[perm[j] + 1]):
                at = _unite(inverse[indices[e]], J, end, seen, rows, at)
        C = child[J]
        while C != -1:
            for e in range(row_start[C], row_start[C + 1]):
                at = _unite(rows[e], J, end, seen, rows, at)
            C = sibling[C]
        for e in range(row_start[J] + end - first[J], at):
            next_row = min(next_row, rows[e])
        if next_row < n:
            parent[J] = owner[next_row]
            sibling[J] = child[parent[J]]
            child[parent[J]] = J


@kernel
def entry_slots(matrix: Any, structure: Any, position: Any, slots: Any) -> None:
    """Place in L of every entry of A that lies in the permuted lower triangle; the others are left as they are."""
    indptr, indices, perm, inverse = matrix
    first, row_start, rows, value_start = structure
    for J in range(len(first) - 1):
        n_rows = row_start[J + 1] - row_start[J]
        for q in range(n_rows):
            position[rows[row_start[J] + q]] = q
        for j in range(first[J], first[J + 1]):
            for e in range(indptr[perm[j]], indptr[perm[j] + 1]):
                i = inverse[indices[e]]
                if i >= j:
                    slots[e] = value_start[J] + (j - first[J]) * n_rows + position[i]


def update_stack_size(first: Integers, row_start: Integers, parent: Integers) -> int:
    """Largest number of values on the stack of update matrices, when supernodes are eliminated in order."""
    own = (np.diff(row_start) - np.diff(first)) ** 2
    from_children = np.zeros_like(own)
    np.add.at(from_children, parent[parent >= 0], own[parent >= 0])
    return int(np.max(np.cumsum(own - from_children) + from_children))
