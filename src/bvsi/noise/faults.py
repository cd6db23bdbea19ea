"""Values that an instrument did not measure: cut off at a limit, frames that repeat others, pixels that are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.common.arrays import Array, Mask
from bvsi.data import Grid
from bvsi.data._arrays import slabs
from bvsi.errors import DataError
from bvsi.noise.level import field_noise, lattice_step
from bvsi.noise.outliers import patches
from bvsi.noise.signal import smoothed

# How much more often than the next level a limit is met: the tail of noise thins out. Not measured.
_PILED = 3.0
# Noise in steps of rounded values from which on it spreads a plateau over levels: a sixth of it lies above.
_SPREAD = 0.5
# Nodes side by side that are stuck at one value, the most: more are a place where nothing happens; and the part of all
# nodes that are wrong, the most: more are signal. Not measured.
_STUCK, _FEW_WRONG = 2, 0.05
# Standard deviations of the mean by which a pixel is off: less is not more than the noise of one frame in 64. Of 32
# fields of Burgers and chaos with peaks of two nodes 5 lost one with 4.5, 2 with 8 (seed 78).
_FAR = 8.0
_PAD: Mapping[bool, Mapping[str, Any]] = {True: {"mode": "wrap"}, False: {"constant_values": np.nan}}  # by periodicity
_STEEP = 2.0  # differences of the nodes beside it that a pixel is beyond them; not measured
# Nodes that show whether a frame is made of others: of fewer, rounded values may agree by chance; more cost time.
_FEWEST_NODES, _MOST_NODES = 30, 2000
# Part of the step between two frames up to which one on the line between them is there: rounding in single precision.
_ON_LINE = 1e-6
# Values at a limit, and at one node, the fewest that say something.
_FEWEST, _FEWEST_TIMES = 10, 6


def saturated(values: Array, sigma: float) -> Mask | None:
    """Where values stand at a limit that the instrument does not pass, (T, n_nodes); None where there is no limit.

    Noise spreads values: the largest of a field is met once, and that of rounded values less often than the next one.
    Where many are equal to it they were cut off there, and say only that the field is beyond. A limit of zero is none,
    since fields that vanish have noise that does, and counts are zero by chance; neither are nodes that always have
    the value, as those of a boundary.

    Parameters
    ----------
    values
        (T, n_nodes), NaN where missing.
    sigma
        Level of the noise.
    """
    step, found = lattice_step(values), np.zeros(values.shape, dtype=bool)
    if not sigma > _SPREAD * (step or 0.0):
        return None
    for sign in (1, -1):
        limit = sign * max(float(np.fmax.reduce(sign * values[rows], axis=None)) for rows in slabs(values))
        at = values == limit
        often = np.count_nonzero(at)
        if not limit or often < _FEWEST or np.array_equal(at.any(axis=0), at.all(axis=0)):
            continue
        second = sign * np.max(sign * values, where=~at & np.isfinite(values), initial=-np.inf)
        if often > _PILED * np.count_nonzero(values == second):
            found |= at
    return found if found.any() else None


def copied(values: Array) -> Mask:
    """Frames that repeat the one before, or lie on the line between those beside them, at all nodes, (T,).

    Noise does neither. A movie that was stored with more frames than were taken has both, and the differences in time
    of half of its values vanish: filters find no noise then. Frames of one value only, and few nodes, say nothing.

    Parameters
    ----------
    values
        (T, n_nodes), NaN where missing.
    """
    u, found = values[:, :: max(1, values.shape[1] // _MOST_NODES)], np.zeros(len(values), dtype=bool)
    known = [one[np.isfinite(one)] for one in u]
    judged = [one.size >= _FEWEST_NODES and one.min() < one.max() for one in known]
    for j in range(1, len(u)):
        found[j] = judged[j] and np.array_equal(u[j], u[j - 1], equal_nan=True)
    for a, b, c in zip(*(np.flatnonzero(~found)[k:] for k in range(3)), strict=False):
        step, off = u[c] - u[a], u[b] - u[a]
        there = np.isfinite(step) & np.isfinite(off)
        size = float(np.max(np.abs(step), where=there, initial=0.0))
        if size > 0 and judged[b] and np.count_nonzero(there) >= _FEWEST_NODES:
            share = off[there] @ step[there] / (step[there] @ step[there])
            found[b] = np.max(np.abs(off - share * step), where=there, initial=0.0) <= _ON_LINE * size
    return found


def wrong_nodes(values: Array, grid: Grid, times: Array, sigma: float) -> Mask:
    """Pixels that are wrong at all times, (n_nodes,): stuck at one value, or off their neighbours by the same amount.

    Values before and after support them, so that no single one is an outlier. The mean over time has noise of
    σ T^−½, in which they stand out; what is stuck has no noise, and stands alone, as zeros of a field do not. An end of
    an axis, which may be held at a value, is stuck only where others do not lead to it. Few nodes tell nothing.

    Parameters
    ----------
    values
        (T, n_nodes), NaN where missing.
    sigma
        Level of the noise.
    """
    known = np.isfinite(values)
    count = known.sum(axis=0)
    mean = np.where(count > 0, np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    still = (np.fmax.reduce(values, axis=0) == np.fmin.reduce(values, axis=0)) & (count >= _FEWEST_TIMES)
    still[still] = patches(np.flatnonzero(still), grid) <= _STUCK
    try:  # noise that is alike from frame to frame, and a fixed pattern of the pixels, are noise of the mean
        noise = max(sigma / float(np.sqrt(np.median(count))), field_noise(mean[None], grid, times[:1]))
    except DataError:
        return np.zeros(len(mean), dtype=bool)
    # what a sensor and its neighbours do from frame to frame, which is more than their noise
    steps = np.square(np.diff(np.where(known, values, np.nan_to_num(mean)), axis=0)).mean(axis=0) / 2
    steps = np.maximum(steps, smoothed(steps[None], grid)[0])
    still &= steps > (_SPREAD * (lattice_step(values) or 0.0)) ** 2  # counts near zero are still by chance
    off = _beyond(mean, grid) > _FAR * np.sqrt(2 * np.maximum(steps / np.maximum(count, 1), noise**2))
    wrong = np.where(_inside(grid), still | off, still & off)
    return wrong if np.count_nonzero(wrong) <= _FEW_WRONG * wrong.size else np.zeros_like(wrong)


def _beyond(u: Array, grid: Grid) -> Array:
    """By how much values are beyond those beside them, less twice what these are from the next ones, (n_nodes,).

    Along the axis where it is most: a front has values in between along one axis, and a peak that is resolved leads up
    to its top. NaN where something is missing.
    """
    v, found = u.reshape(grid.shape), np.full(grid.shape, -np.inf)
    for axis, name in enumerate(grid.names):
        padded = np.pad(v, [(2, 2) if k == axis else (0, 0) for k in range(grid.dim)], **_PAD[name in grid.periods])
        a2, a, b, b2 = (np.take(padded, np.arange(v.shape[axis]) + k, axis) for k in (0, 1, 3, 4))
        around = np.fmax(np.abs(a - a2), np.abs(b - b2))
        found = np.fmax(found, np.fmax(v - np.fmax(a, b), np.fmin(a, b) - v) - _STEEP * around)
    return found.ravel()


def _inside(grid: Grid) -> Mask:
    """Nodes that are not the ends of an axis, (n_nodes,)."""
    ends = [np.zeros(n, dtype=bool) for n in grid.shape]
    for name, end in zip(grid.names, ends, strict=True):
        if name not in grid.periods:
            end[[0, -1]] = True
    return np.asarray(~np.logical_or.reduce(np.meshgrid(*ends, indexing="ij")).ravel())
