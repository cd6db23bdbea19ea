"""Can rows l ≤ A θ ≤ u hold together? If not, a smallest set of them that cannot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer.constraints.scaling import equilibrate

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""Violation, in units of the terms of a row, that counts as rounding."""


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
