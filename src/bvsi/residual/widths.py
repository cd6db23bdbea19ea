"""How wide test functions are: from the spectrum of the data and the level of the noise.

    S(f) = max(P(f) − σ², 0)        f_99: 99% of the energy of S below it        gap = 0.2/f_99

P is the power spectrum along one axis, averaged over all others. Splines with knots a gap apart resolve frequencies up
to 1/(2 gap), some twice those of the signal. Wider functions average over more noise and are fewer; as long as they
resolve the signal little is lost, since stacked weighting makes narrow ones out of what overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from bvsi.common.arrays import Array
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.residual import TemporalTests
from bvsi.residual.blur import spectral_density
from bvsi.residual.layout import gaps_in_mask
from bvsi.residual.stencils import irregular
from bvsi.spaces import SplineTests
from bvsi.spaces.axis import most_pieces
from bvsi.spaces.nodal_derivatives import NARROWEST, noise_gain

# Degree of the splines in time: smooth enough that quadrature over steps is exact to sixth order.
TIME_DEGREE = 5
# Degree where frames are fewer than splines of degree 5 can stand on. Advection–diffusion with 5 to 8 frames, 160 runs:
# 154 were right with |z| of order one; of Crank–Nicolson on elements 98 were, and 13 were wrong and consistent.
_FEW_DEGREE = 3
FEW_FRAMES = TIME_DEGREE + 4  # fewer are few
FEWEST_FRAMES = _FEW_DEGREE + 2  # one function, and a frame beyond it
# Cycles per step up to which splines of degree 3 do: sums over steps then see 3e-4 of a wave in the place of another,
# (f/(1 − f))^4. Of travelling waves in 7 frames (f = 0.13 to 0.24, 2% noise, seed 5000) D was off by 6.5 standard
# deviations with degree 3 and by 0.8 with degree 5, whose error bars are twice as wide; of slow growth (f < 0.12) by
# 0.8 with degree 3.
SLOW = 0.12
# Cycles per step up to which the error of quadrature is summed; near one knot per step it falls off slowly.
_CYCLES = np.arange(1, 21)[:, None]
# Gaps that are tried at irregular times, over that of the spectrum: of 240 random times a gap of four mean steps left
# one function in 1 of 15 draws.
_WIDER = np.linspace(1.0, 2.0, 11)
# A gap between knots is one step of the data at least: narrower test functions would be more than the data.
SHORTEST = 1.0
# Gaps that are tried for small errors of quadrature; not measured.
_TRIED = 11
# Values that are transformed at a time, to bound memory, and at most; not measured.
_SLAB, _ENOUGH = 500_000, 2_000_000
# Nodes of an axis up to which its ends are looked at: what they make of noise takes a square of so many; not measured.
_LONGEST = 2000


@dataclass(frozen=True)
class Widths:
    """What sets the widths of test functions; docs/trust.md has the runs behind ``space`` and ``time``.

    Parameters
    ----------
    energy
        Part of the signal's energy below f_99.
    space, time
        Gaps in periods of f_99; in time functions that hang over the ends are lost, so that narrow ones are better.
    steady
        The same in space for steady problems, where one frame may be all there is and functions that hang over its
        edges are lost: on 64² nodes gaps of 2 instead of 5 nodes made error bars 1.3 to 1.6 times smaller.
    series, averaged
        The same in time for systems without space, where gaps would else be narrower than ``averaged`` samples: 0.25
        instead of 0.125 makes error bars up to 1.2 times wider. At 10% noise, of 11 coefficients of Hindmarsh–Rose in 3
        runs (seed 78), 95% intervals cover 0.97 instead of 0.82, and the search finds it from poor weights; Lorenz and
        Rössler are as precise as before.
    least
        Functions that there should be along an axis that is not periodic, and pieces of a periodic one beyond a
        support; not measured.
    enough
        Residuals up to which functions are made narrower than the spectrum asks for along axes with ends, where those
        that hang over are lost. Gaps of one frame instead of three made error bars of three equations with 51 to 61
        frames 14 to 23% smaller (seed 9008, 1% noise); the time of a discovery hardly changes up to so many residuals.
    quiet
        Noise over the root mean square of a field, by the values in a piece of a function, that narrower functions may
        have. Weights follow the noise of the data, and what that does to the estimate grows as functions get narrower:
        for Fisher's equation at 20% noise (10 runs, seed 9010) the best-determined combination of coefficients was off
        by 0.7, 1.7 and 3.4 standard deviations with gaps of 4, 2 and 1 frames. It grows with the noise, too; so at
        2% a gap of one frame leaves 0.3.
    kept
        Part of the values of the data, along all axes with ends, that functions inside have in their middle; with less
        there are functions that reach the ends. Fisher's equation in 51 frames of 20 counts: with 0.51 its diffusion
        was missed and called consistent, with functions at the ends it is eight standard deviations from zero.
    most
        Residuals beyond which functions are made wider.
    values
        Values of a field to a residual, on uniform grids in two and three dimensions, where that allows more: tiles
        make the work linear. A residual takes as long as 400 values ten to twenty times, so that with more of them the
        work would be that of the residuals, not of the data. A quarter of those that the spectrum asks for cost 33 to
        110% of precision on λ–ω data, half cost 9% on porous-medium data, and 4,228 of 14,400 cost nothing on
        Fokker–Planck data, at a sixth of the time.
    line
        Part of the residuals that the spectrum asks for which is left on lines, where Σ is sparse. On KS 512 × 160
        8,112 residuals of 13,000 cost 4 to 8% of the precision of 18,375, and 5,254 cost 28 to 63%.
    periodic
        Least gap on a periodic axis: with as many functions as nodes some combination of them sees no node.
    misfit
        What quadrature may add to χ², to which every residual adds one by noise, where that is less than ``quiet`` of
        the root mean square; with more noise no bias was beyond one standard deviation. With no limit it was 0.2, 1.0
        and 6.4 standard deviations at 1, 0.2 and 0.03% noise on Kuramoto–Sivashinsky data (128 nodes × 91 frames, seed
        9001), and 10 of 12 runs with 0.2% and less were wrong (seed 9100); with this limit at most 0.3.
    resolved
        Widest gaps for that, in periods of f_99. Clean data as above were right with 0.5, 0.75 and 1; with 0.5 not at
        0.003% noise, and with 1 not on 256 nodes × 181 frames (seed 77).
    quadrature, harmonics, moved
        What quadrature may leave of integrals that are zero, at one cycle per step and over all; how far a gap may
        move for that. The second matters near one knot per step, where 6e-8 is 1e-6 of Σ_j |φ'(x_j)|.
    long
        Steps of this many typical ones end a stretch of the record; not measured.
    derivative
        Nodes on either side over which a derivative of the data is fitted, in periods of the shortest wave that stands
        out of the noise; of that wave it is then right to 5e-4.
    loud
        Noise in the squares of such derivatives, over those of the signal, beyond which they are fitted over more
        nodes: Σ, which is linearised, is too large by about half of that.
    """

    energy: float = 0.99
    space: float = 0.2
    time: float = 0.125
    steady: float = 0.08
    series: float = 0.25
    averaged: float = 6.0
    least: int = 6
    enough: int = 1_500
    quiet: float = 0.005
    kept: float = 0.65
    most: int = 4_500
    line: float = 0.7
    values: float = 400.0
    periodic: float = 1.07
    misfit: float = 1.0
    resolved: float = 0.75
    quadrature: float = 1e-8
    harmonics: float = 6e-8
    moved: float = 1.5
    long: float = 4.0
    derivative: float = 0.5
    loud: float = 0.1


WIDTHS = Widths()


def bandwidth(data: Data, sigma: Mapping[str, float], widths: Mapping[str, float] | None = None) -> dict[str, float]:
    """f_99 in cycles per step by axis of a grid, ``time`` among them, of the field with the widest spectrum.

    One half is the limit of the sampling.

    Parameters
    ----------
    widths
        Widths over which the noise is blurred, by axis, in steps.
    """
    grid = data.geometry
    assert isinstance(grid, Grid)
    found: dict[str, float] = {}
    densities = {a: (w, float(spectral_density(w, np.zeros(1))[0])) for a, w in (widths or {}).items()}
    alike = float(np.prod([density for _, density in densities.values()]))
    for name, values in data.fields.items():
        cube = np.asarray(values).reshape(len(data.times), *grid.shape)
        noise = float(sigma.get(name, 0.0))
        if data.measured is not None:  # values that were not measured are interpolated, and so without noise
            noise *= float(np.sqrt(data.measured[name].mean()))
        for axis, label in enumerate(("time", *grid.names)):
            width, others = densities.get(label, (0.0, 1.0))[0], alike / densities.get(label, (0.0, 1.0))[1]
            periodic = label in grid.periods
            cycles = highest(cube, axis, noise, periodic=periodic, ends=axis > 0, width=width, alike=others)
            found[label] = max(found.get(label, 0.0), cycles)
    return found


def widest_band(bands: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """f_99 by axis, the highest over experiments."""
    return {name: max(band[name] for band in bands) for name in bands[0]}


def power_spectrum(cube: Array, axis: int, *, periodic: bool, ends: bool = False) -> Array:
    """P(f) along one axis at the frequencies of ``rfftfreq``, averaged over all other axes; white noise has σ².

    The window of an axis that is not periodic falls to zero at its ends.

    Parameters
    ----------
    ends
        Whether layers at the ends of such an axis count as much as the middle: two further windows, each half as heavy,
        stand around the ends, beyond which the data go on as 2 u(end) − u.
    """
    n = int(cube.shape[axis])
    if ends and not periodic and n > 2:
        halves = [_around_end(cube, axis, at) for at in (0, n - 1)]
        return (
            sum(
                (power_spectrum(half, axis, periodic=False) for half in halves),
                2 * power_spectrum(cube, axis, periodic=False),
            )
            / 4
        )
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


def _around_end(cube: Array, axis: int, end: int) -> Array:
    """As many values along an axis, half of them beyond one of its ends, odd around the value there."""
    n = int(cube.shape[axis])
    at = np.arange(n) - n // 2 + end
    inside = np.where(at < 0, -at, np.where(at > n - 1, 2 * (n - 1) - at, at))
    beyond = np.expand_dims(at != inside, tuple(i for i in range(cube.ndim) if i != axis))
    values = cube.take(inside, axis)
    return np.where(beyond, 2 * cube.take([end], axis) - values, values)


def highest(
    cube: Array, axis: int, sigma: float, *, periodic: bool, ends: bool = False, width: float = 0.0, alike: float = 1.0
) -> float:
    """f_99 along one axis; ``ends`` as of :func:`power_spectrum`.

    Parameters
    ----------
    width
        Steps over which the noise is blurred along the axis.
    alike
        Values along the other axes that its kernels make alike.
    """
    n = int(cube.shape[axis])
    ends = ends and not periodic and n <= _LONGEST
    if cube.ndim > 1 and cube.size > _ENOUGH:  # some of the lines are as good as all
        every: Any = [slice(None)] * cube.ndim
        every[0 if axis else 1] = slice(None, None, -(-cube.size // _ENOUGH))
        cube = np.ascontiguousarray(cube[tuple(every)])
    power = power_spectrum(cube, axis, periodic=periodic, ends=ends)
    density = np.asarray(spectral_density(width, np.asarray(np.fft.rfftfreq(n)))) if width else 1.0
    # the average over lines fluctuates by its square root, so that noise is taken off with room to spare
    noise = sigma**2 * density * (1 + 4 / np.sqrt(cube.size / n / alike))
    if ends:  # that of an end value goes on beyond the end
        noise = noise * n * power_spectrum(np.eye(n), 1, periodic=False, ends=True)
    signal = np.maximum(power - noise, 0.0)
    lowest: float = 1.0 / n
    if not signal.sum() > 0:
        return lowest
    at = int(np.searchsorted(np.cumsum(signal), WIDTHS.energy * signal.sum()))
    return max(float(np.fft.rfftfreq(n)[min(at, len(power) - 1)]), lowest)


def choose_tests(
    experiments: Sequence[Data],
    sigma: Sequence[Mapping[str, float]],
    derivatives: int,
    equations: int | None = None,
    cycles: Mapping[str, float] | None = None,
    *,
    narrow: bool = True,
    ends: int | None = None,
    order: int = 1,
) -> tuple[SplineTests, TemporalTests | None, float]:
    """Test functions for experiments on uniform grids, and about how many residuals the spectrum asks for.

    Parameters
    ----------
    derivatives
        Highest order that a spatial test function has to carry.
    equations
        Fields that have one; by default all.
    cycles
        f_99 by axis of data on grids, where it is known; without ``time`` no test functions in time are chosen.
    narrow
        Whether functions may be narrower than the spectrum asks for. Not where the noise of neighbours is alike: those
        as narrow as the kernel see how well that is known, and with noise blurred in time 5 of 10 right answers were
        called a missing operator. Nor where values are missing or replaced, which wide ones average out: with 5% of
        outliers 2 of 8 answers were wrong.
    ends
        Order of the time derivative, where functions are to reach the ends of all axes; then none are made narrower.
    order
        Highest order of the time derivative.
    """
    if cycles is None:
        cycles = widest_band([bandwidth(data, level) for data, level in zip(experiments, sigma, strict=True)])
    in_space = WIDTHS.space if "time" in cycles else WIDTHS.steady
    gaps = {name: max(1.0, (WIDTHS.time if name == "time" else in_space) / value) for name, value in cycles.items()}
    if not experiments[0].geometry.names:
        gaps["time"] = max(gaps["time"], min(WIDTHS.averaged, WIDTHS.series / cycles["time"]))
    degree, in_time = derivatives + 4, time_degree(experiments, sigma)
    widest = dict.fromkeys(gaps, np.inf)
    for data in experiments:
        gaps = _fitting(gaps, data, degree, in_time, WIDTHS.least)
        widest = _fitting(widest, data, degree, in_time, WIDTHS.least if ends is None else 1)
    wanted = sum(residual_counts(gaps, experiments, equations))
    if ends is not None:
        gaps = _with_room(gaps, experiments, {"time": (in_time, ends)}, (degree, derivatives))
    elif narrow and experiments[0].geometry.names:
        gaps = _narrower(gaps, experiments, sigma, equations, (degree, in_time))
    splines = {name: (in_time, order) if name == "time" else (degree, derivatives) for name in gaps}
    at_ends = {name: p - 2.0 * v for name, (p, v) in splines.items()} if ends is not None else {}
    gaps = _aligned(_fewer(gaps, widest, experiments, equations, at_ends), experiments[0], splines)
    quiet = _loudest(experiments, sigma) <= WIDTHS.quiet and all(data.measured is None for data in experiments)
    if quiet and ends is None:
        room = {name: max(gap, min(widest[name], WIDTHS.resolved / cycles[name])) for name, gap in gaps.items()}
        gaps = _exact_enough(gaps, room, experiments, sigma, equations, splines)
    if any(data.measured is not None for data in experiments):
        gaps = gaps_in_mask(gaps, experiments, (degree, in_time), fewest=WIDTHS.least**2, most=WIDTHS.most)
    time = TemporalTests(in_time, gaps.pop("time"), ends is not None) if "time" in gaps else None
    return SplineTests(gaps, degree, ends=ends is not None), time, wanted


def time_degree(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> int:
    """Degree of the splines in time: of few frames that of one function over all where the data move fast."""
    frames = min(data.n_times for data in experiments)
    if frames >= FEW_FRAMES:
        return TIME_DEGREE
    fast = frames >= FEWEST_FRAMES and cycles_between_frames(experiments, sigma) > SLOW
    return min(frames - 2, TIME_DEGREE) if fast else _FEW_DEGREE


def cycles_between_frames(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> float:
    """Cycles per step with which fields of a few frames change, of that which changes fastest; 0 where noise rules. ::

        |2 sin πf|⁴ = Σ (Δ⁴u)² / Σ (Δ²u)²        Δ: differences of frames, what noise makes of them taken off

    So few frames have hardly a spectrum. Equal steps are assumed, as spectra in time do.
    """
    found = [0.0]
    for data, level in zip(experiments, sigma, strict=True):
        for name, values in data.fields.items():
            noise = float(level.get(name, 0.0)) ** 2
            second, fourth = (np.diff(values, order, axis=0) for order in (2, 4))
            # those of white noise are the sums of squares of the weights, and fluctuate
            moved = float(np.mean(second**2)) - 6 * noise
            left = float(np.mean(fourth**2)) - 70 * noise * (1 + 4 / np.sqrt(fourth.size))
            found += [np.arcsin(min(0.5 * (left / moved) ** 0.25, 1.0)) / np.pi] if min(moved, left) > 0 else []
    return float(max(found))


def derivative_reach(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Nodes on either side over which derivatives of the data are fitted, by axis of a uniform grid.

    0.5/f, f the highest frequency at which the signal is stronger than the noise that fits along the other axes leave;
    more where noise would still make up much of the derivatives. The least of all fields: damping is a bias.
    """
    pairs = zip(experiments, sigma, strict=True)
    reaches = [_field_reach(data, u, float(level.get(f, 0.0))) for data, level in pairs for f, u in data.fields.items()]
    return {axis: min(reach[axis] for reach in reaches) for axis in reaches[0]}


