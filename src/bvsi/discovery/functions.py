"""Unknown functions inside operators: estimated with a smoothness prior, selected with their operators.

The coefficients c of k = Σ_m c_m B_m are those of one operator each (:mod:`bvsi.operators.functions`), with a prior
whose strength λ has the largest evidence (:mod:`bvsi.discovery.function_prior`). λ → ∞ is a constant: k varies where
2 log of the evidence grows by more than the price of a parameter, log n. Selection has one column for a function, that
of its estimate, and goes on until it stands.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bvsi.check.well_posed import some_values
from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import without_equation
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.discovery.function_prior import VAGUE, FunctionColumns, FunctionPrior, Information
from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import AnyConstraints, Constraints, LinearConstraints
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import BoundPrior, Distribution, GaussianPrior, Prior
from bvsi.infer.starts import dominant
from bvsi.likelihood import ResidualLikelihood
from bvsi.noise.measurement import Measurement
from bvsi.operators import Library
from bvsi.operators.functions import UnknownFunction, in_flux
from bvsi.residual.assembly import discretise_library
from bvsi.select import SelectionPath, Visited
from bvsi.select.path import ties_of
from bvsi.setup import Setup
from bvsi.spaces import SplineTests, is_uniform

# Factor within which a strength is no longer changed, and fits at most until then.
_SAME, _FITS = 4.0, 3
# Moments with weights of their own before the first fit, and selections at most. Not measured.
_REWEIGHTED, _ROUNDS = 2, 4
# Part of the prior's precision below which a difference from it is rounding.
_LOST = 1e-10
# Decade of λ up to which a fit takes it: beyond it the function is a constant, and what the data say is lost in λ.
_FITTED = 1.0
# Standard deviations by which a function is surely below zero, and the part of the data where it is so. Not measured.
_SURELY, _SOMEWHERE = 3.0, 0.02
# Points of a stretched axis, linear between them.
_STRETCHED = 1001
# Estimates on the way, to a hundredth of a standard deviation.
_ROUGHLY = Profile(tol=1e-2)

_FAILURES = (RankError, NotPositiveDefiniteError)
Select = Callable[..., SelectionPath]


@dataclass(frozen=True)
class FoundFunction:
    """An unknown function of the selected operators.

    Attributes
    ----------
    name
        Its name, k.
    function
        Its variables and splines.
    operators
        Operators it stands in.
    constant
        Whether the data ask for no more than a constant; k is then one in its operators, which have a coefficient.
    gain
        2 log of the evidence of the function over that of a constant.
    order
        Differences of which order are smooth; zero of a constant.
    steps
        Place, width, ratio of both sides and mean squared size of steps, times the probability that one is there.
    """

    name: str
    function: UnknownFunction
    operators: tuple[str, ...]
    constant: bool
    gain: float
    order: int
    steps: tuple[tuple[float, ...], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its coefficients, without the equation; none of a constant."""
        return () if self.constant else self.function.labels(self.name)

    def beyond(self, points: Array) -> Array:
        """Variance of what splines leave of steps, Σ_j a_j² (step_j − spline_j)², at points (n, variables), (n,)."""
        if not self.steps:
            return np.zeros(len(points))
        told = np.array(self.steps)
        left = self.function.stepped(points, told[:, :2]) - self.function.design(points) @ self.function.nearest(told)
        return np.asarray(left**2 @ told[:, 3])

    def members(self, names: Sequence[str]) -> list[int]:
        """Positions of the coefficients among names, of one equation; none of a constant."""
        short = [without_equation(name) for name in names]
        return [short.index(label) for label in self.labels]


