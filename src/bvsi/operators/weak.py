"""Strong form to weak form, by integration by parts.

    ∫ v D^α g dx = (−1)^|α| ∫ ∂^α v · g dx + boundary terms,

with every boundary term kept. Derivatives are moved between test function and data until the element can carry
both: at most ``test_order`` derivatives on v and ``trial_order`` on the fields.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators.effort import tidy
from bvsi.operators.strong import Scalar, StrongAlgebra
from bvsi.operators.vocabulary import MultiIndex, Vocabulary, pretty

_MAX_PASSES = 40


@dataclass(frozen=True)
class Term:
    """∫ ∂^test v · integrand, over the cells (dx) or the boundary (dS)."""

    test: MultiIndex
    integrand: sp.Expr


@dataclass(frozen=True)
class WeakForm:
    """Sum of cell terms and boundary terms."""

    cells: tuple[Term, ...]
    boundary: tuple[Term, ...]


def weak_form(strong: Scalar, words: Vocabulary, *, trial_order: int, test_order: int) -> WeakForm:
    """Weak form of ``∫ v F dx`` with the derivative orders that the element carries."""
    if strong_order(strong, words) > trial_order + test_order:
        # Derivatives can be moved, not lost; carrying them out only to find that may take long.
        raise _too_many_derivatives(strong, words, trial_order, test_order)
    parts = _lower_trial_order(_lower_test_order(strong, words, test_order), words, trial_order, test_order)
    cells = {}
    boundary: dict[MultiIndex, sp.Expr] = {}
    for index, g in parts.items():
        cells[index] = sp.Integer(-1) ** sum(index) * g
        for test, integrand in _boundary_terms(index, g, words):
            boundary[test] = boundary.get(test, sp.Integer(0)) + integrand
    return WeakForm(_terms(cells), _terms(boundary))


def _terms(parts: dict[MultiIndex, sp.Expr]) -> tuple[Term, ...]:
    return tuple(Term(index, g) for index, g in sorted(parts.items()) if g != 0)


def _lower_test_order(strong: Scalar, words: Vocabulary, test_order: int) -> dict[MultiIndex, sp.Expr]:
    """Carry out the innermost outer derivatives until at most ``test_order`` are left outside."""
    parts: dict[MultiIndex, sp.Expr] = {}
    for index, g in strong.parts:
        while sum(index) > test_order:
            axis = max(range(words.dim), key=lambda i: index[i])
            g = words.derivative(g, axis)
            index = _lowered(index, axis)
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
        axis, flux, rest = _pull(g, words)
        raised = _raised(index, axis)
        parts[raised] = tidy(parts.get(raised, sp.Integer(0)) + flux)
        parts[index] = rest
    raise _too_many_derivatives(Scalar.of(parts), words, trial_order, test_order)


def _too_many_derivatives(form: Scalar, words: Vocabulary, trial_order: int, test_order: int) -> OperatorError:
    order = strong_order(form, words)
    return OperatorError(
        f"no weak form: its derivatives of order {order} do not fit on the element, which carries {trial_order} on "
        f"the field and {test_order} on the test function, and no other way to share them was found. Use an element "
        "of higher smoothness, or write the term in divergence form, div(...)."
    )


@dataclass(frozen=True)
class _Split:
    """g = D_axis(flux) + rest."""

    axis: int
    flux: sp.Expr
    rest: sp.Expr


def _pull(g: sp.Expr, words: Vocabulary) -> tuple[int, sp.Expr, sp.Expr]:
    """The split g = D_axis(flux) + rest whose rest has the fewest highest derivatives left."""
    order = _order(g, words)
    splits = []
    for top, (field, index) in words.jets(g).items():
        if sum(index) == order:
            splits += _splits(g, top, field, index, words)
    return min(splits, key=lambda split: _highest_derivatives(split[2], words, order))


def _highest_derivatives(g: sp.Expr, words: Vocabulary, order: int) -> int:
    return sum(sum(index) >= order for _, index in words.jets(g).values())


def _antiderivative(c: sp.Expr, w: sp.Symbol) -> sp.Expr:
    if w not in c.free_symbols:
        return c * w
    flux = sp.integrate(c, w)
    if flux.has(sp.Integral):
        raise OperatorError(f"no weak form: {pretty(c)} has no antiderivative in {pretty(w)}; write it as div(...).")
    return flux


def _boundary_terms(index: MultiIndex, g: sp.Expr, words: Vocabulary) -> list[tuple[MultiIndex, sp.Expr]]:
    """∮ terms of ∫ v D^α g: one per derivative moved, (−1)^m ∮ ∂^{moved} v · n_i · D^{left} g."""
    terms = []
    moved, left, sign = words.zero, index, sp.Integer(1)
    while sum(left):
        axis = max(range(words.dim), key=lambda i: left[i])
        left = _lowered(left, axis)
        inner = StrongAlgebra(words).evaluate(Scalar.of({left: g}))
        terms.append((moved, sign * words.n[axis] * inner))
        moved = tuple(order + (i == axis) for i, order in enumerate(moved))
        sign = -sign
    return terms


def _order(g: sp.Expr, words: Vocabulary) -> int:
    return max((sum(index) for _, index in words.jets(g).values()), default=0)


def _lowered(index: MultiIndex, axis: int) -> MultiIndex:
    return tuple(order - (i == axis) for i, order in enumerate(index))
