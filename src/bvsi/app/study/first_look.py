"""Data of a file without settings yet: what the file suggests, and what of it is a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bvsi.app.readers import Contents, Reading, read_with_notes, suggest
from bvsi.app.readers.names import TIME_NAMES, file_names
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError, MissingValuesError
from bvsi.operators import Library
from bvsi.operators.vocabulary import TIME

# A series is called a random walk where it has so many samples, steps alike to this part, increments that grow by this
# many of their own standard deviations, and do so with the power 1 ± _WALK. Ornstein–Uhlenbeck with 2,001 samples
# over 20 relaxation times: 20 of 20, with measurement noise or without; none of 345 others, white noise and the systems
# of the series study with 0 to 30% of noise (seed 1).
_LONG, _EVEN, _CLEAR, _WALK = 200, 0.01, 2.0, 0.5


def first_look(
    path: Path,
    reading: Reading | None = None,
    *,
    limits: Reading | None = None,
    progress: Progress = silent,
) -> tuple[Data, Reading, tuple[str, ...]]:
    """Data, the reading that gave them, and notes.

    NaN are taken for values that were not measured where there are any; the notes say so, as they say what was guessed.

    Parameters
    ----------
    limits
        Limits whose ``max_memory`` and ``allow_outside`` hold for a guess.
    """
    wanted = suggest(path, limits) if reading is None else reading
    notes = [] if reading is not None else guesses(wanted)
    try:
        data, told = read_with_notes(path, wanted, progress=progress)
    except MissingValuesError:
        if wanted.missing is not None:
            raise
        wanted = replace(wanted, missing="nan")
        data, told = read_with_notes(path, wanted, progress=progress)
        notes.append('NaN are taken for values that were not measured (missing = "nan")')
    walks = [name for name in data.names if not data.geometry.names and walks_at_random(data, name)]
    if walks:
        notes.append(
            f"{', '.join(walks)}: a random walk down to single steps, as a stochastic equation makes it; noise in the "
            "equation is not estimated: take the density of many runs (Fokker–Planck), or their mean"
        )
    return data, wanted, tuple(dict.fromkeys((*notes, *told)))


def stated_units(listed: Contents, reading: Reading, data: Data) -> dict[str, str]:
    """Units of fields, coordinates and ``t``, as far as the file states them."""
    fields = {column: name for name, column in (file_names("fields", reading.fields) or {}).items()}
    held = {held: dim for dim, held in dict(reading.coordinates or {}).items()}
    units = {}
    for one in listed.variables:
        dim = held.get(one.name, one.name)
        axis = dict(reading.axes or {}).get(dim, dim)
        is_time = dim == reading.time or (reading.time is None and dim.lower() in TIME_NAMES)
        name = TIME if is_time else axis if axis in data.geometry.names else fields.get(one.name, one.name)
        if one.unit and name in (TIME, *data.geometry.names, *data.names):
            units[name] = one.unit
    return units


def fitting_units(units: Mapping[str, str], data: Data, library: Library) -> dict[str, str]:
    """The units of a file where none is missing and all operators have a coefficient in them; else none."""
    from bvsi.app.units import coefficient_units

    if not {TIME, *data.geometry.names, *data.names} <= set(units):
        return {}
    try:
        coefficient_units(library, units)
    except BvsiError:  # words that are no units, or pint is not installed
        return {}
    return dict(units)


def walks_at_random(data: Data, name: str) -> bool:
    """Whether a series has increments of the variance of a random walk, k s, over k = 1 to 16 steps.

    D(k) = <(x_{j+k} − x_j)²> of a smooth signal with white noise grows by k², of a random walk by k, and noise of the
    measurement drops out of D(2k) − D(k).
    """
    x, steps = data.observed(name)[:, 0], np.diff(data.times)
    x = x[np.isfinite(x)]
    if len(x) < _LONG or np.ptp(steps) > _EVEN * steps.mean():
        return False
    D = np.array([np.mean(np.square(x[k:] - x[:-k])) for k in 2 ** np.arange(5)])
    grown = np.diff(D)
    if not np.all(grown > _CLEAR * D[1:] * np.sqrt(2.0 ** np.arange(1, 5) / len(x))):
        return False
    return bool(np.all(np.abs(np.log2(grown[1:] / grown[:-1]) - 1) < _WALK))


def guesses(reading: Reading) -> list[str]:
    """What a file does not state, in words."""
    found = []
    if reading.dims is not None:
        found.append(f"guessed from lengths: dims = {', '.join(reading.dims)}; give --dims where that is wrong")
    if reading.spacing:
        steps = ", ".join(f"{name} = {step:g}" for name, step in reading.spacing.items())
        found.append(f"guessed: steps {steps}, since the file has no coordinates; set spacing in study.toml")
    return found
