"""TIFF stacks: one file with many pages, or one file per time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.microscopy import image_arrays, ome_metadata
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, needed
from bvsi.errors import DataError

IMAGE = "image"
"""Name of the one array of a stack."""


@contextmanager
def open_tiff(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """A stack as one array without names: pages first, then rows and columns; it is read page by page."""
    del reading
    tifffile: Any = needed("tifffile")
    with _complaints() as errors, ExitStack() as files:
        opened = [files.enter_context(tifffile.TiffFile(path)) for path in paths]
        told = [ome_metadata(path, file.ome_metadata) for path, file in zip(paths, opened, strict=True) if file.is_ome]
        series = [_series(path, file) for path, file in zip(paths, opened, strict=True)]
        array = _stack(paths, series)
        named = len(paths) == 1 and told and set(series[0].axes) <= set("TCZYX")
        arrays = _labelled(array, series[0], *told[0]) if named else {IMAGE: array}
        if errors:
            raise DataError(f"{paths[0]}: cannot be read as TIFF ({errors[0]}); it may be damaged or incomplete")
        yield DataSource(paths[0], "TIFF", arrays)


def _labelled(array: Array, series: Any, channels: list[str], steps: dict[str, float]) -> dict[str, Array]:
    """The channels of an OME-TIFF with names of axes and coordinates; images are read one by one where they can be."""
    dims, lead = tuple(series.axes.lower()), tuple(series.shape[:-2])
    load, chunks, whole = array.load, array.chunks, array.whole
    if dims[-2:] == ("y", "x") and len(series.pages) == np.prod(lead, dtype=int):
        load, chunks, whole = partial(_load_images, series, lead), (*[1] * len(lead), *series.shape[-2:]), False
    return image_arrays(dims, array.shape, array.dtype, load, channels, steps, chunks, whole=whole)


def _load_images(series: Any, lead: tuple[int, ...], key: Key) -> NDArray[Any]:
    """A part of images (*lead, y, x) that are pages in this order."""
    wanted = np.arange(np.prod(lead, dtype=int)).reshape(lead)[key[:-2]]
    values = [series.pages[int(number)].asarray()[key[-2:]] for number in wanted.ravel()]
    return np.stack(values).reshape(*wanted.shape, *values[0].shape)


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Errors that tifffile logs, such as pages that are cut off, in place of showing them."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                found.append(" ".join(record.getMessage().split()))

    logger, collector = logging.getLogger("tifffile"), Collector()
    before = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.removeHandler(collector)
        logger.propagate = before


def _series(path: Path, file: Any) -> Any:
    if not file.series:
        raise DataError(f"{path}: the file has no image")
    return file.series[0]


def _stack(paths: tuple[Path, ...], series: list[Any]) -> Array:
    """The pages of one file, or the images of several on a new first axis."""
    first = series[0]
    for path, other in zip(paths, series, strict=True):
        if other.shape != first.shape or other.dtype != first.dtype:
            raise DataError(
                f"{path}: image of shape {other.shape} and type {other.dtype}, the first has {first.shape} and "
                f"{first.dtype}; give images of one size"
            )
    dtype = np.dtype(first.dtype)
    if len(series) > 1:
        return Array(IMAGE, None, (len(series), *first.shape), dtype, partial(_load_files, series))
    frame = tuple(first.keyframe.shape)
    first.parent.pages[-1]  # the table of pages is read to its end, which shows whether it is whole
    pages = first.shape[0] if first.shape[1:] == frame and len(first.pages) == first.shape[0] else 0
    load = partial(_load_pages, first) if pages else partial(_load_whole, first)
    return Array(IMAGE, None, tuple(first.shape), dtype, load, chunks=(1, *frame) if pages else None, whole=not pages)


def _load_files(series: list[Any], key: Key) -> NDArray[Any]:
    return np.stack([item.asarray()[key[1:]] for item in series[key[0]]])


def _load_pages(series: Any, key: Key) -> NDArray[Any]:
    numbers = range(*key[0].indices(series.shape[0]))
    return np.stack([series.pages[number].asarray()[key[1:]] for number in numbers])


def _load_whole(series: Any, key: Key) -> NDArray[Any]:
    return np.asarray(series.asarray()[key])
