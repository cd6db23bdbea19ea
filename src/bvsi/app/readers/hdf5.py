"""HDF5 files, and MATLAB files of version 7.3, which are HDF5 with the axes reversed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import check_hdf5
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed, texts

# Classes of MATLAB that hold no numbers that are read; cells in cells are not looked into.
_UNREAD = ("cell", "char", "function_handle")
# Members of a cell that are looked at; cells of fields and axes have some.
_MOST_CELLS = 1000


@contextmanager
def open_hdf5(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The datasets of all groups, by their path; dimension scales and labels name the axes."""
    h5py: Any = needed("h5py")
    check_hdf5(paths[0], allow_outside=reading.allow_outside)
    with h5py.File(paths[0], "r") as file:
        arrays = {name: _array(name, dataset) for name, dataset in _datasets(file).items()}
        yield DataSource(paths[0], "HDF5", arrays, texts(file.attrs))


@contextmanager
def open_matlab73(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The arrays of a MATLAB file of version 7.3, with the axes in MATLAB's order and vectors as (n,)."""
    h5py: Any = needed("h5py")
    check_hdf5(paths[0], allow_outside=reading.allow_outside)
    with h5py.File(paths[0], "r") as file:
        found = {name: d for name, d in _datasets(file).items() if not name.startswith(("#refs#", "#subsystem#"))}
        found = {name: d for top, cell in found.items() for name, d in _in_cell(file, top, cell).items()}
        plain = {name: d for name, d in found.items() if _matlab_class(d) not in _UNREAD}
        notes = tuple(
            f"{name!r} is of MATLAB class {_matlab_class(found[name])}" for name in found if name not in plain
        )
        yield DataSource(paths[0], "MATLAB", {name: _matlab(name, d) for name, d in plain.items()}, notes=notes)


def _in_cell(file: Any, name: str, dataset: Any) -> dict[str, Any]:
    """The datasets that a cell refers to, ``name/1`` and so on, or the dataset itself."""
    h5py: Any = needed("h5py")
    if _matlab_class(dataset) != "cell" or dataset.dtype != h5py.ref_dtype or dataset.size > _MOST_CELLS:
        return {name: dataset}
    every = (file[one] if one else None for one in dataset[()].ravel())  # MATLAB's order: the axes are reversed
    inside = {f"{name}/{i + 1}": one for i, one in enumerate(every) if isinstance(one, h5py.Dataset)}
    return {key: one for key, one in inside.items() if one.shape is not None}


def _datasets(file: Any) -> dict[str, Any]:
    """Datasets by path, also those in groups."""
    h5py: Any = needed("h5py")

    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found[name] = item

    file.visititems(note)
    return found


def _array(name: str, dataset: Any) -> Array:
    return Array(
        name,
        _dims(dataset),
        dataset.shape,
        _dtype(dataset),
        partial(_load, dataset),
        dict(dataset.attrs),
        dataset.chunks,
    )


def _dims(dataset: Any) -> tuple[str, ...] | None:
    """Names of the axes from labels or attached scales; a scale names its own axis."""
    if dataset.attrs.get("CLASS") == b"DIMENSION_SCALE" and len(dataset.shape) == 1:
        return (_last(dataset),)
    labels, scales = (_by_axis(dataset, name) for name in ("DIMENSION_LABELS", "DIMENSION_LIST"))
    names = [_text(label) or _scale(dataset, scale) for label, scale in zip(labels, scales, strict=True)]
    return tuple(names) if names and all(names) else None


def _by_axis(dataset: Any, name: str) -> Sequence[Any]:
    """An attribute with one entry per axis. HDF5's own functions for it crash where its type is another."""
    found = dataset.attrs.get(name)
    fits = isinstance(found, np.ndarray) and found.dtype == object and found.shape == (len(dataset.shape),)
    return found if fits else (None,) * len(dataset.shape)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _scale(dataset: Any, attached: object) -> str:
    """Name of the first dimension scale that is attached to an axis; empty where there is none."""
    h5py: Any = needed("h5py")
    first = attached[0] if isinstance(attached, np.ndarray) and attached.size else None
    scale = dataset.file[first] if isinstance(first, h5py.Reference) and first else None
    return _last(scale) if isinstance(scale, h5py.Dataset) else ""


def _last(dataset: Any) -> str:
    return str(dataset.name).rsplit("/", 1)[-1]


def _dtype(dataset: Any) -> np.dtype[Any]:
    """Type of the values; MATLAB's pairs of real and imaginary part are complex numbers."""
    dtype: np.dtype[Any] = dataset.dtype
    return np.dtype(np.complex128) if dtype.names == ("real", "imag") else dtype


def _load(dataset: Any, key: Key) -> NDArray[Any]:
    values = np.asarray(dataset[key])
    if values.dtype.names == ("real", "imag"):
        return np.asarray(values["real"] + 1j * values["imag"])
    return values


def _matlab_class(dataset: Any) -> str:
    kind = dataset.attrs.get("MATLAB_class", b"")
    return kind.decode(errors="replace") if isinstance(kind, bytes) else str(kind)


def _matlab(name: str, dataset: Any) -> Array:
    """Array with MATLAB's order of the axes; a vector (1, n) or (n, 1) has one axis."""
    shape = tuple(reversed(dataset.shape))
    vector = len(shape) == 2 and 1 in shape
    if vector:
        return Array(name, None, (max(shape),), _dtype(dataset), partial(_load_vector, dataset), whole=True)
    chunks = None if dataset.chunks is None else tuple(reversed(dataset.chunks))
    return Array(name, None, shape, _dtype(dataset), partial(_load_reversed, dataset), chunks=chunks)


def _load_vector(dataset: Any, key: Key) -> NDArray[Any]:
    return _load(dataset, (slice(None),) * 2).reshape(-1)[key]


def _load_reversed(dataset: Any, key: Key) -> NDArray[Any]:
    return _load(dataset, tuple(reversed(key))).transpose()