@dataclass(frozen=True, eq=False)
class Shapes:
    """The functions of a selected model.

    Attributes
    ----------
    library
        As it was given, with the ends of the splines.
    prior
        What makes them smooth; None where all are constant.
    path
        The selection, with one operator for a function.
    """

    library: Library
    functions: tuple[FoundFunction, ...]
    prior: GaussianPrior | None
    path: SelectionPath

    def frozen(self, setup: Setup, names: Sequence[str], theta: Array) -> tuple[Setup, tuple[str, ...], Array, Array]:
        """Functions held at an estimate θ: setup, names, θ_f and T with δθ = T δθ_f; a function has one coefficient."""
        values, columns = {f.name: one_tree() for f in self.functions if f.constant}, dict[str, tuple[str, Array]]()
        for f in self.functions:
            if not f.constant:
                c = theta[f.members(names)]
                values[f.name] = f.function.tree(c)
                columns |= {label: (f.name, c[m]) for m, label in enumerate(f.function.labels(f.name))}
        library = self.library.with_functions(values)
        of_function = {o.name: f.name for f in self.functions if not f.constant for o in self.library.carrying(f.name)}
        chosen = tuple(name for name in library.names if name in of_function or name in names)
        T = np.zeros((len(names), len(chosen)))
        for i, name in enumerate(names):
            function, size = columns.get(without_equation(name), ("", 1.0))
            for j, other in enumerate(chosen):
                mine = of_function.get(other) == function and _equation(other) == _equation(name)
                T[i, j] = size * (mine if function else name == other)
        start = np.array([1.0 if name in of_function else theta[list(names).index(name)] for name in chosen])
        return setup.with_(library=library), chosen, start, T

    @staticmethod
    def tree(f: FoundFunction, model: Visited) -> ast.expr:
        """A function at its estimate in a model, as a text of the operator language."""
        return one_tree() if f.constant else f.function.tree(model.theta[f.members(model.names)])

    @staticmethod
    def freedom(fit: Fit, some: Sequence[int] | None = None) -> float:
        """Coefficients, or some, that the data determine beside the prior P, tr A⁻¹(A − P), A with what both know."""
        own = list(range(len(fit.theta)) if some is None else some)
        if fit.quadratic is None or fit.quadratic.precision is None:
            return float(len(own))
        return float(len(own) - np.linalg.solve(fit.quadratic.A, fit.quadratic.precision)[own, own].sum())

    def negative(self, posterior: Posterior, data: Data) -> dict[str, NDArray[np.int64]]:
        """Where functions are surely below zero, by name: numbers of values of the data, time by time."""
        some, found = some_values(data), {}
        times, nodes = np.divmod(some, data.n_nodes)
        for f in self.functions:
            if f.constant:
                continue
            at = np.stack([_variable(name, data, times, nodes) for name in f.function.of], axis=1)
            B, own = f.function.design(at), f.members(posterior.names)
            variance = np.einsum("ni,ij,nj->n", B, posterior.covariance[np.ix_(own, own)], B)
            below = B @ posterior.mean[own] + _SURELY * np.sqrt(variance + f.beyond(at)) < 0
            if below.mean() > _SOMEWHERE:
                found[f.name] = some[below]
        return found


def _variable(name: str, data: Data, times: NDArray[np.int64], nodes: NDArray[np.int64]) -> Array:
    """A coordinate, the time or a field at some values."""
    if name in data.geometry.names:
        return np.asarray(data.geometry.points[nodes, data.geometry.names.index(name)])
    if name == "t":
        return data.times[times]
    values = data.fields[name] if name in data.fields else data.auxiliary[name]
    return np.asarray(values[times, nodes] if values.ndim == 2 else values[nodes])


def _equation(name: str) -> str:
    return name.split(": ", 1)[0] if ": " in name else ""


def one_tree() -> ast.expr:
    """The constant function one."""
    return ast.Constant(1)


@dataclass(frozen=True, eq=False)
class _FittedGroups:
    """Functions that were fitted with a model: θ of its columns, priors, gains over constants, what the data tell."""

    groups: Sequence[FunctionColumns]
    fit: Fit
    smooth: dict[str, FunctionPrior]
    gains: dict[str, float]
    information: Information

    def constant(self, name: str) -> bool:
        """Whether the data ask for no more than a constant.

        Evidence cannot gain more than the estimate is away from a constant, T = Σ_mn (c_m − c̄) V⁻¹_mn (c_n − c̄). Where
        it does, scores of splines that meet few data are at fault (69 against 9; even, seed 995, draw 2), and T has to
        be worth the parameters that the data determine.
        """
        assert self.fit.posterior is not None
        (group,) = (g for g in self.groups if g.name == name)
        own = group.columns
        c, one, price = self.fit.theta[own], np.ones(len(own)), math.log(self.fit.equations.n)
        known = np.linalg.pinv(self.fit.posterior.covariance[np.ix_(own, own)], hermitian=True)
        away = c - float(one @ known @ c) / float(one @ known @ one)
        T, gain = float(away @ known @ away), self.gains[name]
        told = gain <= T or group.known is not None  # what is known beforehand holds an estimate wherever it is
        return (gain if told else T - price * max(Shapes.freedom(self.fit, own) - 2, 0)) <= price

    def prior(self, names: Sequence[str], varying: Sequence[str], scale: float) -> GaussianPrior:
        """What stands for all strengths of the functions that vary, for the operators of a model."""
        terms: dict[str | tuple[str, ...], tuple[object, object]] = {}
        for g in (g for g in self.groups if g.name in varying):
            mean, P = self.information.averaged(self.groups, self.smooth, g, _strongest(self.smooth[g.name]))
            terms[tuple(names[i] for i in _members(g, names))] = (mean, _inverse(scale * P))
        return GaussianPrior(terms)


