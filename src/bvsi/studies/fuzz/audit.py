"""What a process does that no command has to: programs started, code unpickled, files written elsewhere.

Python reports such acts by audit events. The hook is installed in the forked child only; it notes each act once, in a
file that the judge reads. What libraries written in C do without Python is left to :mod:`bvsi.studies.fuzz.watch`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_PROGRAMS = {
    "os.kill", "os.killpg", "signal.pthread_kill",
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile", "pty.spawn", "subprocess.Popen",
    "socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "code.__new__", "ctypes.dlopen",
}  # fmt: skip
"""Events that are reported whatever their arguments are."""

_PLACES = {
    "os.rename": (0, 1), "os.remove": (0,), "os.mkdir": (0,), "os.rmdir": (0,), "os.symlink": (1,), "os.link": (1,),
    "os.chmod": (0,), "os.chown": (0,), "os.truncate": (0,), "os.utime": (0,), "shutil.rmtree": (0,),
}  # fmt: skip
"""Events that change the file tree, and which of their arguments are paths that are changed."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOST = 50
"""Acts that are noted of one process."""


class Auditor:
    """A hook for :func:`sys.addaudithook`.

    Parameters
    ----------
    target
        Descriptor of the file that acts are written to, one JSON list of kind, event and detail per line.
    allowed
        Folders that may be written to.
    code
        Folders that modules may come from, and libraries be loaded from.
    """

    def __init__(self, target: int, allowed: Iterable[str], code: Iterable[str]) -> None:
        self.target = target
        self.allowed = tuple(os.path.realpath(place) for place in allowed)
        self.code = tuple(os.path.realpath(place) for place in code)
        self.known = set(sys.modules)
        self.noted: set[tuple[str, str, str]] = set()
        self.busy = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event where it is an act that no command has to do."""
        if self.busy or not (event in _PROGRAMS or event in _PLACES or event in ("open", "pickle.find_class")):
            return
        self.busy = True
        try:
            self._look(event, arguments)
        finally:
            self.busy = False

    def strangers(self) -> None:
        """Note modules that were imported from elsewhere, such as the current folder."""
        for name in set(sys.modules) - self.known:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str) and not _below(os.path.realpath(file), self.code):
                self._note("import", name, file)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = (*arguments, None, None)[:3]
            if (isinstance(flags, int) and flags & _WRITING) or (isinstance(mode, str) and set(mode) & set("wax+")):
                self._place("open", path)
        elif event in _PLACES:
            for number in _PLACES[event]:
                self._place(event, arguments[number])
        elif event == "pickle.find_class":
            if not _called_by(("numba",)):  # whose cache of compiled functions is its own
                self._note("code", event, ".".join(map(str, arguments)))
        elif event == "ctypes.dlopen":
            if arguments[0] is not None and "/" in str(arguments[0]) and not _below(str(arguments[0]), self.code):
                self._note("code", event, str(arguments[0]))
        else:
            self._note("code", event, repr(arguments)[:200])

    def _place(self, event: str, given: Any) -> None:
        """Note a change at a path that is not in an allowed folder."""
        if isinstance(given, int) or given is None:
            return
        text = os.fsdecode(given)
        real = os.path.realpath(text) if event == "open" else _beside(text)
        if real not in ("/dev/null", "/dev/tty") and not _below(real, self.allowed):
            self._note("outside", event, text)

    def _note(self, *act: str) -> None:
        kind, event, detail = act
        if (kind, event, detail) not in self.noted and len(self.noted) < _MOST:
            self.noted.add((kind, event, detail))
            os.write(self.target, (json.dumps([kind, event, detail]) + "\n").encode())


def code_folders() -> tuple[str, ...]:
    """Where Python, its packages and this one are."""
    import bvsi

    ours = {str(Path(file).resolve().parents[n]) for file, n in ((__file__, 3), (str(bvsi.__file__), 1))}
    return (sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/lib", "/lib", *ours)


def _beside(path: str) -> str:
    """The real place of a path, its last part not followed where it is a link: the link itself is meant."""
    return os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _called_by(packages: tuple[str, ...]) -> bool:
    """Whether a module of these packages is among the callers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).split(".")[0] in packages:
            return True
        frame = frame.f_back
    return False
