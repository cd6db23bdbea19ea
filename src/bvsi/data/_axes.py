"""Arrays with named or agreed axes to the stored form (times, nodes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.data._arrays import real_array
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.errors import DataError

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
    axes and time, or is flattened to (nodes,).
    """
    array = _plain(value, what)
    space = {name: size for name, size in sizes.items() if name != TIME}
    n_nodes = _product(space)
    if not space:  # of a series: one number, or one per time
        return array.reshape(1) if array.size == 1 else arrange(array, what, sizes, dims)
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
