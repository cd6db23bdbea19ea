"""Strong form to weak form, by integration by parts; then the boundary condition, then the derivative.

    ∫ v D^α g dx = (−1)^|α| ∫ ∂^α v · g dx + boundary terms,

with every boundary term kept. Derivatives are moved between test function and data until the element can carry
both: at most ``test_order`` derivatives on v and ``trial_order`` on the fields. Where that is none (spline tests) and
known fields are in the way, these are differentiated, which have no noise, ∂_x(k u_x) = ∂_x∂_x(k u) − ∂_x(k_x u). What
cannot be moved either, such as u_x², stays on the data, which then have to be differentiated. A boundary term is
dropped only where the declared condition proves it zero. The Gateaux derivative of a term with respect to the fields is

    d/dε ∫ ∂^α v g(u + ε δu) = Σ_fields Σ_β ∫ ∂^α v · (∂g/∂u_β) · ∂^β δu
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from bvsi.common.naming import Jet, MultiIndex, Sided, Where, order
from bvsi.errors import OperatorError
from bvsi.operators.antiderivative import antiderivative
from bvsi.operators.boundary import BoundaryCondition, NoFlux, Unknown, ZeroNeumann
from bvsi.operators.bounds import tidy
from bvsi.operators.strong import Scalar, WeakTerm, evaluate
from bvsi.operators.syntax import shortened
from bvsi.operators.vocabulary import Vocabulary, lowered, pretty, raised

# Derivatives that are pulled out of one operator before it counts as hopeless. Not measured; circles end sooner.
_MAX_PASSES = 40
# Highest derivative that is taken of the data. Not measured; the noise of the third is some hundred times that of the
# second.
_MAX_ON_DATA = 2


@dataclass(frozen=True)
class WeakForm:
    """Sum of terms over cells, facets and boundary.

    Attributes
    ----------
    boundary
        What integration by parts left, subject to the boundary condition.
    written
        What was given in weak form.
    """

    cells: tuple[WeakTerm, ...]
    boundary: tuple[WeakTerm, ...]
    written: tuple[WeakTerm, ...] = ()


def weak_form(strong: Scalar, words: Vocabulary, *, trial_order: int, test_order: int) -> WeakForm:
    """Weak form of ``∫ v F dx`` with the derivative orders that the element carries."""
    if _strong_order(strong, words) > trial_order + test_order:
        # Derivatives can be moved, not lost; carrying them out only to find that may take long.
        raise _too_many_derivatives(strong, words, trial_order, test_order)
    outside = _lower_test_order(strong, words, test_order)
    try:
        parts = _lower_trial_order(outside, words, trial_order, test_order)
    except OperatorError:
        if trial_order:
            raise
        try:
            parts = _lower_trial_order(outside, words, trial_order, test_order, words.auxiliary)
        except OperatorError:
            parts = _least_on_data(outside, words, test_order)
    cells = {}
    boundary: dict[MultiIndex, sp.Expr] = {}
    for index, g in parts.items():
        cells[index] = sp.Integer(-1) ** sum(index) * g
        if not trial_order:
            continue  # test functions of data at the nodes vanish at the boundary, with all derivatives that matter
        for test, integrand in _boundary_terms(index, g, words):
            boundary[test] = boundary.get(test, sp.Integer(0)) + integrand
    return WeakForm(_terms("cells", cells), _terms("boundary", boundary), strong.written)


def _terms(where: Where, parts: dict[MultiIndex, sp.Expr]) -> tuple[WeakTerm, ...]:
    return tuple(WeakTerm(where, index, g) for index, g in sorted(parts.items()) if g != 0)


def _lower_test_order(strong: Scalar, words: Vocabulary, test_order: int) -> dict[MultiIndex, sp.Expr]:
    """Carry out the innermost outer derivatives until at most ``test_order`` are left outside."""
    parts: dict[MultiIndex, sp.Expr] = {}
    for index, g in strong.parts:
        while sum(index) > test_order:
            axis = max(range(words.dim), key=lambda i: index[i])
            g = words.derivative(g, axis)
            index = lowered(index, axis)
        parts[index] = parts.get(index, sp.Integer(0)) + g
    return parts


def _lower_trial_order(
    parts: dict[MultiIndex, sp.Expr], words: Vocabulary, trial_order: int, test_order: int, skip: tuple[str, ...] = ()
) -> dict[MultiIndex, sp.Expr]:
    """Pull derivatives out of g until no jet, but of fields to skip, is beyond ``trial_order``."""
    parts = dict(parts)
    seen = set()
    for _ in range(_MAX_PASSES):
        over = next(((i, g) for i, g in sorted(parts.items()) if _order(g, words, skip) > trial_order), None)
        if over is None:
            return parts
        index, g = over
        if sum(index) >= test_order or over in seen:  # seen: derivatives go round in a circle
            break
        seen.add(over)
        split = _pull(g, words, skip)
        outer = raised(index, split.axis)
        parts[outer] = tidy(parts.get(outer, sp.Integer(0)) + split.flux)
        parts[index] = split.rest
    raise _too_many_derivatives(Scalar.from_parts(parts), words, trial_order, test_order)


def _least_on_data(parts: dict[MultiIndex, sp.Expr], words: Vocabulary, test_order: int) -> dict[MultiIndex, sp.Expr]:
    """Pull derivatives out of g as far as that goes; what stays is read from derivatives of the data."""
    left, stays, seen = dict(parts), dict.fromkeys(parts, sp.Integer(0)), set()
    for _ in range(_MAX_PASSES):
        index, g = next(
            ((i, g) for i, g in sorted(left.items()) if _order(g, words, words.auxiliary)), (words.zero, sp.Integer(0))
        )
        if g == 0:
            break
        split = None if sum(index) >= test_order or (index, g) in seen else _lowering(g, words)
        seen.add((index, g))
        if split is None:
            stuck = _stuck(g, words)
            stays[index] = stays.get(index, sp.Integer(0)) + stuck
            left[index] = tidy(g - stuck)
        else:
            outer = raised(index, split.axis)
            left[outer], left[index] = tidy(left.get(outer, sp.Integer(0)) + split.flux), split.rest
    total = {i: tidy(left.get(i, sp.Integer(0)) + stays.get(i, sp.Integer(0))) for i in {*left, *stays}}
    if max(_order(g, words, words.auxiliary) for g in total.values()) > _MAX_ON_DATA:
        raise _too_many_derivatives(Scalar.from_parts(total), words, _MAX_ON_DATA, test_order)
    return total


def _lowering(g: sp.Expr, words: Vocabulary) -> _Split | None:
    """A split of g that raises no derivative; None where there is none."""
    try:
        split = _pull(g, words, words.auxiliary)
    except OperatorError:
        return None
    known = words.auxiliary
    return split if _order(split.rest, words, known) <= _order(g, words, known) else None


def _stuck(g: sp.Expr, words: Vocabulary) -> sp.Expr:
    """The summands of g that cannot be split by themselves; if all can, those with the highest derivative."""
    known = words.auxiliary
    summands, highest = sp.Add.make_args(tidy(g)), _order(g, words, known)
    alone = [one for one in summands if _order(one, words, known) and _lowering(one, words) is None]
    return sp.Add(*(alone or [one for one in summands if _order(one, words, known) == highest]))


def _too_many_derivatives(form: Scalar, words: Vocabulary, trial_order: int, test_order: int) -> OperatorError:
    highest = _strong_order(form, words)
    return OperatorError(
        f"no weak form: its derivatives of order {highest} do not fit on the element, which carries {trial_order} on "
        f"the field and {test_order} on the test function, and no other way to share them was found. Use an element "
        "of higher smoothness, write the term in divergence form, div(...), or as biharmonic(...) where it is that."
    )


@dataclass(frozen=True)
class _Split:
    """g = D_axis(flux) + rest."""

    axis: int
    flux: sp.Expr
    rest: sp.Expr


def _pull(g: sp.Expr, words: Vocabulary, skip: tuple[str, ...]) -> _Split:
    """The split of g whose rest has the fewest highest derivatives left."""
    highest = _order(g, words, skip)
    splits: list[_Split] = []
    for top, (field, index) in _counted(g, words, skip).items():
        if order(index) == highest:
            assert not isinstance(index, Sided), "strong forms know no sides of facets"
            splits += _splits(g, top, field, index, words)
    if not splits:
        raise OperatorError(
            f"no weak form: in {shortened(pretty(g))} the factor of the highest derivative has no known "
            "antiderivative; write the term by its flux, such as div(f*grad(x)) for dx(f)."
        )
    return min(splits, key=lambda one: _highest_derivatives(_counted(one.rest, words, skip), highest))


def _splits(g: sp.Expr, top: sp.Symbol, field: str, index: MultiIndex, words: Vocabulary) -> list[_Split]:
    """g = c ∂_i w + g₀ = D_i(flux) + g₀ − D_i(flux)|_w, one split per axis i of the highest jet ∂_i w.

    flux = ∫ c dw, and D_i(·)|_w is the chain rule with w held: what it leaves out is c ∂_i w itself, so that the
    highest derivative is gone without anything having to cancel.
    """
    c = sp.diff(g, top)
    if top in c.free_symbols:
        raise OperatorError(
            f"no weak form: {shortened(pretty(g))} is not linear in its highest derivative {pretty(top)}; "
            "only fluxes inside div(...) may be nonlinear in derivatives."
        )
    remaining = g.xreplace({top: sp.Integer(0)})
    splits = []
    for axis in (i for i in range(words.dim) if index[i]):
        w = words.jet(field, lowered(index, axis))
        flux = antiderivative(c, w)
        if flux is not None:
            splits.append(_Split(axis, flux, tidy(remaining - words.derivative(flux, axis, held=w))))
    return splits


def _highest_derivatives(jets: Jets, highest: int) -> int:
    return sum(order(index) >= highest for _, index in jets.values())


def _boundary_terms(index: MultiIndex, g: sp.Expr, words: Vocabulary) -> list[tuple[MultiIndex, sp.Expr]]:
    """∮ terms of ∫ v D^α g: one per derivative moved, (−1)^m ∮ ∂^{moved} v · n_i · D^{left} g."""
    terms = []
    moved, left, sign = words.zero, index, sp.Integer(1)
    while sum(left):
        axis = max(range(words.dim), key=lambda i: left[i])
        left = lowered(left, axis)
        inner = evaluate(Scalar.from_parts({left: g}), words)
        terms.append((moved, sign * words.n[axis] * inner))
        moved = raised(moved, axis)
        sign = -sign
    return terms


Jets = dict[sp.Symbol, tuple[str, Jet]]


def _counted(g: sp.Expr, words: Vocabulary, skip: tuple[str, ...]) -> Jets:
    """Jets in g of all fields but some."""
    return {symbol: (field, index) for symbol, (field, index) in words.jets(g).items() if field not in skip}


def _order(g: sp.Expr, words: Vocabulary, skip: tuple[str, ...] = ()) -> int:
    return max((order(index) for _, index in _counted(g, words, skip).values()), default=0)


def _strong_order(form: Scalar, words: Vocabulary) -> int:
    return max((sum(index) + _order(g, words) for index, g in form.parts if words.jets(g)), default=0)


@dataclass(frozen=True)
class BoundaryTreatment:
    """Boundary terms that stay, and in words what became of the others."""

    kept: tuple[WeakTerm, ...]
    reason: str


def treat_boundary(
    terms: tuple[WeakTerm, ...], equation: str, conditions: Mapping[str, BoundaryCondition], words: Vocabulary
) -> BoundaryTreatment:
    """Apply the condition of the equation's field to the boundary terms of one operator."""
    if not terms:
        return BoundaryTreatment((), "none arises")
    condition = conditions[equation]
    if condition.tests_vanish:
        why = "condition unknown" if isinstance(condition, Unknown) else "values prescribed"
        return _without_values(terms, f"zero: test functions vanish on the boundary ({why})")
    if isinstance(condition, NoFlux):
        return _without_values(terms, "zero with the others of the equation: no flux through the boundary")
    if isinstance(condition, ZeroNeumann):
        flat = tuple(f for f, c in conditions.items() if isinstance(c, ZeroNeumann))
        return _zero_neumann(terms, flat, words)
    return BoundaryTreatment(terms, "assembled from the data")


