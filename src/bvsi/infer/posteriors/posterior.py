"""What every posterior of the coefficients offers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr

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

    @property
    def variance(self) -> Array:
        """Marginal variances (d,)."""

    def interval(self, level: float = 0.95) -> Array:
        """Equal-tailed marginal intervals, (d, 2)."""

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Equal-tailed intervals of the linear functions Φθ, for Φ (n, d): (n, 2)."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
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

    def to_datatree(self: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> xr.DataTree:
        """Draws as :func:`bvsi.infer.posteriors.to_datatree` labels them."""
        from bvsi.infer.posteriors.storage import to_datatree

        return to_datatree(self, size=size, rng=rng)

    def to_arviz(self: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> Any:
        """Draws as the installed ArviZ takes them, see :func:`bvsi.infer.posteriors.to_arviz`."""
        from bvsi.infer.posteriors.storage import to_arviz

        return to_arviz(self, size=size, rng=rng)

    def save(self: Posterior, path: str | Path) -> None:
        """Write to a NetCDF file that :func:`bvsi.infer.posteriors.load_posterior` reads."""
        from bvsi.infer.posteriors.storage import save_posterior

        save_posterior(self, path)
