"""CSV long tables: one row per sensor and time, with columns time, x, y, z and the fields; or one row per time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from bvsi.app.readers.points import lattice
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key, in_memory
from bvsi.data import COORDINATE_NAMES, Mesh
from bvsi.data.scattered import count_holes, mesh_through
from bvsi.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sensors measured at less than this share of the times were not fixed.
_FIXED = 0.5
_TRAJECTORIES = 'several trajectories go into several files: files = ["a", "b"]'
# Sensors closer than this fraction of the extent of the mesh to a node are at the node.
_NEAR = 1e-5
_COUNTS = "counts the rows"
# Rows from which on whole numbers without a gap, in any order, count them; fewer may be counts of something else.
_SHUFFLED = 10
# Share of the sensors that lies inside a domain that is meant for them; not measured.
_INSIDE = 0.5


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


def table_contents(paths: tuple[Path, ...], reading: Reading) -> DataSource:
    """The columns of a table, without their values."""
    del reading
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
    if _is_series(path, header, reading, time):
        yield _series(path, header, reading, time)
        return
    axes = _axis_columns(header, reading)
    wanted = _value_columns(path, header, reading, (time, *axes))
    columns = numbers(path, header, (time, *axes, *wanted), time)
    sensors = _sensors(path, columns[time], np.stack([columns[name] for name in axes], axis=1), reading)
    known = file_names("auxiliary", reading.auxiliary) or {}
    tables = {name: _table(columns[name], sensors) for name in wanted}
    free = {n: t for n, t in tables.items() if reading.fields is None and n not in known.values()}
    labels = {n: "numbers the sensors" for n, t in free.items() if _is_label(t)}
    labels |= {n: "numbers the frames" for n, t in free.items() if _is_label(t.T)}
    labels |= {n: _COUNTS for n in free if _counts_rows(columns[n])}
    labels = labels if len(labels) < len(tables) else {}
    tables = {name: table for name, table in tables.items() if name not in labels}
    static = {name: _constant(tables[name]) for name in known.values() if name in tables}
    source = _placed(path, sensors, time, axes, tables, {n: v for n, v in static.items() if v is not None}, reading)
    yield replace(source, notes=(*header.notes, *_left_out(labels), *source.notes))


def _is_series(path: Path, header: Header, reading: Reading, time: str) -> bool:
    """Whether a table has no positions: nothing but x, y, z, each time once, or none of them, or one named as a field.

    With other columns beside x, y, z a row per time may as well be a sensor that moves.
    """
    if reading.axes or reading.mesh is not None:
        return False
    places = [name for name in COORDINATE_NAMES if name in header.columns]
    if not places or set(places) & set((file_names("fields", reading.fields) or {}).values()):
        return True
    if len(header.columns) > len(places) + 1:
        return False
    columns = numbers(path, header, (time, *places), time)
    once = np.unique(columns[time]).size == columns[time].size
    return once and all(np.unique(columns[name]).size > 1 for name in places)


def series_fields(path: Path, reading: Reading) -> tuple[str, ...]:
    """Columns that are fields if a table whose times have one row each, with positions among them, is a series."""
    try:
        header = header_of(path)
        time = time_name(reading.time, header.columns, "column")
        places = [name for name in (*reading.axes, *COORDINATE_NAMES) if name in header.columns]
        if not places:
            return ()
        columns = numbers(path, header, (time, *places), time)
        once = np.unique(columns[time]).size == columns[time].size > 1
        moving = all(np.unique(columns[name]).size > 1 for name in places)
        if not (once and moving):
            return ()
        wanted = _value_columns(path, header, reading, (time,))
        counting = _counting(numbers(path, header, (time, *wanted), time), wanted, reading)
        return tuple(name for name in wanted if name not in counting)
    except DataError:  # what is wrong with the table is reported when it is read
        return ()


def _series(path: Path, header: Header, reading: Reading, time: str) -> DataSource:
    """Columns over the times, sorted."""
    wanted = _value_columns(path, header, reading, (time,))
    columns = numbers(path, header, (time, *wanted), time)
    if not np.isfinite(columns[time]).all():
        raise DataError(f"{path}: some times are empty or not finite; every row needs one")
    counting = _counting(columns, wanted, reading)
    wanted = tuple(name for name in wanted if name not in counting)
    order = np.argsort(columns[time], kind="stable")
    repeated = np.flatnonzero(np.diff(columns[time][order]) == 0)
    if repeated.size:
        a, b = order[repeated[0]], order[repeated[0] + 1]
        raise DataError(
            f"{path}: rows {a + 1} and {b + 1} have the same time; a table without positions has one row per time: "
            f'drop one of them, or write axes = {{ "{header.columns[-1]}" = "x" }} for a column with positions; '
            f"{_TRAJECTORIES}"
        )
    arrays = {name: in_memory(name, (time,), columns[name][order]) for name in (time, *wanted)}
    places = [name for name in COORDINATE_NAMES if name in wanted]
    verb = "is" if len(places) == 1 else "are"
    notes = (f"every time has one row: {', '.join(places)} {verb} not a position but a series",) if places else ()
    return DataSource(path, "CSV", arrays, {}, (*header.notes, *_left_out(counting), *notes))


def _counting(columns: Mapping[str, Floats], wanted: Sequence[str], reading: Reading) -> dict[str, str]:
    """Columns of a series that count its rows, where fields are not named and others are left."""
    known = (file_names("auxiliary", reading.auxiliary) or {}).values()
    free = [name for name in wanted if reading.fields is None and name not in known]
    found = {name: _COUNTS for name in free if _counts_rows(columns[name])}
    return found if len(found) < len(wanted) else {}


def _left_out(labels: Mapping[str, str]) -> tuple[str, ...]:
    """What was taken for no field, in words."""
    named = {name: f"column {name!r}" if name else "the column without a name" for name in labels}
    return tuple(f"{named[name]} {what} and is not a field" for name, what in labels.items())


def _counts_rows(column: Floats) -> bool:
    """Whether a column holds whole numbers, one more from row to row, or so before the rows came in another order."""
    ordered = np.sort(column) if len(column) >= _SHUFFLED else column
    return len(column) > 2 and bool(np.all(ordered == np.round(ordered)) and np.all(np.diff(ordered) == 1))


def _is_label(table: Floats) -> bool:
    """Whether a table (times, sensors) holds one whole number per sensor, a different one for each; or transposed."""
    fixed = _constant(table)
    return (
        fixed is not None
        and len(table) > 1
        and np.unique(fixed).size == fixed.size
        and bool(np.all(fixed == np.round(fixed)))
    )


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
            f'write axes = {{ "{header.columns[-1]}" = "x" }} for a column with positions'
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
            "differ from time to time; interpolate the data to fixed positions first, or name all columns in fields, x "
            f"among them, if they are series; {_TRAJECTORIES}"
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
    told: Mesh | None = None if reading.mesh is None else read_mesh(reading.mesh).mesh
    domain = reading.domain if told is None else told
    grid = None if domain is not None else lattice(sensors.points)
    mesh: Mesh | None = None
    notes: tuple[str, ...] = ()
    if grid is not None:
        order, space, shape = grid.order, axes, grid.shape
    elif told is not None and len(sensors.points) == told.n_nodes:
        mesh, order = told, _matched(sensors.points, told)
    elif sensors.points.shape[1] > 1:
        mesh, used = mesh_through(sensors.points, domain)
        order, notes = np.flatnonzero(used), (_laid(len(sensors.points), mesh, domain is not None),)
        if len(order) < _INSIDE * len(used):
            raise DataError(f"{path}: only {len(order)} of the {len(used)} sensors are inside the domain or mesh")
    else:
        raise DataError(f"{path}: there is one position only; at least 2 are needed")
    if mesh is not None:
        space, shape = ("node",), (mesh.n_nodes,)
    arrays = {}
    for name, table in tables.items():
        values = static.get(name, table)[..., order]
        dims = (*((time,) if values.ndim == 2 else ()), *space)
        arrays[name] = in_memory(name, dims, values.reshape(*values.shape[:-1], *shape))
    arrays[time] = in_memory(time, (time,), sensors.times)
    if grid is not None:
        arrays |= {name: in_memory(name, (name,), axis) for name, axis in zip(axes, grid.axes, strict=True)}
    return DataSource(path, "CSV", arrays, {}, notes, mesh)


def _laid(count: int, mesh: Mesh, told: bool) -> str:
    """What became of scattered sensors, in words."""
    parts = [f"a mesh was laid through the {count} sensors (Delaunay){' inside the given domain' * told}"]
    if holes := count_holes(mesh):
        parts.append(
            f"{holes} hole{'s' * (holes > 1)}" if told else f"{holes} gap{'s' * (holes > 1)} without sensors left open"
        )
    if count > mesh.n_nodes:
        parts.append(f"{count - mesh.n_nodes} {'outside' if told else 'far from all others'} left out")
    return ", ".join(parts)


def _matched(points: Floats, mesh: Mesh) -> Integers:
    """Sensor at each node of a mesh, (n_nodes,)."""
    from scipy.spatial import cKDTree

    if points.shape[1] != mesh.dim:
        raise DataError(f"mesh: it is in {mesh.dim}D, the positions of the table in {points.shape[1]}D")
    distance, sensor = cKDTree(points).query(mesh.points)
    far = np.flatnonzero(distance > _NEAR * np.ptp(mesh.points, axis=0).max())
    if far.size or np.unique(sensor).size != len(sensor):
        raise DataError(
            f"mesh: {max(far.size, 1)} of its nodes have no sensor of their own; give the mesh of the sensors"
        )
    return np.asarray(sensor, dtype=np.int64)