def _field_reach(data: Data, values: Array, sigma: float) -> dict[str, float]:
    """The reach that one field wants, from the spectra P along its axes."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    cube = values.reshape(len(data.times), *grid.shape)
    power = {a: power_spectrum(cube, i + 1, periodic=a in grid.periods) for i, a in enumerate(grid.names)}
    highest = dict.fromkeys(grid.names, 0.5)
    for axis in (*grid.names, *grid.names):  # twice, since each depends on the others
        n = len(grid.axes[axis])
        others = float(np.prod([2 * highest[a] for a in grid.names if a != axis]))
        heard = np.flatnonzero(power[axis] > sigma**2 * (1 + max(others, 4 / np.sqrt(cube.size / n))))
        highest[axis] = max(float(heard.max()) if heard.size else 1.0, 1.0) / n
    slope = sum(_slope(power[a], len(grid.axes[a]), highest[a], sigma) for a in grid.names)
    reach = {axis: max(float(NARROWEST), WIDTHS.derivative / f) for axis, f in highest.items()}
    while sigma**2 * _slope_gain(reach) > WIDTHS.loud * slope and min(reach.values()) < min(grid.shape) / 4:
        reach = {axis: 1.1 * w for axis, w in reach.items()}
    return reach


def _slope(power: Array, n: int, highest: float, sigma: float) -> float:
    """Mean square of the derivative, in steps, of the signal along one axis: Σ (2πf)² (P − σ²)/n up to a frequency."""
    f = np.fft.rfftfreq(n)
    signal = np.where(f <= highest, np.maximum(power - sigma**2, 0.0), 0.0)
    return float(2 * np.sum((2 * np.pi * f) ** 2 * signal) / n)


def _slope_gain(reach: Mapping[str, float]) -> float:
    """Σ over axes of the variance of a first derivative along one and smoothing along the others."""
    return float(sum(np.prod([noise_gain(w, int(a == axis)) for a, w in reach.items()]) for axis in reach))


def _axes(data: Data) -> tuple[dict[str, int], frozenset[str]]:
    """Number of nodes by axis, ``time`` among them, and the axes that are periodic."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    return {"time": len(data.times), **dict(zip(grid.names, grid.shape, strict=True))}, frozenset(grid.periods)


