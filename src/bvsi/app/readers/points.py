"""Positions of sensors or nodes: whether they form a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Mesh

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Coordinates that differ by less than this fraction of the extent are one, rounded in different ways.
_SAME = 1e-9
_GRID_CELLS = {1: "line", 2: "quad", 3: "hexahedron"}


@dataclass(frozen=True)
class Lattice:
    """A tensor grid found in a list of points.

    Attributes
    ----------
    axes
        Coordinates of each axis, increasing.
    place
        Number of each point in the grid in C order, (n,).
    """

    axes: tuple[Floats, ...]
    place: Integers

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def order(self) -> Integers:
        """Points in C order of the grid, (n,)."""
        return np.argsort(self.place)


def lattice(points: Floats) -> Lattice | None:
    """The full tensor grid that points (n, dim) form, in any order; None where they do not."""
    found = [_levels(column) for column in points.T]
    shape = tuple(axis.size for axis, _ in found)
    if np.prod(shape, dtype=float) != len(points) or min(shape) < 2:
        return None
    place = np.ravel_multi_index(tuple(index for _, index in found), shape).astype(np.int64)
    if np.unique(place).size != len(points):
        return None
    return Lattice(tuple(axis for axis, _ in found), place)


def _levels(column: Floats) -> tuple[Floats, Integers]:
    """Distinct values of a column, increasing, and which of them each entry is."""
    values, inverse = np.unique(column, return_inverse=True)
    new = np.concatenate([[True], np.diff(values) > _SAME * np.ptp(values)])
    return values[new], (np.cumsum(new) - 1)[inverse]


def lattice_of_mesh(mesh: Mesh) -> Lattice | None:
    """The grid whose cells are exactly those of a mesh of lines, quadrilaterals or hexahedra; None where it is not."""
    if mesh.cell_type != _GRID_CELLS[mesh.dim]:
        return None
    found = lattice(mesh.points)
    if found is None or len(mesh.cells) != np.prod([n - 1 for n in found.shape]):
        return None
    index = np.stack(np.unravel_index(found.place[mesh.cells], found.shape))  # (dim, m, nodes)
    unit = bool(np.all(np.ptp(index, axis=2) == 1))
    corners = np.ravel_multi_index(tuple(index.min(axis=2)), found.shape)
    return found if unit and np.unique(corners).size == len(mesh.cells) else None
