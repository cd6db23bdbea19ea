"""A study from file to files: read, discover, check, forecast, predict, write.

Everything that can be checked is checked before anything is computed. Stages that are finished are kept in the folder
of the results, so that a run that was killed continues; the results appear as a whole when all is done.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bvsi.app.files import netcdf_bytes
from bvsi.app.readers import read_with_notes
from bvsi.app.readers.registry import format_of
from bvsi.app.report import equation_latex, versions
from bvsi.app.storage import to_bytes
from bvsi.app.study.build import (
    averaged,
    files_of,
    folder_of,
    library_of,
    mesh_of,
    options_of,
    quantities_of,
    reading_of,
    refine_options_of,
    resolved,
    with_known,
)
from bvsi.app.study.checks import validate
from bvsi.app.study.memory import Memory, estimate_memory, free_memory
from bvsi.app.study.outputs import WORK, alone, check_place, finish_move, write_outputs
from bvsi.app.study.result_folder import (
    COEFFICIENTS,
    EQUATION,
    REPORT,
    RESULT,
    SETTINGS,
    STUDY,
    SUMMARY,
    TIMING,
    WRITTEN,
    pages,
    quantity_file,
    remember_summary,
    summary_before,
)
from bvsi.app.study.stages import Stages, data_parts, digest_of, existing_files, file_parts, files_digest
from bvsi.app.study.summary import coefficients_csv, summary
from bvsi.app.study.toml import Study
from bvsi.check import Verdict
from bvsi.cluster import Stored, seen_by_workers
from bvsi.common.progress import OutOfTimeError, Progress, limited, silent
from bvsi.data import Data
from bvsi.data._arrays import mapped
from bvsi.discovery import Discovery, discover
from bvsi.discovery.forecasting import forecast
from bvsi.errors import BvsiError
from bvsi.operators import Library
from bvsi.predict.push import SimulationError

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.noise import Noise

Result = TypeVar("Result")
_log = logging.getLogger(__name__)

# Settings that neither discovery nor forecast depend on, and those of the forecast alone.
_LATER = ("title", "quantity", "output", "forecast", "refine")
# Files larger than this are read once only; what was read is kept until the run has ended.
_LARGE = 256_000_000
# Verdicts of an equation that is wrong or unknown, so that its forecast says nothing new.
_UNFIT = (Verdict.TIME, Verdict.SPACE, Verdict.OPERATOR, Verdict.ILL_POSED, Verdict.NOTHING)
# Part of the free memory that data may take before a run looks whether the rest will do.
_ROOM = 0.02
# Options of discover that its memory depends on.
_WEIGHTY = ("noise", "robust", "method", "check")


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run found and wrote.

    Attributes
    ----------
    quantities
        Quantities by name, with mean, variance and band.
    notes
        What a user should know about how the data were read, and of what could not be done.
    seconds
        Seconds by stage, when it was computed.
    data
        SHA-256 of the data files, by their names in the study.
    taken
        Stages of an earlier run on this machine.
    """

    found: Discovery
    quantities: Mapping[str, xr.Dataset]
    folder: Path
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    data: Mapping[str, str]
    taken: tuple[str, ...] = ()

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / REPORT


