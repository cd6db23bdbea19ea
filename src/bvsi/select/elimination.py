"""What every elimination shares: which operators may go, when to stop, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bvsi.common.naming import resolve
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.select.path import Visited


@dataclass(frozen=True)
class Protection:
    """Operators that stay: each of ``keep``, and one of every group."""

    keep: frozenset[str]
    groups: tuple[frozenset[str], ...]

    @staticmethod
    def of(names: tuple[str, ...], keep: Iterable[str], groups: Sequence[Iterable[str]]) -> Protection:
        """From names as people write them."""
        return Protection(frozenset(resolve(keep, names)), tuple(frozenset(resolve(group, names)) for group in groups))

    def removable(self, names: tuple[str, ...]) -> list[str]:
        """Operators of a model that may go; the last one may not."""
        if len(names) == 1:
            return []
        last = {name for group in self.groups for name in names if group & set(names) == {name}}
        return [name for name in names if name not in self.keep and name not in last]


def eliminate(
    first: Visited,
    step: Callable[[Visited, list[str]], Visited],
    protection: Protection,
    patience: int,
    progress: Progress = silent,
) -> tuple[tuple[Visited, ...], str]:
    """Take steps (the model at hand, what may go → the next model) until the score has risen; models and reason.

    patience: steps to go on after the score has begun to rise.
    """
    visited = [first]
    rises = 0
    while True:
        current = visited[-1]
        progress(len(visited), None, f"selecting, {len(current.names)} operators")
        free = protection.removable(current.names)
        if not free:
            any_protected = protection.keep or protection.groups
            left = "only protected operators are left" if any_protected else "one operator is left"
            return tuple(visited), f"stopped: {left}."
        following = step(current, free)
        visited.append(following)
        rises = rises + 1 if following.score > min(v.score for v in visited[:-1]) else 0
        if rises > patience:
            return tuple(visited), _reason(visited)


def check_criterion(criterion: object, patience: int) -> None:
    """Refuse a class in place of an instance, and a negative patience."""
    if isinstance(criterion, type) or not hasattr(criterion, "removal"):
        raise BvsiError(f"criterion: an instance such as Wald() is needed, not {criterion!r}.")
    if patience < 0:
        raise BvsiError(f"patience: must not be negative; got {patience}.")


def _reason(visited: list[Visited]) -> str:
    best = min(visited, key=lambda v: v.score)
    following = visited[visited.index(best) + 1]
    rise = following.score - best.score
    return f"stopped: removing {following.changed} from the selected model raises the criterion by {rise:.4g}."
