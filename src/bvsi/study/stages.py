"""Finished stages of a run on disk, so that an interrupted one goes on where it was.

A stage is named by the digest of everything that its result depends on: settings, data files, version. A result that is
there came from the same computation, so that going on gives what an uninterrupted run would have given.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bvsi._version import __version__
from bvsi.errors import BvsiError
from bvsi.files import written_aside

Result = TypeVar("Result")

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stages:
    """Stages in a folder; the digest of a stage tells what its result depends on.

    seconds: by stage, how long it took when it was computed; anew: stages that were computed this time.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    anew: list[str] = field(default_factory=list)

    def done(
        self,
        name: str,
        digest: str,
        compute: Callable[[], Result],
        save: Callable[[Result, Path], None],
        load: Callable[[Path], Result],
    ) -> Result:
        """The result of a stage: loaded where it is there, else computed, saved and loaded.

        It is loaded also when it was just computed, so that interrupted and uninterrupted runs are the same to the bit.
        """
        path, took = self._path(name, digest), self._path(f"{name}.seconds", digest)
        if path.exists():
            try:
                result = load(path)
            except BvsiError:  # damaged: done again
                path.unlink()
            else:
                self.seconds[name] = float(took.read_text()) if took.exists() else 0.0
                return result
        begin = time.perf_counter()
        result = compute()
        self.seconds[name] = time.perf_counter() - begin
        self.anew.append(name)
        with written_aside(took) as aside:
            aside.write_text(repr(self.seconds[name]), encoding="utf-8")
        with written_aside(path) as aside:
            save(result, aside)
        return load(path)

    def clear(self, keep: Mapping[str, str]) -> None:
        """Forget all stages but those named with their digests."""
        kept = {self._path(kind, digest) for name, digest in keep.items() for kind in (name, f"{name}.seconds")}
        for path in self.folder.glob("*-*"):
            if path.is_file() and path not in kept:
                path.unlink()

    def _path(self, name: str, digest: str) -> Path:
        return self.folder / f"{name}-{digest}"


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
