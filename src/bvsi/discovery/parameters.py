"""Parameters inside operators, estimated with the coefficients and selected with their operators.

The misfit of F(u; κ) around κ_0 is that of one operator more, ∂F/∂κ, with the coefficient κ − κ_0
(:mod:`bvsi.operators.parameters`). Gauss–Newton in κ fits both, moves κ, and ends where that coefficient is zero: there
X̃_κᵀ W r = 0, the profile equation of κ, and the covariance is the joint sandwich of θ and κ.

The first κ comes from one selection among the operators at a grid of values; others of the grid are tried with what was
selected. Selection goes on at the estimate of κ, until it stands. A parameter has the price of an operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import without_equation
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.infer.quadratic import Quadratic
from bvsi.likelihood import ResidualLikelihood
from bvsi.operators import Library
from bvsi.operators.parameters import Parameter
from bvsi.operators.syntax import Operator
from bvsi.select import SelectionPath
from bvsi.setup import Setup

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

# Values of κ that the first selection has of every operator; not measured, five points a decade or so of one parameter.
_VALUES = 9
# Gauss–Newton steps at most; steps in standard deviations that need not be tested, and that are the last; halvings.
_STEPS, _NEAR, _CLOSE, _HALVINGS = 20, 1.0, 0.01, 6
# How much larger the last step may be for a parameter that the data leave open.
_CREEPS = 10.0
# Steps from another start; a minimum that is not reached in these is not told. Not measured.
_TRIED = 6
# Selections at new values of κ at most.
_ROUNDS = 4
# Distance in standard deviations from which on two ends are different ones.
_APART = 1.0
# Part of the standard deviation known beforehand from which on the data are said to leave a parameter open.
_OPEN = 0.3
# How much Q may be above the lowest for another estimate to count: odds of 1 : 20.
_NEARLY = 6.0

# Part of the largest that a share in a combination has at least, and how near to one a power is one. Not measured.
_MEMBER, _WHOLE = 0.3, 0.15
# Estimates on the way, to a hundredth of a standard deviation.
_ROUGHLY = Profile(tol=1e-2)

_FAILURES = (RankError, NotPositiveDefiniteError)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Parameters of the selected operators.

    Attributes
    ----------
    values
        κ_0 by the name of the coefficient κ − κ_0.
    prior
        What keeps parameters between their bounds where the data do not; None where the data do.
    doubts
        What the data leave open, in words.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    prior: GaussianPrior | None = None
    doubts: tuple[str, ...] = ()

    def offset(self, names: Sequence[str]) -> Array:
        """κ_0 of columns of parameters, zero of operators, (d,)."""
        return np.array([self.values.get(name, 0.0) for name in names])

    def means(self, posterior: Posterior) -> dict[str, float]:
        """Estimates by parameter."""
        found = zip(posterior.names, posterior.mean.tolist(), strict=True)
        return {without_equation(name): mean for name, mean in found if name in self.values}

    def joined(self, prior: Prior | GaussianPrior | None) -> Prior | GaussianPrior | None:
        """A prior of the coefficients, and that of the parameters."""
        if prior is None or self.prior is None:
            return prior or self.prior
        if isinstance(prior, GaussianPrior):
            return replace(prior, terms={**prior.terms, **self.prior.terms})
        return replace(prior, terms={**prior.terms, **self.prior.prior.terms})

    def shown(self, path: SelectionPath) -> SelectionPath:
        """The path with κ in the place of κ − κ_0."""
        visited = tuple(replace(v, theta=v.theta + self.offset(v.names)) for v in path.visited)
        return replace(path, visited=visited)


@dataclass(frozen=True, eq=False)
class _Estimate:
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
Result = tuple[Setup, ResidualLikelihood, SelectionPath, Estimated]


def selected_parameters(
    setup: Setup, select: Select, plain: Select, keep: Sequence[str], progress: Progress = silent
) -> Result:
    """The setup at the estimate of all parameters, its likelihood, the selected model, and the parameters in it.

    Parameters
    ----------
    select
        Selection among the operators of the library, with what constraints tie together.
    plain
        Selection among any operators.
    """
    table = _Table.of(setup, progress)
    point = table.first(setup.library, plain, keep, progress)
    doubts: tuple[str, ...] = ()
    for _ in range(_ROUNDS):
        if _carrying(setup.library, point.names):
            point = _trimmed(setup, _estimated(setup, point), table, keep)
        there = setup.with_(library=setup.library.at(point.values, point.theta))
        whole = there.likelihood(progress=progress)
        path = select(whole.restrict(setup.library.names), keep=keep, progress=progress)
        stands = path.best.names == point.names
        theta = dict(zip(path.best.names, path.best.theta, strict=True))
        point = replace(point, names=path.best.names, theta=theta, fit=point.fit if stands else None)
        if not _carrying(setup.library, point.names):
            return setup.with_(library=setup.library.at(point.values)), whole, path, Estimated()
        if stands:
            better, doubts = _elsewhere(setup, point, table, keep)
            if better is None:
                break
            point = better
    if point.fit is None:
        point = _estimated(setup, point)
    there = setup.with_(library=setup.library.at(point.values, point.theta))
    return _priced(there, there.likelihood(progress=progress), path, point, doubts, keep, plain)


def check_parameters(library: Library, client: object, relinearise: int | None) -> None:
    """Refuse what does not go with parameters inside operators."""
    if client is not None:
        raise BvsiError("client: parameters inside operators are estimated on one machine; leave client out.")
    if relinearise:
        raise BvsiError("relinearise: it does not go with parameters inside operators; leave it out.")
    if len(library.orders) > 1:
        raise BvsiError("time_order: with parameters inside operators it has to be given, 1 or 2.")


def at_estimate(library: Library, found: Discovery) -> tuple[Library, Array]:
    """The library of the operators that were found, with columns at the estimate of their parameters; and κ_0, (d,).

    Draws of the posterior less κ_0 are then coefficients of its operators, to first order in κ − κ_0.
    """
    chosen = library.subset([name for name in found.names if name not in found.parameters])
    if not found.parameters:
        return chosen, np.zeros(len(found.names))
    values = {name: value for name, (value, _) in found.inside.items()}
    theta = dict(zip(found.names, found.theta.tolist(), strict=True))
    return chosen.at(values, theta), Estimated({name: theta[name] for name in found.parameters}).offset(found.names)


def _carrying(library: Library, names: Sequence[str]) -> list[Operator]:
    """Operators among those named that have parameters."""
    return [o for f in library.equations for o in library.of_equation(f) if o.free is not None and o.name in names]


@dataclass(frozen=True, eq=False)
class _Table:
    """The operators at a grid of values of their parameters, all in one likelihood.

    Attributes
    ----------
    origin
        Operator and values by name on the grid, of those with parameters.
    """

    whole: ResidualLikelihood
    origin: Mapping[str, tuple[str, dict[str, float]]]

    @staticmethod
    def of(setup: Setup, progress: Progress) -> _Table:
        library, origin = setup.library.on_grid(_VALUES)
        return _Table(setup.with_(library=library).likelihood(progress=progress), origin)

    def first(self, library: Library, select: Select, keep: Sequence[str], progress: Progress) -> _Estimate:
        """A model and values of its parameters, from one selection."""
        groups = [[made for made, (name, _) in self.origin.items() if name == one] for one in keep]
        kept = [name for name in keep if name in self.whole.names]
        start = {name: one.first for name, one in library.parameters.items()}
        try:
            best = select(self.whole, keep=kept, groups=[g for g in groups if g], progress=progress).best
        except RankError:  # a selection that fits all operators at once cannot tell neighbours on the grid apart
            return _Estimate(library.names, start, {})
        sd = None if best.fit is None or best.fit.posterior is None else np.sqrt(best.fit.posterior.variance)
        weight = np.abs(best.theta) if sd is None else np.abs(best.theta) / np.where(sd > 0, sd, 1.0)
        values: dict[str, float] = {}
        theta: dict[str, float] = {}
        for i in np.argsort(-weight):
            name, at = self.origin.get(best.names[i], (best.names[i], {}))
            theta.setdefault(name, float(best.theta[i]))
            values = at | values
        if not values:  # polynomials may do as well as any of the grid, and worse than the best
            all_names = {*theta, *(o.name for o in _carrying(library, library.names))}
            return _Estimate(tuple(name for name in library.names if name in all_names), start, {})
        names = tuple(name for name in library.names if name in theta)
        return _Estimate(names, start | values, {name: theta[name] for name in names})

    def basins(self, point: _Estimate, carrying: Sequence[str]) -> list[_Estimate]:
        """Values of the grid with a misfit of the model that is lower than around them, but for those next to κ.

        Misfits are those of moment equations, with the weights of the model at the values next to its estimate.
        """
        versions = [[(made, at) for made, (name, at) in self.origin.items() if name == one] for one in carrying]
        others = [name for name in point.names if name not in carrying]
        models = []
        for chosen in product(*versions):
            values = {name: value for _, at in chosen for name, value in at.items()}
            if all(at.items() <= values.items() for _, at in chosen):  # one value for all operators
                models.append((tuple(made for made, _ in chosen), values))
        axes = {name: sorted({values[name] for _, values in models}) for name in models[0][1]}
        places = [tuple(axes[name].index(values[name]) for name in axes) for _, values in models]
        own = [float(np.interp(point.values[name], axis, np.arange(len(axis)))) for name, axis in axes.items()]
        nearest = min(range(len(models)), key=lambda i: max(abs(a - b) for a, b in zip(places[i], own, strict=True)))
        start = {made: point.theta[self.origin[made][0]] for made in models[nearest][0]}
        start |= {name: point.theta[name] for name in others}
        names = self.whole.names
        weights = np.array([start.get(name, 0.0) for name in names])
        moments = self.whole.moment_equations(weights, rng=np.random.default_rng(0), draws=1)
        clean, H = moments.gram - moments.noise, moments.gram[1:, 1:]
        quadratic = Quadratic(
            names,
            np.zeros(len(names)),
            float(moments.gram[0, 0]),
            clean[1:, 0],
            clean[1:, 1:],
            H,
            moments.n,
            self.whole.scale_known,
        )
        rows = [tuple(sorted(names.index(name) for name in (*made, *others))) for made, _ in models]
        theta, q = quadratic.solve(rows)
        low = [
            i
            for i, place in enumerate(places)
            if np.isfinite(q[i])
            and not _next(place, own)
            and all(q[i] <= q[j] for j, other in enumerate(places) if _next(place, other))
        ]
        found = []
        for i in low:
            at = {names[j]: float(value) for j, value in zip(rows[i], theta[i], strict=True)}
            own_names = {self.origin[made][0] if made in self.origin else made: value for made, value in at.items()}
            found.append(_Estimate(point.names, point.values | models[i][1], own_names))
        return found


def _next(place: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two places of a grid are one step apart at most along every axis."""
    return max(abs(a - b) for a, b in zip(place, other, strict=True)) <= 1


