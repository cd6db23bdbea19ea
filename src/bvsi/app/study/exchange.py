"""A folder that changes as a whole: its next state is composed beside it, and the two are swapped in one act.

    folder  ⇄  aside,    aside = the new files + hard links to all that stays

Links cost no space, and what stays is the same file in both. Where the system has no such act, or the folder cannot be
moved (a mount point, the folder that we are in), OSError is raised and nothing has changed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from bvsi.app.files import sync_folder

_CURRENT_FOLDER = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


def aside_of(folder: Path) -> Path:
    """Where the next state of a folder is composed; on the same file system."""
    return folder.parent / f".{folder.name}.bvsi-next"


def exchange(one: Path, other: Path) -> None:
    """Swap two folders (renameat2 of Linux)."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(_CURRENT_FOLDER, os.fsencode(one), _CURRENT_FOLDER, os.fsencode(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(one))


def link_rest(folder: Path, aside: Path, without: Collection[str]) -> None:
    """Link all that a folder holds into another, but for files and folders of these names, relative, with ``/``."""

    def leave(place: str, names: Iterable[str]) -> set[str]:
        below = Path(place).relative_to(folder)
        return {name for name in names if (below / name).as_posix() in without}

    shutil.copytree(folder, aside, symlinks=True, copy_function=os.link, ignore=leave, dirs_exist_ok=True)
    for place, _, _ in os.walk(aside):
        sync_folder(Path(place))


def empty(aside: Path, folder: Path | None, without: Collection[str], last: Sequence[str]) -> None:
    """Remove what a swap left aside: files of the names ``without``, and links to what the folder holds.

    What somebody wrote to the folder while its next state was composed moves on to it; nothing is written over.

    Parameters
    ----------
    folder
        None where the swap did not come, so that there is nothing but links.
    last
        Files that go last.
    """
    for place, folders, names in os.walk(aside, topdown=False):
        for name in [*names, *(name for name in folders if (Path(place) / name).is_symlink())]:
            old = Path(place) / name
            inner = old.relative_to(aside)
            if inner.as_posix() in last:
                continue
            if folder is None or inner.as_posix() in without or _same(old, folder / inner):
                old.unlink()
            elif not os.path.lexists(folder / inner):
                (folder / inner).parent.mkdir(parents=True, exist_ok=True)
                old.rename(folder / inner)
    for name in last:
        (aside / name).unlink(missing_ok=True)
    remove_empty(aside)


def remove_empty(folder: Path) -> None:
    """Remove a folder and those in it, as far as they hold no file."""
    for place, _, _ in os.walk(folder, topdown=False):
        if not any(Path(place).iterdir()):
            Path(place).rmdir()


def _same(old: Path, new: Path) -> bool:
    """Whether two names are of one file, or of links that lead to the same place."""
    if not os.path.lexists(new):
        return False
    if old.is_symlink():
        return new.is_symlink() and old.readlink() == new.readlink()
    return os.path.samestat(old.lstat(), new.lstat())
