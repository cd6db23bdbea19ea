"""From names in a file to the axes of bvsi: which arrays are fields, which dimension is time, x, y or z."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.labelled import SYSTEM, coordinates_of
from bvsi.app.readers.coordinates import Axis, axis_of, trimmed
from bvsi.app.readers.guess import MOST_FIELDS, as_series, dims_line
from bvsi.app.readers.mesh_file import read_mesh
from bvsi.app.readers.names import TIME_NAMES, file_names, time_name
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource
from bvsi.common.naming import AXIS_NAMES, COORDINATES
from bvsi.data import COORDINATE_NAMES, Mesh
from bvsi.errors import DataError

Integers = NDArray[np.int64]

# Part by which steps of an angle may differ from a whole turn over their number: those of float32 do by 1e-5.
_TURN = 1e-4
# Names in datasets that Data.to_xarray writes.
_CELLS, _CELL_TYPE = "mesh_cells", "cell_type"


@dataclass(frozen=True)
class ArrayLayout:
    """What is read, and in which order.

    Attributes
    ----------
    time
        The time axis.
    space
        The axes of a grid in the order of its coordinates; for a mesh the one axis that numbers its nodes.
    system
        What the axes are, as in :class:`bvsi.Grid`.
    fields
        Arrays by name in bvsi; each has the dimensions of time and space, in any order.
    auxiliary
        Known fields, the same way, without time where static.
    mesh
        The mesh, None for grids.
    nodes
        Numbers in the file of the nodes of the mesh, where the file has more.
    periodic
        Periodic axes as in Grid.
    gaps
        Fields in which NaN means not measured.
    notes
        What was changed, in words.
    """

    time: Axis
    space: tuple[Axis, ...]
    fields: Mapping[str, Array]
    auxiliary: Mapping[str, Array]
    mesh: Mesh | None
    nodes: Integers | None
    periodic: Mapping[str, float] | Sequence[str]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]
    system: str = "cartesian"

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Time, then space."""
        return (self.time, *self.space)

    @property
    def moving(self) -> dict[str, Array]:
        """Fields and known fields that depend on time, by name."""
        known = {name: array for name, array in self.auxiliary.items() if self.time.dim in (array.dims or ())}
        return {**self.fields, **known}


def resolve(source: DataSource, reading: Reading) -> ArrayLayout:
    """The layout of the fields in a file, after all names are checked."""
    require_numbers(source)
    source = _with_dims(source, reading)
    time = _time_dim(source, reading)
    fields, known = _variables(source, reading, time)
    dims = _space_dims(fields, time)
    sizes = _sizes((*fields.values(), *known.values()))
    mesh, nodes = _mesh(source, reading, dims, sizes[dims[0]]) if dims else (None, None)
    t = trimmed(axis_of(source, reading, time, "time", sizes[time]), reading)
    if mesh is not None:
        space: tuple[Axis, ...] = (Axis(dims[0], "node", None, sizes[dims[0]]),)
    else:
        space = _grid_axes(source, reading, dims, sizes)
    space, system = (space, "cartesian") if mesh is not None else _in_order(source, reading, space)
    _check_ranges(reading, (t, *space), mesh)
    _check_names(reading, (time, *dims), mesh)
    single = tuple(axis for axis in space if axis.size == 1) if mesh is None else ()
    space = tuple(axis for axis in space if axis not in single)
    periodic = {} if mesh is not None else _periodic(source, reading, space)
    known_gaps = tuple(name for name, array in fields.items() if array.attributes.get("missing") == "nan")
    return ArrayLayout(
        t,
        space,
        {name: _fixed(array, single) for name, array in fields.items()},
        {name: _fixed(array, single) for name, array in known.items()},
        mesh,
        nodes,
        periodic,
        tuple(fields) if reading.missing == "nan" else known_gaps,
        (
            *source.notes,
            *(axis.note for axis in (t, *space) if axis.note),
            *(f"dimension {axis.dim!r} has one entry and is left out" for axis in single),
            *_told(system, space, periodic),
        ),
        system,
    )


def require_numbers(source: DataSource) -> None:
    """Refuse a file without any array of numbers."""
    if not any(array.numeric and array.ndim for array in source.arrays.values()):
        raise DataError(f"{source.path}: the file holds no arrays of numbers; it may be empty or damaged")


