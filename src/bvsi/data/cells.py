"""Cell types by their meshio names: where each node of a cell sits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bvsi.data._arrays import Floats, frozen

Group = tuple[int, ...]


@dataclass(frozen=True)
class CellType:
    """A cell: vertices on the reference simplex or cube, then the nodes in the middle of vertex groups.

    name: meshio's name.
    vertices: reference coordinates of the vertices, each 0 or 1.
    middles: vertices of the edge, face or cell in whose middle each further node sits, in meshio's order.
    simplex: whether the map from the reference cell is affine in the vertices.
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
    def reference_nodes(self) -> Floats:
        """Reference coordinates of all nodes in meshio's order, (n_nodes, dim)."""
        corners = np.array(self.vertices, dtype=np.float64)
        return frozen(np.concatenate([corners, self.middle_points(corners[None])[0]]))

    def middle_points(self, corners: Floats) -> Floats:
        """Middles of the vertex groups of straight cells, (m, middles, dim).

        corners: coordinates of the vertices, (m, vertices, dim).
        """
        empty = np.empty((corners.shape[0], 0, corners.shape[2]))
        middles = [corners[:, group].mean(axis=1, keepdims=True) for group in self.middles]
        return np.concatenate([empty, *middles], axis=1)


_LINE = ((0,), (1,))
_TRIANGLE = ((0, 0), (1, 0), (0, 1))
_QUAD = ((0, 0), (1, 0), (1, 1), (0, 1))
_TETRA = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
_HEX = (*((x, y, 0) for x, y in _QUAD), *((x, y, 1) for x, y in _QUAD))

_TRIANGLE_EDGES = ((0, 1), (1, 2), (2, 0))
_QUAD_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0))
_TETRA_EDGES = (*_TRIANGLE_EDGES, (0, 3), (1, 3), (2, 3))
_HEX_EDGES = (*_QUAD_EDGES, (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7))
# Faces x = 0, x = 1, y = 0, y = 1, z = 0, z = 1, as in VTK's triquadratic hexahedron, which meshio follows.
_HEX_FACES = ((0, 3, 7, 4), (1, 2, 6, 5), (0, 1, 5, 4), (3, 2, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7))

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
"""The cell types that a mesh may have, by name."""
