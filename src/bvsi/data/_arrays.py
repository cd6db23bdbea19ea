"""Arrays and names at the border: conversion to real float64, read-only copies, names that operators can use."""

from __future__ import annotations

import keyword
import mmap
import tempfile
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array
from bvsi.common.naming import CONSTANT_NAMES, COORDINATE_NAMES, DERIVATIVES, FUNCTION_NAMES
from bvsi.errors import DataError

T = TypeVar("T")

# Imaginary part relative to the largest real one that spectral solvers leave behind.
_ROUNDING = 1e-6
# Values of a slab, 32 MB; bounds memory.
_SLAB = 4_000_000

# Smallest step of an axis over its largest: with less, differences of a few neighbouring nodes lose all their digits.
_UNEVEN = 1e-9


def real_array(value: ArrayLike, what: str) -> Array:
    """Float64 array of the numbers in ``value``; real part of complex numbers whose imaginary part is rounding.

    The result may share memory with ``value``. Values may still be NaN or infinite.

    Parameters
    ----------
    value
        Array of integers, floats of any width, or complex numbers with an imaginary part below 10⁻⁶ of the size.
    what
        The subject of the error messages, such as ``"field 'u'"``.
    """
    if np.ma.is_masked(value):
        raise DataError(
            f"{what} has masked values; fill them, or select a part of the data without them; values that were not "
            "measured are passed as NaN, array.filled(numpy.nan), with missing='nan'"
        )
    try:
        array: NDArray[Any] = np.asarray(value)
    except ValueError as error:  # ragged nested lists
        raise DataError(f"{what} is not a rectangular array of numbers; give rows of equal length") from error
    kind = array.dtype.kind
    if kind == "c":
        if np.any(np.abs(array.imag) > _ROUNDING * np.abs(array.real).max(initial=0.0)):
            raise DataError(
                f"{what} is complex with a non-zero imaginary part; pass its real part (.real), "
                "or real and imaginary part as two fields"
            )
        array = array.real
    elif kind in "mM":
        raise DataError(
            f"{what} has dtype {array.dtype}; convert it to numbers, for seconds since the first entry: "
            "(t - t[0]) / numpy.timedelta64(1, 's')"
        )
    elif kind not in "iuf":
        raise DataError(f"{what} has dtype {array.dtype}, which is not numeric; convert it with .astype(float)")
    return array.astype(np.float64, copy=False)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only C-ordered copy of ``array``; itself where it is read-only: its own memory, or a file that is mapped."""
    alone = array.flags.owndata and not array.flags.writeable
    if array.flags.c_contiguous and (alone or mapped(array) is not None):
        return array
    copy = np.array(array, order="C", copy=True)
    copy.setflags(write=False)
    return copy


def mapped(array: Any) -> np.memmap[Any, Any] | None:
    """The file that is mapped read-only into memory in which values stand; None where there is none."""
    base = _file(array)
    return base if base is not None and base.mode == "r" else None


def scratch(like: NDArray[Any]) -> NDArray[Any]:
    """An array of that shape: in memory, or in a temporary file where the other is one that is mapped."""
    if mapped(like) is None:
        return np.empty(like.shape, like.dtype)
    with tempfile.TemporaryFile() as file:  # it is gone with the last array that stands in it
        return np.memmap(file, dtype=like.dtype, mode="w+", shape=like.shape)


def taken(values: NDArray[Any], rows: Any, columns: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Some rows and columns of values (T, n): as NumPy takes them, or in a file where those are a file that is mapped.

    Parameters
    ----------
    rows
        Slice or integers.
    columns
        Mask (n,), all if None.
    """
    if mapped(values) is None:
        return np.asarray(values[rows] if columns is None else values[rows][:, columns])
    index = np.arange(len(values))[rows]
    step = max(1, _SLAB // values.shape[1])
    with tempfile.TemporaryFile() as file:  # it is gone with the last array that stands in it
        for own in (index[start : start + step] for start in range(0, len(index), step)):
            file.write(np.ascontiguousarray(values[own] if columns is None else values[own][:, columns]).data)
            release(values)
        file.flush()
        width = values.shape[1] if columns is None else int(columns.sum())
        return np.memmap(file, dtype=values.dtype, mode="r", shape=(len(index), width))


def _file(array: Any) -> np.memmap[Any, Any] | None:
    base = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    return base


def slabs(values: NDArray[Any]) -> Iterator[slice]:
    """Some rows after the other, so that what is made of them takes little memory.

    Pages of a mapped file are given back behind them.
    """
    step = max(1, _SLAB * len(values) // max(1, values.size))
    for start in range(0, len(values), step):
        yield slice(start, start + step)
        release(values)


def release(values: NDArray[Any]) -> None:
    """Give the memory of a mapped file back; its pages are read again when they are needed."""
    file = _file(values)
    if file is not None and file.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):  # that of a copy would be lost
        file._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def read_only(mapping: Mapping[str, T]) -> Mapping[str, T]:
    """Read-only ordered copy of ``mapping``."""
    return MappingProxyType(dict(mapping))


def check_increasing(values: Array, what: str, remedy: str) -> None:
    """Refuse ``values`` (n,) that are not one-dimensional, finite and strictly increasing; name the index."""
    if values.ndim != 1:
        raise DataError(f"{what} must be one-dimensional, got shape {values.shape}; pass the n values as (n,)")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(
            f"{what} has {bad.size} values that are not finite, first at index {bad[0]}; drop these entries, and "
            "the data that belong to them"
        )
    with np.errstate(over="ignore"):  # an infinite step is refused below
        steps = np.diff(values)
    bad = np.flatnonzero(steps <= 0)
    if bad.size and bad.size == values.size - 1 and np.all(steps < 0):
        raise DataError(
            f"{what} must be strictly increasing; it decreases from {values[0]:g} to {values[-1]:g}; turn it round "
            "with [::-1], and the data with it if they run backwards too (in xarray: ds.sortby)"
        )
    if bad.size:
        i = int(bad[0])
        fault = "repeats its value" if values[i + 1] == values[i] else "decreases"
        raise DataError(
            f"{what} must be strictly increasing; it {fault} at index {i + 1} "
            f"({values[i]:g} then {values[i + 1]:g}); {remedy}"
        )
    if steps.size and not steps.min() > _UNEVEN * steps.max():
        raise DataError(
            f"{what} has steps from {steps.min():.2g} to {steps.max():.2g}; no computation resolves both, and some "
            "values may be damaged: correct or drop them, and the data that belong to them"
        )


def interval(low: float, high: float, open_end: bool = False) -> str:
    """Short text of an interval, ``[0, 1]`` or ``[0, 1)``."""
    return f"[{low:.4g}, {high:.4g}{')' if open_end else ']'}"


# Dimensions and coordinates of the xarray form; a variable of the same name would replace them.
_STORAGE = ("time", "node", "mesh_cells", "mesh_cell", "mesh_cell_node")

#: Words with a meaning of their own in operator texts or in stored data: no field may be called so.
RESERVED_NAMES: frozenset[str] = frozenset(
    (*COORDINATE_NAMES, "t", *CONSTANT_NAMES, *DERIVATIVES, "diff", *FUNCTION_NAMES, *_STORAGE)
)


def check_field_name(name: object, what: str = "field", *, series: bool = False) -> str:
    """Return ``name`` if a field may be called so: an identifier that is not reserved, without ``__`` or a last ``_``.

    Parameters
    ----------
    name
        The proposed name.
    what
        The noun for the error message, such as ``"auxiliary field"``.
    series
        Whether there is no space, so that x, y, z are not coordinates and fields may be called so.
    """
    if not isinstance(name, str):
        raise DataError(f"{what} name {name!r} is not a text; name it like 'u'")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise DataError(
            f"{what} name {name!r} is not an identifier; rename it: letters, digits and '_', "
            "not starting with a digit, no Python keyword"
        )
    if name.endswith("_") or "__" in name:
        raise DataError(
            f"{what} name {name!r} ends with '_' or holds '__', which mark derivatives inside operators; rename it"
        )
    if name in RESERVED_NAMES and not (series and name in COORDINATE_NAMES):
        raise DataError(f"{what} name {name!r} is reserved (coordinate, operator, function or storage name); rename it")
    return name
