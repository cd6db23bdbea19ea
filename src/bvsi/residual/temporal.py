"""Temporal test functions: B-splines ψ_k in time, on which the time derivatives go.

    ∫ ψ_k ∂_t^m u dt = (−1)^m ∫ ψ_k^(m) u dt        a_kj = (−1)^m ψ_k^(m)(t_j) w_j,      b_kj = ψ_k(t_j) w_j

w are trapezoidal weights. On even steps they are exact to order p + 1 − m for ψ of degree p, which is smooth and has
compact support, and the more so where the gap is a whole number of steps; on uneven ones to second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.bsplines import UniformSplines
from bvsi.errors import DataError, SpaceError

Array = NDArray[np.float64]

# A step longer than this many typical ones is a gap in the record.
_GAP = 1.5
# The same for records that are uneven throughout.
_GAP_UNEVEN = 4.0


@dataclass(frozen=True)
class TemporalTests:
    """B-spline test functions in time.

    degree: of the splines; p − 1 derivatives are continuous.
    gap: steps between knots, and between one function and the next; a function is degree + 1 gaps wide.

    Functions whose support holds a gap of the record (missing frames) are left out.
    """

    degree: int = 5
    gap: float = 2.0

    def __post_init__(self) -> None:
        if self.degree < 2 or not (np.isfinite(self.gap) and self.gap > 0):
            raise DataError(f"degree must be 2 or more and gap positive; got {self.degree} and {self.gap}.")

    def splines(self, times: Array) -> UniformSplines:
        """The functions ψ_k on the span of the times."""
        step = float(np.median(np.diff(times)))
        try:
            return UniformSplines.by_gap(
                float(times[0]), float(times[-1] - times[0]), self.gap * step, self.degree, periodic=False
            )
        except SpaceError as error:
            raise DataError(f"times: {error}") from None

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1)^m ψ^(m)(t) w, b = ψ(t) w for the m-th time derivative."""
        if len(times) < self.degree + 2:
            raise DataError(
                f"times: temporal test functions of degree {self.degree} need at least {self.degree + 2} times, the "
                f"data have {len(times)}; use a lower degree or CrankNicolson()."
            )
        if order >= self.degree:
            raise DataError(f"degree: time derivatives of order {order} need test functions of degree {order + 1}.")
        splines = self.splines(times)
        functions = splines.functions(times)
        weights = trapezoidal(times)[:, None]
        a = _matrix((-1) ** order * splines.values(times, order) * weights, functions, splines.n)
        b = _matrix(splines.values(times) * weights, functions, splines.n)
        whole = ~_over_gaps(splines, times)
        if not whole.any():
            raise DataError("times: every temporal test function spans missing frames; use a smaller gap.")
        return a[whole], b[whole]


def trapezoidal(points: Array) -> Array:
    """Weights of the trapezoidal rule on points, (n,)."""
    steps = np.diff(points)
    return np.asarray(0.5 * (np.append(steps, 0.0) + np.insert(steps, 0, 0.0)))


def _matrix(values: Array, functions: NDArray[np.int64], n: int) -> Any:
    """Values (T, p + 1) of some functions at every time as a sparse matrix (n, T), zeros left out."""
    times = np.broadcast_to(np.arange(len(values))[:, None], values.shape)
    there = (functions >= 0) & (values != 0)
    return sparse.csr_array((values[there], (functions[there], times[there])), shape=(n, len(values)))


def _over_gaps(splines: UniformSplines, times: Array) -> NDArray[np.bool_]:
    """Functions with missing frames inside their support, (n,)."""
    steps = np.diff(times)
    typical = np.median(steps)
    even = np.mean(np.abs(steps - typical) < 0.01 * typical) > 0.5
    longest = _GAP * typical if even else max(_GAP_UNEVEN * typical, splines.gap)
    missing = np.flatnonzero(steps > longest)
    begin = splines.start + np.arange(splines.n) * splines.gap
    end = begin + (splines.degree + 1) * splines.gap
    tolerance = 1e-9 * splines.length
    over = (times[missing + 1][None] > begin[:, None] + tolerance) & (times[missing][None] < end[:, None] - tolerance)
    return np.asarray(over.any(axis=1))
