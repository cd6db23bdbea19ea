"""Geometries and data for tests of the residual."""

import numpy as np
import skfem

from bvsi.data import CELL_TYPES, Data, Grid, Mesh
from bvsi.operators import Assembled, Library
from bvsi.residual import discretise_library, state_of
from bvsi.spaces import Galerkin


def simplices(n, dim, degree, seed=None):
    """Triangles or tetrahedra of the unit box with n cells per side; nodes renumbered at random with a seed."""
    kind, name, second = {
        2: (skfem.MeshTri1, "triangle", "triangle6"),
        3: (skfem.MeshTet1, "tetra", "tetra10"),
    }[dim]
    made = kind.init_tensor(*[np.linspace(0, 1, n + 1)] * dim)
    points, cells = made.p.T, made.t.T
    if degree == 2:
        middles = CELL_TYPES[second].middle_points(points[cells]).reshape(-1, dim)
        places, inverse = np.unique(np.round(middles, 9), axis=0, return_inverse=True)
        cells = np.concatenate([cells, inverse.reshape(len(cells), -1) + len(points)], axis=1)
        points, name = np.concatenate([points, places]), second
    mesh = Mesh(points, cells, name)
    return mesh if seed is None else permuted(mesh, np.random.default_rng(seed).permutation(len(points)))


def permuted(mesh, number):
    """The same mesh with node i called number[i]."""
    points = np.empty_like(mesh.points)
    points[number] = mesh.points
    return Mesh(points, number[mesh.cells], mesh.cell_type)


def box(n, dim, names="xyz"):
    """Grid of the unit box with n cells per side."""
    return Grid(**dict.fromkeys(names[:dim], np.linspace(0, 1, n + 1)))


def operator_on(text, geometry, element, fields, auxiliary=None, times=None, boundary=None):
    """One operator, its space and the state of the fields."""
    times = np.array([0.3, 0.8]) if times is None else times
    data = Data(times, fields, geometry, auxiliary or {})
    library = Library({"u": [text]}, boundary=boundary or Assembled())
    (operator,), space = discretise_library(data, library, Galerkin(element))
    return operator, space, state_of(data, space)
