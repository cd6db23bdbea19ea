"""Data from and to labelled arrays of xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import AXIS_NAMES, COORDINATE_NAMES, COORDINATES, system_of
from bvsi.data import Data, Grid, Mesh
from bvsi.data._arrays import real_array
from bvsi.data._given import NODE, TIME
from bvsi.data.grid import Periodic
from bvsi.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

CELLS = "mesh_cells"
# Coordinates kept as float32 differ from the mesh by less than this fraction of its extent.
_POSITION_TOLERANCE = 1e-5

SYSTEM = "system"
"""Attribute of axes that are not Cartesian: what they are, such as "polar"."""
MISSING = "missing"
"""Attribute of fields in which NaN means not measured; its value is "nan"."""

Parts = tuple[Array, dict[str, Array], Grid | Mesh, dict[str, Array], tuple[str, ...]]


@dataclass(frozen=True)
class _Space:
    """Geometry, the dimensions that carry it in its node order, and those whose coordinate decreases."""

    geometry: Grid | Mesh
    dims: tuple[str, ...]
    flipped: tuple[str, ...] = ()


def read(
    source: xr.Dataset | xr.DataArray,
    time: str,
    fields: Sequence[str] | None,
    auxiliary: Sequence[str] | None,
    periodic: Periodic | None,
    mesh: Mesh | None,
    nodes: str | None,
    axes: Mapping[str, str],
) -> Parts:
    """Times, fields, geometry, auxiliary fields, and the fields that are marked as having missing values.

    The arguments are those of ``Data.from_xarray``.
    """
    ds = _dataset(source)
    times = _times(ds, time)
    read_fields, known = _variables(ds, time, fields, auxiliary)
    dims = _space_dims(ds, read_fields, time)
    mesh = mesh if mesh is not None else _stored_mesh(ds, dims)
    if mesh is None:
        space = _grid(ds, dims, axes, periodic)
    elif axes:
        raise DataError("axes applies to grids; with a mesh name the node dimension with nodes=")
    elif periodic:
        raise DataError("periodic applies to grids; leave it out for data on a mesh")
    else:
        space = _mesh(ds, dims, mesh, nodes)
    return (
        times,
        {name: _array(ds, name, "field", time, space) for name in read_fields},
        space.geometry,
        {name: _array(ds, name, "auxiliary", time, space) for name in known},
        tuple(name for name in read_fields if ds[name].attrs.get(MISSING) == "nan"),
    )


def write(data: Data) -> xr.Dataset:
    """Dataset with named dimensions, coordinates, periods and mesh."""
    import xarray as xr

    geometry = data.geometry
    coords: dict[str, Any] = {TIME: data.times.copy()}
    if isinstance(geometry, Grid):
        space, shape = geometry.names, geometry.shape
        for name, axis in geometry.axes.items():
            attrs: dict[str, Any] = {"period": geometry.periods[name]} if name in geometry.periods else {}
            attrs |= {} if geometry.coordinates == "cartesian" else {SYSTEM: geometry.coordinates}
            coords[name] = (name, axis.copy(), attrs)
    else:
        space, shape = (NODE,), (geometry.n_nodes,)
        for i, name in enumerate(geometry.names):
            coords[name] = (NODE, geometry.points[:, i].copy())
        kind = {"cell_type": geometry.cell_type}
        coords[CELLS] = (("mesh_cell", "mesh_cell_node"), geometry.cells.copy(), kind)
    variables: dict[str, Any] = {}
    observed = {name: data.observed(name) for name in data.names}
    for name, values in (*observed.items(), *data.auxiliary.items()):
        dims = (TIME, *space) if values.ndim == 2 else space
        marks = {} if name in observed else {"role": "auxiliary"}
        if data.measured is not None and not data.measured.get(name, np.True_).all():
            marks[MISSING] = "nan"
        variables[name] = (dims, values.reshape(*values.shape[:-1], *shape).copy(), marks)
    return xr.Dataset(variables, coords=coords)


def _dataset(source: object) -> xr.Dataset:
    """Dataset of the source; a single array needs a name."""
    import xarray as xr

    if isinstance(source, xr.Dataset):
        return source
    if not isinstance(source, xr.DataArray):
        raise DataError(f"ds is a {type(source).__name__}; pass an xarray Dataset or DataArray, or use from_arrays")
    if source.name is None:
        raise DataError("ds is a DataArray without a name; name the field with ds.rename('u')")
    return source.to_dataset()


def _times(ds: xr.Dataset, time: str) -> Array:
    """Coordinate of the time dimension."""
    if time not in ds.dims:
        raise DataError(f"time: {time!r} is not a dimension; the dataset has {_listed(ds.dims)}")
    if time not in ds.coords:
        raise DataError(
            f"time: dimension {time!r} has no coordinate; add the times with ds.assign_coords({time}=times)"
        )
    values = ds.coords[time].values
    if values.dtype.kind in "mMO":  # O: calendar dates of cftime
        raise DataError(
            f"times: coordinate {time!r} has dtype {values.dtype} (dates or durations); convert to seconds: "
            f"ds.assign_coords({time}=(ds[{time!r}] - ds[{time!r}][0]) / numpy.timedelta64(1, 's'))"
        )
    return real_array(values, f"times: coordinate {time!r}")


def _variables(
    ds: xr.Dataset, time: str, chosen: Sequence[str] | None, auxiliary: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Names of the fields and of the auxiliary fields."""
    for argument, names in (("fields", chosen), ("auxiliary", auxiliary)):
        if isinstance(names, str):
            raise DataError(f"{argument} is the text {names!r}; pass a list of names, [{names!r}]")
        missing = [name for name in names or () if name not in ds.data_vars]
        if missing:
            raise DataError(f"{argument}: no variable {missing[0]!r}; the dataset has {_listed(ds.data_vars)}")
    if auxiliary is not None:
        known = list(auxiliary)
    else:
        marked = [str(n) for n, v in ds.data_vars.items() if v.attrs.get("role") == "auxiliary"]
        known = [name for name in marked if name not in (chosen or ())]
    if chosen is not None:
        return list(chosen), known
    fields = [name for name, v in ds.data_vars.items() if time in v.dims and name not in known]
    if not fields:
        raise DataError(f"fields: no variable has the time dimension {time!r}; transpose or rename the data")
    return fields, known  # type: ignore[return-value]  # names that are no text are refused by Data


