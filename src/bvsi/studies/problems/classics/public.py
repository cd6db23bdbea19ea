"""The same equations with the data that papers use, read from files where they are present.

The folder is ``BVSI_DATA``, or the nearest ``shared/data`` above the current folder or this file. The files are those
of PySINDy's examples (MIT licence): burgers.mat, kdv.mat, kuramoto_sivishinky.mat.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from bvsi.data import Data, Grid
from bvsi.studies.problems.classics import burgers, kdv, kuramoto_sivashinsky
from bvsi.studies.problems.classics.case import Classic


@dataclass(frozen=True)
class _File:
    """A file and the names in it: values (x, t), coordinates, times."""

    case: Classic
    name: str
    values: str
    x: str
    t: str


_FILES = (
    _File(burgers.CASE, "burgers.mat", "usol", "x", "t"),
    _File(kdv.CASE, "kdv.mat", "usol", "x", "t"),
    _File(kuramoto_sivashinsky.CASE, "kuramoto_sivishinky.mat", "uu", "x", "tt"),
)


def public_cases() -> dict[str, Classic]:
    """The cases whose files are there, by name: ``public_burgers``, …; empty where none is."""
    folder = data_folder()
    if folder is None:
        return {}
    found = [(file, folder / file.name) for file in _FILES]
    cases = [
        replace(file.case, name=f"public_{file.case.name}", make=partial(_read, file, path))
        for file, path in found
        if path.is_file()
    ]
    return {case.name: case for case in cases}


def data_folder() -> Path | None:
    """``BVSI_DATA`` where set, else the first ``shared/data`` on the way up; None where there is none."""
    chosen = os.environ.get("BVSI_DATA")
    if chosen:
        return Path(chosen)
    here = Path.cwd() / "_"  # the parents begin with the current folder itself
    above = (parent / "shared" / "data" for start in (here, Path(__file__).resolve()) for parent in start.parents)
    return next((folder for folder in above if folder.is_dir()), None)


def _read(file: _File, path: Path) -> Data:
    """The data, periodic in x with period n·dx."""
    stored = loadmat(path)
    u = stored[file.values].real  # imaginary parts up to 1e-6 are left over from their solver
    x, t = (np.ravel(stored[key]).astype(float) for key in (file.x, file.t))
    return Data.from_arrays({"u": u}, times=t, geometry=Grid(x=x, periodic="x"), dims=("x", "time"))
