"""A set of files that appears as a whole: written aside, sealed, then moved into place.

Killed before the seal, the folder is as it was. Killed after it, the next start finishes the move.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bvsi.errors import BvsiError
from bvsi.files import written_aside

WORK = ".bvsi"
"""Folder inside the results for what is under way."""

_STAGING = "outputs"
_SEAL = "sealed"
_LOCK = "lock"


@contextmanager
def outputs(folder: Path) -> Iterator[Path]:
    """A folder to write files to; they appear in ``folder`` when the block ends well, and vanish when it does not."""
    staging = folder / WORK / _STAGING
    finish_move(folder)
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
        with written_aside(staging / _SEAL) as aside:
            aside.write_text("whole\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finish_move(folder)


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
    with (work / _LOCK).open("w") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BvsiError(f"{folder}: another run is writing there; wait for it, or choose another --out.") from None
        try:
            yield
        except BaseException:
            _forget(new)
            raise


def _forget(new: Sequence[Path]) -> None:
    """Remove folders that were made for a run, innermost first, where they hold nothing but its mark."""
    if new and [path.name for path in new[0].iterdir()] == [_LOCK]:
        (new[0] / _LOCK).unlink()
    for place in new:
        if any(place.iterdir()):
            return
        place.rmdir()


def finish_move(folder: Path) -> None:
    """Move a sealed set of files into place; without a seal nothing is done."""
    staging = folder / WORK / _STAGING
    if not (staging / _SEAL).exists():
        return
    for path in sorted(p for p in staging.iterdir() if p.name != _SEAL):
        target = folder / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.replace(target)
    (staging / _SEAL).unlink()
    staging.rmdir()
