"""Nodes where materials meet, on grids and meshes; smooth fields have none."""

import numpy as np
import pytest

from bvsi import Data, Grid, Mesh
from bvsi.data.smoothness import jumps

X = np.linspace(0, 1, 21)
GRID = Grid(x=X, y=X)


def triangles():
    from scipy.spatial import Delaunay

    inside = np.all((GRID.points > 0) & (GRID.points < 1), axis=1)[:, None]
    points = GRID.points + inside * np.random.default_rng(0).uniform(-0.01, 0.01, GRID.points.shape)
    return Mesh(points, Delaunay(points).simplices, "triangle")


@pytest.mark.parametrize("geometry", [GRID, triangles()], ids=["grid", "mesh"])
def test_nodes_on_either_side_are_at_a_jump(geometry):
    x = geometry.points[:, 0]
    known = {"k": np.where(x < 0.52, 1.0, 5.0), "smooth": np.exp(5 * x), "one": np.ones(len(x))}
    data = Data(np.zeros(1), {"u": x[None]}, geometry, known)
    found = jumps(data, ["k"])
    assert found is not None
    assert 40 < found.sum() < 150
    assert (found & (x < 0.52)).any()
    assert (found & (x > 0.52)).any()
    assert not found[np.abs(x - 0.52) > 0.15].any()
    assert jumps(data, ["smooth", "one"]) is None


def test_a_periodic_axis_jumps_across_its_end_and_a_bounded_one_does_not():
    k = np.where(X[:-1] < 0.5, 1.0, 2.0)
    ends = {}
    for periodic in ((), ("x",)):
        grid = Grid(x=X[:-1], periodic=periodic)
        found = jumps(Data(np.zeros(1), {"u": k[None]}, grid, {"k": k}), ["k"])
        ends[periodic] = found[[0, -1]].tolist()
    assert ends == {(): [False, False], ("x",): [True, True]}
