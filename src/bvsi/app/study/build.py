"""From a study to the objects of the library. What can fail is found by :func:`bvsi.app.study.validate` before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.app.study import objects
from bvsi.app.study.quantities import Quantity
from bvsi.app.study.toml import Study
from bvsi.operators import Library

if TYPE_CHECKING:
    from bvsi.app.readers import Reading
    from bvsi.data import Data
    from bvsi.noise import Noise


def files_of(study: Study) -> tuple[Path, ...]:
    """Data files, one per experiment; names are relative to the study file and may be patterns such as run_*.vtu."""
    data = study.settings.data
    names = data.files if data.files is not None else (data.file,)
    return tuple(study.folder / name for name in names if name is not None)


def folder_of(study: Study) -> Path:
    """Folder of the results."""
    return study.folder / study.settings.output.folder


def reading_of(study: Study) -> Reading:
    """What to take from the data files."""
    from bvsi.app.readers import Reading

    data = study.settings.data
    return Reading(
        time=data.time,
        fields=_measurements(data.replicates) or data.fields,
        auxiliary=data.auxiliary,
        dims=data.dims,
        axes=data.axes,
        coordinates={} if isinstance(data.coordinates, str) else data.coordinates,
        system=data.coordinates if isinstance(data.coordinates, str) else None,
        spacing=data.spacing,
        periodic=data.periodic,
        missing=data.missing,
        mesh=None if data.mesh is None else study.folder / data.mesh,
        domain=data.domain,
        select={name: (_finite(low), _finite(high)) for name, (low, high) in data.select.items()},
        max_memory=data.max_memory,
        allow_outside=study.allow_outside,
        guarded=study.guarded,
        coarsen=data.coarsen,
        keep_ends=study.settings.library.boundary != "unknown",
    )


def library_of(study: Study) -> Library:
    """Candidate operators with what must stay and what holds on the boundary."""
    return objects.library(study.settings.library)


def coefficient_names(study: Study) -> tuple[str, ...]:
    """Names of all coefficients and parameters, of every experiment where they differ."""
    from bvsi.operators.families import written_out

    library = library_of(study)
    if library.per_experiment:
        library = written_out(library, len(files_of(study)))
    return (*library.names, *library.parameters)


def with_known(data: Data, study: Study, number: int) -> Data:
    """The data of one file, counted from zero, with its known quantities."""
    known = {name: np.full(data.n_nodes, values[number]) for name, values in study.settings.data.known.items()}
    return replace(data, auxiliary={**data.auxiliary, **known}) if known else data


def _measurements(replicates: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A field for each of several measurements, to its name in the file."""
    return {f"{field}_{i}": name for field, names in replicates.items() for i, name in enumerate(names, start=1)}


def averaged(data: Data, study: Study) -> tuple[Data, Noise | None]:
    """The mean of several measurements in one file, with the noise of their scatter; others as they are."""
    replicates = study.settings.data.replicates
    if not replicates:
        return data, None
    from bvsi.noise import from_counts, from_replicates

    count = len(next(iter(replicates.values())))
    every = [replace(data, fields={f: data.fields[f"{f}_{i + 1}"] for f in replicates}) for i in range(count)]
    return from_counts(every) if study.settings.noise.counts else from_replicates(every)


def options_of(study: Study, noise: Sequence[Noise] | None = None) -> dict[str, Any]:
    """Keyword arguments of :func:`bvsi.discover`; None where the choice is left to it.

    Parameters
    ----------
    noise
        What replicates tell, one each experiment.
    """
    from bvsi.discovery.method import Method

    settings = study.settings
    return {
        "noise": objects.noise(settings.noise) if noise is None else list(noise),
        "robust": settings.noise.robust,
        "method": Method(
            objects.discretisation(settings.discretisation),
            objects.stencil(settings.discretisation),
            objects.weighting(settings.discretisation),
            objects.selection(settings.selection),
            objects.estimator(settings.posterior),
        ),
        "prior": objects.prior(settings.posterior),
        "constraints": settings.posterior.constraints or None,
        "relinearise": settings.posterior.relinearise,
        "check": settings.check.enabled,
        "units": settings.data.units,
    }


def refine_options_of(study: Study) -> dict[str, Any]:
    """Keyword arguments of :func:`bvsi.discovery.refining.refine`, but for the noise."""
    from bvsi.app.readers.mesh_file import read_mesh
    from bvsi.infer.nuts import NUTS

    wanted, posterior, mesh = study.settings.refine, study.settings.posterior, mesh_of(study)
    given: dict[str, Any] = {"blur": wanted.blur, "bins": wanted.bins}
    given |= {"prior": objects.prior(posterior), "constraints": posterior.constraints or None}
    if wanted.draws is not None:
        given["sample"] = NUTS(draws=wanted.draws, tune=wanted.draws, chains=2)
    if mesh is not None:
        given["on"] = read_mesh(mesh, allow_outside=study.allow_outside).mesh
    return given


def mesh_of(study: Study) -> Path | None:
    """Where fits by forward solves are made; None for the nodes of the data."""
    on = study.settings.refine.on
    return None if on is None else study.folder / on


def quantities_of(study: Study) -> dict[str, Quantity]:
    """The quantities of interest by name; each takes a discovery and a generator."""
    names = coefficient_names(study)
    return {settings.name: Quantity(settings, names) for settings in study.settings.quantity}


def resolved(study: Study) -> dict[str, Any]:
    """All settings, defaults filled in, as plain JSON: no infinities, no tuples."""
    plain = _plain(study.settings.model_dump(mode="json"))
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _finite(limit: float | None) -> float | None:
    return limit if limit is not None and math.isfinite(limit) else None
