"""The Galerkin choice: elements on the nodes of the data, test functions equal to basis functions.

Where the elements stand on other nodes, a sparse map P brings the data there. The data become ``u = P d`` and their
noise covariance ``P Σ Pᵀ``: one map for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces import tensor
from bvsi.spaces.element import P1, P2, Q1, Q2, Element, Hermite
from bvsi.spaces.measure import Evaluation
from bvsi.spaces.space import Space

if TYPE_CHECKING:
    from bvsi.spaces.finite_element import FiniteElements

Geometry = Grid | Mesh

# Smallest eigenvalue of an element's Gram matrix, over its largest, from which on it counts as regular. Not measured;
# below it the projection would multiply noise by 1e5 and more.
_SINGULAR = 1e-10


class Transfer(Protocol):
    """A way to bring data of one geometry to the nodes of another."""

    def matrix(self, source: Geometry, target: Geometry, element: Element) -> Any:
        """P (nodes of target × nodes of source)."""


@dataclass(frozen=True)
class Interpolation:
    """u_i = Σ_j φ_j(x_i) d_j: the data, interpolated on their own geometry, at the places of the unknowns.

    Parameters
    ----------
    element
        How the data are interpolated; by default Q1 on grids, the mesh's own degree on meshes.
    """

    element: Element | None = None

    def matrix(self, source: Geometry, target: Geometry, element: Element) -> Any:
        """P_ij = φ_j(x_i)."""
        del element
        own = self.element or natural_element(source)
        evaluation, _ = basis_at(source, own, target.points)
        return evaluation.matrix((0,) * source.dim)


@dataclass(frozen=True)
class LocalL2Projection:
    """Least squares in every element, averaged where elements meet. ::

        G_e = Σ_{i∈e} φ(x_i) φ(x_i)ᵀ,   P_ai = mean over elements e around a of [G_e⁻¹ φ(x_i)]_a

    It averages over the measurements, reproduces every function of the space exactly, and stays sparse (a global
    L2 projection would be dense, and so would its noise covariance). Each element needs enough data points.
    """

    def matrix(self, source: Geometry, target: Geometry, element: Element) -> Any:
        """P (nodes of target × nodes of source)."""
        evaluation, cell = basis_at(target, element, source.points)
        m = int(evaluation.pattern.indptr[1])
        phi = evaluation.entries((0,) * source.dim).reshape(-1, m)
        dofs = evaluation.pattern.indices.reshape(-1, m)
        cells, local = np.unique(cell, return_inverse=True)
        gram = np.zeros((len(cells), m, m))
        np.add.at(gram, local, phi[:, :, None] * phi[:, None, :])
        self._check(gram, np.unique(dofs), target)
        weights = np.linalg.solve(gram[local], phi[:, :, None])[:, :, 0]
        first = np.zeros(len(cells), dtype=np.int64)
        first[local] = np.arange(len(local))
        shared = np.bincount(dofs[first].ravel(), minlength=target.n_nodes)
        rows, columns = dofs.ravel(), np.repeat(np.arange(len(phi)), m)
        entries = weights.ravel() / shared[rows]
        return sparse.csr_array((entries, (rows, columns)), shape=(target.n_nodes, source.n_nodes))

    @staticmethod
    def _check(gram: Array, met: NDArray[np.int64], target: Geometry) -> None:
        eigenvalues = np.linalg.eigvalsh(gram)
        bad = int(np.count_nonzero(eigenvalues[:, 0] <= _SINGULAR * eigenvalues[:, -1]))
        if bad or len(met) < target.n_nodes:
            raise SpaceError(
                f"L2 projection: {bad} elements hold too few data points, {target.n_nodes - len(met)} unknowns are "
                "reached by none; use a coarser mesh, a lower degree, or Interpolation()."
            )


def natural_element(geometry: Geometry) -> Element:
    """Q1 on a grid; on a mesh the element whose nodes the mesh has."""
    if isinstance(geometry, Grid):
        return Q1
    simplex = geometry.cell.simplex and geometry.dim > 1
    return ((P1, P2) if simplex else (Q1, Q2))[geometry.degree - 1]


def basis_at(geometry: Geometry, element: Element, points: Array) -> tuple[Evaluation, NDArray[np.int64]]:
    """Basis of an element on a geometry at scattered points, and the element that each point lies in."""
    if _by_axis(geometry, element):
        return tensor.evaluate_at(geometry, element, points)
    return _on_mesh(geometry, element).evaluate_at(points)


def fills_q2(grid: Grid) -> bool:
    """Whether pairs of cells fill every axis of a grid, as Q2 needs; a periodic axis needs two pairs."""
    cells = {name: len(axis) - (name not in grid.periods) for name, axis in grid.axes.items()}
    return all(n % 2 == 0 and n >= (4 if name in grid.periods else 2) for name, n in cells.items())


@dataclass(frozen=True)
class Galerkin:
    """Elements whose nodes are the measured ones, or on a geometry of their own.

    Parameters
    ----------
    element
        P1, P2, Q1 or Q2, on grids also H3, which is C1; by default Q1 on grids, the mesh's own degree on meshes.
    on
        Grid or mesh of the space where it is not that of the data.
    transfer
        How the data get to the nodes of ``on``; by default interpolation.
    """

    element: Element | None = None
    on: Grid | Mesh | None = None
    transfer: Transfer | None = None

    def __post_init__(self) -> None:
        if self.transfer is not None and self.on is None:
            raise SpaceError("transfer: give the grid or mesh of the space as well, Galerkin(on=..., transfer=...).")

    def element_for(self, geometry: Grid | Mesh) -> Element:
        """The element used for data on this geometry."""
        return self.element or natural_element(self.on or geometry)

    def build(self, geometry: Grid | Mesh, quadrature: int, derivatives: int = 2) -> Space:
        """The space for data on a geometry, with integrals exact to degree ``quadrature``."""
        del derivatives  # elements have those that they have
        return replace(self._built(geometry, quadrature), made_by=partial(self.build, geometry, quadrature))

    def _built(self, geometry: Grid | Mesh, quadrature: int) -> Space:
        element = self.element_for(geometry)
        if self.on is None:
            return _space(geometry, element, quadrature, None)
        if self.on.names != geometry.names:
            raise SpaceError(f"on: has the coordinates {self.on.names}, the data {geometry.names}.")
        transfer = (self.transfer or Interpolation()).matrix(geometry, self.on, element)
        return _space(self.on, element, quadrature, transfer)


def _space(geometry: Grid | Mesh, element: Element, quadrature: int, transfer: object | None) -> Space:
    name, points = f"{element.name} on {geometry.summary}", geometry.points
    if _by_axis(geometry, element):
        ends, cells = tensor.boundary_nodes(geometry), tensor.cell_measure(geometry, element, quadrature)
        boundary = partial(tensor.boundary_measure, geometry, element, quadrature)
        interior = partial(tensor.interior_measure, geometry, element, quadrature)
    else:
        elements = _on_mesh(geometry, element)
        ends, cells = elements.boundary_nodes(), elements.cells(quadrature)
        boundary, interior = partial(elements.boundary, quadrature), partial(elements.interior, quadrature)
    return Space(name, points, points, ends, cells, boundary, interior, transfer)


def _by_axis(geometry: Grid | Mesh, element: Element) -> TypeGuard[Grid]:
    """Whether the basis is a product of bases of the axes."""
    return isinstance(geometry, Grid) and (element.family != "P" or geometry.dim == 1)


def _on_mesh(geometry: Grid | Mesh, element: Element) -> FiniteElements:
    from bvsi.spaces.finite_element import FiniteElements  # scikit-fem is not needed on grids

    if isinstance(element, Hermite):
        raise SpaceError(f"{element.name} exists on grids only; use P2 or Q2 on a mesh.")

    return FiniteElements(geometry, element)