def _with_dims(source: DataSource, reading: Reading) -> DataSource:
    """The source with names for the axes of all arrays that matter; the error holds the line to write."""
    nameless = [array for array in source.arrays.values() if array.dims is None]
    if reading.dims is None:
        if (series := as_series(source, reading.time)) is not None:
            return series
        if any(array.ndim > 1 and array.numeric for array in nameless):
            raise DataError(f"{source.path}: the file does not name the axes of its arrays; {dims_line(source)}")
        return source
    dims = tuple(reading.dims)
    if isinstance(reading.dims, str) or len(set(dims)) < len(dims) or len(dims) < 2:
        raise DataError(f'dims is {reading.dims!r}; name every axis of the fields once, such as ["x", "t"]')
    if not nameless:
        named = max((array.dims or () for array in source.arrays.values()), key=len, default=())
        raise DataError(
            f"dims: the file names its axes itself ({_listed(named)}); leave dims out, and use axes and time"
        )
    time = time_name(reading.time, dims, "dimension")
    static = tuple(dim for dim in dims if dim != time)
    by_rank = {len(dims): dims, len(static): static} if len(static) > 1 else {len(dims): dims}
    arrays = dict(source.arrays)
    known = set((file_names("auxiliary", reading.auxiliary) or {}).values())
    for array in nameless:
        if array.ndim in by_rank:
            arrays[array.name] = replace(array, dims=by_rank[array.ndim])
        elif array.ndim == 1 and array.name in known:
            arrays[array.name] = replace(array, dims=static)
    if not any(array.dims == dims and array.numeric for array in arrays.values()):
        raise DataError(f"dims: no array of numbers in {source.path} has {len(dims)} axes; it has {_shapes(source)}")
    return replace(source, arrays=arrays)


def _time_dim(source: DataSource, reading: Reading) -> str:
    dims = dict.fromkeys(dim for array in source.arrays.values() if array.numeric for dim in array.dims or ())
    dates = [a.name for a in source.arrays.values() if a.dtype.kind in "mM" and a.dims == (a.name,)]
    if reading.time is None and len(dates) == 1 and not any(dim.lower() in TIME_NAMES for dim in dims):
        return dates[0]
    return time_name(reading.time, tuple(dict.fromkeys((*dims, *dates))), "dimension")


