"""The search for parameters inside operators: a grid of values, Gauss–Newton from some of them, other minima."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import without_equation
from bvsi.common.progress import Progress
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import Constraints, LinearConstraints, as_linear
from bvsi.infer.constraints.linear import ConstraintRows, merged, simple, stacked
from bvsi.infer.fit import misfit_excess
from bvsi.infer.priors import GaussianPrior
from bvsi.infer.starts import Starts, balance
from bvsi.likelihood import ResidualLikelihood
from bvsi.operators import Library
from bvsi.operators.parameters import Parameter, combinations
from bvsi.operators.syntax import Operator
from bvsi.select import SelectionPath
from bvsi.select.by_quadratic import by_moments, noise_ratio
from bvsi.select.criterion import ExtendedBIC
from bvsi.select.search import Protection, best_models
from bvsi.setup import Setup

# Values of κ at which the first model is looked for, of every operator; not measured, five points a decade or so of one
# parameter.
_VALUES = 9
# Places of the grid that are searched at most, and draws of noise for their misfits. Not measured.
_PLACES, _DRAWS = 243, 4
# Gauss–Newton steps at most; steps in standard deviations that need not be tested, and that are the last; halvings.
_STEPS, _NEAR, _CLOSE, _HALVINGS = 20, 1.0, 0.01, 6
# How much larger the last step may be for a parameter that the data leave open.
_CREEPS = 10.0
# Part of the last step that one may be before steps are halved.
_SLOW = 0.5
# Steps from another start; a minimum that is not reached in these is not told. Not measured.
_TRIED = 6
# Values at which all operators are tried where the best model does not explain the data; not measured.
_OTHERS = 3
# Distance in standard deviations from which on two ends are different ones.
_APART = 1.0
# How much Q may be above the lowest for another estimate to count: odds of 1 : 20.
_NEARLY = 6.0
# Estimates on the way: the last step of a fit is shorter than a tenth of a standard deviation, and leaves far less.
# Nobody asks whether such a fit ended on a plateau.
_ROUGHLY = Profile(tol=0.1, starts=Starts(plateau=math.inf))

FAILURES = (RankError, NotPositiveDefiniteError)


@dataclass(frozen=True, eq=False)
class ParameterPoint:
    """A model, with κ by parameter and θ by operator; the fit with its columns of parameters, where there is one."""

    names: tuple[str, ...]
    values: dict[str, float]
    theta: dict[str, float]
    fit: Fit | None = None

    def objective(self, parameters: Mapping[str, Parameter]) -> float:
        """Q of the fit, with the priors of parameters; infinite without a fit."""
        known = [(self.values[name], *one.prior) for name, one in parameters.items() if one.prior is not None]
        distance = sum(((value - mean) / sd) ** 2 for value, mean, sd in known)
        return math.inf if self.fit is None else self.fit.equations.q + distance


Select = Callable[..., SelectionPath]


def carrying(library: Library, names: Sequence[str]) -> list[Operator]:
    """Operators among those named that have parameters."""
    return [o for f in library.equations for o in library.of_equation(f) if o.free is not None and o.name in names]


def parameters_of(library: Library, names: Sequence[str]) -> frozenset[str]:
    """Parameters of the named operators."""
    free = (o.free.names for o in carrying(library, names) if o.free is not None)
    return frozenset[str]().union(*free) & {*library.parameters}


@dataclass(frozen=True, eq=False)
class ParameterGrid:
    """The operators at a grid of values of their parameters, all in one likelihood.

    Attributes
    ----------
    origin
        Operator and values by name on the grid, of those with parameters.
    """

    whole: ResidualLikelihood
    origin: Mapping[str, tuple[str, dict[str, float]]]
    rng: Rng

    @staticmethod
    def of(setup: Setup, rng: Rng, progress: Progress) -> ParameterGrid:
        """From the bounds of the parameters."""
        library, origin = setup.library.on_grid(_VALUES)
        return ParameterGrid(setup.with_(library=library).likelihood(progress=progress), origin, rng)

    def first(self, library: Library, keep: Sequence[str]) -> list[ParameterPoint]:
        """The best models with parameters at the values of the grid, the best of all first.

        Misfits are those over the noise of each model's own residual (:class:`NoiseRatio`), from one evaluation: at
        any weights they are n for the right model at the right value, so that values can be compared.
        """
        names, inside = library.names, [o.name for o in carrying(library, library.names)]
        weights = balance(self.whole, copy.deepcopy(self.rng))
        ratio = noise_ratio(self.whole, weights, self.rng, _DRAWS)
        protection, found = Protection.of(names, keep, [inside]), list[tuple[float, ParameterPoint]]()
        places = self._versions(inside)
        for made, values in places[:: math.ceil(len(places) / _PLACES)]:
            own = dict(zip(inside, made, strict=True))
            columns = [self.whole.names.index(own.get(name, name)) for name in names]
            here = replace(ratio.of(columns), names=names)
            score, model = min(best_models(here, ExtendedBIC(), protection).values(), default=(math.inf, ()))
            if model:
                chosen, theta = tuple(names[i] for i in model), here.solve([model])[0][0]
                found.append((score, ParameterPoint(chosen, values, dict(zip(chosen, theta.tolist(), strict=True)))))
        start = {name: one.first for name, one in library.parameters.items()}
        best = [point for _, point in sorted(found, key=lambda one: one[0])] or [ParameterPoint(names, {}, {})]
        return [replace(point, values=start | point.values) for point in best]

    def _versions(self, carrying: Sequence[str]) -> list[tuple[tuple[str, ...], dict[str, float]]]:
        """Names on the grid of operators with parameters, and the values, one for all operators, at every place."""
        found, versions = [], [[(m, at) for m, (name, at) in self.origin.items() if name == one] for one in carrying]
        for chosen in product(*versions):
            values = {name: value for _, at in chosen for name, value in at.items()}
            if all(at.items() <= values.items() for _, at in chosen):
                found.append((tuple(made for made, _ in chosen), values))
        return found

    def basins(self, point: ParameterPoint, carrying: Sequence[str]) -> list[ParameterPoint]:
        """Values of the grid with a misfit of the model that is lower than around them, but for those next to κ."""
        places, own, q, points = self._misfits(point, carrying)
        return [
            points[i]
            for i, place in enumerate(places)
            if np.isfinite(q[i])
            and not _next(place, own)
            and all(q[i] <= q[j] for j, other in enumerate(places) if _next(place, other))
        ]

    def _misfits(
        self, point: ParameterPoint, carrying: Sequence[str]
    ) -> tuple[list[tuple[int, ...]], list[float], Array, list[ParameterPoint]]:
        """Places of the grid and that of κ, misfits of the model there, and the model with its values.

        Misfits are those of moment equations, with the weights of the model at the values next to its estimate.
        """
        models, others = self._versions(carrying), [name for name in point.names if name not in carrying]
        axes = {name: sorted({values[name] for _, values in models}) for name in models[0][1]}
        places = [tuple(axes[name].index(values[name]) for name in axes) for _, values in models]
        own = [float(np.interp(point.values[name], axis, np.arange(len(axis)))) for name, axis in axes.items()]
        start = {made: point.theta.get(self.origin[made][0], 0.0) for made in models[_nearest(places, own)][0]}
        start |= {name: point.theta.get(name, 0.0) for name in others}
        names = self.whole.names
        weights = np.array([start.get(name, 0.0) for name in names])
        quadratic = by_moments(self.whole, weights, self.rng, draws=1)
        rows = [tuple(sorted(names.index(name) for name in (*made, *others))) for made, _ in models]
        theta, q = quadratic.solve(rows)
        found = []
        for i, (_, values) in enumerate(models):
            at = {names[j]: float(value) for j, value in zip(rows[i], theta[i], strict=True)}
            own_names = {self.origin[made][0] if made in self.origin else made: value for made, value in at.items()}
            found.append(ParameterPoint(point.names, point.values | values, own_names))
        return places, own, np.where(np.isfinite(q), q, np.inf), found


@dataclass(frozen=True, eq=False)
class ParameterSearch:
    """Where κ is looked for.

    Attributes
    ----------
    table
        The operators at a grid of values.
    keep
        Operators that stay.
    limits
        Constraints on parameters, with coefficients if these stand in them.
    """

    setup: Setup
    table: ParameterGrid
    keep: Sequence[str]
    limits: LinearConstraints | None = None

    def at(self, point: ParameterPoint) -> Setup:
        """The setup with columns at a point."""
        return self.setup.with_(library=self.setup.library.at(point.values, point.theta))

    def fit(self, point: ParameterPoint) -> Fit:
        """θ and κ − κ_0 around a point, roughly, with what is known of κ beforehand."""
        return joint_fit(self.at(point), point, _ROUGHLY, self.limits)


def _nearest(places: Sequence[Sequence[float]], own: Sequence[float]) -> int:
    """The place of a grid that is nearest to another, by the axis along which it is farthest."""
    return min(range(len(places)), key=lambda i: max(abs(a - b) for a, b in zip(places[i], own, strict=True)))


def _next(place: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two places of a grid are one step apart at most along every axis."""
    return max(abs(a - b) for a, b in zip(place, other, strict=True)) <= 1


