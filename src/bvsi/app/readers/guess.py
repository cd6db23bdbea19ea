"""Guesses from names and lengths. They are offered to the user, who confirms them; reading never uses them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import Any

from numpy.typing import NDArray

from bvsi.app.readers.names import TIME_NAMES
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.source import Array, DataSource, Key
from bvsi.app.readers.tiff import IMAGE
from bvsi.common.naming import AXIS_NAMES
from bvsi.data import COORDINATE_NAMES, check_field_name
from bvsi.errors import DataError

# Names that dimensions of other programs have, in small letters, and the axis that they mean.
_MEANING = {
    **dict.fromkeys(("x", "xs", "lon", "longitude", "xc", "position", "pos", "distance", "column", "col", "i"), "x"),
    **dict.fromkeys(("y", "ys", "lat", "latitude", "yc", "row", "j"), "y"),
    **dict.fromkeys(("z", "zs", "depth", "lev", "level", "height", "altitude", "zc", "k"), "z"),
    **dict.fromkeys(("t", "time", "times", "ts", "frame", "frames", "tspan"), "t"),
}

# The same for axes of polar, cylindrical and spherical coordinates, where one of the first two rows is among them.
_ROUND = {
    **dict.fromkeys(("r", "radius", "radial"), "r"),
    **dict.fromkeys(("phi", "azimuth", "varphi"), "phi"),
    **dict.fromkeys(("theta", "polar", "colatitude"), "theta"),
    **dict.fromkeys(("z", "height", "axial"), "z"),
}
# Those of them that count places or frames; where a table has a coordinate besides, it is that one.
_COUNTING = frozenset(("column", "col", "i", "row", "j", "k", "lev", "level", "frame", "frames"))
_UNIT = re.compile(r"[\[(].*")  # as in "x [m]"
_BEHIND = re.compile(r"_([nuµmck]?m|m?s|min|hr?|hours?|days?)$")  # as in "x_um", of coordinates and time
_LONGEST_UNIT = 40  # characters; longer ones are remarks

# Arrays of one shape in a cell that are probably frames: fields and axes are fewer. Not measured.
_FRAMES = 5
# Values of a pixel in colour, without and with opacity.
_COLOURS = (3, 4)
# Nodes along an axis from which on a field can be one in space; fewer columns are as many series.
_NODES = 16
# Fields that are suggested without being asked for: equations have a few.
MOST_FIELDS = 32


def dims_line(source: DataSource) -> str:
    """What to write for a file whose axes have no names, as the end of an error message."""
    array = _main(source)
    fitting = _fitting_dims(source, array)
    if not fitting:
        return (
            f"write dims with the {array.ndim} axes of {array.name!r} {array.shape} in order, such as {_example(array)}"
        )
    if len(fitting) == 1:
        return f"by the lengths of {array.name!r} {array.shape} write {_line(fitting[0])}"
    return _several(array, fitting)


def as_series(source: DataSource, time: str | None = None) -> DataSource | None:
    """The source with time as the axis of all vectors as long as the times, where it has nothing but vectors.

    A matrix with one row, or column, per time and a few of the other, as solvers of systems return it, is as many
    vectors; not where the file has coordinates for these.

    Parameters
    ----------
    time
        Name of the times, by default time or t.
    """
    arrays = {a.name: a for a in source.arrays.values() if a.numeric and a.ndim}
    named = [name for name in arrays if name == time or (time is None and name.lower() in TIME_NAMES)]
    if len(named) != 1 or any(a.dims is not None for a in arrays.values()):
        return None
    dims, shape, lengths = (named[0],), arrays[named[0]].shape, {a.shape for a in arrays.values() if a.ndim == 1}
    notes, vectors = list(source.notes), {name: replace(a, dims=dims) for name, a in arrays.items() if a.shape == shape}
    for array in (a for a in arrays.values() if a.ndim > 1):
        across = [axis for axis, size in enumerate(array.shape) if (size,) != shape]
        count = array.shape[across[0]] if array.ndim == 2 and len(across) == 1 else _NODES
        if count >= _NODES or (count,) in lengths:
            return None
        columns = [_column(array, across[0], i, dims) for i in range(count)]
        vectors |= {column.name: column for column in columns}
        listed = ", ".join(column.name for column in columns)
        notes.append(f"{array.name} is taken for the series {listed}; give --dims if it is a field on nodes")
    kept = {name: a for name, a in source.arrays.items() if name not in arrays or a.ndim == 1}
    return replace(source, arrays={**kept, **vectors}, notes=tuple(notes))


def _column(array: Array, axis: int, number: int, dims: tuple[str, ...]) -> Array:
    """One of the columns, or rows, of a matrix."""
    only = slice(number, number + 1)

    def load(key: Key) -> NDArray[Any]:
        return array.load((*key, only) if axis else (only, *key)).reshape(-1)

    name = f"{array.name}{number + 1}" if array.shape[axis] > 1 else array.name
    return replace(array, name=name, dims=dims, shape=(array.shape[1 - axis],), load=load, chunks=None)


def _several(array: Array, fitting: list[tuple[str, ...]]) -> str:
    """A question about axes of equal lengths."""
    lines, options = (" or ".join(write(dims) for dims in fitting[:2]) for write in (_line, ",".join))
    return (
        f"axes of {array.name!r} {array.shape} have equal lengths, and which is which is not guessed: write {lines} "
        f"(--dims {options})"
    )


def suggestion(source: DataSource, dims: tuple[str, ...] | None = None) -> Reading:
    """Best guess of what to read from an open file; axes of equal lengths without names are not guessed.

    Parameters
    ----------
    dims
        Names of the axes, where they are known.
    """
    if dims is None:
        _check_frames_in_cell(source)
    source = (as_series(source) if dims is None else None) or source
    nameless = any(a.dims is None and a.ndim > 1 and a.numeric for a in source.arrays.values())
    return _for_nameless(source, dims) if nameless else replace(_for_named(source), dims=dims)


def _check_frames_in_cell(source: DataSource) -> None:
    """Frames that stand one by one in a cell of MATLAB are not put together here."""
    if any(a.ndim > 1 and a.numeric and not a.name.rpartition("/")[2].isdigit() for a in source.arrays.values()):
        return
    frames = [a for a in source.arrays.values() if a.numeric and a.ndim and a.name.rpartition("/")[2].isdigit()]
    for cell in dict.fromkeys(_inside(a.name) for a in frames):
        shapes = [a.shape for a in frames if _inside(a.name) == cell]
        if len(shapes) >= _FRAMES and len(set(shapes)) == 1:
            along = len(shapes[0]) + 1
            raise DataError(
                f"{source.path}: {cell}{{1}} to {cell}{{{len(shapes)}}} have one shape, as frames have; put them into "
                f"one array, in MATLAB u = cat({along}, {cell}{{:}}) (vectors as columns), and save "
                "it with times and coordinates"
            )


def table_suggestion(columns: Iterable[str]) -> Reading:
    """Best guess for a table with some columns."""
    names = list(columns)
    plain = {name: _UNIT.sub("", name).strip().lower() for name in names}
    role = {name: _MEANING.get(text, _MEANING.get(_BEHIND.sub("", text))) for name, text in plain.items()}
    ranked = sorted(names, key=lambda name: (plain[name] in _COUNTING, plain[name] != role[name]))
    column_of = {role[name]: name for name in reversed(ranked)}  # the first of those that mean the same
    time = column_of.get("t")
    axes = {name: axis for axis, name in column_of.items() if axis in COORDINATE_NAMES}
    fields = _field_names(name for name in names if name != time and name not in axes)
    # where no name has to change, the reader finds out which columns are fields
    renamed = any(name != column for name, column in fields.items())
    return Reading(time=time, axes={n: a for n, a in axes.items() if n != a}, fields=fields if renamed else None)


def _for_named(source: DataSource) -> Reading:
    """Time, axes and fields from the names of the dimensions."""
    arrays = [array for array in source.arrays.values() if array.numeric and array.dims and len(array.dims) > 1]
    if not arrays and (series := _of_series(source)) is not None:
        return series
    dims = max((array.dims or () for array in arrays), key=len, default=())
    time = _time_of(source, dims)
    if time is None:
        return Reading(fields=_field_names(array.name for array in arrays))
    marked = {a.name for a in arrays if a.attributes.get("role") == "auxiliary"}
    fields = [a.name for a in arrays if time in (a.dims or ()) and a.name not in marked]
    first = next((source.arrays[name].dims or () for name in fields), ())
    same = [name for name in fields if set(source.arrays[name].dims or ()) == set(first)]
    stored = first == (time, "node") or source.mesh is not None
    axes = {} if stored else _axes([dim for dim in first if dim != time])
    has_coordinate = {a.name for a in source.arrays.values() if a.ndim == 1}
    lacking = [] if stored else [dim for dim in first if dim not in has_coordinate and dim != time]
    if time not in has_coordinate:
        lacking.append(time)
    return Reading(time=time, fields=_field_names(same), axes=axes, spacing=dict.fromkeys(lacking, 1.0))


def _of_series(source: DataSource) -> Reading | None:
    """All vectors over time, where a file has nothing else over time."""
    vectors = [array for array in source.arrays.values() if array.numeric and len(array.dims or ()) == 1]
    time = _time_of(source, tuple(dict.fromkeys(dim for array in vectors for dim in array.dims or ())))
    marked = {a.name for a in vectors if a.attributes.get("role") == "auxiliary"}
    fields = [a.name for a in vectors if a.dims == (time,) and a.name not in {time, *marked}]
    if time is None or not fields:
        return None
    spacing = {} if time in source.arrays else {time: 1.0}
    return Reading(time=time, fields=_field_names(fields, series=True), spacing=spacing)


def _time_of(source: DataSource, dims: tuple[str, ...]) -> str | None:
    """The dimension that is probably time."""
    named = [dim for dim in dims if _MEANING.get(dim.lower()) == "t"]
    dated = [dim for dim in dims if dim in source.arrays and source.arrays[dim].dtype.kind in "mM"]
    return next(iter((*dated, *named)), None)


def _axes(dims: list[str]) -> dict[str, str]:
    """Dimension to axis for those that are not called x, y, z; unknown ones get the axes that are left."""
    meant = {dim: _ROUND.get(dim.lower()) for dim in dims}
    if {"r", "phi"} & set(meant.values()) and None not in meant.values() and len(set(meant.values())) == len(dims):
        return {dim: str(axis) for dim, axis in meant.items() if dim != axis}
    axes = {dim: dim for dim in dims if dim in COORDINATE_NAMES}
    for dim in dims:
        usual = _MEANING.get(dim.lower())
        if dim not in axes and usual in COORDINATE_NAMES and usual not in axes.values():
            axes[dim] = usual
    free = [name for name in COORDINATE_NAMES if name not in axes.values()]
    # The last dimension varies fastest, as the columns of an image do, which are x.
    for dim, name in zip((dim for dim in reversed(dims) if dim not in axes), free, strict=False):
        axes[dim] = name
    return {dim: axes[dim] for dim in dims if dim in axes and axes[dim] != dim}


def _for_nameless(source: DataSource, given: tuple[str, ...] | None) -> Reading:
    """Axes by matching their lengths with arrays of one axis; the rest in the usual order with step 1."""
    array = _main(source)
    if array.name == IMAGE and given is None and array.ndim > 3 and array.shape[-1] in _COLOURS:
        raise DataError(
            f"{source.path}: the last axis of {array.name!r} {array.shape} looks like colours; save one of them, or "
            f"their mean, as a movie in grey, or write dims if it is an axis of space"
        )
    masks = [a.name for a in source.arrays.values() if a.dtype.kind == "b" and a.shape == array.shape]
    if masks and given is None:
        raise DataError(
            f"{source.path}: {masks[0]!r} has true and false in the shape of {array.name!r}, as a mask has, and masks "
            "are not applied: write NaN where nothing was measured, and leave the mask out"
        )
    if (axes := _axes_in_cell(source, array)) and given in (None, tuple(axes)):
        fields = _field_names(a.name for a in source.arrays.values() if a.shape == array.shape and a.numeric)
        return Reading(time="t", dims=tuple(axes), coordinates=axes, fields=fields)
    fitting = _fitting_dims(source, array)
    if given is not None:
        fitting = [dims for dims in fitting if dims == given]
    elif len(fitting) > 1 or (len(set(array.shape)) < array.ndim and array.name != IMAGE):
        first, *rest = _example_names(array)
        other = (first, *reversed(rest)) if len(rest) > 1 else (*rest, first)
        raise DataError(f"{source.path}: {_several(array, fitting or [(first, *rest), other])}")
    if fitting:
        dims = fitting[0]
        same = [a.name for a in source.arrays.values() if a.shape == array.shape and a.numeric]
        return Reading(time=_time_in(dims), dims=dims, fields=_field_names(same))
    coordinates: dict[str, str] = {}
    names: list[str | None] = []
    for size, dim in zip(array.shape, given or [None] * array.ndim, strict=False):
        own = [a.name for a in _vectors(source) if a.shape == (size,) and a.name not in coordinates.values()]
        own.sort(key=lambda name: _inside(name) != _inside(array.name))  # those of the same struct first
        meant = [(name, dim if dim == name else _meaning(name)) for name in own]
        name, axis = next(
            ((n, m) for n, m in meant if m is not None and m not in names and dim in (None, m)), (None, None)
        )
        names.append(axis)
        if name is not None and axis is not None and name != axis:
            coordinates[axis] = name
    usual = iter(name for name in _example_names(array) if name not in names)
    dims = given or tuple(name if name is not None else next(usual, f"axis{i}") for i, name in enumerate(names))
    lacking = [dim for dim, known in zip(dims, names, strict=False) if known is None]
    if given is not None:  # an array of the name with another length is an error that the reader reports
        there = {meaning for a in _vectors(source) for meaning in (a.name, _meaning(a.name))}
        lacking = [dim for dim in lacking if dim not in there]
    same = [a.name for a in source.arrays.values() if a.shape == array.shape and a.numeric]
    return Reading(
        time=_time_in(dims),
        dims=dims,
        coordinates=coordinates,
        spacing=dict.fromkeys(lacking, 1.0),
        fields={"u": IMAGE} if same == [IMAGE] else _field_names(same),
    )


def _inside(name: str) -> str:
    """The struct or cell of MATLAB that an array stands in; empty without one."""
    return name.rpartition("/")[0]


def _meaning(name: str) -> str | None:
    """The axis that an array is probably the coordinate of, by its name in its struct."""
    return _MEANING.get(name.rpartition("/")[2].lower())


def _axes_in_cell(source: DataSource, array: Array) -> dict[str, str]:
    """Coordinates by axis where a cell of MATLAB has them in the order of the axes, time last, as WSINDy's ``xs``."""
    dims = (*COORDINATE_NAMES[: array.ndim - 1], "t")
    for cell in dict.fromkeys(a.name.rpartition("/")[0] for a in _vectors(source)):
        names = [f"{cell}/{i + 1}" for i in range(array.ndim)]
        if len(dims) == array.ndim and [source.arrays[n].shape for n in names if n in source.arrays] == [
            (size,) for size in array.shape
        ]:
            return dict(zip(dims, names, strict=True))
    return {}