@dataclass(frozen=True)
class FollowUp:
    """What follows the answer.

    Attributes
    ----------
    budget
        Seconds that it may take.
    insisted
        Stages that are made also where the verdict says that they cannot help.
    """

    budget: float
    insisted: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Inputs:
    """A study that has been checked against its data.

    Attributes
    ----------
    read
        Data as they were read, with a field for each of several measurements.
    noise
        What these tell, one each experiment; None without.
    """

    study: Study
    data: tuple[Data, ...]
    library: Library
    notes: tuple[str, ...]
    read: tuple[Data, ...]
    noise: tuple[Noise, ...] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of :func:`bvsi.discover`."""
        return options_of(self.study, self.noise)


def read_inputs(study: Study, *, stages: Stages | None = None, progress: Progress = silent) -> Inputs:
    """Read the data and check the whole study against them.

    Parameters
    ----------
    stages
        Where what comes from large files is kept.
    """
    validate(study)
    data, notes = [], []
    for number, path in enumerate(files_of(study)):
        one, told = _read(study, path, number, stages, progress)
        data.append(one)
        notes += [f"{path.name}: {note}" for note in told]
    means, scatter = zip(*(averaged(one, study) for one in data), strict=True)
    validate(study, means)
    noise = tuple(one for one in scatter if one is not None)
    return Inputs(study, means, library_of(study), tuple(notes), tuple(data), noise or None)


def run_study(
    study: Study,
    *,
    out: Path | None = None,
    client: Any = None,
    progress: Progress = silent,
    answered: Callable[[Discovery, Path], None] | None = None,
    wanted: FollowUp | None = None,
) -> Finished:
    """Run a study and write its results: first the answer, then what follows from it.

    Parameters
    ----------
    out
        Folder of the results instead of the study's own.
    client
        A dask.distributed.Client, on whose cluster the discovery is computed. Results do not depend on it: a run may
        be begun here and ended there.
    answered
        Called with the discovery and the folder as soon as equation and verdict are there and written.
    wanted
        What follows; by default what the study says.
    """
    validate(study)
    folder = out or folder_of(study)
    _check_folder(study, folder, within=study.folder if out is None else None)
    with alone(folder):
        finish_move(folder)
        wanted = FollowUp(study.settings.output.budget) if wanted is None else wanted
        return _run(study, folder, client, progress, answered, wanted)


def _check_folder(study: Study, folder: Path, *, within: Path | None) -> None:
    """Refuse, before anything is computed, a folder in which results would replace what is not ours."""
    copy = folder / STUDY
    if copy.exists() and copy.samefile(study.path):
        raise BvsiError(f"{folder}: it holds the study file itself; choose another folder for the results.")
    check_place(folder, (*WRITTEN, *map(quantity_file, quantities_of(study))), within=within)


def _run(
    study: Study,
    folder: Path,
    client: Any,
    progress: Progress,
    answered: Callable[[Discovery, Path], None] | None,
    wanted: FollowUp,
) -> Finished:
    stages, settings = Stages(folder / WORK), resolved(study)
    begin = time.perf_counter()
    inputs = read_inputs(study, stages=stages, progress=progress)
    reading = time.perf_counter() - begin
    core = {key: value for key, value in settings.items() if key not in _LATER}
    first = digest_of(core, data_parts(inputs.read))
    digests = {"discovery": first, "forecast": digest_of({"discovery": first, "forecast": settings["forecast"]})}
    found = stages.done("discovery", first, lambda: discovered(inputs, progress, client=client), *_KEPT)
    names = study.settings.data.files or (study.settings.data.file,)
    files = {str(name): files_digest(path) for name, path in zip(names, files_of(study), strict=True)}

    def finished(found: Discovery) -> Finished:
        quantities, obstacles = predicted(study, found)
        notes = (*inputs.notes, *_notes_of(found), *obstacles)
        seconds = {"reading": reading, **{name: stages.seconds[name] for name in digests if name in stages.seconds}}
        return Finished(found, quantities, folder, notes, seconds, files, tuple(stages.taken))

    if "discovery" not in stages.taken:  # the answer is on disk before anything else is tried
        remember_summary(folder)
        write(finished(found), study)
    if answered is not None:
        answered(found, folder)
    end = time.monotonic() + wanted.budget
    if study.settings.forecast.enabled or "forecast" in wanted.insisted:
        share = 0.5 if study.settings.refine.wanted else 1.0  # both fit into the budget
        limit = limited(progress, share * wanted.budget)
        found = _followed("forecast", stages, digests, found, wanted, lambda: with_forecast(inputs, found, limit))
    if study.settings.refine.wanted:
        digests["refine"] = refine_digest(inputs, digests["forecast"])
        left = max(0.0, end - time.monotonic())
        insisted = replace(wanted, insisted=wanted.insisted | {"refine"})  # it is for answers that are in doubt
        found = _followed(
            "refine", stages, digests, found, insisted, lambda: with_refined(inputs, found, left, progress)
        )
    if stages.refused:
        what = " and ".join(stages.refused)
        _log.warning("%s in %s: damaged, or not computed on this machine; computed again", what, stages.folder)
    made = finished(found)
    write(made, study)
    stages.clear(digests)
    return made


def _followed(
    name: str,
    stages: Stages,
    digests: Mapping[str, str],
    found: Discovery,
    wanted: FollowUp,
    compute: Callable[[], Discovery],
) -> Discovery:
    """The discovery with what follows from it: from an earlier run, computed in time, or with the reason why not."""
    skipped = _useless(found)
    if skipped and name not in wanted.insisted and not stages.has(name, digests[name]):
        return replace(found, settings={**found.settings, name: f"skipped: {skipped}"})
    try:
        return stages.done(name, digests[name], compute, *_KEPT)
    except OutOfTimeError:
        told = f"none: {wanted.budget:g} s were not enough; more time: bvsi {name} --budget 600"
        return replace(found, settings={**found.settings, name: told})


def _useless(found: Discovery) -> str:
    """Why no forecast of this equation helps; empty where one may."""
    if found.check is None or found.check.verdict not in _UNFIT:
        return ""
    return (
        f"the verdict is {found.verdict!r}, and an equation that does not explain the data does not forecast them; "
        "to forecast anyway: bvsi forecast"
    )


def memory_of(inputs: Inputs) -> Memory:
    """Memory that the discovery will take, estimated from its sizes."""
    options = inputs.options
    return estimate_memory(inputs.data, inputs.library, **{name: options[name] for name in _WEIGHTY})


def _warn_of_memory(inputs: Inputs) -> None:
    """Warn at once where memory is not enough; small data, and those kept in files, are not checked.

    The warning is not part of the results.
    """
    free, arrays = free_memory(), [values for data in inputs.data for values in data.fields.values()]
    size = sum(values.nbytes for values in arrays if mapped(values) is None)
    if free is None or size < _ROOM * free:
        return
    try:
        warning = memory_of(inputs).warning
    except BvsiError:  # reported by the discovery itself
        return
    if warning:
        _log.warning("%s", warning)


def discovered(inputs: Inputs, progress: Progress = silent, *, client: Any = None) -> Discovery:
    """Selection, posterior and check.

    Parameters
    ----------
    client
        Client of a cluster that does the first two.
    """
    options = inputs.options
    if client is None:
        _warn_of_memory(inputs)
    else:
        options |= {"client": client, "stored": _stored(inputs.study, client)}
    return discover(inputs.data, inputs.library, **options, progress=progress)


def _stored(study: Study, client: Any) -> list[Stored] | None:
    """The files of the experiments, where they are Zarr stores that all workers see; else data are sent."""
    paths = [path.resolve() for path in files_of(study)]
    if (
        study.settings.data.known
        or study.settings.data.replicates
        or not all(format_of(path).name == "Zarr" and seen_by_workers(client, path) for path in paths)
    ):
        return None
    reading = reading_of(study)
    mesh = None if reading.mesh is None else reading.mesh.resolve()
    return [Stored(path, replace(reading, mesh=mesh)) for path in paths]


def with_forecast(inputs: Inputs, found: Discovery, progress: Progress = silent) -> Discovery:
    """The discovery with its forecast, or with the reason why there is none."""
    wanted = inputs.study.settings.forecast
    try:
        made = forecast(
            inputs.data,
            inputs.library,
            found,
            holdout=wanted.holdout,
            draws=wanted.draws,
            rng=np.random.default_rng(wanted.seed),
            options=inputs.options,
            progress=progress,
        )
    except BvsiError as error:
        unsound = str(error) if isinstance(error, SimulationError) else ""
        return replace(found, settings={**found.settings, "forecast": f"none: {error}"}, no_simulation=unsound)
    return replace(found, forecast=made)


def with_refined(inputs: Inputs, found: Discovery, budget: float, progress: Progress = silent) -> Discovery:
    """The discovery with fits by forward solves within so many seconds, or with the reason why there are none."""
    try:
        return refined(inputs, found, budget, limited(progress, budget))
    except BvsiError as error:
        return replace(found, settings={**found.settings, "refine": f"none: {error}"})


def refined(inputs: Inputs, found: Discovery, budget: float, progress: Progress = silent, **how: Any) -> Discovery:
    """The discovery with fits by forward solves, of data and noise of the study.

    Parameters
    ----------
    how
        ``known`` and ``keep`` of :func:`bvsi.discovery.refining.refine`.
    """
    given = refine_options_of(inputs.study) | {"noise": inputs.options["noise"]} | how
    return found.refine(inputs.data, inputs.library, budget=budget, progress=progress, **given)


def refine_digest(inputs: Inputs, discovery: str = "") -> str:
    """What fits by forward solves depend on."""
    settings, mesh = resolved(inputs.study), mesh_of(inputs.study)
    core = {key: value for key, value in settings.items() if key not in _LATER}
    used = {"core": core, "discovery": discovery, "refine": settings["refine"]}
    return digest_of(used | {"on": None if mesh is None else files_digest(mesh)}, data_parts(inputs.read))


def predicted(study: Study, found: Discovery) -> tuple[dict[str, xr.Dataset], tuple[str, ...]]:
    """Quantities of the study with their uncertainty, and why some do not follow from what was selected."""
    rng = np.random.default_rng(study.settings.output.seed)
    made, notes = {}, []
    for name, quantity in quantities_of(study).items():
        try:
            made[name] = quantity(found, rng)
        except BvsiError as error:
            notes.append(f"quantity {name}: {error}")
    return made, tuple(notes)


def write(finished: Finished, study: Study) -> None:
    """All files of the results, at once."""
    found = finished.found
    settings = resolved(study)
    extras: dict[str, Any] = {
        "title": study.settings.title or study.path.stem,
        "settings": settings,
        "quantities": finished.quantities,
        "timing": finished.seconds,
        "study_text": _without_schema(study.text),
        "notes": finished.notes,
        "before": summary_before(finished.folder),
    }
    texts = {
        **pages(found, extras),
        EQUATION: equation_latex(found),
        COEFFICIENTS: coefficients_csv(found),
        SUMMARY: as_json(summary(found, finished.notes)),
        SETTINGS: as_json(
            {"title": extras["title"], "settings": settings, "versions": versions(), "data": dict(finished.data)}
        ),
        TIMING: as_json(dict(finished.seconds)),
        STUDY: extras["study_text"],
    }
    bands = {quantity_file(name): netcdf_bytes(band) for name, band in finished.quantities.items()}
    write_outputs(finished.folder, {RESULT: to_bytes(found), **texts, **bands})


_KEPT = (to_bytes, Discovery.load)


def _read(
    study: Study, path: Path, number: int, stages: Stages | None, progress: Progress
) -> tuple[Data, tuple[str, ...]]:
    """Data and notes; what a large file was coarsened to is kept. Whole data are read again as quickly as a copy."""

    def compute() -> tuple[Data, tuple[str, ...]]:
        data, notes = read_with_notes(path, reading_of(study), progress=progress)
        return with_known(data, study, number), notes

    _check_link(study, path)
    files = existing_files(path)
    if stages is None or not reading_of(study).coarsen or sum(p.stat().st_size for p in files) < _LARGE:
        return compute()
    digest = digest_of(resolved(study)["data"], file_parts(files))
    return stages.done(f"data{number}", digest, compute, _save_data, _load_data)


def _check_link(study: Study, path: Path) -> None:
    """Refuse a link in the folder of the study that leads out of it: the study may come from somebody else."""
    home = study.path.resolve().parent if study.home is None else study.home.resolve()
    named = Path(os.path.normpath(home / path.name if path.parent == study.folder else path.absolute()))
    if named.is_relative_to(home) and not study.allow_outside and not named.resolve().is_relative_to(home):
        raise BvsiError(
            f"{path}: this is a link out of the study's folder; name the file itself, or use --allow-outside."
        )


def _save_data(read: tuple[Data, tuple[str, ...]]) -> bytes:
    data, notes = read
    return netcdf_bytes(data.to_xarray().assign_attrs(notes=json.dumps(notes)))


def _load_data(path: Path) -> tuple[Data, tuple[str, ...]]:
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return Data.from_xarray(dataset, time="time"), tuple(json.loads(dataset.attrs["notes"]))
    except (OSError, KeyError, ValueError) as error:
        raise BvsiError(f"{path}: {error}") from None


def _without_schema(text: str) -> str:
    """The text without the line for editors, whose path means nothing to others."""
    return re.sub(r"^#:schema .*\n", "", text)


def _notes_of(found: Discovery) -> tuple[str, ...]:
    """Why there is no forecast, or no fit by forward solves."""
    told = {name: found.settings.get(name, "") for name in ("forecast", "refine")}
    return tuple(f"{name}: {why}" for name, why in told.items() if why)


def as_json(content: Any) -> str:
    """A file of JSON."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
