"""Progress as a callback: the library reports, the caller decides how (or whether) to show it; commands use a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Called with the work done so far, the total where known, and a short description."""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """Report ``done`` out of ``total`` units of ``what``."""


def silent(done: float, total: float | None, what: str) -> None:
    """Show nothing (the default everywhere in the library)."""
    del done, total, what


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar on standard error, one line per kind of work; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(done: float, total: float | None, what: str) -> None:
            kind = what.split(",")[0]  # what follows a comma is a detail that changes from call to call
            if kind not in tasks:
                tasks[kind] = bars.add_task(kind, total=total)
            bars.update(tasks[kind], completed=done, total=total, description=what)

        yield show
