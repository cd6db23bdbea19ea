"""Lagrange elements on meshes (and simplices on grids), through scikit-fem.

scikit-fem numbers the degrees of freedom its own way; here they are renumbered to the nodes of the data by their
places, so that the data need no rearranging and periodic nodes coincide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import skfem
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces.element import Lagrange
from bvsi.spaces.locate import locate
from bvsi.spaces.measure import Evaluation, Measure, MultiIndex
from bvsi.spaces.periodic import into_first_period
from bvsi.spaces.quadrature import tetrahedron_rule

Array = NDArray[np.float64]

_ELEMENTS = {
    ("line", "P", 1): skfem.ElementLineP1,
    ("line", "P", 2): skfem.ElementLineP2,
    ("line", "Q", 1): skfem.ElementLineP1,
    ("line", "Q", 2): skfem.ElementLineP2,
    ("triangle", "P", 1): skfem.ElementTriP1,
    ("triangle", "P", 2): skfem.ElementTriP2,
    ("quad", "Q", 1): skfem.ElementQuad1,
    ("quad", "Q", 2): skfem.ElementQuad2,
    ("tetra", "P", 1): skfem.ElementTetP1,
    ("tetra", "P", 2): skfem.ElementTetP2,
    ("hexahedron", "Q", 1): skfem.ElementHex1,
    ("hexahedron", "Q", 2): skfem.ElementHex2,
}
_MESHES = {
    "line": skfem.MeshLine1,
    "triangle": skfem.MeshTri1,
    "quad": skfem.MeshQuad1,
    "tetra": skfem.MeshTet1,
    "hexahedron": skfem.MeshHex1,
}
_SHAPES = {
    "line3": "line",
    "triangle6": "triangle",
    "quad9": "quad",
    "tetra10": "tetra",
    "hexahedron27": "hexahedron",
}
# Vertices of a hexahedron: scikit-fem's order in terms of meshio's.
_HEX_VERTICES = [0, 4, 3, 1, 7, 5, 2, 6]


@dataclass(frozen=True, eq=False)
class FiniteElements:
    """An element on a mesh or grid, with its degrees of freedom numbered as the nodes of the geometry."""

    geometry: Grid | Mesh
    element: Lagrange

    @cached_property
    def mesh(self) -> Any:
        """The scikit-fem mesh."""
        return _grid_simplices(self.geometry, self.element) if isinstance(self.geometry, Grid) else _mesh(self.geometry)

    @cached_property
    def skfem_element(self) -> Any:
        """The scikit-fem element."""
        shape = next(name for name, kind in _MESHES.items() if isinstance(self.mesh, kind))
        key = (shape, self.element.family, self.element.degree)
        if key not in _ELEMENTS:
            raise SpaceError(f"element {self.element.name} does not exist on {shape} cells; use {_fitting(shape)}.")
        return _ELEMENTS[key]()

    @cached_property
    def node_of_dof(self) -> NDArray[np.int64]:
        """Node of the geometry at the place of each scikit-fem degree of freedom."""
        basis = skfem.CellBasis(self.mesh, self.skfem_element, intorder=1)
        return _match(basis.doflocs.T, self.geometry, self.element)

    def cells(self, quadrature: int) -> Measure:
        """Quadrature over the cells, exact to the given degree."""
        own_rule = {"quadrature": tetrahedron_rule(quadrature)} if isinstance(self.mesh, skfem.MeshTet1) else {}
        basis = skfem.CellBasis(self.mesh, self.skfem_element, intorder=quadrature, **own_rule)
        return self._measure(basis, None)

    def boundary(self, quadrature: int) -> Measure:
        """Quadrature over the boundary facets; faces of periodic axes are no boundary."""
        basis = skfem.FacetBasis(self.mesh, self.skfem_element, facets=self._facets(), intorder=quadrature)
        return self._measure(basis, np.asarray(basis.normals))

    def boundary_nodes(self) -> NDArray[np.int64]:
        """Nodes on the boundary."""
        facets = self._facets()
        if not len(facets):
            return np.zeros(0, dtype=np.int64)
        basis = skfem.CellBasis(self.mesh, self.skfem_element, intorder=1)
        return np.unique(self.node_of_dof[basis.get_dofs(facets).flatten()])

    def evaluate_at(self, points: Array) -> tuple[Evaluation, NDArray[np.int64]]:
        """Basis values at scattered points (n_p, dim), and the element that each point lies in."""
        if isinstance(self.geometry, Grid):
            points = into_first_period(self.geometry, points)
        cells, xi = locate(self.mesh, points)
        dofs = skfem.CellBasis(self.mesh, self.skfem_element, intorder=1).element_dofs
        values = np.stack([self.skfem_element.lbasis(xi, i)[0] for i in range(len(dofs))], axis=1)
        columns = self.node_of_dof[dofs[:, cells]].T
        return Evaluation.from_local(self.geometry.n_nodes, columns, {(0,) * self.geometry.dim: values}), cells

    def _facets(self) -> NDArray[np.int64]:
        """Facets on the boundary, without those at the ends of periodic axes."""
        facets = self.mesh.boundary_facets()
        if not isinstance(self.geometry, Grid):
            return np.asarray(facets)
        corners = self.mesh.p[:, self.mesh.facets[:, facets]]
        periodic = np.zeros(len(facets), dtype=bool)
        for axis, name in enumerate(self.geometry.names):
            if name in self.geometry.periods:
                # Vertices are copies of the coordinates of the axis, so that they can be compared exactly.
                for end in (self.mesh.p[axis].min(), self.mesh.p[axis].max()):
                    periodic |= (corners[axis] == end).all(axis=0)
        return np.asarray(facets[~periodic])

    def _measure(self, basis: Any, normals: Array | None) -> Measure:
        n_el, n_q = np.shape(basis.dx)
        dim = self.geometry.dim

        def flat(values: Array) -> Array:
            return np.broadcast_to(np.asarray(values), (n_el, n_q)).reshape(-1)

        def local(take: Any) -> Array:
            return np.stack([flat(take(functions[0])) for functions in basis.basis], axis=1)

        values: dict[MultiIndex, Array] = {(0,) * dim: local(lambda f: np.asarray(f))}
        for axis in range(dim):
            unit = tuple(int(i == axis) for i in range(dim))
            values[unit] = local(lambda f, axis=axis: f.grad[axis])
        columns = np.repeat(self.node_of_dof[basis.element_dofs].T, n_q, axis=0)
        evaluation = Evaluation.from_local(self.geometry.n_nodes, columns, values)
        x = np.asarray(basis.global_coordinates())
        points = np.stack([flat(x[axis]) for axis in range(dim)], axis=1)
        n = None if normals is None else np.stack([flat(normals[axis]) for axis in range(dim)], axis=1)
        return Measure(flat(basis.dx), points, n, evaluation, evaluation)


def _fitting(shape: str) -> str:
    return " or ".join(f"{family}{degree}" for s, family, degree in _ELEMENTS if s == shape)


def _mesh(mesh: Mesh) -> Any:
    """scikit-fem mesh of the vertices; further nodes of second-order cells are found again by their places."""
    shape = _SHAPES.get(mesh.cell_type, mesh.cell_type)
    vertices, t = np.unique(mesh.cells[:, : mesh.vertices_per_cell], return_inverse=True)
    t = t.reshape(len(mesh.cells), -1).T
    if shape == "hexahedron":
        t = t[_HEX_VERTICES]
    return _MESHES[shape](np.ascontiguousarray(mesh.points[vertices].T), np.ascontiguousarray(t))


def _grid_simplices(grid: Grid, element: Lagrange) -> Any:
    """Simplices on the grid's nodes; for P2 every second node is a vertex. A periodic axis gets its end point."""
    axes = []
    for name in grid.names:
        x = grid.axes[name]
        if name in grid.periods:
            x = np.append(x, x[0] + grid.periods[name])
        if (len(x) - 1) % element.degree:
            raise SpaceError(
                f"P2 joins two cells to one element, so axis {name!r} needs an even number of cells; it has "
                f"{len(x) - 1}. Leave out one node at the end, or use P1."
            )
        axes.append(x[:: element.degree])
    kind = (skfem.MeshLine1, skfem.MeshTri1, skfem.MeshTet1)[grid.dim - 1]
    return kind.init_tensor(*axes)


def _match(places: Array, geometry: Grid | Mesh, element: Lagrange) -> NDArray[np.int64]:
    """Node at each place; every node has to be met. Distances are relative to the extent of each axis."""
    nodes = geometry.points
    extent = np.ptp(nodes, axis=0)
    if isinstance(geometry, Grid):
        places = places.copy()
        for axis, name in enumerate(geometry.names):
            if name in geometry.periods:
                first, period = geometry.axes[name][0], geometry.periods[name]
                past = places[:, axis] > first + period * (1 - 1e-9)
                places[past, axis] -= period
    distance, node = cKDTree(nodes / extent).query(places / extent)
    if distance.max() > 1e-7 or len(np.unique(node)) != len(nodes):
        raise SpaceError(
            f"{element.name} needs its degrees of freedom at the measured nodes: it has {len(places)}, the data "
            f"{len(nodes)}, and they are not the same points. Use P1/Q1 on first-order meshes, P2/Q2 on second-order "
            "ones (straight edges, nodes in the middle), or give the space its own mesh and a transfer: "
            "Galerkin(element, on=mesh, transfer=Interpolation())."
        )
    return np.asarray(node, dtype=np.int64)
