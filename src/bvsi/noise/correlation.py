"""Noise that is alike at neighbouring nodes or times: a model of it, how it is found, and how wide it is.

    f = (⊗_b D_b^q) û  over all axes b but one,      c_h = mean sign(f_i) sign(f_{i+h})  along that one
    ρ_h = sin(π c_h / 2),      κ = 1 + 2 Σ ρ_h,      Σ_h exp(−h²/4w²) = κ

Filters along the other axes take the signal off and leave the correlation along an axis as it is, where the kernel is a
product over axes. Signs make c blind to a few places where signal is left, and to noise whose size varies. Signal that
is left is smooth and only adds to ρ: of several orders q that with the least κ is used. The width w is that of a
Gaussian with the same κ, the density of the noise at long waves, which is what wide test functions see of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.special import gammaln, stdtr

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.data import Data, Grid
from bvsi.data.smoothness import along, difference_filter
from bvsi.errors import NoiseError
from bvsi.noise.level import dithered, lattice_step, observed
from bvsi.noise.models import Covariance, Diagonal, Frames, Noise, StateCovariance, UnknownScale, check_model
from bvsi.residual import Structure
from bvsi.residual.blur import Blur, correlation, spectral_density

# Orders of the differences along the other axes. The test of whiteness takes one; they leave little of signals that
# five steps resolve; not measured.
_ORDER, _ORDERS = 6, (1, 2, 3, 4, 6, 9)
# Degrees of freedom of Student's t for z: signal that is left makes the tails of z heavier than those of a normal.
_FREEDOM = 19
# Powers of correlations, and rows of a filter they are taken from.
_POWERS = 100
_ROWS = 2000  # rows of a filter are alike but for its ends
# Values that are enough; of more data the first frames are used, and of large ones the middle.
_MOST, _LARGEST = 60_000, 1_000_000
# Share of filtered values that are zero beyond which a field is constant or rounded.
_ZEROS = 0.01
# Values below which no test is made: the sum of signs is not yet normal; not measured.
_FEWEST = 500
# p below which noise is correlated: that of the check, so that a kernel needs the evidence of an alarm.
_SURELY = 1e-5
# Lags that are looked at, and the correlation below which there is none; farther ones are signal. Not measured.
_LAGS, _NONE = 16, 0.05
# Difference of a neighbour's correlation from a model beyond which the model is wrong, besides what chance explains: a
# Gaussian is not the kernel of every camera. Boxes of 3 and weights 1, 2, 1 are within 0.05.
_SHAPE = 0.08
# Part by which κ of one order may be larger than that of the next: of noise blurred over 1.5 steps on 61 × 96 values it
# was up to 0.28, by chance, of KdV and Fokker–Planck data without noise 0.3 and more (seeds 9020 and 9021).
_LEVEL = 0.3
# Mean squares of the filtered values in quarters of every axis, the largest over the smallest. Noise is the same
# everywhere, with at most 1.6 on the same data; what is left of a signal had at least 3.5 along time or space.
_PARTS, _EVEN = 4, 2.5
# Mean square that filters of one order may leave over that of the next, of noise that is white along their axes: what
# is left of waves of five steps falls by a factor of six. Not measured on its own.
_FALLS = 1.5


@dataclass(frozen=True)
class Blurred:
    """Noise of a known level that is blurred along axes: Cov(ε(x), ε(x + h)) = σ(x) σ(x + h) Π_a exp(−h_a²/4w_a²).

    White noise that a Gaussian of standard deviation w_a smooths has this law, as cameras, point-spread functions and
    filters make it. It goes with spline tests on uniform grids.

    Parameters
    ----------
    level
        Model of the level, ``IID``, ``PerField``, ``PerTime`` or ``Diagonal``: the standard deviation of the values.
    widths
        w by axis, ``time`` among them, in units of the coordinates; ``{"x": 0.05}``.
    """

    level: Noise
    widths: Mapping[str, float]

    def __post_init__(self) -> None:
        check_model(self.level, "level")
        if isinstance(self.level, Blurred | Covariance | UnknownScale):
            raise NoiseError("level: IID, PerField, PerTime or Diagonal is needed; UnknownScale(Blurred(...)) works.")
        widths = list(self.widths.values()) if isinstance(self.widths, Mapping) else []
        numbers = all(isinstance(w, (int, float, np.number)) for w in widths)
        if not (widths and numbers and all(np.isfinite(w) and w > 0 for w in widths)):
            raise NoiseError(
                f"widths: positive numbers by axis are needed, {{'x': 0.05}}, and axes without blur left out; got "
                f"{self.widths!r}."
            )

    @property
    def scale_known(self) -> bool:
        """Whether the size of the noise is known."""
        return self.level.scale_known

    def covariance(self, structure: Structure) -> StateCovariance:
        """That of the white noise before the kernel, which is part of the sensitivities."""
        if structure.blur is None:
            raise NoiseError(
                "noise: Blurred needs SplineTests() on a uniform grid, with frames at equal steps; elsewhere state a "
                "Covariance, which is the same at all times."
            )
        return self.level.covariance(structure)

    def at(self, frames: Frames, nodes: Mask | None = None) -> Blurred:
        """The level there; widths have units, and stay."""
        return Blurred(self.level.at(frames, nodes), self.widths)


def check_names(noise: Noise, data: Data, needed: Sequence[str] = ()) -> None:
    """Refuse a model that names axes or fields which the data do not have, or lacks fields that are needed."""
    check_model(noise, "noise")
    axes, level = (*data.geometry.names, "time"), shape_of(without_blur(noise))
    for axis in widths_of(noise):
        if axis not in axes:
            raise NoiseError(f"noise: the data have no axis {axis!r} to be blurred along; they have {', '.join(axes)}.")
    stated = level.matrix if isinstance(level, Covariance) else getattr(level, "sigma", None)
    if not isinstance(stated, Mapping):
        return
    for name in stated:
        if name not in data.names:
            raise NoiseError(f"noise: the data have no field {name!r}; they have {', '.join(data.names)}.")
    for name in needed:
        if name not in stated:
            raise NoiseError(f"noise: field {name!r} has none; given are {', '.join(stated)}.")


def shape_of(noise: Noise) -> Noise:
    """The model without its unknown scale."""
    return noise.shape if isinstance(noise, UnknownScale) else noise


def widths_of(noise: Noise) -> Mapping[str, float]:
    """Widths of blurred noise, empty for all other."""
    shape = shape_of(noise)
    return shape.widths if isinstance(shape, Blurred) else {}


def gain_of_counts(noise: Noise) -> Mapping[str, float]:
    """Size of one count by field, empty for noise that is not that of counts."""
    shape = shape_of(noise)
    return shape.gain if isinstance(shape, Diagonal) else {}


def correlated(noise: Noise) -> bool:
    """Whether the noise of one node may depend on that of another."""
    return isinstance(shape_of(noise), Covariance | Blurred)


def without_blur(noise: Noise) -> Noise:
    """The same level with independent values."""
    shape = shape_of(noise)
    if not isinstance(shape, Blurred):
        return noise
    return shape.level if shape is noise else UnknownScale(shape.level)


def neighbour_correlation(noise: Noise, data: Data) -> dict[str, float]:
    """What a model says of the correlation of neighbours, by axis and ``time``; mean over nodes and fields."""
    grid, shape = data.geometry, shape_of(noise)
    assert isinstance(grid, Grid)
    if isinstance(shape, Covariance):
        return _of_matrix(shape, grid)
    blur = Blur.of(data, widths_of(noise))
    widths = {} if blur is None else blur.widths
    return {name: float(correlation(widths.get(name, 0.0), np.array(1))) for name in ("time", *grid.names)}


def _of_matrix(noise: Covariance, grid: Grid) -> dict[str, float]:
    """The same of a stated matrix."""
    matrices = noise.matrix.values() if isinstance(noise.matrix, Mapping) else [noise.matrix]
    number = np.arange(grid.n_nodes).reshape(grid.shape)
    found = {"time": 0.0}
    for axis, name in enumerate(grid.names):
        own = np.moveaxis(number, axis, 0)
        i, j = own[:-1].ravel(), own[1:].ravel()
        values = []
        for matrix in matrices:
            m = sparse.csr_array(matrix)
            sd = np.sqrt(m.diagonal())
            for start in range(0, m.shape[0], grid.n_nodes):
                near = np.asarray(m[i + start, j + start]).ravel()
                values.append(float(np.mean(near / (sd[i + start] * sd[j + start]))))
        found[name] = float(np.mean(values))
    return found


@dataclass(frozen=True)
class Whiteness:
    """Correlation of neighbours along one axis, less what a model says of it.

    Attributes
    ----------
    axis
        Its name, or ``time``.
    correlation
        Mean product of the signs of neighbours.
    z, p
        In standard deviations of white noise, and how often chance gives as much; NaN where the data do not separate
        noise from signal or rounding, or are too few.
    """

    axis: str
    correlation: float
    z: float
    p: float


def whiteness(values: Array, data: Data, expected: Mapping[str, float] | None = None) -> list[Whiteness]:
    """One test per axis of a grid; with p = NaN where values are too few or too rough for it, or signal is left.

    Parameters
    ----------
    values
        (T, nodes), NaN where missing.
    expected
        Correlation of neighbours that a model has, by axis; zero by default.
    """
    tests, rounded = list[Whiteness](), False
    for axis, label, cube, filters in _views(values, data):
        others = [K for other, K in enumerate(filters(_ORDER)) if other != axis]
        signs = np.sign(_left(cube, axis, filters(_ORDER)))
        alike = signs[1:] * signs[:-1]
        alike = alike[np.isfinite(alike)]
        if alike.size < _FEWEST:
            tests.append(Whiteness(label, np.nan, np.nan, np.nan))
            continue
        rounded |= bool(np.mean(alike == 0) > _ZEROS)
        rho = 0.0 if expected is None else expected.get(label, 0.0)
        found, model = float(np.mean(alike)), float(2 / np.pi * np.arcsin(rho))
        spread = _variance(others) / alike.size
        if rho > 0:  # fewer values are independent, and a Gaussian is not every kernel
            spread = spread * (1 + rho) / (1 - rho) + _SHAPE**2
        z = (found - model) / np.sqrt(spread)
        tests.append(Whiteness(label, found, float(z), float(2 * stdtr(_FREEDOM, -abs(z)))))
    alarming = [one.axis for one in tests if rounded or (one.p < _SURELY and one.correlation > 0)]
    if rounded or (len(alarming) == 1 < len(tests) and _signal_left(values, data, alarming[0])):
        return [replace(one, p=np.nan) if one.axis in alarming else one for one in tests]
    return tests


def _signal_left(values: Array, data: Data, label: str) -> bool:
    """Whether filters along all axes but one leave more of the data the lower their order, as they do of signal.

    Noise that is white along their axes keeps its variance. Of six or eight frames filters in time leave the signal:
    noise was called correlated in 6 of 14 such data with white noise.
    """
    for axis, name, cube, filters in _views(values, data):
        if name == label:
            orders = _orders(cube, axis)
            if orders[-1] < _ORDER:  # a few frames: what they leave may be signal, unless a kernel explains it
                return not np.isfinite(_of_kernel(cube, axis, filters))
            lower, higher = (np.nanmean(np.square(_left(cube, axis, filters(order)))) for order in orders[-2:])
            return bool(lower > _FALLS * higher)
    return False


def _orders(cube: Array, axis: int) -> list[int]:
    """Orders of differences that differ along some of the other axes, lowest first."""
    longest = max((n - 1) // 2 for other, n in enumerate(cube.shape) if other != axis)
    return sorted({min(order, longest) for order in _ORDERS})


def estimate_widths(data: Data, rng: Rng | None = None) -> dict[str, float]:
    """Widths over which noise is blurred, by axis and ``time``, in units of the coordinates; mean over the fields.

    Empty where the noise is white, as far as the data show, and where it cannot be distinguished from signal.
    """
    grid = data.geometry
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(grid, Grid) or Blur.of(data, {"time": 1.0}) is None:
        return {}
    found: dict[str, list[float]] = {}
    for name in data.names:
        values = observed(data, name)
        values = dithered(values, lattice_step(values), rng)
        correlated = {t.axis for t in whiteness(values, data) if t.p < _SURELY and t.correlation > 0}
        if not correlated:
            continue
        for axis, label, cube, filters in _views(values, data):
            if label in correlated:
                density = _of_kernel(cube, axis, filters)
                if not np.isfinite(density):
                    return {}
                found.setdefault(label, []).append(_width(density))
    steps = {"time": data.times, **grid.axes}
    return {
        label: float(np.mean(w)) * float(np.median(np.diff(steps[label])))
        for label, w in found.items()
        if len(w) == len(data.names)
    }


def _of_kernel(cube: Array, axis: int, filters: Any) -> float:
    """κ on which filters of several orders agree, of what is as large everywhere; infinite where signal may be left."""
    density = _plateau([_density(cube, axis, filters(order)) for order in _orders(cube, axis)])
    return density if _even(_left(cube, axis, filters(_ORDER))) else float("inf")


def _density(cube: Array, axis: int, filters: list[Any]) -> float:
    """κ = 1 + 2 Σ ρ_h up to the first lag without correlation; infinite where there is none."""
    others = [K for other, K in enumerate(filters) if other != axis]
    signs, variance = np.sign(_left(cube, axis, filters)), _variance(others)
    total = squares = 1.0
    for lag in range(1, min(_LAGS, len(signs) // 2)):
        alike = signs[lag:] * signs[:-lag]
        alike = alike[np.isfinite(alike)]
        rho = float(np.sin(np.pi / 2 * np.mean(alike)))
        chance = np.pi / 2 * np.sqrt(variance * squares / max(alike.size, 1))  # Bartlett's error of a correlation
        if rho < max(_NONE, 2 * chance):
            return total
        total += 2 * rho
        squares += 2 * rho**2
    return float("inf")


def _plateau(sums: Sequence[float]) -> float:
    """Mean κ of the orders that agree with the least, where its neighbour does; that of signal falls with every order.

    Infinite where it does not.
    """
    least = int(np.argmin(sums))
    alike = [s < (1 + _LEVEL) * sums[least] for s in sums]
    if not any(alike[i] for i in (least - 1, least + 1) if 0 <= i < len(alike)):
        return float("inf")
    return float(np.mean([s for s, one in zip(sums, alike, strict=True) if one]))


def _left(cube: Array, axis: int, filters: list[Any]) -> Array:
    """What filters along other axes leave, the axis first; noise that is white along these keeps its variance."""
    others = [(other, K) for other, K in enumerate(filters) if other != axis]
    return np.moveaxis(reduce(lambda u, one: along(one[1], u, one[0]), others, cube), axis, 0)


def _even(left: Array) -> bool:
    """Whether what filters leave is as large everywhere, as noise is and most signals are not."""
    for along_axis in range(left.ndim):
        parts = [np.nanmedian(np.square(part)) for part in np.array_split(left, _PARTS, axis=along_axis) if part.size]
        if max(parts) > _EVEN * min(parts):
            return False
    return True


def _width(density: float) -> float:
    """w in steps with Σ_h exp(−h²/4w²) = κ, by bisection."""
    low, high = 0.0, float(_LAGS)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spectral_density(middle, np.zeros(1))[0] < density else (low, middle)
    return 0.5 * (low + high)


def _views(values: Array, data: Data) -> Iterator[tuple[int, str, Array, Any]]:
    """Every axis of the data: its number, name, values that are enough (T, *shape), and the filters of an order."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    frames = min(len(values), max(4 * _ORDER, _MOST // grid.n_nodes))
    kept = _middle(grid.shape, _LARGEST // frames)
    cube = values[:frames].reshape(-1, *grid.shape)[(slice(None), *kept)]
    if (
        cube.size < _FEWEST or not grid.dim
    ):  # in a series no other axis takes off the signal; the misfit shows it instead
        return
    coordinates = [data.times[:frames], *(x[part] for x, part in zip(grid.axes.values(), kept, strict=True))]
    periods = [None, *(grid.periods.get(axis) for axis in grid.names)]

    def filters(order: int) -> list[Any]:
        return [
            difference_filter(x, min(order, (len(x) - 1) // 2), period if len(x) == n else None)
            for x, period, n in zip(coordinates, periods, (frames, *grid.shape), strict=True)
        ]  # fmt: skip

    for axis, label in enumerate(("time", *grid.names)):
        if cube.shape[axis] > 1:  # one frame, of a steady problem, has no neighbours in time
            yield axis, label, cube, filters


def _middle(shape: tuple[int, ...], most: int) -> tuple[slice, ...]:
    """The middle of a grid, of about so many nodes at most."""
    share = min(1.0, (most / float(np.prod(shape))) ** (1 / max(len(shape), 1)))
    sizes = [min(n, max(4 * _ORDER, int(n * share))) for n in shape]
    return tuple(slice((n - size) // 2, (n - size) // 2 + size) for n, size in zip(shape, sizes, strict=True))


def _variance(filters: Sequence[Any]) -> float:
    """n · Var(c) for white noise, the mean over values j of Σ_j' ((2/π) asin ρ_jj')², ρ = Π_a K_a K_aᵀ of the filters.

    With the series asin² x = ½ Σ_k (2x)^2k / (k² (2k over k)) the sum over j' becomes a product over axes.
    """
    k = np.arange(1, _POWERS + 1)
    weight = (
        (2 / np.pi) ** 2 * 0.5 * np.exp(2 * k * np.log(2) - 2 * np.log(k) - gammaln(2 * k + 1) + 2 * gammaln(k + 1))
    )
    sums = np.ones(len(k))
    for K in filters:
        rows = K[:: max(1, K.shape[0] // _ROWS)]
        squares = np.minimum((rows @ K.T).data ** 2, 1.0)
        powers = np.cumprod(np.broadcast_to(squares, (_POWERS, len(squares))), axis=0)
        sums *= powers.sum(axis=1) / rows.shape[0]
    # of the value itself, ρ = 1, the whole series is known
    return 1.0 + float(weight @ (sums - 1.0))
