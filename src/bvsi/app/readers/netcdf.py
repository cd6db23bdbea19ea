"""NetCDF files, and every other store that xarray opens with named dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import check_hdf5
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed, texts
from bvsi.errors import DataError


@contextmanager
def open_netcdf(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The variables of a NetCDF file, version 4 or classic, with fill values as NaN and dates decoded."""
    h5py: Any = needed("h5py")
    import xarray as xr

    engine = "scipy"
    if h5py.is_hdf5(paths[0]):
        engine = "h5netcdf"
        check_hdf5(paths[0], allow_outside=reading.allow_outside)
        with h5py.File(paths[0], "r") as file:  # h5netcdf complains on the terminal where this fails
            file.visititems(partial(_check_coordinate, paths[0], reading.largest_piece))
    elif not _classic(paths[0]):
        raise DataError(f"{paths[0]}: this is not a NetCDF file; it may be damaged, incomplete or of another format")
    with xr.open_dataset(paths[0], engine=engine, cache=False, chunks=None) as ds:
        yield labelled(paths[0], "NetCDF", ds)


def _check_coordinate(path: Path, largest: float, name: str, item: Any) -> None:
    """Refuse a coordinate that takes too much memory: all are read when the file is opened."""
    if (
        item.attrs.get("CLASS") == b"DIMENSION_SCALE"
        and hasattr(item, "size")
        and 2.0 * item.size * item.dtype.itemsize > largest
    ):
        raise DataError(f"{path}: the coordinate {name!r} has {item.size} entries; the file may be damaged")


def _classic(path: Path) -> bool:
    """Whether a file begins as NetCDF version 3 does."""
    with path.open("rb") as stream:
        return stream.read(3) == b"CDF"


def labelled(path: Path, name: str, ds: Any) -> DataSource:
    """Variables and coordinates of a lazy dataset."""
    return DataSource(path, name, {str(n): _array(str(n), v) for n, v in ds.variables.items()}, texts(ds.attrs))


def _array(name: str, variable: Any) -> Array:
    chunks = variable.encoding.get("chunksizes") or variable.encoding.get("chunks")
    return Array(
        name,
        tuple(map(str, variable.dims)),
        variable.shape,
        variable.dtype,
        partial(_load, variable),
        dict(variable.attrs),
        tuple(chunks) if chunks else None,
    )


def _load(variable: Any, key: Key) -> NDArray[Any]:
    return np.asarray(variable[key].values)
