"""The folder that a run writes: names of its files, and its pages made again from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bvsi.app.files import load_netcdf, write_whole
from bvsi.app.readers.source import readable
from bvsi.app.report import html_report, markdown_report
from bvsi.app.study.build import files_of
from bvsi.app.study.outputs import WORK, is_regular, recover
from bvsi.app.study.stages import existing_files
from bvsi.app.study.toml import Study, load_study
from bvsi.common.naming import plain_name
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    import xarray as xr

RESULT = "result.nc"
REPORT = "report.html"
QUANTITIES = "quantities"
SETTINGS = "settings.json"
TIMING = "timing.json"
STUDY = "study.toml"
SUMMARY = "summary.json"
PAGE = "report.md"
EQUATION = "equation.tex"
COEFFICIENTS = "coefficients.csv"
WRITTEN = (RESULT, REPORT, PAGE, EQUATION, COEFFICIENTS, SUMMARY, SETTINGS, TIMING, STUDY)
"""All files that a run writes, but for its quantities."""

_BEFORE = "before.json"
_LARGEST = 10_000_000
"""Bytes of a text beside the result."""
# Bytes of a quantity at most: a page holds all of its values, and took 2.2 GB for 80 MB of them.
_LARGEST_BAND = 5e7


def quantity_file(name: str) -> str:
    """Where a quantity is written, relative to the folder."""
    return f"{QUANTITIES}/{plain_name(name)}.nc"


def pages(found: Discovery, extras: Mapping[str, Any]) -> dict[str, str]:
    """Both reports by the names of their files.

    Parameters
    ----------
    extras
        What a page shows beside the result itself.
    """
    return {REPORT: html_report(found, **extras), PAGE: markdown_report(found, **extras)}


def remember_summary(folder: Path) -> None:
    """Keep the summary of the result that is there, for the report of the one that will replace it."""
    kept, now = folder / WORK / _BEFORE, folder / SUMMARY
    if is_regular(now):
        write_whole(kept, _text(now))
    else:
        kept.unlink(missing_ok=True)


def summary_before(folder: Path) -> dict[str, Any]:
    """What was kept; empty where there was no result."""
    kept = folder / WORK / _BEFORE
    try:
        return _json(kept) if is_regular(kept) else {}
    except BvsiError:  # damaged: it is for people's information only
        return {}


def extras_beside(result: Path) -> dict[str, Any]:
    """What a run wrote beside its result; of a result that stands alone, only a title."""
    folder = result.parent
    settings, timing, summary = (_json(folder / name) for name in (SETTINGS, TIMING, SUMMARY))
    return {
        "title": str(settings.get("title") or result.resolve().parent.name),
        "settings": used if isinstance(used := settings.get("settings"), dict) else None,
        "quantities": _quantities(folder / QUANTITIES),
        "timing": {name: s for name, s in timing.items() if isinstance(s, int | float)},
        "study_text": _text(folder / STUDY),
        "notes": _notes(summary),
        "before": summary_before(folder),
    }


def load_with_result(given: Path) -> tuple[Study, Path | None]:
    """The study in a file, or in the folder of a study or result; of the latter also the result.

    A run leaves a copy of the study beside its result, whose paths are relative to the folder of the study itself: that
    is looked for above the folder of the result.
    """
    given = given.parent if given.name == RESULT and given.is_file() else given
    folder = given if given.is_dir() else given.parent
    file, result = (folder / STUDY if given.is_dir() else given), folder / RESULT
    if given.is_dir():
        recover(given)
        check_no_link(file)
        if not file.is_file():
            raise BvsiError(f"{given}: there is no study here; give a study file, or the folder that bvsi run writes.")
    study = load_study(file)
    if file.name != STUDY or not result.is_file():
        return study, None
    check_no_link(result)
    home = next((home for home in (folder, *_homes(folder, study)) if _has_data(study, home)), None)
    if home is None:
        name = study.settings.data.file or (study.settings.data.files or ("",))[0]
        raise BvsiError(
            f"{folder}: the data of its study, {name!r}, are not in the folder above it; give the study file itself "
            f"as well: bvsi refine STUDY.toml --result {folder}."
        )
    copied = home is not folder
    return replace(study, home=home if copied else None), result if copied or given.is_dir() else None


def _homes(folder: Path, study: Study) -> Iterator[Path]:
    """Where the study of a result may be: by its own name for the folder of the results, or in the folder above."""
    here, name = folder.resolve(), Path(study.settings.output.folder).parts
    if here.parts[-len(name) :] == name:
        yield here.parents[len(name) - 1]
    yield here.parent


def _has_data(study: Study, home: Path) -> bool:
    return all(existing_files(path) for path in files_of(replace(study, home=home)))


def _text(path: Path) -> str:
    """A file beside the result, empty where there is none; a link is refused, since it may lead to any other file."""
    check_no_link(path)
    if not path.is_file():
        return ""
    if path.stat().st_size > _LARGEST:
        raise BvsiError(f"{path}: {path.stat().st_size} bytes are too much for this file; run the study again.")
    try:
        return path.read_text(encoding="utf-8")
    except ValueError:
        raise BvsiError(f"{path}: this is no longer a text in UTF-8; run the study again.") from None


def check_no_link(path: Path) -> None:
    """Refuse a link in the folder of a result, which may come from somebody else."""
    if path.is_symlink():
        raise BvsiError(f"{path}: this is a link, and results may not contain links; remove it.")


def _json(path: Path) -> dict[str, Any]:
    text = _text(path) or "{}"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BvsiError(f"{path}: this is no longer JSON; run the study again.") from None
    return found if isinstance(found, dict) else {}


def _notes(summary: Mapping[str, Any]) -> tuple[str, ...]:
    notes = summary.get("notes", ())
    return tuple(str(note) for note in notes) if isinstance(notes, list) else ()


def _quantities(folder: Path) -> dict[str, Any]:
    check_no_link(folder)
    found = {}
    for path in sorted(folder.glob("*.nc")):
        check_no_link(path)
        with readable(path, "a quantity"):
            found[path.stem] = _quantity(load_netcdf(path, _LARGEST_BAND))
    return found


def _quantity(dataset: xr.Dataset) -> xr.Dataset:
    """A quantity with its band; ValueError where something is missing or not a number."""
    bands = [dataset[name] for name in ("mean", "lower", "upper")]
    if any(band.dims != bands[0].dims or band.dtype.kind != "f" for band in bands):
        raise ValueError("mean, lower and upper do not fit together")
    return dataset
