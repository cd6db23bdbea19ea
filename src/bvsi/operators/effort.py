"""Symbolic work that is bounded before it is begun: sizes of expressions, and expansion only where it is cheap."""

from __future__ import annotations

import math
from itertools import islice

import sympy as sp

MAX_SIZE = 5000
"""Symbols and operations in an expression that is still worked with."""

MAX_TERMS = 200
"""Summands that an expansion may have."""


def too_large(expression: sp.Expr) -> bool:
    """Whether the expression has more than MAX_SIZE nodes; no more of them are visited."""
    return next(islice(sp.preorder_traversal(expression), MAX_SIZE, None), None) is not None


def tidy(expression: sp.Expr) -> sp.Expr:
    """The expression multiplied out as a polynomial, so that like terms meet; left as it is where that costs much.

    Functions, roots and quotients are taken as they stand: (2 + w)^−2 is easier to integrate than (4 + 4w + w²)^−1.
    """
    if too_large(expression) or _expanded_terms(expression) > MAX_TERMS:
        return expression
    masks = {atom: sp.Dummy(real=True) for atom in _indivisible(expression)}
    expanded = sp.expand(expression.xreplace(masks))
    return expanded.xreplace({mask: atom for atom, mask in masks.items()})


def _is_polynomial_node(expression: sp.Expr) -> bool:
    power = expression.is_Pow and expression.exp.is_Integer and expression.exp.is_positive
    return bool(expression.is_Add or expression.is_Mul or power)


def _indivisible(expression: sp.Expr) -> set[sp.Expr]:
    """The largest parts that are no sums, products or powers of others."""
    if _is_polynomial_node(expression):
        return {atom for argument in expression.args for atom in _indivisible(argument)}
    return {expression} if expression.args else set()


def _expanded_terms(expression: sp.Expr) -> int:
    """Number of summands after expansion, like terms counted apart."""
    if not _is_polynomial_node(expression):
        return 1
    if expression.is_Pow:
        n = int(expression.exp)
        return math.comb(n + _expanded_terms(expression.base) - 1, n)  # multinomial formula
    terms = [_expanded_terms(argument) for argument in expression.args]
    return sum(terms) if expression.is_Add else math.prod(terms)
