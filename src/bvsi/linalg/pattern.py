"""One sparsity structure, shared by many sets of values.

Assembled matrices of one space differ in their values only. A :class:`Pattern` holds the structure once,
values are plain arrays of length ``nnz`` beside it, and whatever depends on the structure alone (an
elimination ordering, a symbolic factorisation, a product plan) is computed once. A :class:`Product` plans for many
value sets: Σ_m A_m B_mᵀ, and a :class:`Congruence` for Aᵀ diag(c) B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError


@dataclass(frozen=True, eq=False)
class Pattern:
    """Structure of a sparse matrix: row ``i`` has its entries in columns ``indices[indptr[i]:indptr[i+1]]``.

    Columns are sorted in every row and appear once. The position of an entry in ``indices`` is its *slot*;
    a set of values on the pattern is an array of shape (nnz,) in slot order.

    Parameters
    ----------
    shape: rows and columns.
    indptr: (rows + 1,) first slot of every row.
    indices: (nnz,) column of every slot.
    """

    shape: tuple[int, int]
    indptr: Integers
    indices: Integers

    @staticmethod
    def deferred(shape: tuple[int, int], make: Callable[[], Pattern]) -> Pattern:
        """A pattern whose entries are computed when they are first asked for; products of axes never do."""
        pattern = object.__new__(Pattern)
        pattern.__dict__.update(shape=shape, _make=make)
        return pattern

    def __getattr__(self, name: str) -> Any:
        make = self.__dict__.get("_make")
        if name not in ("indptr", "indices") or make is None:
            raise AttributeError(name)
        made = make()
        self.__dict__.update(indptr=made.indptr, indices=made.indices)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.shape, self.indptr, self.indices)  # what makes a deferred one cannot travel

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return len(self.indices)

    @cached_property
    def rows(self) -> Integers:
        """Row of every slot, (nnz,)."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), np.diff(self.indptr))

    @cached_property
    def _keys(self) -> Integers:
        """``row * columns + column`` of every slot, ascending: the entries as sortable scalars."""
        keys: Integers = self.rows * self.shape[1] + self.indices
        return keys

    @staticmethod
    def from_coo(rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> tuple[Pattern, Integers]:
        """Pattern of the entries (rows[e], cols[e]), and the slot of every one of them.

        Parameters
        ----------
        rows, cols: (n_entries,) in any order; duplicates share a slot.
        shape: rows and columns of the matrix.

        Returns
        -------
        The pattern, and ``positions`` (n_entries,) with the slot of every entry.
        """
        row = np.asarray(rows, dtype=np.int64).ravel()
        col = np.asarray(cols, dtype=np.int64).ravel()
        if row.shape != col.shape:
            raise BvsiError(f"rows and cols must have one length; they have {len(row)} and {len(col)}")
        _check_range(row, shape[0], "rows")
        _check_range(col, shape[1], "cols")
        keys, positions = np.unique(row * shape[1] + col, return_inverse=True)
        pattern = _from_keys(keys, shape)
        return pattern, positions.reshape(-1).astype(np.int64, copy=False)

    @staticmethod
    def from_matrix(A: Any) -> Pattern:
        """Pattern of a SciPy sparse matrix; stored zeros count as structure."""
        A = _canonical_csr(A)
        return Pattern((int(A.shape[0]), int(A.shape[1])), A.indptr.astype(np.int64), A.indices.astype(np.int64))

    def matrix(self, values: ArrayLike) -> Any:
        """SciPy ``csr_array`` with these values, (nnz,).

        Structure and values are shared, not copied. The structure arrays are read-only views: an in-place
        change such as ``eliminate_zeros`` would otherwise damage every matrix on this pattern.
        """
        data = np.asarray(values)
        if data.shape != (self.nnz,):
            raise BvsiError(f"values must have shape ({self.nnz},), one per entry; it is {data.shape}")
        indices, indptr = self._as_scipy_wants
        A = sparse.csr_array((data, indices, indptr), shape=self.shape)
        A.has_sorted_indices = True
        A.has_canonical_format = True
        return A

    @cached_property
    def _as_scipy_wants(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns and first slots as 32-bit integers where they fit: SciPy would convert them for every matrix."""
        small = max(*self.shape, self.nnz) < 2**31
        arrays = (a.astype(np.int32) if small else a for a in (self.indices, self.indptr))
        indices, indptr = (_read_only(a) for a in arrays)
        return indices, indptr

    def gather(self, A: Any) -> Array:
        """Values of a sparse matrix on this pattern, (nnz,): zero where ``A`` stores nothing.

        Raises :class:`BvsiError` if ``A`` has another shape or a nonzero entry outside the pattern.
        """
        if tuple(A.shape) != self.shape:
            raise BvsiError(f"the matrix has shape {tuple(A.shape)}, the pattern {self.shape}")
        A = _canonical_csr(A)
        if np.array_equal(A.indptr, self.indptr) and np.array_equal(A.indices, self.indices):
            return np.array(A.data, dtype=np.float64)
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int64), np.diff(A.indptr))
        slots = self.locate(rows, A.indices)
        outside = (slots < 0) & (A.data != 0)
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            raise BvsiError(
                f"{int(outside.sum())} entries of the matrix lie outside the pattern, the first at "
                f"({rows[first]}, {A.indices[first]}); build the pattern from the union of both"
            )
        values = np.zeros(self.nnz)
        inside = slots >= 0
        values[slots[inside]] = A.data[inside]
        return values

    def locate(self, rows: ArrayLike, cols: ArrayLike) -> Integers:
        """Slot of every entry (rows[e], cols[e]); −1 where the pattern has none."""
        row, col = np.broadcast_arrays(np.asarray(rows, dtype=np.int64), np.asarray(cols, dtype=np.int64))
        inside = (row >= 0) & (row < self.shape[0]) & (col >= 0) & (col < self.shape[1])
        if self.nnz == 0:
            return np.full(row.shape, -1, dtype=np.int64)
        keys = row * self.shape[1] + col
        slots = np.minimum(np.searchsorted(self._keys, keys), self.nnz - 1)
        found = inside & (self._keys[slots] == keys)
        return np.where(found, slots, -1).astype(np.int64, copy=False)

    @cached_property
    def transpose(self) -> tuple[Pattern, Integers]:
        """Pattern of Aᵀ, and ``p`` (nnz,) such that the values of Aᵀ are ``values[p]``."""
        order = np.arange(self.nnz, dtype=np.int64)
        T = sparse.csr_array((order, self.indices, self.indptr), shape=self.shape).tocsc()
        shape = (self.shape[1], self.shape[0])
        pattern = Pattern(shape, T.indptr.astype(np.int64), T.indices.astype(np.int64))
        return pattern, T.data.astype(np.int64, copy=False)

    def restrict_rows(self, keep: ArrayLike) -> tuple[Pattern, Integers]:
        """Pattern of the rows ``keep`` (indices in the order given, or a mask), and their slots here."""
        kept = np.asarray(keep)
        kept = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept.astype(np.int64)
        _check_range(kept, self.shape[0], "keep")
        counts = np.diff(self.indptr)[kept]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        slots = np.repeat(self.indptr[kept] - indptr[:-1], counts) + np.arange(indptr[-1], dtype=np.int64)
        return Pattern((len(kept), self.shape[1]), indptr, self.indices[slots]), slots


def _from_keys(keys: Integers, shape: tuple[int, int]) -> Pattern:
    rows, cols = np.divmod(keys, max(1, shape[1]))
    counts = np.bincount(rows, minlength=shape[0])
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    return Pattern((int(shape[0]), int(shape[1])), indptr, cols)


def _canonical_csr(A: Any) -> Any:
    """CSR form with sorted indices and summed duplicates; a copy whenever that has to be made."""
    if not sparse.issparse(A):
        raise BvsiError(f"expected a SciPy sparse matrix, got {type(A).__name__}; wrap it in csr_array")
    B = sparse.csr_array(A)
    if not B.has_canonical_format:
        B = B.copy()
        B.sum_duplicates()
    return B


def _check_range(index: Integers, bound: int, name: str) -> None:
    if len(index) and (index.min() < 0 or index.max() >= bound):
        raise BvsiError(f"{name} must lie in 0 … {bound - 1}; it spans {index.min()} … {index.max()}")


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


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
