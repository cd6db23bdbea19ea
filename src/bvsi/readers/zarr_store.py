"""Zarr stores, as a folder or zipped."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import DataError
from bvsi.readers.netcdf import labelled
from bvsi.readers.reading import Reading
from bvsi.readers.source import Array, Key, Source, needed

_METADATA = ("zarr.json", ".zarray", ".zgroup")


@contextmanager
def open_zarr(paths: tuple[Path, ...], reading: Reading) -> Iterator[Source]:
    """The arrays of a store; through xarray where all have named dimensions, else without names."""
    del reading
    zarr: Any = needed("zarr")
    storage = needed("zarr.storage")
    path = paths[0]
    names = _array_names(path)
    store = storage.LocalStore(path, read_only=True) if path.is_dir() else storage.ZipStore(path, mode="r")
    try:
        # One by one: zarr opens the members of a group together, and shows failures of some on the terminal.
        arrays = {name or path.name.split(".")[0]: zarr.open_array(store, path=name, mode="r") for name in names}
        if "" not in names and all(_dims(a) is not None and "/" not in n for n, a in arrays.items()):
            import xarray as xr

            # zero is what zarr fills with unless told otherwise: there it is a value, not a mark of missing ones
            masked = {n: not (np.issubdtype(a.dtype, np.floating) and a.fill_value == 0) for n, a in arrays.items()}
            with xr.open_dataset(
                store, engine="zarr", chunks=None, cache=False, consolidated=False, mask_and_scale=masked
            ) as ds:
                yield labelled(path, "Zarr", ds)
        else:
            yield Source(path, "Zarr", {name: _array(name, array) for name, array in arrays.items()})
    finally:
        store.close()


def _array_names(path: Path) -> list[str]:
    """Paths of the arrays in a store, "" for a store that is one array; the values are not looked at."""
    found = {}
    for name, text in _folder_metadata(path, path) if path.is_dir() else _zip_metadata(path):
        node, kind = name.rpartition("/")[::2]
        meta = json.loads(text)
        if kind == ".zarray" or meta.get("node_type") == "array":
            found[node] = {key: value for key, value in meta.items() if key != "attributes"}
    for node, meta in found.items():
        # A filter of this name unpickles the values, which can run any program.
        if "pickle" in json.dumps(meta).lower():
            raise DataError(f"{path}: array {node!r} is stored with pickle, which is never read; save it as numbers")
    return sorted(found)


def _folder_metadata(folder: Path, root: Path) -> Iterator[tuple[str, bytes]]:
    """Names and texts of the metadata below a folder; folders with chunks are not entered."""
    for kind in _METADATA:
        if (folder / kind).is_file():
            yield (folder / kind).relative_to(root).as_posix(), (folder / kind).read_bytes()
    if not (folder / ".zarray").is_file():
        for child in sorted(folder.iterdir()):
            if child.is_dir() and any((child / kind).is_file() for kind in _METADATA):
                yield from _folder_metadata(child, root)


def _zip_metadata(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.rpartition("/")[2] in _METADATA:
                yield name, archive.read(name)


def _dims(array: Any) -> tuple[str, ...] | None:
    """Names of the axes: ``dimension_names`` of version 3, ``_ARRAY_DIMENSIONS`` of version 2."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    if not array.shape:
        return ()
    return tuple(map(str, names)) if names and all(names) else None


def _array(name: str, array: Any) -> Array:
    return Array(
        name, _dims(array), array.shape, np.dtype(array.dtype), partial(_load, array), dict(array.attrs), array.chunks
    )


def _load(array: Any, key: Key) -> NDArray[Any]:
    return np.asarray(array[key])
