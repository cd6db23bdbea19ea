"""Solutions of linear equations, written with some of the coefficients themselves as parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import ArrayLike, NDArray

from bvsi.infer.constraints.feasibility import TOLERANCE, infeasible
from bvsi.infer.constraints.scaling import equilibrate

Array = NDArray[np.float64]

_PIVOT = 0.1
"""Share of the largest entry, scaled, that an entry needs to be a pivot."""

_ZERO = 1e-13
"""Entries below this share of what they were made from are rounding."""


@dataclass(frozen=True, eq=False)
class Affine:
    """θ = offset + T η, where η = θ[free].

    names: d of them; offset: (d,), zero at ``free``; T: (d, n) with T[free] = I; free: (n,) positions, increasing.
    """

    names: tuple[str, ...]
    offset: Array
    T: Array
    free: NDArray[np.intp]

    def theta(self, eta: ArrayLike) -> Array:
        """offset + T η, for η (…, n)."""
        return np.asarray(self.offset + np.asarray(eta, dtype=np.float64) @ self.T.T)

    def eta(self, theta: ArrayLike) -> Array:
        """θ[free], for θ (…, d)."""
        return np.asarray(theta, dtype=np.float64)[..., self.free]

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of η."""
        return tuple(self.names[i] for i in self.free)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Names that are tied together, two or more to a group."""
        share = scipy.sparse.csr_array(np.abs(self.T) @ np.abs(self.T).T)
        count, label = scipy.sparse.csgraph.connected_components(share, directed=False)
        members = [np.flatnonzero(label == k) for k in range(count)]
        return tuple(tuple(self.names[i] for i in group) for group in members if len(group) > 1)


def solve_equalities(A: Array, b: Array, names: tuple[str, ...], texts: Sequence[str]) -> Affine:
    """All solutions of A θ = b, A (m, d), by Gauss–Jordan elimination.

    Rows may be redundant; :class:`InfeasibleError` where they contradict each other. Rows with one operator go first,
    so that they hold to the last bit; otherwise the last-named operator whose entry is large enough is eliminated.
    """
    d = len(names)
    rows, columns = equilibrate(A)
    W = np.column_stack([A * columns, b]) * rows[:, None]
    made_from = np.abs(W)
    single = (A != 0).sum(axis=1) == 1
    open_rows = np.ones(len(A), dtype=bool)
    pivots: dict[int, int] = {}
    while (pivot := _pivot(np.abs(W[:, :d]) * open_rows[:, None], single)) is not None:
        row, column = pivot
        pivots[column], open_rows[row] = row, False
        made_from[row] /= abs(W[row, column])
        W[row] /= W[row, column]
        factor = np.where(np.arange(len(A)) == row, 0.0, W[:, column])
        made_from += np.outer(np.abs(factor), made_from[row])
        W -= np.outer(factor, W[row])
        W[np.abs(W) <= _ZERO * made_from] = 0.0
    if (np.abs(W[open_rows, d]) > TOLERANCE * made_from[open_rows, d]).any():
        raise infeasible(texts)
    return _parametrised(W, pivots, columns, names)


def _pivot(size: Array, single: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Row and column of the next pivot among entries of the given size; None where all are zero."""
    if not size.any():
        return None
    if size[single].any():
        size = size * single[:, None]
    column = int(np.flatnonzero((size >= _PIVOT * size.max()).any(axis=0))[-1])
    return int(size[:, column].argmax()), column


def _parametrised(W: Array, pivots: Mapping[int, int], columns: Array, names: tuple[str, ...]) -> Affine:
    """θ from the reduced rows W = [M, rhs] of scaled unknowns θ / columns; pivots: column → row."""
    d = len(names)
    free = np.setdiff1d(np.arange(d), list(pivots))
    offset, T = np.zeros(d), np.zeros((d, len(free)))
    T[free, np.arange(len(free))] = 1.0
    solved, rows = list(pivots), list(pivots.values())
    offset[solved] = columns[solved] * W[rows, d]
    T[solved] = -columns[solved][:, None] * W[rows][:, free] / columns[free]
    return Affine(names, offset + 0.0, T + 0.0, free)
