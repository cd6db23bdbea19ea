"""Quadrature on the reference tetrahedron, which scikit-fem lacks from degree nine and names wrongly from five."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_jacobi
from skfem.quadrature import get_quadrature_tet

Array = NDArray[np.float64]

# scikit-fem's tables hold Keast's rules; those it files under 6, ..., 9 are exact to one degree less.
_FIRST_MISNAMED = 5
_LAST_TABULATED = 8


def tetrahedron_rule(degree: int) -> tuple[Array, Array]:
    """Points (3, n_q) and weights (n_q,) on x, y, z ≥ 0, x + y + z ≤ 1, exact for polynomials of a degree."""
    if degree > _LAST_TABULATED:
        return _collapsed_rule(degree // 2 + 1)
    points, weights = get_quadrature_tet(degree if degree < _FIRST_MISNAMED else degree + 1)
    return np.asarray(points), np.asarray(weights)


def _collapsed_rule(n: int) -> tuple[Array, Array]:
    """∫ f = ∫∫∫ f(a, (1−a)b, (1−a)(1−b)c) (1−a)² (1−b) da db dc over the unit cube, exact to degree 2n − 1.

    The powers of 1 − a and 1 − b are the weights of Gauss–Jacobi rules, so n points per axis suffice.
    """
    (a, w_a), (b, w_b), (c, w_c) = (_jacobi_rule(n, power) for power in (2, 1, 0))
    a, b, c = np.meshgrid(a, b, c, indexing="ij")
    points = np.stack([a, (1 - a) * b, (1 - a) * (1 - b) * c])
    return points.reshape(3, -1), np.einsum("i,j,k->ijk", w_a, w_b, w_c).ravel()


def _jacobi_rule(n: int, power: int) -> tuple[Array, Array]:
    """∫₀¹ f(s) (1 − s)^power ds = Σ w f(s), exact to degree 2n − 1."""
    x, w = roots_jacobi(n, power, 0)
    return (1 + x) / 2, w / 2 ** (power + 1)
