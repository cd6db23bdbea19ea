"""A Gaussian distribution of several coefficients together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bvsi.errors import BvsiError
from bvsi.infer.priors.distributions import LIMIT, LOG_2PI, Array

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

    def sample(self, size: int, rng: np.random.Generator) -> Array:
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
