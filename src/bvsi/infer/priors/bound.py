"""A Gaussian prior for a list of operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bvsi.infer.priors.distribution import Array


@dataclass(frozen=True, eq=False)
class BoundPrior:
    """Mean (d,) and precision matrix (d, d); a zero precision is a flat prior."""

    mean: Array
    precision: Array

    def gradient(self, theta: Array) -> Array:
        """Σ_0⁻¹ (μ_0 − θ)."""
        return np.asarray(self.precision @ (self.mean - theta))

    def distance(self, theta: Array) -> float:
        """(θ − μ_0)ᵀ Σ_0⁻¹ (θ − μ_0)."""
        return float((theta - self.mean) @ self.precision @ (theta - self.mean))
