"""Finished stages of a run on disk, so that an interrupted one goes on where it was.

A stage is named by the digest of everything that its result depends on: settings, data files, version. A result that is
there came from the same computation, so that going on gives what an uninterrupted run would have given.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bvsi._version import __version__
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.files import written_aside

Result = TypeVar("Result")


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


def digest_of(settings: Mapping[str, Any], parts: Iterable[bytes | memoryview] = ()) -> str:
    """Digest of settings, version, and contents."""
    found = hashlib.sha256(json.dumps([__version__, settings], sort_keys=True).encode())
    for part in parts:
        found.update(part)
    return found.hexdigest()[:20]


def data_parts(experiments: Sequence[Data]) -> Iterator[bytes | memoryview]:
    """All that a result can depend on in the data: values, names, times, places, cells, what was measured."""
    for data in experiments:
        geometry = data.geometry
        yield repr(data).encode()
        arrays: list[Any] = [data.times, geometry.points, *data.fields.values(), *data.auxiliary.values()]
        arrays += [] if data.measured is None else list(data.measured.values())
        arrays += [np.array(list(geometry.periods.values()))] if isinstance(geometry, Grid) else [geometry.cells]
        for array in arrays:
            yield np.ascontiguousarray(array).data.cast("B")


def file_parts(files: Sequence[Path]) -> Iterator[bytes]:
    """Names, sizes and times of change of files that are too large to be read twice."""
    for path in files:
        state = path.stat()
        yield f"{path.name} {state.st_size} {state.st_mtime_ns}".encode()
