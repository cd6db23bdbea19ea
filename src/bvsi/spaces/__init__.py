"""Discrete spaces: Lagrange elements on grids and meshes, and maps from measured points to unknowns."""

from bvsi.spaces.element import P1, P2, Q1, Q2, Lagrange
from bvsi.spaces.galerkin import Galerkin
from bvsi.spaces.measure import Evaluation, Measure
from bvsi.spaces.space import Space
from bvsi.spaces.transfer import Interpolation, LocalL2Projection, Transfer

__all__ = [
    "P1",
    "P2",
    "Q1",
    "Q2",
    "Evaluation",
    "Galerkin",
    "Interpolation",
    "Lagrange",
    "LocalL2Projection",
    "Measure",
    "Space",
    "Transfer",
]
