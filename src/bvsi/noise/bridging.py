"""Scattered gaps of the data, filled by interpolation whose error is measured where values are known.

    e_L² = mean over hidden values of (value − interpolation)² − σ²
    Var at a gap = (2 − p)/(1 − p) σ² + max(0, e_L² − σ²)

L is the length of the run of gaps through the place, the shortest over time and the axes; p the share of such gaps
outside holes. An interpolated value repeats the noise of its neighbours: the mean over n values with p n gaps has the
variance σ²/((1 − p) n), and with independent gaps it has the same where theirs is the first part. The second is what
interpolation misses of the signal, as noise alone makes e_L² at most σ².

Every residual that depends on a gap would be lost otherwise, and with a few percent of scattered gaps that is all of
them. Gaps inside larger holes, of which hidden values tell nothing, stay gaps: residuals that touch them are left out.
What stands there is interpolated too, so that nothing hangs on what the data held, and is used for nothing but the
spectrum.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.data.smoothness import filled

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Runs of gaps that are told apart: of one, two, and three to five values. Longer ones are holes.
_LONGEST, _CLASSES = 5, 3
# Share of the measured values that is hidden at a time, how often, and how many of a class tell its error.
_HIDDEN, _ROUNDS, _FEWEST = 0.1, 3, 10
# Values of a field beyond which one round is enough.
_MANY = 200_000


@dataclass(frozen=True, eq=False)
class Bridged:
    """Data whose scattered gaps count as measured.

    Attributes
    ----------
    factor
        Factor by field with such gaps, (T, n_nodes), the variance there in units of that of the noise, 1 elsewhere.
    """

    data: Data
    factor: dict[str, Array]

    def summary(self, name: str) -> str:
        """What was done about one field, in words."""
        bridged = self.factor[name][self.factor[name] != 1]
        low, high = bridged.min(), bridged.max()
        times = f"{low:.2g}" if high < 1.05 * low else f"{low:.2g} to {high:.2g}"
        return f"{name}: {bridged.size} scattered gaps are interpolated, with {times} times the variance"


def bridge(data: Data, sigma: dict[str, float] | None, rng: np.random.Generator) -> Bridged:
    """Interpolate scattered gaps; on grids only.

    Parameters
    ----------
    sigma
        Noise by field; without it only single gaps are interpolated, their error being unknown.
    rng
        Chooses the values that are hidden; each field starts from a copy of it, so that others do not matter.
    """
    if data.measured is None or not isinstance(data.geometry, Grid):
        return Bridged(data, {})
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


def _errors(
    data: Data, name: str, sigma: float | None, runs: NDArray[np.int64], rng: np.random.Generator
) -> dict[int, float]:
    """Variance at scattered gaps by class of run, in units of σ²; empty where there is none."""
    assert data.measured is not None
    mask = data.measured[name]
    scattered = int(np.count_nonzero(~mask & (runs >= 0)))
    if not scattered:
        return {}
    missing = scattered / (scattered + int(np.count_nonzero(mask)))
    noise = (2 - missing) / (1 - missing)
    return {0: noise} if sigma is None else _factors(data, name, sigma, noise, rng)


def _factors(data: Data, name: str, sigma: float, noise: float, rng: np.random.Generator) -> dict[int, float]:
    """Variance at gaps by class of run, in units of σ²; classes of which too little is known are left out.

    Parameters
    ----------
    noise
        Of it, what comes from the noise of the neighbours.
    """
    assert data.measured is not None
    assert isinstance(data.geometry, Grid)
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
    factors, worst = {}, 0.0
    for number, parts in enumerate(squares):
        known = np.concatenate(parts) if parts else np.zeros(0)
        if number and known.size < _FEWEST:
            break
        missed = float(known.mean()) / sigma**2 - 2 if known.size and sigma > 0 else 0.0
        worst = max(worst, missed)  # longer runs are no better
        factors[number] = noise + worst
    return factors


def _classes(mask: Mask, grid: Grid) -> NDArray[np.int64]:
    """Class 0, 1, … of the run of gaps through each place, (T, n_nodes); −1 for measured values and longer runs."""
    cube = np.asarray(mask).reshape(len(mask), *grid.shape)
    shortest = np.full(cube.shape, cube.size, dtype=np.int64)
    for axis, label in enumerate(("time", *grid.names)):
        before, after = (_distance(cube, axis, way, label in grid.periods) for way in (1, -1))
        shortest = np.minimum(shortest, before + after - 1)
    return np.where(cube | (shortest > _LONGEST), -1, np.minimum(shortest, _CLASSES) - 1).reshape(mask.shape)


def _distance(cube: Mask, axis: int, way: int, wraps: bool) -> NDArray[np.int64]:
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
