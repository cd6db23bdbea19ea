"""Grids and meshes for tests of the spaces: all cell types, permuted nodes, either orientation, distorted cells."""

import numpy as np
import skfem

from bvsi.data import CELL_TYPES, Grid, Mesh

AXES = {
    "x": np.array([0.0, 0.2, 0.5, 0.6, 1.0]),
    "y": np.array([-0.5, 0.0, 0.1, 0.7, 1.0, 1.3, 1.5]),
    "z": np.array([0.0, 0.3, 0.4, 0.9, 1.2]),
}
MIDDLE = {
    "x": np.array([0.0, 0.2, 0.4, 0.7, 1.0]),
    "y": np.array([-0.5, -0.3, -0.1, 0.2, 0.5, 1.0, 1.5]),
    "z": np.array([0.0, 0.2, 0.4, 0.8, 1.2]),
}
"""Not uniform, but every second node is in the middle of its neighbours, as P2 needs it."""
UNIFORM = {"x": np.linspace(0, 1, 5), "y": np.linspace(-0.5, 1.5, 7), "z": np.linspace(0, 1.2, 5)}
PERIODS = {"x": 1.3, "y": 2.5, "z": 1.5}
BOX = {"x": (0.0, 1.0), "y": (-0.5, 1.5), "z": (0.0, 1.2)}


def close(left, right, tolerance):
    """Whether arrays agree; pytest.approx takes seconds on large ones."""
    return np.shape(left) == np.shape(right) and np.abs(left - right).max(initial=0) <= tolerance


def grid(names, axes=AXES, periodic=""):
    """Grid with the named axes; a periodic one gets one more node, so that Q2 fits it too."""
    chosen = {}
    for name in names:
        values = axes[name]
        if name in periodic:
            values = np.append(values, values[-1] + 0.5 * (BOX[name][0] + PERIODS[name] - values[-1]))
        chosen[name] = values
    return Grid(periodic={name: PERIODS[name] for name in periodic}, **chosen)


MESHES = {
    "line": skfem.MeshLine1,
    "triangle": skfem.MeshTri1,
    "quad": skfem.MeshQuad1,
    "tetra": skfem.MeshTet1,
    "hexahedron": skfem.MeshHex1,
}
SECOND = {"line3": "line", "triangle6": "triangle", "quad9": "quad", "tetra10": "tetra", "hexahedron27": "hexahedron"}
FLIPPED = {
    "line": [1, 0],
    "triangle": [0, 2, 1],
    "quad": [0, 3, 2, 1],
    "tetra": [0, 2, 1, 3],
    "hexahedron": [0, 3, 2, 1, 4, 7, 6, 5],
}


def mesh(cell_type, *, seed=0, distort=0.06, shear=False, n=(3, 2, 2)):
    """Mesh of the box with interior vertices moved, nodes numbered at random and cells turned at random.

    distort: size of the movement; shear: map the box to a parallelepiped afterwards, so that normals are oblique.
    """
    shape = SECOND.get(cell_type, cell_type)
    dim = CELL_TYPES[cell_type].dim
    rng = np.random.default_rng(seed)
    axes = [np.linspace(*BOX[name], k + 1) for name, k in zip("xyz"[:dim], n, strict=False)]
    made = MESHES[shape].init_tensor(*axes)
    points, cells = made.p.T.copy(), made.t.T.copy()
    if shape in ("quad", "hexahedron"):
        cells = np.array([_box_order(points[cell], cell, shape) for cell in cells])
    points = _move(points, rng, distort, shear)
    turned = rng.random(len(cells)) < 0.5
    cells[turned] = cells[turned][:, FLIPPED[shape]]
    if cell_type in SECOND:
        points, cells = _second_order(points, cells, cell_type)
    number = rng.permutation(len(points))
    shuffled = np.empty_like(points)
    shuffled[number] = points
    return Mesh(shuffled, number[cells], cell_type)


def _box_order(corners, cell, shape):
    """The vertices of an axis-parallel box in meshio's order."""
    middle = corners.mean(axis=0)
    place = {tuple(int(c) for c in (corner > middle)): node for corner, node in zip(corners, cell, strict=True)}
    return [place[vertex] for vertex in CELL_TYPES[shape].vertices]


def _move(points, rng, distort, shear):
    names = "xyz"[: points.shape[1]]
    low, high = (np.array([BOX[name][end] for name in names]) for end in (0, 1))
    inner = np.all((points > low + 1e-9) & (points < high - 1e-9), axis=1)
    points = points.copy()
    points[inner] += distort * rng.uniform(-1, 1, (int(inner.sum()), points.shape[1]))
    if shear:
        points = points @ (np.eye(len(names)) + 0.3 * rng.uniform(-1, 1, (len(names), len(names)))).T
    return points


def _second_order(points, cells, cell_type):
    middles = CELL_TYPES[cell_type].middle_points(points[cells])
    flat, inverse = np.unique(np.round(middles.reshape(-1, points.shape[1]), 10), axis=0, return_inverse=True)
    exact = np.zeros_like(flat)
    exact[inverse.ravel()] = middles.reshape(-1, points.shape[1])
    numbers = inverse.reshape(len(cells), -1) + len(points)
    return np.concatenate([points, exact]), np.concatenate([cells, numbers], axis=1)


def quad_mesh_of(grid_, degree):
    """The grid as a mesh of lines, quadrilaterals or hexahedra on the same nodes in the same order."""
    number = np.arange(grid_.n_nodes).reshape(grid_.shape)
    base = {1: "line", 2: "quad", 3: "hexahedron"}[grid_.dim]
    name = base if degree == 1 else next(second for second, first in SECOND.items() if first == base)
    reference = np.rint(CELL_TYPES[name].reference_nodes * degree).astype(int)
    corners = np.stack(np.meshgrid(*(np.arange(0, s - 1, degree) for s in grid_.shape), indexing="ij"), axis=-1)
    cells = [[number[tuple(corner + offset)] for offset in reference] for corner in corners.reshape(-1, grid_.dim)]
    return Mesh(grid_.points, np.array(cells), name)
