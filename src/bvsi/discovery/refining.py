"""From residual to observation space: the selected equation and its rivals fitted by forward solves, and averaged.

P(m) ∝ p(û | m), and what the structures say together of a quantity, in :mod:`bvsi.predict.mixture`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import chdtrc

from bvsi.check.verdict import ENOUGH_FRAMES
from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import without_equation
from bvsi.common.progress import OutOfTimeError, Progress, silent
from bvsi.data import Data, Grid, Mesh, as_experiments
from bvsi.discovery.parameter_search import columns_of, limits_of, parameters_of
from bvsi.discovery.parameters import told_parameters
from bvsi.discovery.refined import MISFIT, PredictedExperiment, Refined, SpacesCompared, evidence_of
from bvsi.discovery.screening import check_arguments, check_rng
from bvsi.errors import InfeasibleError, NotPositiveDefiniteError
from bvsi.infer.constraints import AnyConstraints, Constraints, LinearConstraints, as_linear
from bvsi.infer.fit import Reason
from bvsi.infer.nuts import NUTS
from bvsi.infer.posteriors import moved
from bvsi.infer.posteriors.closed_form import covariance_root
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.linalg import single_threaded_blas
from bvsi.noise import Noise
from bvsi.operators import Library
from bvsi.operators.families import by_experiment
from bvsi.refine import (
    ForwardFit,
    ForwardModel,
    Measurements,
    RefineError,
    check_equation,
    check_instrument,
    fit_forward,
    sampled,
    stated_laws,
)
from bvsi.refine.model import comparable
from bvsi.select.path import Ties, needed, ties_of

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

# Structures that are fitted at most, and the difference of scores up to which rivals of the weak form are: odds of 150.
_MOST, _RIVALS = 40, 10.0
# Odds against the most probable structure up to which the neighbours of a structure are fitted (Occam's window).
_WINDOW = 20.0
# log-likelihood by which a smaller structure may fit better: what iterations leave when they end.
_LOWER = 0.1
_SOME = 5  # places or frames from which on neighbouring residuals are compared
# Times that columns of parameters are made again, and the move of a parameter in standard deviations that ends it.
_ROUNDS, _STANDS = 15, 0.05
_WIDE = 1e6  # times as wide as its bounds is the prior of a parameter that has no other in chains: flat


@single_threaded_blas()
def refine(
    data: Data | Sequence[Data],
    library: Library,
    found: Discovery | None = None,
    *,
    noise: Noise | Sequence[Noise | None] | None = None,
    constraints: AnyConstraints = None,
    prior: Prior | GaussianPrior | None = None,
    structures: Sequence[Sequence[str]] | None = None,
    on: Grid | Mesh | None = None,
    blur: Mapping[str, float] | None = None,
    bins: Mapping[str, float] | None = None,
    later: ArrayLike = (),
    sample: NUTS | None = None,
    budget: float = 300.0,
    known: Refined | None = None,
    keep: Callable[[Refined], None] | None = None,
    rng: Rng | None = None,
    progress: Progress = silent,
) -> Refined:
    """Fit equations to the measurements by forward solves: coefficients, initial states, probabilities of structures.

    Parameters
    ----------
    data
        Experiments that share the coefficients; every one has an initial state of its own.
    library
        Candidates; boundary conditions have to be declared where axes are not periodic.
    found
        What the weak form selected, where to begin; by default all operators of the library.
    noise
        As in ``discover``. ``SignalNoise(b=...)`` for counts has its variance at the prediction; noise that is alike at
        neighbours, stated (``Blurred``, ``Covariance``) or measured, is whitened.
    constraints
        Texts as in ``discover``. The prior is that given the equalities. Operators that equalities tie to each other
        enter and leave an equation together; those that have to be non-zero stay in it.
    prior
        Laws of coefficients by name, as in ``discover``: ``Normal``, ``JointNormal``, ``LogNormal``, ``HalfNormal``,
        ``Uniform``, ``StudentT``, ``Laplace``; of coefficients in equalities, Gaussians. Others have N(0, s²), where s
        is the coefficient with which an operator alone would change the fields by their own size between two frames.
    structures
        Operators of the equations to compare. By default what was selected, its rivals, and, beside those
        that are probable, all with one operator more or less. Refused where equalities make a coefficient zero in one.
    on
        Where the equations are solved; by default at the nodes of the data. For sensors, a mesh of the domain: the
        initial field between them is inferred with its smoothness.
    blur
        Standard deviations by axis of the Gaussian over which the instrument sees the fields (point-spread function),
        in units of the coordinates: ``{"x": 0.05}``. Values whose kernel reaches out of the domain are not fitted.
    bins
        Lengths by axis over which values are averages, with the coordinates in the middle; of ``time``, exposures.
    later
        Times after the last of the data for which predictions are made, with the others in ``predicted``.
    sample
        Chains of coefficients and initial state of the most probable structure, in place of its Gaussian posterior:
        ``NUTS(draws=200, tune=100, chains=2)``. Each draw takes about seven solves with derivatives.
    budget
        Seconds after which no further structure is begun, and one under way is given up; the first is always fitted.
    known
        What an earlier call found for the same data, noise, constraints and ``on``, which is not fitted again.
    keep
        Called after every structure with what there is.
    rng
        For draws of predictions where modes are many, by default ``numpy.random.default_rng(0)``.
    """
    begin = time.perf_counter()
    check_refine(
        data,
        library,
        prior=prior,
        constraints=constraints,
        structures=structures,
        on=on,
        blur=blur,
        bins=bins,
        sample=sample,
    )
    check_rng(rng)
    if not (isinstance(budget, (int, float)) and budget >= 0):
        raise RefineError(f"budget: seconds, zero or more, are needed, such as budget=300; got {budget!r}.")
    library, experiments = by_experiment(library, as_experiments(data))
    models = list(noise) if isinstance(noise, Sequence) else [noise] * len(experiments)
    if len(models) != len(experiments):
        raise RefineError(f"noise: {len(models)} models for {len(experiments)} experiments; give one, or one each.")
    fields = tuple(f for f in experiments[0].names if f in library.equations)
    measured = [
        Measurements.of(one, own, fields, on, later, blur, bins) for one, own in zip(experiments, models, strict=True)
    ]
    if structures is None or len(structures) > 1:
        among = {name for names in structures or (library.names,) for name in names}
        measured = comparable(measured, library.subset([name for name in library.names if name in among]))
    library, prior, limits = _told(library, prior, constraints)

    def watch() -> None:
        _watch(search, begin + budget, progress)

    search = _Structures(library, measured, limits, prior, found, known, watch, rng)
    first = [tuple(names) for names in structures] if structures is not None else search.given()

    def made() -> Refined:
        left = search.waiting(first, further=structures is None)
        return search.result(fields, left, time.perf_counter() - begin)

    if not search.fits:
        search.fit(first[0])  # refused with the reason
        if keep is not None:
            keep(made())
    while (names := search.next(first, further=structures is None)) is not None:
        if time.perf_counter() - begin > budget or len(search.tried) >= _MOST:
            break
        try:
            search.fit(names, tolerant=True)
        except OutOfTimeError:
            break
        if keep is not None:
            keep(made())
    if sample is not None:
        search.sample(sample, np.random.default_rng(0) if rng is None else rng, progress)
    return made()


def check_refine(
    data: Data | Sequence[Data],
    library: Library,
    *,
    prior: Prior | GaussianPrior | None = None,
    constraints: AnyConstraints = None,
    structures: Sequence[Sequence[str]] | None = None,
    on: Grid | Mesh | None = None,
    blur: Mapping[str, float] | None = None,
    bins: Mapping[str, float] | None = None,
    sample: NUTS | None = None,
) -> None:
    """Refuse what :func:`refine` cannot do whichever operators are in the equation, before anything is computed."""
    check_arguments(data, library)
    if library.unknown:
        listed = ", ".join(library.unknown)
        raise RefineError(f"refine: the function {listed} cannot be fitted; write it with numbers or parameters.")
    if not isinstance(prior, Prior | GaussianPrior | None):
        raise RefineError(f"prior: Prior({{'u': Normal(0, 1)}}) is needed, not {prior!r}.")
    if not isinstance(sample, NUTS | None):
        raise RefineError(f"sample: NUTS(draws=200, tune=100, chains=2) is needed, not {sample!r}.")
    library, experiments = by_experiment(library, as_experiments(data))
    for one in experiments:
        check_instrument(one, on, blur, bins)
        check_equation(one, library, on)
    library, prior, limits = _told(library, prior, constraints)
    inside = limits.equality & limits.A[:, len(library.names) :].any(axis=1)
    if inside.any():
        text = limits.texts[np.flatnonzero(inside)[0]]
        raise RefineError(f"constraints: {text!r} is an equality of a parameter; write it into the operators instead.")
    stated_laws(prior, library.names, limits)
    for names in map(tuple, structures or ()):
        if zero := _held_at_zero(limits, library.subset(names).names, library):
            raise RefineError(
                f"structures: in {names!r} the constraints make {', '.join(map(repr, zero))} zero; add the operators "
                "that are tied to it, or leave it out."
            )


def _told(
    library: Library, prior: Prior | GaussianPrior | None, constraints: AnyConstraints
) -> tuple[Library, Prior | GaussianPrior | None, LinearConstraints]:
    """Library, prior, and all constraints on coefficients and parameters; components of a vector are tied."""
    library, prior, _, limits = told_parameters(library, prior, constraints)
    names = (*library.names, *library.parameters)
    return library, prior, as_linear(limits, names).joined(as_linear(library.ties, names).rows)


def _held_at_zero(limits: LinearConstraints, names: Sequence[str], library: Library) -> list[str]:
    """Those of some operators whose coefficient is zero by equalities, where the other operators are left out."""
    affine = limits.restrict((*names, *library.parameters)).affine()
    zero = ~affine.T.any(axis=1) & (affine.offset == 0)
    return [name for name, held in zip(affine.names, zero, strict=True) if held]


def _beside(one: Measurements, number: int, made: Refined) -> PredictedExperiment:
    """What was measured, and the mean and errors of all structures."""
    p = made.probabilities()[:, None, None]
    values = np.array([fit.predictions[number] for fit in made.models])
    mean = np.sum(p * values, axis=0)
    statistics = np.sqrt(sum(q * fit.spreads[number] ** 2 for q, fit in zip(p, made.models, strict=True)))
    structure = np.sqrt(np.sum(p * (values - mean) ** 2, axis=0))
    later, last = len(mean) - one.data.n_times, one.data.n_times - 1
    noise = np.sqrt(made.best.level * np.stack([one.variance(u, min(k, last)) for k, u in enumerate(mean)]))
    seen = np.where(one.known, one.values, np.nan)
    seen = np.concatenate([seen, np.full((later, seen.shape[1]), np.nan)])

    def by_field(stacked: Array) -> dict[str, Array]:
        return dict(zip(one.fields, np.split(stacked, len(one.fields), axis=1), strict=True))

    return PredictedExperiment(
        times=np.append(one.data.times, one.later),
        points=one.data.geometry.points,
        values=by_field(seen),
        mean=by_field(mean),
        statistics=by_field(statistics),
        structure=by_field(structure),
        noise=by_field(noise),
        alike={} if one.correlated else _alike(one, ((seen - mean) / noise)[: one.data.n_times]),
    )


def _alike(one: Measurements, z: Array) -> dict[str, float]:
    """Correlation of residuals z (T, s), NaN where unknown, with those of the next frame and of the nearest place.

    In standard deviations of independent ones, 1/√pairs; places and frames have to be some for it.
    """
    points, found = one.data.geometry.points, {}
    if len(z) >= _SOME:
        found["time"] = _score(z[1:], z[:-1])
    if len(points) >= _SOME and points.shape[1]:
        nearest = cKDTree(points).query(points, k=2)[1][:, 1]
        i, j = np.unique(np.sort(np.stack([np.arange(len(points)), nearest], axis=1), axis=1), axis=0).T
        by_field = np.stack(np.split(z, len(one.fields), axis=1))
        found["place"] = _score(by_field[..., i], by_field[..., j])
    return found


def _score(a: Array, b: Array) -> float:
    """√n times the correlation of n pairs with mean zero."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    size = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.sqrt(len(a)) * np.sum(a * b) / size) if size else 0.0


