"""Posteriors as NetCDF files and for other tools.

Files have labelled arrays, and texts as JSON attributes. No pickle. For xarray and ArviZ there are draws with labels.
"""

from __future__ import annotations

import importlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bvsi._version import __version__
from bvsi.app.files import load_netcdf, netcdf_bytes, write_whole
from bvsi.errors import BvsiError, DataError, MissingDependencyError
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors.closed_form import GaussianPosterior, NormalInverseGammaPosterior, Posterior, check_names
from bvsi.infer.posteriors.draws import ChainPosterior, ParticlePosterior
from bvsi.infer.posteriors.truncated import TruncatedPosterior

if TYPE_CHECKING:
    import xarray as xr

#: Chains that the draws of a closed form are dealt to, so that tools which compare chains can do so.
CHAINS = 4


FORMAT = "bvsi posterior 1"

Variables = dict[str, tuple[Any, np.ndarray]]
Attributes = dict[str, Any]
ClosedForm = GaussianPosterior | NormalInverseGammaPosterior
T = TypeVar("T")


def save_posterior(posterior: Posterior, path: str | Path) -> None:
    """Write a posterior to a NetCDF file; an earlier file is replaced only when the new one is whole."""
    import xarray as xr

    variables, attributes = posterior_variables(posterior)
    attributes |= {"format": FORMAT, "version": __version__}
    write_whole(Path(path), netcdf_bytes(xr.Dataset(variables, operator_labels(posterior.names), attributes)))


def load_posterior(path: str | Path) -> Posterior:
    """Read a file written by :func:`save_posterior`: the same kind of posterior, with the same numbers."""
    return read_file(Path(path), FORMAT, "posterior", posterior_from_dataset)


def read_file(path: Path, form: str, what: str, make: Callable[[xr.Dataset], T]) -> T:
    """What ``make`` makes of a NetCDF file whose attribute ``format`` is ``form``; :class:`DataError` otherwise."""
    if not path.is_file():
        raise DataError(f"path: there is no file {path}.")
    try:
        dataset = load_netcdf(path)
    except (DataError, MemoryError):
        raise
    except Exception as problem:  # the HDF5 library raises many kinds on damaged files
        raise DataError(f"path: {path} is not a NetCDF file that can be read ({problem}).") from None
    if dataset.attrs.get("format") != form:
        raise DataError(f"path: {path} is a NetCDF file, but not a {what} saved by bvsi.")
    try:
        return make(dataset)
    except MemoryError:
        raise
    except Exception as problem:  # a file may say anything: lists for numbers, texts for tables
        raise DataError(
            f"path: {path} is a {what} saved by bvsi, but part of it is missing or damaged ({problem})."
        ) from None


