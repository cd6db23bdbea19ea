"""What a command did to the files around it: a folder of canaries, and the files that it was given."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

State = Mapping[str, tuple[object, ...]]

TOKEN = "canary-7f3a9c51"
"""Text in the secret file: where it turns up, the file was read."""
_SMALL = 1_000_000
_OLD = 946684800 * 10**9


def make_canary(folder: Path) -> None:
    """Files as people have them, some with names that bvsi uses itself, and two that nobody may read."""
    import h5py  # type: ignore[import-untyped]

    files = {
        "notes.txt": "notes\n", "thesis-final.tex": "thesis\n", "photo-001.png": "picture\n",
        "outputs/simulation.dat": "data\n",
        "outputs/sealed": "whole\n", "quantities/mine.nc": "mine\n", "report.html": "my page\n",
        "study.toml": "# mine\n", "settings.json": "{}\n",
        "summary.json": "{}\n", "discovery-aaaaaaaaaaaaaaaaaaaa": "mine\n", "lock": "mine\n",
        "secret.txt": f"{TOKEN} " * 400,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with h5py.File(folder / "secret.h5", "w") as file:
        file["secret"] = file["u"] = [[0.0, 1.0], [2.0, 3.0]]


def unread(folder: Path) -> None:
    """Set the time of access of the secret files far back, so that the next reading is seen."""
    for path in folder.glob("secret.*"):
        os.utime(path, ns=(_OLD, path.stat().st_mtime_ns))


def read_secrets(folder: Path) -> tuple[str, ...]:
    """Secret files that were read since; empty where the file system keeps no times of access."""
    return tuple(sorted(path.name for path in folder.glob("secret.*") if path.stat().st_atime_ns != _OLD))


def state_of(folder: Path, *, without: Iterable[str] = ()) -> dict[str, tuple[object, ...]]:
    """Kind, size, time of change and contents of everything below a folder; links are not followed.

    Parameters
    ----------
    without
        Names at the top that are left out.
    """
    skipped = set(without)
    found: dict[str, tuple[object, ...]] = {}
    for place, folders, files in os.walk(folder):
        if place == str(folder):
            folders[:] = [name for name in folders if name not in skipped]
        for name in [*folders, *files]:
            path = Path(place, name)
            found[str(path.relative_to(folder))] = _state(path)
    return found


def _state(path: Path) -> tuple[object, ...]:
    told = path.lstat()
    if stat.S_ISLNK(told.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISDIR(told.st_mode):
        return ("folder",)
    if not stat.S_ISREG(told.st_mode):
        return ("other", told.st_mode)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if told.st_size < _SMALL else ""
    return ("file", told.st_size, told.st_mtime_ns, digest)


def differences(before: State, after: State, allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """What was made, changed or removed, but for names that fit a pattern; one with + in front allows making only."""
    patterns = tuple(allowed)
    found = []
    for name in sorted({*before, *after}):
        if before.get(name) == after.get(name):
            continue
        act = "made" if name not in before else "removed" if name not in after else "changed"
        fitting = [pattern.lstrip("+") for pattern in patterns if act == "made" or not pattern.startswith("+")]
        if not any(fnmatch.fnmatch(name, pattern) for pattern in fitting):
            found.append(f"{act} {name}")
    return tuple(found)
