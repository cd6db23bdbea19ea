"""Symbolic Cholesky analysis: where the entries of L are, worked out once per pattern.

L is stored by *supernodes*: runs of consecutive columns that share one row structure, each a dense trapezoid
(rows × columns, stored by columns), so that the numeric work is dense algebra. Columns whose structures
nearly agree are merged too and a few zeros stored, since larger blocks are faster. Importing this module
imports Numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.linalg.blas import kernel
from bvsi.linalg.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Symbolic:
    """Structure of L in ``P A Pᵀ = L Lᵀ``.

    Supernode J has the columns ``first[J] … first[J+1]−1``, the rows ``rows[row_start[J]:row_start[J+1]]``
    (ascending; its own columns first), and the values ``L[value_start[J]:value_start[J+1]]``, a matrix of
    that many rows and columns stored by columns.

    Parameters
    ----------
    permutation: (n,) row of A in every row of L.
    inverse: (n,) row of L of every row of A.
    first: (n_super + 1,) first column of every supernode.
    parent: (n_super,) the supernode that holds the first row below the diagonal block; −1 at a root.
    row_start: (n_super + 1,); rows: concatenated row structures.
    value_start: (n_super + 1,) places in the value array of L.
    diagonal: (n,) place of every diagonal entry of L.
    slots: (nnz,) place in L of every entry of A's pattern; the two mirror images share a place.
    lower: entries of A's pattern that fill L: one of each mirror pair, and the diagonal.
    stack_size: numbers that the update matrices of the multifrontal method need at most.
    factor_nnz: entries of L without the zeros that merging added.
    """

    permutation: NDArray[np.int64]
    inverse: NDArray[np.int64]
    first: NDArray[np.int64]
    parent: NDArray[np.int64]
    row_start: NDArray[np.int64]
    rows: NDArray[np.int64]
    value_start: NDArray[np.int64]
    diagonal: NDArray[np.int64]
    slots: NDArray[np.int64]
    lower: NDArray[np.int64]
    stack_size: int
    factor_nnz: int

    @cached_property
    def lower_slots(self) -> NDArray[np.int64]:
        """Place in L of the entries ``lower``."""
        return self.slots[self.lower]

    @property
    def structure(self) -> tuple[NDArray[np.int64], ...]:
        """(first, parent, row_start, rows, value_start): what the numeric kernels take."""
        return self.first, self.parent, self.row_start, self.rows, self.value_start


def analyse_pattern(pattern: Pattern, permutation: NDArray[np.int64]) -> Symbolic:
    """Symbolic factorisation of a symmetric pattern under a fill-reducing permutation.

    The permutation is refined to a postorder of the elimination tree: the fill is the same, and the columns
    of a supernode, as well as the subtrees of the multifrontal method, become contiguous.
    """
    n = pattern.shape[0]
    given = np.ascontiguousarray(permutation, dtype=np.int64)
    tree = elimination_tree(pattern.indptr, pattern.indices, given, _inverse(given))
    order = postorder(tree)
    perm = given[order]
    inverse = _inverse(perm)
    # The same tree with its vertices renumbered.
    parent = np.where(tree[order] >= 0, _inverse(order)[tree[order]], -1)
    counts = column_counts(pattern.indptr, pattern.indices, perm, inverse, parent)
    first = relaxed_supernodes(parent, counts)
    super_parent, row_start, rows = row_structure(pattern.indptr, pattern.indices, perm, inverse, first)
    n_columns, n_rows = np.diff(first), np.diff(row_start)
    value_start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_columns * n_rows)])
    local = np.arange(n, dtype=np.int64) - np.repeat(first[:-1], n_columns)
    diagonal = np.repeat(value_start[:-1], n_columns) + local * (np.repeat(n_rows, n_columns) + 1)
    slots = entry_slots((pattern.indptr, pattern.indices, perm, inverse), (first, row_start, rows, value_start))
    lower = np.flatnonzero(slots >= 0)
    _, mirror = pattern.transpose
    slots = np.where(slots >= 0, slots, slots[mirror])
    return Symbolic(
        permutation=perm,
        inverse=inverse,
        first=first,
        parent=super_parent,
        row_start=row_start,
        rows=rows,
        value_start=value_start,
        diagonal=diagonal,
        slots=slots,
        lower=lower,
        stack_size=int(update_stack_size(first, row_start, super_parent)),
        factor_nnz=int(counts.sum()),
    )


def _inverse(permutation: NDArray[np.int64]) -> NDArray[np.int64]:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse


@kernel
def elimination_tree(indptr: Any, indices: Any, perm: Any, inverse: Any) -> Any:
    """``parent[j] = min{i > j: L_ij ≠ 0}``, −1 at a root (Liu's algorithm with path compression)."""
    n = len(perm)
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)
    for j in range(n):
        for e in range(indptr[perm[j]], indptr[perm[j] + 1]):
            i = inverse[indices[e]]
            while i != -1 and i < j:
                following = ancestor[i]
                ancestor[i] = j
                if following == -1:
                    parent[i] = j
                i = following
    return parent


