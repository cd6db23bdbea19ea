"""Unstructured meshes of one cell type, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.data._arrays import Floats, frozen, interval, real_array
from bvsi.data.cells import CELL_TYPES, CellType
from bvsi.data.names import COORDINATE_NAMES
from bvsi.errors import DataError

Integers = NDArray[np.int64]

# A determinant below this fraction of (longest edge)^dim is zero up to the rounding of the coordinates.
_FLAT = 1e-13
# A wrong node order is systematic, so that some cells show it; comparing the nodes of all would be slow.
_CELLS_LOOKED_AT = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """Unstructured mesh; every point is a data node, and every cell has the same type.

    points: coordinates of the nodes, (n_nodes, dim).
    cells: node indices of each cell in meshio's order, (m, nodes per cell); either orientation.
    cell_type: line, line3, triangle, triangle6, quad, quad9, tetra, tetra10, hexahedron or hexahedron27;
        the second-order types carry the nodes on edges, faces and in the centre as data nodes.
    """

    points: Floats
    cells: Integers
    cell_type: str

    def __post_init__(self) -> None:
        cell = _cell_type(self.cell_type)
        points = _points(self.points, cell)
        cells = _cells(self.cells, cell, len(points))
        _check_use(cells, len(points))
        _check_volume(points, cells, cell)
        _check_middles(points, cells, cell)
        object.__setattr__(self, "points", frozen(points))
        object.__setattr__(self, "cells", frozen(cells))

    @property
    def cell(self) -> CellType:
        """Description of the cell type: reference coordinates of its nodes in meshio's order."""
        return CELL_TYPES[self.cell_type]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, the first ``dim`` of x, y, z."""
        return COORDINATE_NAMES[: self.dim]

    @property
    def dim(self) -> int:
        """Dimension of the space and of the cells."""
        return int(self.points.shape[1])

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.points.shape[0])

    @property
    def degree(self) -> int:
        """Polynomial degree that the nodes of a cell carry, 1 or 2."""
        return self.cell.degree

    @property
    def vertices_per_cell(self) -> int:
        """Number of corners of a cell; they come first in its row of ``cells``."""
        return len(self.cell.vertices)

    @property
    def summary(self) -> str:
        """Size and extent as a short text."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        extent = " × ".join(interval(a, b) for a, b in zip(low, high, strict=True))
        return f"{len(self.cells)} {self.cell_type} cells, {self.n_nodes} nodes in {extent}"

    def __repr__(self) -> str:
        return f"Mesh: {self.summary}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew when unpickled or copied, since arrays lose their read-only mark on the way.
        return Mesh, (self.points, self.cells, self.cell_type)


def _cell_type(name: str) -> CellType:
    """Look up a cell type."""
    if name not in CELL_TYPES:
        raise DataError(f"cell_type {name!r} is not supported; convert the mesh to one of {', '.join(CELL_TYPES)}")
    return CELL_TYPES[name]


def _points(value: ArrayLike, cell: CellType) -> Floats:
    """Checked coordinates, (n, dim)."""
    points = real_array(value, "points")
    if points.ndim != 2:
        raise DataError(f"points must have the shape (n, {cell.dim}), got {points.shape}; one row per node")
    dim = points.shape[1]
    if dim > cell.dim and not np.any(points[:, cell.dim :]):
        raise DataError(
            f"points have {dim} columns, {cell.name} cells need {cell.dim}, and the rest is zero: "
            f"drop the column{'s' * (dim - cell.dim > 1)} with points[:, :{cell.dim}]"
        )
    if dim != cell.dim:
        raise DataError(
            f"points have {dim} columns, {cell.name} cells need {cell.dim}; "
            "curves and surfaces embedded in a higher dimension are not supported"
        )
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise DataError(f"points: {bad.size} points have coordinates that are not finite (NaN), first point {bad[0]}")
    return points


