"""Anderson acceleration of a fixed-point iteration θ ← Φ(θ).

    θ_+ = θ + f − (ΔΘ + ΔF) γ,     γ = argmin ‖f − ΔF γ‖,     f = Φ(θ) − θ

ΔΘ, ΔF: differences of the last θ and f, (d, m). The error of a linear Φ is gone after as many steps as it has
directions in which it converges slowly, whatever its rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Differences that are kept, and the part of the largest singular value below which a direction is rounding.
_DEPTH = 5
_CUT = 1e-8


class Anderson:
    """Where to go next; a step that made ‖f‖ larger makes it forget what came before, and go to Φ(θ)."""

    def __init__(self) -> None:
        self._steps: list[tuple[Array, Array]] = []

    def next(self, theta: Array, image: Array, sd: Array) -> Array:
        """θ_+ from θ and Φ(θ), lengths in units of sd (d,)."""
        f = image - theta
        if self._steps and np.linalg.norm(f / sd) > np.linalg.norm(self._steps[-1][1] / sd):
            self._steps.clear()
        self._steps = [*self._steps[-_DEPTH:], (theta, f)]
        if len(self._steps) < 2:
            return image
        dTheta, dF = (np.diff(np.stack(column, axis=1), axis=1) for column in zip(*self._steps, strict=True))
        gamma = np.linalg.lstsq(dF / sd[:, None], f / sd, rcond=_CUT)[0]
        return np.asarray(image - (dTheta + dF) @ gamma)
