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
from skfem.assembly import Dofs
from skfem.quadrature import get_quadrature

from bvsi.common.arrays import Array, Integers
from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces.axis import into_first_period
from bvsi.spaces.cells import Facets, Places, locate, tetrahedron_rule
from bvsi.spaces.element import SAME_PLACE, Lagrange, penalty_constant
from bvsi.spaces.measure import Evaluation, Measure, derivatives

# Cells by name: mesh, families of elements, and the elements of first and second degree.
_CELLS: dict[str, tuple[Any, str, Any, Any]] = {
    "line": (skfem.MeshLine1, "PQ", skfem.ElementLineP1, skfem.ElementLineP2),
    "triangle": (skfem.MeshTri1, "P", skfem.ElementTriP1, skfem.ElementTriP2),
    "quad": (skfem.MeshQuad1, "Q", skfem.ElementQuad1, skfem.ElementQuad2),
    "tetra": (skfem.MeshTet1, "P", skfem.ElementTetP1, skfem.ElementTetP2),
    "hexahedron": (skfem.MeshHex1, "Q", skfem.ElementHex1, skfem.ElementHex2),
}
# Vertices of a hexahedron: scikit-fem's order in terms of meshio's.
_HEX_VERTICES = [0, 4, 3, 1, 7, 5, 2, 6]
# Degrees of freedom and nodes may lie apart by this part of the extent: files with seven digits pass. Not measured.
_APART = 1e-7


@dataclass(frozen=True, eq=False)
class FiniteElements:
    """An element on a mesh or grid, with its degrees of freedom numbered as the nodes of the geometry."""

    geometry: Grid | Mesh
    element: Lagrange

    @cached_property
    def mesh(self) -> Any:
        """The scikit-fem mesh."""
        if isinstance(self.geometry, Grid):
            return _grid_simplices(self.geometry, self.element)
        return vertex_mesh(self.geometry)[0]

    @cached_property
    def skfem_element(self) -> Any:
        """The scikit-fem element."""
        shape, (_, families, *elements) = next(item for item in _CELLS.items() if isinstance(self.mesh, item[1][0]))
        if self.element.family not in families:
            fitting = " or ".join(f"{family}{degree}" for family in families for degree in (1, 2))
            raise SpaceError(f"element {self.element.name} does not exist on {shape} cells; use {fitting}.")
        return elements[self.element.degree - 1]()

    @cached_property
    def node_of_dof(self) -> NDArray[np.int64]:
        """Node of the geometry at the place of each scikit-fem degree of freedom."""
        basis = skfem.CellBasis(self.mesh, self.skfem_element, intorder=1)
        return _match(basis.doflocs.T, self.geometry, self.element)

    @cached_property
    def columns(self) -> Integers:
        """Nodes of each cell, (n_el, m), in the order of the element's functions."""
        return np.asarray(self.node_of_dof[Dofs(self.mesh, self.skfem_element).element_dofs].T)

    @cached_property
    def facets(self) -> Facets:
        """Facets of the mesh: boundary, interior, and pairs on the ends of periodic axes."""
        periods = {}
        if isinstance(self.geometry, Grid):
            axes = enumerate(self.geometry.names)
            periods = {axis: self.geometry.periods[name] for axis, name in axes if name in self.geometry.periods}
        return Facets(self.mesh, periods)

    def cells(self, quadrature: int) -> Measure:
        """Quadrature over the cells, exact to the given degree."""
        xi, w = cell_rule(self.mesh, quadrature)
        mapping = self.mesh.mapping()
        here = self._places(np.arange(self.mesh.nelements), xi[:, None, :])
        evaluation = self._evaluation(here)
        points = _rows(mapping.F(xi))
        return Measure((np.abs(mapping.detDF(xi)) * w).ravel(), points, None, evaluation, evaluation)

    def boundary(self, quadrature: int) -> Measure:
        """Quadrature over the boundary facets; faces of periodic axes are not a boundary."""
        facets = self.facets.boundary
        rule = get_quadrature(self.mesh.brefdom, quadrature)
        cells = self.mesh.f2t[0, facets]
        here = self._places(cells, self.facets.reference_points(rule[0], facets, cells))
        return self._facet_measure(rule, facets, here, self._evaluation(here))

    def interior(self, quadrature: int) -> Measure:
        """Quadrature over the facets between two cells, across the seams of periodic axes too.

        Points on a seam are those of the upper end; its cell is the + one.
        """
        facets, partners, cells = self.facets.interior
        rule = get_quadrature(self.mesh.brefdom, quadrature)
        self.facets.check_partners(rule[0])
        plus = self._places(cells[0], self.facets.reference_points(rule[0], facets, cells[0]))
        minus = self._places(cells[1], self.facets.reference_points(rule[0], partners, cells[1]))
        return self._facet_measure(rule, facets, plus, self._evaluation(plus, minus))

    def boundary_nodes(self) -> NDArray[np.int64]:
        """Nodes on the boundary."""
        facets = self.facets.boundary
        if not len(facets):
            return np.zeros(0, dtype=np.int64)
        basis = skfem.CellBasis(self.mesh, self.skfem_element, intorder=1)
        return np.unique(self.node_of_dof[basis.get_dofs(facets).flatten()])

    def evaluate_at(self, points: Array) -> tuple[Evaluation, NDArray[np.int64]]:
        """Basis values at scattered points (n_p, dim), and the element that each point lies in."""
        if isinstance(self.geometry, Grid):
            points = into_first_period(self.geometry, points)
        cells, xi = locate(self.mesh, points)
        here = self._places(cells, xi[:, :, None])
        zero = (0,) * self.geometry.dim
        return Evaluation.from_local(self.geometry.n_nodes, self.columns[cells], (zero,), here.derivative), cells

    def _places(self, cells: Integers, xi: Array) -> Places:
        return Places(self.mesh, self.skfem_element, cells, xi)

    def _evaluation(self, plus: Places, minus: Places | None = None) -> Evaluation:
        """Basis at places, seen from both sides where two are given."""
        n, offered = self.geometry.n_nodes, derivatives(self.geometry.dim)
        columns = np.repeat(self.columns[plus.cells], plus.per_cell, axis=0)
        if minus is None:
            return Evaluation.from_local(n, columns, offered, plus.derivative)
        behind = np.repeat(self.columns[minus.cells], minus.per_cell, axis=0)
        sides = {1: plus, -1: minus}
        return Evaluation.from_sides(n, (columns, behind), offered, lambda i, side: sides[side].derivative(i))

    def _facet_measure(
        self, rule: tuple[Array, Array], facets: Integers, plus: Places, evaluation: Evaluation
    ) -> Measure:
        """Quadrature over facets whose + cells and points in these are given."""
        mapping = self.mesh.mapping()
        points = _rows(mapping.G(rule[0], find=facets))
        weights = (np.abs(mapping.detDG(rule[0], find=facets)) * rule[1]).ravel()
        normals = _rows(mapping.normals(plus.xi, plus.cells, facets, self.mesh.t2f))
        size = np.repeat(self.facets.sizes[facets], plus.per_cell)
        alpha = penalty_constant(self.element, self.geometry.dim, self.facets.around)
        return Measure(weights, points, normals, evaluation, evaluation, size, alpha / size)


