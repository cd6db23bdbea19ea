"""Antiderivatives in one variable, from a small table: Φ with ∂Φ/∂w = c, or None.

c = Σ k · P(w) · F(q(w))

k free of w, P a polynomial, q of low degree, and F a power or an elementary function. A general integrator may take
for ever, and may answer with a function that is real for one sign of w only; this table answers at once, holds
wherever c is defined, and never divides by an expression that could be zero where c is regular.

Polynomials in w stand as their coefficients, Σ p_k w^k as (p_0, …, p_n). The coefficients are expressions free of w and
are never multiplied out: that is what keeps them short.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy as sp

from bvsi.operators.bounds import tidy
from bvsi.operators.spline import spline

Coefficients = tuple[sp.Expr, ...]

# Degree of a polynomial that is still integrated: twice the highest exponent of a text. Not measured.
MAX_DEGREE = 40

#: The repeated antiderivatives ∫F, ∫∫F, …, one period of them.
_REPEATED: dict[Any, Callable[[sp.Expr], tuple[sp.Expr, ...]]] = {
    sp.exp: lambda z: (sp.exp(z),),
    sp.sin: lambda z: (-sp.cos(z), -sp.sin(z), sp.cos(z), sp.sin(z)),
    sp.cos: lambda z: (sp.sin(z), -sp.cos(z), -sp.sin(z), sp.cos(z)),
    sp.sinh: lambda z: (sp.cosh(z), sp.sinh(z)),
    sp.cosh: lambda z: (sp.sinh(z), sp.cosh(z)),
}

#: ∫F of functions that the table knows without a polynomial in front.
_ONCE: dict[Any, Callable[[sp.Expr], sp.Expr]] = {
    sp.tan: lambda z: -_log_abs(sp.cos(z)),
    sp.tanh: lambda z: sp.log(sp.cosh(z)),
    sp.log: lambda z: z * sp.log(z) - z,
    sp.atan: lambda z: z * sp.atan(z) - sp.log(1 + z**2) / 2,
    sp.asin: lambda z: z * sp.asin(z) + sp.sqrt(1 - z**2),
    sp.acos: lambda z: z * sp.acos(z) - sp.sqrt(1 - z**2),
    sp.erf: lambda z: z * sp.erf(z) + sp.exp(-(z**2)) / sp.sqrt(sp.pi),
}


@dataclass(frozen=True)
class _Integrand:
    """P(w) · F(q(w)): P and q by their coefficients; F a SymPy function, or the exponent of a power of q."""

    polynomial: Coefficients
    outer: Any
    inner: Coefficients

    @property
    def is_power(self) -> bool:
        return isinstance(self.outer, sp.Expr)


def antiderivative(c: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """Φ with ∂Φ/∂w = c; None where the table has no entry."""
    found = _sum(c, w)
    return _sum(tidy(c), w) if found is None else found


def _sum(c: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    terms = [_term(term, w) for term in sp.Add.make_args(c)]
    return None if any(term is None for term in terms) else sp.Add(*terms)


def _term(c: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ k f dw = k ∫ f dw, by the first rule that fits f."""
    k, f = c.as_independent(w, as_Add=False)
    if f == 1:
        return k * w
    for rule in (_homogeneous, _linear_power, _polynomial, _polynomial_times_function, _of_spline):
        found = rule(f, w)
        if found is not None:
            return k * found
    return None


