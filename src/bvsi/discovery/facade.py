"""The facade: data and library in, equation with error bars out. Composition only."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.units import coefficient_units, shown_units
from bvsi.check import ADVICE, Check, CheckLevels, Verdict, check_discovery, with_bias
from bvsi.check.well_posed import grows_without_bound
from bvsi.common.naming import matches, without_equation
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, as_experiments
from bvsi.discovery.frames import Frames, frames_of
from bvsi.discovery.functions import Shapes, constraints_of, selected_functions, with_columns, without_functions
from bvsi.discovery.method import (
    Choice,
    Estimator,
    Method,
    Selection,
    choose_method,
    selected_order,
    thresholds,
    to_the_ends,
    wide,
    with_treatment,
)
from bvsi.discovery.outside import with_outside
from bvsi.discovery.parameters import Estimated, selected_jointly, selected_parameters, told_parameters
from bvsi.discovery.result import Discovery
from bvsi.discovery.screening import (
    check_arguments,
    check_choices,
    check_found,
    check_inside,
    check_left,
    check_measured,
    check_worth,
)
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer import NUTS, SVGD, Fit, Lagged, Maximum, Profile
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.fit import CHI2_FACTOR, misfit_excess, theta_at_hand
from bvsi.infer.lagged import prior_density
from bvsi.infer.posteriors import Posterior, moved
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior, Prior
from bvsi.infer.profile import with_unknown_scale
from bvsi.likelihood import ResidualLikelihood
from bvsi.linalg import single_threaded_blas
from bvsi.noise import Noise, UnknownScale
from bvsi.noise.measurement import NOISE_LEVELS, Measurement, measure_all
from bvsi.operators import Library, Vocabulary
from bvsi.operators.families import by_experiment
from bvsi.select import Backward, BestSubset, SelectionPath, Sweep
from bvsi.select.by_fits import without_weakest
from bvsi.select.path import needed, ties_of
from bvsi.setup import Setup

if TYPE_CHECKING:
    from bvsi.cluster import Stored

Array = NDArray[np.float64]
Rng = np.random.Generator

# Odds of the selected model over all others together below which functions that reach the ends of the axes are tried.
# They make error bars a fifth smaller with 61 frames at 100% noise (seed 910001), at the price of a second selection.
_CLEAR = 49.0


@single_threaded_blas()
def discover(
    data: Data | Sequence[Data],
    library: Library,
    *,
    noise: Noise | Sequence[Noise] | None = None,
    robust: bool | None = None,
    method: Method | None = None,
    prior: Prior | GaussianPrior | None = None,
    constraints: AnyConstraints = None,
    relinearise: int | None = None,
    check: bool | CheckLevels = True,
    client: Any = None,
    stored: Sequence[Stored] | None = None,
    units: Mapping[str, str] | None = None,
    rng: Rng | None = None,
    progress: Progress = silent,
) -> Discovery:
    """Select the operators that the data support, infer their coefficients, and check that the answer can be trusted.

    ``biharmonic(...)`` on Q2, where the library leaves its treatment open, gets the one that fits better.

    Parameters
    ----------
    data
        One experiment, or several of the same physics.
    library
        Candidates, those to keep, boundary conditions.
    noise
        Model of the observation noise; left out, filters measure it and the fit refines its level.
    robust
        Whether outliers get Student-t weights; by default where there are more than noise explains.
    method
        Test functions, weights, selection and estimator, ``Method(tests=Galerkin(), ...)``; what it leaves open is
        chosen from the data, and ``found.method`` is what was used. ``Paper()`` is the algorithm of the paper.
    prior
        Prior of the coefficients of the selected model; by default flat.
    constraints
        Texts such as ``"laplacian(u) > 0"`` or ``"laplacian(c1) == laplacian(c2)"``. Operators that equalities tie
        together are selected together; inequalities hold in the posterior.
    relinearise
        How often operators are linearised again, at states smoothed by the residual of those selected, which are then
        selected again; it matters where nonlinear operators meet large noise. By default once where they take
        derivatives of the data, such as ``dx(u)**2``, or are of higher than second degree, such as ``u**2*dx(u)``,
        else never.
    check
        Whether the fit is repeated on coarser samplings and with other test functions, for the verdict; or the
        thresholds of that check.
    client
        A ``dask.distributed.Client``: selection and posterior are then computed on its cluster, with the same result
        to rounding. Noise is measured and the answer checked on this machine, with the selected operators only.
    stored
        With a client, the files of the experiments, one each: workers then read their frames themselves, unless
        outliers were replaced or the data were coarsened.
    units
        Units of fields, coordinates and time, ``{"u": "mg/L", "x": "mm", "t": "h"}``: coefficients then have units, and
        operators that no units fit are refused. It needs pint; numbers are not changed by it.
    rng
        For draws of the noise in measurement, selection and check, and for samplers, by default
        ``numpy.random.default_rng(0)``.
        Every step starts from a copy of it, so that its numbers do not depend on the other steps.
    """
    begin = time.perf_counter()
    check_arguments(data, library)
    check_choices(method, check, rng)
    rng = np.random.default_rng(0) if rng is None else rng
    _check_cluster(client, stored)
    rounds = _count(relinearise)
    check_inside(library, relinearise, constraints)
    library, experiments = by_experiment(library, as_experiments(data))
    prior, known = without_functions(prior, library) if library.unknown else (prior, {})
    _check_prior(prior, library)
    every = None
    if library.parameters:
        library, prior, constraints, every = told_parameters(library, prior, constraints)
    measures = {} if units is None else coefficient_units(library, units)
    check_worth(experiments, library)
    measured = measure_all(experiments, noise, robust=robust, rng=rng)
    check_measured(measured, library)
    stated, library = with_columns(library, measured) if library.unknown else (library, library)
    chosen = choose_method(measured, library, method)
    linear = client is None and stated is library and not library.parameters
    further = partial(to_the_ends, measured, library, method) if linear else lambda _: None
    chosen = (further(chosen) if wide(chosen) else None) or chosen
    setup, treated = with_treatment(_on_cluster(chosen.setup, experiments, client, stored), progress)
    given = _Given(stated, constraints, every, known)
    selected = _selected(setup, given, chosen.method, rng, progress)
    if selected.path.left_open(_CLEAR) and (choice := further(chosen)) is not None:
        chosen, selected = choice, _selected(choice.setup, given, choice.method, rng, progress)
    selected = _relinearised(selected, rounds, progress)
    joint = selected.inside.joined(prior) if selected.inside.prior else prior
    model = _fit(selected, chosen.method, measured, joint, rng, progress)
    if not (selected.keep or selected.inside.prior):
        check_found(selected.path.best.fit or model.fit, library, [m.data for m in measured])
    levels = check if isinstance(check, CheckLevels) else CheckLevels()
    look = partial(_check, measured=measured, levels=levels, rng=rng, progress=progress)
    judged, pictures = look(model, selected) if check else (None, None)
    if all(m.noise_free for m in measured) and not (prior or selected.knows_more):
        while judged is not None and (smaller := _smaller(selected, model, judged)) is not None:
            selected, model = smaller, _fit(smaller, chosen.method, measured, prior, rng, progress)
            judged, pictures = look(model, selected)
    if judged is not None and not (selected.shapes or selected.knows_more or selected.whole.costly):
        again = partial(_selected_again, chosen.method, rng, progress)
        judged = with_outside(
            judged,
            selected.setup,
            selected.path,
            model.fit.posterior,
            again,
            n=selected.whole.n,
            odds=1.0 if all(m.noise_free for m in measured) else levels.odds,  # odds are those of noise
        )
    settings = _settings(selected, model, chosen, measured, prior)
    settings |= {"check": repr(levels)} if check else {}
    settings |= {"biharmonic": str(treated)} if treated.chi2 else {}
    seconds = time.perf_counter() - begin
    found = _result(selected, model, chosen.method, settings, judged, pictures, seconds)
    return found if units is None else _with_units(found, measures, units)


@dataclass(frozen=True, eq=False)
class _Given:
    """What is known beforehand.

    Attributes
    ----------
    library
        As it was stated, with unknown functions in its operators.
    constraints
        On coefficients and functions; ``every`` has those on parameters too.
    functions
        Mean and variance of functions, by name.
    """

    library: Library
    constraints: AnyConstraints
    every: LinearConstraints | None
    functions: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class _Selected:
    """What the selection leaves.

    Attributes
    ----------
    whole
        Likelihood of all candidates.
    keep
        Operators that were not up for selection.
    allowed
        Constraints on the coefficients.
    select
        The selection itself, to be repeated.
    order
        What was compared to choose the order of the time derivative; empty where it was given.
    inside, shapes
        Parameters inside operators, and unknown functions; no shapes where there are none.
    rounds
        How often operators were linearised again, None where that is open.
    left_open
        What the data leave open of parameters, in words.
    """

    setup: Setup
    whole: ResidualLikelihood
    path: SelectionPath
    keep: list[str]
    allowed: LinearConstraints | None
    select: Callable[..., SelectionPath]
    order: str = ""
    inside: Estimated = Estimated()  # noqa: RUF009 (frozen)
    shapes: Shapes | None = None
    rounds: int | None = None
    left_open: tuple[str, ...] = ()

    @property
    def knows_more(self) -> bool:
        """Whether something else than the data says what the model is."""
        return bool(self.allowed or self.inside.values or self.inside.prior)


def _selected(setup: Setup, given: _Given, method: Method, rng: Rng, progress: Progress) -> _Selected:
    """Select the operators; with parameters and functions inside them, these are estimated on the way."""
    library, allowed = setup.library, _constraints(given, setup.library)
    select, keep = _selector(library, method, allowed, rng)
    select = partial(select, keep=keep, progress=progress)
    plain, _ = _selector(library, method, None, rng)
    if given.library.unknown and given.library.parameters:
        setup, whole, path, inside, shapes = selected_jointly(
            setup, given.library, plain, keep, given.functions, rng, progress
        )
        limits = inside.limits(setup.library, None)
        return _Selected(setup, whole, path, keep, limits, select, inside=inside, shapes=shapes, rounds=0)
    if given.library.unknown:
        setup, whole, path, shapes = selected_functions(
            setup, given.library, plain, keep, allowed, given.functions, rng, progress
        )
        limits, inside = _constraints(given, setup.library), Estimated(prior=shapes.prior)
        return _Selected(setup, whole, path, keep, limits, select, inside=inside, shapes=shapes, rounds=0)
    if library.parameters:
        setup, whole, path, inside = selected_parameters(setup, select, plain, keep, given.every, rng, progress)
        limits, left_open = inside.limits(setup.library, given.every), inside.left_open(path)
        return _Selected(setup, whole, path, keep, limits, select, inside=inside, rounds=0, left_open=left_open)
    if len(library.orders) > 1:
        setup, whole, path, order = selected_order(setup, select, progress)
        return _Selected(setup, whole, path, keep, allowed, select, order)
    whole = setup.likelihood(progress=progress)
    if setup.client is None:
        check_left(whole)
    try:
        path = select(whole)
    except NotPositiveDefiniteError as error:
        raise BvsiError(
            f"noise: the measured noise leaves some residuals without any. State it, with noise=PerField(...), or with "
            f"robust=False keep values that were left out, such as those at a limit of the camera. In detail: {error}"
        ) from error
    return _Selected(setup, whole, path, keep, allowed, select)


def _relinearised(one: _Selected, rounds: int | None, progress: Progress) -> _Selected:
    """Selected once more with operators linearised again, as often as was asked for or as these operators need."""
    rounds = one.rounds if one.rounds is not None else rounds
    rounds = int(one.setup.bent_by_noise(one.whole, one.path.best.names)) if rounds is None else rounds
    if not rounds or one.setup.client is not None:
        return replace(one, rounds=rounds)
    # with Jacobians at the data themselves noise may let further operators in
    whole = one.setup.relinearised(one.whole, _of_all(one.path, one.whole.names), rounds, progress)
    return replace(one, whole=whole, path=one.select(whole), rounds=rounds)


def _smaller(one: _Selected, model: _Model, judged: Check) -> _Selected | None:
    """Without an operator of data without noise that other discretisations move by as much as its own size."""
    path = without_weakest(one.path, model.fit, judged.bias, one.whole, one.keep)
    return None if path is None else replace(one, path=path)


def _with_units(found: Discovery, measures: Mapping[str, str], units: Mapping[str, str]) -> Discovery:
    """The result with units of coefficients and functions."""
    of = dict(measures) | {label: measures[f.name] for f in found.functions for label in f.labels}
    by_name = {name: of.get(name, of.get(without_equation(name), "")) for name in found.names}
    return replace(found, units=by_name, data_units=shown_units(units))


def _settings(
    one: _Selected,
    model: _Model,
    chosen: Choice,
    measured: Sequence[Measurement],
    prior: Prior | GaussianPrior | None,
) -> dict[str, str]:
    """How it was done, in words."""
    return {
        "discretisation": one.whole.system.description,
        "method": repr(chosen.method),
        "reason": chosen.reason,
        "noise": "; ".join(m.summary for m in measured),
        "noise levels": repr(NOISE_LEVELS),
        "prior": "flat" if prior is None else str(prior_density(prior, model.likelihood)),
        "constraints": "; ".join(one.allowed.texts) if one.allowed else "",
        **thresholds(chosen),
        **({"time order": one.order} if one.order else {}),
    }


@dataclass(frozen=True, eq=False)
class _Model:
    """The selected operators: their likelihood, the posterior, and the constraints on them.

    Attributes
    ----------
    here
        Whether the residuals of the likelihood are on this machine.
    rounds
        How often its operators were linearised again.
    """

    likelihood: ResidualLikelihood
    fit: Fit
    limits: LinearConstraints | None
    here: bool
    rounds: int


def _constraints(known: _Given, library: Library) -> LinearConstraints | None:
    """What was given, on functions that are written out too, and that components of a vector share coefficients."""
    texts = known.constraints
    if known.library.unknown:
        texts = constraints_of(texts, known.library, library.names)
    given = None if texts is None else as_linear(texts, library.names)
    if not library.ties:
        return given
    return as_linear(given, library.names).joined(as_linear(library.ties, library.names).rows)


def _on_cluster(setup: Setup, given: Sequence[Data], client: Any, stored: Sequence[Stored] | None) -> Setup:
    """The same on the workers of a cluster, where there is one.

    Parameters
    ----------
    given
        Data before outliers were replaced.
    """
    if client is None:
        return setup
    if setup.library.steady:
        raise BvsiError("client: a steady problem has few residuals, and is solved on this machine; leave client out.")
    from bvsi.cluster import sources

    return setup.with_(client=client, sources=sources(setup.data, given, stored))


def _check_cluster(client: Any, stored: Sequence[Stored] | None) -> None:
    """Refuse what is not a client, and files without one."""
    if client is not None:
        from bvsi.cluster import check_client

        check_client(client)
    elif stored is not None:
        raise BvsiError("stored: files are read by the workers of a cluster; give client= too, or leave it out.")


def _selector(
    library: Library, method: Method, allowed: LinearConstraints | None, rng: Rng
) -> tuple[Callable[..., SelectionPath], list[str]]:
    """What selects the operators, and those that are not up for selection."""
    assert method.selection is not None
    keep = [*library.keep, *(needed(allowed) if allowed else ())]
    select: Callable[..., SelectionPath] = method.selection.select
    if not isinstance(method.selection, Backward):  # which draws nothing of its own
        select = partial(method.selection.select, rng=copy.deepcopy(rng))
    ties = ties_of(allowed) if allowed else None
    return (select if ties is None else partial(ties.selected, select)), keep


def _of_all(path: SelectionPath, names: tuple[str, ...]) -> Array:
    """Coefficients of the selected model among those of all operators, (d,)."""
    chosen = dict(zip(path.best.names, path.best.theta, strict=True))
    return np.array([chosen.get(name, 0.0) for name in names])


def _fit(
    one: _Selected,
    method: Method,
    measured: Sequence[Measurement],
    prior: Prior | GaussianPrior | None,
    rng: Rng,
    progress: Progress,
) -> _Model:
    """The posterior of the selected model; the selection's own fit where nothing else is asked for."""
    assert method.estimator is not None
    path, setup, rounds = one.path, one.setup, one.rounds or 0
    selected, here = one.whole.restrict(path.best.names), setup.client is None
    limits = one.allowed.restrict(selected.names) if one.allowed else None
    if rounds and not here:  # of the library that a cluster has, only what was selected is linearised again
        selected = setup.relinearised(setup.here.likelihood(selected.names), path.best.theta, rounds)
        here = True
    level = _level_prior(measured, path) if selected.scale_known else None
    fit = path.best.fit if _estimates_with(method.selection, method.estimator) else None
    if level is not None and prior is None and not limits and not rounds and _is_last(path, method, selected):
        assert path.best.fit is not None
        fit = with_unknown_scale(path.best.fit, _with_unknown_scale(selected), level)
    elif fit is None or prior is not None or limits or rounds or level is not None:
        fit = _posterior(method.estimator, selected, path.best.theta, prior, limits, level, rng, progress)
    if selected.scale_known:  # in units of the noise as it was measured or stated, not as the fit refines it
        fit = replace(fit, chi2=fit.equations.q / fit.equations.n)
    return _Model(selected, fit, limits, here, rounds)


