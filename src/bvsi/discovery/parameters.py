"""Parameters inside operators, estimated with the coefficients and selected with their operators.

The misfit of F(u; κ) around κ_0 is that of one operator more, ∂F/∂κ, with the coefficient κ − κ_0
(:mod:`bvsi.operators.parameters`). Gauss–Newton in κ fits both, moves κ, and ends where that coefficient is zero: there
X̃_κᵀ W r = 0, the profile equation of κ, and the covariance is the joint sandwich of θ and κ.

The first κ comes from one selection among the operators at a grid of values; others of the grid are tried with what was
selected. Selection goes on at the estimate of κ, until it stands. A parameter has the price of an operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import without_equation
from bvsi.common.progress import Progress, silent
from bvsi.discovery.functions import Shapes, one_tree, selected_functions
from bvsi.discovery.parameter_search import (
    FAILURES,
    ParameterGrid,
    ParameterPoint,
    ParameterSearch,
    Select,
    beyond_bounds,
    carrying,
    columns_of,
    elsewhere,
    estimated,
    explained,
    joint_fit,
    limits_of,
    parameters_of,
    prior_of,
    trimmed,
    variance_of,
)
from bvsi.errors import BvsiError, InfeasibleError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.priors import GaussianPrior, Normal, Prior
from bvsi.likelihood import ResidualLikelihood
from bvsi.operators import Library
from bvsi.select import SelectionPath
from bvsi.setup import Setup

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

AnyPrior = Prior | GaussianPrior | None
Told = tuple[Library, AnyPrior, AnyConstraints, LinearConstraints | None]
Result = tuple[Setup, ResidualLikelihood, SelectionPath, "Estimated"]

# Selections at new values of κ at most.
_ROUNDS = 4
# Turns of parameters and functions, joint steps at most, and the part of what is known of κ beforehand, or of its
# standard deviation, that the last one may move it. Not measured.
_TURNS, _STEPS, _TURNED = 3, 8, 0.02
# Part of the largest that a share in a combination has at least, and how near to one a power is one. Not measured.
_MEMBER, _WHOLE = 0.3, 0.15
# Part of the largest relative standard deviation that one of a product has at most for the product to be told.
_TOLD = 0.2
# Distance from a bound in standard deviations below which an estimate is at it.
_AT_BOUND = 0.05


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
    bounded
        Parameters at a bound, which would be beyond it otherwise.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    prior: GaussianPrior | None = None
    doubts: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()

    def offset(self, names: Sequence[str]) -> Array:
        """κ_0 of columns of parameters, zero of operators, (d,)."""
        return np.array([self.values.get(name, 0.0) for name in names])

    def limits(self, library: Library, given: LinearConstraints | None) -> LinearConstraints | None:
        """Constraints, with those on parameters as such on κ − κ_0."""
        values = {without_equation(name): value for name, value in self.values.items()}
        return limits_of(library, given, values, self.bounded)

    def joined(self, prior: Prior | GaussianPrior | None) -> Prior | GaussianPrior | None:
        """A prior of the coefficients, and that of the parameters."""
        if prior is None or self.prior is None:
            return prior or self.prior
        if isinstance(prior, GaussianPrior):
            return replace(prior, terms={**prior.terms, **self.prior.terms})
        return replace(prior, terms={**prior.terms, **self.prior.prior.terms})

    def left_open(self, path: SelectionPath) -> tuple[str, ...]:
        """What the data leave open, in words; with rivals of a selection that has no margins for the check."""
        return (*self.doubts, *([path.doubts] if path.doubts and not path.margins else []))

    def shown(self, path: SelectionPath) -> SelectionPath:
        """The path with κ in the place of κ − κ_0."""
        visited = tuple(replace(v, theta=v.theta + self.offset(v.names)) for v in path.visited)
        return replace(path, visited=visited)


def selected_parameters(
    setup: Setup,
    select: Select,
    plain: Select,
    keep: Sequence[str],
    limits: LinearConstraints | None,
    rng: Rng,
    progress: Progress = silent,
) -> Result:
    """The setup at the estimate of all parameters, its likelihood, the selected model, and the parameters in it.

    Parameters
    ----------
    select
        Selection among the operators of the library, with what constraints tie together.
    plain
        Selection among any operators.
    limits
        Constraints on coefficients and parameters; before the last fit only those in which parameters stand count.
    """
    search = ParameterSearch(setup, ParameterGrid.of(setup, rng, progress), keep, _of_parameters(limits, setup.library))
    others = search.table.first(setup.library, keep)
    point = others[0]
    doubts, rivals = tuple[str, ...](), tuple[str, ...]()
    seen = set[tuple[str, ...]]()
    for _ in range(_ROUNDS):
        if carrying(setup.library, point.names):
            (point, rivals), others = trimmed(search, explained(search, estimated(search, point), others)), []
        whole = search.at(point).likelihood(progress=progress)
        path = select(whole.restrict(setup.library.names), keep=keep, progress=progress)
        stands = path.best.names == point.names
        theta = dict(zip(path.best.names, path.best.theta, strict=True))
        point = replace(point, names=path.best.names, theta=theta, fit=point.fit if stands else None)
        if not carrying(setup.library, point.names):
            return setup.with_(library=setup.library.at(point.values)), whole, path, Estimated()
        if stands or point.names in seen:  # or it goes to and fro
            point = point if stands else estimated(search, point)
            better, doubts = elsewhere(search, point)
            if better is None:
                doubts = (*(rivals if stands else ()), *doubts)
                break
            point = better
        seen.add(point.names)
    if point.fit is None:
        point = estimated(search, point)
    return _priced(search, search.at(point).likelihood(progress=progress), path, point, doubts, plain)


def selected_jointly(
    setup: Setup,
    stated: Library,
    plain: Select,
    keep: Sequence[str],
    known: Mapping[str, tuple[float, float]],
    rng: Rng,
    progress: Progress = silent,
) -> tuple[Setup, ResidualLikelihood, SelectionPath, Estimated, Shapes]:
    """Parameters and unknown functions of one library: by turns, each beside the estimate of the others, then together.

    Parameters
    ----------
    setup
        With one operator for every coefficient of the functions.
    stated
        As it was given, with the ends of the splines.
    """
    trees = {name: one_tree() for name in stated.unknown}
    values = {name: one.first for name, one in stated.parameters.items()}
    for _ in range(_TURNS):
        held = setup.with_(library=stated.with_functions(trees))
        kept = [name for name in keep if name in held.library.names]
        inside = selected_parameters(held, plain, plain, kept, None, rng, progress)[-1]
        before, values = values, values | {without_equation(name): value for name, value in inside.values.items()}
        numbers = stated.fixed(values)
        there = setup.with_(library=numbers.with_functions(dict.fromkeys(numbers.unknown)))
        there, whole, path, shapes = selected_functions(there, numbers, plain, keep, None, known, rng, progress)
        moved = (abs(values[n] - before[n]) / one.sd for n, one in stated.parameters.items())
        if max(moved) < _TURNED:
            break
        trees = {f.name: shapes.tree(f, path.best) for f in shapes.functions} | {
            name: one_tree() for name in stated.unknown if name not in {f.name for f in shapes.functions}
        }
    chosen = [o.name for o in stated.operators if o.free is not None and o.name in path.best.names]
    if not chosen:
        return there, whole, path, Estimated(prior=shapes.prior), shapes
    return _together(setup.with_(tests=there.tests), stated, path, shapes, values, progress)


def _together(
    setup: Setup,
    stated: Library,
    path: SelectionPath,
    shapes: Shapes,
    values: dict[str, float],
    progress: Progress,
) -> tuple[Setup, ResidualLikelihood, SelectionPath, Estimated, Shapes]:
    """The joint estimate of the coefficients of operators and functions, and of the parameters."""
    varying = {f.name for f in shapes.functions if not f.constant}
    trees = {name: None if name in varying else one_tree() for name in stated.unknown}
    best, theta = path.best, dict(zip(path.best.names, path.best.theta.tolist(), strict=True))
    for _ in range(_STEPS):
        at = stated.at(values, theta)
        here = setup.with_(library=at.with_functions(trees))
        whole = here.likelihood(progress=progress)
        names = (*best.names, *columns_of(here.library))
        part = whole.restrict(names)
        prior = Estimated(prior=shapes.prior).joined(prior_of(here.library, values))
        fit = Profile(tol=1e-2).fit(part, prior=prior, start=[theta.get(name, 0.0) for name in part.names])
        found = dict(zip(fit.names, zip(fit.theta, np.sqrt(variance_of(fit)), strict=True), strict=True))
        steps = {name: found[made] for made, name in columns_of(here.library).items()}
        theta = {name: float(found[name][0]) for name in best.names}
        if max(abs(step) / sd for step, sd in steps.values()) < _TURNED:
            break
        values = values | {n: stated.parameters[n].moved(values[n], step) for n, (step, _) in steps.items()}
    needed = _near_bounds(here.library, fit, values)
    prior = Estimated(prior=shapes.prior).joined(prior_of(here.library, values)) if needed else shapes.prior
    told = _open(here.library, fit, values) if needed else ()
    own = {made: values[name] for made, name in columns_of(here.library).items()}
    joint = replace(best, names=fit.names, theta=fit.theta, fit=None)
    path = replace(path, visited=tuple(joint if v is best else v for v in path.visited), seen=None)
    assert isinstance(prior, GaussianPrior | None)
    return here, whole, path, Estimated(own, prior, told), replace(shapes, library=at)


def told_parameters(library: Library, prior: AnyPrior, constraints: AnyConstraints) -> Told:
    """The library with priors and bounds of parameters that were given by name; the prior and the constraints left.

    Returns
    -------
    library, prior, plain, every
        ``plain`` are constraints on coefficients alone; ``every`` has those on parameters as well, None without any.
    """
    names = (*library.names, *library.parameters)
    every = as_linear(constraints, names)
    mine = every.A[:, len(library.names) :]
    changed = {}
    for name, column in zip(library.parameters, mine.T, strict=True):
        own = every.rows.take((column != 0) & every.single)
        law = None if prior is None else prior.terms.get(name)
        if isinstance(law, Normal):
            law = (law.mean, law.variance)
        if not isinstance(law, tuple | None):
            raise BvsiError(f"prior: {name} is inside operators; give it a Normal(...), or bounds in the library.")
        known = (
            library.parameters[name]
            if law is None
            else replace(library.parameters[name], prior=(law[0], math.sqrt(law[1])))
        )
        low, high = float(max(own.lower, default=-math.inf)), float(min(own.upper, default=math.inf))
        if max(low, known.low) >= min(high, known.high):
            told = f"{' and '.join(own.texts)}: {name} lies between {known.low:g} and {known.high:g} in the library"
            raise InfeasibleError(f"constraints: {told}; state bounds that overlap.", own.texts)
        changed[name] = known.within(low, high)
    if prior is not None:
        if isinstance(prior, GaussianPrior):
            left = {key: pair for key, pair in prior.terms.items() if key not in changed}
            prior = GaussianPrior(left, prior.default) if left or prior.default is not None else None
        else:
            prior = replace(prior, terms={key: law for key, law in prior.terms.items() if key not in changed})
    plain = every.rows.take(np.flatnonzero(~mine.any(axis=1)))
    few = LinearConstraints(library.names, plain.A[:, : len(library.names)], *plain[1:])
    return library.with_(parameters={**library.parameters, **changed}), prior, few or None, every or None


def _of_parameters(given: LinearConstraints | None, library: Library) -> LinearConstraints | None:
    """Those constraints in which parameters stand."""
    if given is None:
        return None
    mine = np.array([name in library.parameters for name in given.names])
    return LinearConstraints(given.names, *given.rows.take(np.flatnonzero(given.A[:, mine].any(axis=1)))) or None


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


def _priced(
    search: ParameterSearch,
    whole: ResidualLikelihood,
    path: SelectionPath,
    point: ParameterPoint,
    doubts: tuple[str, ...],
    plain: Select,
) -> Result:
    """The path with the selected model fitted jointly, and with parameters at the price of operators.

    Where a model without parameters is better at that price, it is the one selected.
    """
    setup, keep = search.at(point), search.keep
    own = {o.name for o in carrying(setup.library, setup.library.names)}
    price = math.log(whole.n)

    def count(names: Sequence[str]) -> int:
        return len(parameters_of(setup.library, names))

    left = [name for name in whole.names if name not in own and name not in columns_of(setup.library)]
    margins = dict(path.margins)
    for name in set(margins) & set(point.names):
        lost = count(point.names) - count([other for other in point.names if other != name])
        margins[name] -= price * lost
        if margins[name] < 0 and name not in keep and not own & {*keep} and left:
            other = plain(whole.restrict(left), keep=[k for k in keep if k in left])
            if other.best.score < path.best.score + price * count(point.names):
                return setup.with_(library=setup.library.at(point.values)), whole.restrict(left), other, Estimated()
    told: tuple[str, ...] = ()
    prior = None
    try:
        fit = joint_fit(setup, point, Profile(), search.limits, whole, known=False)
        needed = _near_bounds(setup.library, fit, point.values)
    except FAILURES:
        needed = True
    if needed:  # bounds, or priors, say more than the data
        prior = prior_of(setup.library, point.values)
        fit = joint_fit(setup, point, Profile(), search.limits, whole)
        told = _open(setup.library, fit, point.values)
    for name, z2 in zip(fit.names, fit.theta**2 / variance_of(fit), strict=True):
        if name in margins:  # where κ is free an operator may be less needed than at one κ
            margins[name] = min(margins[name], float(z2) - price)
    values = {made: point.values[name] for made, name in columns_of(setup.library).items()}
    best = path.best
    joint = replace(best, names=fit.names, theta=fit.theta, fit=None if setup.library.ties else fit)
    visited = tuple(joint if v is best else v for v in path.visited)
    bounded = beyond_bounds(setup.library, fit, point.values, _AT_BOUND)
    found = Estimated(values, prior, (*doubts, *told), bounded)
    return setup, whole, replace(path, visited=visited, margins=margins, seen=None), found


def _near_bounds(library: Library, fit: Fit, values: Mapping[str, float]) -> bool:
    """Whether a parameter has a prior, or an interval that reaches beyond its bounds or hardly narrows them."""
    found = dict(zip(fit.names, zip(fit.theta, np.sqrt(variance_of(fit)), strict=True), strict=True))
    for column, name in columns_of(library).items():
        one, (step, sd) = library.parameters[name], found[column]
        at = values[name] + step
        if one.prior or one.hardly(at, sd) or at - 2 * sd < one.low or at + 2 * sd > one.high:
            return True
    return False


def _open(library: Library, fit: Fit, values: Mapping[str, float]) -> tuple[str, ...]:
    """What the data leave open of parameters, in words."""
    assert fit.posterior is not None
    made, told = columns_of(library), []
    at = {name: values[made[name]] + v if name in made else v for name, v in zip(fit.names, fit.theta, strict=True)}
    sd = dict(zip(fit.names, np.sqrt(variance_of(fit)), strict=True))
    free, ends = False, beyond_bounds(library, fit, values, _AT_BOUND)
    for column, name in made.items():
        one, centre = library.parameters[name], at[column]
        if one.hardly(centre, sd[column]):  # wider bounds would not help
            free = True
            told.append(
                f"{name} is not identified: {centre:.3g} ± {2 * sd[column]:.2g} hardly narrows its bounds "
                f"{one.low:g} and {one.high:g}."
            )
        elif name in ends:
            told.append(f"{name} is at a bound: {centre:.3g}, between {one.low:g} and {one.high:g}; widen them.")
    told += [_combination(library, fit, at)] if free else []
    return tuple(text for text in told if text)


def _combination(library: Library, fit: Fit, at: Mapping[str, float]) -> str:
    """What the data do determine where they leave parameters open."""
    assert fit.posterior is not None
    made = columns_of(library)
    names = {o.name for o in carrying(library, fit.names)} | {*made}
    chosen = [i for i, name in enumerate(fit.names) if name in names and at[name]]
    size = np.array([at[fit.names[i]] for i in chosen])
    relative = fit.posterior.covariance[np.ix_(chosen, chosen)] / np.outer(size, size)
    return identified([made.get(fit.names[i], f"[{fit.names[i]}]") for i in chosen], relative)


def identified(labels: Sequence[str], relative: Array) -> str:
    """The product of powers that data determine of numbers which they leave open, in words.

    The eigenvector of the smallest eigenvalue of Cov(log κ) has the powers, of those numbers that stand in the
    directions of the largest.

    Parameters
    ----------
    relative
        Covariance over the product of the values, (d, d).
    """
    values, vectors = np.linalg.eigh(relative)
    share = np.sqrt(np.square(vectors[:, values > _MEMBER**2 * values[-1]]).sum(axis=1))
    members = [int(k) for k in np.flatnonzero(share > _MEMBER * share.max())]
    named = ", ".join(labels[k] for k in members)
    if len(members) < 2:
        return ""
    values, vectors = np.linalg.eigh(relative[np.ix_(members, members)])
    powers = vectors[:, 0] / vectors[np.argmax(np.abs(vectors[:, 0])), 0]
    powers = powers * np.sign(powers[0])
    if values[0] > _TOLD**2 * values[-1] or np.abs(powers).min() < _MEMBER:
        return f"The data do not determine how {named} change together."
    powers = powers / abs(powers[0])
    text = labels[members[0]]
    for k, power in zip(members[1:], powers[1:], strict=True):
        whole = abs(abs(power) - 1) < _WHOLE
        text += f"{'·' if power > 0 or not whole else '/'}{labels[k]}{'' if whole else f'^{power:.2g}'}"
    return f"The data determine only {text}."