def _gauss_newton(
    setup: Setup, point: _Estimate, known: _Estimate | None = None, steps: int = _STEPS
) -> _Estimate | None:
    """κ and θ of a model, by fits with a column for every parameter until its coefficient is zero.

    A step has to lower the misfit of the operators at κ, without columns, or is halved. None where no step does, or
    where the way comes near to a point that is known.
    """
    parameters, here = setup.library.parameters, point if point.theta else _fixed(setup, point, point.values)
    for _ in range(steps):
        there = setup.with_(library=setup.library.at(here.values, here.theta))
        fit = _joint_fit(there, here.names, here.theta, _ROUGHLY, here.values)
        found = dict(zip(fit.names, zip(fit.theta, np.sqrt(_variance(fit)), strict=True), strict=True))
        step = {name: found[made] for made, name in _columns(there.library).items() if made in found}

        def moved(part: float, here: _Estimate = here, step: dict[str, tuple[float, float]] = step) -> dict[str, float]:
            return here.values | {n: parameters[n].moved(here.values[n], part * d) for n, (d, _) in step.items()}

        values = moved(1.0)
        # a parameter that the data leave open creeps; a tenth of what is known beforehand is near enough
        unit = {n: sd * (1 if sd <= _OPEN * parameters[n].sd else _CREEPS) for n, (_, sd) in step.items()}
        size = max(abs(values[name] - here.values[name]) / unit[name] for name in step)
        if size <= _NEAR:
            theta = {name: float(found[name][0]) for name in here.names}
            here = _Estimate(here.names, values, theta)
            if size <= _CLOSE:
                return replace(here, fit=fit)
            continue
        tried = (_fixed(setup, here, moved(0.5**halving)) for halving in range(_HALVINGS))
        lower = next((one for one in tried if one.objective(parameters) < here.objective(parameters)), None)
        if lower is None or (known is not None and _same(known, lower, step)):
            return None
        here = lower
    return None