def _cells(value: ArrayLike, cell: CellType, n_nodes: int) -> Integers:
    """Checked node indices, (m, nodes per cell)."""
    cells: NDArray[Any] = np.asarray(value)
    if cells.dtype.kind not in "iu":
        raise DataError(f"cells have dtype {cells.dtype}; give node indices as integers")
    if cells.ndim != 2 or cells.shape[1] != cell.n_nodes or not len(cells):
        raise DataError(
            f"cells must have the shape (m, {cell.n_nodes}) for {cell.name} cells, got {cells.shape}; "
            "one row of node indices per cell"
        )
    low, high = int(cells.min()), int(cells.max())
    if low < 0 or high >= n_nodes:
        hint = "; the indices seem to start at 1: subtract 1" if low == 1 and high == n_nodes else ""
        raise DataError(f"cells: indices run from {low} to {high}, the points from 0 to {n_nodes - 1}{hint}")
    ordered = np.sort(cells, axis=1)
    bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if bad.size:
        raise DataError(
            f"cells: {bad.size} cells have a duplicated node, first cell {bad[0]} "
            f"({', '.join(map(str, cells[bad[0]]))}); drop or repair them"
        )
    return cells.astype(np.int64, copy=False)


def _check_use(cells: Integers, n_nodes: int) -> None:
    """Refuse points that belong to no cell: no test function would see their data."""
    used = np.zeros(n_nodes, dtype=bool)
    used[cells] = True
    bad = np.flatnonzero(~used)
    if bad.size:
        first = ", ".join(map(str, bad[:5])) + (", …" if bad.size > 5 else "")
        raise DataError(
            f"points: {bad.size} of {n_nodes} are used by no cell ({first}); "
            "drop them from points and data, and renumber the cells"
        )


def _corner_determinants(corners: Floats, cell: CellType) -> tuple[Floats, Floats]:
    """Determinants of the map from the reference cell at its corners, (m, corners), and scale h^dim, (m,).

    At a corner of a cube the Jacobian consists of the edges that meet there; that of a simplex is constant.

    corners: coordinates of the vertices, (m, vertices, dim).
    """
    place = {vertex: i for i, vertex in enumerate(cell.vertices)}
    determinants = []
    longest = np.zeros(len(corners))
    for vertex in cell.vertices[:1] if cell.simplex else cell.vertices:
        ends = [[place[(*vertex[:a], end, *vertex[a + 1 :])] for a in range(cell.dim)] for end in (0, 1)]
        edges = corners[:, ends[1]] - corners[:, ends[0]]
        determinants.append(np.linalg.det(edges))
        longest = np.maximum(longest, np.linalg.norm(edges, axis=2).max(axis=1))
    return np.stack(determinants, axis=1), longest**cell.dim


def _check_volume(points: Floats, cells: Integers, cell: CellType) -> None:
    """Refuse cells without volume, and quadrilaterals and hexahedra that are folded onto themselves."""
    determinants, scale = _corner_determinants(points[cells[:, : len(cell.vertices)]], cell)
    tolerance = _FLAT * scale[:, None]
    positive, negative = (determinants > tolerance).any(axis=1), (determinants < -tolerance).any(axis=1)
    flat = np.flatnonzero(~(positive | negative))
    if flat.size:
        raise DataError(
            f"cells: {flat.size} cells have zero volume, first cell {flat[0]} "
            f"(nodes {', '.join(map(str, cells[flat[0]]))}); drop or repair them"
        )
    folded = np.flatnonzero(positive & negative)
    if folded.size:
        raise DataError(
            f"cells: {folded.size} {cell.name} cells are folded, first cell {folded[0]} "
            f"(nodes {', '.join(map(str, cells[folded[0]]))}); give the nodes in meshio's order"
        )


def _check_middles(points: Floats, cells: Integers, cell: CellType) -> None:
    """Refuse second-order nodes in another order than meshio's.

    A curved cell moves its nodes, in a thin cell even past each other, but a wrong order shows in most
    cells: it is refused when in more than half of them some node is nearer to the place of another one.
    """
    if cell.degree == 1:
        return
    sample = cells[:: max(1, len(cells) // _CELLS_LOOKED_AT)]
    n_vertices = len(cell.vertices)
    corners = points[sample[:, :n_vertices]]
    places = np.concatenate([corners, cell.middle_points(corners)], axis=1)
    nodes = points[sample[:, n_vertices:]]
    distance = np.linalg.norm(nodes[:, :, None] - places[:, None], axis=-1)
    own = np.arange(n_vertices, cell.n_nodes)
    wrong = (distance.argmin(axis=2) != own).any(axis=1)
    if np.mean(wrong) > 0.5:
        raise DataError(
            f"cells: the mid-edge, face or centre nodes of the {cell.name} cells are not in meshio's order; "
            "read the mesh with meshio, or reorder the columns of cells"
        )