def _gauss_newton(
    search: ParameterSearch, point: ParameterPoint, known: ParameterPoint | None = None, steps: int = _STEPS
) -> ParameterPoint | None:
    """κ and θ of a model, by fits with a column for every parameter until its coefficient is zero.

    A step has to lower the misfit of the operators at κ, without columns, or is halved. None where no step does, or
    where the way comes near to a point that is known.
    """
    setup, parameters = search.setup, search.setup.library.parameters
    here, part, last = point if point.theta else _fixed(setup, point, point.values), 1.0, math.inf
    for _ in range(steps):
        there, fit = search.at(here), search.fit(here)
        found = dict(zip(fit.names, zip(fit.theta, np.sqrt(variance_of(fit)), strict=True), strict=True))
        step = {name: found[made] for made, name in columns_of(there.library).items() if made in found}

        def moved(
            part: float, here: ParameterPoint = here, step: dict[str, tuple[float, float]] = step
        ) -> dict[str, float]:
            return here.values | {n: parameters[n].moved(here.values[n], part * d) for n, (d, _) in step.items()}

        values = moved(1.0)
        # a parameter that the data leave open creeps; a tenth of what is known beforehand is near enough
        unit = {n: sd * (_CREEPS if parameters[n].hardly(here.values[n], sd) else 1) for n, (_, sd) in step.items()}
        size = max(abs(values[name] - here.values[name]) / unit[name] for name in step)
        if size <= _NEAR:
            # where what X̃ knows of θ moves with κ, steps may go to and fro
            part, last = 0.5 if size > _SLOW * last else part, size
            theta = {name: float(found[name][0]) for name in here.names}
            here = ParameterPoint(here.names, values if size <= _CLOSE else moved(part), theta)
            if size <= _CLOSE:
                return replace(here, fit=fit)
            continue
        tried = (_fixed(setup, here, moved(0.5**halving)) for halving in range(_HALVINGS))
        lower = next((one for one in tried if one.objective(parameters) < here.objective(parameters)), None)
        if lower is None or (known is not None and _same(known, lower, step)):
            return None
        here = lower
    return None


