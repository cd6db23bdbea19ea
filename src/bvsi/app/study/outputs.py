"""A set of files that appears as a whole: written aside, sealed, then put into place in one act.

Killed before the seal, or before that act, the folder is as it was. Where the system has no such act, files are moved
one by one, and the next start finishes a move that was killed.

A folder may come from somebody else, or be one that other work lives in. So no link in it is followed, only a set that
was sealed on this machine is moved, and only files that the list ``written`` names are replaced or removed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from bvsi.app.files import sync_folder, write_whole
from bvsi.app.study.exchange import aside_of, empty, exchange, link_rest, remove_empty
from bvsi.app.study.seal import file_digest, is_sealed, seal
from bvsi.errors import BvsiError

WORK = ".bvsi"
"""Folder inside the results for what is under way."""

_STAGING = "outputs"
_SEAL = "sealed"
_LOCK = "lock"
_WRITTEN = "written"
# Longest list of names, or seal, that is read.
_LONGEST = 1_000_000


class BusyError(BvsiError):
    """Another run is writing to the folder."""


def check_place(folder: Path, names: Iterable[str], *, within: Path | None = None) -> None:
    """Refuse a folder where writing files of these names would follow a link, or replace what is not ours.

    Parameters
    ----------
    names
        Relative to the folder, with ``/``.
    within
        Folder below which no part of the path may be a link.
    """
    parts = [folder / name for name in (".", WORK, *(f"{WORK}/{name}" for name in (_STAGING, _LOCK, _WRITTEN)))]
    parts += [place for name in names for place in (folder / name, (folder / name).parent)]
    if within is not None and within in folder.parents:
        parts += [place for place in folder.parents if within in place.parents]
    linked = next((place for place in parts if place.is_symlink()), None)
    if linked is not None:
        raise BvsiError(f"{linked}: this is a link, and results are not written through links; name the place itself.")
    ours = written(folder)
    foreign = [name for name in names if name not in ours and os.path.lexists(folder / name)]
    if foreign:
        raise BvsiError(
            f"{folder}: it holds {foreign[0]!r}, which bvsi did not write; choose another folder, "
            "or move the file away."
        )


def written(folder: Path) -> frozenset[str]:
    """Names of the files that runs have written to a folder; of a folder that is not ours, none."""
    found = _record(folder / WORK / _WRITTEN)
    return frozenset(name for name in found if _proper(name)) if isinstance(found, list) else frozenset()


def write_outputs(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files by name; they appear together, and files of an earlier set that this one lacks are removed."""
    check_place(folder, files)
    staging = folder / WORK / _STAGING
    finish_move(folder)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        for name, content in files.items():
            write_whole(staging / name, content)
        digests = json.dumps({name: file_digest(staging / name) for name in files})
        write_whole(staging / _SEAL, json.dumps({"files": digests, "seal": seal("outputs", digests)}))
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finish_move(folder)


def finish_move(folder: Path) -> None:
    """Put a sealed set of files into place; what carries no seal of ours is dropped."""
    staging = folder / WORK / _STAGING
    if (folder / WORK).is_symlink() or staging.is_symlink() or not os.path.lexists(staging / _SEAL):
        return  # reading commands come here too, without check_place
    digests = _sealed(folder)
    if digests is None:
        shutil.rmtree(staging)
        return
    _clear_aside(folder)
    before = written(folder)
    if any((staging / name).exists() for name in digests):
        _put(folder, digests)
    for name in before - set(digests):  # there only where files were moved one by one
        (folder / name).unlink(missing_ok=True)
    write_whole(folder / WORK / _WRITTEN, json.dumps(sorted(digests)))
    _clear_aside(folder)
    shutil.rmtree(staging)


def recover(folder: Path) -> None:
    """Finish what a killed run left, before its results are read; not while another run is working on it."""
    linked = any(place.is_symlink() for place in (folder, folder / WORK, folder / WORK / _STAGING))
    if not linked and _digests(folder) is not None:  # nothing is touched in a folder that comes from elsewhere
        with suppress(BusyError), alone(folder):
            finish_move(folder)


def _put(folder: Path, digests: Mapping[str, str]) -> None:
    try:
        _swap(folder, digests)
    except OSError:  # no such act here, or no room beside the folder
        _move(folder, digests)


def _swap(folder: Path, digests: Mapping[str, str]) -> None:
    """Compose the next state of the folder beside it, with the seal first, which makes it ours; then swap the two."""
    aside, staging = aside_of(folder), folder / WORK / _STAGING
    if Path.cwd().is_relative_to(folder.resolve()) or os.path.lexists(aside):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
    (aside / WORK / _STAGING).mkdir(parents=True)
    try:
        os.link(staging / _SEAL, aside / WORK / _STAGING / _SEAL)
        write_whole(aside / WORK / _WRITTEN, json.dumps(sorted(digests)))
        for name in digests:
            (aside / name).parent.mkdir(exist_ok=True)
            os.link(staging / name, aside / name)
        ours = {*written(folder), *digests}
        link_rest(folder, aside, {*ours, *(f"{WORK}/{name}" for name in (_WRITTEN, _STAGING))})
        exchange(folder, aside)
    except OSError:
        with suppress(OSError):
            _clear_aside(folder)
        raise
    sync_folder(folder.parent)