def _check(
    model: _Model,
    one: _Selected,
    *,
    measured: Sequence[Measurement],
    levels: CheckLevels,
    rng: Rng,
    progress: Progress,
    absorbed: float = 0.0,
) -> tuple[Check | None, Frames]:
    """The check of the model, and pictures of its fit; unknown functions are held at their estimates."""
    if one.shapes is not None and one.shapes.prior is not None:
        held, names, start, T = one.shapes.frozen(one.setup.here, model.fit.names, model.fit.theta)
        plain = _Model(held.likelihood(names), model.fit, None, here=True, rounds=0)
        best = replace(one.path.best, names=names, theta=start, fit=None)
        path = replace(one.path, visited=tuple(best if v is one.path.best else v for v in one.path.visited))
        frozen = replace(one, setup=held, path=path, shapes=None)
        took = one.shapes.freedom(model.fit) - len(names)
        judged, pictures = _check(
            plain, frozen, measured=measured, levels=levels, rng=rng, progress=progress, absorbed=took
        )
        if judged is not None and judged.verdict is Verdict.CONSISTENT and model.fit.posterior is not None:
            below = one.shapes.negative(model.fit.posterior, held.data[0])
            library = held.library.subset(names)
            for name in [n for n, at in below.items() if grows_without_bound(library, start, held.data[0], at)]:
                reason = f"where {name} is below zero, short waves grow faster the shorter they are"
                judged = replace(judged, verdict=Verdict.ILL_POSED, advice=ADVICE[Verdict.ILL_POSED], reasons=(reason,))
        return None if judged is None else judged.moved(T), pictures
    setup, path = one.setup, one.path
    likelihood = model.likelihood if model.here else setup.here.likelihood(model.likelihood.names)
    shown = theta_at_hand(model.fit, likelihood) if likelihood.d == len(model.fit.theta) else path.best.theta
    pictures = frames_of(setup.data, likelihood, shown, rng=copy.deepcopy(rng))
    # Constraints mask discretisation drift, so that the unconstrained fit is checked, unless they cause a misfit.
    contradicted = bool(model.limits) and misfit_excess(model.fit.chi2, likelihood.n)
    subject = model.fit if contradicted else None if model.rounds and setup.client else path.best.fit
    judged = check_discovery(
        subject,
        setup,
        likelihood,
        path.best.theta,
        measured,
        copy.deepcopy(rng),
        progress,
        rounds=model.rounds,
        held=contradicted,
        margins=path.margins,
        seen=path.seen if subject is path.best.fit else None,
        left_open=one.left_open,
        absorbed=absorbed,
        shown=None if model.fit.posterior is None or absorbed else model.fit.posterior.variance,
        levels=levels,
    )
    return judged, pictures


