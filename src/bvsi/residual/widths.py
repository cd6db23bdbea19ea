"""How wide test functions are: from the spectrum of the data and the level of the noise.

    S(f) = max(P(f) − σ², 0)        f_99: 99% of the energy of S below it        gap = 0.2/f_99

P is the power spectrum along one axis, averaged over all others. Splines with knots a gap apart resolve frequencies up
to 1/(2 gap), some twice those of the signal. Wider functions average over more noise and are fewer; as long as they
resolve the signal little is lost, since stacked weighting makes narrow ones out of what overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.residual import TemporalTests
from bvsi.spaces import SplineTests, spline_obstacle
from bvsi.spaces.domain import Domain
from bvsi.spaces.resolution import resolved_gap

Array = NDArray[np.float64]

# Degree of the splines in time: smooth enough that quadrature over steps is exact to sixth order.
TIME_DEGREE = 5
# Values that are transformed at a time, to bound memory; not measured.
_SLAB = 500_000


@dataclass(frozen=True)
class Widths:
    """What sets the widths of test functions; docs/trust.md has the runs behind ``space`` and ``time``.

    Parameters
    ----------
    energy
        Part of the signal's energy below f_99.
    space, time
        Gaps in periods of f_99; in time functions that hang over the ends are lost, so that narrow ones are better.
    least
        Functions that there should be along an axis that is not periodic, and pieces of a periodic one beyond a
        support; not measured.
    most
        Residuals beyond which functions are made wider: the factorisation grows faster than what they know.
    periodic
        Least gap on a periodic axis: with as many functions as nodes some combination of them sees no node.
    quadrature, moved
        What quadrature may leave of integrals that are zero, and how far a gap may move for that.
    long
        Steps of this many typical ones end a stretch of the record; not measured.
    spacings
        Least gap where the nodes are no uniform grid, in spacings: with more functions than nodes Σ is singular.
    resolved
        Gap there over that of the coarsest splines that explain the field; as ``space`` on grids.
    """

    energy: float = 0.99
    space: float = 0.2
    time: float = 0.125
    least: int = 6
    most: int = 4_500
    periodic: float = 1.07
    quadrature: float = 1e-8
    moved: float = 1.5
    long: float = 4.0
    spacings: float = 1.2
    resolved: float = 1 / 3


WIDTHS = Widths()


def bandwidth(data: Data, sigma: Mapping[str, float]) -> dict[str, float]:
    """f_99 in cycles per step by axis of a grid, ``time`` among them, of the field with the widest spectrum.

    One half is the limit of the sampling.
    """
    grid = data.geometry
    assert isinstance(grid, Grid)
    found: dict[str, float] = {}
    for name, values in data.fields.items():
        cube = np.asarray(values).reshape(len(data.times), *grid.shape)
        for axis, label in enumerate(("time", *grid.names)):
            cycles = _highest(cube, axis, float(sigma.get(name, 0.0)), periodic=label in grid.periods)
            found[label] = max(found.get(label, 0.0), cycles)
    return found


def widest_band(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """f_99 by axis, the highest over experiments on grids."""
    bands = [bandwidth(data, level) for data, level in zip(experiments, sigma, strict=True)]
    return {name: max(band[name] for band in bands) for name in bands[0]}


def power_spectrum(cube: Array, axis: int, *, periodic: bool) -> Array:
    """P(f) along one axis at the frequencies of ``rfftfreq``, averaged over all other axes; white noise has σ²."""
    n = int(cube.shape[axis])
    window = np.ones((n, 1)) if periodic else np.hanning(n + 2)[1:-1, None]
    window = window / np.sqrt(np.mean(window**2))
    power = np.zeros(n // 2 + 1)
    across = 0 if axis else cube.ndim - 1
    step = max(1, _SLAB * int(cube.shape[across]) // cube.size) if cube.ndim > 1 else n
    for start in range(0, int(cube.shape[across]), step):
        part: Any = [slice(None)] * cube.ndim
        part[across] = slice(start, start + step)
        lines = np.moveaxis(cube[tuple(part)], axis, 0).reshape(n, -1)
        modes = np.fft.rfft((lines - lines.mean(axis=0)) * window, axis=0)
        power += np.einsum("fl,fl->f", modes.real, modes.real) + np.einsum("fl,fl->f", modes.imag, modes.imag)
    return power / (cube.size / n) / n


def _highest(cube: Array, axis: int, sigma: float, *, periodic: bool) -> float:
    """f_99 along one axis."""
    n = int(cube.shape[axis])
    power = power_spectrum(cube, axis, periodic=periodic)
    # the average over lines fluctuates by its square root, so that noise is taken off with room to spare
    noise = sigma**2 * (1 + 4 / np.sqrt(cube.size / n))
    signal = np.maximum(power - noise, 0.0)
    lowest: float = 1.0 / n
    if not signal.sum() > 0:
        return lowest
    at = int(np.searchsorted(np.cumsum(signal), WIDTHS.energy * signal.sum()))
    return max(float(np.fft.rfftfreq(n)[min(at, len(power) - 1)]), lowest)


def choose_tests(
    experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]], derivatives: int
) -> tuple[SplineTests, TemporalTests]:
    """Test functions in space and time for all experiments.

    Parameters
    ----------
    derivatives
        Highest order that a spatial test function has to carry.
    """
    if any(spline_obstacle(data.geometry) for data in experiments):
        return _on_background(experiments, sigma, derivatives + 4)
    cycles = widest_band(experiments, sigma)
    gaps = {name: max(1.0, (WIDTHS.time if name == "time" else WIDTHS.space) / value) for name, value in cycles.items()}
    degree = derivatives + 4
    widest = dict.fromkeys(gaps, np.inf)
    for data in experiments:
        gaps, widest = (_fitting(some, data, degree) for some in (gaps, widest))
    gaps = _aligned(_fewer(gaps, widest, experiments), experiments[0], degree)
    time = gaps.pop("time")
    return SplineTests(gaps, degree), TemporalTests(TIME_DEGREE, time)


def _on_background(
    experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]], degree: int
) -> tuple[SplineTests, TemporalTests]:
    """Test functions where the nodes are no uniform grid: one gap, in spacings, for all axes."""
    gap, time = np.inf, np.inf
    for data, level in zip(experiments, sigma, strict=True):
        domain, frames = Domain.of(data.geometry), _longest_run(data.times)
        for name, values in data.fields.items():
            own = float(level.get(name, 0.0))
            gap = min(gap, WIDTHS.resolved * resolved_gap(domain, values, own)[0])
            time = min(time, WIDTHS.time / _highest(np.asarray(values), 0, own, periodic=False))
        gap = max(WIDTHS.spacings, gap)
        time = max(1.0, min(time, (frames - 1) / (TIME_DEGREE + WIDTHS.least)))
    tests, many = SplineTests(gap, degree), WIDTHS.most * time / max(len(data.times) for data in experiments)
    count = _background_count(tests, experiments)
    if count > many:
        return replace(tests, gap=gap * (count / many) ** (1 / experiments[0].geometry.dim)), TemporalTests(
            TIME_DEGREE, time
        )
    while count < WIDTHS.least**2 and gap > WIDTHS.spacings:  # narrower, where few fit into the domain
        gap = max(WIDTHS.spacings, 0.85 * gap)
        tests = SplineTests(gap, degree)
        count = _background_count(tests, experiments)
    return tests, TemporalTests(TIME_DEGREE, float(round(time)) if time < 4 else time)


def _background_count(tests: SplineTests, experiments: Sequence[Data]) -> int:
    """Test functions of all fields and experiments."""
    return sum(len(data.fields) * tests.count(data.geometry) for data in experiments)


def _axes(data: Data) -> tuple[dict[str, int], frozenset[str]]:
    """Number of nodes by axis, ``time`` among them, and the axes that are periodic."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    return {"time": len(data.times), **dict(zip(grid.names, grid.shape, strict=True))}, frozenset(grid.periods)


