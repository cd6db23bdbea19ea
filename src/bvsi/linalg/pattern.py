"""One sparsity structure, shared by many sets of values.

Assembled matrices of one space differ in their values only. A :class:`Pattern` holds the structure once,
values are plain arrays of length ``nnz`` beside it, and whatever depends on the structure alone (an
elimination ordering, a symbolic factorisation, a product plan) is computed once.
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

# Entries handled at once by `scatter`: bounds its temporary index array to 32 MB.
_SCATTER_CHUNK = 4_000_000


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
        The pattern, and ``positions`` (n_entries,) with the slot of every entry, as :func:`scatter` wants it.
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


class DeferredPattern(Pattern):
    """A pattern whose entries are computed when they are first asked for; products of axes never do.

    Parameters
    ----------
    shape: rows and columns.
    make: gives the pattern.
    """

    def __init__(self, shape: tuple[int, int], make: Callable[[], Pattern]) -> None:
        self.__dict__.update(shape=shape, _make=make)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.shape, self.indptr, self.indices)  # a function cannot travel

    @cached_property
    def _made(self) -> Pattern:
        return self._make()  # type: ignore[attr-defined, no-any-return]

    @property
    def indptr(self) -> Integers:
        """First slot of every row."""
        return self._made.indptr

    @property
    def indices(self) -> Integers:
        """Column of every slot."""
        return self._made.indices


def scatter(positions: ArrayLike, entries: ArrayLike, nnz: int) -> Array:
    """``values[..., s] = Σ_{e: positions[e] = s} entries[..., e]``: sum COO entries into slots.

    Parameters
    ----------
    positions: (n_entries,) slot of every entry, from :meth:`Pattern.from_coo`.
    entries: (..., n_entries); leading axes, such as times, are kept.
    nnz: number of slots.
    """
    slots = np.asarray(positions, dtype=np.int64).ravel()
    weights = np.asarray(entries, dtype=np.float64)
    if weights.shape[-1:] != slots.shape:
        raise BvsiError(f"entries must have {len(slots)} values on their last axis; shape {weights.shape}")
    _check_range(slots, nnz, "positions")
    leading = weights.shape[:-1]
    flat = weights.reshape(-1, len(slots)) if len(slots) else weights.reshape(int(np.prod(leading)), 0)
    out = np.empty((len(flat), nnz))
    step = max(1, _SCATTER_CHUNK // max(1, len(slots)))
    for start in range(0, len(flat), step):
        block = flat[start : start + step]
        # One bincount for the whole block: row r of it counts in the slots r*nnz … (r+1)*nnz.
        shifted = (slots + nnz * np.arange(len(block), dtype=np.int64)[:, None]).ravel()
        sums = np.bincount(shifted, weights=block.ravel(), minlength=nnz * len(block))
        out[start : start + step] = sums.reshape(len(block), nnz)
    return out.reshape(*leading, nnz)


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
