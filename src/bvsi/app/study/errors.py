"""What is wrong with a study, each fault with its place in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bvsi.errors import BvsiError

Place = tuple[str | int, ...]
"""Keys and positions that lead to a value: ``("library", "equations", "u", 1)``."""

MAX_SHOWN = 20
"""Faults that one message lists."""


@dataclass(frozen=True)
class StudyProblem:
    """One fault.

    Attributes
    ----------
    place
        Where it is, empty for the file as a whole.
    message
        What is wrong and what to do, one line.
    line
        Its number in the file, counted from 1; 0 where it is not known.
    """

    place: Place
    message: str
    line: int = 0

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line else []
        where += [dotted(self.place)] if self.place else []
        return f"{', '.join(where)}: {self.message}" if where else self.message


class StudyError(BvsiError):
    """A study file that cannot be used; ``problems`` holds all faults that were found."""

    def __init__(self, name: str, problems: Sequence[StudyProblem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{name if name.isprintable() else shown(name, 400)}: {count} error{'' if count == 1 else 's'}."]
        lines += [f"  {problem}" for problem in self.problems[:MAX_SHOWN]]
        lines += [f"  … and {count - MAX_SHOWN} more."] if count > MAX_SHOWN else []
        super().__init__("\n".join(lines))


def dotted(place: Place) -> str:
    """A place as TOML writes it: ``library.equations.u[1]``; keys that need quotes get them."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = part.isascii() and part.replace("_", "a").replace("-", "a").isalnum()
            text += ("." if text else "") + (part if bare else shown(part))
    return text


def shown(value: object, limit: int = 60) -> str:
    """A value for a message: what cannot be printed is escaped, and long texts are cut."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
