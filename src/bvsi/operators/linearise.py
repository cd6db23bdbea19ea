"""Weak form to its Gateaux derivative with respect to the fields.

d/dε ∫ ∂^α v g(u + ε δu) = Σ_fields Σ_β ∫ ∂^α v · (∂g/∂u_β) · ∂^β δu
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from bvsi.common.jets import Jet
from bvsi.operators.terms import Term
from bvsi.operators.vocabulary import Vocabulary


@dataclass(frozen=True)
class JacobianTerm:
    """∫ ∂^test v · coefficient · ∂^trial δfield."""

    test: Jet
    field: str
    trial: Jet
    coefficient: sp.Expr


def linearise(terms: tuple[Term, ...], words: Vocabulary) -> tuple[JacobianTerm, ...]:
    """Derivative of each term by each jet of a measured or recovered field; auxiliary fields are constants."""
    found = []
    for term in terms:
        for symbol, (field, index) in words.jets(term.integrand).items():
            if field not in words.auxiliary:
                coefficient = _derivative_almost_everywhere(term.integrand, symbol)
                if coefficient != 0:
                    found.append(JacobianTerm(term.test, field, index, coefficient))
    return tuple(found)


def _derivative_almost_everywhere(g: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    """∂g/∂symbol where it exists: quadrature points do not hit the jump of a sign."""
    derivative = sp.diff(g, symbol)
    if not derivative.has(sp.DiracDelta):
        return derivative
    return derivative.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
