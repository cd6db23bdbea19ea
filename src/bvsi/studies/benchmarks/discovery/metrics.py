"""Measures of a discovered equation against the truth.

    TPR = TP / (TP + FN + FP)          E∞ = max_i |θ̂_i − θ_i| / |θ_i| over the true operators

TP, FN, FP: true operators selected, true ones missed, others selected. An operator that is not selected has θ̂_i = 0,
so that a missed one gives E∞ ≥ 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bvsi.discovery import Discovery
from bvsi.errors import BvsiError

Interval = tuple[float, float]


def true_positive_ratio(selected: Collection[str], truth: Mapping[str, float]) -> float:
    """TP / (TP + FN + FP): 1 where exactly the true operators are selected."""
    chosen, true = set(selected), _true(truth)
    return len(chosen & true) / len(chosen | true)


def largest_relative_error(theta: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """max_i |θ̂_i − θ_i| / |θ_i|.

    Parameters
    ----------
    theta
        Coefficients of the selected operators.
    """
    return max(abs(theta.get(name, 0.0) - truth[name]) / abs(truth[name]) for name in _true(truth))


def standard_scores(found: Discovery, truth: Mapping[str, float]) -> dict[str, float]:
    """(θ̂_i − θ_i)/sd_i of the true operators that were selected."""
    rows = zip(found.names, found.theta.tolist(), found.sd.tolist(), strict=True)
    estimates = {name: (value, sd) for name, value, sd in rows}
    return {name: (estimates[name][0] - true) / estimates[name][1] for name, true in truth.items() if name in estimates}


def covered(intervals: Mapping[str, Interval], truth: Mapping[str, float]) -> dict[str, bool]:
    """Whether the interval of each selected true operator contains its coefficient."""
    true = _true(truth)
    return {name: low <= truth[name] <= high for name, (low, high) in intervals.items() if name in true}


def _true(truth: Mapping[str, float]) -> set[str]:
    true = {name for name, value in truth.items() if value != 0}
    if not true:
        raise BvsiError("truth: at least one operator with a coefficient other than 0 is needed.")
    return true
