"""Names in files: which one is the time, and which array becomes which field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bvsi.app.readers.reading import Names
from bvsi.errors import DataError

TIME_NAMES = ("time", "t")
"""Names, in any case, that mean time where none is given."""


def file_names(argument: str, given: Names | None) -> dict[str, str] | None:
    """Name in bvsi to name in the file; None where nothing is given.

    Parameters
    ----------
    argument
        "fields" or "auxiliary", for the error message.
    """
    if given is None:
        return None
    if isinstance(given, str):
        raise DataError(f'{argument} is the text {given!r}; write a list of names, ["{given}"]')
    return dict(given) if isinstance(given, Mapping) else {name: name for name in given}


def time_name(given: str | None, names: Sequence[str], what: str) -> str:
    """The name that means time, out of those in a file.

    Parameters
    ----------
    given
        The choice, where there is one.
    what
        "dimension" or "column", for the error message.
    """
    listed = ", ".join(repr(name) for name in names) or "none"
    if given is not None:
        if given in names:
            return given
        raise DataError(f"time: {given!r} is not a {what}; there are {listed}")
    found = [name for wanted in TIME_NAMES for name in names if name.lower() == wanted]
    if not found:
        raise DataError(f'time: no {what} is called time or t (there are {listed}); write time = "name"')
    return found[0]
