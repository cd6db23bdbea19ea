"""Gaussian priors by operator name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.naming import matches

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianPrior:
    """θ_i ~ N(mean_i, variance_i), independent, by operator name.

    terms: name → (mean, variance). default: (mean, variance) of operators that are not named; None leaves them flat.
    """

    terms: Mapping[str, tuple[float, float]]
    default: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name, entry in {**self.terms, "default": self.default or (0.0, 1.0)}.items():
            try:
                mean, variance = (float(value) for value in entry)
                usable = np.isfinite(mean) and np.isfinite(variance) and variance > 0
            except (TypeError, ValueError):
                usable = False
            if not usable:
                raise BvsiError(f"prior of {name!r}: a pair (mean, variance > 0) is needed, not {entry!r}.")

    def bind(self, names: tuple[str, ...]) -> BoundPrior:
        """Mean and precision for a list of operators."""
        mean, precision = np.zeros(len(names)), np.zeros(len(names))
        if self.default is not None:
            mean[:], precision[:] = self.default[0], 1 / self.default[1]
        for name, (m, variance) in self.terms.items():
            for i in matches(name, names):  # none where the model at hand lacks the operator
                mean[i], precision[i] = m, 1 / variance
        return BoundPrior(mean, np.diag(precision))


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


def bind_prior(prior: GaussianPrior | None, names: tuple[str, ...]) -> BoundPrior:
    """The prior for a list of operators; None is flat."""
    return GaussianPrior({}).bind(names) if prior is None else prior.bind(names)


@dataclass(frozen=True)
class InverseGammaPrior:
    """σ² ~ Inv-Gamma(alpha, beta). The default is the reference prior p(σ²) ∝ 1/σ²."""

    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and np.isfinite(self.beta) and self.alpha >= 0 and self.beta >= 0):
            raise BvsiError(f"Inverse-Gamma prior: alpha and beta must not be negative, got {self.alpha}, {self.beta}.")
