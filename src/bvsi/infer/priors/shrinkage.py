"""Distributions that draw small coefficients to their centre and spare large ones: Laplace, Student-t, horseshoe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError
from bvsi.infer.priors.distributions import LIMIT, RealLine, check_parameters

NORMAL_QUARTILE = float(scipy.special.ndtri(0.75))  # of N(0, 1), for Gaussians that match quartiles


@dataclass(frozen=True)
class Laplace(RealLine):
    """p(θ) = exp(−|θ − location|/scale)/(2 scale)."""

    location: float
    scale: float

    def __post_init__(self) -> None:
        check_parameters(self, "scale")
        object.__setattr__(self, "kink", self.location)
        object.__setattr__(self, "kink_scale", self.scale)

    @property
    def mean(self) -> float:
        """The location."""
        return self.location

    @property
    def variance(self) -> float:
        """2 scale²."""
        return 2 * self.scale**2

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """−|x − location|/scale − log(2 scale)."""
        return np.asarray(-np.abs(x - self.location) / self.scale - math.log(2 * self.scale))

    def gradient(self, x: Array) -> Array:
        """−sign(x − location)/scale: the symmetric subgradient 0 at the corner."""
        return np.asarray(-np.sign(x - self.location) / self.scale)

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws, (size,)."""
        return rng.laplace(self.location, self.scale, size)


@dataclass(frozen=True)
class StudentT(RealLine):
    """p(θ) ∝ (1 + z²/dof)^(−(dof + 1)/2),  z = (θ − location)/scale."""

    dof: float
    location: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_parameters(self, "dof", "scale")
        # where dof ≤ 2 there is no variance
        object.__setattr__(self, "matched_by", "moments" if self.dof > 2 else "quartiles")

    @property
    def mean(self) -> float:
        """The location: mean where there is one, and median."""
        return self.location

    @property
    def variance(self) -> float:
        """scale² dof/(dof − 2); where dof ≤ 2, that of the Gaussian with the same quartiles."""
        if self.dof > 2:
            return self.scale**2 * self.dof / (self.dof - 2)
        return _variance_of_quartile(self.scale * float(scipy.special.stdtrit(self.dof, 0.75)))

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """−log B(dof/2, ½) − ½ log dof − log scale − ½ (dof + 1) log(1 + z²/dof)."""
        z = (x - self.location) / self.scale
        norm = -scipy.special.betaln(0.5 * self.dof, 0.5) - 0.5 * math.log(self.dof) - math.log(self.scale)
        return np.asarray(norm - 0.5 * (self.dof + 1) * np.log1p(z**2 / self.dof))

    @np.errstate(over="ignore")
    def gradient(self, x: Array) -> Array:
        """−(dof + 1) z/(dof + z²)/scale."""
        z = (x - self.location) / self.scale
        root = np.hypot(z, math.sqrt(self.dof))
        return np.asarray(-(self.dof + 1) * (z / root / root) / self.scale)

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws, (size,)."""
        return self.location + self.scale * rng.standard_t(self.dof, size)


@dataclass(frozen=True)
class Horseshoe(RealLine):
    """p(θ) = log(1 + τ²/(θ² + δ²)) / (2π (b − δ)),  b = √(τ² + δ²): a spike at zero and the tails of a Cauchy.

    It is the closed form of Bhadra et al. ("horseshoe-like"), its pole at zero smoothed. Because ::

        log(1 + τ²/(θ² + δ²)) = ∫_δ^b 2s/(θ² + s²) ds,

    it is a mixture of Cauchy distributions whose scale s is uniform between δ and b.

    Attributes
    ----------
    scale
        τ.
    smoothing
        δ/τ.
    """

    scale: float
    smoothing: float = 1e-2
    matched_by = "quartiles"  # there is no variance
    mean = 0.0  # the median

    def __post_init__(self) -> None:
        check_parameters(self, "scale", "smoothing")
        if not 1e-12 <= self.smoothing <= 1:
            raise BvsiError(f"Horseshoe: smoothing has to lie from 1e-12 to 1, such as 1e-2, not {self.smoothing!r}.")

    @cached_property
    def variance(self) -> float:
        """That of the Gaussian with the same quartiles."""
        import scipy.optimize  # it takes long to import

        quartile = scipy.optimize.brentq(
            lambda x: float(self.cdf(np.asarray(self.scale * x))) - 0.75, self.smoothing, self._widest, xtol=1e-14
        )
        return _variance_of_quartile(self.scale * quartile)

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """log p."""
        excess, distance = self._excess(x)
        norm = math.log(2 * math.pi * self.scale * self._width)
        return np.asarray(-2 * np.log(distance) - np.log(scipy.special.exprel(excess)) - norm)

    @np.errstate(over="ignore")
    def gradient(self, x: Array) -> Array:
        """−2θ τ² / ((θ² + δ²)(θ² + b²) log(1 + τ²/(θ² + δ²)))."""
        excess, _ = self._excess(x)
        z = x / self.scale
        widest = np.hypot(z, self._widest)
        return np.asarray(-2 * (z / widest) / widest * scipy.special.exprel(excess) / self.scale)

    @np.errstate(over="ignore")
    def cdf(self, x: Array) -> Array:
        """½ + (θ log(1 + τ²/(θ² + δ²)) + 2b arctan(θ/b) − 2δ arctan(θ/δ)) / (2π (b − δ))."""
        z = np.clip(x / self.scale, -LIMIT, LIMIT)
        excess, _ = self._excess(self.scale * z)
        angles = self._widest * np.arctan(z / self._widest) - self.smoothing * np.arctan(z / self.smoothing)
        return np.asarray(0.5 + (z * excess + 2 * angles) / (2 * math.pi * self._width))

    def sample(self, size: int, rng: Rng) -> Array:
        """Cauchy draws whose scale is drawn evenly between δ and b."""
        scale = self.scale * rng.uniform(self.smoothing, self._widest, size)
        return np.asarray(scale * rng.standard_cauchy(size))

    @property
    def _widest(self) -> float:
        """b/τ."""
        return math.hypot(1.0, self.smoothing)

    @property
    def _width(self) -> float:
        """(b − δ)/τ, without cancellation."""
        return 1 / (self._widest + self.smoothing)

    def _excess(self, x: Array) -> tuple[Array, Array]:
        """log(1 + τ²/(θ² + δ²)), and √(θ² + δ²)/τ.

        With e the first, the inverse square of the second is expm1(e): e stays usable where that square underflows.
        """
        distance = np.hypot(x / self.scale, self.smoothing)
        return np.log1p((1 / distance) ** 2), distance


def _variance_of_quartile(quartile: float) -> float:
    """Variance of the Gaussian whose upper quartile lies this far from its mean."""
    return (quartile / NORMAL_QUARTILE) * (quartile / NORMAL_QUARTILE)