def _without_values(terms: tuple[WeakTerm, ...], reason: str) -> BoundaryTreatment:
    """Drop the terms with the test function itself; those with its derivative are assembled from the data."""
    kept = tuple(term for term in terms if order(term.test))
    return BoundaryTreatment(kept, f"{reason}; with derivatives of v assembled from the data" if kept else reason)


def _zero_neumann(terms: tuple[WeakTerm, ...], flat: tuple[str, ...], words: Vocabulary) -> BoundaryTreatment:
    kept = []
    for term in terms:
        term = _without_third_derivatives(term, flat, words)
        gradients = [words.jet(f, words.unit(axis)) for f in flat for axis in range(words.dim)]
        rest = term.integrand.xreplace(dict.fromkeys(gradients, sp.Integer(0)))
        in_gradients = term.integrand - rest
        vanishes = tidy(in_gradients.xreplace(_tangential_gradients(flat, words))) == 0
        remaining = rest if vanishes else term.integrand
        if tidy(remaining) != 0:
            kept.append(replace(term, integrand=remaining))
    if not kept:
        return BoundaryTreatment((), f"zero: ∇{', ∇'.join(flat)} has no normal component")
    left = " + ".join(pretty(term.integrand) for term in kept)
    return BoundaryTreatment(tuple(kept), f"zero normal gradient used; {left} assembled from the data")


