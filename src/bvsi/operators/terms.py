"""Terms of a weak form: a derivative of the test function times an integrand, over cells, facets or the boundary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from bvsi.common.jets import MEASURES, Jet, Sided, Where


@dataclass(frozen=True)
class Term:
    """∫ ∂^test v · integrand."""

    test: Jet
    integrand: sp.Expr


@dataclass(frozen=True)
class WrittenTerm:
    """A term that stands in an operator as it is, not from integration by parts."""

    where: Where
    term: Term


def collected(terms: Iterable[WrittenTerm]) -> tuple[WrittenTerm, ...]:
    """Terms of the same measure and test derivative added up, in a fixed order; those that vanish left out."""
    found: dict[tuple[Where, Jet], sp.Expr] = {}
    for written in terms:
        key = (written.where, written.term.test)
        found[key] = found.get(key, sp.Integer(0)) + written.term.integrand
    ordered = sorted(found.items(), key=lambda item: (MEASURES.index(item[0][0]), _sortable(item[0][1])))
    return tuple(WrittenTerm(where, Term(test, g)) for (where, test), g in ordered if g != 0)


def _sortable(jet: Jet) -> tuple[tuple[int, ...], int]:
    return (jet.index, jet.side) if isinstance(jet, Sided) else (jet, 0)
