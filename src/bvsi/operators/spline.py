"""Splines as functions of the operator language: ``spline(x, low, high, c_1, …, c_M)``. ::

s(x) = Σ_m c_m B_m(x),      B_m cubic, on M − 3 equal intervals from low to high;  constant beyond them
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline, PPoly
from sympy.core.expr import AtomicExpr

from bvsi.common.arrays import Array
from bvsi.errors import OperatorError

DEGREE = 3  # cubic: two derivatives, which a flux needs
# Part of the largest coefficient of a formula below which one is rounding.
_ROUNDING = 1e-12


class Table(AtomicExpr):  # type: ignore[misc]  # SymPy has no types
    """Numbers low, high, c_1, …, c_M as one atom, so that SymPy has nothing to do with each of them."""

    __slots__ = ("values",)
    values: tuple[float, ...]

    def __new__(cls, *values: float) -> Table:
        """The atom of some numbers."""
        made: Table = AtomicExpr.__new__(cls)
        made.values = tuple(map(float, values))
        return made

    def _hashable_content(self) -> tuple[float, ...]:
        return self.values

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, self.values

    def _sympystr(self, printer: object) -> str:  # noqa: ARG002
        return repr(self.values)

    _numpycode = _pythoncode = _sympystr


class spline(sp.Function):  # type: ignore[misc]  # noqa: N801 (the name in texts, and in compiled kernels)
    """s^(n)(x), with the arguments x, n and a table; n = −1 is an antiderivative."""

    nargs = 3

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """s^(n+1); deltas of the fourth derivative are left out."""
        if argindex != 1:
            raise sp.ArgumentIndexError(self, argindex)
        return self.raised(1) if self.args[1] < DEGREE else sp.Integer(0)

    def raised(self, by: int) -> sp.Expr:
        """s^(n + by)."""
        x, n, table = self.args
        return spline(x, n + by, table)

    def _eval_is_extended_real(self) -> bool:
        return True


def spline_values(x: ArrayLike, n: int, table: tuple[float, ...]) -> Array:
    """s^(n) at x, of any shape."""
    x, (low, high) = np.asarray(x, dtype=float), table[:2]
    inside = np.clip(x, low, high)
    value = np.asarray(_spline(table, int(n))(inside))
    if n > 0:
        return np.where(inside == x, value, 0.0)
    for j in range(1, 1 - int(n)):  # beyond the ends s is constant, and its antiderivatives are polynomials
        value = value + _spline(table, int(n) + j)(inside) * (x - inside) ** j / math.factorial(j)
    return value


def spline_formula(node: sp.Expr) -> sp.Expr:
    """The same in powers, ``Abs`` and ``sign``, for programs that have no splines; n from −1 to 2.

    s^(n)(x) = P(ξ) + Σ_k a_k (ξ − k)₊^p,  p = 3 − n,  ξ = (y − low)/h,  y = x kept between low and high
    """
    x, n, (low, high, *c) = node.args[0], int(node.args[1]), node.args[2].values
    if not -1 <= n < DEGREE:
        raise OperatorError(f"spline: derivative {n} of an unknown function has no formula.")
    m = len(c) - DEGREE
    h = (high - low) / m
    y = (sp.Abs(x - low) - sp.Abs(x - high) + low + high) / 2
    at = PPoly.from_spline(_spline(node.args[2].values, n))
    first = int(np.searchsorted(at.x, low - 0.5 * h))
    pieces = at.c[:, first : first + m] * h ** np.arange(DEGREE - n, -1, -1)[:, None]
    value = _powers((y - low) / h, pieces, DEGREE - n)
    if n > 0:
        return value * (sp.sign(x - low) - sp.sign(x - high)) / 2
    return value + (x - y) * spline_formula(spline(x, sp.Integer(0), node.args[2])) if n else value


def _powers(xi: sp.Expr, pieces: Array, p: int) -> sp.Expr:
    """P(ξ) + Σ_k a_k (ξ − k)₊^p of polynomials on unit intervals, highest power first, (p + 1, m)."""
    jumps, size = np.diff(pieces[0]), float(np.abs(pieces).max())
    terms = [float(a) * xi ** (p - i) for i, a in enumerate(pieces[:, 0]) if abs(a) > _ROUNDING * size]
    for k, a in enumerate(jumps, 1):
        if abs(a) > _ROUNDING * size:
            terms.append(float(a) * (xi - k) ** (p - 1) * (xi - k + sp.Abs(xi - k)) / 2)
    return sp.Add(*terms)


@lru_cache(maxsize=256)
def _spline(table: tuple[float, ...], n: int) -> Any:
    low, high, *c = table
    plain = BSpline(knots(low, high, len(c)), np.array(c), DEGREE)
    return plain.derivative(n) if n > 0 else plain.antiderivative(-n) if n else plain


def knots(low: float, high: float, count: int) -> Array:
    """Knots of ``count`` cubic B-splines whose sum is one between low and high."""
    step = (high - low) / (count - DEGREE)
    found = low + step * np.arange(-DEGREE, count + 1)
    found[count] = high  # to the last digit
    return np.asarray(found)


def basis(x: Array, low: float, high: float, count: int) -> Array:
    """B_m(x) of (n,) points, (n, count)."""
    return np.asarray(BSpline.design_matrix(np.clip(x, low, high), knots(low, high, count), DEGREE).toarray())