def longest_run(times: Array) -> int:
    """Frames of the longest stretch without missing ones; functions over a gap of the record are left out."""
    steps = np.diff(times)
    breaks = np.flatnonzero(np.concatenate([[True], steps > WIDTHS.long * np.median(steps), [True]]))
    return int(np.diff(breaks).max())


def _fitting(gaps: dict[str, float], data: Data, degree: int, in_time: int, least: int) -> dict[str, float]:
    """Narrow enough that an axis has some functions: of degree p, ``least`` pieces more than p."""
    narrowed, (sizes, periodic) = {}, _axes(data)
    for name in gaps:
        n = longest_run(data.times) if name == "time" else sizes[name]
        own = in_time if name == "time" else degree
        narrowest = WIDTHS.periodic if name in periodic else 1.0
        narrowed[name] = max(narrowest, min(gaps[name], (n - 1) / (own + least)))
    return narrowed


def _loudest(experiments: Sequence[Data], sigma: Sequence[Mapping[str, float]]) -> float:
    """Noise over the root mean square, of the field with most."""
    shares = [
        level.get(name, 0.0) ** 2
        / max(sum(float(np.vdot(u[rows], u[rows])) for rows in slabs(u)) / u.size, np.finfo(float).tiny)
        for data, level in zip(experiments, sigma, strict=True)
        for name, u in data.fields.items()
    ]
    return float(np.sqrt(max(shares)))


