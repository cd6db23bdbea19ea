"""Outliers and missing values: what a value should be, judging by its neighbours in space and time.

Scattered gaps of the data, filled by interpolation whose error is measured where values are known.

    e_L² = mean over hidden values of (value − interpolation)² − σ²
    Var at a gap = (2 − p)/(1 − p) σ² + max(0, e_L² − σ²)

L is the length of the run of gaps through the place, the shortest over time and the axes; p the share of such gaps
outside holes. An interpolated value repeats the noise of its neighbours: the mean over n values with p n gaps has the
variance σ²/((1 − p) n), and with independent gaps it has the same where theirs is the first part. The second is what
interpolation misses of the signal, as noise alone makes e_L² at most σ².

Every residual that depends on a gap would be lost otherwise, and with a few percent of scattered gaps that is all of
them. Gaps inside larger holes, about which hidden values say nothing, stay gaps: residuals that touch them are left
out. Values there are interpolated too, so that nothing depends on what the data held; they are used only for the
spectrum.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from bvsi.common.arrays import Array, Integers, Mask, Rng
from bvsi.data import Grid
from bvsi.data._arrays import frozen, read_only, release, scratch, slabs
from bvsi.data.data import Data, Geometry
from bvsi.data.smoothness import fill, filled, flat_strides, shaped
from bvsi.errors import DataError
from bvsi.noise.level import MAD, NoiseLevel, field_noise
from bvsi.noise.prediction import Predicted, Predictor, axes_of, odd_values

_ORDINARY = 4.5  # |z| up to here is noise
_NU = 4.0  # degrees of freedom of the weights of outliers
_SWEEPS = 8  # at most (not measured); they end where the outliers stay the same
_SWEEPS_FOR_NOISE = 3  # later ones change the noise no more
_MARGIN = 2.0  # sd by which a value may be beyond its neighbours and still be between them
_RULED = 3.0  # sd of value minus prediction, in units of the noise, that noise alone hardly reaches
# Frames and nodes of the window whose median a value is compared with, and how many typical deviations from it make a
# suspect: a first guess, which predictions without the suspects confirm or take back. Not measured.
_WINDOW, _SUSPECT = 5, 8.0
_AT_ONCE = 200_000  # values whose windows are in memory at a time
_ROUNDING = 1e-5  # of the range of the values: numerical solutions miss smooth functions by as much
# Runs of gaps that are distinguished: of one, two, and three to five values. Longer ones are holes.
_LONGEST, _CLASSES = 5, 3
# Share of the measured values that is hidden at a time, how often, and how many of a class determine its error.
_HIDDEN, _ROUNDS, _FEWEST = 0.1, 3, 10
# Values of a field beyond which one round is enough.
_MANY = 200_000


@dataclass(frozen=True)
class Outliers:
    """Values that their neighbours do not support, for each field, arrays (T, n_nodes).

    Attributes
    ----------
    weights
        1 for ordinary values, less for outliers, 0 for missing ones.
    replaced
        The values, drawn towards their prediction as far as the weight lacks.
    count
        Number of outliers.
    """

    weights: Mapping[str, Array]
    replaced: Mapping[str, Array]
    count: Mapping[str, int]


@dataclass(frozen=True)
class Scattered:
    """Outliers and missing values of one field (T, n_nodes), by flat index, increasing.

    Attributes
    ----------
    outliers
        Their indices, (k,).
    weights
        Below one, (k,).
    values
        What replaces them, (k,).
    predicted
        What their neighbours predict, (k,).
    spread
        Variance of that prediction, (k,).
    missing
        Indices of missing values, (m,).
    filled
        What replaces them, (m,).
    """

    outliers: Integers
    weights: Array
    values: Array
    predicted: Array
    spread: Array
    missing: Integers
    filled: Array

    def where_local(self, values: Array, variance: Array, sigma: float) -> Scattered:
        """Those that are outliers with the variance of the noise at their place, which σ² is not.

        Parameters
        ----------
        values, variance
            (T, n_nodes).
        """
        own = variance.ravel()[self.outliers]
        spread = self.spread * np.maximum(own / sigma**2, 1.0)
        z = (values.ravel()[self.outliers] - self.predicted) / np.sqrt(own + spread)
        far = np.abs(z) > _ORDINARY
        weights = (_NU + _ORDINARY**2) / (_NU + z[far] ** 2)
        return Scattered(
            self.outliers[far], weights, self.values[far], self.predicted[far], spread[far], self.missing, self.filled
        )

    def dense(self, values: Array) -> tuple[Array, Array]:
        """Weights, 0 where missing, and values (T, n_nodes) with what replaces them, both (T, n_nodes)."""
        weights, replaced = np.ones(values.shape), np.array(values, order="C")
        weights.ravel()[self.outliers], weights.ravel()[self.missing] = self.weights, 0.0
        replaced.ravel()[self.outliers], replaced.ravel()[self.missing] = self.values, self.filled
        return weights, replaced


def find_outliers(data: Data, *, level: NoiseLevel | None = None, nu: float = _NU) -> Outliers:
    """Weights w = min(1, (ν + z₀²) / (ν + z²)), z₀ = 4.5, of Student's t; z = (value − prediction) / sd.

    Each axis predicts a value as the one that makes the sum of squared second differences smallest, which is
    cubic interpolation of two neighbours on either side. The predictions are averaged with weights 1/q,
    q = σ² Σ P² + e², where e is twice what the same prediction misses at the neighbours (lower median, the value itself
    left out) beyond noise: at a front this is much, and nothing is flagged. sd² = σ² + 1 / Σ 1/q, the second part
    times χ²/4 of the axes where they disagree by more than 2 sd. In fronts, where signal rules sd, a value
    between its neighbours along every axis is ordinary. Outliers are left out of the predictions, and of σ, and the
    search is repeated until they stay the same. Axes of fewer than five nodes predict nothing.

    Parameters
    ----------
    data
        The data.
    level
        Noise of the fields; measured by :func:`~bvsi.data.estimate_noise` when left out.
    nu
        Degrees of freedom ν > 0; the smaller, the less weight have outliers.
    """
    if not (np.isfinite(nu) and nu > 0):
        raise DataError(f"nu is {nu!r}; give positive degrees of freedom, such as 4")
    lacking = [name for name in data.names if level is not None and name not in level.sigma]
    if lacking:
        raise DataError(f"level has no noise of field {lacking[0]!r}; use estimate_noise on the same data")
    weights, replaced, count = {}, {}, {}
    for name in data.fields:
        values = data.fields[name] if data.measured is None else data.observed(name)
        found = scattered_outliers(values, data.geometry, data.times, None if level is None else level.sigma[name], nu)
        dense = found.dense(values)
        weights[name], replaced[name], count[name] = frozen(dense[0]), frozen(dense[1]), found.outliers.size
    return Outliers(read_only(weights), read_only(replaced), read_only(count))


def scattered_outliers(
    values: Array,
    geometry: Geometry,
    times: Array,
    sigma: float | None = None,
    nu: float = _NU,
    ordinary: Callable[[Array], bool] | None = None,
) -> Scattered:
    """Outliers of one field as in :func:`find_outliers`, without arrays of all values; NaN are missing.

    Parameters
    ----------
    values
        (T, n_nodes).
    sigma
        Noise; measured when None.
    ordinary
        Whether weights (k,) are those of noise without outliers, so that the first sweep is enough.
    """
    axes, u = axes_of(geometry, times), shaped(np.ascontiguousarray(values), geometry)
    flat, nodes = u.ravel(), int(u[0].size)
    missing = np.concatenate([np.flatnonzero(np.isnan(u[rows])) + rows.start * nodes for rows in slabs(u)])
    if missing.size == u.size:
        raise DataError("all values are missing (NaN); leave the field out")
    noise = 0.0 if sigma is None else sigma
    flagged, clean = np.zeros(0, dtype=np.int64), u
    for sweep in range(_SWEEPS):
        gaps = np.union1d(missing, flagged)
        clean = _blanked(u, clean, gaps)
        if sigma is None and sweep < _SWEEPS_FOR_NOISE:
            noise = field_noise(clean.reshape(values.shape), geometry, times)
        ends = [(np.fmin.reduce(clean[r], axis=None), np.fmax.reduce(clean[r], axis=None)) for r in slabs(clean)]
        low, high = (pick.reduce(one) for pick, one in zip((np.fmin, np.fmax), zip(*ends, strict=True), strict=True))
        floor = _ROUNDING * float(high - low)  # without outliers: one may be a million
        fill(clean, axes, gaps)
        total = float(np.hypot(noise, floor))
        odd = odd_values(clean, axes, total, _ORDINARY, gaps)
        z = _standardised(flat, clean, axes, odd, total)
        far = np.abs(z) > _ORDINARY
        before, flagged = flagged, odd.index[far]
        weights = (nu + _ORDINARY**2) / (nu + z[far] ** 2)
        if np.array_equal(before, flagged) or (ordinary is not None and not sweep and ordinary(weights)):
            break
        if not sweep and flagged.size and isinstance(geometry, Grid):
            flagged = np.union1d(flagged, _suspects(u, total))  # side by side they predict one another
    predicted, spread = odd.prediction[far], np.maximum(odd.sd[far] ** 2 - total**2, 0.0)
    drawn = weights * flat[flagged] + (1.0 - weights) * predicted
    return Scattered(flagged, weights, drawn, predicted, spread, missing, clean.ravel()[missing])


def patches(index: Integers, grid: Grid) -> Integers:
    """How many outliers of its frame hang together with each, corners included, (k,), for flat indices (k,)."""
    from scipy.ndimage import label

    frames, row = np.unique(index // grid.n_nodes, return_inverse=True)
    place, there = row * grid.n_nodes + index % grid.n_nodes, np.zeros((len(frames), *grid.shape), dtype=bool)
    there.ravel()[place] = True
    near = np.zeros((3,) * there.ndim, dtype=bool)
    near[1] = True
    labels = label(there, near)[0].ravel()
    return np.asarray(np.bincount(labels)[labels[place]])


def _suspects(u: Array, noise: float) -> Integers:
    """Values far from the medians of their neighbours in time, and in time and along each axis; flat, increasing. ::

        d = u − median(window),     |d| > 8 max(noise, median|d| / 0.6745)

    A cluster of outliers is a minority of its window, and a ramp is its own median; a peak narrower than the window
    stands for more than one frame, or decays. NaN are missing.

    Parameters
    ----------
    u
        On a grid, (T, *shape).
    """
    if u.ndim == 1:
        return np.zeros(0, dtype=np.int64)
    step, halo = max(1, _AT_ONCE // u[0].size), 2 * (_WINDOW // 2)
    width = max(1, min(u.shape[1], _AT_ONCE * u.shape[1] // u[0].size))  # large frames go in strips
    found = []
    for start, begin in product(range(0, len(u), step), range(0, u.shape[1], width)):
        first, left = max(0, start - halo), max(0, begin - halo)
        some = np.array(u[first : start + step + halo, left : begin + width + halo])
        release(u)
        far = np.isfinite(some)
        for axis in range(u.ndim):
            d = some - _median_near(some, axis)
            far &= np.abs(d) > _SUSPECT * np.fmax(_median_near(np.abs(d), axis) / MAD, noise)
        frames, rows, *rest = np.nonzero(far[start - first :, begin - left :][:step, :width])
        found.append(np.ravel_multi_index((frames + start, rows + begin, *rest), u.shape))
    return np.sort(np.concatenate(found))


def _median_near(u: Array, axis: int) -> Array:
    """Median over a window in time and along an axis (0: time alone), cut at the ends, without NaN; (T, *shape)."""
    half = _WINDOW // 2
    steps = np.stack(np.meshgrid(np.arange(_WINDOW), np.arange(_WINDOW) if axis else half), axis=-1).reshape(-1, 2)
    moved = np.moveaxis(u, max(axis, 1), 1)
    wide = np.pad(moved, [(half, half), (half, half), *[(0, 0)] * (moved.ndim - 2)], constant_values=np.nan)
    ordered = np.sort(np.stack([wide[i : i + len(moved), j : j + moved.shape[1]] for i, j in steps]), axis=0)
    count = np.sum(np.isfinite(ordered), axis=0)  # NaN are last
    low, high = (np.take_along_axis(ordered, np.maximum(k, 0)[None], axis=0)[0] for k in ((count - 1) // 2, count // 2))
    return np.moveaxis(0.5 * (low + np.where(np.isfinite(high), high, low)), 1, max(axis, 1))


def _standardised(values: Array, u: Array, axes: list[Predictor], odd: Predicted, total: float) -> Array:
    """z = (value − prediction) / sd, (c,); zero for values that are missing, and for ordinary ones of a front.

    Parameters
    ----------
    values
        Flat, with NaN.
    u
        Complete, (T, *shape).
    total
        Noise.
    """
    off = values[odd.index] - odd.prediction
    z = np.divide(off, odd.sd, out=np.zeros(off.size), where=(odd.sd > 0) & ~np.isnan(off))
    # In a front, where signal rules the error of the predictions, only values beyond their neighbours are odd.
    ruled = np.flatnonzero((np.abs(z) > _ORDINARY) & (odd.sd > _RULED * total))
    z[ruled[_between(values, u, axes, odd.index[ruled], _MARGIN * total)]] = 0.0
    return z


def _blanked(u: Array, before: Array, gaps: Integers) -> Array:
    """The values u with NaN at flat indices; u itself where there are none, and the last copy of it used again."""
    if gaps.size == 0:
        return u
    before = scratch(u) if before is u else before
    for rows in slabs(u):
        before[rows] = u[rows]
        release(before)
    before.reshape(-1)[gaps] = np.nan
    return before


def _between(values: Array, u: Array, axes: list[Predictor], index: Integers, margin: float) -> Mask:
    """Whether values lie between their neighbours in u along every axis, up to a margin, as in all fronts; (c,).

    At the end of an axis a front may just have come or gone, so that another axis is enough.

    Parameters
    ----------
    values
        Flat.
    u
        (T, *shape).
    index
        Flat, (c,).
    """
    flat, here = u.ravel(), values[index]
    everywhere, anywhere = np.ones(index.size, dtype=bool), np.zeros(index.size, dtype=bool)
    for axis, at, stride in zip(axes, np.unravel_index(index, u.shape), flat_strides(u.shape), strict=True):
        near, used = axis.neighbours.index[at], axis.neighbours.used[at]
        there = flat[index[:, None] + np.where(used, (near - at[:, None]) * stride, 0)]
        above = np.any(used & (there >= here[:, None] - margin), axis=1)
        below = np.any(used & (there <= here[:, None] + margin), axis=1)
        end = 2 * used.sum(axis=1) <= used.shape[1]
        everywhere &= above & below | end
        anywhere |= above & below
    return everywhere & anywhere


@dataclass(frozen=True, eq=False)
class Bridged:
    """Data in which scattered gaps, or outliers, are interpolated and count as measured.

    Attributes
    ----------
    factor
        By field with such values, (T, n_nodes), the variance there in units of that of the noise, 1 elsewhere.
    """

    data: Data
    factor: dict[str, Array] = field(default_factory=dict)

    def summary(self, name: str) -> str:
        """How one field was treated, in words."""
        bridged = self.factor[name][self.factor[name] != 1]
        low, high = bridged.min(), bridged.max()
        times = f"{low:.2g}" if high < 1.05 * low else f"{low:.2g} to {high:.2g}"
        return f"{name}: {bridged.size} scattered gaps are interpolated, with {times} times the variance"


def bridge(data: Data, sigma: dict[str, float] | None, rng: Rng) -> Bridged:
    """Interpolate scattered gaps; on meshes those that are short in time.

    Parameters
    ----------
    sigma
        Noise by field; without it only single gaps are interpolated, their error being unknown.
    rng
        Chooses the values that are hidden; each field starts from a copy of it, so that others do not matter.
    """
    if data.measured is None:
        return Bridged(data)
    measured, fields, factor = dict(data.measured), dict(data.fields), {}
    for name, mask in data.measured.items():
        if mask.all():
            continue
        runs = _classes(mask, data.geometry)
        errors = _errors(data, name, None if sigma is None else sigma[name], runs, copy.deepcopy(rng))
        found = np.ones(mask.shape)
        for number, value in errors.items():
            found[~mask & (runs == number)] = value
        gaps, known = found != 1, data.fields[name][mask]
        values = filled(data.observed(name), data.geometry, data.times)
        fields[name] = np.where(mask | gaps, values, np.clip(values, known.min(), known.max()))
        if gaps.any():
            measured[name], factor[name] = mask | gaps, found
    whole = all(mask.all() for mask in measured.values())
    made = Data(data.times, fields, data.geometry, data.auxiliary, None if whole else measured)
    return Bridged(made, factor)


def _errors(data: Data, name: str, sigma: float | None, runs: Integers, rng: Rng) -> dict[int, float]:
    """Variance at scattered gaps by class of run, in units of σ²; empty where there is none."""
    assert data.measured is not None
    mask = data.measured[name]
    scattered = int(np.count_nonzero(~mask & (runs >= 0)))
    if not scattered:
        return {}
    missing = scattered / (scattered + int(np.count_nonzero(mask)))
    noise = (2 - missing) / (1 - missing)
    return {0: noise} if sigma is None else _factors(data, name, sigma, noise, rng)


def _factors(data: Data, name: str, sigma: float, noise: float, rng: Rng) -> dict[int, float]:
    """Variance at gaps by class of run, in units of σ².

    Classes of which too little is known, or in which interpolation misses more than the field varies, are left out.

    Parameters
    ----------
    noise
        Of it, what comes from the noise of the neighbours.
    """
    assert data.measured is not None
    values, mask = data.observed(name), data.measured[name]
    squares: list[list[Array]] = [[] for _ in range(_CLASSES)]
    for _ in range(1 if values.size > _MANY else _ROUNDS):
        hidden = mask & (rng.random(mask.shape) < _HIDDEN)
        left = mask & ~hidden
        if not left.any():
            break
        off = filled(np.where(left, values, np.nan), data.geometry, data.times) - values
        runs = _classes(left, data.geometry)
        for number in range(_CLASSES):
            squares[number].append(off[hidden & (runs == number)] ** 2)
    factors, worst, spread = {}, 0.0, float(np.var(values[mask]))
    for number, parts in enumerate(squares):
        known = np.concatenate(parts) if parts else np.zeros(0)
        if number and known.size < _FEWEST:
            break
        missed = float(known.mean()) / sigma**2 - 2 if known.size and sigma > 0 else 0.0
        worst = max(worst, missed)  # longer runs are no better
        if worst * sigma**2 > spread:
            break
        factors[number] = noise + worst
    return factors


def _classes(mask: Mask, geometry: Geometry) -> Integers:
    """Class 0, 1, … of the run of gaps through each place, (T, n_nodes); −1 for measured values and longer runs."""
    grid = geometry if isinstance(geometry, Grid) else None
    cube = np.asarray(mask) if grid is None else np.asarray(mask).reshape(len(mask), *grid.shape)
    names, periods = ((), ()) if grid is None else (grid.names, tuple(grid.periods))
    shortest = np.full(cube.shape, cube.size, dtype=np.int64)
    for axis, label in enumerate(("time", *names)):
        before, after = (_distance(cube, axis, way, label in periods) for way in (1, -1))
        shortest = np.minimum(shortest, before + after - 1)
    return np.where(cube | (shortest > _LONGEST), -1, np.minimum(shortest, _CLASSES) - 1).reshape(mask.shape)


def _distance(cube: Mask, axis: int, way: int, wraps: bool) -> Integers:
    """Steps to the next measured value along an axis, backwards (1) or forwards (−1), at most _LONGEST + 1."""
    distance = np.where(cube, 0, _LONGEST + 1)
    for step in range(1, _LONGEST + 1):
        there = np.roll(cube, way * step, axis)
        if not wraps:
            beyond = [slice(None)] * cube.ndim
            beyond[axis] = slice(None, step) if way > 0 else slice(-step, None)
            there[tuple(beyond)] = False
        distance = np.minimum(distance, np.where(there, step, _LONGEST + 1))
    return distance
