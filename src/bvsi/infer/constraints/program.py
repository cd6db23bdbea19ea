"""Quadratic programs over linear constraints: the best coefficients that satisfy them, and the nearest.

:func:`interior` gives points strictly inside, from which samplers start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import daqp
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError, InfeasibleError, NotPositiveDefiniteError
from bvsi.infer.constraints.feasibility import TOLERANCE, Affine, conflict, linear_program, solve_equalities
from bvsi.infer.constraints.linear import ConstraintRows, LinearConstraints
from bvsi.linalg import ScaledCholesky

Sides = NDArray[np.int8]

# Part of the gradient that multipliers may leave, in units of its terms.
_STATIONARY = 1e-7
# Violation that the solver allows, and what is added to all bounds, in units of the largest violation at the start.
# Bounds much smaller than that need the first; rows that leave a single point may contradict each other by rounding.
_ATTEMPTS = ((1e-11, 0.0), (1e-10, 0.0), (1e-9, 0.0), (1e-9, 1e-9), (1e-7, 1e-7))
# Asymmetry of P that is refused, in units of its diagonal.
_SYMMETRIC = 1e-8
# Violation, in units of the terms of a row, that more digits could not avoid.
_ROUNDING = 1e-14
#: Slack that a start keeps, as a share of the largest slack that all rows can have, which counts up to the scale.
SLACK = 0.1
# Largest slack, in units of the scale, that counts as none.
_FLAT = 1e-8


def solve_program(P: Array, g: Array, constraints: LinearConstraints) -> Array:
    """argmin ½ xᵀPx − gᵀx subject to l ≤ A x ≤ u, (d,).

    Parameters
    ----------
    P
        (d, d) symmetric positive definite.
    g
        (d,). Bounds on single coefficients hold to the last bit.
    """
    d = len(constraints.names)
    P, g = _checked(P, d), _point(g, d, "g")
    return _nearest(P, _factorised(P).solve(g), constraints)


def project(theta: Array, constraints: LinearConstraints, metric: Array) -> Array:
    """The x nearest to θ (d,) in (x − θ)ᵀ P (x − θ) with l ≤ A x ≤ u.

    Parameters
    ----------
    metric
        P (d, d).
    """
    d = len(constraints.names)
    return _nearest(_checked(metric, d), _point(theta, d, "theta"), constraints)


class _UnsolvedError(BvsiError):
    """An attempt failed; the message says why."""


@dataclass(frozen=True, eq=False)
class _Task:
    """min ½|z|², low ≤ M z ≤ high, with rows of length one and bounds of order one: what the solver is given.

    Attributes
    ----------
    count
        Number of rows that they come from.
    varying
        Positions of the rows of M among them.
    """

    count: int
    varying: NDArray[np.intp]
    M: Array
    low: Array
    high: Array


def _checked(P: Array, d: int) -> Array:
    """A matrix, refused unless it is (d, d), finite and symmetric."""
    matrix = np.asarray(P, dtype=np.float64)
    if matrix.shape != (d, d) or not np.isfinite(matrix).all():
        raise BvsiError(f"P: a finite matrix ({d}, {d}) is needed; got shape {matrix.shape}.")
    size = np.sqrt(np.abs(np.diag(matrix)))
    if (np.abs(matrix - matrix.T) > _SYMMETRIC * np.outer(size, size)).any():
        raise BvsiError("P: a symmetric matrix is needed; use (P + P.T)/2.")
    return matrix


def _point(x: Array, d: int, label: str) -> Array:
    """A vector, refused unless it has d finite entries."""
    vector = np.asarray(x, dtype=np.float64)
    if vector.shape != (d,) or not np.isfinite(vector).all():
        raise BvsiError(f"{label}: {d} finite numbers are needed; got shape {vector.shape}.")
    return vector


def _factorised(P: Array) -> ScaledCholesky:
    """Cholesky factor; :class:`NotPositiveDefiniteError` where there is none."""
    diagonal = np.diag(P)
    if not (diagonal > 0).all():
        raise NotPositiveDefiniteError("P: the diagonal has to be positive.", "P", int(np.argmin(diagonal > 0)))
    scale = np.sqrt(diagonal)
    L, info = scipy.linalg.lapack.dpotrf(P / scale[:, None] / scale, lower=1, clean=1)
    if info:
        message = "P: the matrix is not positive definite; leave out operators that the data cannot tell apart."
        raise NotPositiveDefiniteError(message, "P", int(info) - 1)
    return ScaledCholesky(scale, np.asarray(L))


def _nearest(P: Array, centre: Array, constraints: LinearConstraints) -> Array:
    """argmin (x − centre)ᵀ P (x − centre), polished on its working set and checked by its multipliers."""
    affine = constraints.affine()
    start = affine.eta(_in_subspace(P, centre, affine))
    task = _whitened(affine.T.T @ P @ affine.T, start, constraints.rows_in(affine).take(~constraints.equality))
    sides = np.where(constraints.equality, 1, 0).astype(np.int8)
    if task is None and not sides.any():
        return centre
    why = ""
    for tolerance, room in _ATTEMPTS:
        try:
            if task is not None:
                sides[~constraints.equality] = _working_set(task, tolerance, room)
            return _polished(P, centre, constraints, sides)
        except (_UnsolvedError, InfeasibleError) as error:
            why = str(error)
    raise BvsiError(
        f"constraints: the quadratic program could not be solved ({why}); rescale or relax the constraints."
    )


def _in_subspace(P: Array, centre: Array, affine: Affine) -> Array:
    """argmin (x − centre)ᵀ P (x − centre) over x = offset + T η."""
    if not len(affine.free):
        return affine.offset
    start = affine.eta(centre)
    # the step from the centre's own η vanishes where the centre lies in the set: nothing is lost to rounding
    step = affine.T.T @ (P @ (centre - affine.theta(start)))
    reduced = affine.T.T @ P @ affine.T
    return affine.theta(start + _factorised(reduced).solve(step))


def _whitened(P: Array, centre: Array, rows: ConstraintRows) -> _Task | None:
    """The rows for z = Lᵀ S (x − centre) / τ, τ the largest violation at the centre; None where there is none."""
    value = rows.A @ centre
    varying = np.flatnonzero(rows.A.any(axis=1))
    if not ((value < rows.lower) | (value > rows.upper))[varying].any():
        return None
    M = _factorised(P).whiten_rows(rows.A[varying])
    length = np.linalg.norm(M, axis=1)
    low, high = (rows.lower - value)[varying] / length, (rows.upper - value)[varying] / length
    largest = max(low.max(), -high.min())
    return _Task(len(value), varying, M / length[:, None], low / largest, high / largest)


def _working_set(task: _Task, tolerance: float, room: float) -> Sides:
    """Sides (m,) of rows that hold the nearest point: −1 at the lower bound, 1 at the upper, 0 elsewhere."""
    d = task.M.shape[1]
    _, _, flag, info = daqp.solve(
        np.eye(d),
        np.zeros(d),
        np.ascontiguousarray(task.M),
        task.high + room,
        task.low - room,
        np.zeros(len(task.M), dtype=np.int32),
        primal_tol=tolerance,
    )
    if flag != 1:
        raise _UnsolvedError(f"the solver stopped with flag {flag}")
    sides = np.zeros(task.count, dtype=np.int8)
    sides[task.varying] = np.sign(info["lam"])
    return sides


def _polished(P: Array, centre: Array, constraints: LinearConstraints, sides: Sides) -> Array:
    """x that solves the program, from a working set that solves it to the solver's tolerance.

    Rows of the set hold with equality. A row that x still breaks joins it; one that pushes the wrong way leaves it.
    """
    sides = sides.copy()
    for _ in range(3 * len(constraints) + 3):
        rows = constraints.rows.take(sides != 0)
        target = np.where(sides[sides != 0] < 0, rows.lower, rows.upper)
        affine = solve_equalities(rows.A, target, constraints.names, rows.texts)
        x = _in_subspace(P, centre, affine)
        value = constraints.A @ x
        excess = _broken(value, np.abs(constraints.A) @ np.abs(x), constraints, affine)
        if excess.any():
            worst = int(excess.argmax())
            sides[worst] = 1 if value[worst] > constraints.upper[worst] else -1
            continue
        wrong = _wrong_way(P, centre, x, constraints, sides)
        if not wrong.any():
            return constraints.clipped(x)
        sides[int(wrong.argmax())] = 0
    raise _UnsolvedError("no set of rows holds the solution")


def _broken(value: Array, size: Array, constraints: LinearConstraints, affine: Affine) -> Array:
    """By how much (m,) rows with A x = value are broken, in units of their terms; zero where it is rounding."""
    excess = np.maximum(constraints.lower - value, value - constraints.upper)
    varying = constraints.rows_in(affine).A.any(axis=1)
    # a row that is constant on the affine set cannot be satisfied there
    if (~varying & (excess > TOLERANCE * size)).any():
        raise _UnsolvedError("the working set contradicts a row")
    broken = varying & (excess > np.where(constraints.single, 0.0, _ROUNDING * size))
    share = np.zeros(len(excess))
    share[broken] = excess[broken] / (size + excess)[broken]
    return share


def _wrong_way(P: Array, centre: Array, x: Array, constraints: LinearConstraints, sides: Sides) -> Array:
    """By how much (m,) the multipliers λ, P (x − centre) + Aᵀλ = 0, of rows of the working set have the wrong sign.

    Refused where a gradient is left.
    """
    scale = np.sqrt(np.diag(P))
    gradient = P @ (centre - x) / scale
    rounding = _STATIONARY * float((np.abs(P) @ (np.abs(centre) + np.abs(x)) / scale).max())
    held = np.flatnonzero(sides)
    rows = constraints.A[held] / scale
    rows = rows / np.linalg.norm(rows, axis=1)[:, None]
    found = np.linalg.lstsq(rows.T, gradient, rcond=None)[0]
    if np.abs(gradient - rows.T @ found).max() > rounding:
        raise _UnsolvedError("its solution does not satisfy the optimality conditions")
    against = np.where(constraints.equality[held], 0.0, -found * sides[held])
    wrong = np.zeros(len(constraints))
    wrong[held] = np.where(against > rounding, against, 0.0)
    return wrong


def interior(theta: Array, scale: Array, constraints: LinearConstraints) -> Array:
    """The point nearest to θ, in units of ``scale``, with slack in every inequality; equalities hold.

    Row i has slack ≥ SLACK · t · w_i, where w_i = min(‖a_i ∘ scale‖, half the distance of its bounds), and t ≤ 1 is the
    largest such that all rows can have the slack t · w_i.

    :class:`InfeasibleError` where inequalities leave no room, such as a ≥ b, b ≥ c, c ≥ a.

    Parameters
    ----------
    theta
        (d,).
    scale
        (d,), positive, such as standard deviations.
    """
    if not constraints:
        return theta
    width = np.minimum(np.linalg.norm(constraints.A * scale, axis=1), 0.5 * (constraints.upper - constraints.lower))
    t = _largest_slack(theta, scale, constraints, width)
    if t <= _FLAT:
        raise _flat(constraints, width)
    tightened = _tightened(constraints, SLACK * t * width)
    return project(theta, tightened, np.diag(1 / np.square(scale)))


def _largest_slack(theta: Array, scale: Array, constraints: LinearConstraints, width: Array) -> float:
    """max t ≤ 1 with l + t w ≤ A (θ + scale ∘ y) ≤ u − t w, over y and t."""
    length = np.linalg.norm(constraints.A * scale, axis=1)
    A, w = constraints.A * scale / length[:, None], width / length
    value = constraints.A @ theta
    low, high = (constraints.lower - value) / length, (constraints.upper - value) / length
    equal = constraints.equality
    above, below = np.isfinite(high) & ~equal, np.isfinite(low) & ~equal
    below_rows = np.column_stack([np.concatenate([A[above], -A[below]]), np.concatenate([w[above], w[below]])])
    x = linear_program(
        np.append(np.zeros(len(theta)), -1.0),
        (below_rows, np.concatenate([high[above], -low[below]])),
        (np.column_stack([A[equal], np.zeros(equal.sum())]), low[equal]),
        (None, 1.0),
    )
    return float(x[-1])


def _tightened(constraints: LinearConstraints, slack: Array) -> LinearConstraints:
    """l + slack ≤ A θ ≤ u − slack, slack (m,), zero at equalities."""
    return replace(constraints, lower=constraints.lower + slack, upper=constraints.upper - slack)


def _flat(constraints: LinearConstraints, width: Array) -> InfeasibleError:
    """The error that names rows without room between them."""
    tight = 1e-3 * width
    rows = conflict(constraints.A, constraints.lower + tight, constraints.upper - tight) or range(len(constraints))
    texts = tuple(constraints.texts[i] for i in rows)
    listed = "; ".join(repr(text) for text in texts)
    return InfeasibleError(
        f"constraints: no room is left inside {listed}. Relax one of them, or write equalities with ==.", texts
    )
