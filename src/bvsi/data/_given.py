"""What Data are made from: masks of what was measured, and arrays whose axes have names or an agreed order.

They are stored as (times, nodes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask
from bvsi.data._arrays import real_array, slabs
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.smoothness import filled
from bvsi.errors import DataError

# What programs write where nothing was measured: defaults of NetCDF, Ferret, GRIB and GIS, limits of number types. Each
# also with the other sign.
_FILL_VALUES = (
    99.0, 999.0, 9999.0, 99999.0, 999999.0, 99.99, 999.9, 999.99, 9999.9, 9999.99, 32767.0, 32768.0, 65535.0,
    2147483647.0, 2147483648.0, 4294967295.0, 1e10, 1e15, 1e20, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38,
    9.969209968386869e36, 9.96921e36, 9.999e20, 9.99e33, 3.4028234663852886e38, 3.40282e38, 1.7976931348623157e308,
)  # fmt: skip
# Numbers in files are often single precision.
_DIGITS = 1.2e-7
# A well-known fill value is farther from all other values than these from each other. Any other number has to be so
# many times larger than one and all others, and to occur twice; smaller ones are left to the search for outliers.
_APART = 1.0
_ABSURD = 1e5  # not measured; physical fields rarely span five decades beyond one
# A lone number below may be a count, such as 99.
_COUNTS = 1e3
# Data that are nothing but one well-known fill value, or one other number, are refused from this size on.
_LARGE = 1e19


def check_missing(missing: object) -> None:
    """Refuse anything but ``None`` and ``"nan"``."""
    if missing is not None and missing != "nan":
        raise DataError(f"missing is {missing!r}; pass 'nan' where NaN means not measured, or leave it out")


def checked_masks(measured: object, names: tuple[str, ...], shape: tuple[int, int]) -> dict[str, Mask] | None:
    """Masks of all fields, True where measured; None where everything is.

    Parameters
    ----------
    measured
        Masks by name, each ``shape``; fields left out are measured everywhere.
    names
        The fields.
    shape
        Times and nodes.
    """
    if measured is None:
        return None
    if not isinstance(measured, Mapping):
        raise DataError(f"measured is a {type(measured).__name__}; pass masks by name, such as {{'u': mask}}")
    unknown = [name for name in measured if name not in names]
    if unknown:
        raise DataError(f"measured: {unknown[0]!r} is not a field; the fields are {', '.join(names)}")
    masks = {n: _mask(measured[n], n, shape) if n in measured else np.ones(shape, dtype=bool) for n in names}
    empty = [name for name, mask in masks.items() if not mask.any()]
    if empty:
        raise DataError(f"field {empty[0]!r} has no measured value; leave the field out")
    return None if all(mask.all() for mask in masks.values()) else masks


def check_fill(values: Array, what: str, mask: Mask | None = None) -> None:
    """Refuse numbers that stand for what was not measured.

    Such a number is the lowest or highest of all, and far from the rest: values at the edge of a range, as those of a
    saturated camera, and zeros of a count are not.

    Parameters
    ----------
    what
        The subject of the message, such as ``"field 'u'"``.
    mask
        Where values were measured, everywhere if None.
    """
    low, high = _End.of(values, mask, 1.0), _End.of(values, mask, -1.0)
    if not low.count:
        return
    for end, other in ((high, low), (low, high)):
        ends = [one for one in (end.next, other.value) if one is not None and one != end.value]
        if _is_fill(end.value, end.count, min(ends, default=None), max(ends, default=None)):
            raise DataError(
                f"{what} holds the value {end.value:.6g} {end.count} times, far from all others: it looks like a fill "
                "value that stands for what was not measured; write NaN there (in NetCDF, or declare it as "
                "_FillValue), and missing='nan'; where it was measured, leave that part of the data out"
            )


@dataclass(frozen=True)
class _End:
    """The lowest or highest of all values, how often it occurs, and the one next to it, if there is any."""

    value: float = np.inf
    count: int = 0
    next: float | None = None

    @staticmethod
    def of(values: Array, mask: Mask | None, sign: float) -> _End:
        """The lowest of all known values, with a sign of −1 the highest."""
        low, count, other = np.inf, 0, np.inf
        for rows in slabs(values):
            known = np.isfinite(values[rows]) if mask is None else np.isfinite(values[rows]) & mask[rows]
            some = sign * (values[rows] if known.all() else values[rows][known])
            if not some.size:
                continue
            own = float(some.min())
            same = some == own
            rest = float(some.min(where=~same, initial=np.inf))
            if own <= low:
                other, count = min(other, rest, low if low > own else np.inf), (count if own == low else 0)
                low, count = own, count + int(same.sum())
            else:
                other = min(other, own)
        return _End(sign * low, count, sign * other if np.isfinite(other) else None)


def _is_fill(value: float, count: int, low: float | None, high: float | None) -> bool:
    """Whether a value that occurs so often is a fill value, by its distance from the lowest and highest of others."""
    named = any(abs(abs(value) - fill) <= _DIGITS * fill for fill in _FILL_VALUES)
    if low is None or high is None:
        return named and abs(value) > _LARGE
    largest = max(abs(low), abs(high))
    if low == high and abs(value) <= _LARGE:
        return False  # two values, such as those of a binary image
    if abs(value) <= largest:
        return False
    if named and (count > 1 or abs(value) > _COUNTS):
        gap = max(value - high, low - value)
        return gap > _APART * (high - low) and gap > _APART * largest
    return count > 1 and abs(value) > _ABSURD * max(largest, 1.0)


def _mask(value: Any, name: str, shape: tuple[int, int]) -> Mask:
    mask = np.asarray(value)
    if mask.dtype != np.bool_:
        raise DataError(
            f"measured: the mask of field {name!r} has dtype {mask.dtype}; pass True where measured, such as "
            "numpy.isfinite(array)"
        )
    if mask.shape != shape:
        raise DataError(f"measured: the mask of field {name!r} has shape {mask.shape}, expected {shape} (times, nodes)")
    return mask


def frames_kept(masks: Mapping[str, Mask]) -> Mask:
    """Frames in which some value of some field was measured, (T,); at least one has to be."""
    kept = np.any([mask.any(axis=1) for mask in masks.values()], axis=0)
    if not kept.any():
        raise DataError(f"none of the {kept.size} frames has measured values; give frames that do")
    return np.asarray(kept)


def complete(values: Array, mask: Mask, geometry: Grid | Mesh, times: Array) -> Array:
    """Values (T, n_nodes) that are not finite and not measured replaced by interpolation of those measured.

    They stay within the range of the measured ones, so that operators that are finite there are finite everywhere.
    """
    gaps = ~mask & ~np.isfinite(values)
    if not gaps.any():
        return values
    known = values[mask]
    interpolated = filled(np.where(mask, values, np.nan), geometry, times)
    return np.where(gaps, np.clip(interpolated, known.min(), known.max()), values)


TIME, NODE = "time", "node"

Sizes = Mapping[str, int]


def axis_sizes(n_times: int, geometry: Grid | Mesh) -> dict[str, int]:
    """Name and size of every axis in the stored order: time, then the grid's axes or ``node``."""
    if isinstance(geometry, Grid):
        return {TIME: n_times, **dict(zip(geometry.names, geometry.shape, strict=True))}
    return {TIME: n_times, NODE: geometry.n_nodes}


