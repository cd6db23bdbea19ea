"""Fields at earlier times, u(t − τ), and their rates, from the measured frames around t − τ.

    u(t_l − τ) ≈ Σ_j L_lj û_j,      u'(t_l − τ) ≈ Σ_j L'_lj û_j

L is a local fit of cubics with weights that vanish at the ends of a window, so that it is smooth in τ. It is linear in
the data: the sensitivity of what reads u(t − τ) is J(û_l) L, and the noise of û_j enters wherever it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array
from bvsi.errors import DataError
from bvsi.operators.vocabulary import lag_of
from bvsi.residual.discrete import State

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

# Frames on each side of t − τ that the fit of cubics takes, and that it has at least where the record begins; not
# measured: a cubic over eight frames is right to 1e-4 for twenty frames a period, and halves the noise.
_HALF, _LEAST = 4, 7
_DEGREE = 3  # cubics, see above
# Part of a step by which t − τ may lie before the first frame.
_ROUNDING = 1e-6


def shift(times: Array, tau: float, *, rate: bool = False) -> Any:
    """L, or L' of the rate, (T × T), sparse; rows of times less than τ after the first are zero."""
    if len(times) <= _LEAST:
        raise DataError(f"lag: {_LEAST + 1} frames are needed, and there are {len(times)}.")
    step, window = float(np.median(np.diff(times))), np.arange(min(2 * _HALF + 1, len(times)))
    l = np.flatnonzero(times - tau >= times[0] - _ROUNDING * step)  # noqa: E741 - as in the formula
    at = times[l] - tau
    first = np.clip(np.searchsorted(times, at) - _HALF, 0, len(times) - len(window))
    columns = first[:, None] + window
    distance = times[columns] - at[:, None]
    width = np.maximum(_HALF * step, 1.001 * np.sort(np.abs(distance), axis=1)[:, [_LEAST]])
    z = distance / width
    weight = np.maximum(1 - z**2, 0.0) ** 2
    powers = z[:, :, None] ** np.arange(_DEGREE + 1)
    moments = np.einsum("lw,lwp,lwq->lpq", weight, powers, powers)
    wanted = np.zeros((len(l), _DEGREE + 1, 1))
    wanted[:, int(rate), 0] = 1.0 / width[:, 0] if rate else 1.0
    values = weight * (powers @ np.linalg.solve(moments, wanted))[:, :, 0]
    rows = np.repeat(l, len(window))
    return sparse.csr_array((values.ravel(), (rows, columns.ravel())), shape=(len(times), len(times)))


def shifts(operators: Iterable[WeakOperator], times: Array) -> dict[str, Any]:
    """L by the name of a field at an earlier time that operators read."""
    names = sorted(frozenset[str]().union(*(o.lags for o in operators)))
    return {name: shift(times, lag[1], rate=lag[2]) for name in names if (lag := lag_of(name)) is not None}


def with_lags(state: State, L: dict[str, Any]) -> State:
    """The state with fields at earlier times, and the variance of their noise, Σ_j L_lj² Var(û_j)."""
    fields, variance = dict(state.recovered), dict(state.variance)
    for name, matrix in L.items():
        lag = lag_of(name)
        assert lag is not None
        fields[name] = np.ascontiguousarray((matrix @ state.fields[lag[0]].T).T)
        if lag[0] in variance:
            own = variance[lag[0]]
            everywhere = np.broadcast_to(own, (own.shape[0], state.n_times))
            variance[name] = np.ascontiguousarray((matrix.multiply(matrix) @ everywhere.T).T)
    return replace(state, recovered=fields, variance=variance)


def without_history(b: Any, times: Array, longest: float) -> Array:
    """Blocks (K,) that read no time less than ``longest`` after the first."""
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    early = times - longest < times[0] - _ROUNDING * step
    whole = np.asarray(abs(b) @ early.astype(float) == 0)
    if not whole.any():
        raise DataError(f"lag: no test function fits into the record after the first {longest:g}; bound the delay.")
    return whole
