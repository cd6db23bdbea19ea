"""Computed data kept on disk between runs: written aside, then renamed, so that a file is whole or absent."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from bvsi.app.files import write_whole

_log = logging.getLogger(__name__)

Arrays = dict[str, NDArray[np.float64]]


def cache_directory() -> Path:
    """Folder of cached data: ``BVSI_CACHE`` where set, else the user's cache folder."""
    chosen = os.environ.get("BVSI_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("bvsi"))


def cached(name: str, settings: Mapping[str, object], make: Callable[[], Arrays], keys: Iterable[str] = ()) -> Arrays:
    """Arrays of an earlier run with the same settings, or made now and kept.

    Parameters
    ----------
    name
        Readable part of the file name.
    settings
        Everything that the result depends on (JSON values).
    keys
        Arrays that have to be there.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    path = cache_directory() / f"{name}-{digest}.npz"
    found = _load(path)
    if found is not None and set(keys) <= set(found):
        return found
    arrays = make()
    try:
        _save(path, arrays)
    except OSError as problem:  # a cache that cannot be written costs time, not the result
        _log.warning("cannot keep %s: %s; set BVSI_CACHE to a folder that can be written", path, problem)
    return arrays


def _load(path: Path) -> Arrays | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None  # absent or damaged: it is made again


def _save(path: Path, arrays: Arrays) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # not allow_pickle, which NumPy 2.0 takes for an array
    write_whole(path, buffer.getvalue())