def selected_functions(
    setup: Setup,
    library: Library,
    select: Select,
    keep: Sequence[str],
    allowed: LinearConstraints | None,
    known: Mapping[str, tuple[float, float]],
    rng: Rng,
    progress: Progress = silent,
) -> tuple[Setup, ResidualLikelihood, SelectionPath, Shapes]:
    """The selected model with its functions.

    Parameters
    ----------
    setup
        With one operator for every coefficient of the functions.
    library
        As it was given, with the ends of the splines.
    select
        Selection among any operators.
    allowed
        Equalities between operators.
    known
        Mean and variance of functions that are known beforehand, by name.
    """
    _check_alike(setup, library)
    whole = setup.likelihood(progress=progress)
    ties = ties_of(allowed) if allowed else None
    one = whole if ties is None else whole.combined(ties.T, ties.free)
    groups = _groups(library, one.names, known)
    members = {i for g in groups for i in g.columns}
    others = [name for i, name in enumerate(one.names) if i not in members]
    kept = [name for name in keep if name in others] + [g.label for g in groups if _kept(library, g.name)]
    theta, fitted, model, stretched = _by_moments(one, groups, library, rng), None, frozenset[str](), False
    for _ in range(_ROUNDS):
        T, every = _columns(one, groups, others, library, theta, fitted)
        path = select(one.combined(T, every), keep=kept, progress=progress)
        mine = [g for g in groups if g.label in path.best.names]
        if model == {*path.best.names} or not mine:
            break
        fitted, others = _trimmed(one, mine, [name for name in others if name in path.best.names], theta, kept, rng)
        if not stretched and (to := _stretch(setup, one.names, mine, fitted)):
            assert isinstance(setup.tests, SplineTests)
            setup, stretched = setup.with_(tests=replace(setup.tests, stretch=to)), True
            whole = setup.likelihood(progress=progress)
            one = whole if ties is None else whole.combined(ties.T, ties.free)
            fitted, others = _trimmed(one, mine, others, _with(theta, one.names, fitted.fit), kept, rng, fitted)
        model = frozenset((*others, *(g.label for g in mine)))
        theta = _with(theta, one.names, fitted.fit)
    chosen = {name for name in others if name in path.best.names}
    if ties is not None:  # and what is tied to them
        rows = np.flatnonzero(ties.T[:, [ties.free.index(name) for name in chosen]].any(axis=1))
        chosen, theta = {ties.names[i] for i in rows}, ties.T @ theta
    values = dict(zip(whole.names, theta.tolist(), strict=True))
    return _finished(setup, library, whole, path, mine, fitted if mine else None, chosen, values)


def _with(theta: Array, names: Sequence[str], fit: Fit) -> Array:
    """θ (d,) of all operators, with those of a fit."""
    found = dict(zip(fit.names, fit.theta.tolist(), strict=True))
    return np.array([found.get(name, value) for name, value in zip(names, theta.tolist(), strict=True)])


def _stretch(
    setup: Setup, names: Sequence[str], groups: Sequence[FunctionColumns], fitted: _FittedGroups
) -> dict[str, tuple[Array, Array]]:
    """Coordinates by axis in which fields between the nodes are smooth beside functions k(x) in fluxes.

    From 150 sensors without noise, smooth functions of x through the nodes made k wrong by 1.1 standard deviations (by
    4 beside the step), and added 0.16 to χ²/n; smooth functions of ξ = ∫ dx/k by 0.6 and 0.01 (seed 77). Of no use on
    grids, whose nodes are the quadrature.
    """
    places, found = [data.geometry for data in setup.data], dict[str, tuple[Array, Array]]()
    if not isinstance(setup.tests, SplineTests) or all(map(is_uniform, places)):
        return found
    for g in groups:
        axis = g.function.of[0]
        if not g.flux or len(g.function.of) > 1 or axis not in places[0].names or fitted.constant(g.name):
            continue
        nodes = np.concatenate([one.points[:, one.names.index(axis)] for one in places])
        x = np.linspace(nodes.min(), nodes.max(), _STRETCHED)
        c = fitted.fit.theta[[fitted.fit.names.index(names[i]) for i in g.columns]]
        found.setdefault(axis, (x, g.stretched(x, c, fitted.smooth[g.name])))
    return found