def _longest_run(times: Array) -> int:
    """Frames of the longest stretch without missing ones; functions over a gap of the record are left out."""
    steps = np.diff(times)
    breaks = np.flatnonzero(np.concatenate([[True], steps > WIDTHS.long * np.median(steps), [True]]))
    return int(np.diff(breaks).max())


def _fitting(gaps: dict[str, float], data: Data, degree: int) -> dict[str, float]:
    """Narrow enough that an axis has some functions."""
    narrowed, (sizes, periodic) = {}, _axes(data)
    for name, n in {**sizes, "time": _longest_run(data.times)}.items():
        own = TIME_DEGREE if name == "time" else degree
        least = WIDTHS.periodic if name in periodic else 1.0
        narrowed[name] = max(least, min(gaps[name], (n - 1) / (own + WIDTHS.least)))
    return narrowed


def _aligned(gaps: dict[str, float], data: Data, degree: int) -> dict[str, float]:
    """Gaps nearby for which quadrature is exact: whole numbers of steps, nearly so, or wide.

    Σ_j φ'(x_j) should be zero; with knots g steps apart it is off by the spectrum of φ at one cycle per step,
    |sin(πg)/(πg)|^(p + 1). At g = 1.5 that is 1e-4 for degree 5, and more than the noise of good data.
    """
    moved, (sizes, periods) = dict(gaps), _axes(data)
    for name, n in sizes.items():
        own, periodic = (TIME_DEGREE if name == "time" else degree), name in periods
        steps = n if periodic else n - 1
        wanted = max(round(steps / gaps[name]), own + 1)
        pieces = np.arange(min(wanted, own + WIDTHS.least), (round(steps / WIDTHS.periodic) if periodic else steps) + 1)
        near = pieces[np.abs(np.log(pieces / wanted)) <= np.log(WIDTHS.moved)]
        exact = near[np.abs(np.sinc(steps / near)) ** (own + 1) <= WIDTHS.quadrature]
        if name == "time" and np.any(exact >= wanted):
            exact = exact[exact >= wanted]
        if len(exact) and wanted not in exact:
            moved[name] = steps / float(exact[np.argmin(np.abs(np.log(exact / wanted)))])
    return moved


def _fewer(gaps: dict[str, float], widest: dict[str, float], experiments: Sequence[Data]) -> dict[str, float]:
    """Wide enough that there are not too many residuals, as far as axes have functions to spare."""
    total = 0.0
    for data in experiments:
        sizes, _ = _axes(data)
        total += len(data.fields) * float(np.prod([n / gaps[name] for name, n in sizes.items()]))
    excess, wide = total / WIDTHS.most, dict(gaps)
    room = {name: max(1.0, widest[name] / gap) for name, gap in gaps.items()}
    # axes with the least room take what they can, and the others share what is left
    for left, name in zip(range(len(room), 0, -1), sorted(room, key=lambda name: room[name]), strict=True):
        factor = min(room[name], max(1.0, excess ** (1 / left)))
        wide[name] = gaps[name] * factor
        excess /= factor
    return wide