def estimated(search: ParameterSearch, point: ParameterPoint) -> ParameterPoint:
    """The estimate of a model, from other values where that fails; refused where there is none."""
    parameters = search.setup.library.parameters
    others = (ParameterPoint(point.names, values, {}) for values in combinations(parameters, _TRIED))
    found = _lowest(search, [point]) or _lowest(search, [*others])
    if found is None:
        listed = ", ".join(parameters)
        raise BvsiError(f"parameters: the search for {listed} did not converge; give a start, or narrower bounds.")
    return found


def explained(search: ParameterSearch, point: ParameterPoint, others: Sequence[ParameterPoint]) -> ParameterPoint:
    """The estimate, or that of all operators from some values where noise does not explain its misfit, and that one's.

    Parameters that differ by experiment have one value on the grid, which may be far from all of them, and the best
    model there may lack what they need.
    """
    for one in others[:_OTHERS]:
        assert point.fit is not None
        if not misfit_excess(point.fit.equations.q / point.fit.equations.n, point.fit.equations.n):
            break
        every, parameters = replace(one, names=search.setup.library.names, theta={}), search.setup.library.parameters
        lower = _lowest(search, [every])
        point = point if lower is None or lower.objective(parameters) > point.objective(parameters) else lower
    return point


def trimmed(search: ParameterSearch, point: ParameterPoint) -> tuple[ParameterPoint, tuple[str, ...]]:
    """The estimate without operators that are not needed once κ is free: z² < log n + 2 log d, one after the other.

    At an estimate of κ with such an operator it seems to be needed, since κ makes up for it. Of two that make up for
    each other the one goes without which Q is lowest at a κ of its own, of which z² knows nothing; where both are
    nearly as good that is told.
    """
    library, told = search.setup.library, list[str]()
    fixed = {o.name for o in library.operators if o.tie} | {*search.keep}
    while point.fit is not None:
        price = math.log(point.fit.equations.n) + 2 * math.log(len(library.names))  # as of the selection
        z2 = dict(zip(point.fit.names, point.fit.theta**2 / variance_of(point.fit), strict=True))
        inside = [o.name for o in carrying(library, point.names)]
        every = parameters_of(library, inside)
        only = {one for one in inside if parameters_of(library, [name for name in inside if name != one]) != every}
        weak = [
            name for name in sorted(point.names, key=z2.__getitem__) if z2[name] < price and name not in fixed | only
        ]
        most = point.fit.equations.q + price
        ends = [end for name in _one_of(point.fit, weak, price) for end in _without(search, point, name, most)]
        if not ends:
            break
        point, *others = sorted(ends, key=lambda one: one.objective(library.parameters))
        told = [_instead(point, one) for one in others if one.objective({}) < point.objective({}) + _NEARLY]
    return point, tuple(told)


