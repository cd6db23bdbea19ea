"""Posteriors as NetCDF files: labelled arrays, and texts as JSON attributes. No pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bvsi._version import __version__
from bvsi.common.files import netcdf_bytes, write_whole
from bvsi.common.references import load_netcdf
from bvsi.errors import BvsiError, DataError
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors.closed_form import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.posteriors.draws import ChainPosterior, ParticlePosterior
from bvsi.infer.posteriors.posterior import Posterior, check_names
from bvsi.infer.posteriors.truncated import TruncatedPosterior

if TYPE_CHECKING:
    import xarray as xr

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
            # which of them exist is told, so that a lost one is noticed
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
