"""Finished stages of a run on disk, so that an interrupted one goes on where it was.

A stage belongs to a run by the digest of everything that its result depends on: settings, data files, version. A result
that is there came from the same computation, so that going on gives what an uninterrupted run would have given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bvsi._version import __version__
from bvsi.errors import BvsiError
from bvsi.files import written_aside

Result = TypeVar("Result")

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stages:
    """Stages of one run in a folder; ``digest`` names the run."""

    folder: Path
    digest: str

    def done(
        self,
        name: str,
        compute: Callable[[], Result],
        save: Callable[[Result, Path], None],
        load: Callable[[Path], Result],
    ) -> Result:
        """The result of a stage: loaded where it is there, else computed, saved and loaded.

        It is loaded also when it was just computed, so that interrupted and uninterrupted runs are the same to the bit.
        """
        path = self.folder / f"{name}-{self.digest}"
        if path.exists():
            try:
                return load(path)
            except BvsiError:  # damaged: done again
                path.unlink()
        result = compute()
        with written_aside(path) as aside:
            save(result, aside)
        return load(path)

    def clear(self, keep: Sequence[str]) -> None:
        """Forget the stages of other runs, and of this one all but those named."""
        kept = {f"{name}-{self.digest}" for name in keep}
        for path in self.folder.glob("*-*"):
            if path.is_file() and path.name not in kept:
                path.unlink()


def digest_of(settings: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Digest of settings, contents of the data files, and version."""
    found = hashlib.sha256(json.dumps([__version__, settings], sort_keys=True).encode())
    for path in files:
        for part in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            _add(found, part)
    return found.hexdigest()[:20]


def _add(found: Any, path: Path) -> None:
    """The contents of small files; of large ones size, time of change, and both ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= 64 * _BLOCK:
            while block := file.read(_BLOCK):
                found.update(block)
            return
        found.update(f"{size} {path.stat().st_mtime_ns}".encode())
        found.update(file.read(_BLOCK))
        file.seek(-_BLOCK, 2)
        found.update(file.read(_BLOCK))