def _space_dims(ds: xr.Dataset, fields: Sequence[str], time: str) -> tuple[str, ...]:
    """All dimensions of the fields except time; refuses a field without the time dimension."""
    dims: dict[str, None] = {}
    for name in fields:
        if time not in ds[name].dims:
            raise DataError(
                f"field {name!r} lacks the time dimension {time!r} (it has {_listed(ds[name].dims)}); "
                "list it in auxiliary if it is a known field"
            )
        dims.update(dict.fromkeys(str(dim) for dim in ds[name].dims if dim != time))
    return tuple(dims)


def _grid(ds: xr.Dataset, dims: tuple[str, ...], axes: Mapping[str, str], periodic: Periodic | None) -> _Space:
    """Grid with the axes in the order of their coordinates."""
    dim_of = _axes(dims, axes)
    told = {str(ds.coords[dim].attrs[SYSTEM]) for dim in dims if dim in ds.coords and SYSTEM in ds.coords[dim].attrs}
    system = coordinates_of(tuple(dim_of), told.pop() if len(told) == 1 else None)
    dim_of = {name: dim_of[name] for name in COORDINATES[system] if name in dim_of}
    coordinates, flipped, stored = {}, [], {}
    for axis, dim in dim_of.items():
        if dim not in ds.coords:
            raise DataError(f"dimension {dim!r} has no coordinate; add it with ds.assign_coords({dim}=values)")
        values = real_array(ds.coords[dim].values, f"coordinate {dim!r}")
        if values.size > 1 and np.all(np.diff(values) < 0):
            values = values[::-1]
            flipped.append(dim)
        coordinates[axis] = values
        if "period" in ds.coords[dim].attrs:
            stored[axis] = float(ds.coords[dim].attrs["period"])
    grid = Grid(periodic=stored if periodic is None else periodic, coordinates=system, **coordinates)
    return _Space(grid, tuple(dim_of.values()), tuple(flipped))


def _axes(dims: tuple[str, ...], axes: Mapping[str, str]) -> dict[str, str]:
    """Dimension of each axis."""
    absent = [dim for dim in axes if dim not in dims]
    if absent:
        raise DataError(f"axes: {absent[0]!r} is not a dimension of the fields; they have {_listed(dims)}")
    dim_of: dict[str, str] = {}
    for dim in dims:
        axis = axes.get(dim, dim)
        if axis not in AXIS_NAMES:
            raise DataError(
                f"dimension {dim!r} is none of x, y, z: for a space axis pass axes={{{dim!r}: 'x'}}, "
                f"otherwise select one entry with ds.isel({dim}=0), or choose variables with fields=[...]; "
                "for data on a mesh pass mesh=Mesh(...)"
            )
        if axis in dim_of:
            raise DataError(f"axes: dimensions {dim_of[axis]!r} and {dim!r} both become {axis!r}; name one axis each")
        dim_of[axis] = dim
    return dim_of