def _estimated(setup: Setup, point: _Estimate) -> _Estimate:
    """The estimate of a model; refused where there is none."""
    found = _gauss_newton(setup, point)
    if found is None:
        listed = ", ".join(setup.library.parameters)
        raise BvsiError(f"parameters: the search for {listed} did not converge; give a start, or narrower bounds.")
    return found


def _trimmed(setup: Setup, point: _Estimate, table: _Table, keep: Sequence[str]) -> _Estimate:
    """The estimate without operators that are not needed once κ is free: z² < log n + 2 log d, weakest first.

    At an estimate of κ with such an operator it seems to be needed, since κ makes up for it. Without it κ may be far
    from there, so that the minima on the grid are tried as well; Q may grow by as much.
    """
    fixed = {o.name for o in setup.library.operators if o.tie} | {*keep}
    carrying = [o.name for o in _carrying(setup.library, point.names)]
    while point.fit is not None:
        price = math.log(point.fit.equations.n) + 2 * math.log(len(setup.library.names))  # as of the selection
        z2 = dict(zip(point.fit.names, point.fit.theta**2 / _variance(point.fit), strict=True))
        free = {name: z2[name] for name in point.names if name not in fixed and name not in carrying}
        weakest = min(free, key=lambda name: free[name], default=None)
        if weakest is None or free[weakest] >= price:
            break
        theta = {name: value for name, value in point.theta.items() if name != weakest}
        start = _Estimate(tuple(theta), point.values, theta)
        smaller = _lowest(setup, [start, *table.basins(start, carrying)])
        if smaller is None or smaller.fit is None or smaller.fit.equations.q > point.fit.equations.q + price:
            break
        point = smaller
    return point


