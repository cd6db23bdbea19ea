"""Values of the fields, read in slabs of time and coarsened on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile, gettempdir
from typing import IO

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.layout import ArrayLayout
from bvsi.app.readers.oversampling import candidates, halvings
from bvsi.app.readers.reduction import coarse_coordinates, halve, halve_blocks
from bvsi.app.readers.source import Array, readable
from bvsi.common.progress import Progress
from bvsi.data import Grid
from bvsi.data._arrays import real_array
from bvsi.data._given import check_fill
from bvsi.errors import DataError

Floats = NDArray[np.float64]

# Share of the memory allowed that one slab of all fields may take: filtering needs a few copies of it.
_SLAB = 1 / 24
# Fields this many times larger than the memory allowed would take days to read.
_ABSURD = 1e5
# Share of the free space that whole fields may take.
_ROOM = 0.8
_EVERYTHING = slice(None)


def plan(layout: ArrayLayout, grid: Grid | None, max_memory: float, path: Path, *, keep_ends: bool) -> tuple[int, ...]:
    """How often time and each space axis are halved so that the fields fit into memory; all zero where they do.

    Parameters
    ----------
    grid
        The full grid; None for meshes.
    """
    per_point, total = 8.0 * len(layout.moving), stored_size(layout)
    if total <= max_memory:
        return (0,) * len(layout.axes)
    if total > _ABSURD * max_memory:
        raise DataError(
            f"max_memory: the fields take {total / 1e9:.3g} GB by their shape, more than {_ABSURD:g} times what is "
            "allowed; the file may be damaged, else take a part with select, or raise max_memory"
        )
    if grid is None:
        raise DataError(
            f"max_memory: the fields take {total / 1e9:.3g} GB, more than {max_memory / 1e9:.3g} GB, and data on "
            "meshes are not coarsened; take fewer times with select, or raise max_memory"
        )
    sample = partial(_sample, layout, path)
    found = candidates(layout.axes, grid.periods, tuple(layout.moving), sample, keep_ends=keep_ends)
    return halvings(found, per_point, max_memory)


def stored_size(layout: ArrayLayout) -> float:
    """Bytes of all fields over time as float64."""
    return 8.0 * len(layout.moving) * float(np.prod([axis.size for axis in layout.axes], dtype=float))


def coarse_axes(layout: ArrayLayout, grid: Grid | None, levels: tuple[int, ...]) -> tuple[Floats, Grid | None]:
    """Times and grid after some halvings."""
    coordinates = []
    for axis, count in zip(layout.axes, levels, strict=True):
        values = axis.values if axis.values is not None else np.arange(axis.size, dtype=np.float64)
        for _ in range(count):
            values = coarse_coordinates(values, _wraps(grid, axis.name))
        coordinates.append(values)
    if grid is None:
        return coordinates[0], None
    named = dict(zip(grid.names, coordinates[1:], strict=True))
    return coordinates[0], grid.on(named)


def read_moving(
    layout: ArrayLayout,
    grid: Grid | None,
    levels: tuple[int, ...],
    n_times: int,
    slab: int,
    path: Path,
    progress: Progress,
    *,
    in_file: bool = False,
) -> dict[str, Floats]:
    """Fields and known fields over time, each (n_times, n_nodes), in slabs of ``slab`` times of the file.

    Parameters
    ----------
    in_file
        Whether they are kept in temporary files, mapped read-only.
    """
    names = tuple(layout.moving)
    streams = [_stream(layout, grid, levels, layout.moving[name], slab, path) for name in names]
    total = layout.time.size
    with ExitStack() as stack:
        kept = {name: _Rows(n_times, stack.enter_context(TemporaryFile()) if in_file else None) for name in names}
        for number, blocks in enumerate(zip(*streams, strict=True)):
            for name, block in zip(names, blocks, strict=True):
                kept[name].add(block.reshape(len(block), -1))
            progress(min((number + 1) * slab, total), total, f"reading {path.name}")
        return {name: rows.values() for name, rows in kept.items()}


class _Rows:
    """Rows (n_times, n_nodes) that come in blocks, in memory or in a file."""

    def __init__(self, n_times: int, file: IO[bytes] | None) -> None:
        self.n_times, self.file, self.filled = n_times, file, 0
        self.nodes, self.array = 0, np.zeros((0, 0))

    def add(self, block: Floats) -> None:
        """Further rows."""
        self.nodes = block.shape[1]
        if self.file is not None:
            self.file.write(np.ascontiguousarray(block).data)
        else:
            self.array = self.array if self.filled else np.empty((self.n_times, self.nodes))
            self.array[self.filled : self.filled + len(block)] = block
        self.filled += len(block)

    def values(self) -> Floats:
        """All rows."""
        if self.file is None:
            self.array.setflags(write=False)  # so that no copy is made
            return self.array
        self.file.flush()
        return np.memmap(self.file, dtype=np.float64, mode="r", shape=(self.n_times, self.nodes))


def check_room(layout: ArrayLayout) -> None:
    """Refuse fields for which there is no room in the folder of temporary files."""
    total = stored_size(layout)
    free = disk_usage(gettempdir()).free
    if total > _ROOM * free:
        raise DataError(
            f"coarsen: the whole fields take {total / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free in {gettempdir()}; "
            "set TMPDIR to another folder, take a part with select, or let them be coarsened"
        )


def read_static(layout: ArrayLayout, grid: Grid | None, levels: tuple[int, ...], path: Path) -> dict[str, Floats]:
    """Known fields without time, each (n_nodes,)."""
    static = {name: array for name, array in layout.auxiliary.items() if name not in layout.moving}
    found = {}
    for name, array in static.items():
        values = _block(layout, array, {}, path)
        found[name] = _space_halved(values, grid, levels, first=0).reshape(-1)
    return found


def slab_length(layout: ArrayLayout, max_memory: float, frames: int | None) -> int:
    """Times read at once: whole chunks of the file where they fit into a small part of the memory."""
    if frames is not None:
        return frames
    per_time = 8.0 * len(layout.moving) * float(np.prod([axis.size for axis in layout.space], dtype=float))
    length = max(1, int(_SLAB * max_memory / max(per_time, 1.0)))
    chunk = max((_time_chunk(array, layout.time.dim) for array in layout.moving.values()), default=1)
    if length >= chunk:
        return min(length // chunk * chunk, layout.time.size)
    # A chunk that is read in pieces is unpacked once per piece; a larger slab is better than that.
    return min(chunk if chunk <= 6 * length else length, layout.time.size)


def _time_chunk(array: Array, time: str) -> int:
    return 1 if array.chunks is None or array.dims is None else int(array.chunks[array.dims.index(time)])


def _stream(
    layout: ArrayLayout, grid: Grid | None, levels: tuple[int, ...], array: Array, slab: int, path: Path
) -> Iterator[Floats]:
    """Blocks (times, *space) of one array, halved along space, then along time."""
    blocks: Iterator[Floats] = (
        _space_halved(_block(layout, array, {"time": slice(k, k + slab)}, path), grid, levels, first=1)
        for k in range(0, layout.time.size, slab)
    )
    for _ in range(levels[0]):
        blocks = halve_blocks(blocks)
    return blocks


def _space_halved(values: Floats, grid: Grid | None, levels: tuple[int, ...], first: int) -> Floats:
    """Values with each space axis halved as often as planned; ``first`` is the axis of x."""
    if grid is None:
        return values
    for number, (name, count) in enumerate(zip(grid.names, levels[1:], strict=True)):
        for _ in range(count):
            values = halve(values, first + number, name in grid.periods)
    return values


def _wraps(grid: Grid | None, name: str) -> bool:
    return grid is not None and name in grid.periods


def _sample(layout: ArrayLayout, path: Path, name: str, cut: Mapping[str, slice]) -> Floats:
    return _block(layout, layout.moving[name], cut, path)


def _block(layout: ArrayLayout, array: Array, cut: Mapping[str, slice], path: Path) -> Floats:
    """Part of an array in the order time, x, y, z, with increasing coordinates.

    Parameters
    ----------
    cut
        Slice by axis name, within what is selected and in increasing order; axes left out are read whole.
    """
    dims = array.dims or ()
    axes = [axis for axis in layout.axes if axis.dim in dims]
    lacking = [axis.dim for axis in layout.space if axis.dim not in dims]
    extra = [dim for dim in dims if dim not in {axis.dim for axis in axes}]
    if lacking or extra:
        wrong = f"lacks the dimension {lacking[0]!r}" if lacking else f"has the dimension {extra[0]!r} more"
        raise DataError(f"{array.name!r} {wrong} than the fields; leave it out")
    if len(axes) < len(dims):
        raise DataError(f"{array.name!r} has a dimension twice ({', '.join(dims)}); name each once in the file")
    windows = {axis.dim: _window(axis.start, axis.size, cut.get(axis.name, _EVERYTHING), axis.flipped) for axis in axes}
    with readable(path, "numbers"):
        values = array.load(tuple(windows[dim] for dim in dims))
    values = values.transpose([dims.index(axis.dim) for axis in axes])
    turn: Callable[[bool], slice] = lambda flipped: slice(None, None, -1) if flipped else _EVERYTHING  # noqa: E731
    values = values[tuple(turn(axis.flipped) for axis in axes)]
    if layout.nodes is not None:
        values = values[..., layout.nodes]
    try:
        numbers = real_array(values, f"field {array.name!r}")
        check_fill(numbers, f"{path}: field {array.name!r}")  # before any filter spreads it
        return numbers
    except DataError as error:
        if values.dtype.kind != "c":
            raise
        raise DataError(
            f"{array.name!r} is complex with a non-zero imaginary part; name a part of it, "
            f'such as fields = {{ u = "real({array.name})" }}'
        ) from error


def _window(start: int, size: int, part: slice, flipped: bool) -> slice:
    """Slice in the file of a part of the entries start … start + size − 1, counted in increasing coordinates."""
    first, stop, step = part.indices(size)
    if not flipped:
        return slice(start + first, start + stop, step)
    chosen = range(first, stop, step)
    return slice(start + size - 1 - chosen[-1], start + size - first, step)