def _one_of(fit: Fit, weak: Sequence[str], price: float) -> list[str]:
    """The weakest operator, and the next of those that may go without which it is needed: zᵀ Corr⁻¹ z of both."""
    assert fit.posterior is not None
    C = fit.posterior.covariance

    def needed(pair: Sequence[str]) -> bool:
        i = [fit.names.index(name) for name in pair]
        return float(fit.theta[i] @ np.linalg.solve(C[np.ix_(i, i)], fit.theta[i])) >= price

    return [*weak[:1], *[name for name in weak[1:] if needed([weak[0], name])][:1]]


def _without(search: ParameterSearch, point: ParameterPoint, name: str, most: float) -> list[ParameterPoint]:
    """The estimate without an operator, where Q is small enough; none elsewhere.

    Without it κ may be far from where it was: where Q grows by more, the minima on the grid are tried as well.
    """
    theta = {other: value for other, value in point.theta.items() if other != name}
    start = ParameterPoint(tuple(theta), point.values, theta)
    found = [_lowest(search, [start])]
    if found[0] is None or found[0].objective({}) > most:
        left = [o.name for o in carrying(search.setup.library, start.names)]
        found = [_lowest(search, search.table.basins(start, left))]
    return [one for one in found if one is not None and one.objective({}) <= most]


def _instead(point: ParameterPoint, other: ParameterPoint) -> str:
    """Another model with as many operators, in words."""
    one, another = (" + ".join(n for n in a.names if n not in b.names) for a, b in ((point, other), (other, point)))
    values = ", ".join(f"{name} = {value:.3g}" for name, value in other.values.items())
    return f"The data are explained about as well by {another} in the place of {one}, with {values}."


def _lowest(search: ParameterSearch, starts: Sequence[ParameterPoint]) -> ParameterPoint | None:
    """The lowest of the estimates from several starts; None where all of them fail."""
    found = []
    for start in starts:
        try:
            found.append(_gauss_newton(search, start))
        except FAILURES:
            continue
    ends = [one for one in found if one is not None]
    return min(ends, key=lambda one: one.objective(search.setup.library.parameters), default=None)


def _fixed(setup: Setup, point: ParameterPoint, values: dict[str, float]) -> ParameterPoint:
    """The model fitted at values of its parameters."""
    likelihood = setup.with_(library=setup.library.at(values)).likelihood(point.names)
    start = [point.theta[name] for name in point.names] if point.theta else None
    fit = _ROUGHLY.fit(likelihood, start=start)
    return ParameterPoint(point.names, values, dict(zip(fit.names, fit.theta.tolist(), strict=True)), fit)


def _same(one: ParameterPoint, other: ParameterPoint, step: Mapping[str, tuple[float, float]]) -> bool:
    """Whether two values of all parameters are less than a standard deviation apart."""
    return all(abs(one.values[name] - other.values[name]) <= _APART * sd for name, (_, sd) in step.items())


def variance_of(fit: Fit) -> Array:
    """Variances of the coefficients of a fit."""
    assert fit.posterior is not None
    return fit.posterior.variance


def columns_of(library: Library) -> dict[str, str]:
    """Parameters by the names of their columns."""
    own = {o.name for f in library.equations for o in library.of_equation(f)}
    return {name: without_equation(name) for name in library.names if name not in own}


def joint_fit(
    setup: Setup,
    point: ParameterPoint,
    estimator: Profile,
    limits: LinearConstraints | None,
    likelihood: ResidualLikelihood | None = None,
    *,
    known: bool = True,
) -> Fit:
    """The fit of θ and κ − κ_0.

    Parameters
    ----------
    setup
        With columns at the point.
    known
        Whether what is known of κ beforehand counts: bounds damp the steps, and move no estimate that has converged.
    """
    library = setup.library
    names = (*point.names, *columns_of(library))
    likelihood = setup.likelihood(names) if likelihood is None else likelihood.restrict(names)
    prior = prior_of(library, point.values) if known else None
    start = [point.theta.get(name, 0.0) for name in likelihood.names]

    def fitted(bounded: Sequence[str]) -> Fit:
        held = limits_of(library, limits, point.values, bounded)
        return estimator.fit(likelihood, prior=prior, constraints=held and held.restrict(likelihood.names), start=start)

    found = fitted(())
    # far from κ_0 the columns say nothing of the operators, and their noise can explain anything
    beyond = beyond_bounds(library, found, point.values)
    return fitted(beyond) if beyond else found