def _lowest(setup: Setup, starts: Sequence[_Estimate]) -> _Estimate | None:
    """The lowest of the estimates from several starts; None where all of them fail."""
    found = []
    for start in starts:
        try:
            found.append(_gauss_newton(setup, start))
        except _FAILURES:
            continue
    ends = [one for one in found if one is not None]
    return min(ends, key=lambda one: one.objective(setup.library.parameters), default=None)


def _fixed(setup: Setup, point: _Estimate, values: dict[str, float]) -> _Estimate:
    """The model fitted at values of its parameters."""
    likelihood = setup.with_(library=setup.library.at(values)).likelihood(point.names)
    start = [point.theta[name] for name in point.names] if point.theta else None
    fit = _ROUGHLY.fit(likelihood, start=start)
    return _Estimate(point.names, values, dict(zip(fit.names, fit.theta.tolist(), strict=True)), fit)


def _same(one: _Estimate, other: _Estimate, step: Mapping[str, tuple[float, float]]) -> bool:
    """Whether two values of all parameters are less than a standard deviation apart."""
    return all(abs(one.values[name] - other.values[name]) <= _APART * sd for name, (_, sd) in step.items())


def _variance(fit: Fit) -> Array:
    assert fit.posterior is not None
    return fit.posterior.variance