def _without_third_derivatives(term: WeakTerm, flat: tuple[str, ...], words: Vocabulary) -> WeakTerm:
    """The flux ∇(∇²u)·n of a mirrored field is zero."""
    if order(term.test):
        return term
    third = [s for s, (f, jet) in words.jets(term.integrand).items() if f in flat and order(jet) == 3]
    return replace(term, integrand=term.integrand.xreplace(dict.fromkeys(third, sp.Integer(0))))


def _tangential_gradients(flat: tuple[str, ...], words: Vocabulary) -> dict[sp.Symbol, sp.Expr]:
    """∇u = n × τ with free τ: every gradient without normal component, and no other."""
    replaced = {}
    for field in flat:
        tau = sp.symbols(f"tau_{field}_0:3", real=True)
        n = (*words.n, *[sp.Integer(0)] * (3 - words.dim))
        if words.dim < 3:  # in the plane τ points out of it; on the line no tangent is left
            tau = (sp.Integer(0), sp.Integer(0), tau[2] if words.dim == 2 else sp.Integer(0))
        cross = (n[1] * tau[2] - n[2] * tau[1], n[2] * tau[0] - n[0] * tau[2], n[0] * tau[1] - n[1] * tau[0])
        for axis in range(words.dim):
            replaced[words.jet(field, words.unit(axis))] = cross[axis]
    return replaced


@dataclass(frozen=True)
class JacobianTerm:
    """∫ ∂^test v · coefficient · ∂^trial δfield."""

    test: Jet
    field: str
    trial: Jet
    coefficient: sp.Expr


def linearise(terms: tuple[WeakTerm, ...], words: Vocabulary) -> tuple[JacobianTerm, ...]:
    """Derivative of each term by each jet of a measured or recovered field; auxiliary fields are constants."""
    found = []
    for term in terms:
        for symbol, (field, index) in words.jets(term.integrand).items():
            if field not in words.auxiliary:
                coefficient = _derivative_almost_everywhere(term.integrand, symbol)
                if coefficient != 0:
                    found.append(JacobianTerm(term.test, field, index, coefficient))
    return tuple(found)


@lru_cache(maxsize=512)
def _derivative_almost_everywhere(g: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    """∂g/∂symbol where it exists: quadrature points do not hit the jump of a sign."""
    derivative = sp.diff(g, symbol)
    if not derivative.has(sp.DiracDelta):
        return derivative
    return derivative.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