def _narrower(
    gaps: dict[str, float],
    experiments: Sequence[Data],
    sigma: Sequence[Mapping[str, float]],
    equations: int | None,
    degrees: tuple[int, int],
) -> dict[str, float]:
    """The narrowest gaps with not more than enough residuals, axes with ends losing the same part λ of their length. ::

    gap = λ n/(p + 1)        p: degree, a function being p + 1 gaps wide
    """
    lost = dict[str, float]()  # per gap
    for data in experiments:
        sizes, periodic = _axes(data)
        for name in gaps.keys() - periodic:
            width = degrees[name == "time"] + 1
            lost[name] = max(lost.get(name, 0.0), width / sizes[name])
    noise = _loudest(experiments, sigma)
    for part in np.sort([gaps[name] * lost[name] * f for name in lost for f in np.linspace(0, 1, 51)]):
        narrow = {n: max(SHORTEST, min(g, float(part / lost[n]))) if n in lost else g for n, g in gaps.items()}
        few = sum(residual_counts(narrow, experiments, equations)) <= WIDTHS.enough
        if few and noise <= WIDTHS.quiet * np.prod(list(narrow.values())):
            return narrow
    return gaps


def _with_room(
    gaps: dict[str, float],
    experiments: Sequence[Data],
    splines: Mapping[str, tuple[int, int]],
    in_space: tuple[int, int],
) -> dict[str, float]:
    """Gaps so wide that functions which reach the ends of the axes, by degree and vanishing, are not too many."""
    wide = dict(gaps)
    for data in experiments:
        sizes, periodic = _axes(data)
        for name in gaps.keys() - periodic:
            most = most_pieces(sizes[name], *splines.get(name, in_space))
            wide[name] = max(wide[name], (sizes[name] - 1) / most)
    return wide


