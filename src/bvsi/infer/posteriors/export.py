"""Posteriors for other tools: draws with labels, for xarray and ArviZ."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi._version import __version__
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.infer.posteriors.draws import ChainPosterior, ParticlePosterior
from bvsi.infer.posteriors.posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr

CHAINS = 4
"""Chains that the draws of a closed form are dealt to, so that tools which compare chains can do so."""


def to_dataset(posterior: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> xr.Dataset:
    """Draws as one variable ``theta`` (chain, draw, operator).

    Chains and particles are handed over as they are. Other posteriors are sampled: ``size`` draws in all, rounded up to
    a multiple of 4, in 4 chains, with ``rng``, by default seed 0.
    """
    import xarray as xr

    draws = _draws(posterior, size, rng)
    coordinates = {
        "chain": np.arange(draws.shape[0]),
        "draw": np.arange(draws.shape[1]),
        "operator": list(posterior.names),
    }
    return xr.Dataset({"theta": (("chain", "draw", "operator"), draws)}, coordinates, _attributes(posterior))


def to_datatree(posterior: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> xr.DataTree:
    """Group ``posterior`` of :func:`to_dataset`; for chains also ``sample_stats`` with ``lp`` and ``diverging``."""
    import xarray as xr

    groups = _groups(posterior, size, rng)
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=_attributes(posterior)), **groups})


def to_arviz(posterior: Posterior, *, size: int = 2000, rng: np.random.Generator | None = None) -> Any:
    """The groups of :func:`to_datatree` as ``arviz.InferenceData``, or as a DataTree, which ArviZ 1 uses itself."""
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces its next version whenever it is imported
            warnings.simplefilter("ignore")
            arviz = importlib.import_module("arviz")
    except ImportError:
        raise MissingDependencyError("to_arviz: ArviZ is not installed; run: pip install 'bvsi[arviz]'") from None
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData(attrs=_attributes(posterior), **_groups(posterior, size, rng))
    return to_datatree(posterior, size=size, rng=rng)


def _groups(posterior: Posterior, size: int, rng: np.random.Generator | None) -> dict[str, xr.Dataset]:
    import xarray as xr

    groups = {"posterior": to_dataset(posterior, size=size, rng=rng)}
    if isinstance(posterior, ChainPosterior):
        per_draw = {"lp": posterior.log_density, "diverging": posterior.diverging}
        known = {name: (("chain", "draw"), values) for name, values in per_draw.items() if values is not None}
        if known:
            places = groups["posterior"].coords
            groups["sample_stats"] = xr.Dataset(known, {"chain": places["chain"], "draw": places["draw"]})
    return groups


def _draws(posterior: Posterior, size: int, rng: np.random.Generator | None) -> np.ndarray:
    """Draws (chains, draws, d)."""
    if isinstance(posterior, ChainPosterior):
        return posterior.draws
    if isinstance(posterior, ParticlePosterior):
        return posterior.particles[None]
    if size < 1:
        raise BvsiError(f"size: at least one draw is needed; got {size}.")
    each = -(-size // CHAINS)
    drawn = posterior.sample(CHAINS * each, rng if rng is not None else np.random.default_rng(0))
    return drawn.reshape(CHAINS, each, len(posterior.names))


def _attributes(posterior: Posterior) -> dict[str, str]:
    return {
        "inference_library": "bvsi",
        "inference_library_version": __version__,
        "posterior": type(posterior).__name__,
        "warnings": "\n".join(getattr(posterior, "warnings", ())),
    }
