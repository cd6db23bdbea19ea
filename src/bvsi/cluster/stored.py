"""Data in a file that every worker can open: each reads the frames of its own pieces, and none reads all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.app.readers import Reading, read
from bvsi.common.arrays import Array
from bvsi.data import Data
from bvsi.errors import DataError

# Bytes: more than any file has, so that nothing is coarsened.
_ALL = 1e18


@dataclass(frozen=True)
class Stored:
    """An experiment in a file, such as a Zarr store in chunks of a few frames.

    Attributes
    ----------
    path
        A file that the workers can open under the same name.
    reading
        What to take, as for :func:`bvsi.app.readers.read`; nothing is coarsened.
    like
        The same data in memory, where they are; workers then check that the file has them.
    """

    path: Path | str
    reading: Reading = field(default_factory=Reading)
    like: Data | None = field(default=None, compare=False, repr=False)

    @cached_property
    def times(self) -> Array:
        """All times (T,)."""
        return self._time[1]

    def frames(self, first: int, last: int, *, checked: bool = True) -> StoredFrames:
        """StoredFrames first ≤ j < last, read by whoever asks for their data."""
        name, times = self._time
        if not 0 <= first < last <= len(times):
            raise DataError(f"frames {first} to {last} of {self.path}: it has {len(times)}.")
        limits: Mapping[str, tuple[float | None, float | None]] = {
            **{key: value for key, value in self.reading.select.items() if key not in (name, "time", "t")},
            name: (float(times[first]), float(times[last - 1])),
        }
        everything = replace(self.reading, select=limits, max_memory=_ALL)
        like = self.like if checked else None
        digest = "" if like is None else _digest(like.select_times(slice(first, last)))
        return StoredFrames(Path(self.path).resolve(), everything, digest)

    @cached_property
    def _time(self) -> tuple[str, Array]:
        """Name of the time dimension in the file, and the times."""
        from bvsi.app.readers.layout import resolve
        from bvsi.app.readers.registry import opened
        from bvsi.app.readers.source import readable

        with opened(Path(self.path), self.reading) as source, readable(source.path, source.format):
            axis = resolve(source, self.reading).time
        if axis.values is None or axis.values.size < 2:
            raise DataError(f"{self.path}: at least two times are needed.")
        return axis.dim, np.array(axis.values, dtype=float)


@dataclass(frozen=True)
class StoredFrames:
    """Some frames of a file.

    Parameters
    ----------
    digest
        Digest of their values, empty where these are not known.
    """

    path: Path
    reading: Reading
    digest: str = ""

    def data(self) -> Data:
        """The frames, read now."""
        found = read(self.path, self.reading)
        if self.digest and _digest(found) != self.digest:
            raise DataError(f"stored: {self.path} holds other values than the data; leave out stored.")
        return found


def sources(data: Sequence[Data], given: Sequence[Data], stored: Sequence[Stored] | None) -> list[Data | Stored]:
    """For every experiment its file, where data are as they were given, else the data themselves.

    Parameters
    ----------
    data
        What is used.
    given
        What was read from the files, before outliers were replaced. Workers check that a file has the same values.
    """
    if stored is None:
        return list(data)
    if len(stored) != len(data) or not all(isinstance(one, Stored) for one in stored):
        raise DataError(f"stored: one Stored(path) for each of {len(data)} experiments is needed.")
    triples = zip(data, given, stored, strict=True)
    return [replace(file, like=one) if _as_given(one, before, file) else one for one, before, file in triples]


def seen_by_workers(client: Any, path: Path) -> bool:
    """Whether all workers there are see a file, or a pattern of files, under its name."""
    try:
        return all(client.run(_is_there, path).values())
    except OSError:  # a cluster that is lost is reported by whoever needs it
        return False


def _is_there(path: Path) -> bool:
    from bvsi.app.readers.registry import files_of

    try:
        return bool(files_of(path))
    except DataError:
        return False


def _as_given(data: Data, given: Data, stored: Stored) -> bool:
    """Whether nothing was changed, and the file has the same times: coarsened data have others, or other nodes."""
    gaps = data.measured is not None or given.measured is not None  # those that were interpolated are in the file still
    if gaps or not np.array_equal(stored.times, data.times):
        return False
    untouched = data is given or all(np.array_equal(values, given.fields[f]) for f, values in data.fields.items())
    return untouched and stored.frames(0, 2, checked=False).data().n_nodes == data.n_nodes


def _digest(data: Data) -> str:
    """Of times and values."""
    found = hashlib.sha256(np.ascontiguousarray(data.times).tobytes())
    for group in (data.fields, data.auxiliary):
        for name in sorted(group):
            found.update(name.encode())
            found.update(np.ascontiguousarray(group[name]).tobytes())
    return found.hexdigest()
