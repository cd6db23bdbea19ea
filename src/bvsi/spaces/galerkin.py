"""The Galerkin choice: elements on the nodes of the data, test functions equal to basis functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces import tensor
from bvsi.spaces.element import Element, Hermite
from bvsi.spaces.finite_element import FiniteElements
from bvsi.spaces.space import Space
from bvsi.spaces.transfer import Interpolation, Transfer, natural_element


def fills_q2(grid: Grid) -> bool:
    """Whether pairs of cells fill every axis of a grid, as Q2 needs; a periodic axis needs two pairs."""
    for name, axis in grid.axes.items():
        periodic = name in grid.periods
        cells = len(axis) - (not periodic)
        if cells % 2 or cells < (4 if periodic else 2):
            return False
    return True


@dataclass(frozen=True)
class Galerkin:
    """Elements whose nodes are the measured ones, or on a geometry of their own.

    element: P1, P2, Q1 or Q2, on grids also H3, which is C1; by default Q1 on grids, the mesh's own degree on meshes.
    on: grid or mesh of the space where it is not that of the data.
    transfer: how the data get to the nodes of ``on``; by default interpolation.
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
    name = f"{element.name} on {geometry.summary}"
    points = geometry.points
    if isinstance(geometry, Grid) and (element.family != "P" or geometry.dim == 1):
        grid = geometry
        return Space(
            name,
            points,
            points,
            tensor.boundary_nodes(grid),
            tensor.cell_measure(grid, element, quadrature),
            lambda: tensor.boundary_measure(grid, element, quadrature),
            lambda: tensor.interior_measure(grid, element, quadrature),
            transfer,
        )
    if isinstance(element, Hermite):
        raise SpaceError(f"{element.name} exists on grids only; use P2 or Q2 on a mesh.")
    elements = FiniteElements(geometry, element)
    return Space(
        name,
        points,
        points,
        elements.boundary_nodes(),
        elements.cells(quadrature),
        lambda: elements.boundary(quadrature),
        lambda: elements.interior(quadrature),
        transfer,
    )
