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
from scipy.interpolate import BSpline
from sympy.core.expr import AtomicExpr

from bvsi.common.arrays import Array

DEGREE = 3  # cubic: two derivatives, which a flux needs


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
