"""Data of a file that nobody has written settings for yet: what the file suggests, and what of it is a guess."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bvsi.app.readers import Reading, read_with_notes, suggest
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import MissingValuesError


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
    return data, wanted, tuple(dict.fromkeys((*notes, *told)))


def guesses(reading: Reading) -> list[str]:
    """What a file does not tell, in words."""
    found = []
    if reading.dims is not None:
        found.append(f"guessed from lengths: dims = {', '.join(reading.dims)}; give --dims where that is wrong")
    if reading.spacing:
        steps = ", ".join(f"{name} = {step:g}" for name, step in reading.spacing.items())
        found.append(f"guessed: steps {steps}, since the file has no coordinates; set spacing in study.toml")
    return found