def _watch(search: _Structures, end: float, progress: Progress) -> None:
    """Report to whoever waits, and end the fit under way where its time is over and another one is there."""
    if search.fits and time.perf_counter() > end:
        raise OutOfTimeError("fitting structures by forward solves")
    progress(len(search.tried), None, "fitting structures by forward solves")


class _Structures:
    """Structures that were fitted, and which to fit next; ``watch`` is called before every solve."""

    def __init__(
        self,
        library: Library,
        measured: Sequence[Measurements],
        limits: LinearConstraints,
        prior: Prior | GaussianPrior | None,
        found: Discovery | None,
        known: Refined | None,
        watch: Callable[[], None],
        rng: Rng | None,
    ) -> None:
        self._library, self._measured, self._limits, self._found = library, measured, limits, found
        self._watch, self._rng, self._prior = watch, rng, prior
        self._ties = ties_of(limits) or Ties(limits.names, np.eye(len(limits.names)), limits.names)
        own = [name for name in needed(limits) if name in library.names]
        self._kept = self._ties.keep([*library.keep, *own])
        self.fits: dict[frozenset[str], ForwardFit] = {}
        self.refused: list[tuple[tuple[str, ...], str]] = []
        if known is not None:
            whole = [fit for fit in known.models if len(fit.predictions) == len(measured)]
            self.fits = {frozenset(set(fit.names) - {*known.parameters}): fit for fit in whole}
            self.refused = list(known.refused)

    def result(self, fields: tuple[str, ...], left: Sequence[tuple[str, ...]], seconds: float) -> Refined:
        """What there is, the most probable structure first."""
        fits, own = tuple(self._ranked()), self._library.names
        inside = tuple(dict.fromkeys(name for fit in fits for name in fit.names if name not in own))
        agreement = None if self._found is None else _agreement(self._found, self.fits, self._measured[0])
        made = Refined(
            fields, (*own, *inside), fits, tuple(self.refused), tuple(left), agreement, seconds, parameters=inside
        )
        beside = [_beside(one, number, made) for number, one in enumerate(self._measured)]
        return replace(made, experiments=tuple(beside))

    @property
    def tried(self) -> set[frozenset[str]]:
        """All that were begun."""
        return set(self.fits) | {frozenset(names) for names, _ in self.refused}

    def given(self) -> list[tuple[str, ...]]:
        """What the weak form selected, and its rivals; first all operators where it cannot see between sensors."""
        if self._found is None:
            return [self._completed(self._library.names)]
        whole = [self._library.names] if any(one.sparse for one in self._measured) else []
        path = self._found.path
        near = [v for v in path.visited if v.score < path.best.score + _RIVALS]
        ranked = [self._found.names, *(v.names for v in sorted(near, key=lambda v: v.score))]
        own = [tuple(name for name in names if name not in self._found.parameters) for names in ranked]
        return [names for names in dict.fromkeys(map(self._completed, (*whole, *own))) if names]

    def _completed(self, names: Sequence[str]) -> tuple[str, ...]:
        """With operators that constraints need, and, where equalities make a coefficient zero, all that are tied."""
        free = {*self._ties.keep(names), *self._kept}
        every = self._ordered({*names, *self._ties.operators(self._kept)})
        return self._ordered(self._ties.operators(free)) if _held_at_zero(self._limits, every, self._library) else every

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Operators as the library has them, without parameters."""
        some = set(names)
        return tuple(name for name in self._library.names if name in some)

    def fit(self, names: Sequence[str], *, tolerant: bool = False) -> None:
        """Fit one structure; with ``tolerant`` one that cannot be is noted and left out."""
        some, key = self._library.subset(names), frozenset(names)
        try:
            if parameters_of(some, some.names):
                self.fits[key] = self._with_parameters(some)
                return
            model = self._model(some)
            self.fits[key] = self._improved(model, _from_starts(model, self._weak_start(model), self._rng))
        except (RefineError, InfeasibleError) as error:
            if not tolerant:
                raise
            self.refused.append((tuple(names), str(error)))
            return
        for larger, fit in self.fits.items():
            if larger > key and set(fit.names) == larger:
                self.fits[larger] = self._improved(self._model(self._library.subset(fit.names)), fit)

    def sample(self, nuts: NUTS, rng: Rng, progress: Progress) -> None:
        """Chains of the most probable structure; its Gaussian posterior stays where they do not end in time."""
        fit, own, known = self._ranked()[0], self._library.names, self._library.parameters
        some = self._library.subset([name for name in fit.names if name in own])
        inside = np.array([name not in own for name in fit.names])
        offset, at = np.where(inside, fit.theta, 0.0), None

        def operators(x: Array) -> tuple[Library, dict[str, float]]:
            theta = dict(zip(fit.names, x.tolist(), strict=True))
            values = {without_equation(name): value for name, value in theta.items() if name not in own}
            return some.at(values, theta), values

        if inside.any():
            whole = self._model_at(*operators(fit.theta))
            flat = [name not in own and known[without_equation(name)].prior is None for name in fit.names]
            wide = np.where(flat, _WIDE, 1.0)  # bounds are all that is known of these
            prior = replace(whole.prior, precision=whole.prior.precision / wide / wide[:, None])
            free = replace(whole, prior=prior)

            def at(x: Array) -> tuple[ForwardModel, Array]:
                return free.with_operators(operators(x + offset)[0]), np.where(inside, 0.0, x)

        else:
            whole = self._model(some)
        model, begin = replace(whole, watch=lambda: None), replace(fit, theta=fit.theta - offset)
        try:
            found = sampled(model, begin, nuts, at, rng=rng, progress=progress)
            made = replace(found, theta=fit.theta, posterior=moved(found.posterior, offset))
            notes = " ".join(made.posterior.warnings)  # type: ignore[union-attr]
            told, reasons = f"Coefficients by NUTS. {notes}".strip(), fit.status.reasons - {Reason.NOT_PEAKED}
            status = replace(fit.status, converged=not notes, message=told, reasons=reasons)
        except OutOfTimeError as error:
            made, status = fit, replace(fit.status, message=f"Converged; chains were given up: {error}")
        self.fits[frozenset(some.names)] = replace(made, status=status)

    def _model(self, some: Library) -> ForwardModel:
        return self._model_at(some, {})

    def _weak_start(self, model: ForwardModel) -> list[Array]:
        """The estimate of the weak form, where it has all operators."""
        weak = self._found
        if weak is None or not set(model.names) <= set(weak.names):
            return []
        values = dict(zip(weak.names, weak.theta, strict=True))
        return [np.array([values[name] for name in model.names])]

    def _improved(self, model: ForwardModel, fit: ForwardFit) -> ForwardFit:
        """The fit, or that from a smaller structure's where that fits better: it is in a local minimum."""
        smaller = [one for names, one in self.fits.items() if names < set(model.names)]
        better = max(smaller, key=lambda one: one.log_likelihood, default=fit)
        if better.log_likelihood <= fit.log_likelihood + _LOWER:
            return fit
        values = dict(zip(better.names, better.theta, strict=True))
        try:
            other = fit_forward(
                model, [np.array([values.get(name, 0.0) for name in model.names])], better, rng=self._rng
            )
        except (RefineError, NotPositiveDefiniteError):
            return fit
        return max(fit, other, key=lambda one: one.log_likelihood)

    def _with_parameters(self, some: Library) -> ForwardFit:
        """θ and κ: columns ∂F/∂κ with the coefficient κ − κ_0 join the operators, and κ_0 moves until that is zero."""
        weak = self._found
        known = {} if weak is None else {name: value for name, (value, _) in weak.inside.items()}
        used = parameters_of(some, some.names)
        values = {name: known.get(name, one.first) for name, one in some.parameters.items() if name in used}
        if weak is not None and set(some.names) <= set(weak.names):
            theta = dict(zip(weak.names, weak.theta.tolist(), strict=True))
        else:
            plain = ForwardModel.of(self._measured, some.at(values), None, self._prior)
            theta = dict(zip(plain.names, plain.start().tolist(), strict=True))
        fit: ForwardFit | None = None
        for _ in range(_ROUNDS):
            model = self._model_at(some.at(values, theta), values)
            start = np.array([theta.get(name, 0.0) if name in some.names else 0.0 for name in model.names])
            fit = fit_forward(model, [start], fit, rng=self._rng)
            columns, sd = columns_of(model.library), np.sqrt(fit.posterior.variance)
            at = {made: i for i, made in enumerate(fit.names) if made in columns}
            if all(abs(fit.theta[i]) < _STANDS * sd[i] for i in at.values()):
                offset = np.array([values[columns[name]] if name in columns else 0.0 for name in fit.names])
                return replace(fit, theta=fit.theta + offset, posterior=moved(fit.posterior, offset))
            values |= {
                columns[made]: some.parameters[columns[made]].moved(values[columns[made]], fit.theta[i])
                for made, i in at.items()
            }
            theta = {name: float(v) for name, v in zip(fit.names, fit.theta, strict=True) if name in some.names}
        raise RefineError(
            f"refine: {', '.join(values)} did not settle in {_ROUNDS} rounds; give narrower bounds or a start."
        )

    def _model_at(self, at: Library, values: Mapping[str, float]) -> ForwardModel:
        """Operators and columns at values of the parameters, within their bounds."""
        columns, known = columns_of(at), self._library.parameters
        own = [name in columns for name in at.names]
        if as_linear(at.ties, at.names).A[:, own].any():
            raise RefineError("refine: a parameter that stands in several equations cannot be fitted.")
        limits = self._limits.restrict([*(name for name in at.names if name not in columns), *known])
        inside = Constraints(bounds={name: (known[name].low, known[name].high) for name in values})
        limits = limits.joined(inside.bind(limits.names).rows)
        model = ForwardModel.of(self._measured, at, limits_of(at, limits, values), self._prior)
        mean, precision = model.prior.mean.copy(), model.prior.precision.copy()
        for i, name in enumerate(model.names):
            if name in columns:
                one, value = known[columns[name]], values[columns[name]]
                mean[i], precision[i, i] = 0.0 if one.prior is None else one.prior[0] - value, one.sd**-2.0
        return replace(model, prior=replace(model.prior, mean=mean, precision=precision), watch=self._watch)

    def _ranked(self) -> list[ForwardFit]:
        return sorted(self.fits.values(), key=lambda fit: -fit.log_evidence)

    def waiting(self, first: Sequence[tuple[str, ...]], *, further: bool) -> list[tuple[str, ...]]:
        """Structures not yet begun: those given, then the neighbours of probable ones, the most promising first."""
        near = [names for names in (self._neighbours() if further else ()) if names not in first]
        guessed = evidence_of(near, self._ranked())
        every = dict.fromkeys((*first, *sorted(near, key=lambda names: -guessed.get(names, -np.inf))))
        return [names for names in every if frozenset(names) not in self.tried]

    def next(self, first: Sequence[tuple[str, ...]], *, further: bool) -> tuple[str, ...] | None:
        """The structure to fit next; None where all were."""
        left = self.waiting(first, further=further)
        return left[0] if left else None

    def _neighbours(self) -> list[tuple[str, ...]]:
        """Probable structures without one operator, or with one more; those that are kept stay."""
        ranked = self._ranked()
        likely = [fit for fit in ranked if fit.log_evidence > ranked[0].log_evidence - math.log(_WINDOW)]
        own = [name for name in self._ties.free if name in self._library.names]
        changed = [(set(fit.names) & set(own)) ^ {name} for fit in likely for name in own if name not in self._kept]
        return [self._ordered(self._ties.operators(one)) for one in changed if one]


