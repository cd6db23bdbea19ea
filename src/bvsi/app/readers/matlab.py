"""MATLAB files: version 5 through SciPy, version 7.3 through HDF5."""

from __future__ import annotations

import math
import mmap
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.hdf5 import open_matlab73
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed
from bvsi.errors import DataError

# Classes of MATLAB by the names that SciPy gives them; complex ones are told only when they are read.
_NUMBERS = {
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
}


@contextmanager
def open_matlab(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The arrays of a .mat file of either version, with the axes as MATLAB shows them."""
    h5py: Any = needed("h5py")

    if h5py.is_hdf5(paths[0]):
        with open_matlab73(paths, reading) as source:
            yield source
        return
    _check_elements(paths[0], reading.largest_piece)
    yield _version5(paths[0])


def _version5(path: Path) -> DataSource:
    """The arrays of a file of version 5; each is read when first used, and kept."""
    from scipy.io import whosmat

    listed = whosmat(path)
    kept: dict[str, NDArray[Any]] = {}
    arrays, notes = {}, []
    for name, shape, kind in listed:
        if kind not in _NUMBERS:
            notes.append(f"{name!r} is of MATLAB class {kind}")
            continue
        squeezed = (max(shape),) if len(shape) == 2 and 1 in shape else tuple(shape)
        arrays[name] = Array(
            name, None, squeezed, _NUMBERS[kind], partial(_load, path, name, squeezed, kept), whole=True
        )
    return DataSource(path, "MATLAB", arrays, notes=tuple(notes))


def _load(path: Path, name: str, shape: tuple[int, ...], kept: dict[str, NDArray[Any]], key: Key) -> NDArray[Any]:
    if name not in kept:
        from scipy.io import loadmat

        found = loadmat(path, variable_names=[name])
        if name not in found:
            raise DataError(f"{path}: variable {name!r} cannot be read; the file may be damaged")
        kept[name] = np.asarray(found[name]).reshape(shape)
    return kept[name][key]


# Bytes of a number by MATLAB's types of stored data: miINT8 … miUINT64.
_STORED = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_MATRIX, _COMPRESSED = 14, 15  # miMATRIX, miCOMPRESSED
_HEADER = 128  # bytes before the first element
_CLASSES = range(6, 16)  # of arrays of numbers, mxDOUBLE_CLASS to mxUINT64_CLASS
_COMPLEX = 8  # bit of the flags


def _check_elements(path: Path, largest: float) -> None:
    """Refuse arrays whose parts do not have the lengths that they state: SciPy reads beyond them and crashes."""
    if path.stat().st_size < _HEADER:
        raise ValueError("no header of version 5")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _check_content(content, largest)


def _check_content(content: mmap.mmap, largest: float) -> None:
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("no header of version 5")
    at = _HEADER
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(order + "II", content, at)
        body = content[at + 8 : at + 8 + size]
        whole = len(body) == size
        if kind == _COMPRESSED and whole:
            body = _inflated(body, int(largest))
            kind, size = struct.unpack_from(order + "II", body, 0) if len(body) >= 8 else (0, 0)
            body, whole = body[8 : 8 + size], len(body) >= 8 + size
        if not whole or (kind == _MATRIX and not _sound(body, order)):
            raise ValueError("an array is damaged or cut off")
        at += 8 + struct.unpack_from(order + "I", content, at + 4)[0]


def _inflated(body: bytes, largest: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body, largest)
    except zlib.error as error:
        raise ValueError(f"an array is damaged, {error}") from None
    if stream.unconsumed_tail:
        raise MemoryError(f"an array takes more than {largest} bytes")
    return found


def _sound(body: bytes, order: str) -> bool:
    """Whether flags, dimensions, name and numbers of an array fit together; other classes are not looked at."""
    parts: list[tuple[int, bytes, int]] = []
    at = 0
    while at + 8 <= len(body) and len(parts) < 5:
        kind, size = struct.unpack_from(order + "II", body, at)
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, size = kind & 0xFFFF, kind >> 16
            parts.append((kind, body[at + 4 : at + 4 + size], size))
            at += 8
        else:
            parts.append((kind, body[at + 8 : at + 8 + size], size))
            at += 8 + -(-size // 8) * 8
    if len(parts) < 3 or any(len(data) < size for _, data, size in parts):
        return False
    (_, flags, _), (kind, dims, size) = parts[0], parts[1]
    if len(flags) != 8 or kind != 5 or size % 4 or size < 8:
        return False
    word = struct.unpack(order + "I", flags[:4])[0]
    if word & 0xFF not in _CLASSES:
        return True
    count = math.prod(struct.unpack(f"{order}{size // 4}i", dims))
    numbers = parts[3 : 5 if word >> 8 & _COMPLEX else 4]
    wanted = 2 if word >> 8 & _COMPLEX else 1
    return len(numbers) == wanted and all(
        kind in _STORED and size == count * _STORED[kind] for kind, _, size in numbers
    )
