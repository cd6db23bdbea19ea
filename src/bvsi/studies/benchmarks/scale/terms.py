"""Candidates ∂^α f(u) as records, from which both operator texts and the plain weak form are made.

All derivatives stand outside, so that they go onto the test functions. f is a monomial of fields and known fields, or a
sine or cosine of a multiple of a field. With noise of variance σ² in a field its mean without bias is

    u^p → He_p(u, σ²) = Σ_m (−σ²/2)^m p! / (m! (p − 2m)!) u^{p−2m},        sin(m u) → e^{m²σ²/2} sin(m u)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MultiIndex = tuple[int, ...]

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Integrand:
    """Π u^p of fields and known fields; or sin(m u), cos(m u) of the one field, where ``wave`` names it.

    Attributes
    ----------
    powers
        Name and power of each factor; the multiple m of a wave.
    """

    powers: tuple[tuple[str, int], ...] = ()
    wave: str = ""

    @property
    def text(self) -> str:
        """As an operator is written."""
        if self.wave:
            ((name, m),) = self.powers
            return f"{self.wave}({name})" if m == 1 else f"{self.wave}({m}*{name})"
        return "*".join(name if p == 1 else f"{name}**{p}" for name, p in self.powers) or "1"

    def unbiased(self, values: Mapping[str, Array], variance: Mapping[str, float]) -> Array:
        """Values whose mean over the noise is f without it; known fields have no variance."""
        if self.wave:
            ((name, m),) = self.powers
            return math.exp(m**2 * variance[name] / 2) * np.asarray(getattr(np, self.wave)(m * values[name]))
        result = np.ones(1)
        for name, p in self.powers:
            result = result * hermite(values[name], p, variance.get(name, 0.0))
        return result


def hermite(u: Array, p: int, variance: float) -> Array:
    """He_p(u, σ²): E[He_p(u + ε, σ²)] = u^p for ε ~ N(0, σ²); by He_{p+1} = u He_p − p σ² He_{p−1}."""
    before, value = np.zeros(1), np.ones(1)
    for k in range(p):
        before, value = value, u * value - k * variance * before
    return np.asarray(value)


@dataclass(frozen=True)
class Term:
    """∂^α f."""

    function: Integrand
    derivative: MultiIndex

    @property
    def text(self) -> str:
        """As an operator is written: ``dx(dx(u**2))``."""
        letters = [name for name, m in zip(AXES, self.derivative, strict=False) for _ in range(m)]
        return "".join(f"d{name}(" for name in letters) + self.function.text + ")" * len(letters)


def monomials(fields: Sequence[str], degree: int) -> tuple[Integrand, ...]:
    """All monomials of degree 1 … degree."""
    powers = [p for p in product(range(degree + 1), repeat=len(fields)) if 1 <= sum(p) <= degree]
    powers.sort(key=lambda p: (sum(p), [-one for one in p]))
    return tuple(monomial(**{f: k for f, k in zip(fields, p, strict=True) if k}) for p in powers)


def monomial(**powers: int) -> Integrand:
    """One monomial: ``monomial(u=2, v=1)``."""
    return Integrand(tuple(sorted(powers.items())))


def pure(dim: int, order: int) -> tuple[MultiIndex, ...]:
    """No derivative, and those along one axis up to an order: 1 + dim · order."""
    along = [tuple(m if a == axis else 0 for a in range(dim)) for axis in range(dim) for m in range(1, order + 1)]
    return ((0,) * dim, *along)


def under(functions: Sequence[Integrand], derivatives: Sequence[MultiIndex]) -> tuple[Term, ...]:
    """Every function under every derivative."""
    return tuple(Term(f, alpha) for f in functions for alpha in derivatives)