@kernel
def postorder(parent: Any) -> Any:
    """Vertices of a forest, children before parents and every subtree contiguous (depth first)."""
    n = len(parent)
    child = np.full(n, -1, np.int64)  # first child not yet visited
    sibling = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        if parent[j] != -1:
            sibling[j] = child[parent[j]]
            child[parent[j]] = j
    order = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
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
    return order


@kernel
def column_counts(indptr: Any, indices: Any, perm: Any, inverse: Any, parent: Any) -> Any:
    """Entries of every column of L with the diagonal: row i of L is the subtree that row i of A spans."""
    n = len(perm)
    counts = np.ones(n, np.int64)
    visited = np.full(n, -1, np.int64)
    for i in range(n):
        visited[i] = i
        for e in range(indptr[perm[i]], indptr[perm[i] + 1]):
            k = inverse[indices[e]]
            while k < i and visited[k] != i:
                counts[k] += 1
                visited[k] = i
                k = parent[k]
    return counts


@kernel
def fundamental_supernodes(parent: Any, counts: Any) -> Any:
    """First columns, and n: column j joins j − 1 if that is its only child and has just one row more."""
    n = len(parent)
    children = np.zeros(n, np.int64)
    for j in range(n):
        if parent[j] != -1:
            children[parent[j]] += 1
    first = np.empty(n + 1, np.int64)
    total = 0
    for j in range(n):
        joins = j > 0 and parent[j - 1] == j and counts[j - 1] == counts[j] + 1 and children[j] == 1
        if not joins:
            first[total] = j
            total += 1
    first[total] = n
    return first[: total + 1].copy()


@kernel
def relaxed_supernodes(parent: Any, counts: Any) -> Any:
    """First column of every supernode, and n: fundamental ones, merged with their last child if cheap."""
    start = fundamental_supernodes(parent, counts)
    total = len(start) - 1
    columns = start[1:] - start[:-1]
    rows = counts[start[:-1]]
    zeros = np.zeros(total, np.int64)
    # Supernodes that survive so far, a stack: its top is the one that ends where the next begins.
    kept = np.empty(total, np.int64)
    top = 0
    for J in range(total):
        while top > 0:
            child = kept[top - 1]
            parent_column = parent[start[J] - 1]
            if parent_column < start[J] or parent_column >= start[J] + columns[J]:
                break
            child_below = rows[child] - columns[child]
            merged_zeros = zeros[child] + zeros[J] + columns[child] * (rows[J] - child_below)
            merged_columns = columns[child] + columns[J]
            merged_rows = columns[child] + rows[J]
            if not _is_cheap(merged_columns, merged_rows, merged_zeros):
                break
            start[J], columns[J], rows[J], zeros[J] = start[child], merged_columns, merged_rows, merged_zeros
            top -= 1
        kept[top] = J
        top += 1
    first = np.empty(top + 1, np.int64)
    first[:top] = start[kept[:top]]
    first[top] = len(parent)
    return first


