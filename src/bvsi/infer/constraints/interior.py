"""Points strictly inside linear constraints, from which samplers start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer.constraints.feasibility import conflict, linear_program
from bvsi.infer.constraints.linear import LinearConstraints
from bvsi.infer.constraints.program import project

Array = NDArray[np.float64]

SLACK = 0.1
"""Slack that a start keeps, as a share of the largest slack that all rows can have, which counts up to the scale."""

_FLAT = 1e-8
"""Largest slack, in units of the scale, that counts as none."""


def interior(theta: Array, scale: Array, constraints: LinearConstraints) -> Array:
    """The point nearest to θ, in units of ``scale``, with slack in every inequality; equalities hold.

    Row i has slack ≥ SLACK · t · w_i, where w_i = min(‖a_i ∘ scale‖, half the distance of its bounds), and t ≤ 1 is the
    largest such that all rows can have the slack t · w_i.

    theta: (d,); scale: (d,), positive, such as standard deviations.
    :class:`InfeasibleError` where inequalities leave no room, such as a ≥ b, b ≥ c, c ≥ a.
    """
    d = len(constraints.names)
    if np.shape(theta) != (d,) or not np.isfinite(theta).all():
        raise BvsiError(f"theta: {d} finite numbers are needed; got shape {np.shape(theta)}.")
    if np.shape(scale) != (d,) or not (np.isfinite(scale) & (np.asarray(scale) > 0)).all():
        raise BvsiError(f"scale: {d} positive finite numbers are needed; got shape {np.shape(scale)}.")
    if not constraints:
        return np.asarray(theta, dtype=np.float64)
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
