"""The free energy of the paper's Cahn–Hilliard case (eq:cahn_hilliard_energy).

    g(c₁, c₂) = 3d/(2s⁴) (u² + v²)² + d/s³ v (v² − 3u²) − 3d/(2s²) (u² + v²),   u = 2c₁ − 1,   v = 2c₂ − 1

It is expanded once, g = Σ G[a, b] c₁ᵃ c₂ᵇ; everything here is evaluated from the array G.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.polynomial import polyder, polyval2d
from numpy.typing import NDArray
from scipy.signal import convolve2d

Array = NDArray[np.float64]
Exponents = tuple[int, int]

FIELDS = ("c1", "c2")
D = 0.4
S = 0.7
MOBILITY = 0.1
GRADIENT_ENERGY = 10.0
"""d, s, m₁ = m₂ and k₁ = k₂ (eq:CH_generation_parameters)."""

DEGREE = 5
"""Highest degree of the candidate polynomials (eq:CH_polynomial_sets); that of g is 4."""

_ROUNDING = 1e-9


def _product(*factors: Array) -> Array:
    """Coefficients of the product of polynomials, each a (degree + 1)² array, cut at the same degrees."""
    result, *others = factors
    for factor in others:
        result = convolve2d(result, factor)[: result.shape[0], : result.shape[1]]
    return result


def _expansion() -> Array:
    """G[a, b] of g = Σ G[a, b] c₁ᵃ c₂ᵇ."""
    u, v = np.zeros((2, 5, 5))
    u[:2, 0] = v[0, :2] = -1.0, 2.0
    u2, v2 = _product(u, u), _product(v, v)
    quartic, cubic, quadratic = _product(u2 + v2, u2 + v2), _product(v, v2 - 3 * u2), u2 + v2
    return 3 * D / (2 * S**4) * quartic + D / S**3 * cubic - 3 * D / (2 * S**2) * quadratic


_G = _expansion()
_G1, _G2 = polyder(_G, axis=0), polyder(_G, axis=1)

COEFFICIENTS: dict[Exponents, float] = {
    (int(a), int(b)): float(MOBILITY * _G[a, b])
    for a, b in np.argwhere(np.abs(MOBILITY * _G) > _ROUNDING)
    if 2 <= a + b <= DEGREE
}
"""Effective coefficients η = m G[a, b] of the terms c₁ᵃ c₂ᵇ that the equations see (eq:CH_effective_coefficients)."""


def energy(c1: Array, c2: Array) -> Array:
    """g(c₁, c₂)."""
    return np.asarray(polyval2d(c1, c2, _G), dtype=np.float64)


def chemical(c1: Array, c2: Array) -> tuple[Array, Array]:
    """(∂g/∂c₁, ∂g/∂c₂), the chemical potentials without the gradient energy."""
    g1, g2 = (np.asarray(polyval2d(c1, c2, derivative), dtype=np.float64) for derivative in (_G1, _G2))
    return g1, g2
