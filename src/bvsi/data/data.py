"""One experiment: fields in time on a grid or mesh, or series without space, checked when made, never changed after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask
from bvsi.data._arrays import check_field_name, check_increasing, frozen, interval, read_only, real_array, slabs, taken
from bvsi.data._given import (
    TIME,
    arrange,
    arrange_auxiliary,
    axis_sizes,
    check_dims,
    check_fill,
    check_missing,
    checked_masks,
    complete,
    frames_kept,
)
from bvsi.data.grid import Grid, Periodic
from bvsi.data.mesh import Mesh
from bvsi.errors import DataError, MissingValuesError

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.data.denoise import Smoother

Geometry = Grid | Mesh
# Values of an axis, nodes of a mesh too, beyond which it is smoothed in parts: a decomposition of 1,200 takes half a
# second.
LONGEST = 1200


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """Nodal values û_j of all fields at times t_j, j = 0 … T − 1, on a grid or mesh.

    Users make it with :meth:`from_arrays` or :meth:`from_xarray`. The arrays are read-only float64 copies; arrays
    that are read-only, and files mapped so, are taken as they are.

    Attributes
    ----------
    times
        t, (T,), strictly increasing; one frame is enough for steady problems.
    fields
        û by name, each (T, n_nodes), in the node order of the geometry.
    geometry
        The grid or mesh; of a series the grid without axes.
    auxiliary
        Known fields by name, (T, n_nodes), or (n_nodes,) when static.
    measured
        Masks by field, (T, n_nodes), True where the value was measured; None when all were. Other values must not
        matter; those that are not finite are filled by interpolation. Frames without any measured value are dropped.
    """

    times: Array
    fields: Mapping[str, Array]
    geometry: Geometry
    auxiliary: Mapping[str, Array] = field(default_factory=dict)
    measured: Mapping[str, Mask] | None = None

    def __post_init__(self) -> None:
        _check_geometry(self.geometry)
        times = _times(self.times)
        _check_names(self.fields, self.auxiliary, self.geometry)
        shape = (times.size, self.geometry.n_nodes)
        fields = {n: _values(v, f"field {n!r}", (shape,)) for n, v in self.fields.items()}
        known = {n: _values(v, f"auxiliary {n!r}", (shape, shape[1:])) for n, v in self.auxiliary.items()}
        masks = checked_masks(self.measured, tuple(fields), shape)
        if masks is not None and not (kept := frames_kept(masks)).all():
            times, fields = times[kept], {n: v[kept] for n, v in fields.items()}
            known = {n: v[kept] if v.ndim == 2 else v for n, v in known.items()}
            masks = checked_masks({n: m[kept] for n, m in masks.items()}, tuple(fields), (times.size, shape[1]))
        for name, values in fields.items():
            mask = None if masks is None else masks[name]
            _check_finite(values, f"field {name!r}", times, self.geometry, mask, may_miss=True)
            check_fill(values, f"field {name!r}", mask)
        for name, values in known.items():
            _check_finite(values, f"auxiliary {name!r}", times, self.geometry)
            check_fill(values, f"auxiliary {name!r}")
        if masks is not None:
            fields = {n: complete(v, masks[n], self.geometry, times) for n, v in fields.items()}
        object.__setattr__(self, "times", frozen(times))
        object.__setattr__(self, "fields", read_only({n: frozen(v) for n, v in fields.items()}))
        object.__setattr__(self, "auxiliary", read_only({n: frozen(v) for n, v in known.items()}))
        frozen_masks = None if masks is None else read_only({n: frozen(m) for n, m in masks.items()})
        object.__setattr__(self, "measured", frozen_masks)

    @staticmethod
    def from_arrays(
        fields: Mapping[str, ArrayLike],
        *,
        times: ArrayLike | None = None,
        geometry: Geometry | None = None,
        dims: Sequence[str] | None = None,
        auxiliary: Mapping[str, ArrayLike] | None = None,
        missing: Literal["nan"] | None = None,
    ) -> Data:
        """Data from plain arrays; the order of the axes is named, or is exactly that of the geometry.

        Complex arrays whose imaginary part is rounding are accepted, and their real part is taken.

        Parameters
        ----------
        fields
            Arrays by name. On a grid ``(T, *grid.shape)`` or flattened (T, n_nodes), or with the axes ``dims``;
            on a mesh (T, n_nodes); of a series (T,).
        times
            (T,). Left out the arrays are one frame, without an axis of time.
        geometry
            The grid or mesh. Left out the fields are series, a system without space, and may be called x, y, z.
        dims
            Names of the axes of every array, such as ``("time", "y", "x")``; on a mesh "time" and "node".
        auxiliary
            Known fields, the same way; a static one has no time axis.
        missing
            "nan" where NaN in a field means that the value was not measured; residuals that depend on one are not used.
            Without it NaN are refused.
        """
        check_missing(missing)
        known = {} if auxiliary is None else auxiliary
        if times is None and geometry is None:
            raise DataError("times: a series needs its times; one frame of a field in space needs its geometry")
        geometry = Grid() if geometry is None else geometry
        _check_geometry(geometry)
        _check_names(fields, known, geometry)
        if times is None:
            fields = {name: np.asarray(value)[None] for name, value in fields.items()}
            dims = None if dims is None else (TIME, *dims)
        t = _times([0.0] if times is None else times)
        sizes = axis_sizes(t.size, geometry)
        order = check_dims(dims, sizes)
        values = {name: arrange(value, f"field {name!r}", sizes, order) for name, value in fields.items()}
        return Data(
            t,
            values,
            geometry,
            {name: arrange_auxiliary(value, f"auxiliary {name!r}", sizes, order) for name, value in known.items()},
            None if missing is None else {name: ~np.isnan(value) for name, value in values.items()},
        )

    @staticmethod
    def from_xarray(
        ds: xr.Dataset | xr.DataArray,
        *,
        time: str,
        fields: Sequence[str] | None = None,
        auxiliary: Sequence[str] | None = None,
        periodic: Periodic | None = None,
        mesh: Mesh | None = None,
        nodes: str | None = None,
        axes: Mapping[str, str] | None = None,
        missing: Literal["nan"] | None = None,
    ) -> Data:
        """Data from labelled arrays; dimensions are taken by name, decreasing coordinates are turned round.

        Parameters
        ----------
        ds
            A dataset, or one named array.
        time
            Name of the time dimension, whose coordinate holds numbers.
        fields
            Names of the variables to use; all that have the time dimension when left out.
        auxiliary
            Names of known fields; when left out, those that :meth:`to_xarray` marked so.
        periodic
            Periodic axes, as in :class:`Grid`, by the names x, y, z; when left out, the ``period`` attributes
            that :meth:`to_xarray` writes.
        mesh
            The mesh, when the data are not on a grid; when left out, the one that :meth:`to_xarray` wrote.
        nodes
            Name of the dimension that numbers the nodes of the mesh.
        axes
            Dimension to axis, such as ``{"lon": "x", "lat": "y"}``, for dimensions not called x, y, z.
        missing
            "nan" where NaN in a field means that the value was not measured, as in :meth:`from_arrays`; when left out,
            this holds for fields that :meth:`to_xarray` marked so.
        """
        from bvsi.app.labelled import read

        check_missing(missing)
        parts = read(ds, time, fields, auxiliary, periodic, mesh, nodes, axes or {})
        times, values, geometry, known, marked = parts
        with_gaps = marked if missing is None else tuple(values)
        return Data(times, values, geometry, known, {name: ~np.isnan(values[name]) for name in with_gaps})

    @property
    def n_times(self) -> int:
        """Number of times T."""
        return int(self.times.size)

    @cached_property
    def smoothers(self) -> dict[str, Smoother]:
        """Smoothers of its fields, with long axes in parts; kept, since data are assembled anew for other operators."""
        from bvsi.data.denoise import smoothers  # which needs this module

        return smoothers(self, LONGEST)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the geometry."""
        return self.geometry.n_nodes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(self.fields)

    def observed(self, name: str) -> Array:
        """Values of a field, (T, n_nodes), NaN where it was not measured; a copy."""
        if name not in self.fields:
            raise DataError(f"no field {name!r}; the data have {', '.join(self.fields)}")
        values = np.array(self.fields[name])
        if self.measured is not None:
            values[~self.measured[name]] = np.nan
        return values

    def grid_field(self, name: str) -> Array:
        """View of a field as ``(T, *grid.shape)``, or of a static auxiliary one as grid.shape."""
        grid = self._grid("grid_field")
        values = self.fields.get(name, self.auxiliary.get(name))
        if values is None:
            raise DataError(f"no field {name!r}; the data have {', '.join((*self.fields, *self.auxiliary))}")
        return values.reshape(*values.shape[:-1], *grid.shape)

    def to_xarray(self) -> xr.Dataset:
        """Labelled copy that :meth:`from_xarray` reads back with ``time="time"``.

        Dimensions are time and the grid's axes, or time and node. Periods are attributes of the coordinates,
        the mesh is the coordinate ``mesh_cells``, known fields carry the attribute ``role``. Values that were not
        measured are NaN, and fields with such values carry the attribute ``missing``.
        """
        from bvsi.app.labelled import write

        return write(self)

    def select_times(self, index: slice | ArrayLike) -> Data:
        """Data at some of the times: ``data.select_times(slice(None, None, 2))``.

        Parameters
        ----------
        index
            Slice, integers in increasing order, or a mask (T,).
        """
        try:
            chosen = np.arange(self.n_times)[index if isinstance(index, slice) else np.asarray(index)]
        except IndexError as error:
            raise DataError(f"index does not fit the {self.n_times} times: {error}") from error
        if chosen.ndim != 1:
            raise DataError("index must select several times; pass a slice, a list of integers or a mask")
        return Data(
            self.times[chosen],
            {name: taken(values, chosen) for name, values in self.fields.items()},
            self.geometry,
            {name: values[chosen] if values.ndim == 2 else values for name, values in self.auxiliary.items()},
            None if self.measured is None else {name: mask[chosen] for name, mask in self.measured.items()},
        )

    def subsample(self, every: int | Mapping[str, int]) -> Data:
        """Data on every k-th node of the grid along each axis; both end points of a bounded axis are kept.

        Parameters
        ----------
        every
            k for all axes, or k by axis name (1 for the axes left out).
        """
        grid = self._grid("subsample")
        steps = _steps(grid, every)
        coarse = grid.on({name: axis[:: steps[name]] for name, axis in grid.axes.items()})
        cut: Any = (..., *(slice(None, None, k) for k in steps.values()))

        def thin(values: Any) -> Any:
            thinned = values.reshape(*values.shape[:-1], *grid.shape)[cut]
            return thinned.reshape(*values.shape[:-1], coarse.n_nodes)

        groups = (self.fields, self.auxiliary, self.measured or {})
        fields, known, masks = ({name: thin(values) for name, values in group.items()} for group in groups)
        return Data(self.times, fields, coarse, known, masks or None)

    def with_fields(self, fields: Mapping[str, ArrayLike]) -> Data:
        """Same times, geometry, auxiliary fields and measured places, other values of the same fields.

        Parameters
        ----------
        fields
            New values of every field, (T, n_nodes) or ``(T, *grid.shape)``.
        """
        if set(fields) != set(self.fields):
            raise DataError(
                f"fields given are {', '.join(fields) or 'none'}, the data have {', '.join(self.fields)}; "
                "give all of them, or make new data with Data.from_arrays"
            )
        sizes = axis_sizes(self.n_times, self.geometry)
        values = {name: arrange(fields[name], f"field {name!r}", sizes, None) for name in self.fields}
        return Data(self.times, values, self.geometry, self.auxiliary, self.measured)

    def __repr__(self) -> str:
        kind = "grid " if isinstance(self.geometry, Grid) else "mesh of "
        where = f"{kind}{self.geometry.summary}" if self.geometry.dim else "series"
        known = f", auxiliary {', '.join(self.auxiliary)}" if self.auxiliary else ""
        if self.measured is not None:
            known += f", {1 - np.mean([mask.mean() for mask in self.measured.values()]):.2g} of the values missing"
        return (
            f"Data: {self.n_times} times in {interval(self.times[0], self.times[-1])}, "
            f"{where}, fields {', '.join(self.fields)}{known}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Made again when unpickled or copied, since arrays lose their read-only mark on the way.
        masks = None if self.measured is None else dict(self.measured)
        return Data, (self.times, dict(self.fields), self.geometry, dict(self.auxiliary), masks)

    def _grid(self, method: str) -> Grid:
        if not isinstance(self.geometry, Grid):
            raise DataError(f"{method} needs data on a grid; these are on a mesh, use data.fields[name]")
        return self.geometry


def _times(value: ArrayLike) -> Array:
    """Checked times, (T,)."""
    times = real_array(value, "times")
    check_increasing(times, "times", "sort the data by time and drop repetitions")
    if not times.size:
        raise DataError("times is empty; at least one frame is needed, and two for a time derivative")
    return times


def _check_geometry(geometry: object) -> None:
    if not isinstance(geometry, Grid | Mesh):
        raise DataError(f"geometry is a {type(geometry).__name__}; pass a Grid or a Mesh")


def _check_names(fields: object, auxiliary: object, geometry: Geometry) -> None:
    """Refuse missing, unusable and doubly used names."""
    names = _names("fields", fields, "field", series=not geometry.dim)
    known = _names("auxiliary", auxiliary, "auxiliary field", series=not geometry.dim)
    if not names:
        raise DataError("fields is empty; pass at least one field, such as {'u': array}")
    axes = [name for name in (*names, *known) if name in geometry.names]
    if axes:
        raise DataError(f"{axes[0]!r} is an axis of the grid and cannot be a field; rename the field")
    both = [name for name in names if name in known]
    if both:
        raise DataError(f"{both[0]!r} is given as field and as auxiliary; rename one of them, or leave it out")


def _names(argument: str, mapping: object, noun: str, *, series: bool) -> tuple[str, ...]:
    """Checked names of a mapping."""
    if not isinstance(mapping, Mapping):
        raise DataError(f"{argument} is a {type(mapping).__name__}; pass arrays by name, such as {{'u': array}}")
    return tuple(check_field_name(name, noun, series=series) for name in mapping)


def _values(value: ArrayLike, what: str, shapes: tuple[tuple[int, ...], ...]) -> Array:
    """Numbers of the stored shape (times, nodes), or (nodes,) where allowed."""
    values = real_array(value, what)
    if values.shape not in shapes:
        raise DataError(
            f"{what} has shape {values.shape}, expected {' or '.join(map(str, shapes))} (times, nodes); "
            "use Data.from_arrays for other layouts"
        )
    return values


def _check_finite(
    values: Array, what: str, times: Array, geometry: Geometry, mask: Mask | None = None, *, may_miss: bool = False
) -> None:
    """Refuse NaN and infinity where measured; say how many, and where the first one is in time and space.

    Parameters
    ----------
    may_miss
        Whether NaN may stand for values that were not measured.
    """
    if mask is None and all(np.isfinite(values[rows]).all() for rows in slabs(values)):
        return
    finite = np.isfinite(values) if mask is None else np.isfinite(values) | ~mask
    if finite.all():
        return
    first = np.unravel_index(int(np.argmin(finite)), values.shape)
    node = int(first[-1])
    where = ", ".join(f"{n} = {x:g}" for n, x in zip(geometry.names, geometry.points[node], strict=True))
    when = f"time index {first[0]} (t = {times[first[0]]:g}), " if values.ndim == 2 else ""
    if isinstance(geometry, Grid):
        place = f"grid index {tuple(int(i) for i in np.unravel_index(node, geometry.shape))}"
    else:
        place = f"node {node}"
    message = (
        f"{what} has {np.sum(~finite)} values that are not finite, first {values[first]} at {when}{place} "
        f"({where}); fill them, or select a part of the data without them"
    )
    if may_miss and np.isnan(values[first]):
        raise MissingValuesError(
            f"{message}; if NaN means not measured, say so with missing='nan', or with measured={{name: mask}}"
        )
    raise DataError(message)


def _steps(grid: Grid, every: int | Mapping[str, int]) -> dict[str, int]:
    """Stride along each axis that keeps periods and end points."""
    given = dict(every) if isinstance(every, Mapping) else dict.fromkeys(grid.names, every)
    unknown = [name for name in given if name not in grid.axes]
    if unknown:
        hint = "use select_times" if unknown[0] in (TIME, "t") else f"the grid has {', '.join(grid.names)}"
        raise DataError(f"every: {unknown[0]!r} is not an axis of the grid; {hint}")
    for name, k in given.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise DataError(f"every: {k!r} for axis {name!r} is not a positive integer")
        n = grid.axes[name].size
        if name in grid.periods and n % k:
            raise DataError(
                f"every: periodic axis {name!r} has {n} nodes, not divisible by {k}; choose a divisor of {n}"
            )
        if name not in grid.periods and (n - 1) % k:
            raise DataError(
                f"every: taking every {k}-th of the {n} nodes of axis {name!r} loses its end point; "
                f"choose a divisor of {n - 1}"
            )
    return {name: int(given.get(name, 1)) for name in grid.names}


def as_experiments(data: Data | Sequence[Data]) -> tuple[Data, ...]:
    """Tuple of experiments with the same fields, auxiliary fields and space dimension; one is allowed.

    Times, grids and meshes may differ between experiments.

    Parameters
    ----------
    data
        One experiment or a sequence of them.
    """
    experiments = (data,) if isinstance(data, Data) else tuple(data)
    if not experiments:
        raise DataError("data is empty; pass at least one experiment")
    for i, item in enumerate(experiments):
        if not isinstance(item, Data):
            raise DataError(f"data: experiment {i} is a {type(item).__name__}; make it with Data.from_arrays")
    first = experiments[0]
    for i, item in enumerate(experiments):
        if item.names != first.names:
            raise DataError(
                f"data: experiment {i} has the fields {', '.join(item.names)}, experiment 0 has "
                f"{', '.join(first.names)}; give all the same fields in the same order"
            )
        if set(item.auxiliary) != set(first.auxiliary):
            raise DataError(
                f"data: experiment {i} has the auxiliary fields {', '.join(item.auxiliary) or 'none'}, "
                f"experiment 0 has {', '.join(first.auxiliary) or 'none'}; give all the same ones"
            )
        if set(item.geometry.names) != set(first.geometry.names):
            raise DataError(
                f"data: experiment {i} has dimension {item.geometry.dim} ({', '.join(item.geometry.names)}), "
                f"experiment 0 has {first.geometry.dim} ({', '.join(first.geometry.names)}); "
                "give all the same space dimension and axes"
            )
    return experiments
