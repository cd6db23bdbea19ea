"""Posteriors in closed form: Gaussian, and normal-inverse-gamma where the noise level is unknown.

:func:`student_of_level` is the latter for priors that are not in units of the noise.

:func:`covariance_root` gives square roots of covariances, also of singular ones, whatever the units.

What every posterior of the coefficients offers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr


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

    @property
    def variance(self) -> Array:
        """Marginal variances (d,)."""

    def interval(self, level: float = 0.95) -> Array:
        """Equal-tailed marginal intervals, (d, 2)."""

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Equal-tailed intervals of the linear functions Φθ, for Φ (n, d): (n, 2)."""

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws of θ, (size, d)."""

    def logpdf(self, theta: ArrayLike) -> float:
        """Log density of θ; refused by posteriors that are known by draws only."""


def check_level(level: float) -> float:
    """A credible level, refused unless it lies between 0 and 1."""
    if not 0 < level < 1:
        raise BvsiError(f"level: a credible level lies between 0 and 1, such as 0.95; got {level}.")
    return level


def check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of coefficients, refused unless there are some and they differ."""
    if not names:
        raise BvsiError("names: at least one operator is needed.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise BvsiError(f"names: the operator {twice[0]!r} stands twice; every coefficient needs a name of its own.")
    return names


def check_size(size: int) -> int:
    """A number of draws, refused where it is negative."""
    if size < 0:
        raise BvsiError(f"size: the number of draws cannot be negative; got {size}.")
    return size


class HandOver:
    """What follows from the rest of a posterior: variances, intervals, forms for xarray and ArviZ, and a file."""

    @property
    def variance(self: Posterior) -> Array:
        """Marginal variances (d,)."""
        return np.diag(self.covariance)

    def interval(self: Posterior, level: float = 0.95) -> Array:
        """Equal-tailed marginal intervals, (d, 2)."""
        return self.linear_interval(np.eye(len(self.names)), level)

    def to_datatree(self: Posterior, *, size: int = 2000, rng: Rng | None = None) -> xr.DataTree:
        """Draws as :func:`bvsi.app.posterior_storage.to_datatree` labels them."""
        from bvsi.app.posterior_storage import to_datatree

        return to_datatree(self, size=size, rng=rng)

    def to_arviz(self: Posterior, *, size: int = 2000, rng: Rng | None = None) -> Any:
        """Draws as the installed ArviZ takes them, see :func:`bvsi.app.posterior_storage.to_arviz`."""
        from bvsi.app.posterior_storage import to_arviz

        return to_arviz(self, size=size, rng=rng)

    def save(self: Posterior, path: str | Path) -> None:
        """Write to a NetCDF file that :func:`bvsi.app.posterior_storage.load_posterior` reads."""
        from bvsi.app.posterior_storage import save_posterior

        save_posterior(self, path)


#: Eigenvalues of the correlation matrix below this part of the largest are rounding.
RANK_TOLERANCE = 1e-14
#: Distance from the affine subspace, in standard deviations, that still counts as rounding.
OFF_SUBSPACE = 1e-9
#: The same, in parts of the coefficient.
ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class GaussianPosterior(HandOver):
    """θ ~ N(mean, covariance); a singular covariance is a law on the affine subspace mean + range(covariance)."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Φ mean ± z (Φ Cov Φᵀ)^½."""
        return _symmetric(self, Phi, float(scipy.special.ndtri(0.5 + 0.5 * check_level(level))))

    def sample(self, size: int, rng: Rng) -> Array:
        """mean + R ξ, covariance = R Rᵀ."""
        return np.asarray(self.mean + _unit_draws(self.covariance, size, rng))

    def logpdf(self, theta: ArrayLike) -> float:
        """log N(θ; mean, covariance): on the affine subspace where the covariance is singular, −∞ off it."""
        distance, logdet, rank = _mahalanobis(self.mean, theta, self.covariance)
        return -0.5 * (distance + logdet + rank * math.log(2 * math.pi))


@dataclass(frozen=True, eq=False)
class NormalInverseGammaPosterior(HandOver):
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

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Φ mean ± t ((α−1)/α · Φ Cov Φᵀ)^½: the scale of a Student-t is smaller than its variance."""
        t = scipy.special.stdtrit(2 * self.alpha, 0.5 + 0.5 * check_level(level))
        return _symmetric(self, Phi, float(t * math.sqrt((self.alpha - 1) / self.alpha)))

    def sample(self, size: int, rng: Rng) -> Array:
        """Draw σ², then θ given σ²."""
        variance = self.beta / rng.gamma(self.alpha, size=check_size(size))
        return np.asarray(self.mean + np.sqrt(variance)[:, None] * _unit_draws(self.shape, size, rng))

    def logpdf(self, theta: ArrayLike) -> float:
        """Log density of the marginal Student-t with ν = 2α degrees of freedom.

        log Γ((ν+k)/2) − log Γ(ν/2) − ½ log det(νπ S) − ½ (ν+k) log(1 + δᵀS⁻¹δ/ν), k the rank of S
        """
        nu = 2 * self.alpha
        distance, logdet, k = _mahalanobis(self.mean, theta, self._scale)
        norm = math.lgamma(0.5 * (nu + k)) - math.lgamma(0.5 * nu) - 0.5 * (logdet + k * math.log(nu * math.pi))
        return norm - 0.5 * (nu + k) * math.log1p(distance / nu)

    @property
    def _scale(self) -> Array:
        return self.beta / self.alpha * self.shape


# Powers of e below the peak of a weight at which it is left out, points of each grid, and grids, each on what the one
# before left: the last has more than 20 points within a standard deviation, so that sums are integrals to rounding.
_NEGLIGIBLE, _POINTS, _GRIDS = 40.0, 401, 5
# Part of the prior in the information on a combination of the coefficients below which its slope is rounding: a prior
# from which the estimate is 100 standard deviations away moves it by 1% of one.
_HELD = 1e-8
# Range of log(σ²) around its most probable value without a prior of θ that is looked at first.
_LOWEST, _HIGHEST = -10.0, 40.0


@dataclass(frozen=True, eq=False)
class Level:
    """What is known of σ² = v beside the coefficients: p(v | θ) ∝ v^−(a+1) exp(−(b + ½ΔQ(θ))/v).

    Attributes
    ----------
    a
        α_0 + ½n.
    b
        β_0 + ½Q at the point around which ΔQ is expanded.
    """

    a: float
    b: float


def student_of_level(
    names: tuple[str, ...], theta: Array, root: Array, held: Array, slopes: tuple[Array, Array], level: Level, S: Array
) -> NormalInverseGammaPosterior:
    """The Student-t with mean, covariance and degrees of freedom of a mixture of Gaussians over the noise level. ::

        p(θ) = ∫ N(θ; μ(v), Σ(v)) p(v) dv,     B(v) = A/v + P,     Σ(v) = B⁻¹ (S/v + P) B⁻¹,
        μ(v) = θ_0 + B⁻¹ (g/v + p),     p(v) ∝ v^−(a+1) |B|^−½ exp(−b/v + ½ (g/v + p)ᵀ B⁻¹ (g/v + p))

    around θ_0 and the peak of p(v) next to b/a. The misfit Q/v has the slope −2g/v and the curvature 2A/v there, and
    the logarithm of the prior of θ the slope p and the curvature −P. For a flat prior that is exactly
    normal-inverse-gamma, with 2α = 2a − d. Degrees of freedom are those of Var(log v) = ψ′(α). Where a prior holds a
    coefficient, and the level does not matter, the half width of 95% is too small by 7% at 3 degrees of freedom, by 2%
    at the most from 4 on.

    Parameters
    ----------
    theta
        θ_0 (d,).
    root
        R (d, k) with R Rᵀ = (A + P)⁻¹.
    held
        RᵀPR (k, k), the part of the prior in the information at v = 1.
    slopes
        g and p (d,).
    S
        RᵀSR (k, k), covariance of g.
    """
    share, U = np.linalg.eigh(0.5 * (held + held.T))
    share, V, S = np.clip(share, 0.0, 1.0), root @ U, U.T @ S @ U
    g, p = (V.T @ slope for slope in slopes)
    p = np.where(share > _HELD, p, 0.0)

    def at(log_v: Array) -> tuple[Array, Array, Array]:
        """1/v (m,), diagonal of (VᵀBV)⁻¹ and V⁻¹(μ − θ_0), each (m, k)."""
        inverse = np.exp(-log_v)[:, None]
        spread = 1 / ((1 - share) * inverse + share)
        return inverse[:, 0], spread, spread * (g * inverse + p)

    def weight(log_v: Array) -> Array:
        inverse, spread, move = at(log_v)
        value = -level.a * log_v - level.b * inverse + 0.5 * np.sum(np.log(spread) + move**2 / spread, axis=1)
        return np.asarray(value - value.max())

    log_v = math.log(level.b / level.a) + np.linspace(_LOWEST, _HIGHEST, _POINTS)
    begin = int(np.argmin(np.abs(log_v - math.log(level.b / level.a))))
    for _ in range(_GRIDS):
        low, high, begin = _peak(weight(log_v), begin)
        begin = round((begin - low) / (high - low) * (_POINTS - 1))
        log_v = np.linspace(log_v[low], log_v[high], _POINTS)
    w = np.exp(weight(log_v))
    w /= w.sum()
    inverse, spread, move = at(log_v)
    mean = w @ move
    alpha = _inverse_trigamma(float(w @ (log_v - w @ log_v) ** 2))
    if alpha <= 1:
        raise BvsiError(f"the mean of σ² needs alpha > 1, and it is {alpha:.3g}; more data or a prior are needed.")
    within = (spread * (w * inverse)[:, None]).T @ spread * S + np.diag(w @ spread**2 * share)
    covariance = V @ (within + ((move - mean) * w[:, None]).T @ (move - mean)) @ V.T
    variance = float(w @ (1 / inverse))
    shape = 0.5 * (covariance + covariance.T) / variance
    return NormalInverseGammaPosterior(names, theta + V @ mean, shape, alpha, (alpha - 1) * variance)


def _peak(log_w: Array, begin: int) -> tuple[int, int, int]:
    """First and last point of the peak to which the way up leads from a point, and its top.

    A prior that is far from the estimate has another peak, where all of the data are noise.
    """
    top = begin
    while 0 < top < len(log_w) - 1 and max(log_w[top - 1], log_w[top + 1]) > log_w[top]:
        top += 1 if log_w[top + 1] > log_w[top - 1] else -1
    low = high = top
    while low > 0 and log_w[low] > log_w[top] - _NEGLIGIBLE and log_w[low - 1] <= log_w[low]:
        low -= 1
    while high < len(log_w) - 1 and log_w[high] > log_w[top] - _NEGLIGIBLE and log_w[high + 1] <= log_w[high]:
        high += 1
    return low, high, top


def _inverse_trigamma(variance: float) -> float:
    """α with ψ′(α) = variance, which is Var(log v) of v ~ Inv-Gamma(α, β)."""
    log_alpha = -math.log(variance)
    for _ in range(60):  # the slope of log ψ′ by log α lies between −1 and −2, so that each round leaves 0.4
        log_alpha += 0.6 * (math.log(scipy.special.polygamma(1, math.exp(log_alpha))) - math.log(variance))
    return math.exp(log_alpha)


def _unit_draws(covariance: Array, size: int, rng: Rng) -> Array:
    """Draws of N(0, covariance), (size, d)."""
    root = covariance_root(covariance)
    return np.asarray(rng.standard_normal((check_size(size), root.R.shape[1])) @ root.R.T)


def _mahalanobis(mean: Array, theta: ArrayLike, covariance: Array) -> tuple[float, float, int]:
    """δᵀΣ⁻¹δ with δ = θ − mean, log det Σ, and the rank of Σ."""
    value = np.asarray(theta, dtype=np.float64)
    if value.shape != mean.shape:
        raise BvsiError(f"theta: {len(mean)} coefficients are needed, not an array of shape {value.shape}.")
    root = covariance_root(covariance)
    return root.distance(value, mean), root.logdet, root.R.shape[1]


def _symmetric(posterior: GaussianPosterior | NormalInverseGammaPosterior, Phi: Array, quantile: float) -> Array:
    """Φ mean ± quantile · (Φ Cov Φᵀ)^½, (n, 2)."""
    half = quantile * np.sqrt(np.einsum("ni,ij,nj->n", Phi, posterior.covariance, Phi))
    centre = Phi @ posterior.mean
    return np.stack([centre - half, centre + half], axis=1)


def widened(posterior: Any, added: Array) -> Any:
    """The posterior with ``added`` (d, d) on top of its covariance, for errors that are not noise.

    Laws that are given by draws are left as they are.
    """
    if not np.any(added):
        return posterior
    if isinstance(posterior, GaussianPosterior):
        return replace(posterior, covariance=posterior.covariance + added)
    if isinstance(posterior, NormalInverseGammaPosterior):
        return replace(posterior, shape=posterior.shape + added / posterior.noise_variance)
    return posterior


def moved(posterior: Any, offset: Array) -> Any:
    """The law of θ + offset, offset (d,), of any posterior: where coefficients are written from another origin."""
    if not np.any(offset):
        return posterior
    if isinstance(posterior, GaussianPosterior | NormalInverseGammaPosterior):
        return replace(posterior, mean=posterior.mean + offset)
    return posterior.moved(offset)


@dataclass(frozen=True, eq=False)
class CovarianceRoot:
    """Σ = R Rᵀ with R (d, k) of full rank k ≤ d, and R⁺ = left inverse of R (k, d).

    R = S V Λ^½ and R⁺ = Λ^-½ Vᵀ S⁻¹, where S = diag(Σ)^½ and S⁻¹ΣS⁻¹ = V Λ Vᵀ without the eigenvalues that vanish.
    """

    R: Array
    inverse: Array

    @property
    def logdet(self) -> float:
        """log det RᵀR: of Σ, or the product of its positive eigenvalues where it is singular."""
        # rows by size and pivoted columns keep small units from drowning in large ones
        rows = np.argsort(-np.abs(self.R).max(axis=1, initial=0.0))
        diagonal = np.diag(scipy.linalg.qr(self.R[rows], mode="r", pivoting=True)[0])
        return 2 * float(np.log(np.abs(diagonal)).sum())

    def distance(self, theta: Array, mean: Array) -> float:
        """δᵀΣ⁺δ with δ = θ − mean; infinite where δ does not lie in the range of Σ."""
        offset = theta - mean
        white = self.inverse @ offset
        sd = np.linalg.norm(self.R, axis=1)
        scaled = np.abs(np.divide(offset, sd, out=np.zeros_like(offset), where=sd > 0)).max(initial=0.0)
        allowed = OFF_SUBSPACE * (1 + scaled) * sd + ROUNDING * (np.abs(theta) + np.abs(mean))
        return float(white @ white) if np.all(np.abs(offset - self.R @ white) <= allowed) else np.inf


def covariance_root(covariance: Array) -> CovarianceRoot:
    """The root of a covariance (d, d); one row and column of zeros is a coefficient that is known."""
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0, sd, 1.0)
    eigenvalues, V = np.linalg.eigh(covariance / scale[:, None] / scale)
    V = V * _signs(V)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues.max(initial=0.0)
    root = np.sqrt(eigenvalues[kept])
    return CovarianceRoot(scale[:, None] * V[:, kept] * root, V[:, kept].T / root[:, None] / scale)


def _signs(V: Array) -> Array:
    """±1 for every column (d,): with it the first entry that is not small is positive.

    Eigenvectors have any sign, and rounding decides which; draws of a covariance should not depend on that.
    """
    if not V.size:
        return np.ones(V.shape[1])
    first = np.argmax(np.abs(V) > 0.5 * np.abs(V).max(axis=0, initial=0.0), axis=0)
    return np.asarray(np.where(np.take_along_axis(V, first[None], axis=0)[0] < 0, -1.0, 1.0))