def _time_in(dims: tuple[str, ...]) -> str | None:
    return next((dim for dim in dims if dim in TIME_NAMES), None)


def _main(source: DataSource) -> Array:
    """The largest array of numbers with several axes."""
    several = [a for a in source.arrays.values() if a.numeric and a.ndim > 1 and a.dims is None]
    return max(several, key=lambda a: (a.ndim, _count(a)))


def _count(array: Array) -> int:
    total = 1
    for size in array.shape:
        total *= size
    return total


def _vectors(source: DataSource) -> list[Array]:
    return [a for a in source.arrays.values() if a.ndim == 1 and a.numeric]


def _fitting_dims(source: DataSource, array: Array) -> list[tuple[str, ...]]:
    """Orders of the arrays called x, y, z, t or time, or else r, phi, theta, whose lengths fit, time first."""
    fitting = _orders(source, array, COORDINATE_NAMES)
    return fitting or _orders(source, array, AXIS_NAMES)


def _orders(source: DataSource, array: Array, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    sizes = {a.name: a.shape[0] for a in _vectors(source) if a.name.lower() in (*axes, *TIME_NAMES)}
    ordered = sorted(sizes, key=lambda name: (name.lower() not in TIME_NAMES, name.lower()))
    return [
        names
        for names in permutations(ordered, array.ndim)
        if tuple(sizes[name] for name in names) == array.shape and any(name.lower() in TIME_NAMES for name in names)
    ]


def _example_names(array: Array) -> tuple[str, ...]:
    return ("t", *reversed(COORDINATE_NAMES[: max(array.ndim - 1, 1)]))


def _example(array: Array) -> str:
    return _line(_example_names(array))


def _line(dims: tuple[str, ...]) -> str:
    """Line of a settings file."""
    return f"dims = {list(dims)}".replace("'", '"')


def unit_of(array: Array) -> str:
    """The unit of an array by its attribute ``units``, or by its name, as in ``x [m]``; of dates seconds."""
    if array.dtype.kind in "mM":
        return "s"
    behind = _UNIT.search(array.name)
    if behind is None and _BEHIND.sub("", array.name.lower()) in _MEANING:
        behind = _BEHIND.search(array.name)
    unit = str(array.attributes.get("units", "" if behind is None else behind[0].strip("[]()_ ")))
    return unit if len(unit) <= _LONGEST_UNIT and unit.isprintable() and "$" not in unit else ""


def _field_names(names: Iterable[str], *, series: bool = False) -> dict[str, str]:
    """Names that fields may have to the names in the file."""
    found: dict[str, str] = {}
    for name in names:
        proper = _proper(name, series=series)
        found[next(n for n in (proper, *(f"{proper}{k}" for k in range(2, MOST_FIELDS + 3))) if n not in found)] = name
        if len(found) > MOST_FIELDS:
            raise DataError(
                f"fields: more than {MOST_FIELDS} arrays or columns could be fields; name those of interest in "
                '[data] of study.toml, such as fields = ["u"]'
            )
    return found


def _proper(name: str, *, series: bool = False) -> str:
    """The nearest name that a field may have, and that operators may use: letters of ASCII, digits and ``_``.

    A unit behind it is not part of it.
    """
    name = _UNIT.sub("", name).strip() or name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    try:
        return check_field_name(plain, series=series)
    except DataError:
        plain = re.sub(r"[\W_]+", "_", plain).strip("_")
        if not plain or plain[0].isdigit():
            plain = f"u{plain}"
        try:
            return check_field_name(plain)
        except DataError:
            return f"u_{plain}" if plain.isidentifier() else "u"
