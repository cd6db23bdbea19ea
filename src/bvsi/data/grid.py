"""Tensor-product grids, uniform or not, with periodic axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.common.naming import COORDINATES
from bvsi.data._arrays import check_increasing, frozen, interval, read_only, real_array
from bvsi.errors import DataError

Periodic = Iterable[str] | Mapping[str, float]

# Coordinates kept as float32 or rounded in a file miss a uniform spacing by less than this fraction of it.
_UNIFORM_TOLERANCE = 1e-3
# A closing gap below this fraction of the period is rounding: the end point repeats the first.
_GAP_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Grid:
    """Tensor-product grid x_0 < x_1 < … on each axis; nodes are numbered in C order (last axis fastest).

    On a periodic axis the end point is left out: the node at ``x_0 + period`` is ``x_0`` again. ::

        Grid(x=xs, y=ys)                          Grid(x=xs, periodic="x")
        Grid(x=xs, y=ys, periodic=("x", "y"))     Grid(x=xs, periodic={"x": 2 * np.pi})

        Grid(r=rs, phi=angles, coordinates="polar", periodic="phi")

    ``Grid()`` has no axes and one node: that of a series, a system without space.

    With the bare name the period of a uniform axis of n points is n times its spacing; a non-uniform axis
    needs its period. Without a period nothing can show that the end point was kept by mistake: give the
    period where it is known.

    Attributes
    ----------
    axes
        Name from x, y, z to strictly increasing coordinates (n,), in the order of the arguments; at least 2 points, on
        a periodic axis at least 3.
    periods
        Name to period, for the periodic axes.
    coordinates
        ``"cartesian"``, or what the axes are instead: ``"polar"`` (r, phi), ``"cylindrical"`` (r, phi, z),
        ``"spherical"`` (r, theta, phi). Nothing depends on axes that are left out. grad, div and laplacian of operators
        are those of these coordinates.
    """

    axes: Mapping[str, Array]
    periods: Mapping[str, float]
    coordinates: str

    def __init__(self, *, periodic: Periodic = (), coordinates: str = "cartesian", **axes: ArrayLike) -> None:
        if coordinates not in COORDINATES:
            raise DataError(f"coordinates: {coordinates!r} is none of {', '.join(COORDINATES)}")
        names = COORDINATES[coordinates]
        unknown = [name for name in axes if name not in names]
        if unknown:
            other = "" if coordinates != "cartesian" else ", or say what it is, such as coordinates='polar'"
            raise DataError(f"grid: axis {unknown[0]!r} is none of {', '.join(names)}; rename it to one of them{other}")
        made = {name: _coordinates(name, values) for name, values in axes.items()}
        _check_origin(made, coordinates)
        object.__setattr__(self, "axes", read_only(made))
        object.__setattr__(self, "periods", read_only(_periods(made, periodic)))
        object.__setattr__(self, "coordinates", coordinates)

    def on(self, axes: Mapping[str, Array]) -> Grid:
        """The same coordinates and periods with other nodes."""
        return Grid(periodic=self.periods, coordinates=self.coordinates, **axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(self.axes)

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along each axis."""
        return tuple(axis.size for axis in self.axes.values())

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the product of ``shape``."""
        return int(np.prod(self.shape))

    @cached_property
    def points(self) -> Array:
        """Coordinates of the nodes, (n_nodes, dim)."""
        if not self.axes:
            return frozen(np.zeros((1, 0)))
        mesh = np.meshgrid(*self.axes.values(), indexing="ij")
        return frozen(np.stack([values.ravel() for values in mesh], axis=1))

    @property
    def summary(self) -> str:
        """Size and extent as a short text."""
        if not self.axes:
            return "one point, no space"
        ends = {name: axis[0] + self.periods.get(name, axis[-1] - axis[0]) for name, axis in self.axes.items()}
        extent = " × ".join(
            interval(axis[0], ends[name], open_end=name in self.periods) for name, axis in self.axes.items()
        )
        periodic = f", periodic in {', '.join(self.periods)}" if self.periods else ""
        system = "" if self.coordinates == "cartesian" else f" ({self.coordinates} coordinates)"
        return f"{' × '.join(map(str, self.shape))} in {extent}{periodic}{system}"

    def __repr__(self) -> str:
        return f"Grid: {', '.join((*self.names, self.summary))}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self.axes), dict(self.periods), self.coordinates)


def _rebuild(axes: dict[str, Array], periods: dict[str, float], coordinates: str) -> Grid:
    """Make a grid again when unpickled or copied, since arrays lose their read-only mark on the way."""
    return Grid(periodic=periods, coordinates=coordinates, **axes)


def _check_origin(axes: Mapping[str, Array], coordinates: str) -> None:
    """Refuse nodes where coordinates are singular: r = 0, and theta at a pole."""
    if coordinates != "cartesian" and "r" in axes and axes["r"][0] <= 0:
        raise DataError(
            f"axis 'r' begins at {axes['r'][0]:g}; leave out the nodes with r = 0, where phi has no meaning"
        )
    theta = axes.get("theta")
    if theta is not None and not (theta[0] > 0 and theta[-1] < np.pi):
        raise DataError("axis 'theta' is the angle from the pole, between 0 and pi; leave out the poles")


def _coordinates(name: str, values: ArrayLike) -> Array:
    """Checked read-only coordinates of one axis, (n,)."""
    axis = real_array(values, f"axis {name!r}")
    check_increasing(axis, f"axis {name!r}", "sort the coordinates, and the data with them, and drop repetitions")
    if axis.size < 2:
        raise DataError(f"axis {name!r} has {axis.size} points, at least 2 are needed; leave out a single-point axis")
    return frozen(axis)


def _periods(axes: Mapping[str, Array], periodic: Periodic) -> dict[str, float]:
    """Period of each periodic axis, in the order of the axes."""
    names = (periodic,) if isinstance(periodic, str) else tuple(periodic)
    unknown = [name for name in names if name not in axes]
    if unknown:
        raise DataError(f"periodic: {unknown[0]!r} is not an axis of the grid; its axes are {', '.join(axes)}")
    given = {name: _number(name, period) for name, period in periodic.items()} if isinstance(periodic, Mapping) else {}
    periods = {}
    for name, axis in axes.items():
        if name in names:
            if axis.size < 3:
                raise DataError(f"axis {name!r} is periodic and has {axis.size} points; it needs at least 3")
            periods[name] = given[name] if name in given else _uniform_period(name, axis)
            _check_gap(name, axis, periods[name])
    return periods


def _number(name: str, period: object) -> float:
    """Return ``period`` as a finite float."""
    value = real_array(period, f"period of axis {name!r}")  # type: ignore[arg-type]
    if value.ndim != 0 or not np.isfinite(value):
        raise DataError(f"period of axis {name!r} is {period!r}; give one finite number")
    return float(value)


def _uniform_period(name: str, axis: Array) -> float:
    """Period n·h of a uniform axis with n points and spacing h."""
    h = (axis[-1] - axis[0]) / (axis.size - 1)
    if np.max(np.abs(axis - (axis[0] + h * np.arange(axis.size)))) > _UNIFORM_TOLERANCE * h:
        raise DataError(
            f"axis {name!r} is periodic and not uniform, so its period is not known; pass periodic={{{name!r}: period}}"
        )
    return float(h * axis.size)


def _check_gap(name: str, axis: Array, period: float) -> None:
    """Refuse a period that leaves no cell between the last node and the first."""
    span = float(axis[-1] - axis[0])
    if period - span <= _GAP_TOLERANCE * span:
        raise DataError(
            f"axis {name!r} spans {span:g}, its period {period:g} must be greater: the end point probably "
            "repeats the first; drop the last coordinate and the data there"
        )
