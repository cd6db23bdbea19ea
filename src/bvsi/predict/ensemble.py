"""Simulations of a discovered equation from smoothed data, with draws of coefficients and of the initial state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.common.progress import Progress
from bvsi.data import Data, Grid
from bvsi.data.denoise import Smoother, smoothers
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import Simulator, simulator
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.forward.semidiscrete import history
from bvsi.forward.series import SeriesSimulator
from bvsi.forward.splines import Splines
from bvsi.noise import Noise
from bvsi.noise.measurement import measure
from bvsi.operators import Library
from bvsi.predict.push import (
    LEVEL,
    Forecast,
    ForecastError,
    SimulationError,
    band_variance,
    forecast_status,
    half_width,
)

if TYPE_CHECKING:
    import xarray as xr


_FEWEST_DRAWS = 3  # a variance of two draws says nothing
# Frames that the initial state is smoothed from, where no boundary values are needed at the others.
_FRAMES = 64
# Error of a step in time, as a part of the noise, and the bounds of it.
_TIME_ERROR, _TIME_BOUNDS = 0.01, (1e-7, 1e-3)
# A draw that needs this many times the steps of the mean has run away.
_PATIENCE = 20
# Error of a coarser grid that is taken for speed: as a part of the noise, and at least.
_COARSENING, _COARSE_AT_LEAST = 0.2, 1e-3
_FEWEST_NODES = 16  # along an axis of the coarser grid; not measured


@dataclass(frozen=True, eq=False)
class Start:
    """From where simulations begin.

    Attributes
    ----------
    data
        The experiment, on a coarser grid where the fine one would take too long.
    variance
        Variance of the noise by field, a number or (T, n).
    smoothers
        Smoothers by field, of the first frames; of all where boundary values are needed.
    begin
        Number of the frame at which they begin: the first, or one with frames for the longest delay before it.
    """

    data: Data
    variance: Mapping[str, Array]
    smoothers: Mapping[str, Smoother]
    simulator: Simulator | SeriesSimulator
    begin: int = 0

    @staticmethod
    def of(data: Data, library: Library, noise: Noise | None, budget: float, at: float | None = None) -> Start:
        """Noise, smoothers and the discretised equation of an experiment.

        Parameters
        ----------
        at
            Time of the first state where the equation looks back, by default as early as the record allows.
        """
        measured = measure(data, noise)
        data = measured.data
        cannot = "forecast: the equation cannot be simulated on these data"
        try:
            made = simulator(data, library, prescribe=True)
        except BvsiError as error:
            raise SimulationError(f"{cannot}: {error}") from error
        begin = 0
        if made.longest_lag:
            late = int(np.searchsorted(data.times, data.times[0] + (1 - 1e-9) * made.longest_lag))
            first = float(data.times[min(late, data.n_times - 1)]) if at is None else at
            begin = history(data, first, made.longest_lag).stop - 1
        frames = slice(None) if made.needs_boundary else slice(0, begin + _FRAMES)
        if data.measured is not None and not all(mask[frames].all() for mask in data.measured.values()):
            whole = "all frames, from which boundary values come," if made.needs_boundary else "the first frames"
            raise ForecastError(
                f"{cannot}: {whole} have holes, so that no initial state is known; declare the boundary "
                "condition, or leave out frames with holes."
            )
        try:
            smoothing = smoothers(data.select_times(frames))
        except BvsiError as error:
            raise ForecastError(f"{cannot}: {error}") from error
        # where filters had too few values the smoothing gives the level
        variance = {f: measured.variance.get(f, np.array(smoothing[f].sigma ** 2)) for f in data.names}
        start = Start(data, variance, smoothing, made, begin)
        return start._coarser(library, budget)

    def _coarser(self, library: Library, budget: float) -> Start:
        """The same on every second node, where steps are too dear and the smoothed first frame allows it."""
        if self._least_cost() <= budget or not self._resolved_by_half():
            return self
        data = self.data.subsample(2)
        cut = {f: v if v.ndim == 0 else _thinned(v, self.data.geometry) for f, v in self.variance.items()}
        frames = slice(0, next(iter(self.smoothers.values())).f.shape[0])
        made = simulator(data, library, prescribe=True)
        return Start(data, cut, smoothers(data.select_times(frames)), made, self.begin)._coarser(library, budget)

    def _least_cost(self) -> float:
        return self.simulator.step_cost * self.data.n_times * (_FEWEST_DRAWS + 1)

    def _resolved_by_half(self) -> bool:
        """Whether splines through every second node of the smoothed first frame give the others, up to noise."""
        grid = self.data.geometry
        if not isinstance(grid, Grid) or min(grid.shape, default=0) < 2 * _FEWEST_NODES:
            return False
        if any((len(x) - (name not in grid.periods)) % 2 for name, x in grid.axes.items()):
            return False
        for name, size in self.scale.items():
            u = self.smoothers[name].smooth(self._first_frames(name))[0]
            miss = float(np.sqrt(np.mean(np.square(_from_half(u, grid) - u)))) / size
            if miss > max(_COARSENING * self.noise_of(name) / size, _COARSE_AT_LEAST):
                return False
        return True

    @property
    def scale(self) -> dict[str, float]:
        """RMS of every simulated field over all times; one where it is zero."""
        fields = self.simulator.fields
        return {f: float(np.sqrt(np.mean(np.square(self.data.fields[f])))) or 1.0 for f in fields}

    def noise_of(self, name: str) -> float:
        """Standard deviation of the noise of a field, over all values."""
        return float(np.sqrt(np.mean(self.variance[name])))

    @property
    def noise(self) -> float:
        """The same, relative to the size of the fields, over all of them."""
        return float(np.sqrt(np.mean([(self.noise_of(f) / size) ** 2 for f, size in self.scale.items()])))

    def _first_frames(self, name: str) -> Array:
        return np.asarray(self.data.fields[name][: self.smoothers[name].f.shape[0]])

    def draw(self, rng: Rng | None) -> dict[str, Array]:
        """Smoothed frames by field, (S, n), with a draw of what is unknown of them where there is an ``rng``."""
        states = {}
        for name in self.simulator.fields:
            smoother = self.smoothers[name]
            u = smoother.smooth(self._first_frames(name))
            if rng is not None:
                sd = np.sqrt(self.variance[name])
                u = u + smoother.draw(sd[: len(u)] if sd.ndim == 2 else sd, rng)
            states[name] = u
        return states

    def run(
        self, theta: Array, states: Mapping[str, Array], times: Array, scheme: Rosenbrock, progress: Progress
    ) -> tuple[Any, int]:
        """One simulation, fields (T, n) and number of steps, from the state at which it begins."""
        boundary = None
        if self.simulator.needs_boundary:
            boundary = (self.data.times, states)
        initial = {f: u[self.begin] for f, u in states.items()}
        past = slice(0, self.begin + 1)
        before = self.data.times[past], {f: u[past] for f, u in states.items()}
        return self.simulator.run(
            theta, initial, times, scheme=scheme, boundary=boundary, before=before, progress=progress
        )


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Mean and variance of draws by field, (T, n) each.

    Attributes
    ----------
    draws
        Those that came to the end.
    """

    mean: Mapping[str, Array]
    variance: Mapping[str, Array]
    draws: int
    failed: int