def _selected_again(method: Method, rng: Rng, progress: Progress, more: Setup, rivals: bool) -> SelectionPath:
    """The selection with other candidates; the rivals of what it finds cost most of it."""
    if not rivals and isinstance(method.selection, BestSubset):
        method = replace(method, selection=replace(method.selection, compared=False, rounds=2, fitted=1, tried=2))
    select, keep = _selector(more.library, method, None, rng)
    return select(more.likelihood(), keep=keep, progress=progress)


def _estimates_with(selection: Selection | None, estimator: Estimator) -> bool:
    """Whether a selection fits what it selects with this very estimator, so that its fit is the one wanted."""
    return isinstance(selection, Sweep) and getattr(selection.criterion, "estimator", None) == estimator


def _is_last(path: SelectionPath, method: Method, selected: ResidualLikelihood) -> bool:
    """Whether data are so many that another fit would end where that of the selection did."""
    fit, own = path.best.fit, isinstance(method.estimator, Profile) and isinstance(method.selection, BestSubset)
    return own and selected.costly and fit is not None and fit.quadratic is not None and fit.status.converged


def _with_unknown_scale(likelihood: ResidualLikelihood) -> ResidualLikelihood:
    return replace(likelihood, noise=tuple(UnknownScale(model) for model in likelihood.noise))


