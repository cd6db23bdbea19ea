"""Distributions of one coefficient that state what is known of it: size, sign, bounds, or nothing."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError

#: Largest parameter, and its inverse the smallest scale: squares and precisions stay finite.
LIMIT = 1e150
LOG_2PI = math.log(2 * math.pi)  # of the constant of a normal density


Matched = Literal["moments", "quartiles"]

REAL = (int, float, np.integer, np.floating)


@runtime_checkable
class Distribution(Protocol):
    """A distribution of one coefficient θ."""

    @property
    def lower(self) -> float:
        """Lower end of the support."""

    @property
    def upper(self) -> float:
        """Upper end of the support."""

    @property
    def kink(self) -> float | None:
        """Where the density has a corner −|θ − kink|/kink_scale in its logarithm, if it has."""

    @property
    def kink_scale(self) -> float:
        """Scale of the corner; infinite where there is none."""

    @property
    def mean(self) -> float:
        """Mean of the matching Gaussian."""

    @property
    def variance(self) -> float:
        """Variance of the matching Gaussian; infinite where the density is flat."""

    @property
    def matched_by(self) -> Matched:
        """Whether the matching Gaussian has the same mean and variance, or the same median and quartiles."""

    def logpdf(self, x: Array) -> Array:
        """log p(x), elementwise; −∞ outside the support."""

    def gradient(self, x: Array) -> Array:
        """d log p/dx, elementwise; 0 at a corner and outside the support."""

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws, (size,)."""


class Smooth:
    """No corner; mean and variance exist."""

    kink: float | None = None
    kink_scale: float = np.inf
    matched_by: Matched = "moments"

    def __str__(self: _Parametric) -> str:
        values = ", ".join(f"{getattr(self, entry.name):.4g}" for entry in fields(self))
        return f"{type(self).__name__}({values})"


class RealLine(Smooth):
    """As :class:`Smooth`, on the whole real line."""

    lower: float = -np.inf
    upper: float = np.inf


class _Parametric(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def check_parameters(law: _Parametric, *positive: str) -> None:
    """Refuse parameters that are not finite numbers; those named in ``positive`` have to be positive."""
    for entry in fields(law):
        number = check_number(f"{type(law).__name__}: {entry.name}", getattr(law, entry.name), entry.name in positive)
        object.__setattr__(law, entry.name, number)  # small NumPy integers would overflow in squares


def check_number(label: str, value: object, positive: bool) -> float:
    """The value as a float."""
    lowest = 1 / LIMIT if positive else -LIMIT
    if isinstance(value, REAL) and not isinstance(value, bool) and lowest <= value <= LIMIT:
        return float(value)
    wanted = f"a positive number from {1 / LIMIT:.0e} to {LIMIT:.0e}" if positive else "a finite number"
    raise BvsiError(f"{label} has to be {wanted}, not {value!r}.")


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

    def sample(self, size: int, rng: Rng) -> Array:
        """mean + √variance ξ."""
        return rng.normal(self.mean, math.sqrt(self.variance), size)


@dataclass(frozen=True)
class LogNormal(RealLine):
    """log θ ~ N(log_mean, log_variance), θ > 0: mean and *variance* of the logarithm, as in the paper."""

    log_mean: float
    log_variance: float
    lower = 0.0

    def __post_init__(self) -> None:
        check_parameters(self, "log_variance")
        v = self.log_variance
        if abs(2 * (self.log_mean + v) + math.log(-math.expm1(-v))) > 2 * math.log(LIMIT):
            raise BvsiError(f"{self}: the variance of θ over- or underflows; give mean and variance of log θ.")

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

    def sample(self, size: int, rng: Rng) -> Array:
        """exp(log_mean + √log_variance ξ)."""
        return np.exp(self._normal.sample(size, rng))

    @property
    def _normal(self) -> Normal:
        return Normal(self.log_mean, self.log_variance)


@dataclass(frozen=True)
class HalfNormal(RealLine):
    """p(θ) ∝ exp(−½ θ²/scale²), θ ≥ 0."""

    scale: float
    lower = 0.0

    def __post_init__(self) -> None:
        check_parameters(self, "scale")

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

    def sample(self, size: int, rng: Rng) -> Array:
        """Scale ``|ξ|``."""
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

    def sample(self, size: int, rng: Rng) -> Array:
        """Even between the bounds."""
        return rng.uniform(self.lower, self.upper, size)


@dataclass(frozen=True)
class Flat(RealLine):
    """p(θ) ∝ 1 on the real line: improper."""

    mean = 0.0  # by convention
    variance = np.inf

    def logpdf(self, x: Array) -> Array:
        """0."""
        return np.zeros_like(x)

    def gradient(self, x: Array) -> Array:
        """0."""
        return np.zeros_like(x)

    def sample(self, size: int, rng: Rng) -> Array:  # noqa: ARG002
        """Refused."""
        raise BvsiError("Flat: an improper prior has no draws; give a proper one, such as Normal(0, 1).")
