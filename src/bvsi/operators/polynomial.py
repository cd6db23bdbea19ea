"""Polynomials in one variable by their coefficients, Σ p_k w^k as (p_0, …, p_n).

The coefficients are expressions free of w and are never multiplied out: that is what keeps them short.
"""

from __future__ import annotations

from functools import reduce

import sympy as sp

MAX_DEGREE = 40

Coefficients = tuple[sp.Expr, ...]


def polynomial_in(expression: sp.Expr, w: sp.Symbol) -> Coefficients | None:
    """Coefficients of the expression as a polynomial in w; None if it is none, or of a degree beyond MAX_DEGREE."""
    degree = _degree(expression, w)
    return None if degree is None or degree > MAX_DEGREE else _coefficients(expression, w)


def product(left: Coefficients, right: Coefficients) -> Coefficients:
    """(Σ l_i w^i)(Σ r_j w^j)."""
    sums: list[list[sp.Expr]] = [[] for _ in range(len(left) + len(right) - 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            sums[i + j].append(a * b)
    return _trimmed(tuple(sp.Add(*terms) for terms in sums))


def polynomial_derivative(p: Coefficients) -> Coefficients:
    """Σ k p_k w^(k−1)."""
    return tuple(k * c for k, c in enumerate(p))[1:] or (sp.Integer(0),)


def evaluated(p: Coefficients, w: sp.Expr) -> sp.Expr:
    """Σ p_k w^k."""
    return sp.Add(*(c * w**k for k, c in enumerate(p)))


def is_even(p: Coefficients) -> bool:
    """Whether p(−w) = p(w)."""
    return all(c == 0 for c in p[1::2])


def is_odd(p: Coefficients) -> bool:
    """Whether p(−w) = −p(w)."""
    return all(c == 0 for c in p[0::2])


def in_square(p: Coefficients) -> Coefficients:
    """r with r(w²) = p(w), for an even p."""
    return p[0::2]


def odd_in_square(p: Coefficients) -> Coefficients:
    """r with w r(w²) = p(w), for an odd p."""
    return p[1::2]


def _degree(expression: sp.Expr, w: sp.Symbol) -> int | None:
    """Degree in w, from the structure alone: nothing is multiplied before the degree is known to be low."""
    if w not in expression.free_symbols:
        return 0
    if expression == w:
        return 1
    if expression.is_Pow and expression.exp.is_Integer and expression.exp.is_positive:
        base = _degree(expression.base, w)
        return None if base is None else base * int(expression.exp)
    if not (expression.is_Add or expression.is_Mul):
        return None
    degrees = [_degree(argument, w) for argument in expression.args]
    known = [degree for degree in degrees if degree is not None]
    if len(known) < len(degrees):
        return None
    return max(known) if expression.is_Add else sum(known)


def _coefficients(expression: sp.Expr, w: sp.Symbol) -> Coefficients:
    if w not in expression.free_symbols:
        return (expression,)
    if expression == w:
        return (sp.Integer(0), sp.Integer(1))
    if expression.is_Pow:
        return reduce(product, [_coefficients(expression.base, w)] * int(expression.exp))
    parts = [_coefficients(argument, w) for argument in expression.args]
    if expression.is_Mul:
        return reduce(product, parts)
    longest = max(len(part) for part in parts)
    return _trimmed(tuple(sp.Add(*(part[k] for part in parts if k < len(part))) for k in range(longest)))


def _trimmed(p: Coefficients) -> Coefficients:
    while len(p) > 1 and p[-1] == 0:
        p = p[:-1]
    return p