def check_dims(dims: Sequence[str] | None, sizes: Sizes) -> tuple[str, ...] | None:
    """Return ``dims`` with ``t`` read as ``time``, after a check that they are the axes, each once."""
    if dims is None:
        return None
    named = tuple(TIME if name == "t" else name for name in dims)
    if isinstance(dims, str) or sorted(named) != sorted(sizes):
        raise DataError(
            f"dims is {dims!r}; it must name each of {', '.join(map(repr, sizes))} once, in the arrays' order"
        )
    return named


def arrange(value: ArrayLike, what: str, sizes: Sizes, dims: tuple[str, ...] | None) -> Array:
    """Array (times, nodes) from an array over time and space.

    Parameters
    ----------
    value
        Axes in the order ``dims``; without dims, in the order of ``sizes`` or flattened to (times, nodes).
    what
        Subject of the error messages.
    sizes
        Sizes from :func:`axis_sizes`.
    dims
        Names of the axes, checked by :func:`check_dims`.
    """
    array = _plain(value, what)
    flat = (sizes[TIME], _product(sizes) // max(sizes[TIME], 1))
    if dims is None and array.shape == flat:
        return array
    return _ordered(array, what, sizes, dims).reshape(flat)


def arrange_auxiliary(value: ArrayLike, what: str, sizes: Sizes, dims: tuple[str, ...] | None) -> Array:
    """Array (times, nodes) of a known field in time, or (nodes,) of a static one, which has no time axis.

    The number of axes tells them apart: a static array has one axis less than ``dims``, or than the grid's
    axes and time, or is flattened to (nodes,). One number holds everywhere.
    """
    array = _plain(value, what)
    space = {name: size for name, size in sizes.items() if name != TIME}
    n_nodes = _product(space)
    if not space:  # of a series: one number, or one per time
        return array.reshape(1) if array.size == 1 else arrange(array, what, sizes, dims)
    if array.ndim == 0:  # a known quantity of the experiment, such as its temperature
        return np.full(n_nodes, float(array))
    static_axes = (len(space),) if dims is not None else (1, len(space))
    if array.ndim not in static_axes or (dims is None and array.shape == (sizes[TIME], n_nodes)):
        return arrange(array, what, sizes, dims)
    if dims is None and array.shape == (n_nodes,):
        return array
    static_dims = None if dims is None else tuple(name for name in dims if name != TIME)
    return _ordered(array, what, space, static_dims).reshape(n_nodes)


def _plain(value: ArrayLike, what: str) -> Array:
    """Numbers of ``value``; labelled arrays are refused, since their labels would be ignored."""
    if hasattr(value, "dims"):
        raise DataError(f"{what} is an xarray object; use Data.from_xarray, which reads the names of its dimensions")
    return real_array(value, what)


def _product(sizes: Sizes) -> int:
    return int(np.prod(list(sizes.values())))


def _ordered(array: Array, what: str, sizes: Sizes, dims: tuple[str, ...] | None) -> Array:
    """Transpose ``array`` from the order ``dims`` to that of ``sizes``, after a check of every size."""
    names = tuple(sizes) if dims is None else dims
    expected = tuple(sizes[name] for name in names)
    if array.shape != expected:
        raise DataError(f"{what}: {_mismatch(array.shape, names, expected)}{_advice(array.shape, sizes, dims)}")
    return array.transpose([names.index(name) for name in sizes])


def _mismatch(shape: tuple[int, ...], names: tuple[str, ...], expected: tuple[int, ...]) -> str:
    """Say which axis is wrong, with both sizes."""
    if len(shape) != len(expected):
        axes = ", ".join(f"{name} {size}" for name, size in zip(names, expected, strict=True))
        return f"it has {len(shape)} axes {shape}, expected are {len(expected)} ({axes})"
    axis = next(i for i, (a, b) in enumerate(zip(shape, expected, strict=True)) if a != b)
    owner = {TIME: "times", NODE: "the mesh"}.get(names[axis], "the grid")
    verb = "have" if owner == "times" else "has"
    return f"axis {axis} ({names[axis]!r}) has {shape[axis]} entries, {owner} {verb} {expected[axis]}"


def _advice(shape: tuple[int, ...], sizes: Sizes, dims: tuple[str, ...] | None) -> str:
    """Say which order of the axes would fit, if any."""
    # Auxiliary arrays without time are named by the dims of the fields, so time is listed in any case.
    fitting = [p for p in permutations(sizes) if tuple(sizes[name] for name in p) == shape]
    if set(sizes) == {TIME}:
        remedy = "pass geometry=Grid(x=...), or one Data per trajectory"
        return f"; without geometry every field is one series (T,): {remedy}"
    if not fitting:
        return "; pass dims=(...) to name the axes if the order differs" if dims is None else "; check dims and shape"
    order = fitting[0] if TIME in sizes else (TIME, *fitting[0])
    choice = "" if len(fitting) == 1 else ", or another order that fits; only you know which"
    return f"; the sizes fit in another order: pass dims={order}{choice}"
