"""Posteriors of the coefficients: Gaussian, and normal-inverse-gamma where the noise level is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError

Array = NDArray[np.float64]


class Posterior(Protocol):
    """What every posterior offers."""

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names, d of them."""

    @property
    def mean(self) -> Array:
        """Posterior mean (d,)."""

    @property
    def covariance(self) -> Array:
        """Posterior covariance (d, d)."""

    def interval(self, level: float = 0.95) -> Array:
        """Equal-tailed marginal intervals, (d, 2)."""

    def half_width(self, variance: Array, level: float = 0.95) -> Array:
        """Half width of the interval of a linear function of θ with the given variance."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of θ, (size, d)."""

    def logpdf(self, theta: ArrayLike) -> float:
        """Log density of θ."""


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """θ ~ N(mean, covariance)."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array

    @property
    def variance(self) -> Array:
        """Marginal variances (d,)."""
        return np.diag(self.covariance)

    def interval(self, level: float = 0.95) -> Array:
        """mean ± z sd."""
        half = self.half_width(self.variance, level)
        return np.stack([self.mean - half, self.mean + half], axis=1)

    def half_width(self, variance: Array, level: float = 0.95) -> Array:
        """z √variance, for any linear function of θ."""
        return np.asarray(scipy.special.ndtri(0.5 + 0.5 * check_level(level)) * np.sqrt(variance))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """mean + L ξ, covariance = L Lᵀ."""
        return self.mean + rng.standard_normal((size, len(self.mean))) @ np.linalg.cholesky(self.covariance).T

    def logpdf(self, theta: ArrayLike) -> float:
        """log N(θ; mean, covariance)."""
        distance, logdet = _mahalanobis(np.asarray(theta) - self.mean, self.covariance)
        return -0.5 * (distance + logdet + len(self.mean) * math.log(2 * math.pi))


@dataclass(frozen=True, eq=False)
class NormalInverseGammaPosterior:
    """σ² ~ Inv-Gamma(α, β), θ | σ² ~ N(mean, σ² shape) (eq:NIG_posterior).

    The marginal of θ is Student-t with 2α degrees of freedom, location ``mean`` and scale matrix (β/α) · shape.
    """

    names: tuple[str, ...]
    mean: Array
    shape: Array
    alpha: float
    beta: float

    @property
    def covariance(self) -> Array:
        """β/(α−1) · shape (eq:theta_marginal_covariance_unknown_noise)."""
        return self.noise_variance * self.shape

    @property
    def variance(self) -> Array:
        """Marginal variances (d,)."""
        return np.diag(self.covariance)

    @property
    def noise_variance(self) -> float:
        """E[σ²] = β/(α−1)."""
        if self.alpha <= 1:
            raise BvsiError(f"the mean of σ² needs alpha > 1, and it is {self.alpha}; more data or a prior are needed.")
        return self.beta / (self.alpha - 1)

    @property
    def noise_variance_sd(self) -> float:
        """Standard deviation of σ²: β / ((α−1) √(α−2)) (eq:sigma2_posterior_variance_unknown_noise)."""
        if self.alpha <= 2:
            raise BvsiError(f"the variance of σ² needs alpha > 2, and it is {self.alpha}.")
        return self.noise_variance / float(np.sqrt(self.alpha - 2))

    def interval(self, level: float = 0.95) -> Array:
        """mean ± t √(β/α · shape_ii)."""
        half = self.half_width(self.variance, level)
        return np.stack([self.mean - half, self.mean + half], axis=1)

    def half_width(self, variance: Array, level: float = 0.95) -> Array:
        """t √((α−1)/α · variance): the scale of a Student-t is smaller than its variance."""
        t = scipy.special.stdtrit(2 * self.alpha, 0.5 + 0.5 * check_level(level))
        return np.asarray(t * np.sqrt((self.alpha - 1) / self.alpha * variance))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw σ², then θ given σ²."""
        variance = self.beta / rng.gamma(self.alpha, size=size)
        xi = rng.standard_normal((size, len(self.mean))) @ np.linalg.cholesky(self.shape).T
        return np.asarray(self.mean + np.sqrt(variance)[:, None] * xi)

    def logpdf(self, theta: ArrayLike) -> float:
        """Log density of the marginal Student-t with ν = 2α degrees of freedom.

        log Γ((ν+d)/2) − log Γ(ν/2) − ½ log det(νπ S) − ½ (ν+d) log(1 + δᵀS⁻¹δ/ν)
        """
        nu, d = 2 * self.alpha, len(self.mean)
        distance, logdet = _mahalanobis(np.asarray(theta) - self.mean, self._scale)
        norm = math.lgamma(0.5 * (nu + d)) - math.lgamma(0.5 * nu) - 0.5 * (logdet + d * math.log(nu * math.pi))
        return norm - 0.5 * (nu + d) * math.log1p(distance / nu)

    @property
    def _scale(self) -> Array:
        return self.beta / self.alpha * self.shape


def _mahalanobis(offset: Array, covariance: Array) -> tuple[float, float]:
    """δᵀΣ⁻¹δ and log det Σ."""
    L = np.linalg.cholesky(covariance)
    white = scipy.linalg.solve_triangular(L, offset, lower=True)
    return float(white @ white), 2 * float(np.log(np.diag(L)).sum())


def check_level(level: float) -> float:
    """A credible level, refused unless it lies between 0 and 1."""
    if not 0 < level < 1:
        raise BvsiError(f"level: a credible level lies between 0 and 1, such as 0.95; got {level}.")
    return level