def simulated(start: Start, thetas: Array, times: Array, budget: float, rng: Rng, progress: Progress) -> Ensemble:
    """Simulations with draws of coefficients, (m + 1, d), the first their mean, and of the initial state."""
    tol = float(np.clip(_TIME_ERROR * start.noise, *_TIME_BOUNDS))
    count, steps = _affordable(start, thetas[0], times, Rosenbrock(tol), budget, len(thetas) - 1, progress)
    scheme = Rosenbrock(tol, max_steps=_PATIENCE * steps)
    mean = {f: np.zeros((len(times), start.data.n_nodes)) for f in start.simulator.fields}
    squares = {f: np.zeros_like(m) for f, m in mean.items()}
    done = failed = 0
    for k, theta in enumerate(thetas[1 : count + 1]):
        states = start.draw(rng)
        try:
            fields, _ = start.run(theta, states, times, scheme, progress)
        except BvsiError:
            failed += 1
        else:
            done += 1
            for f, u in fields.items():  # Welford's running mean and sum of squares
                off = u - mean[f]
                mean[f] += off / done
                squares[f] += off * (u - mean[f])
        progress(k + 1, count, "forecasting")
    if done < 2:
        raise ForecastError(
            f"forecast: {failed} of {count} simulations broke off, since the equation is not stable within its "
            "uncertainty; less noise or more frames would help, or a constraint that makes it stable."
        )
    return Ensemble(mean, {f: s / (done - 1) for f, s in squares.items()}, count, failed)


