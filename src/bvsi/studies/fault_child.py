"""The process of a run that meets a failing write: ``python -m bvsi.studies.fault_child PLAN run study.toml``."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod")
"""Audit events of acts of writing."""


def child() -> None:
    """In the process of a run: put in the fault, then be ``bvsi``; the first argument is a JSON table.

    folder: where acts of writing count; at: the one that fails, 0 for none; lasting: whether all later ones fail too.
    error: its number, or that of a signal with a minus; size: bytes that a file may have, 0 for any.
    count: file that the number of acts is written to.
    """
    given, *rest = sys.argv[1:]
    plan = json.loads(given)
    if plan["size"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan["size"], plan["size"]))
    counter = _Counter(str(Path(plan["folder"]).resolve()), plan["at"], plan["error"], plan["lasting"])
    sys.addaudithook(counter.hook)
    sync = os.fsync

    def fsync(fd: Any) -> None:
        counter.act()
        sync(fd)

    os.fsync = fsync
    sys.argv = ["bvsi", *rest]
    try:
        from bvsi.app.cli.__main__ import main  # with its handler of early signals

        main()
    finally:
        counter.at = 0
        if plan["count"]:
            Path(plan["count"]).write_text(str(counter.done), encoding="utf-8")


class _Counter:
    """Counts acts of writing below a folder, and lets one fail, or all from one on."""

    def __init__(self, folder: str, at: int, error: int, lasting: bool) -> None:
        self.folder, self.at, self.error, self.lasting = folder, at, error, lasting
        self.done, self.busy = 0, False

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """For audit events: files opened to be written, renamed, made, removed."""
        if self.busy or event not in _EVENTS or (event == "open" and not _writes(arguments[2])):
            return
        if isinstance(arguments[0], str | bytes | os.PathLike):
            self.busy = True
            try:
                inside = os.path.abspath(os.fsdecode(arguments[0])).startswith(self.folder)  # noqa: PTH100
            finally:
                self.busy = False
            if inside:
                self.act()

    def act(self) -> None:
        """One more act; raises where it is to fail."""
        self.done += 1
        if self.at and (self.done == self.at or (self.lasting and self.done > self.at)):
            if self.error < 0:
                os.kill(os.getpid(), -self.error)
            raise OSError(self.error, os.strerror(self.error))


def _writes(flags: object) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


if __name__ == "__main__":
    child()
