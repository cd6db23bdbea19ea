"""Time stencils: two sparse matrices a, b (residual blocks × times).

    y_k = Σ_j a_kj M û_j            X_k = Σ_j b_kj F(û_j)

so that ``Σ_j a_kj u(t_j)`` approximates u_t where ``Σ_j b_kj F(u(t_j))`` approximates F. Steps may differ.
Temporal test functions are B-splines ψ_k in time, on which the time derivatives go:

    ∫ ψ_k ∂_t^m u dt = (−1)^m ∫ ψ_k^(m) u dt        a_kj = (−1)^m ψ_k^(m)(t_j) w_j,      b_kj = ψ_k(t_j) w_j

w are trapezoidal weights. On even steps they are exact to order p + 1 − m for ψ of degree p, which is smooth and has
compact support, and the more so where the gap is a whole number of steps. Uneven steps have weights of their own, exact
for polynomials of degree 5 between neighbouring times. Where irregular times nearly coincide, polynomials through noisy
values would oscillate; there the values are those of a smoothing spline,

    (E g)(t) = Σ_j c_j |t − t_j|^7 + p(t),      (E g)(t_j) + N c_j = g_j,      Σ_j c_j q(t_j) = 0 for cubic q

of the neighbouring times, with a cubic p. E is linear in the data, so that noise stays where it was measured.

Fields at earlier times, u(t − τ), and their rates are local fits of the frames measured around t − τ:

    u(t_l − τ) ≈ Σ_j L_lj û_j,      u'(t_l − τ) ≈ Σ_j L'_lj û_j

L is a local fit of cubics with weights that vanish at the ends of a window, so that it is smooth in τ. It is linear in
the data: the sensitivity of what reads u(t − τ) is J(û_l) L, and the noise of û_j enters wherever it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Mask
from bvsi.errors import DataError, SpaceError
from bvsi.operators.vocabulary import lag_of
from bvsi.spaces.axis import LOCAL, UniformSplines, between, lagrange, local_map, nearest, spline_matrix, with_ends

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

# A step longer than this many typical ones is a gap in the record.
_GAP = 1.5
# Steps that differ by less than this part are even; not measured.
_EVEN = 1e-3
# Steps that differ from the median by less than this part are alike; where fewer than half are, and one is longer than
# so many medians, times are irregular. Not measured.
_ALIKE, _LONG = 0.01, 2.5
# Neighbours of a smoothing spline, and its N in units of gap^8 / step. At 240 random times with 6 mean steps to a gap,
# sums over a function have 1.2 to 1.5 times the noise of even times (polynomials of degree 5: 12 to 50), and waves
# as short as eight gaps are right to 5e-5.
_NEAR, _SMOOTHING = 17, 6e-4


class Stencil(Protocol):
    """A discretisation of u_t = F(u) in time."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a, b (K × T), sparse, for the time derivative of an order."""


@dataclass(frozen=True)
class BackwardEuler:
    """(u_k − u_{k−1})/Δt_k = F(u_k): first order, the paper's choice."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1, 1)/Δt, b = (0, 1) at (k−1, k)."""
        h = _steps(times, 1, self, order)
        return _banded(-1 / h, 1 / h), _banded(0 * h, 1 + 0 * h)


@dataclass(frozen=True)
class CrankNicolson:
    """(u_k − u_{k−1})/Δt_k = (F(u_{k−1}) + F(u_k))/2: second order."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1, 1)/Δt, b = (½, ½) at (k−1, k)."""
        h = _steps(times, 1, self, order)
        half = np.full(len(h), 0.5)
        return _banded(-1 / h, 1 / h), _banded(half, half)


@dataclass(frozen=True)
class BDF2:
    """Backward differences over three times: second order. With ω = Δt_k/Δt_{k−1}:

    [ω² u_{k−2} − (1+ω)² u_{k−1} + (1+2ω) u_k] / ((1+ω) Δt_k) = F(u_k)
    """

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """For equal steps a = (½, −2, 3/2)/Δt, b = (0, 0, 1) at (k−2, k−1, k)."""
        steps = _steps(times, 2, self, order)
        h, w = steps[1:], steps[1:] / steps[:-1]
        scale = 1 / ((1 + w) * h)
        return _banded(w**2 * scale, -((1 + w) ** 2) * scale, (1 + 2 * w) * scale), _banded(0 * h, 0 * h, 1 + 0 * h)