def _homogeneous(f: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ f = w f/(d + 1) for f = w^m |w|^n of degree d = m + n; for d = −1 it is w f log|w|."""
    degree = sp.Integer(0)
    for factor in sp.Mul.make_args(f):
        base, exponent = factor.as_base_exp()
        if base not in (w, sp.Abs(w)) or not exponent.is_number:
            return None
        degree += exponent
    return w * f * _log_abs(w) if degree == -1 else w * f / (degree + 1)


def _linear_power(f: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ (a + b w)^p, in closed form also where a is long."""
    base, p = f.as_base_exp()
    inner = polynomial_in(base, w)
    if f.func is sp.exp or w in p.free_symbols or inner is None or len(inner) != 2:
        return None
    return _power_of_linear((sp.Integer(1),), inner, p, w)


def _polynomial(f: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ Σ p_k w^k = Σ p_k w^(k+1)/(k+1)."""
    p = polynomial_in(f, w)
    return None if p is None else sp.Add(*(c * w ** (k + 1) / (k + 1) for k, c in enumerate(p)))


def _polynomial_times_function(f: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    integrand = _split(f, w)
    return None if integrand is None else _integrate(integrand, w)


def _of_spline(f: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ s(a + b w) = S(a + b w)/b."""
    inner = polynomial_in(f.args[0], w) if isinstance(f, spline) else None
    return f.raised(-1) / inner[1] if inner is not None and len(inner) == 2 and inner[1].is_nonzero else None


def _split(f: sp.Expr, w: sp.Symbol) -> _Integrand | None:
    """f = P(w) · F(q(w)), if all its factors but one are polynomials."""
    polynomial: Coefficients = (sp.Integer(1),)
    others = []
    for factor in sp.Mul.make_args(f):
        p = polynomial_in(factor, w)
        if p is None:
            others.append(factor)
        else:
            polynomial = product(polynomial, p)
    if len(others) != 1:
        return None
    (other,) = others
    if not (other.is_Pow and other.exp.is_number) and other.func not in (*_REPEATED, *_ONCE):
        return None
    argument, outer = (other.base, other.exp) if other.is_Pow else (other.args[0], other.func)
    inner = polynomial_in(argument, w)
    return None if inner is None else _Integrand(polynomial, outer, inner)


def _integrate(f: _Integrand, w: sp.Symbol) -> sp.Expr | None:
    if is_odd(f.polynomial) and is_even(f.inner):
        return _by_square(f, w)
    if len(f.inner) == 2:
        rule = _power_of_linear if f.is_power else _function_of_linear
        return rule(f.polynomial, f.inner, f.outer, w)
    if len(f.inner) == 3 and is_even(f.inner) and is_even(f.polynomial):
        return _power_of_quadratic(f, w) if f.is_power else _gaussian(f, w)
    return None


def _by_square(f: _Integrand, w: sp.Symbol) -> sp.Expr | None:
    """∫ w P(w²) F(q(w²)) dw = ½ ∫ P(s) F(q(s)) ds with s = w²."""
    s = sp.Dummy("s", nonnegative=True)
    inner = in_square(f.inner)
    half = evaluated(odd_in_square(f.polynomial), s) / 2
    argument = evaluated(inner, s)
    found = _term(half * (argument**f.outer if f.is_power else f.outer(argument)), s)
    return None if found is None else found.xreplace({s: w**2})


def _power_of_linear(polynomial: Coefficients, inner: Coefficients, p: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ P(w) q^p with q = a + b w: P as a polynomial in q, then ∫ q^r dw = q^(r+1)/(b (r+1))."""
    a, b = inner
    if not b.is_nonzero:
        return None
    q = evaluated(inner, w)
    terms = []
    for m, c in enumerate(polynomial):
        for i, share in enumerate(_power_of_difference(a, m)):
            r = p + i
            integral = _log_abs(q) if r == -1 else q ** (r + 1) / (r + 1)
            terms.append(c * share * integral / b ** (m + 1))
    return sp.Add(*terms)


def _function_of_linear(polynomial: Coefficients, inner: Coefficients, outer: Any, w: sp.Symbol) -> sp.Expr | None:
    """∫ P F(z), z = a + b w, by parts: Σ_k (−1)^k P^(k) F_(k+1)(z)/b^(k+1), F_k the k-th antiderivative."""
    b = inner[1]
    z = evaluated(inner, w)
    if not b.is_nonzero:
        return None
    if outer in _ONCE and len(polynomial) == 1:
        return polynomial[0] * _ONCE[outer](z) / b
    if outer not in _REPEATED:
        return None
    period = _REPEATED[outer](z)
    terms = []
    for k in range(len(polynomial)):
        terms.append((-1) ** k * evaluated(polynomial, w) * period[k % len(period)] / b ** (k + 1))
        polynomial = polynomial_derivative(polynomial)
    return sp.Add(*terms)


def _gaussian(f: _Integrand, w: sp.Symbol) -> sp.Expr | None:
    """∫ exp(a − β w²) = exp(a) √(π/β)/2 · erf(√β w), β > 0."""
    a, _, b = f.inner
    if f.outer is not sp.exp or len(f.polynomial) != 1 or not b.is_negative:
        return None
    return f.polynomial[0] * sp.exp(a) * sp.sqrt(sp.pi / -b) / 2 * sp.erf(sp.sqrt(-b) * w)


def _power_of_quadratic(f: _Integrand, w: sp.Symbol) -> sp.Expr | None:
    """∫ P(w²) q^p with q = a + b w²: P as a polynomial in q, then ∫ q^r dw by recurrence."""
    a, _, b = f.inner
    if not (a.is_nonzero and b.is_nonzero):
        return None
    terms = []
    for m, c in enumerate(in_square(f.polynomial)):
        for i, share in enumerate(_power_of_difference(a, m)):
            integral = _quadratic(a, b, f.outer + i, w)
            if integral is None:
                return None
            terms.append(c * share * integral / b**m)
    return sp.Add(*terms)


def _quadratic(a: sp.Expr, b: sp.Expr, r: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """I_r = ∫ (a + b w²)^r dw for negative integers and halves r.

    (2r + 1) I_r = w q^r + 2 r a I_(r−1)   lowers r > −1/2,
    2a (r + 1) I_r = −w q^(r+1) + (2r + 3) I_(r+1)   raises r < −1.
    """
    if not (2 * r).is_Integer:
        return None
    q = a + b * w**2
    if r == 0:
        return w
    if r == -1:
        return _inverse_quadratic(a, b, w)
    if 2 * r == -1:
        return _inverse_root(a, b, w)
    lower = _quadratic(a, b, r - 1 if r > 0 else r + 1, w)
    if lower is None:
        return None
    if r > 0:
        return (w * q**r + 2 * r * a * lower) / (2 * r + 1)
    return (-w * q ** (r + 1) + (2 * r + 3) * lower) / (2 * a * (r + 1))


def _inverse_quadratic(a: sp.Expr, b: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ dw/(a + b w²)."""
    if a.is_positive and b.is_positive:
        return sp.atan(sp.sqrt(b / a) * w) / sp.sqrt(a * b)
    if (a.is_positive and b.is_negative) or (a.is_negative and b.is_positive):
        root = sp.sqrt(-a / b)
        return (_log_abs(root - w) - _log_abs(root + w)) / (2 * b * root)
    return None


def _inverse_root(a: sp.Expr, b: sp.Expr, w: sp.Symbol) -> sp.Expr | None:
    """∫ dw/√(a + b w²)."""
    if a.is_positive and b.is_positive:
        return sp.asinh(sp.sqrt(b / a) * w) / sp.sqrt(b)
    if a.is_positive and b.is_negative:
        return sp.asin(sp.sqrt(-b / a) * w) / sp.sqrt(-b)
    if a.is_negative and b.is_positive:
        return _log_abs(sp.sqrt(b) * w + sp.sqrt(a + b * w**2)) / sp.sqrt(b)
    return None


def _power_of_difference(a: sp.Expr, m: int) -> list[sp.Expr]:
    """Coefficients of (q − a)^m in powers of q."""
    return [math.comb(m, i) * (-a) ** (m - i) for i in range(m + 1)]


def _log_abs(z: sp.Expr) -> sp.Expr:
    """log|z|, written log(z²)/2: its derivative is 1/z, without signs."""
    return sp.log(z) if z.is_positive else sp.log(z**2) / 2


def polynomial_in(expression: sp.Expr, w: sp.Symbol) -> Coefficients | None:
    """Coefficients of the expression as a polynomial in w; None if it is not one, or of a degree beyond MAX_DEGREE."""
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
