"""Mesh: every cell type, node order, refusals."""

import copy
import math
import pickle

import numpy as np
import pytest

from bvsi.data import CELL_TYPES, Mesh
from bvsi.errors import DataError

TRIANGLES = (np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), np.array([[0, 1, 2], [0, 2, 3]]))

# Reference nodes in VTK's (and so meshio's) order, written out independently of the package's tables.
H = 0.5
QUAD9 = [(0, 0), (1, 0), (1, 1), (0, 1), (H, 0), (1, H), (H, 1), (0, H), (H, H)]
TRIANGLE6 = [(0, 0), (1, 0), (0, 1), (H, 0), (H, H), (0, H)]
TETRA10 = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
TETRA10 += [(H, 0, 0), (H, H, 0), (0, H, 0), (0, 0, H), (H, 0, H), (0, H, H)]
HEX27 = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
HEX27 += [(H, 0, 0), (1, H, 0), (H, 1, 0), (0, H, 0), (H, 0, 1), (1, H, 1), (H, 1, 1), (0, H, 1)]
HEX27 += [(0, 0, H), (1, 0, H), (1, 1, H), (0, 1, H)]
HEX27 += [(0, H, H), (1, H, H), (H, 0, H), (H, 1, H), (H, H, 0), (H, H, 1), (H, H, H)]
NODES = {
    "line": [(0,), (1,)],
    "line3": [(0,), (1,), (H,)],
    "triangle": TRIANGLE6[:3],
    "triangle6": TRIANGLE6,
    "quad": QUAD9[:4],
    "quad9": QUAD9,
    "tetra": TETRA10[:4],
    "tetra10": TETRA10,
    "hexahedron": HEX27[:8],
    "hexahedron27": HEX27,
}
SECOND_ORDER = [name for name in NODES if name[-1].isdigit()]


def one_cell(cell_type):
    """A sheared reference cell."""
    nodes = np.array(NODES[cell_type], dtype=float)
    shear = np.eye(nodes.shape[1]) + 0.3 * np.triu(np.ones((nodes.shape[1],) * 2), 1)
    return nodes @ shear.T, np.arange(len(nodes))[None]


def test_every_type_is_covered():
    assert set(NODES) == set(CELL_TYPES)


@pytest.mark.parametrize("cell_type", NODES)
def test_cell_types(cell_type):
    points, cells = one_cell(cell_type)
    mesh = Mesh(points, cells, cell_type)
    dim = points.shape[1]
    assert mesh.dim == dim
    assert mesh.names == ("x", "y", "z")[:dim]
    assert mesh.n_nodes == len(points)
    assert mesh.degree == (2 if cell_type in SECOND_ORDER else 1)
    assert (
        mesh.vertices_per_cell
        == {"l": 2, "tr": 3, "q": 4, "te": 4, "h": 8}[cell_type[: 2 if cell_type[0] == "t" else 1]]
    )
    np.testing.assert_array_equal(mesh.cell.reference_nodes, NODES[cell_type])


@pytest.mark.parametrize("cell_type", NODES)
def test_either_orientation_is_accepted(cell_type):
    points, cells = one_cell(cell_type)
    points[:, 0] *= -1
    assert Mesh(points, cells, cell_type).n_nodes == len(points)


@pytest.mark.parametrize("cell_type", SECOND_ORDER)
def test_wrong_order_of_second_order_nodes_is_refused(cell_type):
    points, cells = one_cell(cell_type)
    n = CELL_TYPES[cell_type].n_nodes
    swapped = np.arange(n)
    # line3 has one mid node: take it for an end, as in a list sorted by position.
    swapped[[n - 2, n - 1]] = [n - 1, n - 2]
    with pytest.raises(DataError, match=f"{cell_type} cells are not in meshio's order"):
        Mesh(points, cells[:, swapped], cell_type)


def test_curved_cells_are_accepted():
    points, cells = one_cell("triangle6")
    points[4] += [0.2, 0.2]
    assert Mesh(points, cells, "triangle6").degree == 2


def test_folded_quad_is_refused():
    with pytest.raises(DataError, match=r"1 quad cells are folded, first cell 0 .*meshio's order"):
        Mesh([[0.0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2, 3]], "quad")