def _aligned(gaps: dict[str, float], data: Data, splines: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Gaps nearby for which quadrature is exact, by axis of a grid, ``time`` among them; splines by their degree."""
    sizes, periods = _axes(data)
    return {
        name: aligned_in_time(gap, data.times, splines[name][0])
        if name == "time"
        else aligned_gap(gap, sizes[name], splines[name][0], periodic=name in periods)
        for name, gap in gaps.items()
    }


def _exact_enough(
    gaps: dict[str, float],
    room: Mapping[str, float],
    experiments: Sequence[Data],
    sigma: Sequence[Mapping[str, float]],
    equations: int | None,
    splines: Mapping[str, tuple[int, int]],
) -> dict[str, float]:
    """Gaps for which noise hides what quadrature adds to the misfit, or for which that is least within some room.

    Parameters
    ----------
    room
        Widest gaps.
    splines
        Degree along each axis, and derivatives on test functions.
    """
    pairs, (sizes, periodic) = list(zip(experiments, sigma, strict=True)), _axes(experiments[0])
    for name, (degree, derivatives) in splines.items():
        if name == "time" and any(irregular(data.times) for data in experiments):
            continue
        found = [
            (_spectrum(data, u, own[f], name), own[f])
            for data, own in pairs
            for f, u in data.fields.items()
            if f in own
        ]
        added, steps = dict[float, float](), sizes[name] - (name not in periodic)
        averaged = float(np.prod([gap for other, gap in gaps.items() if other != name]))
        for wider in np.linspace(gaps[name], room[name], _TRIED):
            gap = steps / round(steps / _aligned({name: float(wider)}, experiments[0], splines)[name])
            n = sum(residual_counts({**gaps, name: gap}, experiments, equations))
            error = max(quadrature_error(signal, noise, gap, degree, derivatives) for signal, noise in found)
            added[gap] = n * averaged * error
            if added[gap] <= WIDTHS.misfit:
                break
        gaps = {**gaps, name: min(added, key=lambda gap: added[gap])}
    return gaps


def quadrature_error(signal: Array, noise: float, gap: float, degree: int, derivatives: int) -> float:
    """What quadrature makes of a signal over what noise makes, both squared, of derivatives on test functions. ::

        Σ_f S(f) [K(1 − f) + K(1 + f)] / (σ² Σ_f K(f))        K(f) = f^2m sinc(g f)^2(p + 1)

    Sums over nodes take waves of 1 ± f cycles per step for one of f.

    Parameters
    ----------
    signal
        S at frequencies from 0 to one half, equally spaced.
    """
    f = np.linspace(0, 0.5, len(signal))

    def seen(cycles: Array) -> Array:
        return np.asarray(cycles ** (2 * derivatives) * np.sinc(gap * cycles) ** (2 * degree + 2))

    wrong = float(signal @ (seen(1 - f) + seen(1 + f)))
    return wrong / max(noise**2 * float(seen(f).sum()), np.finfo(float).tiny)


def _spectrum(data: Data, values: Array, sigma: float, name: str) -> Array:
    """S of a field along an axis of a grid, or ``time``, from some of its lines where there are many."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    axis = ("time", *grid.names).index(name)
    cube = np.moveaxis(np.asarray(values).reshape(len(data.times), *grid.shape), axis, 0)
    lines = np.ascontiguousarray(cube[:, :: max(1, cube.size // _SLAB)] if cube.ndim > 1 else cube[:, None])
    power = power_spectrum(lines, 0, periodic=name in grid.periods)
    return np.asarray(np.maximum(power - sigma**2 * (1 + 4 / np.sqrt(lines.size / len(lines))), 0.0))


def aligned_in_time(gap: float, times: Array, degree: int) -> float:
    """A gap in time near this one for which quadrature is exact, a narrower one if there is any.

    Irregular times have holes: of wider gaps the one that leaves most functions without.
    """
    if irregular(times):
        return float(max(gap * _WIDER, key=lambda wider: np.count_nonzero(TemporalTests(degree, wider).whole(times))))
    return aligned_gap(gap, len(times), degree, narrower=True)


def aligned_gap(
    gap: float, nodes: int, degree: int, *, periodic: bool = False, narrower: bool = False, least: int = WIDTHS.least
) -> float:
    """A gap near this one for which quadrature over equal steps is exact: nearly whole numbers of steps, or wide.

    Σ_j φ'(x_j) should be zero; with knots g steps apart it is off by the spectrum of φ' at m = 1, 2, … cycles per
    step, m |sin(πmg)/(πmg)|^(p + 1). At g = 1.5 that is 1e-4 for degree 5, and more than the noise of good data.

    Parameters
    ----------
    narrower
        Whether narrower gaps are preferred.
    least
        Pieces beyond the degree that there should be.
    """
    steps = nodes if periodic else nodes - 1
    wanted = max(round(steps / gap), degree + 1)
    most = round(steps / WIDTHS.periodic) if periodic else steps
    pieces = np.arange(min(wanted, degree + least), most + 1)
    near = pieces[np.abs(np.log(pieces / wanted)) <= np.log(WIDTHS.moved)]
    left = _CYCLES * np.abs(np.sinc(_CYCLES * steps / near)) ** (degree + 1)
    exact = near[(left[0] <= WIDTHS.quadrature) & (left.sum(axis=0) <= WIDTHS.harmonics)]
    if narrower and np.any(exact >= wanted):
        exact = exact[exact >= wanted]
    if len(exact) and wanted not in exact:
        return steps / float(exact[np.argmin(np.abs(np.log(exact / wanted)))])
    return max(SHORTEST, gap)


def residual_counts(
    gaps: Mapping[str, float],
    experiments: Sequence[Data],
    equations: int | None = None,
    at_ends: Mapping[str, float] = MappingProxyType({}),
) -> list[float]:
    """About how many residuals experiments on grids have with these gaps, by axis; without ``time`` one per frame.

    Parameters
    ----------
    at_ends
        Functions besides, along axes that are not periodic.
    """

    def along(name: str, n: int, periodic: frozenset[str]) -> float:
        return n / gaps.get(name, 1.0) + (0.0 if name in periodic else at_ends.get(name, 0.0))

    axes = [(equations or len(data.fields), *_axes(data)) for data in experiments]
    return [fields * math.prod(along(name, n, closed) for name, n in sizes.items()) for fields, sizes, closed in axes]


def _fewer(
    gaps: dict[str, float],
    widest: dict[str, float],
    experiments: Sequence[Data],
    equations: int | None,
    at_ends: Mapping[str, float],
) -> dict[str, float]:
    """Wide enough that there are not too many residuals, as far as axes have functions to spare.

    Parameters
    ----------
    at_ends
        Functions that there are besides along axes with ends, p − 2v of degree p that vanish as x^v; none where all
        functions lie inside.
    """

    def count(gaps: Mapping[str, float]) -> float:
        return sum(residual_counts(gaps, experiments, equations, at_ends))

    if experiments[0].geometry.dim == 1:
        most = max(WIDTHS.most, WIDTHS.line * count(gaps))
    else:
        values = sum((equations or len(data.fields)) * data.n_nodes * data.n_times for data in experiments)
        most = max(WIDTHS.most, values / WIDTHS.values)
    wide, before = dict(gaps), math.inf
    while most < count(wide) < before:  # once where all functions lie inside
        before = count(wide)
        wide = _shared(before / most, wide, widest)
    return wide


def _shared(excess: float, gaps: Mapping[str, float], widest: Mapping[str, float]) -> dict[str, float]:
    """Gaps whose product is so many times larger, as far as there is room."""
    wide, room = dict(gaps), {name: max(1.0, widest[name] / gap) for name, gap in gaps.items()}
    # axes with the least room take what they can, and the others share what is left
    for left, name in zip(range(len(room), 0, -1), sorted(room, key=lambda name: room[name]), strict=True):
        factor = min(room[name], max(1.0, excess ** (1 / left)))
        wide[name] = gaps[name] * factor
        excess /= factor
    return wide