def _from_starts(model: ForwardModel, starts: Sequence[Array], rng: Rng | None) -> ForwardFit:
    """The fit from the best of all starts; where that fails or does not converge, from smoothed data alone.

    With few frames the weak form may be far off: of 240 drawn assays one ended nowhere from its estimate.
    """
    found = []
    for some in dict.fromkeys((tuple(map(tuple, starts)), ())):
        try:
            found.append(fit_forward(model, [np.array(one) for one in some], rng=rng))
        except NotPositiveDefiniteError:
            continue
        if found[-1].status.converged:
            break
    if not found:
        raise RefineError(
            "refine: the misfit has no minimum that steps can find; use fewer operators, or constrain them."
        )
    return max(found, key=lambda fit: (fit.status.converged, fit.log_likelihood))


def _agreement(found: Discovery, fits: dict[frozenset[str], ForwardFit], data: Measurements) -> SpacesCompared | None:
    """Both estimates of the operators that were selected.

    Where forward solves are efficient, Cov(θ_w − θ_f) = Cov θ_w − Cov θ_f (Hausman). In every direction it is taken for
    no less than Cov θ_f: both have errors of approximation.
    """
    fit = fits.get(frozenset(name for name in found.names if name not in found.parameters))
    if fit is None or set(fit.names) != set(found.names):
        return None
    order = [found.names.index(name) for name in fit.names]
    weak = found.posterior.covariance[np.ix_(order, order)]
    root, difference = covariance_root(fit.posterior.covariance), found.theta[order] - fit.posterior.mean
    ratio, Q = np.linalg.eigh(root.inverse @ weak @ root.inverse.T)
    variance = np.maximum(ratio - 1, 1.0)
    z = Q.T @ root.inverse @ difference
    sd = np.sqrt(np.diag((root.R @ Q * variance) @ (root.R @ Q).T))
    p_value = float(chdtrc(len(z), float(np.sum(z**2 / variance))))
    return SpacesCompared(fit.names, difference, sd, p_value, _cause(fit, data))


def _cause(fit: ForwardFit, data: Measurements) -> str:
    """The likely cause of a disagreement."""
    if data.averaged:
        return "The weak form takes the values for those of the fields, not for averages: trust the forward solves."
    if data.sparse:
        return f"{data.data.n_nodes} sensors are too few for the weak form: trust the forward solves."
    if data.data.n_times < ENOUGH_FRAMES:
        return (
            f"{data.data.n_times} frames are too few for the weak form, which differences them in time: trust the "
            "forward solves."
        )
    if fit.p_value < MISFIT:
        return "Neither fits: an operator is missing, or the noise is not what was stated."
    return "The nodes may not resolve the fields: compare with every second node, or with finer data."
