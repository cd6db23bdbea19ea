"""Coordinates of the dimensions of a file, and the ranges selected on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.names import TIME_NAMES
from bvsi.app.readers.reading import Range, Reading
from bvsi.app.readers.source import Array, DataSource
from bvsi.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """An axis of the fields.

    Attributes
    ----------
    dim
        Its dimension in the file.
    name
        Time, x, y, z, or node.
    values
        Coordinates (n,) in increasing order; None for nodes.
    length
        Entries in the file.
    start
        First entry read.
    flipped
        Whether the coordinates decrease in the file.
    note
        What was changed, in words.
    """

    dim: str
    name: str
    values: Floats | None
    length: int
    start: int = 0
    flipped: bool = False
    note: str = ""

    @property
    def size(self) -> int:
        """Entries that are read."""
        return self.length if self.values is None else self.values.size

    @property
    def window(self) -> slice:
        """Entries of the file that are read, in its order."""
        return slice(self.start, self.start + self.size)

    @property
    def cut(self) -> bool:
        """Whether only a part is read."""
        return self.size < self.length


def axis_of(source: DataSource, reading: Reading, dim: str, name: str, size: int) -> Axis:
    """The axis of a dimension, with coordinates from the file or from the spacing given.

    Parameters
    ----------
    name
        Name of the axis in bvsi: time, x, y or z.
    size
        Entries along the dimension.
    """
    if 8.0 * size > reading.max_memory:
        raise DataError(
            f"dimension {dim!r} has {size} entries, whose coordinates alone take more than max_memory; the file may be "
            "damaged"
        )
    aliases = (dim, name, *(TIME_NAMES if name == "time" else ()))
    given = next((reading.coordinates[key] for key in aliases if key in reading.coordinates), None)
    if given is not None and given not in source.arrays:
        raise DataError(f"coordinates: there is no array {given!r} in {source.path}; it has {', '.join(source.arrays)}")
    step = next((reading.spacing[key] for key in aliases if key in reading.spacing), None)
    if given is None and step is not None:
        if not (np.isfinite(step) and step > 0):
            raise DataError(f"spacing: the step of {dim!r} is {step!r}; give a positive number")
        return Axis(dim, name, float(step) * np.arange(size, dtype=np.float64), size)
    array = source.arrays[given] if given is not None else _own(source, dim, name, size)
    if array is None:
        raise DataError(
            f"dimension {dim!r} ({size} entries) has no coordinate in the file; {_remedy(source, dim, size)}"
        )
    return _oriented(Axis(dim, name, None, size), array)


def _own(source: DataSource, dim: str, name: str, size: int) -> Array | None:
    """The array of a dimension's name; for the time also called time or t."""
    names = [dim]
    if name == "time":
        names += [other for other in source.arrays if other.lower() in TIME_NAMES]
    fitting = (source.arrays[n] for n in names if n in source.arrays and source.arrays[n].dims in (None, (dim,)))
    return next((array for array in fitting if array.shape == (size,) or array.name == dim), None)


def _remedy(source: DataSource, dim: str, size: int) -> str:
    """What to write for a dimension without coordinate."""
    fitting = [array.name for array in source.arrays.values() if array.shape == (size,) and array.numeric]
    step = f"write spacing = {{ {dim} = 0.1 }} with its step"
    return f'write coordinates = {{ {dim} = "{fitting[0]}" }}, or {step}' if fitting else step


def _oriented(axis: Axis, array: Array) -> Axis:
    """The axis with the numbers of an array, in increasing order."""
    if array.shape != (axis.length,):
        raise DataError(
            f"coordinates: {array.name!r} has shape {array.shape}, dimension {axis.dim!r} has {axis.length} entries; "
            "name the one-dimensional array that belongs to it"
        )
    values, note = _numbers(array)
    flipped = axis.name != "time" and values.size > 1 and bool(np.all(np.diff(values) < 0))
    if flipped:
        values, note = values[::-1], f"axis {axis.name!r} decreases in the file and was turned round"
    return replace(axis, values=values, flipped=flipped, note=note)


def _numbers(array: Array) -> tuple[Floats, str]:
    """Coordinates as numbers; dates and durations become seconds since the first."""
    values = array.values()
    if values.dtype.kind == "O" and values.size and hasattr(values[0], "calendar"):  # dates of cftime
        return np.array([(v - values[0]).total_seconds() for v in values]), _DATES
    if values.dtype.kind in "mM":
        if (lacking := np.flatnonzero(np.isnat(values))).size:
            raise DataError(
                f"coordinate {array.name!r} has {lacking.size} entries without a date (NaT), first at index "
                f"{lacking[0]}; drop these entries, and the values that belong to them"
            )
        return np.asarray((values - values[0]) / np.timedelta64(1, "s"), dtype=np.float64), _DATES
    if values.dtype.kind not in "iuf":
        raise DataError(f"coordinate {array.name!r} has the type {values.dtype}; it must hold numbers or dates")
    return values.astype(np.float64), ""


_DATES = "the times are dates in the file; they count in seconds since the first"


def trimmed(axis: Axis, reading: Reading) -> Axis:
    """The axis cut to the range that is selected on it."""
    aliases = (axis.dim, axis.name, *(("t",) if axis.name == "time" else ()))
    limits = next((reading.select[key] for key in aliases if key in reading.select), None)
    if limits is None or axis.values is None:
        return axis
    low, high = _limits(axis.dim, limits)
    inside = np.flatnonzero((axis.values >= low) & (axis.values <= high))
    if not inside.size:
        raise DataError(
            f"select: no entry of {axis.dim!r} lies in [{low:g}, {high:g}]; it runs from {axis.values[0]:g} to "
            f"{axis.values[-1]:g}"
        )
    first, last = int(inside[0]), int(inside[-1])
    if last - first + 1 != inside.size:
        raise DataError(f"select: the coordinate {axis.dim!r} is not sorted; sort the data by it first")
    start = axis.length - 1 - last if axis.flipped else first
    return replace(axis, values=axis.values[first : last + 1], start=start)


def _limits(dim: str, limits: Range) -> tuple[float, float]:
    """Lowest and highest coordinate, infinite where there is no limit."""
    try:
        low, high = limits
        ends = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    except (TypeError, ValueError) as error:
        raise DataError(f"select: the range of {dim!r} is {limits!r}; give lowest and highest value") from error
    if np.isnan(ends).any():
        raise DataError(f"select: the range of {dim!r} is {limits!r}, and NaN is not a limit; give two numbers")
    if not ends[0] <= ends[1]:
        raise DataError(f"select: the range of {dim!r} is {limits!r}; the lowest value comes first")
    return ends