def _count(relinearise: int | None) -> int | None:
    if relinearise is not None and (not isinstance(relinearise, int) or relinearise < 0):
        raise BvsiError(f"relinearise: a number of times, 0 or more, is needed; got {relinearise!r}.")
    return relinearise


def _posterior(
    estimator: Estimator,
    selected: ResidualLikelihood,
    theta: Array,
    prior: Prior | GaussianPrior | None,
    constraints: LinearConstraints | None,
    level: InverseGammaPrior | None,
    rng: Rng,
    progress: Progress,
) -> Fit:
    """The posterior of the selected model; estimators that are not closed forms find their own start.

    Parameters
    ----------
    level
        What filters know of the noise, where the fit may refine it.
    """
    rng = copy.deepcopy(rng)
    if isinstance(estimator, Profile | Lagged) and isinstance(prior, Prior) and not selected.scale_known:
        estimator = Maximum()  # closed forms take priors in units of a noise that is not known here
    if isinstance(estimator, Profile | Lagged) and level is not None and prior is None:
        unknown = _with_unknown_scale(selected)
        return estimator.fit(unknown, constraints=constraints, noise_prior=level, start=theta, progress=progress)
    if isinstance(estimator, Profile | Lagged):
        return estimator.fit(
            selected, prior=prior, constraints=constraints, noise_prior=level, start=theta, progress=progress
        )
    if level is not None:
        selected = _with_unknown_scale(selected)
    if isinstance(estimator, SVGD | NUTS):
        return estimator.fit(
            selected, prior=prior, constraints=constraints, noise_prior=level, rng=rng, progress=progress
        )
    return estimator.fit(selected, prior=prior, constraints=constraints, noise_prior=level, progress=progress)


