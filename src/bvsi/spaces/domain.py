"""Where data were measured: the union of the cells between the nodes, its boundary, and the boxes that lie inside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bvsi.common.arrays import Array, Integers
from bvsi.data import CELL_TYPES, Grid, Mesh
from bvsi.spaces.element import SAME_PLACE


@dataclass(frozen=True, eq=False)
class Domain:
    """Straight cells through the nodes of a mesh.

    Attributes
    ----------
    nodes
        The mesh; of second-order cells the corners make the domain, and all nodes carry data.
    """

    nodes: Mesh

    @staticmethod
    def of(geometry: Grid | Mesh) -> Domain:
        """The cells of a mesh, or those between the nodes of a grid."""
        if isinstance(geometry, Mesh):
            return Domain(geometry)
        kind = ("line", "quad", "hexahedron")[geometry.dim - 1]
        number = np.arange(geometry.n_nodes).reshape(geometry.shape)
        corners = []
        for vertex in CELL_TYPES[kind].vertices:
            cut = tuple(slice(v, n - 1 + v) for v, n in zip(vertex, geometry.shape, strict=True))
            corners.append(number[cut].ravel())
        return Domain(Mesh(geometry.points, np.stack(corners, axis=1), kind))

    @property
    def points(self) -> Array:
        """Nodes (n, dim)."""
        return self.nodes.points

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.nodes.dim

    @cached_property
    def _vertex_mesh(self) -> tuple[Any, Integers]:
        from bvsi.spaces.finite_element import vertex_mesh  # imports scikit-fem, which grids do without

        return vertex_mesh(self.nodes)

    @cached_property
    def corners(self) -> Integers:
        """Nodes at the corners of each cell, (m, corners)."""
        mesh, node = self._vertex_mesh
        return np.asarray(node[mesh.t].T)

    @cached_property
    def spacing(self) -> Array:
        """Typical distance of neighbouring nodes along each axis, (dim,); their product is the volume per node."""
        corners = self.points[self.corners]
        spread = np.sqrt(np.mean((corners[:, 1:] - corners[:, :1]) ** 2, axis=(0, 1)))
        volume = self.quadrature(1)[1].sum() / len(self.points)
        return np.asarray(spread * (volume / np.prod(spread)) ** (1 / self.dim))

    def quadrature(self, order: int) -> tuple[Array, Array]:
        """Points (m, q, dim) and weights (m, q)."""
        from bvsi.spaces.finite_element import cell_rule  # see above

        mesh, _ = self._vertex_mesh
        xi, w = cell_rule(mesh, order)
        mapping = mesh.mapping()
        return np.moveaxis(mapping.F(xi), 0, 2), np.abs(mapping.detDF(xi)) * w

    def cells_at(self, places: Array, outside: int | None = None) -> Integers:
        """The cell in which each of some places (k, dim) lies, (k,).

        Parameters
        ----------
        outside
            Number for places in no cell, which are refused without it.
        """
        from bvsi.spaces.cells import locate  # see above

        return locate(self._vertex_mesh[0], places, outside)[0]

    @cached_property
    def boundary(self) -> Array:
        """Corners of the facets that belong to one cell only, (b, corners per facet, dim)."""
        mesh, _ = self._vertex_mesh
        return np.asarray(mesh.p[:, mesh.facets[:, mesh.boundary_facets()]].T)

    def holds(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Whether boxes (k, dim) of one size, with these corners, lie inside the domain and hold a node.

        A box that no facet of the boundary meets lies inside or outside as a whole, and outside there are no nodes.
        """
        centre, half = 0.5 * (low + high), 0.5 * (high - low)[0]
        nearest, _ = cKDTree(self.points / half).query(centre / half, p=np.inf)
        inside = nearest < 1 - SAME_PLACE
        facets = self.boundary
        reach = np.linalg.norm(facets - facets.mean(axis=1, keepdims=True), axis=2).max()
        near = cKDTree(facets.mean(axis=1)).query_ball_point(centre[inside], reach + np.linalg.norm(half))
        inside[inside] = [
            not np.any(_overlaps(facets[some] - place, half)) for some, place in zip(near, centre[inside], strict=True)
        ]
        return np.asarray(inside)


def _overlaps(facets: Array, half: Array) -> NDArray[np.bool_]:
    """Whether facets (f, c, dim) meet the box |x_a| < half_a: no axis separates them."""
    dim = len(half)
    axes = [np.broadcast_to(np.eye(dim)[a], (len(facets), dim)) for a in range(dim)]
    edges = [facets[:, j] - facets[:, i] for i, j in combinations(range(facets.shape[1]), 2)]
    if dim == 2:
        axes += [np.stack([-e[:, 1], e[:, 0]], axis=1) for e in edges]
    if dim == 3:
        axes += [np.cross(edges[0], edges[1])]
        axes += [np.cross(np.eye(3)[a], e) for e in edges for a in range(3)]
    separated = np.zeros(len(facets), dtype=bool)
    for axis in axes:
        along = np.einsum("fcd,fd->fc", facets, axis)
        radius = np.abs(axis) @ half * (1 - SAME_PLACE)
        separated |= (along.min(axis=1) >= radius) | (along.max(axis=1) <= -radius)
    return ~separated
