"""MATLAB files: version 5, and version 7.3 through HDF5.

Members of cells and structs have names of their own: ``xs/2`` is ``xs{2}`` and ``run/u`` is ``run.u``. Version 5 is
read here: a file is a row of elements (type, length, content), and arrays are elements of elements. SciPy's reader
crashes where a length is wrong, and does not list members before it has read them.
"""

from __future__ import annotations

import math
import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.hdf5 import open_matlab73
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed

# Classes of arrays in the file format: cells, structs, and numbers with their types. Others are not read.
_CELL, _STRUCT = 1, 2
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_OTHERS = {3: "object", 4: "char", 5: "sparse", 16: "function_handle", 17: "opaque"}
# Numbers by MATLAB's types of stored data, miINT8 … miUINT64: small integers take fewer bytes than their class.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15  # miMATRIX, miCOMPRESSED
_HEADER = 128  # bytes before the first element
_LOGICAL, _COMPLEX = 2, 8  # bits of the flags
_DEEPEST = 8  # nested cells and structs; files of data have one or two
_DAMAGED = "an array is damaged or cut off"

_Path = tuple[str | int, ...]
_Parts = Iterator[tuple[int, memoryview]]


@dataclass(frozen=True)
class _Member:
    """An array of a file.

    Attributes
    ----------
    path
        Name of the variable, then field names and numbers, from 0, of the structs and cells that it stands in.
    kind
        Its class.
    numbers
        Stored type and content of its real and imaginary part; empty for classes that hold none.
    """

    path: _Path
    shape: tuple[int, ...]
    kind: int
    logical: bool
    numbers: tuple[tuple[int, memoryview], ...]

    @property
    def name(self) -> str:
        """As users write it; MATLAB counts from one."""
        return "/".join(str(part + 1) if isinstance(part, int) else part for part in self.path)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its values."""
        return np.dtype(np.complex128 if len(self.numbers) == 2 else _NUMBERS[self.kind])

    def values(self, order: str) -> NDArray[Any]:
        """Its values, with the axes as MATLAB shows them; vectors (n,)."""
        parts = [np.frombuffer(content, order + _STORED[stored]) for stored, content in self.numbers]
        flat = parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]
        return flat.astype(self.dtype).reshape(self.squeezed, order="F")

    @property
    def squeezed(self) -> tuple[int, ...]:
        """Its shape, a vector's without the axis of one."""
        return (max(self.shape),) if len(self.shape) == 2 and 1 in self.shape else self.shape