def _kept(library: Library, name: str) -> bool:
    return any(o.name in library.keep for o in library.carrying(name))


def _check_alike(setup: Setup, library: Library) -> None:
    """Refuse candidates that are a function's operator where the function is a constant."""
    constant = library.with_functions(dict.fromkeys(library.unknown, one_tree()))
    forms = discretise_library(setup.data[0], constant, setup.tests)[0]
    carrying = {o.name for name in library.unknown for o in library.carrying(name)}
    keys = {(o.equation, o.monic()[0].key): o.name for o in forms if o.name not in carrying}
    for o in forms:
        other = keys.get((o.equation, o.monic()[0].key))
        if o.name in carrying and other is not None:
            raise BvsiError(f"unknown: {other!r} is {o.name!r} with a constant function; leave it out.")


def _groups(
    library: Library, names: tuple[str, ...], known: Mapping[str, tuple[float, float]]
) -> list[FunctionColumns]:
    found = []
    for name, function in library.unknown.items():
        carrying = library.carrying(name)
        flux = not {*function.of} & {*library.equations, "t"} and any(in_flux(o.syntax, name) for o in carrying)
        group = FunctionColumns(name, carrying[0].name, function, [], known.get(name), flux)
        found.append(replace(group, columns=_members(group, names)))
    return found


def _members(group: FunctionColumns, names: Sequence[str]) -> list[int]:
    return FoundFunction(group.name, group.function, (), False, 0.0, 0).members(names)


def _columns(
    one: ResidualLikelihood,
    groups: Sequence[FunctionColumns],
    others: Sequence[str],
    library: Library,
    theta: Array,
    fitted: _FittedGroups | None,
) -> tuple[Array, tuple[str, ...]]:
    """T (d, m) and names, in the order of the library: an operator each, and functions at their estimates.

    Functions are constants where that is enough.
    """
    by_label = {g.label: g for g in groups}
    every = tuple(name for name in library.names if name in others or name in by_label)
    T = np.zeros((one.d, len(every)))
    for j, name in enumerate(every):
        if name not in by_label:
            T[one.names.index(name), j] = 1.0
            continue
        g = by_label[name]
        flat = fitted is not None and g.name in fitted.gains and fitted.constant(g.name)
        T[g.columns, j] = 1.0 if flat or not theta[g.columns].any() else theta[g.columns]
    return T, every


def _by_moments(one: ResidualLikelihood, groups: Sequence[FunctionColumns], library: Library, rng: Rng) -> Array:
    """θ (d,) of all operators, by moment equations: unbiased for any weights, the first those of constant functions."""
    T, every = _columns(one, groups, one.names, library, np.zeros(one.d), None)
    flat = one.combined(T, every)
    empty = BoundPrior(np.zeros(flat.d), np.zeros((flat.d, flat.d)))
    try:
        theta = T @ dominant(flat, empty, copy.deepcopy(rng))
    except _FAILURES:
        theta = np.zeros(one.d)
    for _ in range(_REWEIGHTED):  # steps come with the fits
        information = Information.by_moments(one, theta, rng)
        theta = information.estimate(information.prior(groups, information.smooth(groups, steps=False)[0]))
    return theta