@kernel
def _is_cheap(columns: int, rows: int, zeros: int) -> Any:
    """CHOLMOD's rule: 4 columns at most, or less than 80%, 10%, 5% zeros for up to 16, 48, more columns."""
    size = columns * (columns + 1) / 2 + columns * (rows - columns)
    share = zeros / size
    relaxed = (columns <= 16 and share < 0.8) or (columns <= 48 and share < 0.1)
    return columns <= 4 or relaxed or share < 0.05


@kernel
def row_structure(indptr: Any, indices: Any, perm: Any, inverse: Any, first: Any) -> Any:
    """Rows of every supernode: its columns, then the union of its entries of A and its children's rows.

    Returns the parent of every supernode, and the row structures as (row_start, rows).
    """
    n = len(perm)
    n_super = len(first) - 1
    owner = np.empty(n, np.int64)
    for J in range(n_super):
        owner[first[J] : first[J + 1]] = J
    parent = np.full(n_super, -1, np.int64)
    child = np.full(n_super, -1, np.int64)
    sibling = np.full(n_super, -1, np.int64)
    row_start = np.zeros(n_super + 1, np.int64)
    rows = np.empty(4 * n + 16, np.int64)  # grows as needed
    seen = np.full(n, -1, np.int64)
    below = np.empty(n, np.int64)
    for J in range(n_super):
        end = first[J + 1]
        m = 0
        for j in range(first[J], end):
            neighbours = inverse[indices[indptr[perm[j]] : indptr[perm[j] + 1]]]
            m = _unite(neighbours, J, end, seen, below, m)
        C = child[J]
        while C != -1:
            m = _unite(rows[row_start[C] : row_start[C + 1]], J, end, seen, below, m)
            C = sibling[C]
        begin = row_start[J]
        middle = begin + end - first[J]
        row_start[J + 1] = middle + m
        if row_start[J + 1] > len(rows):
            larger = np.empty(2 * row_start[J + 1], np.int64)
            larger[:begin] = rows[:begin]
            rows = larger
        rows[begin:middle] = np.arange(first[J], end)
        rows[middle : row_start[J + 1]] = np.sort(below[:m])
        if m > 0:
            parent[J] = owner[rows[middle]]
            sibling[J] = child[parent[J]]
            child[parent[J]] = J
    return parent, row_start, rows[: row_start[n_super]].copy()


@kernel
def _unite(candidates: Any, J: int, end: int, seen: Any, below: Any, m: int) -> Any:
    """Append to ``below[:m]`` the candidates from row ``end`` on that supernode J has not seen yet."""
    for i in candidates:
        if i >= end and seen[i] != J:
            seen[i] = J
            below[m] = i
            m += 1
    return m


@kernel
def entry_slots(matrix: Any, structure: Any) -> Any:
    """Place in L of every entry of A that lies in the permuted lower triangle; −1 for the others."""
    indptr, indices, perm, inverse = matrix
    first, row_start, rows, value_start = structure
    slots = np.full(len(indices), -1, np.int64)
    position = np.empty(len(perm), np.int64)
    for J in range(len(first) - 1):
        n_rows = row_start[J + 1] - row_start[J]
        for q in range(n_rows):
            position[rows[row_start[J] + q]] = q
        for j in range(first[J], first[J + 1]):
            for e in range(indptr[perm[j]], indptr[perm[j] + 1]):
                i = inverse[indices[e]]
                if i >= j:
                    slots[e] = value_start[J] + (j - first[J]) * n_rows + position[i]
    return slots


@kernel
def update_stack_size(first: Any, row_start: Any, parent: Any) -> Any:
    """Largest number of values on the stack of update matrices, when supernodes are eliminated in order."""
    n_super = len(first) - 1
    current = 0
    largest = 0
    from_children = np.zeros(n_super, np.int64)
    for J in range(n_super):
        m = row_start[J + 1] - row_start[J] - first[J + 1] + first[J]
        largest = max(largest, current + m * m)
        current += m * m - from_children[J]
        if parent[J] != -1:
            from_children[parent[J]] += m * m
    return largest