@contextmanager
def open_matlab(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The arrays of a .mat file of either version, with the axes as MATLAB shows them."""
    h5py: Any = needed("h5py")

    if h5py.is_hdf5(paths[0]):
        with open_matlab73(paths, reading) as source:
            yield source
        return
    yield _version5(paths[0], int(reading.largest_piece))


def _version5(path: Path, largest: int) -> DataSource:
    """The arrays of a file of version 5; each is read when first used, and kept."""
    kept: dict[str, NDArray[Any]] = {}
    arrays, notes = {}, []
    for number, _, members in _variables(path, largest):
        for one in members:
            if one.kind in _NUMBERS and not one.logical:
                load = partial(_load, path, number, one.path, largest, kept)
                arrays[one.name] = Array(one.name, None, one.squeezed, one.dtype, load, whole=True)
            elif one.path != ("",):  # what MATLAB keeps for objects has no name
                kind = "logical" if one.logical else _OTHERS.get(one.kind, "struct array")
                notes.append(f"{one.name!r} is of MATLAB class {kind}")
    return DataSource(path, "MATLAB", arrays, notes=tuple(notes))


def _load(path: Path, number: int, at: _Path, largest: int, kept: dict[str, NDArray[Any]], key: Key) -> NDArray[Any]:
    name = str(at)
    if name not in kept:
        ((_, order, members),) = _variables(path, largest, only=number)
        kept[name] = next(one for one in members if one.path == at).values(order)
    return kept[name][key]


def _variables(path: Path, largest: int, only: int | None = None) -> Iterator[tuple[int, str, list[_Member]]]:
    """Number, byte order and arrays of each variable, or of one; refused where stated lengths are wrong."""
    if path.stat().st_size < _HEADER:
        raise ValueError("no header of version 5")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise ValueError("no header of version 5")
        at, number = _HEADER, 0
        while at < len(content):
            kind, size = struct.unpack_from(order + "II", content, at) if at + 8 <= len(content) else (0, 0)
            if at + 8 + size > len(content):
                raise ValueError(_DAMAGED)
            if only is None or only == number:
                yield number, order, _variable(kind, content[at + 8 : at + 8 + size], order, largest)
            at, number = at + 8 + size, number + 1


def _variable(kind: int, body: bytes, order: str, largest: int) -> list[_Member]:
    """The arrays of one variable."""
    if kind == _COMPRESSED:
        body = _inflated(body, largest)
        kind, size = struct.unpack_from(order + "II", body, 0) if len(body) >= 8 else (0, 0)
        if len(body) < 8 + size:
            raise ValueError(_DAMAGED)
        body = body[8 : 8 + size]
    if kind != _MATRIX:
        raise ValueError(_DAMAGED)
    return list(_walk(memoryview(body), order, ()))


def _inflated(body: bytes, largest: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body, largest)
    except zlib.error as error:
        raise ValueError(f"an array is damaged, {error}") from None
    if stream.unconsumed_tail:
        raise MemoryError(f"an array takes more than {largest} bytes")
    return found


def _parts(body: memoryview, order: str) -> _Parts:
    """Types and contents of the elements of an array."""
    at = 0
    while at + 8 <= len(body):
        kind, size = struct.unpack_from(order + "II", body, at)
        small = kind >> 16  # up to four bytes stand in the tag itself
        kind, size, begin = (kind & 0xFFFF, small, at + 4) if small else (kind, size, at + 8)
        if begin + size > len(body) or small > 4:
            raise ValueError(_DAMAGED)
        yield kind, body[begin : begin + size]
        # arrays in arrays are not padded: their length is a multiple of eight
        at = at + 8 if small else begin + (size if kind == _MATRIX else -(-size // 8) * 8)


def _walk(body: memoryview, order: str, at: _Path) -> Iterator[_Member]:
    """The array whose elements these are, or all that it holds; ``at`` is where it stands, () for a variable."""
    if not len(body) and at:
        return  # MATLAB's empty array in a cell
    parts = _parts(body, order)
    kind, bits, shape, name = _described(parts, order)
    path, count = at or (name,), math.prod(shape)
    if kind not in (_CELL, _STRUCT) or (kind == _STRUCT and count != 1):
        numbers = _checked(parts, count, 2 if bits & _COMPLEX else 1) if kind in _NUMBERS else ()
        yield _Member(path, shape, kind, bool(numbers) and bool(bits & _LOGICAL), numbers)
        return
    if len(path) > _DEEPEST:
        raise ValueError("cells and structs are nested too deep")
    keys: Sequence[str | int] = range(count) if kind == _CELL else _fields(parts, order)
    inside = list(parts)
    if len(inside) != len(keys) or any(kind != _MATRIX for kind, _ in inside):
        raise ValueError(_DAMAGED)
    for key, (_, part) in zip(keys, inside, strict=True):
        yield from _walk(part, order, (*path, key))


def _described(parts: _Parts, order: str) -> tuple[int, int, tuple[int, ...], str]:
    """Class, flags, shape and name of an array, from its first three elements."""
    first = [part for _, part in zip(range(3), parts, strict=False)]
    if len(first) < 3:
        raise ValueError(_DAMAGED)
    (_, flags), (stored, dims), (_, name) = first
    if len(flags) != 8 or stored != 5 or len(dims) % 4 or len(dims) < 8:
        raise ValueError(_DAMAGED)
    word, shape = struct.unpack(order + "I", flags[:4])[0], struct.unpack(f"{order}{len(dims) // 4}i", dims)
    if min(shape) < 0:
        raise ValueError(_DAMAGED)
    return word & 0xFF, word >> 8, shape, bytes(name).decode("utf-8", errors="replace")


def _checked(parts: _Parts, count: int, wanted: int) -> tuple[tuple[int, memoryview], ...]:
    """The numbers of an array, which have to have its size."""
    numbers = tuple(parts)
    if len(numbers) != wanted:
        raise ValueError(_DAMAGED)
    for stored, content in numbers:
        if stored not in _STORED or len(content) != count * np.dtype(_STORED[stored]).itemsize:
            raise ValueError(_DAMAGED)
    return numbers


def _fields(parts: _Parts, order: str) -> list[str]:
    """Names of the fields of a struct: the length that each takes, then the names."""
    (_, length), (_, names) = next(parts, (0, memoryview(b""))), next(parts, (0, memoryview(b"")))
    size = struct.unpack(order + "i", length)[0] if len(length) == 4 else 0
    if size <= 0 or len(names) % size:
        raise ValueError(_DAMAGED)
    every = (bytes(names[i : i + size]).split(b"\0")[0] for i in range(0, len(names), size))
    return [one.decode("utf-8", errors="replace") for one in every]