def _fitted(
    part: ResidualLikelihood,
    groups: Sequence[FunctionColumns],
    theta: Array,
    rng: Rng,
    last: _FittedGroups | None = None,
) -> _FittedGroups:
    """Fits with a prior each, whose strength follows from the fit before, until it stands.

    Parameters
    ----------
    part, theta
        Likelihood of the functions' columns and the other operators of a model, and where to begin.
    last
        A fit of nearly the same model, whose priors are the first; by default those of moment equations are.
    """
    if last is None:
        information = Information.by_moments(part, theta, rng)
        smooth, gains = information.smooth(groups)
    else:
        information, smooth, gains = last.information, last.smooth, last.gains
    for _ in range(_FITS):
        fit = _ROUGHLY.fit(part, prior=_prior(part.names, groups, smooth, information.scale), start=theta)
        quadratic, theta, before = fit.quadratic, fit.theta, smooth
        assert quadratic is not None
        assert quadratic.S is not None
        P = np.zeros_like(quadratic.A) if quadratic.precision is None else quadratic.precision
        # what rounding leaves of a spline that the data do not visit is no information
        A, S = quadratic.A - P, quadratic.S - P + _LOST * np.diag(np.diag(P))
        information = Information.of(A, A @ theta + fit.equations.g, S, part.noise_scale(fit.equations))
        smooth, gains = information.smooth(groups)
        if all(_alike(before[g.name], smooth[g.name]) for g in groups):
            break
    return _FittedGroups(groups, fit, smooth, gains, information)


def _alike(one: FunctionPrior, other: FunctionPrior) -> bool:
    same = (one.order, one.count) == (other.order, other.count)
    return same and abs(math.log(one.strength / other.strength)) < math.log(_SAME)


def _prior(
    names: Sequence[str], groups: Sequence[FunctionColumns], smooth: Mapping[str, FunctionPrior], scale: float
) -> GaussianPrior:
    """The functions' priors, in units of the noise where its level is not known."""
    terms: dict[str | tuple[str, ...], tuple[object, object]] = {}
    for g in groups:
        one = smooth[g.name]
        one = replace(one, strength=min(one.strength, _strongest(one)))
        key = tuple(names[i] for i in g.columns)
        terms[key] = (np.full(len(key), g.mean), _inverse(scale * g.precision(one)))
    return GaussianPrior(terms)


def _strongest(one: FunctionPrior) -> float:
    """The strength up to which a fit takes it."""
    return float(10**_FITTED * one.vague / VAGUE)


def _inverse(P: Array) -> Array:
    covariance = np.linalg.inv(P)
    return np.asarray(0.5 * (covariance + covariance.T))


def _trimmed(
    one: ResidualLikelihood,
    groups: Sequence[FunctionColumns],
    others: list[str],
    theta: Array,
    keep: Sequence[str],
    rng: Rng,
    fitted: _FittedGroups | None = None,
) -> tuple[_FittedGroups, list[str]]:
    """The fit of functions without operators that are not needed beside them: z² < log n + 2 log d, weakest first."""
    while True:
        names = (*others, *(one.names[i] for g in groups for i in g.columns))
        part, order = one.restrict(names), [one.names.index(name) for name in one.restrict(names).names]
        mine = [replace(g, columns=[part.names.index(one.names[i]) for i in g.columns]) for g in groups]
        fitted = _fitted(part, mine, theta[order], rng, fitted)
        theta = _with(theta, one.names, fitted.fit)
        assert fitted.fit.posterior is not None
        z2 = dict(zip(part.names, fitted.fit.theta**2 / fitted.fit.posterior.variance, strict=True))
        free = [name for name in others if name not in keep]
        weakest = min(free, key=lambda name: z2[name], default=None)
        price = math.log(one.n) + 2 * math.log(len(others) + len(groups))
        if weakest is None or z2[weakest] >= price:
            return fitted, others
        others = [name for name in others if name != weakest]


