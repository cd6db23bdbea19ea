"""Files that are whole or absent: composed in memory, written aside, brought to the disk, then renamed.

Libraries that write a file themselves fail in ways of their own where the disk is full; HDF5 even crashes the
interpreter. So they only compose here, and one function writes.

Files that a data file refers to are in its own folder, or refused: HDF5 files take values from other files (external
storage, virtual datasets, external links), XDMF and PVD files name others. A file from somebody else could thus bring
any file of the reader into a result. So every reference is looked at before a library follows it.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bvsi.errors import DataError

if TYPE_CHECKING:
    import xarray as xr


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o644) -> None:
    """Write a file; whatever happens, afterwards it is the old one (or none) or the new one.

    A link at ``path`` is replaced, never followed. Text is written as UTF-8.

    Parameters
    ----------
    mode
        Its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        aside.chmod(mode)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, so that a rename outlives a power cut; a no-op where that is unknown."""
    with suppress(OSError):  # Windows opens no folders, and some file systems do not sync them
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Buffer(io.BytesIO):
    """Bytes that outlive the file that a library writes to them."""

    def close(self) -> None:
        pass


def netcdf_bytes(dataset: xr.Dataset, groups: Mapping[str, xr.Dataset] | None = None) -> bytes:
    """A dataset as the bytes of a NetCDF file.

    Parameters
    ----------
    groups
        Further datasets by the name of their group.
    """
    buffer = _Buffer()
    dataset.to_netcdf(buffer, engine="h5netcdf")
    for name, group in (groups or {}).items():
        group.to_netcdf(buffer, mode="a", group=name, engine="h5netcdf")
    return buffer.getvalue()


def png_bytes(figure: Any, **options: Any) -> bytes:
    """A figure of matplotlib as the bytes of a PNG file.

    Parameters
    ----------
    options
        Options of ``savefig``.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", **options)
    return buffer.getvalue()


if TYPE_CHECKING:
    import xarray as xr

# Objects of an HDF5 file that are looked at; a file of data has some dozens.
_MOST = 20_000
# Bytes of a result or posterior: those of our studies have some megabytes, long chains a hundred.
_LARGEST = 1e9
_REMEDY = "copy it there, or allow it with --allow-outside (allow_outside=True in Python) if you trust the file"


def check_reference(path: Path, reference: str, *, allow_outside: bool) -> None:
    """Refuse a reference that leads out of the folder of a file, or to what is not a file, such as a pipe.

    Libraries look for relative names in the folder of the file, or in the working directory; neither may be outside.

    Parameters
    ----------
    path
        The file that refers to another, or a folder in which a link does.
    """
    home = path.resolve() if path.is_dir() else path.resolve().parent
    for found in {(home / reference).resolve(), Path(reference).resolve()}:
        if found.exists() and not found.is_file():
            raise DataError(f"{path}: it refers to {reference!r}, which is not a file; name a file")
        if found.exists() and not (allow_outside or found.is_relative_to(home)):
            raise DataError(f"{path}: it takes values from {reference!r}, outside its folder; {_REMEDY}")


def check_hdf5(path: Path, *, allow_outside: bool) -> None:
    """Refuse an HDF5 file that takes values from files outside its folder, directly or by way of others there."""
    h5py: Any = importlib.import_module("h5py")
    waiting, seen = [path], set()
    while waiting:
        one = waiting.pop()
        if one.resolve() in seen or not one.is_file() or not h5py.is_hdf5(one):
            continue
        seen.add(one.resolve())
        with h5py.File(one, "r") as file:
            references = set(_references(path, file))
        for reference in references:
            check_reference(one, reference, allow_outside=allow_outside)
            waiting.append(one.resolve().parent / reference)


def _references(path: Path, file: Any) -> Iterator[str]:
    """Names of other files, as they stand in an open file."""
    h5py: Any = importlib.import_module("h5py")
    waiting, seen = [file], set()
    while waiting:
        group = waiting.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                yield str(link.filename)
            if not isinstance(link, h5py.HardLink):
                continue  # a soft link stays in the file, or goes through an external one
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            if len(seen) > _MOST:
                raise DataError(f"{path}: it holds more than {_MOST} arrays and groups; keep those of interest only")
            if isinstance(item, h5py.Group):
                waiting.append(item)
            elif isinstance(item, h5py.Dataset):
                _check_scales(path, item)
                yield from _sources(item)


def _check_scales(path: Path, dataset: Any) -> None:
    """Refuse attributes of dimension scales of a wrong type, since HDF5's own functions crash on them."""
    h5py: Any = importlib.import_module("h5py")
    wanted: dict[str, Callable[[Any], bool]] = {
        "DIMENSION_LIST": lambda kind: h5py.check_ref_dtype(h5py.check_vlen_dtype(kind) or kind) is h5py.Reference,
        "REFERENCE_LIST": lambda kind: bool(kind.names) and h5py.check_ref_dtype(kind[0]) is h5py.Reference,
        "CLASS": lambda kind: kind.kind == "S" or h5py.check_string_dtype(kind) is not None,
        "NAME": lambda kind: kind.kind == "S" or h5py.check_string_dtype(kind) is not None,
    }
    for name, fits in wanted.items():
        if h5py.h5a.exists(dataset.id, name.encode()):
            attribute = dataset.attrs.get_id(name)
            axes = name != "DIMENSION_LIST" or attribute.shape == (len(dataset.shape or ()),)
            if not (axes and fits(attribute.dtype)):
                raise DataError(f"{path}: the attribute {name} of {dataset.name!r} is damaged; write the file again")


def _sources(dataset: Any) -> Iterator[str]:
    """Files that hold the values of a dataset."""
    for name, _, _ in dataset.external or ():
        yield name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)
    if dataset.is_virtual:
        yield from (str(source.file_name) for source in dataset.virtual_sources() if source.file_name != ".")


def load_netcdf(path: Path, largest: float = _LARGEST) -> xr.Dataset:
    """All of a NetCDF file that bvsi wrote; it may come from somebody else, and must not take values from elsewhere.

    Parameters
    ----------
    largest
        Bytes of its arrays at most.
    """
    import xarray as xr

    check_hdf5(path, allow_outside=False)
    _check_sizes(path, largest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a tampered file says of itself
        with xr.open_dataset(path, engine="h5netcdf", phony_dims="access") as stored:
            return stored.load()


def _check_sizes(path: Path, largest: float) -> None:
    """Refuse a file of ours whose arrays, or chunks of them, would take gigabytes: it was tampered with."""
    h5py: Any = importlib.import_module("h5py")
    found = {"bytes": 0.0}

    def add(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found["bytes"] += float(item.dtype.itemsize) * max(
                math.prod(map(float, shape)) for shape in (item.shape, item.chunks or ())
            )

    with h5py.File(path, "r") as file:
        file.visititems(add)
    if found["bytes"] > largest:
        raise DataError(f"{path}: its arrays take {found['bytes'] / 1e9:.3g} GB; the file is damaged, make it again")
