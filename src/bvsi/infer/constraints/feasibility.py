"""Can rows l ≤ A θ ≤ u hold together? If not, a smallest set of them that cannot; if so, what equalities leave free.

All solutions of the equalities are written with some of the coefficients themselves as parameters, θ = offset + T η.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Mask
from bvsi.errors import BvsiError, InfeasibleError

#: Violation, in units of the terms of a row, that counts as rounding.
TOLERANCE = 1e-9
# Share of the largest entry, scaled, that an entry needs to be a pivot.
_PIVOT = 0.1
# Entries below this share of what they were made from are rounding.
_ZERO = 1e-13


def check_feasible(A: Array, lower: Array, upper: Array, texts: Sequence[str]) -> None:
    """Refuse rows that cannot hold together: :class:`InfeasibleError` with a smallest set of them."""
    rows = conflict(A, lower, upper)
    if rows is not None:
        raise infeasible([texts[i] for i in rows])


def infeasible(texts: Sequence[str]) -> InfeasibleError:
    """The error that names rows which cannot hold together."""
    rows = tuple(dict.fromkeys(texts))
    listed = "; ".join(repr(row) for row in rows)
    if len(rows) == 1:
        return InfeasibleError(f"constraints: {listed} cannot hold. Remove or relax it.", rows)
    return InfeasibleError(f"constraints: these cannot hold together: {listed}. Remove or relax one of them.", rows)


def conflict(A: Array, lower: Array, upper: Array) -> list[int] | None:
    """Rows that cannot hold together while all but any one of them can; None where all rows can.

    Deletion filter: a row is left out for good where the others alone cannot hold.
    """
    kept = list(range(len(A)))
    if _feasible(A, lower, upper):
        return None
    for row in range(len(A)):
        others = [i for i in kept if i != row]
        if not _feasible(A[others], lower[others], upper[others]):
            kept = others
    return kept


def _feasible(A: Array, lower: Array, upper: Array) -> bool:
    """min t, A θ ≤ u + t, A θ ≥ l − t, with entries scaled towards one; feasible where t is rounding."""
    if not len(A) or _bounds_agree(A, lower, upper):
        return True
    above, below = np.isfinite(upper), np.isfinite(lower)
    # the bounds are a column of their own, so that bounds of 1e-9 and of 1e9 count alike
    M = np.column_stack([np.concatenate([A[above], -A[below]]), np.concatenate([upper[above], -lower[below]])])
    rows, columns = equilibrate(M)
    M = M * rows[:, None] * columns
    d = A.shape[1]
    slack = np.column_stack([M[:, :d], -np.ones(len(M))])
    x = linear_program(np.append(np.zeros(d), 1.0), (slack, M[:, d]), None, (0.0, None))
    return bool(x[d] <= TOLERANCE)


def linear_program(
    cost: Array, below: tuple[Array, Array], equal: tuple[Array, Array] | None, last: tuple[float | None, float | None]
) -> Array:
    """min cost · x, A x ≤ b for (A, b) = below, A x = b for (A, b) = equal; only the last entry of x has bounds."""
    import scipy.optimize  # it takes long to import, and few have constraints

    found = scipy.optimize.linprog(
        cost,
        *below,
        *(equal or (None, None)),
        bounds=[(None, None)] * (len(cost) - 1) + [last],
        method="highs",
        # presolve gives up on some small programs at these tolerances
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False},
    )
    if found.status != 0:
        raise BvsiError(f"constraints: a linear program could not be solved ({found.message}); rescale their numbers.")
    return np.asarray(found.x)


def _bounds_agree(A: Array, lower: Array, upper: Array) -> bool:
    """Whether all rows are bounds θ_i ≥ l or θ_i ≤ u, with room for each operator: no linear program is needed."""
    if not ((A == 0) | (A == 1)).all() or (A.sum(axis=1) != 1).any():
        return False
    column = A.argmax(axis=1)
    highest, lowest = np.full(A.shape[1], -np.inf), np.full(A.shape[1], np.inf)
    np.maximum.at(highest, column, lower)
    np.minimum.at(lowest, column, upper)
    return bool((highest <= lowest).all())


def equilibrate(M: Array) -> tuple[Array, Array]:
    """Row and column factors r (m,), c (n,) that minimise Σ (log |r_i M_ij c_j|)² over the entries that are not zero.

    They are rounded to powers of two, so that scaling is exact (Curtis and Reid, 1972).
    """
    rows, columns = np.nonzero(M)
    m, n = M.shape
    design = np.zeros((len(rows), m + n))
    entries = np.arange(len(rows))
    design[entries, rows] = 1.0
    design[entries, m + columns] = 1.0
    # the factors of a part of M that hangs together are known up to one common factor: the least squares are singular
    exponents = np.linalg.lstsq(design, -np.log2(np.abs(M[rows, columns])), rcond=1e-10)[0]
    factors = np.exp2(np.round(exponents))
    return factors[:m], factors[m:]


@dataclass(frozen=True, eq=False)
class Affine:
    """θ = offset + T η, where η = θ[free].

    Attributes
    ----------
    names
        d of them.
    offset
        (d,), zero at ``free``.
    T
        (d, n) with T[free] = I.
    free
        (n,) positions, increasing.
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


def _pivot(size: Array, single: Mask) -> tuple[int, int] | None:
    """Row and column of the next pivot among entries of the given size; None where all are zero."""
    if not size.any():
        return None
    if size[single].any():
        size = size * single[:, None]
    column = int(np.flatnonzero((size >= _PIVOT * size.max()).any(axis=0))[-1])
    return int(size[:, column].argmax()), column


def _parametrised(W: Array, pivots: Mapping[int, int], columns: Array, names: tuple[str, ...]) -> Affine:
    """θ from the reduced rows W = [M, rhs] of scaled unknowns θ / columns.

    Parameters
    ----------
    pivots
        Column → row.
    """
    d = len(names)
    free = np.setdiff1d(np.arange(d), list(pivots))
    offset, T = np.zeros(d), np.zeros((d, len(free)))
    T[free, np.arange(len(free))] = 1.0
    solved, rows = list(pivots), list(pivots.values())
    offset[solved] = columns[solved] * W[rows, d]
    T[solved] = -columns[solved][:, None] * W[rows][:, free] / columns[free]
    return Affine(names, offset + 0.0, T + 0.0, free)