def _rows(values: Array) -> Array:
    """Components (dim, n_c, n_q) of vectors as rows (n_c n_q, dim)."""
    return np.ascontiguousarray(values.reshape(len(values), -1).T)


def cell_rule(mesh: Any, degree: int) -> tuple[Array, Array]:
    """Points (dim, n_q) and weights (n_q,) on the reference cell of a scikit-fem mesh, exact to a degree."""
    if isinstance(mesh, skfem.MeshTet1):
        return tetrahedron_rule(degree)
    xi, w = get_quadrature(mesh.elem.refdom, degree)
    return np.asarray(xi), np.asarray(w)


def vertex_mesh(mesh: Mesh) -> tuple[Any, Integers]:
    """scikit-fem mesh of the vertices, and their nodes; elements find further nodes again by their places."""
    shape = mesh.cell_type.rstrip("0123456789")  # triangle6 has the vertices of a triangle
    vertices, t = np.unique(mesh.cells[:, : mesh.vertices_per_cell], return_inverse=True)
    t = t.reshape(len(mesh.cells), -1).T
    if shape == "hexahedron":
        t = t[_HEX_VERTICES]
    return _CELLS[shape][0](np.ascontiguousarray(mesh.points[vertices].T), np.ascontiguousarray(t)), vertices


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
                past = places[:, axis] > first + period * (1 - SAME_PLACE)
                places[past, axis] -= period
    distance, node = cKDTree(nodes / extent).query(places / extent)
    if distance.max() > _APART or len(np.unique(node)) != len(nodes):
        raise SpaceError(
            f"{element.name} needs its degrees of freedom at the measured nodes: it has {len(places)}, the data "
            f"{len(nodes)}, and they are not the same points. Use P1/Q1 on first-order meshes, P2/Q2 on second-order "
            "ones (straight edges, nodes in the middle), or give the space its own mesh and a transfer: "
            "Galerkin(element, on=mesh, transfer=Interpolation())."
        )
    return np.asarray(node, dtype=np.int64)
