"""Zarr stores, as a folder or zipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.netcdf import labelled
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed
from bvsi.app.readers.zarr_metadata import checked_metadata


@contextmanager
def open_zarr(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The arrays of a store; through xarray where all have named dimensions, else without names."""
    zarr: Any = needed("zarr")
    storage = needed("zarr.storage")
    path = paths[0]
    found = checked_metadata(path, allow_outside=reading.allow_outside, largest=reading.largest_piece / 2)
    names, version = found.arrays, found.version
    from bvsi.app.readers.zarr_chunks import CheckedStore

    plain = storage.LocalStore(path, read_only=True) if path.is_dir() else storage.ZipStore(path, mode="r")
    store: Any = CheckedStore(plain, found.blosc) if found.blosc else plain
    try:
        # One by one: zarr opens the members of a group together, and shows failures of some on the terminal.
        arrays = {
            name or path.name.split(".")[0]: zarr.open_array(store, path=name, mode="r", zarr_format=version)
            for name in names
        }
        if "" not in names and all(_dims(a) is not None and "/" not in n for n, a in arrays.items()):
            import xarray as xr

            # zero is what zarr fills with unless set otherwise: there it is a value, not a mark of missing ones
            masked = {n: not (np.issubdtype(a.dtype, np.floating) and a.fill_value == 0) for n, a in arrays.items()}
            with xr.open_dataset(
                store,
                engine="zarr",
                chunks=None,
                cache=False,
                consolidated=False,
                zarr_format=version,
                mask_and_scale=masked,
            ) as ds:
                yield labelled(path, "Zarr", ds)
        else:
            yield DataSource(path, "Zarr", {name: _array(name, array) for name, array in arrays.items()})
    finally:
        store.close()


def _dims(array: Any) -> tuple[str, ...] | None:
    """Names of the axes: ``dimension_names`` of version 3, ``_ARRAY_DIMENSIONS`` of version 2."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    if not array.shape:
        return ()
    fits = isinstance(names, list | tuple) and len(names) == len(array.shape) and all(names)
    return tuple(map(str, names)) if fits else None


def _array(name: str, array: Any) -> Array:
    return Array(
        name, _dims(array), array.shape, np.dtype(array.dtype), partial(_load, array), dict(array.attrs), array.chunks
    )


def _load(array: Any, key: Key) -> NDArray[Any]:
    return np.asarray(array[key])