def _finished(
    setup: Setup,
    library: Library,
    whole: ResidualLikelihood,
    path: SelectionPath,
    groups: Sequence[FunctionColumns],
    fitted: _FittedGroups | None,
    others: set[str],
    values: Mapping[str, float],
) -> tuple[Setup, ResidualLikelihood, SelectionPath, Shapes]:
    """Constants as operators with a coefficient, the others as their columns; the path with the model of both.

    Parameters
    ----------
    groups, others, values
        Functions and operators of the model, and all coefficients.
    """
    gains = {} if fitted is None else fitted.gains
    varying = [g for g in groups if fitted is not None and not fitted.constant(g.name)]
    free = {g.name for g in varying}
    if free != {*library.unknown}:
        trees = {name: None if name in free else one_tree() for name in library.unknown}
        setup = setup.with_(library=library.with_functions(trees))
        whole = setup.likelihood()
    functions = tuple(
        FoundFunction(
            g.name,
            g.function,
            tuple(o.name for o in library.carrying(g.name)),
            g.name not in free,
            gains.get(g.name, 0.0),
            fitted.smooth[g.name].order if fitted is not None and g.name in free else 0,
            () if fitted is None or g.name not in free else fitted.smooth[g.name].listed,
        )
        for g in groups
    )
    best = dict(zip(path.best.names, path.best.theta.tolist(), strict=True))
    constant = {o.name: best[g.label] for g in groups if g.name not in free for o in library.carrying(g.name)}
    labels = {label for g in varying for label in g.function.labels(g.name)}
    names = tuple(n for n in whole.names if n in others or n in constant or without_equation(n) in labels)
    if names == path.best.names:
        return setup, whole, path, Shapes(library, functions, None, path)
    start = np.array([constant.get(name, values.get(name, 0.0)) for name in names])
    joint = replace(path.best, names=names, theta=start, fit=None)
    prior = None
    if varying and fitted is not None:
        prior = fitted.prior(names, [*free], whole.noise_scale(fitted.fit.equations))
    visited = tuple(joint if v is path.best else v for v in path.visited)
    return setup, whole, replace(path, visited=visited), Shapes(library, functions, prior, path)


def of_found(library: Library, functions: Sequence[FoundFunction], *, expanded: bool) -> Library:
    """The library with functions as they were found: constants at one, others with their splines.

    Parameters
    ----------
    expanded
        Whether functions that vary become operators, one for each coefficient, or stay unknown.
    """
    if not library.unknown:
        return library
    known = {f.name: f for f in functions}
    located = library.with_(unknown={**library.unknown, **{f.name: f.function for f in functions}})
    values = {n: None if n in known and not known[n].constant else one_tree() for n in library.unknown}
    return located.with_functions({n: tree for n, tree in values.items() if expanded or tree is not None})


def with_columns(library: Library, measured: Sequence[Measurement]) -> tuple[Library, Library]:
    """A library with the ends of the splines of its functions, and with one operator for each of their coefficients."""
    sigma = {f: max(m.sigma.get(f, 0.0) for m in measured) for f in measured[0].data.fields}
    stated = library.located([m.data for m in measured], sigma)
    return stated, stated.with_functions(dict.fromkeys(stated.unknown))


def without_functions(
    prior: Prior | GaussianPrior | None, library: Library
) -> tuple[Prior | GaussianPrior | None, dict[str, tuple[float, float]]]:
    """A prior without its terms for functions; and these, mean and variance by name."""
    if prior is None or not {*prior.terms} & {*library.unknown}:
        return prior, {}
    terms = prior.prior.terms if isinstance(prior, GaussianPrior) else prior.terms
    known = {}
    for name in library.unknown:
        law = terms.get(name)
        if isinstance(law, Distribution):
            known[name] = (float(law.mean), float(law.variance))
    rest = {key: value for key, value in prior.terms.items() if key not in library.unknown}
    changed: Prior | GaussianPrior = replace(prior, terms=rest)  # type: ignore[arg-type]  # of either kind
    return changed, known


def constraints_of(constraints: AnyConstraints, library: Library, names: Sequence[str]) -> AnyConstraints:
    """Constraints on functions as those on their coefficients: a spline is above a number where all of these are."""
    if constraints is None or isinstance(constraints, LinearConstraints):
        return constraints
    if isinstance(constraints, Constraints):
        texts = constraints_of(constraints.texts, library, names)
        return Constraints(*cast("tuple[str, ...]", texts), bounds=constraints.bounds)
    short = {without_equation(name): f"[{name}]" for name in reversed(list(names))}
    found: list[str] = []
    for text in (constraints,) if isinstance(constraints, str) else constraints:
        inside = [name for name in library.unknown if re.search(rf"(?<![\w\[]){name}(?!\w)", _bare(text))]
        if not inside:
            found.append(text)
            continue
        name = inside[0]
        labels = library.unknown[name].labels(name) if library.unknown[name].intervals else ()
        varying = [short[label] for label in labels if label in short]
        members = varying or [f"[{o.name}]" for o in library.carrying(name) if o.name in names]
        found += [re.sub(rf"(?<![\w\[]){name}(?!\w)", member, text) for member in members]
    return tuple(found)


def _bare(text: str) -> str:
    """A text without what stands in brackets."""
    return re.sub(r"\[[^\]]*\]", "", text)
