"""Numbers with bounds, mapped to the whole line one by one.

v = z,   l + e^z,   u − e^z   or   l + (u − l)/(1 + e^{−z})
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.intp]

# Beyond this z the map has no digits left; e^z would overflow.
_STEEPEST = 500.0


@dataclass(frozen=True, eq=False)
class Slope:
    """∂v/∂z, log |∂v/∂z| and its derivative, each (…, n)."""

    value: Array
    log: Array
    log_gradient: Array


@dataclass(frozen=True, eq=False)
class Bounded:
    """lower, upper: bounds of v (n,), infinite where none is."""

    lower: Array
    upper: Array

    @cached_property
    def _cases(self) -> tuple[Integers, Integers, Integers]:
        """Positions with a lower bound only, an upper bound only, and both."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        return np.flatnonzero(low & ~high), np.flatnonzero(high & ~low), np.flatnonzero(low & high)

    @property
    def any(self) -> bool:
        """Whether there is a bound."""
        return any(len(case) for case in self._cases)

    def forward(self, z: Array) -> tuple[Array, Slope]:
        """v and its slope, for z (…, n)."""
        v, one, zero = z.copy(), np.ones_like(z), np.zeros_like(z)
        slope = Slope(one, zero, zero.copy())
        for positions, bound, sign in zip(self._cases[:2], (self.lower, self.upper), (1.0, -1.0), strict=True):
            if len(positions):
                exponent = np.clip(z[..., positions], -_STEEPEST, _STEEPEST)
                power = sign * np.exp(exponent)
                v[..., positions] = bound[positions] + power
                slope.value[..., positions], slope.log[..., positions] = power, exponent
                slope.log_gradient[..., positions] = 1.0
        if len(both := self._cases[2]):
            exponent = np.clip(z[..., both], -_STEEPEST, _STEEPEST)
            width, share = self.upper[both] - self.lower[both], scipy.special.expit(exponent)
            v[..., both] = self.lower[both] + width * share
            slope.value[..., both] = width * share * (1 - share)
            halves = scipy.special.log_expit(exponent) + scipy.special.log_expit(-exponent)
            slope.log[..., both] = np.log(width) + halves
            slope.log_gradient[..., both] = 1 - 2 * share
        return v, slope

    def inverse(self, v: Array) -> Array:
        """z, for v (…, n) inside the bounds; what rounding puts on them is taken to be next to them."""
        z, tiny = v.copy(), np.finfo(float).tiny
        low, high, both = self._cases
        z[..., low] = np.log(np.maximum(v[..., low] - self.lower[low], tiny))
        z[..., high] = np.log(np.maximum(self.upper[high] - v[..., high], tiny))
        above = np.log(np.maximum(v[..., both] - self.lower[both], tiny))
        z[..., both] = above - np.log(np.maximum(self.upper[both] - v[..., both], tiny))
        return z