def _affordable(
    start: Start, theta: Array, times: Array, scheme: Rosenbrock, budget: float, draws: int, progress: Progress
) -> tuple[int, int]:
    """How many draws fit into the budget, and the steps of the mean, by a count of steps and not by a clock."""
    cost = start.simulator.step_cost
    allowed = int(min(_PATIENCE * budget / cost, 1e6))
    if allowed < len(times):
        raise ForecastError(
            f"forecast: {len(times)} frames of {start.data.n_nodes} nodes take too long to simulate; forecast data on "
            "every second node, or at fewer times."
        )
    try:
        _, steps = start.run(theta, start.draw(None), times, replace(scheme, max_steps=allowed), progress)
    except BvsiError as error:
        raise SimulationError(
            f"forecast: the equation found cannot be simulated from the first frame: {error}"
        ) from error
    return int(np.clip(budget / (cost * steps), min(_FEWEST_DRAWS, draws), draws)), steps


def _thinned(values: Array, geometry: Any) -> Array:
    """Values (T, n) on every second node of a grid."""
    cut: Any = (..., *[slice(None, None, 2)] * geometry.dim)
    return np.ascontiguousarray(values.reshape(len(values), *geometry.shape)[cut].reshape(len(values), -1))


def _from_half(u: Array, grid: Grid) -> Array:
    """Values at all nodes of the splines through every second one.

    Parameters
    ----------
    u
        (n,).
    """
    half = grid.on({name: x[::2] for name, x in grid.axes.items()})
    splines = Splines.on(half)
    return splines.at(splines.coefficients(_thinned(u[None], grid)[0]), grid)


def compared(start: Start, ensemble: Ensemble, held_out: Mask) -> Forecast:
    """Statistics of the ensemble against the data, at nodes that move and values that were measured.

    Frames before the first state are left out.
    """
    own = slice(start.begin, None)
    held_out, data = held_out[own], start.data.select_times(own)
    variances = {f: v[own] if v.ndim == 2 and len(v) > 1 else v for f, v in start.variance.items()}
    scale, used = start.scale, ensemble.draws - ensemble.failed
    T = data.n_times
    errors, spreads, inside = [], [], []
    for f, moving in start.simulator.moving.items():
        missing = ~np.broadcast_to(moving, (T, data.n_nodes))
        if data.measured is not None and f in data.measured:
            missing = missing | ~np.asarray(data.measured[f])
        off = np.ma.masked_array((ensemble.mean[f] - data.fields[f]), missing)
        variance = np.ma.masked_array(ensemble.variance[f], missing)
        width = half_width(band_variance(ensemble.variance[f], variances[f], used))
        errors.append(np.mean(np.square(off / scale[f]), axis=1).filled(np.nan))
        spreads.append(np.mean(variance / scale[f] ** 2, axis=1).filled(np.nan))
        inside.append(np.mean(np.abs(off) <= width, axis=1).filled(np.nan))
    error, spread = np.sqrt(np.mean(errors, axis=0)), np.sqrt(np.mean(spreads, axis=0))
    coverage = np.mean(inside, axis=0)
    status = forecast_status(
        data.times, held_out, error, spread, start.noise, coverage, failed=ensemble.failed / ensemble.draws
    )
    if start.simulator.needs_boundary:
        status += " The data give the values on the boundary."
    return Forecast(data.times, held_out, error, spread, start.noise, coverage, ensemble.draws, ensemble.failed, status)


def labelled(data: Data, times: Array, ensemble: Ensemble) -> xr.Dataset:
    """Mean, sd and band over time and space."""
    width = {
        f: half_width(band_variance(v, np.zeros(1), ensemble.draws - ensemble.failed))
        for f, v in ensemble.variance.items()
    }
    fields = {}
    for f, mean in ensemble.mean.items():
        fields[f] = mean
        fields[f"{f}_sd"] = np.sqrt(ensemble.variance[f])
        fields[f"{f}_lower"], fields[f"{f}_upper"] = mean - width[f], mean + width[f]
    dataset = Data(times, fields, data.geometry).to_xarray()
    dataset.attrs.update(level=LEVEL, draws=ensemble.draws, failed=ensemble.failed)
    return dataset