def operator_labels(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Coordinates of the dimensions ``operator`` and ``operator_``, the second one of matrices."""
    return {"operator": list(names), "operator_": list(names)}


def posterior_variables(posterior: Posterior) -> tuple[Variables, Attributes]:
    """Labelled arrays and attributes from which :func:`posterior_from_dataset` makes the posterior again."""
    match posterior:
        case GaussianPosterior() | NormalInverseGammaPosterior():
            return _closed_form(posterior)
        case TruncatedPosterior():
            return _truncated(posterior)
        case ParticlePosterior():
            texts = {"diagnostics": json.dumps(dict(posterior.diagnostics)), "warnings": json.dumps(posterior.warnings)}
            return {"particles": (("particle", "operator"), posterior.particles)}, {"posterior": "particles", **texts}
        case ChainPosterior():
            per_draw = {"log_density": posterior.log_density, "diverging": posterior.diverging}
            variables: Variables = {"draws": (("chain", "draw", "operator"), posterior.draws)}
            variables |= {key: (("chain", "draw"), value) for key, value in per_draw.items() if value is not None}
            # the names of those that exist are kept, so that a lost one is noticed
            held = {"held": json.dumps(sorted(variables)), "warnings": json.dumps(posterior.warnings)}
            return variables, {"posterior": "chains", **held}
    raise BvsiError(f"posterior: a {type(posterior).__name__} cannot be saved; save its draws as a ParticlePosterior.")


def posterior_from_dataset(dataset: xr.Dataset) -> Posterior:
    """The posterior again. KeyError, TypeError or ValueError where something is missing or damaged."""
    names = check_names(tuple(str(name) for name in dataset["operator"].values))
    attributes = dataset.attrs
    # discoveries saved before other kinds existed have no such attribute
    kind = attributes.get("posterior", "closed form")
    if kind == "closed form":
        return _closed_form_of(dataset, names)
    if kind == "truncated":
        A, lower, upper = (dataset[f"constraint_{part}"].values for part in ("matrix", "lower", "upper"))
        constraints = LinearConstraints(names, A, lower, upper, tuple(json.loads(attributes["constraint_texts"])))
        return TruncatedPosterior(_closed_form_of(dataset, names), constraints, dataset["mode"].values)
    warnings = tuple(json.loads(attributes["warnings"]))
    if kind == "particles":
        return ParticlePosterior(names, dataset["particles"].values, json.loads(attributes["diagnostics"]), warnings)
    if kind == "chains":
        held = {key: dataset[key].values for key in json.loads(attributes["held"])}
        return ChainPosterior(names, **held, warnings=warnings)
    raise DataError(f"the kind of posterior {kind!r} is unknown to this version of bvsi")


def _closed_form(posterior: ClosedForm) -> tuple[Variables, Attributes]:
    if isinstance(posterior, NormalInverseGammaPosterior):
        shape, noise = posterior.shape, [posterior.alpha, posterior.beta]
    else:
        shape, noise = posterior.covariance, None
    variables: Variables = {"mean": ("operator", posterior.mean), "shape": (("operator", "operator_"), shape)}
    return variables, {"posterior": "closed form", "noise": json.dumps(noise)}


def _closed_form_of(dataset: xr.Dataset, names: tuple[str, ...]) -> ClosedForm:
    mean, shape, noise = dataset["mean"].values, dataset["shape"].values, json.loads(dataset.attrs["noise"])
    if mean.shape != (len(names),) or shape.shape != 2 * mean.shape:
        raise DataError(f"{len(names)} names, but mean {mean.shape} and shape {shape.shape}")
    if noise is None:
        return GaussianPosterior(names, mean, shape)
    alpha, beta = (float(value) for value in noise)
    if not (0 < alpha < math.inf and 0 < beta < math.inf):
        raise DataError(f"the law of the noise has alpha {alpha} and beta {beta}, which are not positive numbers")
    return NormalInverseGammaPosterior(names, mean, shape, alpha, beta)


def _truncated(posterior: TruncatedPosterior) -> tuple[Variables, Attributes]:
    variables, attributes = _closed_form(posterior.base)
    rows = posterior.constraints
    variables |= {
        "mode": ("operator", posterior.mode),
        "constraint_matrix": (("constraint", "operator"), rows.A),
        "constraint_lower": ("constraint", rows.lower),
        "constraint_upper": ("constraint", rows.upper),
    }
    return variables, attributes | {"posterior": "truncated", "constraint_texts": json.dumps(rows.texts)}


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
    return as_arviz(_groups(posterior, size, rng), _attributes(posterior))


def arviz_installed() -> Any:
    """The module arviz; :class:`MissingDependencyError` where it is not installed."""
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces its next version whenever it is imported
            warnings.simplefilter("ignore")
            return importlib.import_module("arviz")
    except ImportError:
        raise MissingDependencyError("to_arviz: ArviZ is not installed; run: pip install 'bvsi[arviz]'") from None


def as_arviz(groups: Mapping[str, xr.Dataset], attributes: Mapping[str, str]) -> Any:
    """Groups as the installed ArviZ takes them."""
    import xarray as xr

    arviz = arviz_installed()
    if arviz.__version__.startswith("0."):
        return arviz.InferenceData(attrs=dict(attributes), **groups)
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=dict(attributes)), **groups})


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
