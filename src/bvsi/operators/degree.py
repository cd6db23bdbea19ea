"""Polynomial degree of an integrand, from which the quadrature is chosen."""

from __future__ import annotations

import sympy as sp

from bvsi.common.jets import Jet, order
from bvsi.operators.vocabulary import Vocabulary

SMOOTH_FUNCTION_EXTRA = 3
"""Degrees added for a function that is not a polynomial: quadrature is then accurate, not exact."""


def jet_degree(jet: Jet, element_degree: int, *, simplices: bool) -> int:
    """Degree of a derivative of one of the element's functions."""
    return max(element_degree - order(jet), 0) if simplices else element_degree


def integrand_degree(expression: sp.Expr, words: Vocabulary, element_degree: int, *, simplices: bool = False) -> int:
    """Degree of the expression when a jet has the element's degree and a coordinate degree one."""
    if isinstance(expression, sp.Symbol):
        decoded = words.decode(expression)
        if decoded is not None:
            return jet_degree(decoded[1], element_degree, simplices=simplices)
        return 1 if expression in words.x else 0
    if not expression.args:
        return 0
    degrees = [integrand_degree(a, words, element_degree, simplices=simplices) for a in expression.args]
    if isinstance(expression, sp.Add):
        return max(degrees)
    if isinstance(expression, sp.Mul):
        return sum(degrees)
    if isinstance(expression, sp.Pow) and expression.exp.is_Integer and expression.exp > 0:
        return degrees[0] * int(expression.exp)
    return max(degrees) + SMOOTH_FUNCTION_EXTRA if max(degrees) else 0