def coordinates_of(names: Sequence[str], told: str | None = None) -> str:
    """Coordinate system of axes with these names: as stated, or by the names; ambiguous names are refused."""
    system = system_of(names) if told is None else told
    if system not in COORDINATES or not set(names) <= set(COORDINATES[system]):
        listed = ", ".join(names)
        if told is not None:
            raise DataError(f"coordinates: {told!r} does not have the axes {listed}; known are {_listed(COORDINATES)}")
        angle = 'an angle in the plane is phi, axes = { theta = "phi" }; for one from the pole write coordinates = '
        which = f'{angle}"spherical"' if "theta" in names else 'write coordinates = "polar" or "spherical"'
        raise DataError(f"axes {listed}: their names leave open what they are; {which}; Cartesian ones are x, y, z")
    return system


def _stored_mesh(ds: xr.Dataset, dims: tuple[str, ...]) -> Mesh | None:
    """Mesh that ``write`` stored in the dataset, if any."""
    if CELLS not in ds.coords or "cell_type" not in ds.coords[CELLS].attrs or dims != (NODE,):
        return None
    names = [name for name in COORDINATE_NAMES if name in ds.coords and ds.coords[name].dims == (NODE,)]
    points = np.stack([ds.coords[name].values for name in names], axis=1)
    return Mesh(points, ds.coords[CELLS].values, str(ds.coords[CELLS].attrs["cell_type"]))


def _mesh(ds: xr.Dataset, dims: tuple[str, ...], mesh: Mesh, nodes: str | None) -> _Space:
    """The mesh and the dimension that numbers its nodes."""
    extra = [dim for dim in dims if dim != nodes]
    if nodes is None and len(dims) != 1:
        raise DataError(
            f"nodes: which of the dimensions {_listed(dims)} numbers the nodes? pass nodes=, select the rest"
        )
    if nodes is not None and nodes not in dims:
        raise DataError(f"nodes: {nodes!r} is not a dimension of the fields; they have {_listed(dims)}")
    if nodes is not None and extra:
        raise DataError(
            f"dimension {extra[0]!r} is neither time nor nodes; select one entry with ds.isel({extra[0]}=0)"
        )
    dim = dims[0] if nodes is None else nodes
    if ds.sizes[dim] != mesh.n_nodes:
        raise DataError(f"dimension {dim!r} has {ds.sizes[dim]} entries, the mesh has {mesh.n_nodes}; pass its mesh")
    _check_positions(ds, dim, mesh)
    return _Space(mesh, (dim,))


def _check_positions(ds: xr.Dataset, dim: str, mesh: Mesh) -> None:
    """Refuse node coordinates in the dataset that are not those of the mesh: the node orders differ then."""
    for i, name in enumerate(mesh.names):
        if name not in ds.coords or ds.coords[name].dims != (dim,):
            continue
        column = mesh.points[:, i]
        values = real_array(ds.coords[name].values, f"coordinate {name!r}")
        bad = np.flatnonzero(~(np.abs(values - column) <= _POSITION_TOLERANCE * np.ptp(column)))
        if bad.size:
            k = int(bad[0])
            raise DataError(
                f"coordinate {name!r} of node {k} is {values[k]:g} in ds, {column[k]:g} in the mesh; "
                "bring the nodes into the same order"
            )


def _array(ds: xr.Dataset, name: str, role: str, time: str, space: _Space) -> Array:
    """Values as (times, nodes), or (nodes,) for an auxiliary variable without time."""
    variable = ds[name]
    extra = [dim for dim in variable.dims if dim not in (time, *space.dims)]
    if extra:
        raise DataError(
            f"{role} {name!r} has the dimension {extra[0]!r}, which the fields do not have; "
            f"select one entry with ds.isel({extra[0]}=0)"
        )
    lacking = [dim for dim in space.dims if dim not in variable.dims]
    if lacking:
        raise DataError(
            f"{role} {name!r} lacks the dimension {lacking[0]!r} (it has {_listed(variable.dims)}); "
            "expand it with .broadcast_like, or leave it out"
        )
    dims = (time, *space.dims) if time in variable.dims else space.dims
    turned = variable.transpose(*dims).isel({dim: slice(None, None, -1) for dim in space.flipped})
    values = real_array(turned.values, f"{role} {name!r}")
    return values.reshape(*values.shape[: len(dims) - len(space.dims)], space.geometry.n_nodes)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none"
