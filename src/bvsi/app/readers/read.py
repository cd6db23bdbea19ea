"""From a path to data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.guess import suggestion, table_suggestion, unit_of
from bvsi.app.readers.layout import ArrayLayout, require_numbers, resolve
from bvsi.app.readers.names import file_names
from bvsi.app.readers.reading import Contents, Reading, Variable
from bvsi.app.readers.registry import files_of, format_of, opened
from bvsi.app.readers.slabs import check_room, coarse_axes, plan, read_moving, read_static, slab_length, stored_size
from bvsi.app.readers.source import DataSource, readable
from bvsi.app.readers.table import series_fields
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.errors import DataError

Floats = NDArray[np.float64]

# Squares of larger numbers may overflow; they stand for damage, or for undeclared fill values.
_LARGEST = 1e100
# Bytes of float64 per byte of a file. Noise is hardly compressed; integers of one byte count eight times.
_MOST_COMPRESSED = 300


def read(path: Path | str, reading: Reading | None = None, *, progress: Progress = silent) -> Data:
    """Data from a file; see :func:`read_with_notes`."""
    return read_with_notes(path, reading, progress)[0]


def read_with_notes(
    path: Path | str, reading: Reading | None = None, progress: Progress = silent
) -> tuple[Data, tuple[str, ...]]:
    """Data from a file, and in words what was changed on the way: turned round, left out, coarsened.

    Fields on grids that would take more than ``reading.max_memory`` bytes are read in slabs and halved along the axes
    that are sampled more densely than the signal needs, or with ``reading.coarsen = False`` kept whole in a file.

    Parameters
    ----------
    path
        A file, a Zarr folder, or a pattern such as ``run_*.vtu``.
    reading
        What to take; the file's own names when left out.
    """
    chosen = Reading() if reading is None else reading
    _check(chosen)
    with opened(Path(path), chosen) as source:
        with readable(source.path, source.format):
            layout = resolve(source, chosen)
        _check_stored(source.path, layout, chosen.max_memory)
        grid = _grid(layout)
        whole = not chosen.coarsen and stored_size(layout) > chosen.max_memory
        if whole:
            check_room(layout)
            levels: tuple[int, ...] = (0,) * len(layout.axes)
        else:
            levels = plan(layout, grid, chosen.max_memory, source.path, keep_ends=chosen.keep_ends)
        times, coarse = coarse_axes(layout, grid, levels)
        slab = slab_length(layout, chosen.max_memory, source.frames)
        moving = read_moving(layout, grid, levels, times.size, slab, source.path, progress, in_file=whole)
        static = read_static(layout, grid, levels, source.path)
    for name, values in {**moving, **static}.items():
        _check_size(source.path, name, values)
    return _data(layout, coarse, times, moving, static), (*layout.notes, *_reduction_note(layout, grid, coarse, times))


def contents(path: Path | str, reading: Reading | None = None) -> Contents:
    """What a file holds: names, axes, shapes and types, without the values.

    Parameters
    ----------
    reading
        Whose ``max_memory`` and ``allow_outside`` hold.
    """
    place, limits = Path(path), reading or Reading()
    kind = format_of(place)
    if kind.columns is not None:
        with readable(place, kind.name):
            return _listed(place, kind.columns(files_of(place), limits))
    with opened(place, limits) as source:
        return _listed(place, source)


def suggest(path: Path | str, reading: Reading | None = None) -> Reading:
    """Best guess of what to read, from the names and lengths in a file; the user should confirm it.

    Parameters
    ----------
    reading
        Whose ``max_memory`` and ``allow_outside`` hold, here and in the guess, and whose ``dims``, if any, are taken.
    """
    place, limits = Path(path), reading or Reading()
    if format_of(place).columns is not None:
        listed = contents(place, limits).variables
        guess = _without_labels(place, [variable.name for variable in listed])
        csv = format_of(place).name == "CSV"
        if csv and guess.fields is None and (fields := series_fields(place, guess)):
            guess = replace(guess, fields=fields, axes={})
    else:
        with opened(place, limits) as source, readable(place, source.format):
            require_numbers(source)
            guess = suggestion(source, None if limits.dims is None else tuple(limits.dims))
    return replace(guess, max_memory=limits.max_memory, allow_outside=limits.allow_outside, guarded=limits.guarded)


def _without_labels(path: Path, columns: Sequence[str]) -> Reading:
    """The guess for a table, without columns of text, of numbers of sensors or of rows where it names the fields."""
    guess = table_suggestion(columns)
    named = file_names("fields", guess.fields)
    if named is None:
        return guess
    try:
        with opened(path, replace(guess, fields=None)) as source:
            gone = {column for column in named.values() if column not in source.arrays}
    except DataError:  # what is wrong with the table is reported when it is read
        return guess
    left = [column for column in columns if column not in gone]
    return table_suggestion(left) if len(gone) < len(named) else guess


def _check(reading: Reading) -> None:
    """Refuse a choice that no file can fulfil."""
    if reading.missing not in (None, "nan"):
        raise DataError(f'missing is {reading.missing!r}; write "nan" where NaN means not measured, or leave it out')
    if not reading.max_memory > 0:
        raise DataError(f"max_memory is {reading.max_memory!r}; give a positive number of bytes")


def _check_size(path: Path, name: str, values: Floats) -> None:
    """Refuse finite numbers with which nothing can be computed."""
    parts = (values[rows] for rows in slabs(values)) if values.size else ()
    ends = [max(np.fmax.reduce(some, axis=None), -np.fmin.reduce(some, axis=None)) for some in parts]
    largest = np.fmax.reduce(ends) if ends else 0.0
    if np.isfinite(largest) and largest > _LARGEST:
        raise DataError(
            f"{path}: field {name!r} reaches {largest:.3g}; the file may be damaged, or fill values mark what was "
            'not measured: write NaN there, and missing = "nan"'
        )


def _check_stored(path: Path, layout: ArrayLayout, max_memory: float) -> None:
    """Refuse fields that are large by their shape but hardly stored: measured values are never compressed so far."""
    total = stored_size(layout)
    if total <= max_memory:
        return
    files = path.rglob("*") if path.is_dir() else (path,)
    stored = sum(file.stat().st_size for file in files if file.is_file())
    if total > _MOST_COMPRESSED * stored:
        raise DataError(
            f"{path}: the fields take {total / 1e9:.3g} GB by their shape, but only {stored / 1e6:.3g} MB are stored: "
            "most of it was never written, or it is damaged; take the part with values by select"
        )


def _listed(path: Path, source: DataSource) -> Contents:
    variables = tuple(
        Variable(a.name, a.dims, tuple(a.shape), str(a.dtype), unit_of(a)) for a in source.arrays.values()
    )
    return Contents(path, source.format, variables, dict(source.attributes), source.notes)


def _grid(layout: ArrayLayout) -> Grid | None:
    """The full grid; None for meshes."""
    if layout.mesh is not None:
        return None
    axes = {axis.name: axis.values for axis in layout.space if axis.values is not None}
    return Grid(periodic=layout.periodic, coordinates=layout.system, **axes)


def _data(
    layout: ArrayLayout, grid: Grid | None, times: Floats, moving: dict[str, Floats], static: dict[str, Floats]
) -> Data:
    fields = {name: moving[name] for name in layout.fields}
    known = {name: moving[name] if name in moving else static[name] for name in layout.auxiliary}
    geometry = grid if grid is not None else layout.mesh
    if geometry is None:
        raise DataError("the file has neither a grid nor a mesh; name the axes with dims")
    return Data(times, fields, geometry, known, {name: ~np.isnan(fields[name]) for name in layout.gaps} or None)


def _range(name: str, coarse: Grid, times: Floats) -> str:
    """Where an axis that does not wrap begins and ends now."""
    if name in coarse.periods:
        return ""
    axis = coarse.axes.get(name, times)
    return f" in [{axis[0]:.4g}, {axis[-1]:.4g}]"


def _reduction_note(layout: ArrayLayout, grid: Grid | None, coarse: Grid | None, times: Floats) -> tuple[str, ...]:
    """What was coarsened, in words."""
    if grid is None or coarse is None:
        return ()
    before = (layout.time.size, *grid.shape)
    after = (times.size, *coarse.shape)
    if before == after:
        return ()
    sizes = zip(("time", *grid.names), before, after, strict=True)
    changes = [f"{name} from {n} to {m}{_range(name, coarse, times)}" for name, n, m in sizes if n != m]
    halved = sum(round(np.log2(n / m)) for n, m in zip(before, after, strict=True))
    return (
        f"the fields are sampled more densely than they need and were coarsened by a low-pass filter: "
        f"{', '.join(changes)} points; white noise is smaller by about 2^{halved / 2:g} and still white",
    )
