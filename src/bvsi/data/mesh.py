"""Unstructured meshes of one cell type, checked when made, and the cell types by their meshio names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import COORDINATE_NAMES
from bvsi.data._arrays import frozen, interval, real_array
from bvsi.errors import DataError

Group = tuple[int, ...]


@dataclass(frozen=True)
class CellType:
    """A cell: vertices on the reference simplex or cube, then the nodes in the middle of vertex groups.

    Attributes
    ----------
    name
        Meshio's name.
    vertices
        Reference coordinates of the vertices, each 0 or 1.
    middles
        Vertices of the edge, face or cell in whose middle each further node sits, in meshio's order.
    simplex
        Whether the map from the reference cell is affine in the vertices.
    """

    name: str
    vertices: tuple[Group, ...]
    middles: tuple[Group, ...]
    simplex: bool

    @property
    def dim(self) -> int:
        """Dimension of the cell."""
        return len(self.vertices[0])

    @property
    def degree(self) -> int:
        """Polynomial degree of the nodes, 1 or 2."""
        return 2 if self.middles else 1

    @property
    def n_nodes(self) -> int:
        """Nodes per cell."""
        return len(self.vertices) + len(self.middles)

    @property
    def reference_nodes(self) -> Array:
        """Reference coordinates of all nodes in meshio's order, (n_nodes, dim)."""
        corners = np.array(self.vertices, dtype=np.float64)
        return frozen(np.concatenate([corners, self.middle_points(corners[None])[0]]))

    def middle_points(self, corners: Array) -> Array:
        """Middles of the vertex groups of straight cells, (m, middles, dim).

        Parameters
        ----------
        corners
            Coordinates of the vertices, (m, vertices, dim).
        """
        empty = np.empty((corners.shape[0], 0, corners.shape[2]))
        middles = [corners[:, group].mean(axis=1, keepdims=True) for group in self.middles]
        return np.concatenate([empty, *middles], axis=1)


# Reference vertices of each cell, and below the vertices of its edges and faces, in meshio's order.
_LINE = ((0,), (1,))
_TRIANGLE = ((0, 0), (1, 0), (0, 1))  # counter-clockwise
_QUAD = ((0, 0), (1, 0), (1, 1), (0, 1))  # counter-clockwise
_TETRA = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))  # the origin first
_HEX = (*((x, y, 0) for x, y in _QUAD), *((x, y, 1) for x, y in _QUAD))  # the bottom, then the top

_TRIANGLE_EDGES = ((0, 1), (1, 2), (2, 0))  # in the order of their middles in meshio
_QUAD_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0))  # the same
_TETRA_EDGES = (*_TRIANGLE_EDGES, (0, 3), (1, 3), (2, 3))  # the same
_HEX_EDGES = (*_QUAD_EDGES, (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7))  # the same
# Faces x = 0, x = 1, y = 0, y = 1, z = 0, z = 1, as in VTK's triquadratic hexahedron, which meshio follows.
_HEX_FACES = ((0, 3, 7, 4), (1, 2, 6, 5), (0, 1, 5, 4), (3, 2, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7))

#: The cell types that a mesh may have, by name.
CELL_TYPES: Mapping[str, CellType] = MappingProxyType(
    {
        cell.name: cell
        for cell in (
            CellType("line", _LINE, (), simplex=True),
            CellType("line3", _LINE, ((0, 1),), simplex=True),
            CellType("triangle", _TRIANGLE, (), simplex=True),
            CellType("triangle6", _TRIANGLE, _TRIANGLE_EDGES, simplex=True),
            CellType("quad", _QUAD, (), simplex=False),
            CellType("quad9", _QUAD, (*_QUAD_EDGES, (0, 1, 2, 3)), simplex=False),
            CellType("tetra", _TETRA, (), simplex=True),
            CellType("tetra10", _TETRA, _TETRA_EDGES, simplex=True),
            CellType("hexahedron", _HEX, (), simplex=False),
            CellType("hexahedron27", _HEX, (*_HEX_EDGES, *_HEX_FACES, tuple(range(8))), simplex=False),
        )
    }
)


# A determinant below this fraction of (longest edge)^dim is zero up to the rounding of the coordinates.
_FLAT = 1e-13
# A wrong node order is systematic, so that some cells show it; comparing the nodes of all would be slow.
_CELLS_LOOKED_AT = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """Unstructured mesh; every point is a data node, and every cell has the same type.

    Attributes
    ----------
    points
        Coordinates of the nodes, (n_nodes, dim).
    cells
        Node indices of each cell in meshio's order, (m, nodes per cell); either orientation.
    cell_type
        Line, line3, triangle, triangle6, quad, quad9, tetra, tetra10, hexahedron or hexahedron27; the second-order
        types carry the nodes on edges, faces and in the centre as data nodes.
    """

    points: Array
    cells: Integers
    cell_type: str
    coordinates: ClassVar[str] = "cartesian"

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
        # Made again when unpickled or copied, since arrays lose their read-only mark on the way.
        return Mesh, (self.points, self.cells, self.cell_type)


def _cell_type(name: str) -> CellType:
    """Look up a cell type."""
    if name not in CELL_TYPES:
        raise DataError(f"cell_type {name!r} is not supported; convert the mesh to one of {', '.join(CELL_TYPES)}")
    return CELL_TYPES[name]


def _points(value: ArrayLike, cell: CellType) -> Array:
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


def _corner_determinants(corners: Array, cell: CellType) -> tuple[Array, Array]:
    """Determinants of the map from the reference cell at its corners, (m, corners), and scale h^dim, (m,).

    At a corner of a cube the Jacobian consists of the edges that meet there; that of a simplex is constant.

    Parameters
    ----------
    corners
        Coordinates of the vertices, (m, vertices, dim).
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


def _check_volume(points: Array, cells: Integers, cell: CellType) -> None:
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


def _check_middles(points: Array, cells: Integers, cell: CellType) -> None:
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
