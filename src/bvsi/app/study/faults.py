"""Ways to report faults of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bvsi.app.study.errors import Place, StudyProblem
from bvsi.errors import BvsiError


def attempt(place: Place, make: Callable[..., object], *arguments: object) -> Iterator[StudyProblem]:
    """The problem that a part of the library has with its arguments, if any."""
    try:
        make(*arguments)
    except BvsiError as error:
        yield StudyProblem(place, " ".join(str(error).split()))


def misplaced(
    section: str, settings: object, keys: Iterable[str], allowed: bool, remedy: str
) -> Iterator[StudyProblem]:
    """Keys that were given where another choice leaves them without meaning."""
    for key in keys:
        if getattr(settings, key) is not None and not allowed:
            yield StudyProblem((section, key), f"it has no meaning here; {remedy}")