def _clear_aside(folder: Path) -> None:
    """Remove what a swap, also one that was killed, left beside the folder: only what carries a seal of ours."""
    aside = aside_of(folder)
    if aside.is_symlink() or (aside / WORK).is_symlink() or (aside / WORK / _STAGING).is_symlink():
        return
    remove_empty(aside)  # as it is left before there is a seal
    digests = _digests(aside)
    if digests is None:
        return
    swapped = not any((folder / WORK / _STAGING / name).exists() for name in digests)
    staged = {f"{WORK}/{_STAGING}/{name}" for name in digests}
    # the list and the seal go last, so that what is killed here can be recognised the next time
    last = (f"{WORK}/{_WRITTEN}", f"{WORK}/{_STAGING}/{_SEAL}")
    empty(aside, folder if swapped else None, {*written(aside), *staged}, last)


def _move(folder: Path, digests: Mapping[str, str]) -> None:
    """Rename all files. One that fails is tried again after the others, so that old and new ones are not left mixed."""
    staging, before = folder / WORK / _STAGING, written(folder)
    # what may fail for want of space comes first; renames and removals need none
    write_whole(folder / WORK / _WRITTEN, json.dumps(sorted({*before, *digests})))
    for name in digests:
        (folder / name).parent.mkdir(exist_ok=True)
    left = [name for name in digests if (staging / name).exists()]
    for last in (False, False, True):
        failed = []
        for name in left:
            try:
                (staging / name).replace(folder / name)
            except OSError:
                if last:
                    raise
                failed.append(name)
        left = failed
    for place in {(folder / name).parent for name in digests}:
        sync_folder(place)


def _sealed(folder: Path) -> dict[str, str] | None:
    """Digests by name of a set that was sealed here and is whole, in staging or already moved; None for any other."""
    staging, digests = folder / WORK / _STAGING, _digests(folder)
    if digests is None:
        return None
    places = {name: (staging if os.path.lexists(staging / name) else folder) / name for name in digests}
    whole = all(is_regular(place) and file_digest(place) == digests[name] for name, place in places.items())
    return digests if whole else None


def _digests(folder: Path) -> dict[str, str] | None:
    """Digests by name of a set that was sealed here; None where there is none."""
    found = _record(folder / WORK / _STAGING / _SEAL)
    text = found.get("files") if isinstance(found, dict) else None
    if not isinstance(text, str) or not is_sealed(found.get("seal"), "outputs", text):
        return None
    digests: dict[str, str] = json.loads(text)
    return digests


def is_regular(path: Path) -> bool:
    """Whether there is a file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def _record(path: Path) -> Any:
    """What a small JSON file holds; None where there is none, or it is damaged."""
    if not is_regular(path) or path.stat().st_size > _LONGEST:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None


def _proper(name: object) -> bool:
    """Whether a name is that of a file in the folder itself, or one folder below."""
    if not isinstance(name, str) or "\\" in name or "\0" in name:
        return False
    parts = PurePosixPath(name).parts
    return 0 < len(parts) <= 2 and not {"..", "/", WORK} & set(parts)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Refuse to work in a folder that another run is working in; the mark goes with the process, however it ends.

    Work that fails before it has written anything leaves no folder that was not there.
    """
    try:
        import fcntl
    except ImportError:  # not there on Windows
        yield
        return
    work = folder / WORK
    new = [place for place in (work, *work.parents) if not place.exists()]
    work.mkdir(parents=True, exist_ok=True)
    with _mark(work / _LOCK) as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(f"{folder}: another run is writing there; wait for it, or choose another --out.") from None
        try:
            yield
        except BaseException:
            _forget(new)
            raise


def _mark(path: Path) -> IO[bytes]:
    """The file that is locked: opened without following a link, and as it is."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise BvsiError(f"{path}: this has to be a file of its own; remove it.") from None
        raise error
    mark = os.fdopen(handle, "r+b", buffering=0)
    if not stat.S_ISREG(os.fstat(mark.fileno()).st_mode):
        mark.close()
        raise BvsiError(f"{path}: this has to be a file of its own; remove it.")
    return mark


def _forget(new: Sequence[Path]) -> None:
    """Remove folders that were made for a run, innermost first, where they hold nothing but its mark."""
    if new and [path.name for path in new[0].iterdir()] == [_LOCK]:
        (new[0] / _LOCK).unlink()
    for place in new:
        if any(place.iterdir()):
            return
        place.rmdir()
