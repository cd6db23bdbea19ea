"""The folder that a run writes: names of its files, and its pages made anew from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bvsi.discovery import Discovery
from bvsi.errors import BvsiError
from bvsi.report import html_report, markdown_report

RESULT = "result.nc"
REPORT = "report.html"
QUANTITIES = "quantities"
SETTINGS = "settings.json"
TIMING = "timing.json"
STUDY = "study.toml"
SUMMARY = "summary.json"


def pages(found: Discovery, extras: Mapping[str, Any]) -> dict[str, str]:
    """Both reports by the names of their files; extras: what a page shows beside the result itself."""
    return {REPORT: html_report(found, **extras), "report.md": markdown_report(found, **extras)}


def extras_beside(result: Path) -> dict[str, Any]:
    """What a run wrote beside its result; of a result that stands alone, only a title."""
    folder = result.parent
    settings, timing, summary = (_json(folder / name) for name in (SETTINGS, TIMING, SUMMARY))
    study = folder / STUDY
    return {
        "title": settings.get("title") or result.resolve().parent.name,
        "settings": settings.get("settings"),
        "quantities": _quantities(folder / QUANTITIES),
        "timing": timing,
        "study_text": study.read_text(encoding="utf-8") if study.is_file() else "",
        "notes": tuple(summary.get("notes", ())),
    }


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise BvsiError(f"{path}: this is no JSON any more; run the study again.") from None
    return found if isinstance(found, dict) else {}


def _quantities(folder: Path) -> dict[str, Any]:
    import xarray as xr

    found = {}
    for path in sorted(folder.glob("*.nc")):
        try:
            with xr.open_dataset(path, engine="h5netcdf") as dataset:
                found[path.stem] = dataset.load()
        except (OSError, ValueError):
            raise BvsiError(f"{path}: this cannot be read any more; run the study again.") from None
    return found
