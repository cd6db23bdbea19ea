"""Where data were measured: the union of the cells, its boundary, and the boxes that lie inside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bvsi.data import CELL_TYPES, Grid, Mesh

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Domain:
    """Straight cells through the nodes of a mesh.

    Attributes
    ----------
    points
        Nodes (n, dim).
    cells
        (m, …), corners first.
    corners
        Corners per cell.
    kind
        Line, triangle, quad, tetra or hexahedron.
    """

    points: Array
    cells: Integers
    corners: int
    kind: str

    @staticmethod
    def of(geometry: Grid | Mesh) -> Domain:
        """The cells of a mesh, or those between the nodes of a grid."""
        if isinstance(geometry, Mesh):
            return Domain(
                geometry.points, geometry.cells, geometry.vertices_per_cell, geometry.cell_type.rstrip("0123456789")
            )
        kind = ("line", "quad", "hexahedron")[geometry.dim - 1]
        number = np.arange(geometry.n_nodes).reshape(geometry.shape)
        corners = []
        for vertex in CELL_TYPES[kind].vertices:
            cut = tuple(slice(v, n - 1 + v) for v, n in zip(vertex, geometry.shape, strict=True))
            corners.append(number[cut].ravel())
        return Domain(geometry.points, np.stack(corners, axis=1), len(corners), kind)

    @cached_property
    def spacing(self) -> Array:
        """Typical distance of neighbouring nodes along each axis, (dim,); their product is the volume per node."""
        corners = self.points[self.cells[:, : self.corners]]
        edges = corners[:, 1:] - corners[:, :1]
        spread = np.sqrt(np.mean(edges**2, axis=(0, 1)))
        volume = self.quadrature(1)[2].sum() / len(self.points)
        return np.asarray(spread * (volume / np.prod(spread)) ** (1 / self.dim))

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return int(self.points.shape[1])

    def quadrature(self, order: int) -> tuple[Array, Array, Array]:
        """Shape functions (q, corners), points (m, q, dim), weights (m, q)."""
        reference, weights = _rule(self.kind, order)
        vertices = np.array(CELL_TYPES[self.kind].vertices, dtype=float)
        shapes, slopes = _shapes(reference.T, vertices, self.kind)
        corners = self.points[self.cells[:, : self.corners]]
        places = np.einsum("qc,mcd->mqd", shapes, corners)
        jacobian = np.einsum("qcr,mcd->mqrd", slopes, corners)
        return shapes, places, np.abs(np.linalg.det(jacobian)) * weights

    @cached_property
    def boundary(self) -> Array:
        """Corners of the facets that belong to one cell only, (b, corners per facet, dim)."""
        local = _facets(self.kind)
        facets = self.cells[:, : self.corners][:, local].reshape(-1, len(local[0]))
        _, first, counts = np.unique(np.sort(facets, axis=1), axis=0, return_index=True, return_counts=True)
        return np.asarray(self.points[facets[first[counts == 1]]])

    def holds(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Whether boxes (k, dim) with these corners lie inside: none meets the boundary, and the middle is inside."""
        middle = 0.5 * (low + high)
        free = ~self._meets_boundary(low, high)
        free[free] = self._inside(middle[free])
        return free

    def _inside(self, places: Array) -> NDArray[np.bool_]:
        """Whether places lie in some cell, found among the cells whose centres are nearest."""
        corners = self.points[self.cells[:, : self.corners]]
        centres = corners.mean(axis=1)
        radius = np.linalg.norm(corners - centres[:, None], axis=2).max()
        tree = cKDTree(centres)
        inside = np.zeros(len(places), dtype=bool)
        for k, found in enumerate(tree.query_ball_point(places, radius * (1 + 1e-9))):
            if found:
                inside[k] = bool(np.any(_in_cells(places[k], corners[found], self.kind)))
        return inside

    def _meets_boundary(self, low: Array, high: Array) -> NDArray[np.bool_]:
        facets = self.boundary
        centre, half = 0.5 * (low + high), 0.5 * (high - low)
        meets = np.zeros(len(low), dtype=bool)
        reach = np.linalg.norm(facets - facets.mean(axis=1, keepdims=True), axis=2).max()
        tree = cKDTree(facets.mean(axis=1))
        for k, near in enumerate(tree.query_ball_point(centre, reach + np.linalg.norm(half[0]))):
            if near:
                meets[k] = bool(np.any(_overlaps(facets[near] - centre[k], half[k])))
        return meets


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
        radius = np.abs(axis) @ half * (1 - 1e-9)
        separated |= (along.min(axis=1) >= radius) | (along.max(axis=1) <= -radius)
    return ~separated


def _in_cells(place: Array, corners: Array, kind: str) -> NDArray[np.bool_]:
    dim = corners.shape[2]
    if kind in ("line", "triangle", "tetra"):
        edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
        local = np.linalg.solve(edges, (place - corners[:, 0])[..., None])[..., 0]
        return np.asarray((local >= -1e-9).all(axis=1) & (local.sum(axis=1) <= 1 + 1e-9))
    inside = np.ones(len(corners), dtype=bool)
    centre = corners.mean(axis=1)
    for facet in _facets(kind):
        f = corners[:, facet]
        if dim == 2:
            e = f[:, 1] - f[:, 0]
            normal = np.stack([-e[:, 1], e[:, 0]], axis=1)
        else:
            normal = np.cross(f[:, 2] - f[:, 0], f[:, 3] - f[:, 1])
        base = f.mean(axis=1)
        side = np.einsum("fd,fd->f", normal, centre - base)
        inside &= np.einsum("fd,fd->f", normal, place - base) * np.sign(side) >= -1e-9 * np.abs(side)
    return inside


def _facets(kind: str) -> list[list[int]]:
    return {
        "line": [[0], [1]],
        "triangle": [[0, 1], [1, 2], [2, 0]],
        "quad": [[0, 1], [1, 2], [2, 3], [3, 0]],
        "tetra": [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]],
        "hexahedron": [[0, 3, 7, 4], [1, 2, 6, 5], [0, 1, 5, 4], [3, 2, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]],
    }[kind]


def _shapes(reference: Array, vertices: Array, kind: str) -> tuple[Array, Array]:
    """Linear or multilinear shape functions (q, corners) and their slopes (q, corners, dim)."""
    q, dim = reference.shape
    if kind in ("line", "triangle", "tetra"):
        shapes = np.concatenate([1 - reference.sum(axis=1, keepdims=True), reference], axis=1)
        slopes = np.concatenate([-np.ones((1, dim)), np.eye(dim)])
        return shapes, np.broadcast_to(slopes, (q, dim + 1, dim))
    factor = np.where(vertices[None] > 0, reference[:, None], 1 - reference[:, None])  # (q, c, dim)
    shapes = factor.prod(axis=2)
    slopes = np.empty((q, len(vertices), dim))
    for a in range(dim):
        slopes[..., a] = np.where(vertices[:, a] > 0, 1.0, -1.0) * np.delete(factor, a, axis=2).prod(axis=2)
    return shapes, slopes


def _rule(kind: str, order: int) -> tuple[Array, Array]:
    """Points (dim, q) and weights (q,) on the reference cell, exact for polynomials of a degree."""
    import skfem  # it takes long to load, and grids do without

    from bvsi.spaces.cells import tetrahedron_rule

    if kind == "tetra":
        return tetrahedron_rule(order)
    names = {"line": "RefLine", "triangle": "RefTri", "quad": "RefQuad", "hexahedron": "RefHex"}
    points, weights = skfem.quadrature.get_quadrature(getattr(skfem.refdom, names[kind]), order)
    return np.asarray(points), np.asarray(weights)