def _variables(source: DataSource, reading: Reading, time: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Fields and known fields by name in bvsi."""
    fields, known = file_names("fields", reading.fields), file_names("auxiliary", reading.auxiliary)
    taken = set((fields or {}).values())
    if known is None:
        marked = [a.name for a in source.arrays.values() if a.attributes.get("role") == "auxiliary"]
        known = {name: name for name in marked if name not in taken}
    if fields is None:
        coordinates = {*reading.coordinates.values(), *known.values()}
        moving = [
            a for a in source.arrays.values() if a.numeric and time in (a.dims or ()) and a.name not in coordinates
        ]
        spread = [a.name for a in moving if len(a.dims or ()) > 1]  # none in a file of series
        alone = [a.name for a in moving if a.name != time and a.name.lower() not in TIME_NAMES]
        fields = {name: name for name in spread or alone}
        if len(fields) > MOST_FIELDS:
            raise DataError(
                f"fields: {len(fields)} arrays could be fields; name those of interest, such as fields = "
                f'["{next(iter(fields))}"]'
            )
        if not fields:
            raise DataError(
                f"fields: no array has the time dimension {time!r} beside the times; the file has {_shapes(source)}"
            )
    return (
        {name: _found(source, "fields", given) for name, given in fields.items()},
        {name: _found(source, "auxiliary", given) for name, given in known.items()},
    )


def _found(source: DataSource, argument: str, name: str) -> Array:
    """The array of a name, or ``real(name)``, ``imag(name)``; an unknown one is refused with the nearest known."""
    part = re.fullmatch(r"(real|imag)\((.+)\)", name)
    if name not in source.arrays and part is not None:
        whole = _found(source, argument, part[2])
        take = np.real if part[1] == "real" else np.imag
        return replace(whole, name=name, dtype=np.dtype(np.float64), load=lambda key: np.asarray(take(whole.load(key))))
    if name not in source.arrays:
        near = difflib.get_close_matches(name, list(source.arrays), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(source.arrays)}"
        raise DataError(f"{argument}: there is no {name!r} in {source.path}; {hint}")
    array = source.arrays[name]
    if not array.numeric:
        raise DataError(
            f"{argument}: {name!r} has the type {array.dtype}, which is not numeric; choose an array of numbers"
        )
    if array.dims is None:
        raise DataError(
            f"{argument}: {name!r} has {array.ndim} axes {array.shape}, which does not fit dims; name the arrays in "
            "fields that have the axes of dims"
        )
    return array


def _space_dims(fields: Mapping[str, Array], time: str) -> tuple[str, ...]:
    """All dimensions of the fields but time, which all must have."""
    first_name, first = next(iter(fields.items()))
    for name, array in fields.items():
        dims = array.dims or ()
        if dims == (time,) and array.name == time:
            raise DataError(f"fields: {array.name!r} is the time itself; choose another array")
        if time not in dims:
            raise DataError(
                f"fields: {name!r} lacks the time dimension {time!r} (it has {_listed(dims)}); list it in auxiliary "
                "if it is a known field"
            )
        if set(dims) != set(first.dims or ()):
            raise DataError(
                f"fields: {name!r} has the dimensions {_listed(dims)}, {first_name!r} has {_listed(first.dims or ())}; "
                "name in fields those that belong together"
            )
    return tuple(dim for dim in first.dims or () if dim != time)


def _sizes(arrays: Iterable[Array]) -> dict[str, int]:
    """Size of each dimension, on which all arrays agree."""
    sizes: dict[str, tuple[int, str]] = {}
    for array in arrays:
        for dim, size in zip(array.dims or (), array.shape, strict=True):
            if size == 0:
                raise DataError(f"{array.name!r} is empty along {dim!r}; choose another array in fields")
            known, owner = sizes.setdefault(dim, (size, array.name))
            if known != size:
                raise DataError(
                    f"dims: {array.name!r} has {size} entries along {dim!r}, {owner!r} has {known}; correct dims, or "
                    "name in fields those that belong together"
                )
    return {dim: size for dim, (size, _) in sizes.items()}


def _mesh(
    source: DataSource, reading: Reading, dims: tuple[str, ...], size: int
) -> tuple[Mesh | None, Integers | None]:
    """The mesh, and the numbers of its nodes in the file where the file has more points.

    Parameters
    ----------
    size
        Entries along the first of ``dims``.
    """
    if source.mesh is not None:
        return source.mesh, None
    if reading.mesh is None:
        return _stored_mesh(source, dims), None
    if len(dims) != 1:
        raise DataError(
            f"mesh: the fields have {_listed(dims)} besides time; nodal values have one dimension, the nodes"
        )
    found = read_mesh(reading.mesh)
    if size not in (found.n_points, found.mesh.n_nodes):
        raise DataError(
            f"mesh: it has {found.n_points} points, the fields have {size} nodes; give the mesh of the data"
        )
    return found.mesh, None if size == found.mesh.n_nodes else found.kept


def _stored_mesh(source: DataSource, dims: tuple[str, ...]) -> Mesh | None:
    """Mesh that Data.to_xarray stored, if any."""
    cells = source.arrays.get(_CELLS)
    if cells is None or _CELL_TYPE not in cells.attributes or len(dims) != 1:
        return None
    columns = [source.arrays[n] for n in COORDINATE_NAMES if n in source.arrays and source.arrays[n].dims == dims]
    if not columns:
        raise DataError(f"{source.path}: the file has cells, and no positions x, y, z of the nodes; add them")
    points = np.stack([column.values() for column in columns], axis=1)
    return Mesh(points, cells.values(), str(cells.attributes[_CELL_TYPE]))


def _grid_axes(
    source: DataSource, reading: Reading, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> tuple[Axis, ...]:
    """Space axes, each cut to the range selected; dimensions of one entry need no name."""
    axes: dict[str, Axis] = {}
    single = []
    for dim in dims:
        name = reading.axes.get(dim, dim)
        if sizes[dim] == 1:
            single.append(Axis(dim, name, np.zeros(1), 1))
            continue
        if name not in AXIS_NAMES:
            free = next((n for n in COORDINATE_NAMES if n not in dims and n not in reading.axes.values()), "x")
            raise DataError(
                f'dimension {dim!r} is none of x, y, z; for a space axis write axes = {{ {dim} = "{free}" }}, for the '
                f'time write time = "{dim}", for nodal values give the mesh'
            )
        if name in axes:
            raise DataError(f"axes: {axes[name].dim!r} and {dim!r} both become {name!r}; name one axis each")
        axes[name] = trimmed(axis_of(source, reading, dim, name, sizes[dim]), reading)
    return (*axes.values(), *single)


def _in_order(source: DataSource, reading: Reading, space: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], str]:
    """Axes in the order of their coordinates, those of one entry last, and what the coordinates are."""
    marks = (source.arrays[axis.dim].attributes.get(SYSTEM) for axis in space if axis.dim in source.arrays)
    told = reading.system or next((str(mark) for mark in marks if mark is not None), None)
    single = tuple(axis for axis in space if axis.size == 1)
    axes = {axis.name: axis for axis in space if axis not in single}
    system = coordinates_of(tuple(axes), told)
    return (*(axes[name] for name in COORDINATES[system] if name in axes), *single), system


def _told(system: str, space: tuple[Axis, ...], periodic: Mapping[str, float] | Sequence[str]) -> list[str]:
    """What is assumed about axes that are not Cartesian, in words."""
    if system == "cartesian":
        return []
    names = ", ".join(axis.name for axis in space)
    round_ = "; phi goes all the way round and is periodic" if "phi" in periodic else ""
    return [f"the axes {names} are {system} coordinates: grad, div and laplacian are theirs{round_}"]


def _check_ranges(reading: Reading, axes: tuple[Axis, ...], mesh: Mesh | None) -> None:
    """Refuse ranges of names that are not axes."""
    known = {name for axis in axes for name in (axis.dim, axis.name)} | {"t"}
    for name in reading.select:
        if name not in known:
            where = (
                "on a mesh only the time is selected" if mesh is not None else f"the axes are {_listed(sorted(known))}"
            )
            raise DataError(f"select: {name!r} is not an axis of the fields; {where}")


def _check_names(reading: Reading, dims: tuple[str, ...], mesh: Mesh | None) -> None:
    """Refuse axes, coordinates and spacing of dimensions that the fields do not have."""
    known = (*dims, *(TIME_NAMES if reading.time is None else ()), *AXIS_NAMES)
    groups: dict[str, Mapping[str, Any]] = {"coordinates": reading.coordinates, "spacing": reading.spacing}
    if mesh is None:
        groups["axes"] = reading.axes
    for argument, given in groups.items():
        unknown = [name for name in given if name not in known]
        if unknown:
            raise DataError(f"{argument}: {unknown[0]!r} is not a dimension of the fields; they have {_listed(dims)}")


def _periodic(source: DataSource, reading: Reading, space: tuple[Axis, ...]) -> Mapping[str, float] | Sequence[str]:
    """Periodic axes by name; without a choice, those that the file marks, and an angle phi that goes round."""
    if reading.periodic is None:
        marked = {
            axis.name: source.arrays[axis.dim].attributes.get("period") for axis in space if axis.dim in source.arrays
        }
        cut = {axis.name for axis in space if axis.cut}
        marked |= {a.name: 2 * np.pi for a in space if marked.get(a.name) is None and _goes_round(a)}
        return {
            name: float(np.ravel(period)[0])
            for name, period in marked.items()
            if period is not None and name not in cut
        }
    name_of = {axis.dim: axis.name for axis in space}
    given = (reading.periodic,) if isinstance(reading.periodic, str) else reading.periodic
    names = [name_of.get(name, name) for name in given]
    broken = [axis.name for axis in space if axis.cut and axis.name in names]
    if broken:
        raise DataError(f"select: axis {broken[0]!r} is periodic and only a part is selected; leave it out of periodic")
    return dict(zip(names, given.values(), strict=True)) if isinstance(given, Mapping) else names


def _goes_round(axis: Axis) -> bool:
    """Whether an axis is the angle phi in equal steps that make up a whole turn."""
    if axis.name != "phi" or axis.values is None or axis.size < 3:
        return False
    return bool(np.allclose(np.diff(axis.values), 2 * np.pi / axis.size, rtol=_TURN, atol=0))


def _fixed(array: Array, single: tuple[Axis, ...]) -> Array:
    """Array without the dimensions that have one entry."""
    dims = array.dims or ()
    gone = [dims.index(axis.dim) for axis in single if axis.dim in dims]
    if not gone:
        return array
    where = {axis.dim: axis.start for axis in single}
    kept = [i for i in range(len(dims)) if i not in gone]

    def load(key: tuple[slice, ...]) -> NDArray[Any]:
        parts = iter(key)
        full = tuple(slice(where[dim], where[dim] + 1) if i in gone else next(parts) for i, dim in enumerate(dims))
        return np.squeeze(array.load(full), axis=tuple(gone))

    return replace(
        array,
        dims=tuple(dims[i] for i in kept),
        shape=tuple(array.shape[i] for i in kept),
        load=load,
        chunks=None if array.chunks is None else tuple(array.chunks[i] for i in kept),
    )


def _shapes(source: DataSource) -> str:
    told = []
    for a in source.arrays.values():
        name = a.name if a.name.isprintable() else repr(a.name)  # a name may hold lines of its own
        told.append(f"{name} {a.dims or a.shape}{'' if a.numeric else f' of type {a.dtype}'}")
    return ", ".join(told) or "no arrays"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
