"""Sparse Cholesky factorisation: analyse a pattern once, factorise many value sets.

analysis = analyse(pattern, nodes)
factor   = analysis.factor(values, label="residual covariance")
factor.logdet(), factor.solve(B), factor.whiten(B), factor.selected_inverse()

It is multifrontal and supernodal, compiled by Numba on SciPy's BLAS: SciPy's SuperLU takes four to five times as long.
Rows are eliminated in the order of a permutation ``p`` that keeps L sparse: the matrix factorised is ``A[p][:, p]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.errors import BvsiError
from bvsi.linalg.factor import Factor, by_blocks, check_pattern, check_pivots, check_values, not_positive_definite
from bvsi.linalg.machine import single_threaded_blas
from bvsi.linalg.pattern import Pattern


def analyse(pattern: Pattern, coordinates: ArrayLike) -> Analysis:
    """Symbolic analysis of ``P A Pᵀ = L Lᵀ`` for all symmetric positive definite A on a pattern.

    Parameters
    ----------
    pattern: symmetric, (n, n), with its whole diagonal.
    coordinates: (n, dim) place of every unknown, for the order of elimination, geometric nested dissection.
    """
    from bvsi.linalg.symbolic import analyse_pattern  # imports Numba

    check_pattern(pattern)
    return analyse_pattern(pattern, nested_dissection(pattern, coordinates))


@dataclass(frozen=True, eq=False)
class Analysis:
    """Structure of L in ``P A Pᵀ = L Lᵀ``; it holds no work space, so threads may share it.

    Supernode J has the columns ``first[J] … first[J+1]−1``, the rows ``rows[row_start[J]:row_start[J+1]]``
    (ascending; its own columns first), and the values ``L[value_start[J]:value_start[J+1]]``, a matrix of
    that many rows and columns stored by columns.

    Parameters
    ----------
    pattern: of A.
    permutation: (n,) row of A in every row of L.
    first: (n_super + 1,) first column of every supernode.
    parent: (n_super,) the supernode that holds the first row below the diagonal block; −1 at a root.
    row_start: (n_super + 1,); rows: concatenated row structures.
    value_start: (n_super + 1,) places in the value array of L.
    diagonal: (n,) place of every diagonal entry of L.
    slots: (nnz,) place in L of every entry of A's pattern; the two mirror images share a place.
    lower: entries of A's pattern that fill L: one of each mirror pair, and the diagonal.
    stack_size: numbers that the update matrices of the multifrontal method need at most.
    """

    pattern: Pattern
    permutation: Integers
    first: Integers
    parent: Integers
    row_start: Integers
    rows: Integers
    value_start: Integers
    diagonal: Integers
    slots: Integers
    lower: Integers
    stack_size: int

    @cached_property
    def lower_slots(self) -> Integers:
        """Place in L of the entries ``lower``."""
        return self.slots[self.lower]

    @cached_property
    def most_below(self) -> int:
        """Most rows of a supernode below its own."""
        return int(np.max(np.diff(self.row_start) - np.diff(self.first)))

    @property
    def structure(self) -> tuple[Integers, ...]:
        """(first, parent, row_start, rows, value_start): what the numeric kernels take."""
        return self.first, self.parent, self.row_start, self.rows, self.value_start

    def factor(self, values: ArrayLike, *, label: str = "matrix") -> SupernodalFactor:
        """Factorise the matrix with these values, (nnz,) on the full symmetric pattern.

        The values are taken to be symmetric: of each pair of mirrored entries only one is read. A matrix that is not
        positive definite, is singular to working precision (see :func:`~bvsi.linalg.factor.check_pivots`) or has
        values that are not finite raises :class:`NotPositiveDefiniteError`, with ``label`` as its name.
        """
        from bvsi.linalg.blas import addresses
        from bvsi.linalg.supernodal import factorise, work_space

        A = check_values(values, self.pattern, label)
        blas = addresses()
        L = np.zeros(self.value_start[-1])
        L[self.lower_slots] = A[self.lower]
        diagonal = L[self.diagonal]
        with single_threaded_blas():
            broken = int(factorise(self.structure, L, work_space(self.first, self.stack_size), blas))
        if broken >= 0:
            raise not_positive_definite(label, int(self.permutation[broken]), float(diagonal[broken]))
        check_pivots(L[self.diagonal] ** 2, diagonal, self.permutation, label)
        return SupernodalFactor(self, L, blas)


@dataclass(frozen=True, eq=False)
class SupernodalFactor(Factor):
    """``P A Pᵀ = L Lᵀ``; L (value_start[-1],) in the layout of :class:`Analysis`."""

    analysis: Analysis
    L: Array
    blas: Integers

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(2.0 * np.log(self.L[self.analysis.diagonal]).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B = Pᵀ L⁻ᵀ L⁻¹ P B``."""
        perm = self.analysis.permutation
        return by_blocks(B, perm, perm, self._lower, self._upper)

    def whiten(self, B: ArrayLike) -> Array:
        """``L⁻¹ P B``, rows in the order of L."""
        return by_blocks(B, self.analysis.permutation, slice(None), self._lower)

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``Pᵀ L⁻ᵀ Y``."""
        perm = self.analysis.permutation
        return by_blocks(Y, np.arange(len(perm)), perm, self._upper)

    def _lower(self, X: Array) -> Array:
        """``L⁻¹ X``, in place where X is in C order."""
        from bvsi.linalg.supernodal import solve_lower

        X = np.ascontiguousarray(X)
        work = np.empty(self.analysis.most_below * X.shape[1])
        solve_lower(self.analysis.structure, self.L, X.reshape(-1), X.shape[1], work, self.blas)
        return X

    def _upper(self, X: Array) -> Array:
        """``L⁻ᵀ X``, in place where X is in C order."""
        from bvsi.linalg.supernodal import solve_upper

        X = np.ascontiguousarray(X)
        work = np.empty(self.analysis.most_below * X.shape[1])
        solve_upper(self.analysis.structure, self.L, X.reshape(-1), X.shape[1], work, self.blas)
        return X

    def selected_inverse(self) -> Array:
        """A⁻¹ on the pattern of A, by the Takahashi recursion: about twice the price of the factorisation."""
        from bvsi.linalg.supernodal import takahashi

        with single_threaded_blas():
            Z: Array = takahashi(self.analysis.structure, self.L, self.blas)
        return Z[self.analysis.slots]


# A path in the dissection tree is a base-3 number in an int64: 3³⁹ < 2⁶³.
_MAX_LEVELS = 39
# Coordinates closer than this many edge lengths are ties: they differ by rounding, not by position.
_TIE = 1e-6


def nested_dissection(pattern: Pattern, coordinates: ArrayLike, *, leaf: int = 16) -> Integers:
    """Geometric nested dissection: order(part) = [order(left), order(right), separator].

    Every part is split at the median coordinate of its widest axis, width being counted in typical edge
    lengths of the graph, so that units and stretched grids do not matter. The separator is read off the
    graph: those vertices of one side that have a neighbour on the other, from the side with fewer. That is
    right for wide stencils, meshes, several unknowns per node and periodic wrap-around alike. All parts of
    a level are split at once.

    Parameters
    ----------
    pattern: symmetric structure, (n, n).
    coordinates: (n, dim) or (n,); unknowns at one place have equal coordinates and stay together.
    leaf: parts of at most this many unknowns are left as they are.
    """
    points = _in_edge_lengths(pattern, coordinates)
    upper = pattern.rows < pattern.indices
    tail, head = pattern.rows[upper].astype(np.int32), pattern.indices[upper].astype(np.int32)
    n = len(points)
    path = np.zeros(n, dtype=np.int64)
    part = np.zeros(n, dtype=np.int64)  # of active vertices, numbered from 0
    active = np.arange(n)  # sorted by part
    for _ in range(_MAX_LEVELS):
        active = _splittable(points, part, active, leaf)
        if len(active) == 0:
            break
        right = np.zeros(n, dtype=np.bool_)
        right[active] = _right_half(points[active], part[active])
        inside = _both_in(tail, head, active, n)
        tail, head = tail[inside], head[inside]
        crossing = right[tail] != right[head]
        separator = _separator(tail[crossing], head[crossing], right, part, active)
        path *= 3
        path[active] += np.where(separator[active], 2, right[active])
        active = active[~separator[active]]
        child = 2 * part[active] + right[active]
        order = np.argsort(child, kind="stable")
        active = active[order]
        part[active] = _renumber(child[order])
        whole = ~(crossing | separator[tail] | separator[head])
        tail, head = tail[whole], head[whole]
    return np.argsort(path, kind="stable").astype(np.int64)


def _in_edge_lengths(pattern: Pattern, coordinates: ArrayLike) -> Array:
    """Coordinates with every axis in units of its median nonzero edge extent, rounded to make ties exact."""
    points = np.asarray(coordinates, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    n = pattern.shape[0]
    if points.ndim != 2 or len(points) != n or not np.isfinite(points).all():
        raise BvsiError(
            f"coordinates must be finite and of shape ({n}, dim), one row per unknown; shape {points.shape}"
        )
    scaled = points - points.min(axis=0)
    for axis in scaled.T:
        steps = np.abs(axis[pattern.rows] - axis[pattern.indices])
        steps = steps[steps > _TIE * axis.max()]
        # Without any edge along the axis a cut across it is free: count it as wide as it can be.
        length = np.median(steps) if len(steps) else axis.max() / n
        axis /= length if length > 0 else 1.0
    rounded: Array = np.round(scaled / _TIE) * _TIE
    return rounded


def _splittable(points: Array, part: Integers, active: NDArray[np.intp], leaf: int) -> NDArray[np.intp]:
    """Active vertices of parts that are large enough and not all in one place; renumbers ``part``."""
    if len(active) == 0:
        return active
    starts = _starts(part[active])
    sizes = np.diff(np.append(starts, len(active)))
    x = points[active]
    extent = (np.maximum.reduceat(x, starts) - np.minimum.reduceat(x, starts)).max(axis=1, initial=0.0)
    kept: NDArray[np.intp] = active[np.repeat((sizes > leaf) & (extent > 0), sizes)]
    part[kept] = _renumber(part[kept])
    return kept


def _right_half(x: Array, part: Integers) -> Mask:
    """True for vertices beyond the median of their part; (n_active, dim) points sorted by part."""
    starts = _starts(part)
    sizes = np.diff(np.append(starts, len(x)))
    axis = (np.maximum.reduceat(x, starts) - np.minimum.reduceat(x, starts)).argmax(axis=1)
    along = x[np.arange(len(x)), axis[part]]
    median = along[np.lexsort((along, part))][starts + sizes // 2]
    # Ties stay together on one side: cut just below or just above the median, whichever is more even. At
    # least one of the two leaves vertices on both sides, because the extent is not zero.
    below = np.add.reduceat((along < median[part]).astype(np.int64), starts)
    up_to = np.add.reduceat((along <= median[part]).astype(np.int64), starts)
    above = np.abs(2 * up_to - sizes) < np.abs(2 * below - sizes)
    right: Mask = (along > median[part]) | ((along == median[part]) & ~above[part])
    return right


def _separator(
    tail: NDArray[np.int32], head: NDArray[np.int32], right: Mask, part: Integers, active: NDArray[np.intp]
) -> Mask:
    """Ends of the cut edges on the side of their part that has fewer of them; a mask over all vertices."""
    touched = np.zeros(len(part), dtype=np.bool_)
    touched[tail] = True
    touched[head] = True
    vertices = active[touched[active]]
    n_parts = int(part[active].max()) + 1
    counts = np.bincount(2 * part[vertices] + right[vertices], minlength=2 * n_parts).reshape(n_parts, 2)
    take_right = counts[:, 1] < counts[:, 0]
    separator = np.zeros(len(part), dtype=np.bool_)
    separator[vertices] = right[vertices] == take_right[part[vertices]]
    return separator


def _both_in(tail: NDArray[np.int32], head: NDArray[np.int32], active: NDArray[np.intp], n: int) -> Mask:
    mask = np.zeros(n, dtype=np.bool_)
    mask[active] = True
    inside: Mask = mask[tail] & mask[head]
    return inside


def _starts(sorted_labels: Integers) -> NDArray[np.intp]:
    """First position of every run of equal labels; there is at least one label."""
    return np.flatnonzero(np.diff(sorted_labels, prepend=sorted_labels[0] - 1))


def _renumber(sorted_labels: Integers) -> Integers:
    """Sorted labels as 0, 1, 2, …"""
    if len(sorted_labels) == 0:
        return sorted_labels
    return np.cumsum(np.diff(sorted_labels, prepend=sorted_labels[0]) != 0)
