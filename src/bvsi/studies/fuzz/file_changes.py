"""Changes of formats that have a structure of their own, and of any file by its kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.studies.fuzz.archive_changes import change_zarr, change_zip, changed_arrays
from bvsi.studies.fuzz.documents import changed_lines, changed_xml
from bvsi.studies.fuzz.hdf5_changes import change_hdf5
from bvsi.studies.fuzz.odd import FLOATS, INTEGERS, NAMES, TEXTS, Rng, chance, pick
from bvsi.studies.fuzz.raw import changed_bytes

Change = Callable[[Path, Rng, str], str]


def change_netcdf3(path: Path, rng: Rng, canary: str) -> str:
    """A classic NetCDF file written again with odd names, attributes and values."""
    del canary
    import xarray as xr

    arrays = changed_arrays(rng)
    try:
        dataset = xr.Dataset({"u": (("t", "x"), np.real(arrays["u"]))}, coords={"t": arrays["t"], "x": arrays["x"]})
        if chance(rng, 0.6):
            dataset = dataset.rename({pick(rng, ("u", "t", "x")): pick(rng, NAMES)})
        values: tuple[Any, ...] = (
            pick(rng, TEXTS),
            pick(rng, FLOATS),
            np.zeros(0),
            np.int32(3),
            "days since 1e9-01-01",
        )
        attribute = pick(rng, ("units", "calendar", "_FillValue", "scale_factor", "coordinates", "add_offset", *NAMES))
        dataset[pick(rng, sorted(map(str, dataset.variables)))].attrs[attribute] = pick(rng, values)
        dataset.to_netcdf(path, engine="scipy")
    except Exception as error:  # whatever the writer refuses cannot be an input
        path.write_bytes(changed_bytes(path.read_bytes(), rng)[0])
        return f"refused by xarray ({type(error).__name__})"
    return f"attribute {attribute!r}"


def change_matlab(path: Path, rng: Rng, canary: str) -> str:
    """A MATLAB file with other classes: structures, cells, sparse matrices, texts."""
    del canary
    import scipy.io
    import scipy.sparse

    arrays = changed_arrays(rng)
    more: tuple[Any, ...] = (
        {"a": {"b": arrays["u"]}}, np.array([1, "a", None], dtype=object), scipy.sparse.csc_matrix(np.eye(4)),
        "text", True, [[]],
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), {"deep": {"deep": {"deep": 1}}},
    )  # fmt: skip
    arrays[pick(rng, ("u", "t", "x", "s", "v" * 31))] = pick(rng, more)
    try:
        scipy.io.savemat(
            path, arrays, do_compression=chance(rng, 0.5), format=pick(rng, ("5", "5", "5", "4")), long_field_names=True
        )
    except Exception as error:  # whatever the writer refuses cannot be an input
        return f"refused by scipy ({type(error).__name__})"
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content[116:] if content[:6] == b"MATLAB" else content)
    return "classes"


def change_tiff(path: Path, rng: Rng, canary: str) -> str:
    """A TIFF file with entries of its directories changed: numbers of the tag, the type, the count, the value."""
    del canary
    content = bytearray(path.read_bytes())
    entries = _tiff_entries(bytes(content))
    for _ in range(int(rng.integers(1, 4))):
        place = pick(rng, entries)
        offset, code, size = pick(rng, ((0, "<H", 2), (2, "<H", 2), (4, "<I", 4), (8, "<I", 4)))
        struct.pack_into(code, content, place + offset, pick(rng, INTEGERS) % 2 ** (8 * size))
    if chance(rng, 0.2):  # directories in a circle
        struct.pack_into("<I", content, pick(rng, entries) + 12, pick(rng, (8, 4, 0xFFFFFFFF)))
    path.write_bytes(bytes(content))
    return "directory"


def _tiff_entries(content: bytes) -> list[int]:
    """Places of all entries of 12 bytes."""
    found: list[int] = []
    place = struct.unpack_from("<I", content, 4)[0]
    while place and len(found) < 500 and place + 2 < len(content):
        count = struct.unpack_from("<H", content, place)[0]
        found += [place + 2 + 12 * i for i in range(count) if place + 18 + 12 * i <= len(content)]
        place = struct.unpack_from("<I", content, place + 2 + 12 * count)[0]
    return found


def _lines(path: Path, rng: Rng, canary: str) -> str:
    del canary
    content, told = changed_lines(path.read_bytes(), rng)
    path.write_bytes(content)
    return told


def _xml(path: Path, rng: Rng, canary: str) -> str:
    if path.suffix == ".h5":
        return change_hdf5(path, rng, canary)
    content, told = changed_xml(path.read_bytes(), rng, canary)
    path.write_bytes(content)
    return told


def bytes_of(path: Path, rng: Rng, other: bytes) -> str:
    """Change bytes of a file, in place."""
    content, told = changed_bytes(path.read_bytes(), rng, other)
    path.write_bytes(content)
    return told


STRUCTURES: dict[str, Change] = {
    "hdf5": change_hdf5, "netcdf3": change_netcdf3, "zarr": change_zarr, "zip": change_zip, "matlab": change_matlab,
    "lines": _lines, "xml": _xml,
    "tiff": change_tiff,
}  # fmt: skip
"""Changes by the name of a structure; each changes a file (or store) in place and names what it did."""
