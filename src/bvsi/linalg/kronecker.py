"""Kronecker products of small matrices, one per axis, without the large matrix that they stand for.

    V = (A_1 ⊗ … ⊗ A_d)[rows],        A_a: (m_a × n_a)

A product with V goes axis by axis: for A_a of 12 × 64 in the plane it takes 15 times fewer operations than the sparse
matrix, and runs as dense products. Products of two of them with a diagonal between are tensors as well,

    (V diag(c) Wᵀ)_(i k) = Σ_x c_x Π_a P_a[(i_a, k_a), x_a],     P_a[(i, k), x] = A_a[i, x] B_a[k, x]

for pairs (i, k) that share a point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers

# Part of the entries that are not zero from which on dense products are faster.
_DENSE = 0.1

# Products of pairs that are kept: beyond, on a mesh with 143 functions and 1134 nodes, a dense product for every time
# was four times faster; below, on a line, it was two times slower.
_KEPT = 5_000_000
# Points of a slab: 200 were fastest with 288 functions and 2081 nodes, three times as fast as all at once.
_SLAB = 200
# Products of pairs that are made as arrays, 8 MB, however sparse; not measured on its own.
_SMALL = 1_000_000


@dataclass(frozen=True, eq=False)
class Kronecker:
    """V = (A_1 ⊗ … ⊗ A_d)[rows]: factors A_a, sparse or not.

    Parameters
    ----------
    rows
        Those that are kept, None for all.
    """

    factors: tuple[Any, ...]
    rows: Integers | None = None

    @staticmethod
    def of(factors: Sequence[Any]) -> Kronecker:
        """From sparse matrices (m_a × n_a), kept as arrays where they are rather full."""
        return Kronecker(tuple(dense_if_full(A) for A in factors))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of V."""
        m, n = (int(np.prod([A.shape[i] for A in self.factors])) for i in (0, 1))
        return (m if self.rows is None else len(self.rows)), n

    def restricted(self, rows: Integers) -> Kronecker:
        """Only some of the rows."""
        return Kronecker(self.factors, rows if self.rows is None else self.rows[rows])

    @property
    def places(self) -> Integers:
        """Row of V of every row of A_1 ⊗ … ⊗ A_d; −1 for those that are not kept."""
        every = int(np.prod([A.shape[0] for A in self.factors]))
        if self.rows is None:
            return np.arange(every)
        found = np.full(every, -1, dtype=np.int64)
        found[self.rows] = np.arange(len(self.rows))
        return found

    def __matmul__(self, X: Array) -> Array:
        """V X for X (n, m)."""
        product = along_axes(self.factors, X, 1, X.shape[1]).reshape(-1, X.shape[1])
        return product if self.rows is None else product[self.rows]

    def transposed_times(self, Y: Array) -> Array:
        """Vᵀ Y for Y (rows, m)."""
        if self.rows is not None:
            full = np.zeros((int(np.prod([A.shape[0] for A in self.factors])), Y.shape[1]))
            full[self.rows] = Y
            Y = full
        return along_axes(self._transposed, Y, 1, Y.shape[1]).reshape(-1, Y.shape[1])

    @cached_property
    def _transposed(self) -> tuple[Any, ...]:
        turned: list[Any] = []
        for A in self.factors:
            turned.append(sparse.csr_array(A.T) if sparse.issparse(A) else np.ascontiguousarray(A.T))
        return tuple(turned)

    def entries(self, i: Integers, j: Integers) -> Array:
        """V_ij, for rows i and columns j (m,)."""
        row = i if self.rows is None else self.rows[i]
        of_rows, of_columns = (np.unravel_index(n, [A.shape[s] for A in self.factors]) for s, n in enumerate((row, j)))
        values = np.ones(len(row))
        for A, r, c in zip(self.factors, of_rows, of_columns, strict=True):
            values *= A[r, c]
        return values

    def entrywise(self, other: Kronecker) -> Kronecker:
        """V ∘ W, the product entry by entry."""
        pairs = zip(self.factors, other.factors, strict=True)
        return Kronecker(tuple(dense_if_full(sparse.csr_array(A).multiply(B)) for A, B in pairs), self.rows)

    def magnitude(self) -> Kronecker:
        """|V|, entry by entry."""
        return Kronecker(tuple(abs(A) for A in self.factors), self.rows)