@dataclass(frozen=True)
class EachFrame:
    """No time derivative: every frame is a block by itself, F_0(u_k) = F(u_k). For steady problems."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:  # noqa: ARG002 - as all stencils
        """a = 0, b = 1 at k."""
        T = len(times)
        return sparse.csr_array((T, T)), sparse.eye_array(T, format="csr")


def _steps(times: Array, needed: int, stencil: object, order: int) -> Array:
    if order != 1:
        raise DataError(
            f"stencil: {type(stencil).__name__} has first time derivatives only; use TemporalTests() for order {order}."
        )
    if len(times) < needed + 1:
        raise DataError(
            f"times: {type(stencil).__name__} needs at least {needed + 1} times, the data have {len(times)}."
        )
    return np.diff(times)


def _banded(*diagonals: Array) -> Any:
    """Row k holds ``diagonals[m][k]`` in column k + m; zeros are left out."""
    K, m = len(diagonals[0]), len(diagonals)
    offsets = list(range(m))
    matrix = sparse.csr_array(sparse.diags_array(diagonals, offsets=offsets, shape=(K, K + m - 1)))
    matrix.eliminate_zeros()
    return matrix


@dataclass(frozen=True)
class TemporalTests:
    """B-spline test functions in time.

    Functions whose support holds a gap of the record longer than a knot gap (missing frames) are left out.

    Parameters
    ----------
    degree
        Degree of the splines; p − 1 derivatives are continuous.
    gap
        Steps between knots, and between one function and the next; a function is degree + 1 gaps wide.
    ends
        Whether there are functions that reach the first and the last frame too, narrower ones, which vanish there with
        as many derivatives as go onto them; otherwise all vanish there with all derivatives.
    """

    degree: int = 5
    gap: float = 2.0
    ends: bool = False

    def __post_init__(self) -> None:
        if self.degree < 2 or not (np.isfinite(self.gap) and self.gap > 0):
            raise DataError(f"degree must be 2 or more and gap positive; got {self.degree} and {self.gap}.")

    def splines(self, times: Array, order: int = 1) -> UniformSplines:
        """The functions ψ_k on the span of the times, for the time derivative of an order."""
        length, vanishing = float(times[-1] - times[0]), order if self.ends else None
        try:
            return UniformSplines.by_gap(
                float(times[0]),
                length,
                self.gap * typical_step(times),
                self.degree,
                periodic=False,
                nodes=len(times),
                vanishing=vanishing,
            )
        except SpaceError as error:
            raise DataError(f"times: {error}") from None

    def first(self, times: Array, every: int) -> int:
        """The first of every so many times, as far from one end as the last is from the other."""
        return (len(times) - 1) % every // 2

    def whole(self, times: Array, order: int = 1) -> Mask:
        """Functions without missing frames inside their support, (n,)."""
        splines = self.splines(times, order)
        steps, (begin, end) = np.diff(times), splines.supports
        missing = np.flatnonzero(steps > max(_GAP * typical_step(times), splines.gap))
        tolerance = 1e-9 * splines.length
        over = (times[missing + 1] > begin[:, None] + tolerance) & (times[missing] < end[:, None] - tolerance)
        return np.asarray(~over.any(axis=1))

    def at(self, times: Array, chosen: slice, order: int = 1) -> tuple[Any, Any]:
        """The same a and b at some of the times, evenly spaced: the trapezoidal rule with longer steps."""
        splines, points = self.splines(times, order), times[chosen]
        step = float(points[1] - points[0])
        return (-1) ** order * step * spline_matrix(splines, points, order), step * spline_matrix(splines, points)

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1)^m ψ^(m)(t) w, b = ψ(t) w for the m-th time derivative."""
        if len(times) < self.degree + 2:
            other = " or CrankNicolson()" if order == 1 else f", at least {order + 1},"
            raise DataError(
                f"times: temporal test functions of degree {self.degree} need at least {self.degree + 2} times, the "
                f"data have {len(times)}; use a lower degree{other} or more frames."
            )
        if order >= self.degree:
            raise DataError(f"degree: time derivatives of order {order} need test functions of degree {order + 1}.")
        splines = self.splines(times, order)
        points, weights, interpolation = _quadrature(splines, times)
        weigh = sparse.diags_array(weights) @ interpolation

        def integrals(m: int) -> Any:
            inner = sparse.csr_array(spline_matrix(splines, points, m) @ weigh)
            return with_ends(inner, splines, times, m) if evenly_spaced(times) else inner

        a, b, whole = (-1) ** order * integrals(order), integrals(0), self.whole(times, order)
        if not whole.any():
            raise DataError(
                "times: every test function in time reaches over missing frames, or over a hole between frames; give "
                "frames at more even times, or narrower functions where the signal is slow: "
                "method=Method(stencil=TemporalTests(gap=...))."
            )
        return a[whole], b[whole]


def evenly_spaced(times: Array) -> bool:
    """Whether all steps are alike."""
    steps = np.diff(times)
    return bool(np.ptp(steps) <= _EVEN * steps.mean())


def irregular(times: Array) -> bool:
    """Whether times have no common step, even up to missing frames."""
    steps = np.diff(times) / np.median(np.diff(times))
    return bool(np.mean(np.abs(steps - 1) < _ALIKE) < 0.5 and steps.max() > _LONG)


def typical_step(times: Array) -> float:
    """The median step, which missing frames do not change; the mean one of irregular times."""
    steps = np.diff(times)
    return float(steps.mean() if irregular(times) else np.median(steps))


def trapezoidal(points: Array) -> Array:
    """Weights of the trapezoidal rule on points, (n,)."""
    steps = np.diff(points)
    return np.asarray(0.5 * (np.append(steps, 0.0) + np.insert(steps, 0, 0.0)))


