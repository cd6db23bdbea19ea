"""Distributions of one coefficient that state what is known of it: size, sign, bounds, or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bvsi.errors import BvsiError
from bvsi.infer.priors.distribution import LIMIT, Array, RealLine, Smooth, check_number, check_parameters

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Normal(RealLine):
    """p(θ) ∝ exp(−½ (θ − mean)²/variance)."""

    mean: float
    variance: float

    def __post_init__(self) -> None:
        check_parameters(self, "variance")

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """−½ ((x − mean)²/variance + log(2π variance))."""
        return np.asarray(-0.5 * ((x - self.mean) ** 2 / self.variance + LOG_2PI + math.log(self.variance)))

    @np.errstate(over="ignore")
    def gradient(self, x: Array) -> Array:
        """(mean − x)/variance."""
        return np.asarray((self.mean - x) / self.variance)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """mean + √variance ξ."""
        return rng.normal(self.mean, math.sqrt(self.variance), size)


@dataclass(frozen=True)
class LogNormal(RealLine):
    """log θ ~ N(log_mean, log_variance), θ > 0: mean and *variance* of the logarithm, as in the paper."""

    log_mean: float
    log_variance: float

    def __post_init__(self) -> None:
        check_parameters(self, "log_variance")
        v = self.log_variance
        if abs(2 * (self.log_mean + v) + math.log(-math.expm1(-v))) > 2 * math.log(LIMIT):
            raise BvsiError(f"{self}: the variance of θ over- or underflows; give mean and variance of log θ.")

    @property
    def lower(self) -> float:
        """0."""
        return 0.0

    @property
    def mean(self) -> float:
        """exp(log_mean + ½ log_variance)."""
        return math.exp(self.log_mean + 0.5 * self.log_variance)

    @property
    def variance(self) -> float:
        """(exp(log_variance) − 1) mean²."""
        return math.expm1(self.log_variance) * math.exp(2 * self.log_mean + self.log_variance)

    def logpdf(self, x: Array) -> Array:
        """log N(log x; log_mean, log_variance) − log x."""
        log = np.log(np.where(x <= 0, 1.0, x))
        return np.where(x <= 0, -np.inf, self._normal.logpdf(log) - log)

    @np.errstate(over="ignore")
    def gradient(self, x: Array) -> Array:
        """((log_mean − log x)/log_variance − 1)/x."""
        inside = np.where(x <= 0, 1.0, x)
        return np.where(x <= 0, 0.0, (self._normal.gradient(np.log(inside)) - 1) / inside)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """exp(log_mean + √log_variance ξ)."""
        return np.exp(self._normal.sample(size, rng))

    @property
    def _normal(self) -> Normal:
        return Normal(self.log_mean, self.log_variance)


@dataclass(frozen=True)
class HalfNormal(RealLine):
    """p(θ) ∝ exp(−½ θ²/scale²), θ ≥ 0."""

    scale: float

    def __post_init__(self) -> None:
        check_parameters(self, "scale")

    @property
    def lower(self) -> float:
        """0."""
        return 0.0

    @property
    def mean(self) -> float:
        """√(2/π) scale."""
        return math.sqrt(2 / math.pi) * self.scale

    @property
    def variance(self) -> float:
        """(1 − 2/π) scale²."""
        return (1 - 2 / math.pi) * self.scale**2

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """½ log(2/π) − log scale − ½ (x/scale)²."""
        norm = 0.5 * math.log(2 / math.pi) - math.log(self.scale)
        return np.where(x < 0, -np.inf, norm - 0.5 * (x / self.scale) ** 2)

    @np.errstate(over="ignore")
    def gradient(self, x: Array) -> Array:
        """−x/scale²."""
        return np.where(x < 0, 0.0, -x / self.scale**2)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Scale |ξ|."""
        return self.scale * np.abs(rng.standard_normal(size))


@dataclass(frozen=True)
class Uniform(Smooth):
    """p(θ) = 1/(upper − lower) between the two."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_parameters(self)
        check_number("Uniform: upper − lower", self.upper - self.lower, positive=True)

    @property
    def mean(self) -> float:
        """The middle."""
        return 0.5 * (self.lower + self.upper)

    @property
    def variance(self) -> float:
        """(upper − lower)²/12."""
        return (self.upper - self.lower) ** 2 / 12

    def logpdf(self, x: Array) -> Array:
        """−log(upper − lower)."""
        return np.where((x >= self.lower) & (x <= self.upper), -math.log(self.upper - self.lower), -np.inf)

    def gradient(self, x: Array) -> Array:
        """0."""
        return np.zeros_like(x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Even between the bounds."""
        return rng.uniform(self.lower, self.upper, size)


@dataclass(frozen=True)
class Flat(RealLine):
    """p(θ) ∝ 1 on the real line: improper."""

    @property
    def mean(self) -> float:
        """0, by convention."""
        return 0.0

    @property
    def variance(self) -> float:
        """∞."""
        return np.inf

    def logpdf(self, x: Array) -> Array:
        """0."""
        return np.zeros_like(x)

    def gradient(self, x: Array) -> Array:
        """0."""
        return np.zeros_like(x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Refused."""
        raise BvsiError("Flat: an improper prior has no draws; give a proper one, such as Normal(0, 1).")
