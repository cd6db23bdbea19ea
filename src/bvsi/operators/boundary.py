"""Boundary conditions, and what each makes of the boundary terms of a weak form.

A boundary term is dropped only where the declared condition proves it zero; otherwise it is assembled from the
data, or refused. Periodic directions have no boundary and need no condition.

Operators with more than two derivatives have boundary terms with ∂v/∂n as well, which no data on the boundary give
well. Unless ``ZeroNeumann`` is declared for all fields that such an operator reads, its equation is tested only with
functions away from the boundary, which share no cell with a function that does not vanish there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from bvsi.common.jets import order
from bvsi.operators.effort import tidy
from bvsi.operators.terms import Term
from bvsi.operators.vocabulary import Vocabulary, pretty


@dataclass(frozen=True)
class BoundaryCondition:
    """What is known about a field (and its equation) on the boundary."""

    tests_vanish: bool = False
    """Whether the equation is tested only with functions that are zero on the boundary."""


@dataclass(frozen=True)
class NoFlux(BoundaryCondition):
    """The total normal flux of the equation is zero: the boundary terms of its operators cancel in the sum.

    With four derivatives this is one condition of the two that are needed: tested away from the boundary only.
    """


@dataclass(frozen=True)
class ZeroNeumann(BoundaryCondition):
    """∇u·n = 0, and ∇(∇²u)·n = 0 where an operator has four derivatives: the field goes on as its mirror image.

    Terms that do not vanish by this alone are assembled from the data.
    """


@dataclass(frozen=True)
class Dirichlet(BoundaryCondition):
    """u is prescribed on the boundary: test functions vanish there, and so do all boundary terms.

    With four derivatives test functions stay away from the boundary, so that their slopes vanish on it too.
    """

    tests_vanish: bool = True


@dataclass(frozen=True)
class Unknown(BoundaryCondition):
    """Nothing is known (the default): only test functions that vanish on the boundary are used, always valid.

    With four derivatives test functions stay away from the boundary, so that their slopes vanish on it too.
    """

    tests_vanish: bool = True


@dataclass(frozen=True)
class Assembled(BoundaryCondition):
    """No condition is used: every boundary term is assembled from the data."""


@dataclass(frozen=True)
class BoundaryTreatment:
    """Boundary terms that stay, and in words what became of the others."""

    kept: tuple[Term, ...]
    reason: str


def treat_boundary(
    terms: tuple[Term, ...], equation: str, conditions: Mapping[str, BoundaryCondition], words: Vocabulary
) -> BoundaryTreatment:
    """Apply the condition of the equation's field to the boundary terms of one operator."""
    if not terms:
        return BoundaryTreatment((), "none arises")
    condition = conditions[equation]
    if condition.tests_vanish:
        return _vanishing_tests(terms, condition)
    if isinstance(condition, NoFlux):
        return _without_values(terms, "zero with the others of the equation: no flux through the boundary")
    if isinstance(condition, ZeroNeumann):
        flat = tuple(f for f, c in conditions.items() if isinstance(c, ZeroNeumann))
        return _zero_neumann(terms, flat, words)
    return BoundaryTreatment(terms, "assembled from the data")


def _vanishing_tests(terms: tuple[Term, ...], condition: BoundaryCondition) -> BoundaryTreatment:
    why = "condition unknown" if isinstance(condition, Unknown) else "values prescribed"
    return _without_values(terms, f"zero: test functions vanish on the boundary ({why})")


def _without_values(terms: tuple[Term, ...], reason: str) -> BoundaryTreatment:
    """Drop the terms with the test function itself; those with its derivative are assembled from the data."""
    kept = tuple(term for term in terms if order(term.test))
    return BoundaryTreatment(kept, f"{reason}; with derivatives of v assembled from the data" if kept else reason)


def _zero_neumann(terms: tuple[Term, ...], flat: tuple[str, ...], words: Vocabulary) -> BoundaryTreatment:
    kept = []
    for term in terms:
        term = _without_third_derivatives(term, flat, words)
        gradients = [words.jet(f, words.unit(axis)) for f in flat for axis in range(words.dim)]
        rest = term.integrand.xreplace(dict.fromkeys(gradients, sp.Integer(0)))
        in_gradients = term.integrand - rest
        vanishes = tidy(in_gradients.xreplace(_tangential_gradients(flat, words))) == 0
        remaining = rest if vanishes else term.integrand
        if tidy(remaining) != 0:
            kept.append(Term(term.test, remaining))
    if not kept:
        return BoundaryTreatment((), f"zero: ∇{', ∇'.join(flat)} has no normal component")
    left = " + ".join(pretty(term.integrand) for term in kept)
    return BoundaryTreatment(tuple(kept), f"zero normal gradient used; {left} assembled from the data")


def _without_third_derivatives(term: Term, flat: tuple[str, ...], words: Vocabulary) -> Term:
    """The flux ∇(∇²u)·n of a mirrored field is zero."""
    if order(term.test):
        return term
    third = [s for s, (f, jet) in words.jets(term.integrand).items() if f in flat and order(jet) == 3]
    return Term(term.test, term.integrand.xreplace(dict.fromkeys(third, sp.Integer(0))))


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
