"""Formats by suffix, and paths with patterns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.hdf5 import open_hdf5
from bvsi.app.readers.limits import limited_memory
from bvsi.app.readers.matlab import open_matlab
from bvsi.app.readers.microscopy import open_microscope
from bvsi.app.readers.netcdf import open_netcdf
from bvsi.app.readers.npz import open_npz
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.series import open_series
from bvsi.app.readers.sheets import open_sheet, sheet_contents
from bvsi.app.readers.source import Array, DataSource, Key, readable
from bvsi.app.readers.table import open_table, table_contents
from bvsi.app.readers.tiff import open_tiff
from bvsi.app.readers.zarr_store import open_zarr
from bvsi.errors import DataError

# Arrays of a file that are looked at; files of data have some dozens.
_MOST = 5000
# Bytes that opening a file may take, with modules that are imported for it.
_BESIDE = 500_000_000
# Bytes in memory per byte of a file that is read as a whole: numbers as text and copies of them, or compressed numbers.
_UNPACKED = 20

Opener = Callable[[tuple[Path, ...], Reading], AbstractContextManager[DataSource]]


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name
        Its name.
    suffixes
        How its files end, in small letters.
    open
        Opens files of it.
    series
        Whether several files, one per time, make one set.
    folder
        Whether a set may be a folder.
    whole
        Whether a file is read as a whole when it is opened.
    columns
        Lists the columns of a table without their values; None for files that are not tables.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Opener
    series: bool = False
    folder: bool = False
    whole: bool = False
    columns: Callable[[tuple[Path, ...], Reading], DataSource] | None = None


FORMATS: tuple[Format, ...] = (
    Format("NetCDF", (".nc", ".nc4", ".cdf"), open_netcdf),
    Format("Zarr", (".zarr", ".zarr.zip"), open_zarr, folder=True),
    Format("HDF5", (".h5", ".hdf5"), open_hdf5),
    Format("NPZ", (".npz",), open_npz),
    Format("MATLAB", (".mat",), open_matlab),
    Format("CSV", (".csv", ".tsv"), open_table, whole=True, columns=table_contents),
    Format("Excel", (".xlsx", ".xlsm"), open_sheet, whole=True, columns=sheet_contents),
    Format("Parquet", (".parquet", ".pq"), open_sheet, whole=True, columns=sheet_contents),
    Format("VTK", (".vtu", ".vtk", ".pvd"), open_series, series=True, whole=True),
    Format("XDMF", (".xdmf", ".xmf"), open_series, whole=True),
    Format("Gmsh", (".msh",), open_series, series=True, whole=True),
    Format("TIFF", (".tif", ".tiff"), open_tiff, series=True),
    Format("microscopy", (".nd2", ".czi"), open_microscope),
)
"""The formats that are read."""


def format_of(path: Path) -> Format:
    """The format of a path by its suffix; an unknown one is refused with those that are known."""
    name = path.name.lower()
    for known in FORMATS:
        if name.endswith(known.suffixes):
            return known
    suffixes = ", ".join(suffix for known in FORMATS for suffix in known.suffixes)
    raise DataError(f"{path}: files that end in {path.suffix or 'no suffix'!r} are not known; known are {suffixes}")


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that a path or pattern names, numbers in their names in counting order."""
    kind = format_of(path)
    try:
        return _existing(path, kind)
    except (OSError, NotImplementedError) as error:  # names that no file can have, folders that may not be read
        raise DataError(f"{path}: this path cannot be used ({error}); check it") from error


def _existing(path: Path, kind: Format) -> tuple[Path, ...]:
    if path.exists():
        if path.is_dir() and not kind.folder:
            raise DataError(f"{path}: this is a folder; name a file in it, or a pattern such as {path / 'run_*.vtu'}")
        _check_regular(path)
        return (path,)
    if not has_magic(str(path)):
        raise DataError(f"{path}: there is no such file; check the path")
    root = Path(path.anchor)
    found = sorted(root.glob(str(path.relative_to(root) if path.anchor else path)), key=_counting)
    if not found:
        raise DataError(f"{path}: no file fits this pattern; check the path")
    if len(found) > 1 and not kind.series:
        raise DataError(f"{path}: {len(found)} files fit, and {kind.name} files are read one at a time; name one")
    for one in found:
        _check_regular(one)
    return tuple(found)


def _check_regular(path: Path) -> None:
    """Refuse pipes and devices, whose reading may never end."""
    if not (path.is_file() or path.is_dir()):
        raise DataError(f"{path}: this is neither a file nor a folder; name a file")


def _counting(path: Path) -> list[tuple[int, str]]:
    """Key by which run_9 comes before run_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def _limited(source: DataSource, reading: Reading) -> DataSource:
    """The source with arrays that refuse to be read where a part of them takes more memory than is allowed."""
    if len(source.arrays) > _MOST:
        raise DataError(f"{source.path}: it holds {len(source.arrays)} arrays; keep those of interest only")
    arrays = {name: replace(a, load=partial(_load, source.path, a, reading)) for name, a in source.arrays.items()}
    return replace(source, arrays=arrays)


def _load(path: Path, array: Array, reading: Reading, key: Key) -> NDArray[Any]:
    """A part of an array, unless it, or the chunk that holds it, is too large."""
    sizes = [len(range(*part.indices(n))) for part, n in zip(key, array.shape, strict=True)]
    asked = float(array.dtype.itemsize) * float(np.prod(sizes, dtype=float))
    largest = reading.largest_piece
    wanted = max(asked, array.unpacked if array.whole else 2 * array.unpacked)  # a chunk and what is taken from it
    if wanted > largest:
        raise DataError(
            f"{path}: {array.name!r} takes {wanted / 1e9:.3g} GB at once, more than {largest / 1e9:.3g} GB; raise "
            "max_memory (--max-memory), take a part with select, or store it in smaller chunks"
        )
    with limited_memory(2 * wanted + _BESIDE) if reading.guarded else nullcontext():
        return array.load(key)


@contextmanager
def opened(path: Path, reading: Reading) -> Iterator[DataSource]:
    """The open source of a path; failures of the libraries on damaged files end as DataError."""
    files, kind = files_of(path), format_of(path)
    opening = kind.open(files, reading)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about details of the formats
        room = _BESIDE + (_UNPACKED * max(file.stat().st_size for file in files) if kind.whole else 0)
        with readable(path, kind.name), limited_memory(room) if reading.guarded else nullcontext():
            source = _limited(opening.__enter__(), reading)
        try:
            yield source
        except BaseException as error:
            opening.__exit__(type(error), error, error.__traceback__)
            raise
        else:
            opening.__exit__(None, None, None)
