"""The prior density of the coefficients of one model: a product of factors over its operators.

A Gaussian distribution of several coefficients together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Rng
from bvsi.errors import BvsiError
from bvsi.infer.priors.distributions import LIMIT, LOG_2PI, Distribution, Matched

#: Smallest eigenvalue of a correlation matrix that counts as positive.
DEFINITE_TOLERANCE = 1e-13


@dataclass(frozen=True, eq=False, init=False)
class JointNormal:
    """p(θ) ∝ exp(−½ (θ − mean)ᵀ covariance⁻¹ (θ − mean)).

    Parameters
    ----------
    mean
        (m,).
    covariance
        (m, m), symmetric and positive definite.
    """

    mean: Array
    covariance: Array

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        object.__setattr__(self, "mean", _finite("mean", mean))
        object.__setattr__(self, "covariance", _finite("covariance", covariance))
        m = self.mean.size
        if self.mean.ndim != 1 or m == 0 or self.covariance.shape != (m, m):
            raise BvsiError(
                "JointNormal: mean (m,) and covariance (m, m) are needed, "
                f"not shapes {self.mean.shape} and {self.covariance.shape}."
            )
        _check_definite(self.covariance)

    def marginal(self, indices: Sequence[int]) -> JointNormal:
        """Distribution of some coefficients, in the order asked for."""
        m = len(self.mean)
        if len(set(indices)) != len(indices) or not indices or not all(0 <= i < m for i in indices):
            raise BvsiError(f"indices: different numbers from 0 to {m - 1} are needed, not {list(indices)}.")
        return JointNormal(self.mean[list(indices)], self.covariance[np.ix_(indices, indices)])

    @cached_property
    def precision(self) -> Array:
        """covariance⁻¹, (m, m), symmetric."""
        inverse = scipy.linalg.cho_solve((self._root, True), np.eye(len(self.mean)))
        return np.asarray(0.5 * (inverse + inverse.T))

    @np.errstate(over="ignore")
    def logpdf(self, x: Array) -> Array:
        """Log density of x (..., m), shape (...)."""
        white = (x - self.mean) @ self._whitening.T
        logdet = 2 * np.log(np.diag(self._root)).sum()
        return np.asarray(-0.5 * ((white**2).sum(axis=-1) + logdet + len(self.mean) * LOG_2PI))

    def gradient(self, x: Array) -> Array:
        """covariance⁻¹ (mean − x), the shape of x (..., m)."""
        return np.asarray((self.mean - x) @ self.precision)

    def sample(self, size: int, rng: Rng) -> Array:
        """mean + L ξ, covariance = L Lᵀ; (size, m)."""
        return np.asarray(self.mean + rng.standard_normal((size, len(self.mean))) @ self._root.T)

    @cached_property
    def _root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.covariance))

    @cached_property
    def _whitening(self) -> Array:
        """L⁻¹."""
        return np.asarray(scipy.linalg.solve_triangular(self._root, np.eye(len(self.mean)), lower=True))


def _finite(label: str, values: ArrayLike) -> Array:
    """A copy that cannot be written to."""
    try:
        array = np.array(values, dtype=np.float64)
        usable = bool(np.all(np.abs(array) <= LIMIT))
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise BvsiError(f"JointNormal: {label} has to be an array of finite numbers.")
    array.flags.writeable = False
    return array


def _check_definite(covariance: Array) -> None:
    variance = np.diag(covariance)
    if np.any(variance < 1 / LIMIT):
        raise BvsiError("JointNormal: covariance needs positive variances on its diagonal.")
    scale = np.sqrt(variance)
    correlation = covariance / scale[:, None] / scale
    if not np.allclose(correlation, correlation.T, rtol=0, atol=1e-10):
        raise BvsiError("JointNormal: covariance has to be symmetric; give ½ (C + Cᵀ).")
    smallest = np.linalg.eigvalsh(correlation)[0]
    if smallest <= DEFINITE_TOLERANCE:
        raise BvsiError(
            "JointNormal: covariance is not positive definite: the smallest eigenvalue of its correlation matrix is "
            f"{smallest:.2g}; weaken the correlations."
        )


@dataclass(frozen=True, eq=False)
class PriorFactor:
    """A distribution of the operators at some positions (m,): of each alone, or of all of them jointly."""

    positions: NDArray[np.intp]
    law: Distribution | JointNormal

    def logpdf(self, theta: Array) -> Array:
        """Log density of θ (..., d), shape (...)."""
        values = self.law.logpdf(theta[..., self.positions])
        return values if isinstance(self.law, JointNormal) else values.sum(axis=-1)

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws, (size, m)."""
        if isinstance(self.law, JointNormal):
            return self.law.sample(size, rng)
        m = len(self.positions)
        return self.law.sample(size * m, rng).reshape(size, m)

    def describe(self, column: int) -> str:
        """Text on one of its operators."""
        if isinstance(self.law, JointNormal):
            mean, sd = self.law.mean[column], np.sqrt(self.law.covariance[column, column])
            return f"JointNormal of size {len(self.positions)}: mean {mean:.4g}, sd {sd:.4g}"
        return str(self.law)

    @property
    def matched_by(self) -> Matched:
        """How the matching Gaussian is made."""
        return "moments" if isinstance(self.law, JointNormal) else self.law.matched_by


