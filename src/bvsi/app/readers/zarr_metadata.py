"""What a Zarr store says about its nodes, checked before a library opens it.

A store may hold records of both versions of the format for one node, and a library opens whichever it looks for first;
codecs may run code (pickle), and a chunk of a few bytes may unpack to gigabytes. So every record is read here, and only
known codecs, plain types, and one record per node pass.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bvsi.app.files import check_reference
from bvsi.errors import DataError

# Codecs that only compress or rearrange numbers, by their names in versions 2 and 3 (there also with "numcodecs.").
_CODECS = frozenset(
    [
        "blosc",
        "zlib",
        "gzip",
        "zstd",
        "lz4",
        "bz2",
        "lzma",
        "delta",
        "fixedscaleoffset",
        "shuffle",
        "crc32",
        "crc32c",
        "adler32",
        "fletcher32",
        "jenkins_lookup3",
        "quantize",
        "bitround",
        "packbits",
        "astype",
        "bytes",
        "transpose",
        "sharding_indexed",
        "vlen-utf8",
    ]
)
_TYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "string",
]
_RECORDS = {"zarr.json": 3, ".zarray": 2, ".zgroup": 2}
_OTHERS = (".zattrs", ".zmetadata")
# Bytes of one record and of all, and nodes: stores of data have some dozens of nodes with a kilobyte each.
_LONGEST, _LONGEST_IN_ALL, _MOST = 1_000_000, 30_000_000, 5000


@dataclass(frozen=True)
class Metadata:
    """What is in a store.

    Attributes
    ----------
    version
        Version of the format.
    arrays
        Paths of its arrays, "" for a store that is one array.
    blosc
        Of those whose chunks are packed by Blosc, the bytes that a chunk unpacks to.
    """

    version: int
    arrays: tuple[str, ...]
    blosc: Mapping[str, int]


def checked_metadata(path: Path, *, allow_outside: bool, largest: float) -> Metadata:
    """The nodes of a store; what may not be opened is refused.

    Parameters
    ----------
    largest
        Bytes that one chunk, or one coordinate, may unpack to.
    """
    records = _folder_records(path, allow_outside) if path.is_dir() else _zip_records(path)
    versions: dict[str, set[int]] = {}
    arrays: dict[str, dict[str, Any]] = {}
    for name, text in records:
        node, kind = name.rpartition("/")[::2]
        versions.setdefault(node, set()).add(_RECORDS[kind])
        meta = json.loads(text)
        if not isinstance(meta, dict):
            raise DataError(f"{path}: the record {name!r} is not a table; the store is damaged")
        if kind == ".zarray" or (kind == "zarr.json" and meta.get("node_type") == "array"):
            arrays[node] = meta
    if len(set().union(*versions.values())) > 1:
        raise DataError(f"{path}: it has records of both versions of Zarr; save it again in one of them")
    unpacked = {node: _check_array(path, node, meta, largest) for node, meta in arrays.items()}
    blosc = {node: unpacked[node] for node, meta in arrays.items() if "blosc" in _codecs(meta, deep=False)}
    version = next(iter(versions.values()), {3}).pop()
    return Metadata(version, tuple(sorted(arrays)), blosc)


def _folder_records(root: Path, allow_outside: bool) -> Iterator[tuple[str, bytes]]:
    """Names and texts of all records below a folder. Links must stay in it."""
    total = 0
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            found = Path(place, name)
            if found.is_symlink():
                if found.is_dir() or not found.is_file():
                    raise DataError(f"{found}: a link to no file in a Zarr store; put the folder itself there")
                check_reference(root, str(found.resolve()), allow_outside=allow_outside)
            if name.lower() in (*_RECORDS, *_OTHERS):  # some file systems ignore the case of letters
                total = _check_length(root, name, found.stat().st_size, total)
                if name.lower() in _RECORDS:
                    yield found.relative_to(root).with_name(name.lower()).as_posix(), found.read_bytes()


def _zip_records(path: Path) -> Iterator[tuple[str, bytes]]:
    """The same for a zipped store, where an entry may be there twice, and names may lead anywhere."""
    total, seen = 0, set()
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if (
                name in seen
                or "\\" in name
                or name.rstrip("/") != str(PurePosixPath(name))
                or {"..", "/"} & set(PurePosixPath(name).parts)
            ):
                raise DataError(
                    f"{path}: its entry {name[:80]!r} occurs twice, or has no plain name; zip the store again"
                )
            seen.add(name)
            kind = name.rpartition("/")[2].lower()
            if kind in (*_RECORDS, *_OTHERS):
                total = _check_length(path, name, entry.file_size, total)
                if kind in _RECORDS:
                    yield name[: len(name) - len(kind)] + kind, archive.read(entry)


def _check_length(path: Path, name: str, size: int, total: int) -> int:
    """Bytes of the records so far, this one included."""
    if size > _LONGEST or total + size > _LONGEST_IN_ALL or total > _MOST * 2000:
        raise DataError(f"{path}: its metadata ({name[:80]!r}: {size} bytes) are too large; the store may be damaged")
    return total + size


def _check_array(path: Path, node: str, meta: Mapping[str, Any], largest: float) -> int:
    """Bytes of a chunk. Unknown codecs, types that are neither numbers nor texts, and large chunks are refused."""
    odd = sorted(str(one) for one in _codecs(meta) if one not in _CODECS)
    if odd:
        told = (
            "pickle, which is never read; save it as numbers"
            if "pickle" in odd
            else f"the codec {odd[0]!r}; save it with zstd, gzip or blosc"
        )
        raise DataError(f"{path}: array {node!r} is stored with {told}")
    if "blosc" in _codecs(meta) and "blosc" not in _codecs(meta, deep=False):  # its headers cannot be checked there
        raise DataError(
            f"{path}: array {node!r} is stored with the codec 'blosc' inside shards; save it with zstd or gzip"
        )
    itemsize = _itemsize(path, node, meta)
    shape = _sizes(path, node, meta.get("shape"))
    grid = meta.get("chunk_grid")
    chunks = meta.get("chunks") if grid is None else (grid.get("configuration") or {}).get("chunk_shape")
    unpacked = itemsize * math.prod(_sizes(path, node, chunks))
    whole = itemsize * math.prod(shape) if len(shape) == 1 else 0  # a coordinate is read when the store is opened
    if min(unpacked, itemsize * max(1, math.prod(shape)) * 2 ** len(shape)) > largest or whole > largest:
        raise DataError(
            f"{path}: array {node!r} unpacks to {max(unpacked, whole) / 1e9:.3g} GB at once, more than "
            f"{largest / 1e9:.3g} GB; the store may be damaged, else raise max_memory (--max-memory)"
        )
    return unpacked


def _codecs(meta: object, *, deep: bool = True) -> Iterator[str]:
    """Names of all codecs in a record.

    Parameters
    ----------
    deep
        Also of those inside others.
    """
    if isinstance(meta, Mapping):
        for key in ("compressor", "filters", "codecs", "index_codecs"):
            named = meta.get(key)
            for one in named if isinstance(named, list) else [] if named is None else [named]:
                inner = one if isinstance(one, Mapping) else {"id": one}
                yield str(inner.get("id", inner.get("name"))).removeprefix("numcodecs.")
                if deep:
                    yield from _codecs(inner.get("configuration"))
                    yield from _codecs(inner)


def _itemsize(path: Path, node: str, meta: Mapping[str, Any]) -> int:
    """Bytes of one value."""
    given = meta.get("dtype", meta.get("data_type"))
    if "data_type" in meta:
        if given in _TYPES:
            return 16 if given == "string" else np.dtype(given).itemsize
        inner = given.get("name") if isinstance(given, Mapping) else given
        if inner in ("numpy.datetime64", "numpy.timedelta64"):
            return 8
        if inner in ("fixed_length_utf32", "null_terminated_bytes"):
            return int((given.get("configuration") or {}).get("length_bytes", 8))
    elif isinstance(given, str):
        dtype = np.dtype(given)
        if not dtype.hasobject:
            return dtype.itemsize
    raise DataError(f"{path}: array {node!r} has the type {str(given)[:60]!r}, which is not read; save it as numbers")


def _sizes(path: Path, node: str, given: object) -> list[int]:
    if not isinstance(given, list) or not all(isinstance(n, int) and 0 <= n < 2**63 for n in given):
        raise DataError(f"{path}: array {node!r} has no proper shape; the store is damaged")
    return given