def _columns(library: Library) -> dict[str, str]:
    """Parameters by the names of their columns."""
    own = {o.name for f in library.equations for o in library.of_equation(f)}
    return {name: without_equation(name) for name in library.names if name not in own}


def _joint_fit(
    setup: Setup,
    names: Sequence[str],
    theta: Mapping[str, float],
    estimator: Profile,
    values: Mapping[str, float] | None,
    likelihood: ResidualLikelihood | None = None,
) -> Fit:
    """The fit of θ and κ − κ_0.

    Parameters
    ----------
    values
        κ_0, to take what is known of κ beforehand: bounds damp the steps, and move no estimate that has converged.
    """
    library = setup.library
    made = _columns(library)
    all_names = (*names, *made)
    likelihood = setup.likelihood(all_names) if likelihood is None else likelihood.restrict(all_names)
    ties = as_linear(library.ties, library.names).restrict(likelihood.names) if library.ties else None
    prior = None if values is None else _prior(library, values)
    start = [theta.get(name, 0.0) for name in likelihood.names]
    return estimator.fit(likelihood, prior=prior, constraints=ties or None, start=start)


def _prior(library: Library, values: Mapping[str, float]) -> GaussianPrior:
    """κ − κ_0 within the bounds, or as the priors of parameters say, at values κ_0."""
    terms = {}
    for made, name in _columns(library).items():
        one = library.parameters[name]
        mean = 0.0 if one.prior is None else one.prior[0] - values[name]
        terms[made] = (mean, one.sd**2)
    return GaussianPrior(terms)


def _elsewhere(
    setup: Setup, point: _Estimate, table: _Table, keep: Sequence[str]
) -> tuple[_Estimate | None, tuple[str, ...]]:
    """A better minimum from other values of κ, or what is nearly as good, in words.

    Operators that are not needed there are dropped: at a wrong κ others make up for it.
    """
    assert point.fit is not None
    used = {n for o in _carrying(setup.library, point.names) if o.free is not None for n in o.free.names}
    mine = {name: one for name, one in setup.library.parameters.items() if name in used}
    doubts: list[str] = []
    for near in table.basins(point, [o.name for o in _carrying(setup.library, point.names)]):
        try:
            there = setup.with_(library=setup.library.at(near.values, near.theta))
            around = _joint_fit(there, near.names, near.theta, _ROUGHLY, near.values)
            if around.equations.q > point.fit.equations.q + _NEARLY:  # no minimum near it is as low
                continue
            other = _gauss_newton(setup, near, point, _TRIED)
        except _FAILURES:
            continue
        other = None if other is None else _trimmed(setup, other, table, keep)
        if other is None or other.fit is None:
            continue
        sd = dict(zip(other.fit.names, np.sqrt(_variance(other.fit)), strict=True))
        made = _columns(setup.library.at(other.values, other.theta))
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