@dataclass(frozen=True, eq=False)
class PriorDensity:
    """log p(θ) = Σ_f log p_f(θ_f), bound to d operators.

    θ is (d,), or (P, d) for many at once.

    Attributes
    ----------
    names
        d of them.
    factors
        Together they hold every operator once.
    defaulted
        Operators that took the default.
    """

    names: tuple[str, ...]
    factors: tuple[PriorFactor, ...]
    defaulted: tuple[str, ...]

    def logpdf(self, theta: ArrayLike) -> Array | np.float64:
        """log p(θ): a number for (d,), (P,) for (P, d); −∞ outside the support."""
        return self._logpdf(theta, self.factors)

    def gradient(self, theta: ArrayLike) -> Array:
        """∇ log p(θ), the shape of θ; the symmetric subgradient at corners, 0 outside the support."""
        return self._gradient(theta, self.factors)

    def smooth_logpdf(self, theta: ArrayLike) -> Array | np.float64:
        """log p(θ) without the factors that have a corner."""
        return self._logpdf(theta, self._smooth)

    def smooth_gradient(self, theta: ArrayLike) -> Array:
        """∇ log p(θ) without the factors that have a corner."""
        return self._gradient(theta, self._smooth)

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws of θ, (size, d); refused where an operator is flat."""
        if not isinstance(size, int | np.integer) or size < 0:
            raise BvsiError(f"size: a number of draws is needed, not {size!r}.")
        flat = [f"{name!r}" for name, v in zip(self.names, self._each("variance", np.nan), strict=True) if v == np.inf]
        if flat:
            raise BvsiError(f"prior: it is flat, without draws, for {', '.join(flat)}; give these a proper prior.")
        draws = np.empty((size, len(self.names)))
        for factor in self.factors:
            draws[:, factor.positions] = factor.sample(int(size), rng)
        return draws

    @property
    def lower(self) -> Array:
        """Lower ends of the support (d,)."""
        return self._each("lower", -np.inf)

    @property
    def upper(self) -> Array:
        """Upper ends of the support (d,)."""
        return self._each("upper", np.inf)

    @property
    def kinks(self) -> Array:
        """Where the corners are (d,); NaN where there is none."""
        return self._each("kink", np.nan)

    @property
    def kink_scale(self) -> Array:
        """Scales b of the corners −|θ − kink|/b (d,); infinite where there is none."""
        return self._each("kink_scale", np.inf)

    @property
    def gaussian(self) -> BoundPrior:
        """The Gaussian of the same mean and variance, or quartiles; its precision is zero where the prior is flat."""
        d = len(self.names)
        mean, precision = np.zeros(d), np.zeros((d, d))
        for factor in self.factors:
            at, law = factor.positions, factor.law
            mean[at] = law.mean
            if isinstance(law, JointNormal):
                precision[np.ix_(at, at)] = law.precision
            else:
                precision[at, at] = 1 / law.variance
        return BoundPrior(mean, precision)

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [""] * len(self.names)
        for factor in self.factors:
            note = "; Gaussian of the same quartiles" if factor.matched_by == "quartiles" else ""
            for column, i in enumerate(factor.positions.tolist()):
                default = " (default)" if self.names[i] in self.defaulted else ""
                lines[i] = f"{self.names[i]:<{width}}  {factor.describe(column)}{default}{note}"
        return "\n".join(lines)

    @property
    def _smooth(self) -> Iterable[PriorFactor]:
        return (f for f in self.factors if isinstance(f.law, JointNormal) or f.law.kink is None)

    def _logpdf(self, theta: ArrayLike, factors: Iterable[PriorFactor]) -> Array | np.float64:
        theta = self._checked(theta)
        total = np.zeros(theta.shape[:-1])
        for factor in factors:
            total += factor.logpdf(theta)
        return total if total.ndim else np.float64(total)

    def _gradient(self, theta: ArrayLike, factors: Iterable[PriorFactor]) -> Array:
        theta = self._checked(theta)
        gradient = np.zeros_like(theta)
        for factor in factors:
            gradient[..., factor.positions] = factor.law.gradient(theta[..., factor.positions])
        return gradient

    def _checked(self, theta: ArrayLike) -> Array:
        array, d = np.asarray(theta, dtype=np.float64), len(self.names)
        if array.ndim not in (1, 2) or array.shape[-1] != d:
            raise BvsiError(f"theta: shape ({d},) or (P, {d}) is needed, not {array.shape}.")
        return array

    def _each(self, attribute: str, joint: float) -> Array:
        """An attribute of the univariate distributions, operator by operator; ``joint`` in a joint one."""
        values = np.full(len(self.names), joint)
        for factor in self.factors:
            if not isinstance(factor.law, JointNormal):
                value = getattr(factor.law, attribute)
                values[factor.positions] = np.nan if value is None else value
        return values


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
