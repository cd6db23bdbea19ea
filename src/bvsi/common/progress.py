"""Progress as a callback: the library reports, the caller decides how (or whether) to show it; commands use a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Called with the work done so far, the total where known, and a short description."""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """Report ``done`` out of ``total`` units of ``what``; without a ``what`` the bars are cleared away."""


def silent(done: float, total: float | None, what: str) -> None:
    """Show nothing (the default everywhere in the library)."""
    del done, total, what


class OutOfTimeError(Exception):
    """The time that some work was given is over.

    It is not a BvsiError: loops that continue after a failed simulation must stop after this.
    """


def limited(progress: Progress, seconds: float) -> Progress:
    """The same, but work that reports to it after so many seconds is ended by :class:`OutOfTimeError`."""
    end = time.monotonic() + seconds

    def show(done: float, total: float | None, what: str) -> None:
        if time.monotonic() > end:
            raise OutOfTimeError(what)
        progress(done, total, what)

    return show


class Lines:
    """Progress as lines of text, for logs: one every 15 seconds, with an estimate of the time left.

    Parameters
    ----------
    write
        Takes a line.
    """

    def __init__(self, write: Callable[[str], object], every: float = 15.0) -> None:
        self._write, self._every = write, every
        self._last = time.monotonic()
        self._begun: dict[str, tuple[float, float]] = {}  # when, and how much was done at the last call

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """Write a line if the last one was long ago."""
        if not what:
            return
        now = time.monotonic()
        kind = what.split(",")[0]
        begun, before = self._begun.get(kind, (now, 0.0))
        begun = now if done < before else begun  # the same kind of work once more
        self._begun[kind] = (begun, done)
        if now - self._last < self._every:
            return
        self._last = now
        words = f"{what}: {done:g}" if total is None else f"{what}: {done:g} of {total:g}"
        left = (now - begun) * (total - done) / done if total and done > 0 else 0.0
        self._write(f"{words}, about {left:.0f} s left\n" if left >= 1 else f"{words}\n")


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar on standard error, one line per kind of work; plain lines where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if not console.file.isatty():  # rich takes FORCE_COLOR, which notebooks set, for a terminal
        yield Lines(lambda line: (console.file.write(line), console.file.flush()))
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # standard output stays as it is: rich would send it where the bars are
    with Bars(*columns, console=console, redirect_stdout=False) as bars:
        tasks: dict[str, TaskID] = {}

        def show(done: float, total: float | None, what: str) -> None:
            if not what:
                while tasks:
                    bars.remove_task(tasks.popitem()[1])
                bars.refresh()
                return
            kind = what.split(",")[0]  # what follows a comma is a detail that changes from call to call
            if kind not in tasks:
                tasks[kind] = bars.add_task(kind, total=total)
            bars.update(tasks[kind], completed=done, total=total, description=what)

        yield show
