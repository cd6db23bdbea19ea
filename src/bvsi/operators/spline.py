"""Splines as functions of the operator language: ``spline(x, low, high, c_1, …, c_M)``. ::

    s(x) = Σ_m c_m B_m(x),      B_m cubic, on M − 3 equal intervals from low to high;  constant beyond them
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from bvsi.common.arrays import Array

DEGREE = 3


class spline(sp.Function):  # type: ignore[misc]  # noqa: N801 (the name in texts, and in compiled kernels)
    """s^(n)(x), with the arguments x, n, low, high, c_1, …, c_M; n = −1 is an antiderivative."""

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """s^(n+1); the arguments after x are numbers. Deltas of the fourth derivative are left out."""
        if argindex != 1:
            raise sp.ArgumentIndexError(self, argindex)
        return self.raised(1) if self.args[1] < DEGREE else sp.Integer(0)

    def raised(self, by: int) -> sp.Expr:
        """s^(n + by)."""
        x, n, *rest = self.args
        return spline(x, n + by, *rest)

    def _eval_is_extended_real(self) -> bool:
        return True


def spline_values(x: ArrayLike, n: int, low: float, high: float, *coefficients: float) -> Array:
    """s^(n) at x, of any shape."""
    x = np.asarray(x, dtype=float)
    inside = np.clip(x, low, high)
    value = np.asarray(_spline(low, high, coefficients, int(n))(inside))
    if n > 0:
        return np.where(inside == x, value, 0.0)
    for j in range(1, 1 - int(n)):  # beyond the ends s is constant, and its antiderivatives are polynomials
        value = value + _spline(low, high, coefficients, int(n) + j)(inside) * (x - inside) ** j / math.factorial(j)
    return value


@lru_cache(maxsize=256)
def _spline(low: float, high: float, coefficients: tuple[float, ...], n: int) -> Any:
    plain = BSpline(knots(low, high, len(coefficients)), np.array(coefficients, dtype=float), DEGREE)
    return plain.derivative(n) if n > 0 else plain.antiderivative(-n) if n else plain


def knots(low: float, high: float, count: int) -> Array:
    """Knots of ``count`` cubic B-splines whose sum is one between low and high."""
    step = (high - low) / (count - DEGREE)
    return np.asarray(low + step * np.arange(-DEGREE, count + 1))


def basis(x: Sequence[float] | Array, low: float, high: float, count: int) -> Array:
    """B_m(x), (len(x), count)."""
    rows = BSpline.design_matrix(np.clip(np.asarray(x, dtype=float), low, high), knots(low, high, count), DEGREE)
    return np.asarray(rows.toarray())
