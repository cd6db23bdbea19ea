"""Progress as a callback: the library reports, the caller decides how (or whether) to show it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with the work done so far, the total where known, and a short description."""

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """Report ``done`` out of ``total`` units of ``what``."""


def silent(done: float, total: float | None, what: str) -> None:
    """Show nothing (the default everywhere in the library)."""
    del done, total, what
