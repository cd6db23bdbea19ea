"""Data in a file that every worker can open: each reads the frames of its own pieces, and nobody all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.errors import DataError
from bvsi.readers import Reading, read

Array = NDArray[np.float64]

# Bytes: more than any file has, so that nothing is coarsened.
_ALL = 1e18


@dataclass(frozen=True)
class Stored:
    """An experiment in a file, such as a Zarr store in chunks of a few frames.

    path: a file that the workers can open under the same name. reading: what to take, as for :func:`bvsi.readers.read`;
        nothing is coarsened.
    """

    path: Path | str
    reading: Reading = field(default_factory=Reading)

    @cached_property
    def times(self) -> Array:
        """All times (T,)."""
        return self._time[1]

    def frames(self, first: int, last: int) -> Frames:
        """Frames first ≤ j < last, read by whoever asks for their data."""
        name, times = self._time
        if not 0 <= first < last <= len(times):
            raise DataError(f"frames {first} to {last} of {self.path}: it has {len(times)}.")
        limits: Mapping[str, tuple[float | None, float | None]] = {
            **{key: value for key, value in self.reading.select.items() if key not in (name, "time", "t")},
            name: (float(times[first]), float(times[last - 1])),
        }
        everything = replace(self.reading, select=limits, max_memory=_ALL, comfortable=_ALL)
        return Frames(Path(self.path).resolve(), everything)

    @cached_property
    def _time(self) -> tuple[str, Array]:
        """Name of the time dimension in the file, and the times."""
        from bvsi.readers.layout import resolve
        from bvsi.readers.registry import opened
        from bvsi.readers.source import readable

        with opened(Path(self.path), self.reading) as source, readable(source.path, source.format):
            axis = resolve(source, self.reading).time
        if axis.values is None or axis.values.size < 2:
            raise DataError(f"{self.path}: at least two times are needed.")
        return axis.dim, np.array(axis.values, dtype=float)


@dataclass(frozen=True)
class Frames:
    """Some frames of a file."""

    path: Path
    reading: Reading

    def data(self) -> Data:
        """The frames, read now."""
        return read(self.path, self.reading)
