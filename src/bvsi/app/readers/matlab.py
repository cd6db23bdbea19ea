"""MATLAB files: version 5 through SciPy, version 7.3 through HDF5."""

from __future__ import annotations

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