def beyond_bounds(library: Library, fit: Fit, values: Mapping[str, float], near: float = 0.0) -> tuple[str, ...]:
    """Parameters that a fit of κ − κ_0 has beyond their bounds, or nearer to them than some standard deviations."""
    steps, sds = (dict(zip(fit.names, of, strict=True)) for of in (fit.theta, np.sqrt(variance_of(fit))))
    at = {name: (library.parameters[name], values[name] + steps[made]) for made, name in columns_of(library).items()}
    left = {name: min(value - one.low, one.high - value) for name, (one, value) in at.items()}
    return tuple(name for made, name in columns_of(library).items() if left[name] < near * sds[made])


def limits_of(
    library: Library, given: LinearConstraints | None, values: Mapping[str, float], bounded: Sequence[str] = ()
) -> LinearConstraints | None:
    """Constraints on θ and κ as such on θ and κ − κ_0, those of parameters that the library has no column of left out.

    l − A_κ κ_0 ≤ A_θ θ + A_κ (κ − κ_0) ≤ u − A_κ κ_0; with the equalities that tie operators together, and the bounds
    of the parameters that are named.
    """
    ties = as_linear(library.ties, library.names)
    of = {
        made: (library.parameters[name], values[name]) for made, name in columns_of(library).items() if name in bounded
    }
    bounds = Constraints(bounds={made: (one.low - at, one.high - at) for made, (one, at) in of.items()})
    fixed = stacked([ties.rows, bounds.bind(library.names).rows])
    if not given:
        return LinearConstraints(library.names, *fixed) or None
    column = {name: made for made, name in reversed(columns_of(library).items())}
    A, shift, used = np.zeros((len(given), len(library.names))), np.zeros(len(given)), np.full(len(given), True)
    for name, own in zip(given.names, given.A.T, strict=True):
        if name in library.names or name in column:
            A[:, library.names.index(column.get(name, name))] += own
            shift += own * (values[name] if name in column else 0.0)
        else:
            used &= own == 0
    rows = ConstraintRows(A, given.lower - shift, given.upper - shift, given.texts).take(used)
    return LinearConstraints(library.names, *merged(simple(stacked([fixed, rows])))) or None


def prior_of(library: Library, values: Mapping[str, float]) -> GaussianPrior:
    """κ − κ_0 within the bounds, or as the priors of parameters say, at values κ_0."""
    terms = {}
    for made, name in columns_of(library).items():
        one = library.parameters[name]
        mean = 0.0 if one.prior is None else one.prior[0] - values[name]
        terms[made] = (mean, one.sd**2)
    return GaussianPrior(terms)


def elsewhere(search: ParameterSearch, point: ParameterPoint) -> tuple[ParameterPoint | None, tuple[str, ...]]:
    """A better minimum from other values of κ, or what is nearly as good, in words.

    Operators that are not needed there are dropped: at a wrong κ others make up for it.
    """
    assert point.fit is not None
    library = search.setup.library
    mine = [name for name in library.parameters if name in parameters_of(library, point.names)]
    doubts: list[str] = []
    for near in search.table.basins(point, [o.name for o in carrying(library, point.names)]):
        try:
            around = search.fit(near)
            if around.equations.q > point.fit.equations.q + _NEARLY:  # no minimum near it is as low
                continue
            other = _gauss_newton(search, near, point, _TRIED)
        except FAILURES:
            continue
        other = None if other is None else trimmed(search, other)[0]
        if other is None or other.fit is None:
            continue
        sd = dict(zip(other.fit.names, np.sqrt(variance_of(other.fit)), strict=True))
        made = columns_of(library.at(other.values, other.theta))
        if _same(point, other, {name: (0.0, sd[column]) for column, name in made.items()}):
            continue
        fewer = len(point.names) - len(other.names)
        gain = point.fit.equations.q - other.fit.equations.q + fewer * math.log(point.fit.equations.n)
        if gain > _NEARLY or (fewer and gain > 0):
            return other, ()
        if gain > -_NEARLY:
            shown = ", ".join(f"{name} = {other.values[name]:.3g}" for name in mine)
            doubts.append(f"The data are explained about as well with {shown}.")
    return None, tuple(doubts)