def _level_prior(measured: Sequence[Measurement], path: SelectionPath) -> InverseGammaPrior | None:
    """Inverse-gamma prior of the noise variance over that of the filters; weak where the misfit contradicts them."""
    error = max(m.error for m in measured)
    if not error:
        return None
    chi2 = path.best.chi2
    if np.isfinite(chi2) and chi2 > CHI2_FACTOR:
        return InverseGammaPrior()
    alpha = 2 + 1 / (2 * error) ** 2  # relative sd of σ² is twice that of σ
    return InverseGammaPrior(alpha, alpha - 1)


def _check_prior(prior: Prior | GaussianPrior | None, library: Library) -> None:
    """Refuse names that no operator has, and in a joint prior those that several have."""
    if not isinstance(prior, Prior | GaussianPrior | None):
        raise BvsiError(f"prior: Prior({{...}}) or GaussianPrior({{...}}) is needed, not {prior!r}.")
    for key in () if prior is None else prior.terms:
        for name in (key,) if isinstance(key, str) else key:
            if isinstance(key, str) and matches(name, (*library.names, *library.parameters)):
                continue
            try:
                library.index(name)
            except BvsiError as error:
                raise BvsiError(f"prior: {error}") from None


def _widened(model: _Model, judged: Check | None) -> Posterior:
    """The posterior with what the check adds to its covariance."""
    assert model.fit.posterior is not None
    return model.fit.posterior if judged is None else with_bias(model.fit.posterior, judged, model.limits)


