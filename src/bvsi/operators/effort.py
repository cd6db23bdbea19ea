"""Symbolic work that is bounded before it is begun: sizes of expressions, and expansion only where it is cheap."""

from __future__ import annotations

import math
from itertools import islice

import sympy as sp

MAX_SIZE = 5000
"""Symbols and operations in an expression that is still worked with."""

MAX_TERMS = 200
"""Summands that an expansion may have."""

_MAX_TEXT = 120


def too_large(expression: sp.Expr) -> bool:
    """Whether the expression has more than MAX_SIZE nodes; no more of them are visited."""
    return next(islice(sp.preorder_traversal(expression), MAX_SIZE, None), None) is not None


def tidy(expression: sp.Expr) -> sp.Expr:
    """The expression multiplied out, so that like terms meet and cancel; left as it is where that costs much."""
    if _expanded_terms(expression) > MAX_TERMS or too_large(expression):
        return expression
    return sp.expand(expression)


def shortened(text: str) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _expanded_terms(expression: sp.Expr) -> int:
    """Number of summands after expansion, like terms counted apart; nested arguments count with their own."""
    if not expression.args:
        return 1
    inner = [_expanded_terms(argument) for argument in expression.args]
    if expression.is_Add:
        return sum(inner)
    if expression.is_Mul:
        return math.prod(inner)
    if expression.is_Pow and expression.exp.is_Integer:
        n = abs(int(expression.exp))
        return math.comb(n + inner[0] - 1, n)  # multinomial formula
    return max(inner)
