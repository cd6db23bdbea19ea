"""Symbolic work that is bounded before it is begun: constants of moderate size, expressions of moderate length.

|c| ∈ {0} ∪ [1e-100, 1e100]

SymPy would accept √−1, 1/0 or exp(exp(exp(9))) and stumble over them later, or never end. So each constant is
evaluated with plain floats as it arises, from the inside out, before SymPy works with it. Its symbolic form (1/3, √2,
π) is kept for people to read. Expressions are multiplied out only where few terms come of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from bvsi.common.naming import FUNCTION_NAMES
from bvsi.errors import OperatorError
from bvsi.operators.syntax import MAX_CONSTANT, MAX_EXPONENT

# Largest denominator of an exponent that is given as a float: u**1.5 is u**(3/2). Not measured.
_MAX_DENOMINATOR = 64
# Powers beyond this lose more than three digits of a rounded base, (1 + ε)^n ≈ 1 + nε.
_MAX_FLOAT_POWER = 1000
# Symbols and operations in an expression that is still worked with. Not measured.
MAX_SIZE = 5000
# Summands that an expansion may have. Not measured.
MAX_TERMS = 200

_REAL: dict[Any, Callable[[float], float]] = {
    **{getattr(sp, name): getattr(math, name) for name in FUNCTION_NAMES},
    sp.cot: lambda a: 1 / math.tan(a),  # SymPy writes tan(a + π/2) as −cot(a)
    sp.Abs: abs,
}


def number(value: int | float) -> sp.Expr:
    """A literal of the text: an integer stays exact, a float keeps all its digits."""
    _moderate(value)
    if value == 0:
        return sp.Integer(0)
    return sp.Integer(value) if isinstance(value, int) else sp.Float(value, 17)


def real_value(constant: sp.Expr) -> float:
    """The float of a constant expression; what is not a finite real number is refused."""
    try:
        return _value(constant)
    except (ArithmeticError, ValueError, TypeError, KeyError):
        raise OperatorError(
            "a constant in the operator is not a finite real number; remove it, or keep roots, logarithms and "
            "quotients where they are defined."
        ) from None


def is_constant(expression: sp.Expr, known: Collection[sp.Symbol] = ()) -> bool:
    """Whether it has numbers only, and parameters, which are dummies, or known quantities."""
    return all(isinstance(symbol, sp.Dummy) or symbol in known for symbol in expression.free_symbols)


def checked(expression: sp.Expr) -> sp.Expr:
    """The expression itself, once the constants among its summands and factors are known to be moderate.

    Called after every operation, so that constants deeper inside have been seen before.
    """
    if expression.is_number:
        value = _moderate(real_value(expression))
        if value == 0 and not expression.is_Rational and not expression.is_Float:
            raise _beyond()  # exp(-1000) is not zero, but its float is
        return sp.Integer(0) if value == 0 else expression
    for term in sp.Add.make_args(expression):
        factors = [factor for factor in sp.Mul.make_args(term) if factor.is_number]
        if factors and _moderate(math.prod(real_value(factor) for factor in factors)) == 0:
            raise _beyond()
    return expression


def apply(function: Any, argument: sp.Expr) -> sp.Expr:
    """f(a); for a constant a the value is known before SymPy is asked."""
    if argument.is_number:
        try:
            value = _REAL[function](real_value(argument))
        except OverflowError:
            raise _beyond() from None
        except ValueError:
            raise OperatorError(f"{function.__name__} is not defined at the constant it is given.") from None
        _moderate(value)
    result: sp.Expr = function(argument)
    return checked(result)


class Power(sp.Function):  # type: ignore[misc]  # SymPy has no types
    """|b|^p, and its odd continuation sign(b) |b|^p: what b^n is where noise makes b negative. ::

        (b |b|^(n−1))' = n |b|^(n−1),      (|b|^p)' = p b |b|^(p−2),      ∂/∂p = log|b| times it

    Parameters
    ----------
    args
        b, p, and 1 for the odd one, 0 for the even one.
    """

    nargs = 3
    precedence = PRECEDENCE["Pow"]

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """The derivative by b, or by p."""
        base, p, odd = self.args
        return p * Power(base, p - 1, 1 - odd) if argindex == 1 else sp.log(sp.Abs(base)) * self

    def _sympystr(self, printer: StrPrinter) -> str:
        base, p, odd = self.args
        return str(printer.doprint((base if odd else sp.Abs(base, evaluate=False)) ** p))


def power_values(base: Any, p: Any, odd: Any) -> Any:
    """Values of :class:`Power`."""
    size = np.abs(base) ** p
    return np.copysign(size, base) if odd else size


def whole_power(base: Any, n: int) -> Any:
    """bⁿ, n ≥ 2, by squares: NumPy's power takes ten times as long."""
    if n % 2:
        return base if n == 1 else base * whole_power(base, n - 1)
    half = whole_power(base, n // 2)
    return half * half


def plain_powers(expression: sp.Expr) -> sp.Expr:
    """The expression with b^p in the place of its continuations."""
    return expression.replace(Power, lambda base, p, _: base**p)


def power(base: sp.Expr, exponent: sp.Expr, *, measured: bool = False) -> sp.Expr:
    """b^n for a number n, bounded in what the power comes to: (2u⁹)⁹ is a power of 81.

    Parameters
    ----------
    measured
        Whether the base has noise: fractional powers above one of products, such as u**2.5 or (u/K)**n, then go on
        oddly where these are negative.
    """
    signed = measured and (base.is_Symbol or base.is_Mul) and base.is_nonnegative is None
    if is_constant(exponent) and not exponent.is_number:
        # a parameter, by which is differentiated; its value was seen with the operator itself
        return Power(base, exponent, sp.Integer(1)) if signed else base**exponent
    if not exponent.is_number:
        raise OperatorError("an exponent that is not a number; write exp(...) for other powers.")
    n = real_value(exponent)
    exponent = _as_fraction(exponent, n)
    if base == 0 and n <= 0:
        raise OperatorError("zero cannot be raised to a power that is not positive.")
    if base.is_number:
        return _constant_power(base, exponent, n)
    _bound_exponent(n)
    if signed and n > 1 and not n.is_integer():
        return Power(base, exponent, sp.Integer(1))
    result = base**exponent
    _bound_exponent(_highest_power(result))
    return checked(result)


def _value(constant: sp.Expr) -> float:
    if constant.is_Rational or constant.is_Float or constant.is_NumberSymbol:
        return float(constant)
    values = [_value(argument) for argument in constant.args]
    if constant.is_Add:
        value = math.fsum(values)
    elif constant.is_Mul:
        value = math.prod(values)
    elif constant.is_Pow:
        value = math.pow(*values)
    else:
        value = _REAL[constant.func](*values)
    if not math.isfinite(value):
        raise OverflowError
    return value


def _moderate(value: float) -> float:
    if value != 0 and not 1 / MAX_CONSTANT <= abs(value) <= MAX_CONSTANT:
        raise _beyond()
    return value


def _beyond() -> OperatorError:
    return OperatorError(
        f"a constant in the operator is larger than {MAX_CONSTANT:g} or smaller than {1 / MAX_CONSTANT:g}; "
        "rescale the data or the operator."
    )


def _as_fraction(exponent: sp.Expr, n: float) -> sp.Expr:
    """1.5 as 3/2: powers have rules for fractions, floats have none."""
    if exponent.is_Float and (n * _MAX_DENOMINATOR).is_integer():
        return sp.Rational(int(n * _MAX_DENOMINATOR), _MAX_DENOMINATOR)
    return exponent


def _constant_power(base: sp.Expr, exponent: sp.Expr, n: float) -> sp.Expr:
    try:
        value = math.pow(real_value(base), n)
    except OverflowError:
        raise _beyond() from None
    except ValueError:
        raise OperatorError("a negative number cannot be raised to a power that is not an integer.") from None
    if value == 0 and base != 0:
        raise _beyond()
    _moderate(value)
    if _short_digits(base, n):
        return checked(base**exponent)
    if not base.is_Float and abs(n) > _MAX_FLOAT_POWER:  # (1 + 1/10**50)**10**50 is e, but 1.0 in floats
        raise OperatorError(f"a constant to the power of {n:g} loses its digits; write its value.")
    return sp.Float(value, 17)


def _short_digits(base: sp.Expr, n: float) -> bool:
    """Whether the exact power is short to write."""
    if not base.is_Rational:
        return abs(n) <= MAX_EXPONENT
    return abs(n) * math.log(max(abs(base.p), base.q)) <= math.log(MAX_CONSTANT) + 1


def _highest_power(expression: sp.Expr) -> float:
    if expression.is_Mul:
        return max(_highest_power(factor) for factor in expression.args)
    if expression.is_Pow and expression.exp.is_number and not expression.base.is_number:
        return abs(real_value(expression.exp)) * max(1.0, _highest_power(expression.base))
    return 0.0


def _bound_exponent(n: float) -> None:
    if abs(n) > MAX_EXPONENT:
        raise OperatorError(f"a power of {n:g} is beyond {MAX_EXPONENT}; rescale the field or use exp(...).")


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
    """The largest parts that are not sums, products or powers of others."""
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