def _result(
    one: _Selected,
    model: _Model,
    method: Method,
    settings: dict[str, str],
    judged: Check | None,
    pictures: Frames | None,
    seconds: float,
) -> Discovery:
    library, fit, inside, shapes = one.setup.library, model.fit, one.inside, one.shapes
    posterior, path = _widened(model, judged), one.path
    if inside.values:
        posterior, path = moved(posterior, inside.offset(fit.names)), inside.shown(path)
    scores = fit.score_covariance
    texts = library.texts
    found = Discovery(
        fields=tuple(library.equations),
        candidates=library.names,
        posterior=posterior,
        chi2=fit.chi2,
        chi2_blocks=fit.chi2_blocks,
        block_rows=one.whole.rows,
        score_sd=np.sqrt(posterior.variance if scores is None else np.diag(scores)),
        status=fit.status,
        path=path,
        settings=settings,
        seconds=seconds,
        check=judged,
        time_order=library.time_order,
        frames=pictures,
        method=method,
        left={f: library.left(f).text for f in library.equations if library.left(f).text},
        parameters=tuple(name for name in fit.names if name in inside.values),
        open_parameters=inside.doubts,
        words=Vocabulary.of(one.setup.data[0]),
        texts={name: texts[name] for name in posterior.names if name not in inside.values},
    )
    if shapes is None:
        return found
    stated = shapes.library.names
    every = dict.fromkeys((*stated, *found.candidates))
    candidates = tuple(name for name in every if name in stated or name in found.names)
    return replace(found, functions=shapes.functions, path=shapes.path, candidates=candidates)