def dense_if_full(A: Any, share: float = _DENSE) -> Any:
    """A sparse matrix, or its array where more than this share of the entries is not zero: products are faster then."""
    A = sparse.csr_array(A)
    return A.toarray() if A.nnz > share * A.shape[0] * A.shape[1] else A


@dataclass(frozen=True, eq=False)
class Windows:
    """A matrix (m × n) whose rows are zero but in windows of columns that move along: dense blocks of some rows each.

    Attributes
    ----------
    blocks
        Rows, columns and entries.
    """

    rows: int
    blocks: tuple[tuple[slice, Any, Any], ...]

    @staticmethod
    def of(A: Any) -> Windows:
        """One block, sparse or not, where windows would be no gain."""
        there = sparse.csr_array(A)
        groups = list(_groups(there))
        blocks = [(rows, columns, there[rows][:, columns].toarray()) for rows, columns in groups]
        if len(blocks) < 2 or there.nnz < _DENSE * sum(block.size for *_, block in blocks):
            return Windows(there.shape[0], ((slice(None), slice(None), dense_if_full(there)),))
        return Windows(there.shape[0], tuple(blocks))

    def __matmul__(self, X: Array) -> Array:
        """A X, X (n, …)."""
        out = np.empty((self.rows, *X.shape[1:]))
        for rows, columns, block in self.blocks:
            out[rows] = block @ X[columns]
        return out

    def on_lines(self, X: Array) -> Array:
        """X Aᵀ."""
        out = np.empty((len(X), self.rows))
        for rows, columns, block in self.blocks:
            out[:, rows] = X[:, columns] @ block.T
        return out