@pytest.mark.parametrize("skfem_name, cell_type", [("MeshTri", "triangle"), ("MeshTet", "tetra"), ("MeshQuad", "quad")])
def test_meshes_of_scikit_fem(skfem_name, cell_type):
    skfem = pytest.importorskip("skfem")
    source = getattr(skfem, skfem_name)().refined(2)
    mesh = Mesh(source.p.T, source.t.T, cell_type)
    assert mesh.n_nodes == source.nvertices
    assert len(mesh.cells) == source.nelements


@pytest.mark.parametrize(
    ("points", "cells", "cell_type", "words"),
    [
        (*TRIANGLES, "polygon", "cell_type 'polygon' is not supported; convert .* triangle6"),
        (TRIANGLES[0][:, 0], TRIANGLES[1], "triangle", r"points must have the shape \(n, 2\)"),
        (np.c_[TRIANGLES[0], np.zeros(4)], TRIANGLES[1], "triangle", r"3 columns.*drop the column with"),
        (np.c_[TRIANGLES[0], np.ones(4)], TRIANGLES[1], "triangle", r"3 columns.*surfaces .* not supported"),
        (TRIANGLES[0][:, :1], TRIANGLES[1], "triangle", "points have 1 columns, triangle cells need 2"),
        (
            TRIANGLES[0] * [1, np.nan],
            TRIANGLES[1],
            "triangle",
            r"4 points .*not finite \(NaN\), first point 0",
        ),
        (
            TRIANGLES[0],
            TRIANGLES[1] * 1.0,
            "triangle",
            "cells have dtype float64; give node indices as integers",
        ),
        (
            TRIANGLES[0],
            TRIANGLES[1],
            "quad",
            r"cells must have the shape \(m, 4\) for quad cells, got \(2, 3\)",
        ),
        (TRIANGLES[0], np.empty((0, 3), int), "triangle", "cells must have the shape"),
        (TRIANGLES[0], TRIANGLES[1] + 1, "triangle", "run from 1 to 4, the points from 0 to 3; .*subtract 1"),
        (TRIANGLES[0], TRIANGLES[1] - 1, "triangle", "indices run from -1 to 2"),
        (TRIANGLES[0], [[0, 1, 2], [0, 3, 3]], "triangle", "1 cells have a duplicated node, first cell 1"),
        (TRIANGLES[0], [[0, 1, 2]], "triangle", r"1 of 4 are used by no cell \(3\); drop them"),
        (
            np.eye(2).repeat(5, 0),
            [[0, 9, 4]],
            "triangle",
            r"7 of 10 are used by no cell \(1, 2, 3, 5, 6, …\)",
        ),
        ([[0, 0], [0.1, 0.1], [0.3, 0.3]], [[0, 1, 2]], "triangle", "1 cells have zero volume, first cell 0"),
        ([[0.0], [0.0]], [[0, 1]], "line", "1 cells have zero volume"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]], [[0, 1, 2, 3]], "tetra", "zero volume"),
    ],
)
def test_refusals(points, cells, cell_type, words):
    with pytest.raises(DataError, match=words):
        Mesh(points, cells, cell_type)


def test_thin_but_sound_cells_are_accepted():
    points = np.array([[0, 0], [1, 0], [0.5, 1e-6]])
    assert Mesh(points, [[0, 1, 2]], "triangle").n_nodes == 3


def test_arrays_are_read_only_copies():
    points, cells = (a.copy() for a in TRIANGLES)
    mesh = Mesh(points, cells, "triangle")
    points[:] = math.nan
    cells[:] = 0
    np.testing.assert_array_equal(mesh.points, TRIANGLES[0])
    np.testing.assert_array_equal(mesh.cells, TRIANGLES[1])
    for again in (mesh, copy.deepcopy(mesh), pickle.loads(pickle.dumps(mesh))):
        for array in (again.points, again.cells):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_repr():
    assert repr(Mesh(*TRIANGLES, "triangle")) == "Mesh: 2 triangle cells, 4 nodes in [0, 1] × [0, 1]"
