"""``study.toml`` to a checked study; everything that is wrong with the file is reported at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bvsi.app.study.complaints import complaints
from bvsi.app.study.errors import Place, StudyError, StudyProblem
from bvsi.app.study.positions import positions
from bvsi.app.study.settings import Settings

MAX_BYTES = 250_000
MAX_LINE = 5_000
MAX_DEPTH = 20
_CHAIN = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){15}")
"""A key of fifteen parts: TOML readers take long for keys with thousands of parts."""
_HINTS = {
    "invalid value": "; texts stand in quotes",
    "cannot overwrite": "; a key is given twice",
    "cannot declare": "; a table is given twice",
}
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True)
class Study:
    """Settings, and the file that they came from.

    Attributes
    ----------
    settings
        All of them, defaults filled in.
    path
        Path of the file.
    text
        Text of the file, for line numbers; empty where the settings were made in Python.
    allow_outside
        Whether data files may take values from outside their folder. It is the user's to say, not the file's, which
        may come from somebody else.
    guarded
        Whether memory is limited while they are unpacked.
    home
        Folder that paths in the settings are relative to, where that is not the folder of the file.
    """

    settings: Settings
    path: Path = Path("study.toml")
    text: str = field(default="", repr=False)
    allow_outside: bool = False
    guarded: bool = False
    home: Path | None = None

    @property
    def folder(self) -> Path:
        """What paths in the settings are relative to."""
        return self.path.parent if self.home is None else self.home

    @cached_property
    def _lines(self) -> dict[Place, int]:
        return positions(self.text) if self.text else {}

    def error(self, problems: Sequence[StudyProblem]) -> StudyError:
        """The problems with their lines in the file."""
        return StudyError(str(self.path), _placed(problems, self._lines))


def load_study(path: str | Path) -> Study:
    """The study in a file; :class:`StudyError` lists all that is wrong, with lines and nearest valid names.

    Operators, constraints, priors and quantities are checked as far as that is possible without the data.
    """
    from bvsi.app.study.checks import problems_of

    path = Path(path)
    text = _text(path)
    document = _document(path, text)
    try:
        settings = Settings.model_validate(document)
    except ValidationError as error:
        raise StudyError(str(path), _placed(complaints(error, document), positions(text))) from None
    study = Study(settings, path, text)
    problems = problems_of(study)
    if problems:
        raise study.error(problems)
    return study


def _placed(problems: Sequence[StudyProblem], lines: dict[Place, int]) -> list[StudyProblem]:
    """Problems with line numbers, in the order of the file."""
    placed = [StudyProblem(p.place, p.message, p.line or _line(p.place, lines)) for p in problems]
    return sorted(placed, key=lambda p: p.line or len(lines) + MAX_BYTES)


def _line(place: Place, lines: dict[Place, int]) -> int:
    """Line of a place, or of what it stands in; 0 for the file as a whole."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 0) if place else 0


def _text(path: Path) -> str:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe may never end
            raise OSError("it is neither a file nor a folder")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"the file cannot be read ({reason}); give the path of a study file, or make one with bvsi init."
        raise StudyError(str(path), [StudyProblem((), message)]) from None
    if len(content) > MAX_BYTES:
        raise StudyError(str(path), [StudyProblem((), f"more than {MAX_BYTES} bytes: this is not a study file.")])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyError(str(path), [StudyProblem((), "this is not UTF-8; save the file as UTF-8.", line)]) from None
    for number, row in enumerate(text.splitlines(), start=1):
        if len(row) > MAX_LINE:
            message = f"{len(row)} characters in one line; at most {MAX_LINE} are read."
            raise StudyError(str(path), [StudyProblem((), message, number)])
    if chain := _CHAIN.search(text):
        line = text.count("\n", 0, chain.start()) + 1
        raise StudyError(str(path), [StudyProblem((), "a key of many parts; this is not a study file.", line)])
    return text


def _document(path: Path, text: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(f"{text}\n")  # so that no fault is "at end of document"
    except tomllib.TOMLDecodeError as error:
        raise StudyError(str(path), [_syntax(str(error))]) from None
    except RecursionError:
        raise StudyError(str(path), [_too_deep()]) from None
    except ValueError as error:  # numbers of thousands of digits, impossible dates
        raise StudyError(str(path), [StudyProblem((), f"not valid TOML: {error}.")]) from None
    if _depth(document) > MAX_DEPTH:
        raise StudyError(str(path), [_too_deep()])
    return document


def _syntax(message: str) -> StudyProblem:
    match = _AT_LINE.search(message)
    what = _AT_LINE.sub("", message)
    what = what[:1].lower() + what[1:]
    hint = next((hint for start, hint in _HINTS.items() if what.startswith(start)), "")
    if match is None:
        return StudyProblem((), f"not valid TOML: {what}{hint}.")
    return StudyProblem((), f"not valid TOML: {what} at column {match.group(2)}{hint}.", int(match.group(1)))


def _too_deep() -> StudyProblem:
    return StudyProblem((), f"tables and lists are nested more than {MAX_DEPTH} deep; this is not a study file.")


def _depth(document: object) -> int:
    depth, level = 0, [document]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [inner for item in level for inner in _members(item) if isinstance(inner, dict | list)]
    return depth


def _members(item: object) -> list[object]:
    if isinstance(item, dict):
        return list(item.values())
    return list(item) if isinstance(item, list) else []
