"""Strong form to weak form, by integration by parts.

    ∫ v D^α g dx = (−1)^|α| ∫ ∂^α v · g dx + boundary terms,

with every boundary term kept. Derivatives are moved between test function and data until the element can carry
both: at most ``test_order`` derivatives on v and ``trial_order`` on the fields.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from bvsi.common.jets import MultiIndex, Sided, Where, order
from bvsi.errors import OperatorError
from bvsi.operators.antiderivative import antiderivative
from bvsi.operators.effort import tidy
from bvsi.operators.strong import Scalar, StrongAlgebra
from bvsi.operators.syntax import shortened
from bvsi.operators.terms import Term, WrittenTerm, collected
from bvsi.operators.vocabulary import Vocabulary, lowered, pretty, raised

_MAX_PASSES = 40


@dataclass(frozen=True)
class WeakForm:
    """Sum of terms over cells, facets and boundary.

    boundary: what integration by parts left, subject to the boundary condition; written: what was given in weak form.
    """

    cells: tuple[Term, ...]
    boundary: tuple[Term, ...]
    written: tuple[WrittenTerm, ...] = ()

    def terms(self, where: Where, treated: tuple[Term, ...]) -> tuple[Term, ...]:
        """All terms over one measure; ``treated`` are the boundary terms that the boundary condition leaves."""
        parts = {"cells": self.cells, "facets": (), "boundary": treated}[where]
        all_terms = (*(WrittenTerm(where, term) for term in parts), *(w for w in self.written if w.where == where))
        return tuple(w.term for w in collected(all_terms))


def weak_form(strong: Scalar, words: Vocabulary, *, trial_order: int, test_order: int) -> WeakForm:
    """Weak form of ``∫ v F dx`` with the derivative orders that the element carries."""
    if _strong_order(strong, words) > trial_order + test_order:
        # Derivatives can be moved, not lost; carrying them out only to find that may take long.
        raise _too_many_derivatives(strong, words, trial_order, test_order)
    parts = _lower_trial_order(_lower_test_order(strong, words, test_order), words, trial_order, test_order)
    cells = {}
    boundary: dict[MultiIndex, sp.Expr] = {}
    for index, g in parts.items():
        cells[index] = sp.Integer(-1) ** sum(index) * g
        for test, integrand in _boundary_terms(index, g, words):
            boundary[test] = boundary.get(test, sp.Integer(0)) + integrand
    return WeakForm(_terms(cells), _terms(boundary), strong.written)


def _terms(parts: dict[MultiIndex, sp.Expr]) -> tuple[Term, ...]:
    return tuple(Term(index, g) for index, g in sorted(parts.items()) if g != 0)


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
    parts: dict[MultiIndex, sp.Expr], words: Vocabulary, trial_order: int, test_order: int
) -> dict[MultiIndex, sp.Expr]:
    """Pull derivatives out of g until no jet is beyond ``trial_order``."""
    parts = dict(parts)
    seen = set()
    for _ in range(_MAX_PASSES):
        over = next(((i, g) for i, g in sorted(parts.items()) if _order(g, words) > trial_order), None)
        if over is None:
            return parts
        index, g = over
        if sum(index) >= test_order or over in seen:  # seen: derivatives go round in a circle
            break
        seen.add(over)
        split = _pull(g, words)
        outer = raised(index, split.axis)
        parts[outer] = tidy(parts.get(outer, sp.Integer(0)) + split.flux)
        parts[index] = split.rest
    raise _too_many_derivatives(Scalar.of(parts), words, trial_order, test_order)


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


def _pull(g: sp.Expr, words: Vocabulary) -> _Split:
    """The split of g whose rest has the fewest highest derivatives left."""
    highest = _order(g, words)
    splits: list[_Split] = []
    for top, (field, index) in words.jets(g).items():
        if order(index) == highest:
            assert not isinstance(index, Sided), "strong forms know no sides of facets"
            splits += _splits(g, top, field, index, words)
    if not splits:
        raise OperatorError(
            f"no weak form: in {shortened(pretty(g))} the factor of the highest derivative has no known "
            "antiderivative; write the term by its flux, such as div(f*grad(x)) for dx(f)."
        )
    return min(splits, key=lambda split: _highest_derivatives(split.rest, words, highest))


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


def _highest_derivatives(g: sp.Expr, words: Vocabulary, highest: int) -> int:
    return sum(order(index) >= highest for _, index in words.jets(g).values())


def _boundary_terms(index: MultiIndex, g: sp.Expr, words: Vocabulary) -> list[tuple[MultiIndex, sp.Expr]]:
    """∮ terms of ∫ v D^α g: one per derivative moved, (−1)^m ∮ ∂^{moved} v · n_i · D^{left} g."""
    terms = []
    moved, left, sign = words.zero, index, sp.Integer(1)
    while sum(left):
        axis = max(range(words.dim), key=lambda i: left[i])
        left = lowered(left, axis)
        inner = StrongAlgebra(words).evaluate(Scalar.of({left: g}))
        terms.append((moved, sign * words.n[axis] * inner))
        moved = raised(moved, axis)
        sign = -sign
    return terms


def _order(g: sp.Expr, words: Vocabulary) -> int:
    return max((order(index) for _, index in words.jets(g).values()), default=0)


def _strong_order(form: Scalar, words: Vocabulary) -> int:
    return max((sum(index) + _order(g, words) for index, g in form.parts if words.jets(g)), default=0)
