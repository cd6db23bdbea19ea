"""Finished stages of a run on disk, so that an interrupted one continues where it stopped.

A stage is named by the digest of everything that its result depends on: settings, data files, version. A result that is
there, and carries the seal of this machine, came from the same computation, so that continuing gives what an
uninterrupted run would have given. What carries no such seal is computed again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bvsi._version import __version__
from bvsi.app.files import write_whole
from bvsi.app.study.outputs import is_regular
from bvsi.app.study.seal import file_digest, is_sealed, seal
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.errors import BvsiError

Result = TypeVar("Result")

_SEAL = ".seal"
_NAMES = re.compile(r"(data\d+|discovery|forecast|refine)-[0-9a-f]{20}(\.seal)?")
"""Names of the files of stages; no other file is removed."""


@dataclass(frozen=True)
class Stages:
    """Stages in a folder; the digest of a stage stands for all that its result depends on.

    Parameters
    ----------
    seconds
        Seconds by stage, how long it took when it was computed.
    taken
        Stages that an earlier run had computed.
    refused
        Stages that were found and computed again, since they are damaged or come from elsewhere.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def done(
        self,
        name: str,
        digest: str,
        compute: Callable[[], Result],
        save: Callable[[Result], bytes],
        load: Callable[[Path], Result],
    ) -> Result:
        """The result of a stage: loaded where it exists, else computed, saved and loaded.

        It is loaded also when it was just computed, so that interrupted and uninterrupted runs are the same to the bit.
        """
        path = self.folder / f"{name}-{digest}"
        if path.exists() or path.is_symlink():
            try:
                seconds = _seconds(path)
                result = load(path)
            except (BvsiError, OSError):
                self.refused.append(name)
                path.unlink()
            else:
                self.seconds[name] = seconds
                self.taken.append(name)
                return result
        begin = time.perf_counter()
        result = compute()
        self.seconds[name] = time.perf_counter() - begin
        write_whole(path, save(result))
        own = {"seconds": self.seconds[name], "digest": file_digest(path)}
        write_whole(_seal_of(path), json.dumps({**own, "seal": seal(path.name, json.dumps(own))}))
        return load(path)

    def has(self, name: str, digest: str) -> bool:
        """Whether an earlier run left the result of a stage."""
        return (self.folder / f"{name}-{digest}").exists()

    def clear(self, keep: Mapping[str, str]) -> None:
        """Forget all stages but those named with their digests."""
        kept = {f"{name}-{digest}{end}" for name, digest in keep.items() for end in ("", _SEAL)}
        for path in self.folder.iterdir():
            if _NAMES.fullmatch(path.name) and path.name not in kept and not path.is_dir():
                path.unlink()


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + _SEAL)


def _seconds(path: Path) -> float:
    """How long a stage took; BvsiError where its file, or what seals it, is not as this machine wrote it."""
    try:
        if not (is_regular(path) and is_regular(_seal_of(path))):
            raise ValueError("no seal")
        found = json.loads(_seal_of(path).read_text(encoding="utf-8"))
        seconds = float(found["seconds"])
        own = {"seconds": seconds, "digest": file_digest(path)}
        if not is_sealed(found["seal"], path.name, json.dumps(own)):
            raise ValueError("another seal")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BvsiError(f"{path}: {error}") from None
    return seconds


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
        for array in map(np.ascontiguousarray, arrays):
            for rows in slabs(array):
                yield array[rows].reshape(-1).data.cast("B")


def file_parts(files: Sequence[Path]) -> Iterator[bytes]:
    """Names, sizes and times of change of files that are too large to be read twice."""
    for path in files:
        state = path.stat()
        yield f"{path.name} {state.st_size} {state.st_mtime_ns}".encode()


def existing_files(path: Path) -> list[Path]:
    """Files behind a path or pattern."""
    found = [path] if path.exists() else sorted(path.parent.glob(path.name))
    return [file for one in found for file in (sorted(one.rglob("*")) if one.is_dir() else [one]) if file.is_file()]


def files_digest(path: Path) -> str:
    """SHA-256 of a data file; of several files behind a name, that of the list of their names and digests."""
    files = existing_files(path)
    if files == [path]:
        return file_digest(path)
    rows = [f"{file.relative_to(path.parent).as_posix()} {file_digest(file)}\n" for file in files]
    return hashlib.sha256("".join(rows).encode(errors="surrogateescape")).hexdigest()
