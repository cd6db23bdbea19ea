"""Posteriors known by draws: particles of equal weight, and Markov chains with their convergence, by arviz-stats.

R-hat and effective sample sizes are NaN where there are fewer than four draws per chain, or all draws of a coefficient
are equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.errors import BvsiError
from bvsi.infer.posteriors.closed_form import HandOver, check_level, check_names, check_size

#: Numbers held at once when quantiles of many linear functions are taken.
BATCH = 4_000_000
# Quantiles whose effective sample sizes make up that of the tails: those of arviz and Stan.
TAILS = (0.05, 0.95)
# Draws per chain below which half a chain has no variance.
LEAST_DRAWS = 4


class DrawnPosterior(HandOver, ABC):
    """The law that puts weight 1/n on each of n rows."""

    names: tuple[str, ...]

    @property
    @abstractmethod
    def rows(self) -> Array:
        """All draws (n, d)."""

    @property
    def mean(self) -> Array:
        """Mean of the rows (d,)."""
        return np.asarray(self.rows.mean(axis=0))

    @property
    def covariance(self) -> Array:
        """Σ (row − mean)(row − mean)ᵀ / (n − 1), (d, d)."""
        offset = self.rows - self.mean
        return np.asarray(offset.T @ offset / (len(offset) - 1))

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Quantiles (1 ∓ level)/2 of Φ row, (n, 2)."""
        step = max(1, BATCH // len(self.rows))
        parts = [_quantiles(self.rows @ Phi[start : start + step].T, level) for start in range(0, len(Phi), step)]
        return np.concatenate([np.empty((0, 2)), *parts])

    def sample(self, size: int, rng: Rng) -> Array:
        """Rows drawn with replacement, (size, d)."""
        return self.rows[rng.integers(len(self.rows), size=check_size(size))]

    def logpdf(self, theta: ArrayLike) -> float:  # noqa: ARG002
        """Refused: draws have no density."""
        raise BvsiError(
            "logpdf: a posterior known by draws has no density; use its draws, or "
            "GaussianPosterior(posterior.names, posterior.mean, posterior.covariance) as an approximation."
        )


@dataclass(frozen=True, eq=False)
class ParticlePosterior(DrawnPosterior):
    """θ is one of n particles, each with weight 1/n.

    Attributes
    ----------
    names
        d operators.
    particles
        (n, d).
    diagnostics
        Numbers of the method that moved them, by name.
    warnings
        What its reader has to know.
    """

    names: tuple[str, ...]
    particles: Array
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = (None, len(check_names(self.names)))
        object.__setattr__(self, "particles", _finite("particles", self.particles, shape))
        if len(self.particles) < 2:
            raise BvsiError(f"particles: at least two are needed for a covariance; got {len(self.particles)}.")

    def moved(self, offset: Array) -> ParticlePosterior:
        """The law of θ + offset, offset (d,)."""
        return replace(self, particles=self.particles + offset)

    @property
    def rows(self) -> Array:
        """The particles (n, d)."""
        return self.particles


@dataclass(frozen=True, eq=False)
class ChainPosterior(DrawnPosterior):
    """Markov chains that have the posterior as their limit.

    Attributes
    ----------
    names
        d operators.
    draws
        (chains, draws, d).
    log_density
        Log density of every draw up to a constant, (chains, draws).
    diverging
        Draws where the integrator failed, (chains, draws).
    warnings
        What its reader has to know.
    """

    names: tuple[str, ...]
    draws: Array
    log_density: Array | None = None
    diverging: Mask | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        draws = _finite("draws", self.draws, (None, None, len(check_names(self.names))))
        object.__setattr__(self, "draws", draws)
        if draws.shape[0] * draws.shape[1] < 2:
            raise BvsiError("draws: at least two are needed for a covariance; run longer chains.")
        if self.log_density is not None:
            object.__setattr__(self, "log_density", _finite("log_density", self.log_density, draws.shape[:2]))
        if self.diverging is not None:
            diverging = np.asarray(self.diverging)
            if diverging.dtype != np.bool_ or diverging.shape != draws.shape[:2]:
                raise BvsiError(f"diverging: booleans of shape {draws.shape[:2]} are needed, one for every draw.")
            object.__setattr__(self, "diverging", diverging)

    def moved(self, offset: Array) -> ChainPosterior:
        """The law of θ + offset, offset (d,)."""
        return replace(self, draws=self.draws + offset)

    @property
    def rows(self) -> Array:
        """The draws of all chains, one chain after the other."""
        return self.draws.reshape(-1, self.draws.shape[2])

    @cached_property
    def r_hat(self) -> Array:
        """Rank-normalised split R̂ (d,); chains that agree have less than 1.01.

        The larger of that of draws, which sees chains that differ in place, and of folded draws, in spread. arviz-stats
        wants two chains at least; a lone one is judged by its halves.
        """
        draws, half = self.draws, self.draws.shape[1] // 2
        if len(draws) == 1:
            draws = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
        return _diagnostic(draws, "rhat", method="rank")

    @cached_property
    def ess_bulk(self) -> Array:
        """Effective sample size of the normal scores (d,): how well the middle of the law is known."""
        return _diagnostic(self.draws, "ess", method="bulk")

    @cached_property
    def ess_tail(self) -> Array:
        """Effective sample size in the tails (d,): the smaller one of 1[θ ≤ q], q the 5% and 95% quantiles."""
        return _diagnostic(self.draws, "ess", method="tail", prob=TAILS)

    @property
    def divergences(self) -> int:
        """Number of draws where the integrator failed."""
        return 0 if self.diverging is None else int(self.diverging.sum())


def _quantiles(rows: Array, level: float) -> Array:
    tail = 0.5 * (1 - check_level(level))
    return np.asarray(np.quantile(rows, [tail, 1 - tail], axis=0).T)


def _finite(label: str, values: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Real numbers of a shape; None stands for any length."""
    wanted = "(" + ", ".join("n" if n is None else str(n) for n in shape) + ")"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BvsiError(f"{label}: real numbers of shape {wanted} are needed.") from None
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        raise BvsiError(f"{label}: the shape {wanted} is needed, not {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise BvsiError(f"{label}: all numbers have to be finite; look for a step size that is too large.")
    return array


def _diagnostic(draws: Array, name: str, **options: Any) -> Array:
    """A diagnostic of arviz-stats, of the coefficients whose draws are not all equal."""
    from arviz_stats.base import array_stats  # imports most of SciPy, which posteriors without chains do not need

    result = np.full(draws.shape[2], np.nan)
    moving = np.ptp(draws, axis=(0, 1)) > 0
    if draws.shape[1] >= LEAST_DRAWS and moving.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still have no variance within
            result[moving] = getattr(array_stats, name)(draws[:, :, moving], chain_axis=0, draw_axis=1, **options)
    return result