def _quadrature(splines: UniformSplines, times: Array) -> tuple[Array, Array, Any]:
    """Points, weights, and the map E (points × T) that gives the data there.

    Even steps: the times themselves. Others: Gauss points between times and knots. E is then the polynomial of degree 5
    through the nearest times, so that a_kj = (−1)^m ∫ ψ_k^(m) ℓ_j dt with local Lagrange polynomials ℓ_j, or the
    smoothing spline of irregular times.
    """
    smooth = irregular(times) and len(times) >= _NEAR
    count = _NEAR if smooth else LOCAL + 1
    if evenly_spaced(times) or len(times) < count:
        return times, trapezoidal(times), sparse.eye_array(len(times), format="csr")
    points, weights = between(splines, times)
    near = nearest(points, times, count)
    nugget = _SMOOTHING * splines.gap**8 / typical_step(times)
    values = _smoothing(points, times[near], nugget) if smooth else lagrange(points, times[near])
    return points, weights, local_map(near, values, len(times))


def _smoothing(points: Array, nodes: Array, nugget: float) -> Array:
    """Weights of the smoothing spline of nodes (M, k) at points (M,), (M, k).

    Parameters
    ----------
    nugget
        N.
    """
    k = nodes.shape[1]
    middle = nodes.mean(axis=1, keepdims=True)
    size = np.abs(nodes - middle).max(axis=1, keepdims=True)  # lengths of order one
    x, at, powers = (nodes - middle) / size, (points[:, None] - middle) / size, np.arange(4)
    system = np.zeros((len(x), k + 4, k + 4))
    system[:, :k, :k] = np.abs(x[:, :, None] - x[:, None]) ** 7 + (nugget / size**7)[:, :, None] * np.eye(k)
    system[:, :k, k:] = x[:, :, None] ** powers
    system[:, k:, :k] = np.swapaxes(system[:, :k, k:], 1, 2)
    wanted = np.concatenate([np.abs(at - x) ** 7, at**powers], axis=1)
    return np.asarray(np.linalg.solve(system, wanted[..., None])[:, :k, 0])


# Frames on each side of t − τ that the fit of cubics takes, and that it has at least where the record begins; not
# measured: a cubic over eight frames is right to 1e-4 for twenty frames a period, and halves the noise.
_AROUND, _LEAST = 4, 7
_CUBIC = 3  # cubics, see above
# Part of a step by which t − τ may lie before the first frame.
_ROUNDING = 1e-6


def shift(times: Array, tau: float, *, rate: bool = False) -> Any:
    """L, or L' of the rate, (T × T), sparse; rows of times less than τ after the first are zero."""
    if len(times) <= _LEAST:
        raise DataError(f"lag: {_LEAST + 1} frames are needed, and there are {len(times)}.")
    step, window = float(np.median(np.diff(times))), np.arange(min(2 * _AROUND + 1, len(times)))
    l = np.flatnonzero(times - tau >= times[0] - _ROUNDING * step)  # noqa: E741 - as in the formula
    at = times[l] - tau
    first = np.clip(np.searchsorted(times, at) - _AROUND, 0, len(times) - len(window))
    columns = first[:, None] + window
    distance = times[columns] - at[:, None]
    width = np.maximum(_AROUND * step, 1.001 * np.sort(np.abs(distance), axis=1)[:, [_LEAST]])
    z = distance / width
    weight = np.maximum(1 - z**2, 0.0) ** 2
    powers = z[:, :, None] ** np.arange(_CUBIC + 1)
    moments = np.einsum("lw,lwp,lwq->lpq", weight, powers, powers)
    wanted = np.zeros((len(l), _CUBIC + 1, 1))
    wanted[:, int(rate), 0] = 1.0 / width[:, 0] if rate else 1.0
    values = weight * (powers @ np.linalg.solve(moments, wanted))[:, :, 0]
    rows = np.repeat(l, len(window))
    return sparse.csr_array((values.ravel(), (rows, columns.ravel())), shape=(len(times), len(times)))


def shifts(operators: Iterable[WeakOperator], times: Array) -> dict[str, Any]:
    """L by the name of a field at an earlier time that operators read."""
    return {name: shift(times, tau, rate=rate) for name, (_, tau, rate) in lags_of(operators).items()}


def lags_of(operators: Iterable[WeakOperator]) -> dict[str, tuple[str, float, bool]]:
    """Field, delay, and whether it is the rate, by the name of a field at an earlier time that operators read."""
    names = sorted(frozenset[str]().union(*(o.lags for o in operators)))
    return {name: lag for name in names if (lag := lag_of(name)) is not None}


def without_history(b: Any, times: Array, longest: float) -> Array:
    """Blocks (K,) that read no time less than ``longest`` after the first."""
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    early = times - longest < times[0] - _ROUNDING * step
    whole = np.asarray(abs(b) @ early.astype(float) == 0)
    if not whole.any():
        raise DataError(f"lag: no test function fits into the record after the first {longest:g}; bound the delay.")
    return whole
