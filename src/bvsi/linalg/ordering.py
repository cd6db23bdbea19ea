"""Fill-reducing permutations of a symmetric pattern.

A permutation is an array ``p`` with ``p[k]`` the row eliminated in step k: the matrix factorised is
``A[p][:, p]``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.errors import BvsiError
from bvsi.linalg.pattern import Pattern

# A path in the dissection tree is a base-3 number in an int64: 3³⁹ < 2⁶³.
_MAX_LEVELS = 39
# Coordinates closer than this many edge lengths are ties: they differ by rounding, not by position.
_TIE = 1e-6


def minimum_degree(pattern: Pattern) -> Integers:
    """Multiple minimum degree ordering of the graph of A + Aᵀ, as SuperLU computes it."""
    from scipy.sparse.linalg import spilu

    # SuperLU orders only on the way to a factorisation. An incomplete one of a diagonally dominant matrix
    # that
    # drops all it can is the cheapest: the ordering itself is then nearly all of the time.
    n = pattern.shape[0]
    A = sparse.csc_array(pattern.matrix(np.ones(pattern.nnz)))
    A = sparse.csc_matrix(A + sparse.diags_array(np.full(n, 2.0 * pattern.nnz / n + n)))
    A.indptr, A.indices = A.indptr.astype(np.intc), A.indices.astype(np.intc)
    options = {"SymmetricMode": True}
    lu = spilu(A, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return np.argsort(lu.perm_c).astype(np.int64)


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
