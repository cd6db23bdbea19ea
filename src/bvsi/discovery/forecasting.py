"""The forward check: fit the first frames, simulate on from the first with posterior draws, compare with the rest."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.check.well_posed import grows_without_bound
from bvsi.common.naming import matches, without_equation
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, as_experiments
from bvsi.discovery.facade import discover
from bvsi.discovery.functions import of_found
from bvsi.discovery.parameters import at_estimate
from bvsi.discovery.result import Discovery
from bvsi.errors import BvsiError
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.linalg import single_threaded_blas
from bvsi.operators import Library
from bvsi.operators.families import by_experiment, of_experiment
from bvsi.predict.ensemble import Start, compared, labelled, simulated
from bvsi.predict.push import Forecast, ForecastError

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

# Frames that are fitted at least; not measured: the default stencils need three, and a few residuals are wanted.
_FEWEST_TRAINED = 6


@single_threaded_blas()
def forecast(
    data: Data | Sequence[Data],
    library: Library,
    found: Discovery,
    *,
    holdout: float = 0.2,
    draws: int = 20,
    rng: np.random.Generator,
    budget: float = 15_000.0,
    progress: Progress = silent,
    options: Mapping[str, Any] | None = None,
) -> Forecast:
    """Forecast of the last frames by the discovered equation, fitted to the others.

    The operators are those of ``found``. Their coefficients are fitted again to the first 1 − holdout of the frames;
    draws of them are simulated from the first frame, smoothed, with draws of what the smoothing leaves unknown. On
    boundaries without a declared condition, or with ``Dirichlet()``, the smoothed data give the values in time. Where
    the equation looks back, ``lag(...)``, simulations begin the longest delay after the first frame, and what was
    before is smoothed and drawn as the initial state is.

    Parameters
    ----------
    data
        As given to ``discover``. Of several experiments all are fitted, and the first is forecast.
    draws
        Simulations at most; fewer, but three at least, where they would take more work than ``budget``, counted in
        steps in time with a small matrix. The same arguments give the same numbers on any machine.
    options
        What else was given to ``discover``: noise, prior, constraints and so on.
    """
    if len(library.orders) > 1:
        library = library.with_(time_order=found.time_order)
    _check(holdout, draws, library)
    library, experiments = by_experiment(library, as_experiments(data))
    first, given = experiments[0], dict(options or {})
    kept = [max(_FEWEST_TRAINED, round((1 - holdout) * one.n_times)) for one in experiments]
    if kept[0] >= first.n_times:
        raise ForecastError(
            f"forecast: {first.n_times} frames are too few to fit {_FEWEST_TRAINED} and hold out others; measure more."
        )
    library = of_found(library, found.functions, expanded=False)
    own = [name for name in (*found.function_operators, *found.names) if name not in found.parameters]
    chosen = all_kept(library.subset([name for name in own if name in library.names]))
    refit = refitted(experiments, kept, chosen, library, given, progress)
    chosen, origin = at_estimate(of_found(chosen, refit.functions, expanded=True), refit)
    noise = given.get("noise")
    start = Start.of(first, chosen, noise[0] if isinstance(noise, Sequence) else noise, budget)
    if start.begin >= kept[0]:
        raise ForecastError("forecast: the frames that are fitted are no longer than the delay; fit more of them.")
    theta = _stable(_aligned(refit.posterior, origin, chosen, draws, rng), chosen, refit, first)
    ensemble = simulated(start, theta, first.times[start.begin :], budget, rng, progress)
    return compared(start, ensemble, np.arange(first.n_times) >= kept[0])


@single_threaded_blas()
def simulate_found(
    found: Discovery,
    library: Library,
    initial: Data,
    times: ArrayLike,
    *,
    draws: int = 20,
    rng: np.random.Generator,
    budget: float = 15_000.0,
    experiment: int = 1,
    progress: Progress = silent,
) -> xr.Dataset:
    """The discovered equation simulated from the first frame of ``initial``: mean, sd and 95% band of every field.

    Returns for a field u the variables ``u`` (the mean), ``u_sd``, ``u_lower`` and ``u_upper``, over time and space.

    Parameters
    ----------
    initial
        Its first frame, smoothed with those that follow, is the initial state; its geometry, known fields and, where no
        condition is declared, boundary values are used.
    times
        Increasing, the first that of the first frame; with ``lag(...)`` that of a frame the longest delay or more after
        it. Boundary values in time have to reach as far.
    draws, budget
        As in :func:`forecast`.
    experiment
        Whose coefficients and parameters are taken where these differ, counted from one.
    """
    if len(library.orders) > 1:
        library = library.with_(time_order=found.time_order)
    _check(0.5, draws, library)
    t = _checked_times(times, initial, anywhere=bool(library.longest_lag))
    library, initial = of_experiment(library, initial, experiment, found.words)
    chosen, origin = at_estimate(of_found(library, found.functions, expanded=True), found)
    start = Start.of(initial, chosen, None, np.inf, float(t[0]))
    if start.simulator.needs_boundary and t[-1] - initial.times[-1] > 1e-9 * (t[-1] - t[0]):
        raise ForecastError(
            f"times: the boundary condition is not declared, and boundary values are measured until "
            f"t = {initial.times[-1]:g} only; end there, or declare the condition in the library."
        )
    theta = _stable(_aligned(found.posterior, origin, chosen, draws, rng), chosen, found, initial)
    ensemble = simulated(start, theta, t, budget, rng, progress)
    return labelled(start.data, t, ensemble)


def _check(holdout: float, draws: int, library: Library) -> None:
    if not 0 < holdout < 1:
        raise ForecastError(f"holdout: a part of the frames between 0 and 1 is needed, such as 0.2; got {holdout!r}.")
    if not isinstance(draws, int) or draws < 2:
        raise ForecastError(f"draws: at least 2 simulations are needed; got {draws!r}.")
    if library.unsimulated:
        raise ForecastError(f"forecast: {library.unsimulated}")
    if library.time_order != 1:
        raise ForecastError(
            f"forecast: the equation is of order {library.time_order} in time; write it as a system of first order, "
            "with the rate as a field of its own, to have it forecast."
        )


def _aligned(posterior: Posterior, origin: Array, library: Library, draws: int, rng: np.random.Generator) -> Array:
    """Mean and draws of the coefficients, less their origin, (draws + 1, d), in the order of the library."""
    columns = [library.index(name) for name in posterior.names]
    values = np.zeros((draws + 1, len(library)))
    values[:, columns] = np.concatenate([posterior.mean[None], posterior.sample(draws, rng)]) - origin
    return values


def _stable(values: Array, library: Library, found: Discovery, data: Data) -> Array:
    """Coefficients (draws, d) with those of functions of the sign without which short waves grow without bound.

    Where data say little of k in ``div(k*grad(u))`` draws of it are below zero, and simulations with them run away.
    """
    for f in (f for f in found.functions if not f.constant):
        own = [i for i, name in enumerate(library.names) if without_equation(name) in f.labels]
        for sign in (1.0, -1.0):
            turned, right = values[0].copy(), values[0].copy()
            turned[own], right[own] = -sign, sign
            if grows_without_bound(library, turned, data) and not grows_without_bound(library, right, data):
                values[:, own] = sign * np.maximum(sign * values[:, own], 0.0)
    return values


def _checked_times(times: ArrayLike, initial: Data, *, anywhere: bool) -> Array:
    try:
        t = np.asarray(times, dtype=float)
    except (TypeError, ValueError):
        t = np.empty(0)
    if t.ndim != 1 or len(t) < 2 or not np.all(np.isfinite(t)) or not np.all(np.diff(t) > 0):
        raise ForecastError(
            "times: at least two increasing finite times are needed, the first that of the initial state."
        )
    if not anywhere and not np.isclose(t[0], initial.times[0], rtol=1e-9, atol=1e-9 * (t[-1] - t[0])):
        raise ForecastError(f"times: begin at {t[0]:g}, the data at {initial.times[0]:g}; begin there.")
    return t


def all_kept(library: Library) -> Library:
    """The library with every operator kept, so that nothing is selected."""
    kept = copy.copy(library)
    kept.keep = kept.names
    return kept


def refitted(
    experiments: Sequence[Data],
    kept: list[int],
    chosen: Library,
    library: Library,
    options: dict[str, Any],
    progress: Progress,
) -> Discovery:
    """The chosen operators fitted to the first frames."""
    train = [one.select_times(slice(0, k)) for one, k in zip(experiments, kept, strict=True)]
    given = {key: value for key, value in options.items() if key not in ("check", "progress", "units")}
    if given.get("noise") is not None:
        noise, n = given["noise"], len(kept)
        models = list(noise) if isinstance(noise, Sequence) else [noise] * n
        given["noise"] = [model.at(slice(0, k)) for model, k in zip(models, kept, strict=True)]
    if given.get("constraints") is not None and len(chosen.equations) == len(library.equations):
        names = (*library.names, *library.unknown)
        held = as_linear(given["constraints"], names).restrict((*chosen.names, *chosen.unknown))
        given["constraints"] = held.texts if chosen.unknown else held
    if isinstance(given.get("prior"), Prior | GaussianPrior):
        given["prior"] = _prior_of(given["prior"], chosen.names)
    try:
        return discover(train, chosen, check=False, progress=progress, **given)
    except BvsiError as error:
        raise ForecastError(
            f"forecast: the equation cannot be fitted to the first {kept[0]} frames: {error}"
        ) from error


def _prior_of(prior: Prior | GaussianPrior, names: tuple[str, ...]) -> Prior | GaussianPrior:
    """The prior without the terms of operators that were not selected."""

    def has(key: str | tuple[str, ...]) -> bool:
        return all(matches(name, names) for name in ((key,) if isinstance(key, str) else key))

    if isinstance(prior, GaussianPrior):
        return replace(prior, terms={key: law for key, law in prior.terms.items() if has(key)})
    return replace(prior, terms={key: law for key, law in prior.terms.items() if has(key)})