def _priced(
    setup: Setup,
    whole: ResidualLikelihood,
    path: SelectionPath,
    point: _Estimate,
    doubts: tuple[str, ...],
    keep: Sequence[str],
    plain: Select,
) -> Result:
    """The path with the selected model fitted jointly, and with parameters at the price of operators.

    Where a model without parameters is better at that price, it is the one selected.
    """
    own = {o.name: o for o in _carrying(setup.library, setup.library.names)}
    price = math.log(whole.n)

    def count(names: Sequence[str]) -> int:
        free = frozenset[str]().union(*(own[n].free.names for n in names if n in own))  # type: ignore[union-attr]
        return len(free & {*setup.library.parameters})

    left = [name for name in whole.names if name not in own and name not in _columns(setup.library)]
    margins = dict(path.margins)
    for name in set(margins) & set(point.names):
        lost = count(point.names) - count([other for other in point.names if other != name])
        margins[name] -= price * lost
        if margins[name] < 0 and name not in keep and not own.keys() & {*keep} and left:
            other = plain(whole.restrict(left), keep=[k for k in keep if k in left])
            if other.best.score < path.best.score + price * count(point.names):
                return setup.with_(library=setup.library.at(point.values)), whole.restrict(left), other, Estimated()
    told: tuple[str, ...] = ()
    prior = None
    try:
        fit = _joint_fit(setup, point.names, point.theta, Profile(), None, whole)
        needed = _open(setup.library, fit, point.values) or any(one.prior for one in setup.library.parameters.values())
    except _FAILURES:
        needed = True
    if needed:  # bounds, or priors, say more than the data
        prior = _prior(setup.library, point.values)
        fit = _joint_fit(setup, point.names, point.theta, Profile(), point.values, whole)
        told = _open(setup.library, fit, point.values)
    values = {made: point.values[name] for made, name in _columns(setup.library).items()}
    best = path.best
    joint = replace(best, names=fit.names, theta=fit.theta, fit=None if setup.library.ties else fit)
    visited = tuple(joint if v is best else v for v in path.visited)
    found = Estimated(values, prior, (*doubts, *told))
    return setup, whole, replace(path, visited=visited, margins=margins), found


def _open(library: Library, fit: Fit, values: Mapping[str, float]) -> tuple[str, ...]:
    """What the data leave open of parameters, in words."""
    assert fit.posterior is not None
    made, told = _columns(library), []
    at = {name: values[made[name]] + v if name in made else v for name, v in zip(fit.names, fit.theta, strict=True)}
    sd = dict(zip(fit.names, np.sqrt(_variance(fit)), strict=True))
    free = False
    for column, name in made.items():
        one, centre = library.parameters[name], at[column]
        reach = (centre - 2 * sd[column], centre + 2 * sd[column])
        if sd[column] > _OPEN * one.sd or reach[0] < one.low or reach[1] > one.high:
            free = True
            told.append(
                f"{name} is not identified: {centre:.3g} ± {2 * sd[column]:.2g} reaches beyond its bounds "
                f"{one.low:g} and {one.high:g}, or hardly narrows them."
            )
    told += [_combination(library, fit, at)] if free else []
    return tuple(text for text in told if text)


def _combination(library: Library, fit: Fit, at: Mapping[str, float]) -> str:
    """What the data do tell where they leave parameters open: of two that trade off, their product or quotient."""
    assert fit.posterior is not None
    names = {o.name for o in _carrying(library, fit.names)} | {*_columns(library)}
    chosen = [i for i, name in enumerate(fit.names) if name in names and at[name]]
    size = np.array([abs(at[fit.names[i]]) for i in chosen])
    relative = fit.posterior.covariance[np.ix_(chosen, chosen)] / np.outer(size, size)
    direction = np.linalg.eigh(relative)[1][:, -1] * np.sign([at[fit.names[i]] for i in chosen])
    members = [k for k, share in enumerate(np.abs(direction)) if share > _MEMBER * np.abs(direction).max()]
    labels = [_label(fit.names[chosen[k]], _columns(library)) for k in members]
    if len(members) != 2:
        return f"The data do not determine how {', '.join(labels)} change together." if len(members) > 2 else ""
    power = -float(direction[members[0]] / direction[members[1]])
    if abs(abs(power) - 1) < _WHOLE:
        return f"The data determine only {labels[0]}{'·' if power > 0 else '/'}{labels[1]}."
    return f"The data determine only {labels[0]}·{labels[1]}^{power:.2g}."


def _label(name: str, made: Mapping[str, str]) -> str:
    return made.get(name, f"[{name}]")
