"""CSV long tables: one row per sensor and time, with columns time, x, y, z and the fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.csv_columns import Header, header_of, is_entry, numbers, rows_of
from bvsi.app.readers.guess import MOST_FIELDS
from bvsi.app.readers.mesh_file import read_mesh
from bvsi.app.readers.names import file_names, time_name
from bvsi.app.readers.points import lattice, triangulated
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, in_memory
from bvsi.data import COORDINATE_NAMES, Mesh
from bvsi.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sensors measured at less than this share of the times were not fixed.
_FIXED = 0.5
# Sensors closer than this fraction of the extent of the mesh to a node are at the node.
_NEAR = 1e-5


@dataclass(frozen=True)
class _Sensors:
    """Which sensor and time each row belongs to.

    Attributes
    ----------
    times
        Distinct times, (T,).
    points
        Distinct positions, (S, dim).
    rows
        Number of each row in the table (T, S), flattened.
    """

    times: Floats
    points: Floats
    rows: Integers

    @property
    def shape(self) -> tuple[int, int]:
        """Times and sensors."""
        return self.times.size, len(self.points)


def table_contents(paths: tuple[Path, ...]) -> DataSource:
    """The columns of a table, without their values."""
    header = header_of(paths[0])
    with paths[0].open("rb") as stream:
        rows = sum(1 for line in stream if line.strip()) - header.lines
    arrays = {name: Array(name, ("row",), (rows,), np.dtype(np.float64), _unread) for name in header.columns}
    return DataSource(paths[0], "CSV", arrays, {}, header.notes)


def _unread(key: Key) -> NDArray[Any]:
    raise DataError(f"a column has no values before its table is opened (asked for {key})")


@contextmanager
def open_table(paths: tuple[Path, ...], reading: Reading) -> Iterator[DataSource]:
    """Arrays over time and the axes of the grid that the sensors form, else over time and the nodes of a mesh."""
    path, header = paths[0], header_of(paths[0])
    time = time_name(reading.time, header.columns, "column")
    axes = _axis_columns(header, reading)
    wanted = _value_columns(path, header, reading, (time, *axes))
    columns = numbers(path, header, (time, *axes, *wanted), time)
    sensors = _sensors(path, columns[time], np.stack([columns[name] for name in axes], axis=1), reading)
    known = file_names("auxiliary", reading.auxiliary) or {}
    tables = {name: _table(columns[name], sensors) for name in wanted}
    static = {name: _constant(tables[name]) for name in known.values() if name in tables}
    source = _placed(path, sensors, time, axes, tables, {n: v for n, v in static.items() if v is not None}, reading)
    yield replace(source, notes=(*header.notes, *source.notes))


def _axis_columns(header: Header, reading: Reading) -> tuple[str, ...]:
    """Columns that hold positions, in the order x, y, z."""
    absent = [name for name in reading.axes if name not in header.columns]
    if absent:
        raise DataError(f"axes: there is no column {absent[0]!r}; the table has {', '.join(header.columns)}")
    column_of = {axis: name for name, axis in reading.axes.items()}
    column_of |= {name: name for name in COORDINATE_NAMES if name in header.columns and name not in reading.axes}
    if not column_of or any(axis not in COORDINATE_NAMES for axis in column_of):
        raise DataError(
            f"axes: no column is called x, y or z (the table has {', '.join(header.columns)}); "
            f'write axes = {{ {header.columns[-1]} = "x" }} for a column with positions'
        )
    return tuple(column_of[axis] for axis in COORDINATE_NAMES if axis in column_of)


def _value_columns(path: Path, header: Header, reading: Reading, used: Sequence[str]) -> tuple[str, ...]:
    """Columns with values: those that are named, else all further ones that start with a number or an empty cell."""
    fields = file_names("fields", reading.fields)
    known = file_names("auxiliary", reading.auxiliary) or {}
    for argument, names in (("fields", fields or {}), ("auxiliary", known)):
        absent = [name for name in names.values() if name not in header.columns]
        if absent:
            raise DataError(f"{argument}: no column {absent[0]!r}; the table has {', '.join(header.columns)}")
    if fields is None:
        first = next(rows_of(path, header), (0, [""] * len(header.columns)))[1]
        others = [n for n in header.columns if n not in used and n not in known.values()]
        cells = dict(zip(header.columns, first, strict=False))
        fields = {n: n for n in others if not cells.get(n, "").strip() or is_entry(cells[n])}
    if len(fields) > MOST_FIELDS and reading.fields is None:
        raise DataError(f"fields: {len(fields)} columns could be fields; name those of interest in fields")
    if not fields:
        raise DataError(f"fields: the table has no columns of numbers but {', '.join(used)}; add one per field")
    return tuple(dict.fromkeys((*fields.values(), *known.values())))


def _sensors(path: Path, time: Floats, points: Floats, reading: Reading) -> _Sensors:
    """Times and positions of a table of fixed sensors, each at most once at each time."""
    if not (np.isfinite(time).all() and np.isfinite(points).all()):
        raise DataError(f"{path}: some times or positions are empty or not finite; every row needs both")
    times, when = np.unique(time, return_inverse=True)
    places, where = np.unique(points, axis=0, return_inverse=True)
    where = where.reshape(-1)
    n_cells = times.size * len(places)
    if len(time) < _FIXED * n_cells:
        raise DataError(
            f"{path}: {len(places)} positions at {times.size} times in only {len(time)} rows: the sensors move or "
            "differ from time to time; interpolate the data to fixed positions first"
        )
    rows = when * len(places) + where
    ordered = np.argsort(rows, kind="stable")
    repeated = np.flatnonzero(np.diff(rows[ordered]) == 0)
    if repeated.size:
        a, b = ordered[repeated[0]], ordered[repeated[0] + 1]
        raise DataError(f"{path}: rows {a + 1} and {b + 1} have the same time and position; drop one of them")
    if len(time) < n_cells and reading.missing is None:
        lacking = int(np.setdiff1d(np.arange(n_cells), rows)[0])
        place = ", ".join(f"{v:g}" for v in places[lacking % len(places)])
        raise DataError(
            f"{path}: {n_cells - len(time)} rows are missing, the first at time {times[lacking // len(places)]:g} and "
            f'position ({place}); add them, or write missing = "nan"'
        )
    return _Sensors(times, places, rows.astype(np.int64))


def _table(column: Floats, sensors: _Sensors) -> Floats:
    """A column as (T, S), NaN where there is no row."""
    table = np.full(sensors.shape, np.nan)
    table.reshape(-1)[sensors.rows] = column
    return table


def _constant(table: Floats) -> Floats | None:
    """Values (S,) of a column that does not depend on time, where it does not."""
    finite = np.isfinite(table)
    first = table[finite.argmax(axis=0), np.arange(table.shape[1])]
    return (
        first
        if finite.any(axis=0).all() and np.all(table[finite] == np.broadcast_to(first, table.shape)[finite])
        else None
    )


def _placed(
    path: Path,
    sensors: _Sensors,
    time: str,
    axes: tuple[str, ...],
    tables: dict[str, Floats],
    static: dict[str, Floats],
    reading: Reading,
) -> DataSource:
    """The tables on a grid, or on the nodes of a mesh; a mesh that is given comes first."""
    grid = None if reading.mesh is not None else lattice(sensors.points)
    mesh: Mesh | None = None
    if grid is not None:
        order, space, shape = grid.order, axes, grid.shape
    elif reading.mesh is None and sensors.points.shape[1] > 1:
        mesh = triangulated(sensors.points)
        order, space, shape = np.arange(mesh.n_nodes), ("node",), (mesh.n_nodes,)
    elif reading.mesh is None:
        raise DataError(f"{path}: there is one position only; at least 2 are needed")
    else:
        mesh = read_mesh(reading.mesh).mesh
        order, space, shape = _matched(sensors.points, mesh), ("node",), (mesh.n_nodes,)
    arrays = {}
    for name, table in tables.items():
        values = static.get(name, table)[..., order]
        dims = (*((time,) if values.ndim == 2 else ()), *space)
        arrays[name] = in_memory(name, dims, values.reshape(*values.shape[:-1], *shape))
    arrays[time] = in_memory(time, (time,), sensors.times)
    if grid is not None:
        arrays |= {name: in_memory(name, (name,), axis) for name, axis in zip(axes, grid.axes, strict=True)}
    made = mesh is not None and reading.mesh is None
    notes = (f"a mesh was laid through the {len(sensors.points)} sensors (Delaunay)",) if made else ()
    return DataSource(path, "CSV", arrays, {}, notes, mesh)


def _matched(points: Floats, mesh: Mesh) -> Integers:
    """Sensor at each node of a mesh, (n_nodes,)."""
    from scipy.spatial import cKDTree

    if points.shape[1] != mesh.dim or len(points) != mesh.n_nodes:
        raise DataError(
            f"mesh: it has {mesh.n_nodes} nodes in {mesh.dim}D, the table {len(points)} positions in "
            f"{points.shape[1]}D; give the mesh whose nodes are the sensors"
        )
    distance, sensor = cKDTree(points).query(mesh.points)
    far = np.flatnonzero(distance > _NEAR * np.ptp(mesh.points, axis=0).max())
    if far.size or np.unique(sensor).size != len(sensor):
        raise DataError(
            f"mesh: {max(far.size, 1)} of its nodes have no sensor of their own; give the mesh of the sensors"
        )
    return np.asarray(sensor, dtype=np.int64)
