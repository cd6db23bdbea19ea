"""Images of microscopes: pixel sizes, times and channels, of OME-TIFF by tifffile, of ND2 and CZI by bioio.

Every channel is an array over t, z, y and x, as far as it has these; coordinates are micrometres and seconds where the
file states them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, in_memory, needed
from bvsi.errors import DataError

# Modules of bioio by suffix.
_MODULES = {".nd2": "bioio_nd2", ".czi": "bioio_czi"}
# Bytes of metadata at most; every image of a long record has a line of it.
_MOST_BYTES = 100_000_000
# Micrometres and seconds per unit of OME.
_LENGTHS = {"m": 1e6, "cm": 1e4, "mm": 1e3, "µm": 1.0, "μm": 1.0, "nm": 1e-3, "Å": 1e-4}
_TIMES = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "μs": 1e-6}
_UNITS = {"t": "s", "z": "µm", "y": "µm", "x": "µm"}

Load = Callable[[Key], NDArray[Any]]


@contextmanager
def open_microscope(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """The first scene of an ND2 or CZI file, read image by image."""
    del reading
    path = paths[0]
    module = next(name for suffix, name in _MODULES.items() if path.name.lower().endswith(suffix))
    yield of_bioio(path, needed(module, "'bvsi[microscopy]'").Reader(path))


def of_bioio(path: Path, reader: Any) -> DataSource:
    """The arrays of a reader of bioio."""
    image = reader.xarray_dask_data
    steps = {axis.lower(): size for axis, size in reader.physical_pixel_sizes._asdict().items() if size}
    interval: Any = getattr(reader, "time_interval", None)
    seconds = interval.total_seconds() if hasattr(interval, "total_seconds") else interval
    steps |= {"t": float(seconds)} if seconds else {}

    def load(key: Key) -> NDArray[Any]:
        return np.asarray(image.data[key].compute(scheduler="synchronous"))

    dims, chunks = tuple(map(str.lower, image.dims)), tuple(sizes[0] for sizes in image.data.chunks)
    names = [str(name) for name in reader.channel_names or ()]
    arrays = image_arrays(dims, image.shape, np.dtype(image.dtype), load, names, steps, chunks)
    notes = (f"{len(reader.scenes)} scenes; the first is read",) if len(reader.scenes) > 1 else ()
    return DataSource(path, "microscopy", arrays, notes=notes)


def image_arrays(
    dims: tuple[str, ...],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    load: Load,
    channels: Sequence[str],
    steps: Mapping[str, float],
    chunks: tuple[int, ...] | None = None,
    *,
    whole: bool = False,
) -> dict[str, Array]:
    """One array per channel, without axes of length one, and the coordinates whose steps are known."""
    strange = sorted(set(dims) - set("tczyxs"))
    if strange or "s" in dims:
        raise DataError(f"images with the axis {strange[0] if strange else 'colour'!r} are not read; save them as grey")
    sizes = dict(zip(dims, shape, strict=True))
    kept = tuple(d for d in dims if d != "c" and sizes[d] > 1)
    count = sizes.get("c", 1)
    found: dict[str, Array] = {}
    for number in range(count):
        name = _name(channels[number] if number < len(channels) else "", number, count)
        name = name if name not in found else f"{name}_{number}"
        piece = None if chunks is None else tuple(c for c, d in zip(chunks, dims, strict=True) if d in kept)
        own = partial(_load, load, dims, kept, number)
        found[name] = Array(name, kept, tuple(sizes[d] for d in kept), dtype, own, chunks=piece, whole=whole)
    for axis, step in steps.items():
        if axis in kept and np.isfinite(step) and step > 0:
            found[axis] = in_memory(axis, (axis,), step * np.arange(sizes[axis]), {"units": _UNITS[axis]})
    return found


def _load(load: Load, dims: tuple[str, ...], kept: tuple[str, ...], channel: int, key: Key) -> NDArray[Any]:
    """A part of one channel."""
    asked = dict(zip(kept, key, strict=True))
    parts = tuple(asked.get(d, slice(channel, channel + 1) if d == "c" else slice(0, 1)) for d in dims)
    values = load(parts)
    return values.reshape([n for n, d in zip(values.shape, dims, strict=True) if d in kept])


def _name(told: str, number: int, count: int) -> str:
    """The name of a channel as a field may have it."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", told).strip("_")
    if plain and not plain[0].isdigit() and plain.lower() not in "tczyx":
        return plain
    return "image" if count == 1 else f"channel{number}"


def ome_metadata(path: Path, text: str) -> tuple[list[str], dict[str, float]]:
    """Names of channels, and steps of t, z, y, x in seconds and micrometres, of the OME-XML of a TIFF file.

    Files that name others in other folders, or that define entities, are refused.
    """
    if len(text) > _MOST_BYTES or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataError(f"{path}: its OME-XML is too long, or defines entities; it is not read")
    root = ElementTree.fromstring(text)
    for element in root.iter():
        named = element.get("FileName")
        if named is not None and (Path(named).name != named or "\\" in named or (path.parent / named).is_symlink()):
            raise DataError(f"{path}: it names images in {named!r}, outside its folder; save it as one file")
    pixels = next((e for e in root.iter() if e.tag.endswith("}Pixels")), None)
    if pixels is None:
        return [], {}
    steps = {axis: _step(pixels, f"PhysicalSize{axis.upper()}", "µm", _LENGTHS) for axis in "xyz"}
    steps["t"] = _step(pixels, "TimeIncrement", "s", _TIMES) or _frames(pixels)
    names = [str(e.get("Name", "")) for e in pixels if e.tag.endswith("}Channel")]
    return names, {axis: step for axis, step in steps.items() if step}


def _step(pixels: ElementTree.Element, name: str, unit: str, factors: Mapping[str, float]) -> float:
    """A step of OME in our units; zero where it is not stated."""
    try:
        return float(pixels.get(name, "0")) * factors.get(pixels.get(f"{name}Unit", unit), 0.0)
    except ValueError:
        return 0.0


def _frames(pixels: ElementTree.Element) -> float:
    """The mean step between the times of the images; zero where they are not stated."""
    planes = [e for e in pixels if e.tag.endswith("}Plane") and e.get("DeltaT") is not None]
    found = {int(e.get("TheT", "0")): _step(e, "DeltaT", "s", _TIMES) for e in planes}
    first, last = min(found, default=0), max(found, default=0)
    return (found[last] - found[first]) / (last - first) if last > first else 0.0
