"""Posterior predictive quantities (sec:posterior_predictive).

linear    q = Φ θ:  mean Φ E[θ], variance diag(Φ Cov Φᵀ), exact Gaussian or Student-t bands
any       q = f(θ):  moments and quantiles of f over posterior draws
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import Posterior, check_level

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


def predict_linear(posterior: Posterior, Phi: xr.DataArray, *, level: float = 0.95) -> xr.Dataset:
    """Mean, variance and credible band of q = Φ θ.

    Parameters
    ----------
    Phi
        Labelled map whose dimension ``operator`` names the coefficients; the other dimensions are those of q.
    """
    import xarray as xr

    Phi = _aligned(Phi, posterior.names)
    mean = xr.dot(Phi, xr.DataArray(posterior.mean, dims="operator"), dim="operator")
    other = [d for d in Phi.dims if d != "operator"]
    flat = Phi.transpose(*other, "operator").values.reshape(-1, len(posterior.names))
    variance = np.einsum("ni,ij,nj->n", flat, posterior.covariance, flat).reshape(mean.shape)
    lower, upper = (mean.copy(data=side.reshape(mean.shape)) for side in posterior.linear_interval(flat, level).T)
    labelled = {"mean": mean, "variance": mean.copy(data=variance), "lower": lower, "upper": upper}
    return xr.Dataset(labelled, attrs={"level": level, "method": "linear"})


def predict_function(
    posterior: Posterior,
    f: Callable[[dict[str, float]], xr.DataArray],
    *,
    size: int = 1000,
    rng: np.random.Generator,
    level: float = 0.95,
) -> xr.Dataset:
    """Mean, variance, credible band and samples of q = f(θ) by Monte Carlo.

    Parameters
    ----------
    f
        Takes coefficients by name and returns a labelled array, always of the same shape.
    """
    import xarray as xr

    check_level(level)
    if size < 2:
        raise BvsiError(f"size: at least two draws are needed, got {size}.")
    draws = [f(dict(zip(posterior.names, row.tolist(), strict=True))) for row in posterior.sample(size, rng)]
    samples = xr.concat(draws, dim="draw")
    tail = 0.5 * (1 - level)
    band = samples.quantile([tail, 1 - tail], dim="draw")
    return xr.Dataset(
        {
            "mean": samples.mean("draw"),
            "variance": samples.var("draw", ddof=1),
            "lower": band.isel(quantile=0, drop=True),
            "upper": band.isel(quantile=1, drop=True),
            "samples": samples,
        },
        attrs={"level": level, "method": f"{size} draws"},
    )


def _aligned(Phi: xr.DataArray, names: tuple[str, ...]) -> xr.DataArray:
    if "operator" not in Phi.dims or "operator" not in Phi.coords:
        raise BvsiError("Phi: needs a dimension 'operator' whose coordinate names the coefficients.")
    known = Phi["operator"].values.tolist()
    twice = [name for name in known if known.count(name) > 1]
    if twice:
        raise BvsiError(f"Phi: the operator {twice[0]!r} stands twice in the coordinate 'operator'.")
    missing = [name for name in names if name not in known]
    if missing:
        raise BvsiError(f"Phi: has no entry for the operator {missing[0]!r}; give it zeros if it does not enter.")
    return Phi.sel(operator=list(names)).drop_vars("operator")
