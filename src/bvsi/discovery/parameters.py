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

from bvsi.common.arrays import Array
from bvsi.common.naming import without_equation
from bvsi.common.progress import Progress, silent
from bvsi.discovery.parameter_search import (
    FAILURES,
    OPEN,
    ParameterGrid,
    ParameterPoint,
    Select,
    carrying,
    columns_of,
    elsewhere,
    estimated,
    joint_fit,
    prior_of,
    trimmed,
    variance_of,
)
from bvsi.errors import BvsiError
from bvsi.infer import Fit, Profile
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.likelihood import ResidualLikelihood
from bvsi.operators import Library
from bvsi.select import SelectionPath
from bvsi.setup import Setup

if TYPE_CHECKING:
    from bvsi.discovery.result import Discovery

Result = tuple[Setup, ResidualLikelihood, SelectionPath, "Estimated"]

# Selections at new values of κ at most.
_ROUNDS = 4
# Part of the largest that a share in a combination has at least, and how near to one a power is one. Not measured.
_MEMBER, _WHOLE = 0.3, 0.15


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
    table = ParameterGrid.of(setup, progress)
    point = table.first(setup.library, plain, keep, progress)
    doubts: tuple[str, ...] = ()
    for _ in range(_ROUNDS):
        if carrying(setup.library, point.names):
            point = trimmed(setup, estimated(setup, point), table, keep)
        there = setup.with_(library=setup.library.at(point.values, point.theta))
        whole = there.likelihood(progress=progress)
        path = select(whole.restrict(setup.library.names), keep=keep, progress=progress)
        stands = path.best.names == point.names
        theta = dict(zip(path.best.names, path.best.theta, strict=True))
        point = replace(point, names=path.best.names, theta=theta, fit=point.fit if stands else None)
        if not carrying(setup.library, point.names):
            return setup.with_(library=setup.library.at(point.values)), whole, path, Estimated()
        if stands:
            better, doubts = elsewhere(setup, point, table, keep)
            if better is None:
                break
            point = better
    if point.fit is None:
        point = estimated(setup, point)
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


def _priced(
    setup: Setup,
    whole: ResidualLikelihood,
    path: SelectionPath,
    point: ParameterPoint,
    doubts: tuple[str, ...],
    keep: Sequence[str],
    plain: Select,
) -> Result:
    """The path with the selected model fitted jointly, and with parameters at the price of operators.

    Where a model without parameters is better at that price, it is the one selected.
    """
    own = {o.name: o for o in carrying(setup.library, setup.library.names)}
    price = math.log(whole.n)

    def count(names: Sequence[str]) -> int:
        free = frozenset[str]().union(*(own[n].free.names for n in names if n in own))  # type: ignore[union-attr]
        return len(free & {*setup.library.parameters})

    left = [name for name in whole.names if name not in own and name not in columns_of(setup.library)]
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
        fit = joint_fit(setup, point.names, point.theta, Profile(), None, whole)
        needed = _open(setup.library, fit, point.values) or any(one.prior for one in setup.library.parameters.values())
    except FAILURES:
        needed = True
    if needed:  # bounds, or priors, say more than the data
        prior = prior_of(setup.library, point.values)
        fit = joint_fit(setup, point.names, point.theta, Profile(), point.values, whole)
        told = _open(setup.library, fit, point.values)
    values = {made: point.values[name] for made, name in columns_of(setup.library).items()}
    best = path.best
    joint = replace(best, names=fit.names, theta=fit.theta, fit=None if setup.library.ties else fit)
    visited = tuple(joint if v is best else v for v in path.visited)
    found = Estimated(values, prior, (*doubts, *told))
    return setup, whole, replace(path, visited=visited, margins=margins), found


def _open(library: Library, fit: Fit, values: Mapping[str, float]) -> tuple[str, ...]:
    """What the data leave open of parameters, in words."""
    assert fit.posterior is not None
    made, told = columns_of(library), []
    at = {name: values[made[name]] + v if name in made else v for name, v in zip(fit.names, fit.theta, strict=True)}
    sd = dict(zip(fit.names, np.sqrt(variance_of(fit)), strict=True))
    free = False
    for column, name in made.items():
        one, centre = library.parameters[name], at[column]
        reach = (centre - 2 * sd[column], centre + 2 * sd[column])
        if sd[column] > OPEN * one.sd or reach[0] < one.low or reach[1] > one.high:
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
    names = {o.name for o in carrying(library, fit.names)} | {*columns_of(library)}
    chosen = [i for i, name in enumerate(fit.names) if name in names and at[name]]
    size = np.array([abs(at[fit.names[i]]) for i in chosen])
    relative = fit.posterior.covariance[np.ix_(chosen, chosen)] / np.outer(size, size)
    direction = np.linalg.eigh(relative)[1][:, -1] * np.sign([at[fit.names[i]] for i in chosen])
    members = [k for k, share in enumerate(np.abs(direction)) if share > _MEMBER * np.abs(direction).max()]
    labels = [_label(fit.names[chosen[k]], columns_of(library)) for k in members]
    if len(members) != 2:
        return f"The data do not tell how {', '.join(labels)} change together." if len(members) > 2 else ""
    power = -float(direction[members[0]] / direction[members[1]])
    if abs(abs(power) - 1) < _WHOLE:
        return f"The data tell only {labels[0]}{'·' if power > 0 else '/'}{labels[1]}."
    return f"The data tell only {labels[0]}·{labels[1]}^{power:.2g}."


def _label(name: str, made: Mapping[str, str]) -> str:
    return made.get(name, f"[{name}]")
