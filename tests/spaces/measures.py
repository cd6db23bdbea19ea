"""Measures of an element on a grid or mesh, polynomials and their derivatives, for tests of the spaces."""

import itertools

import numpy as np
from geometries import AXES, MIDDLE, grid, mesh

from bvsi.common.naming import Sided
from bvsi.data import Grid
from bvsi.spaces import tensor
from bvsi.spaces.element import H3, P1, P2, Q1, Q2
from bvsi.spaces.finite_element import FiniteElements

GRIDS = {
    "1D": ("x", ""),
    "1D periodic": ("x", "x"),
    "2D": ("xy", ""),
    "2D periodic": ("xy", "xy"),
    "2D half periodic": ("xy", "y"),
    "3D": ("xyz", ""),
    "3D periodic in z": ("xyz", "z"),
}
MESHES = {
    "line": P1,
    "line3": Q2,
    "triangle": P1,
    "triangle6": P2,
    "quad": Q1,
    "quad9": Q2,
    "tetra": P1,
    "tetra10": P2,
    "hexahedron": Q1,
    "hexahedron27": Q2,
}


def label(value):
    return getattr(value, "name", value)


def geometry_of(name, element):
    if name in MESHES:
        return mesh(name, shear=True)
    names, periodic = GRIDS[name]
    return grid(names, MIDDLE if element == P2 else AXES, periodic)


def measures_of(geometry, element, quadrature=4):
    """Cells, boundary and interior facets."""
    if isinstance(geometry, Grid) and element.family != "P":
        made = (tensor.cell_measure, tensor.boundary_measure, tensor.interior_measure)
        return [make(geometry, element, quadrature) for make in made]
    elements = FiniteElements(geometry, element)
    return [make(quadrature) for make in (elements.cells, elements.boundary, elements.interior)]


def unit(axis, dim):
    return tuple(int(i == axis) for i in range(dim))


def powers(dim, degree, per_axis):
    every = itertools.product(range(degree + 1), repeat=dim)
    return [p for p in every if per_axis or sum(p) <= degree]


def derivative(points, power, index):
    """∂^index of Π x_i^p_i."""
    result = np.ones(len(points))
    for x, p, order in zip(points.T, power, index, strict=True):
        factor = np.prod([p - k for k in range(order)])
        result = result * factor * x ** max(p - order, 0)
    return result


def gradient(measure, u, side=None):
    """∇u at the points, (n_q, dim), on interior facets from one side."""
    dim = measure.points.shape[1]
    keys = [unit(a, dim) if side is None else Sided(unit(a, dim), side) for a in range(dim)]
    return np.stack([measure.trial.matrix(key) @ u for key in keys], axis=1)


def gradient_jump(facets, u):
    """∇u⁺ − ∇u⁻ at the points."""
    return gradient(facets, u, 1) - gradient(facets, u, -1)


def normal_jump(facets, u):
    """∂u⁺/∂n − ∂u⁻/∂n at the points."""
    return np.sum(gradient_jump(facets, u) * facets.normals, axis=1)


def away_from_the_seam(geometry, points, element):
    """Points where no function reaches over the end of a period, where a polynomial is not periodic."""
    keep = np.ones(len(points), dtype=bool)
    if isinstance(geometry, Grid):
        for axis, name in enumerate(geometry.names):
            if name in geometry.periods:
                x = geometry.axes[name]
                keep &= points[:, axis] < x[-2] - 1e-9
                keep &= points[:, axis] > (x[1] + 1e-9 if element == H3 else x[0] - 1e-9)
    return keep
