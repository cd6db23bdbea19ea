"""NumPy archives (.npz), without pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key
from bvsi.errors import DataError

# Arrays that are looked at: the header of each takes a millisecond.
_MOST = 2000


@contextmanager
def open_npz(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The arrays of an archive; each is unpacked when first used, and kept."""
    del reading
    with zipfile.ZipFile(paths[0]) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        if len(members) > _MOST:
            raise DataError(f"{paths[0]}: it holds {len(members)} arrays; keep those of interest only")
        arrays = [_array(archive, member) for member in members]
        objects = [array.name for array in arrays if array.dtype.hasobject]
        notes = tuple(f"{name!r} holds Python objects (pickle) and is not read" for name in objects)
        yield DataSource(paths[0], "NPZ", {a.name: a for a in arrays if not a.dtype.hasobject}, notes=notes)


def _array(archive: zipfile.ZipFile, member: str) -> Array:
    """One array; only its header is read."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{member}: npy format {version} is not known; save it again with numpy.savez")
        read_header: Any = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read_header(stream)
    size = float(dtype.itemsize) * float(np.prod(shape, dtype=float))
    if min(shape, default=0) < 0 or (not dtype.hasobject and size > archive.getinfo(member).file_size):
        raise DataError(f"{member}: its header announces more values than there are; the file is damaged")
    kept: dict[str, NDArray[Any]] = {}
    return Array(member.removesuffix(".npy"), None, shape, dtype, partial(_load, archive, member, kept), whole=True)


def _load(archive: zipfile.ZipFile, member: str, kept: dict[str, NDArray[Any]], key: Key) -> NDArray[Any]:
    if member not in kept:
        with archive.open(member) as stream:
            kept[member] = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    return kept[member][key]
