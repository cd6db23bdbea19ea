"""Exponential time differencing of fourth order (ETDRK4; Kassam & Trefethen, SIAM J. Sci. Comput. 26, 2005).

    c_t = Λ c + N(c),   Λ diagonal

One step h treats Λ exactly and N with four stages, from functions of z = hΛ such as (e^z − 1)/z. These have a removable
singularity at 0 and lose their digits near it; as means over a circle around z they keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Coefficients = NDArray[Any]
"""Real or complex."""

_CONTOUR_POINTS = 64


@dataclass(frozen=True, eq=False)
class ETDRK4:
    """One step of length h: e^{hΛ}, e^{hΛ/2} and the weights of N, each of the shape of Λ."""

    whole: Coefficients
    half: Coefficients
    stage: Coefficients
    first: Coefficients
    middle: Coefficients
    last: Coefficients

    @classmethod
    def of(cls, linear: Coefficients, h: float) -> ETDRK4:
        """The step for Λ = ``linear``, real or complex; real weights for real Λ."""
        z = h * linear
        weights = np.zeros((4, *z.shape), dtype=complex)
        for angle in 2 * np.pi * (np.arange(_CONTOUR_POINTS) + 0.5) / _CONTOUR_POINTS:
            w = z + np.exp(1j * angle)
            e, w3 = np.exp(w), w**3
            weights[0] += (np.exp(w / 2) - 1) / w
            weights[1] += (-4 - w + e * (4 - 3 * w + w**2)) / w3
            weights[2] += (2 + w + e * (w - 2)) / w3 * 2
            weights[3] += (-4 - 3 * w - w**2 + e * (4 - w)) / w3
        weights *= h / _CONTOUR_POINTS
        stage, first, middle, last = weights if np.iscomplexobj(z) else weights.real
        return cls(np.exp(z), np.exp(z / 2), stage, first, middle, last)

    def advance(self, c: Coefficients, count: int, N: Callable[[Coefficients], Coefficients]) -> Coefficients:
        """c after ``count`` steps."""
        for _ in range(count):
            at_start, decayed = N(c), self.half * c
            a = decayed + self.stage * at_start
            at_a = N(a)
            at_b = N(decayed + self.stage * at_a)
            at_end = N(self.half * a + self.stage * (2 * at_b - at_start))
            c = self.whole * c + self.first * at_start + self.middle * (at_a + at_b) + self.last * at_end
        return c