def _groups(A: sparse.csr_array) -> Iterator[tuple[slice, Any]]:
    """Groups of rows that reach over about two windows, and the columns where they are not zero."""
    m, n = A.shape
    widest = int(np.diff(A.indptr).max(initial=0))
    for first, last in pairwise(np.linspace(0, m, min(m, n // max(1, 2 * widest)) + 1).round().astype(np.int64)):
        columns = np.unique(A.indices[A.indptr[first] : A.indptr[last]])
        together = len(columns) and columns[-1] - columns[0] == len(columns) - 1
        yield slice(int(first), int(last)), slice(int(columns[0]), int(columns[-1]) + 1) if together else columns


def along_axes(factors: Sequence[Any], X: Array, lines: int, columns: int) -> Array:
    """A_1 ⊗ … ⊗ A_d on the middle of X (lines, n_1 ⋯ n_d, columns), axes that shrink most first."""
    shapes = np.array(list(map(attrgetter("shape"), factors)), dtype=np.int64).reshape(
        -1, 2
    )  # of one node there are none
    sizes = shapes[:, 1].copy()
    for a in np.argsort(shapes[:, 0] / shapes[:, 1], kind="stable"):
        A, n, before, after = factors[a], sizes[a], lines * sizes[:a].prod(), sizes[a + 1 :].prod() * columns
        sizes[a] = shapes[a, 0]
        X = X.reshape(before, n, after)
        if after == 1:  # the last axis: one product with all lines
            X = (A @ X[:, :, 0].T).T if sparse.issparse(A) else X[:, :, 0] @ A.T
        elif not sparse.issparse(A):
            X = np.matmul(A, X)
        else:
            front = np.ascontiguousarray(X.transpose(1, 0, 2)).reshape(n, before * after)
            X = (A @ front).reshape(A.shape[0], before, after).transpose(1, 0, 2)
    return np.asarray(X)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of functions along one axis that share a point.

    Attributes
    ----------
    left, right
        Functions, numbered 0 … m − 1, (p,).
    slabs
        All points in groups that meet few of the functions, each with the range of these.
    """

    left: Integers
    right: Integers
    slabs: tuple[tuple[Integers, slice], ...]

    @staticmethod
    def of(A: Any) -> Pairs:
        """Of functions whose values at the points are the rows of A (m × n)."""
        there = sparse.csr_array(abs(sparse.csr_array(A)) > 0).astype(np.float64)
        shared = sparse.coo_array(there @ there.T)
        order = np.lexsort((shared.col, shared.row))
        return Pairs(shared.row[order].astype(np.int64), shared.col[order].astype(np.int64), tuple(_slabs(there)))

    def products(self, A: Any, B: Any) -> Any:
        """P[(i, k), x] = A[i, x] B[k, x], (p × n)."""
        if len(self.left) * A.shape[1] > _SMALL:
            left, right = (sparse.csr_array(one) for one in (A, B))
            return dense_if_full(left[self.left].multiply(right[self.right]))
        P = _dense(A)[self.left] * _dense(B)[self.right]
        return P if np.count_nonzero(P) > _DENSE * P.size else sparse.csr_array(P)

    def windows(self, A: Any, B: Any) -> Windows:
        """P in blocks of the pairs of neighbouring functions i."""
        groups = list(_groups(sparse.csr_array(A)))
        if len(groups) < 2:
            return Windows.of(self.products(A, B))
        blocks, (a, b) = [], (_dense(A), _dense(B))
        for functions, points in groups:
            rows = slice(*np.searchsorted(self.left, (functions.start, functions.stop)).tolist())
            blocks.append((rows, points, a[:, points][self.left[rows]] * b[:, points][self.right[rows]]))
        few = sum(np.count_nonzero(P) for *_, P in blocks) < _DENSE * sum(P.size for *_, P in blocks)
        return Windows.of(self.products(A, B)) if few else Windows(len(self.left), tuple(blocks))

    def many(self, n: int) -> bool:
        """Whether the products of all pairs at n points are too many to be kept, so that one at a time is faster."""
        return len(self.left) * n > _KEPT

    def diagonal_products(self, A: Any, B: Any, c: Array) -> Array:
        """Σ_x c_tx A[i, x] B[k, x] of all pairs (i, k), for c (T, n), (T, p)."""
        out = np.empty((len(c), len(self.left)))
        size = max(1, _KEPT // A.shape[0] ** 2)
        for start in range(0, len(c), size):
            rows = c[start : start + size]
            total = np.zeros((len(rows), A.shape[0], A.shape[0]))
            for points, met in self.slabs:
                a, b = (_dense(M[met, :][:, points]) for M in (A, B))
                for own, row in zip(total, rows[:, points], strict=True):
                    own[met, met] += (a * row) @ b.T
            out[start : start + size] = total[:, self.left, self.right]
        return out


def _slabs(there: sparse.csr_array) -> Iterator[tuple[Integers, slice]]:
    """Points, sorted by the number of the middle function that they meet, and the range of functions of each slab.

    Parameters
    ----------
    there
        One where a function meets a point, (m × n).
    """
    met = np.asarray(there.sum(axis=0))
    middle = (np.arange(there.shape[0]) @ there) / np.maximum(met, 1)
    order = np.argsort(middle, kind="stable")
    order, columns = order[met[order] > 0], sparse.csc_array(there)
    for start in range(0, len(order), _SLAB):
        points = order[start : start + _SLAB]
        functions = columns[:, points].indices
        yield points, slice(int(functions.min()), int(functions.max()) + 1)


def _dense(M: Any) -> Array:
    return np.asarray(M.toarray() if sparse.issparse(M) else M)
