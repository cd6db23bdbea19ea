"""Meshes through scattered points: gaps stay open, and coarser meshes keep the domain."""

from __future__ import annotations

import numpy as np
import pytest
from skfem import MeshTri

from bvsi.data import Mesh
from bvsi.data.scattered import coarser, count_holes, mesh_through
from bvsi.errors import DataError


def area(mesh: Mesh) -> float:
    corners = mesh.points[mesh.cells[:, :3]]
    return float(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 2)


@pytest.mark.parametrize("seed", range(5))
def test_random_points_have_no_holes_and_a_gap_is_one(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(0, 1, (600, 2))
    mesh, used = mesh_through(points)
    assert used.all()
    assert count_holes(mesh) == 0
    ring = points[np.linalg.norm(points - 0.5, axis=1) > 0.2]
    mesh, _ = mesh_through(ring)
    assert count_holes(mesh) == 1
    assert 0.7 < area(mesh) < 1 - np.pi * 0.2**2  # nothing beyond the outermost points


def test_two_clusters_are_two_parts() -> None:
    points = np.random.default_rng(0).uniform(0, 1, (300, 2))
    points[150:, 0] += 3
    mesh, _ = mesh_through(points)
    assert not np.any(np.ptp(mesh.points[mesh.cells][:, :, 0], axis=1) > 1)


def test_a_domain_that_is_told() -> None:
    points = np.random.default_rng(0).uniform(0, 2, (900, 2))
    corner = np.array([[0.0, 0], [2, 0], [2, 0.8], [0.8, 0.8], [0.8, 2], [0, 2]])
    mesh, used = mesh_through(points, corner)
    assert area(mesh) == pytest.approx(4 - 1.2**2, rel=0.04)
    within = np.any(points < 0.8, axis=1)
    assert used[within].all()
    assert mesh.n_nodes == used.sum() < 900
    axis = np.linspace(0, 2, 11)
    whole = MeshTri.init_tensor(axis, axis)
    kept = whole.restrict(np.flatnonzero(np.abs(whole.p[:, whole.t].mean(axis=1) - 1).max(axis=0) > 0.2))
    mesh, _ = mesh_through(points, Mesh(kept.p.T, kept.t.T, "triangle"))
    assert count_holes(mesh) == 1
    assert area(mesh) == pytest.approx(4 - 0.4**2, rel=0.04)


def test_a_domain_that_is_none_is_refused() -> None:
    points = np.random.default_rng(0).uniform(0, 1, (50, 2))
    for domain, why in [
        ([[0.0, 0], [1, 0]], "three corners"),
        ([[5.0, 5], [6, 5], [6, 6]], "no mesh through"),
        (Mesh(np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), np.array([[0, 1, 2, 3]]), "quad"), "of triangles"),
    ]:
        with pytest.raises(DataError, match=why):
            mesh_through(points, domain)
    with pytest.raises(DataError, match="points"):
        mesh_through(points[:, :1])
    with pytest.raises(DataError, match="3D"):
        mesh_through(np.random.default_rng(0).uniform(0, 1, (50, 3)), [[0.0, 0], [1, 0], [1, 1]])


def test_points_on_a_line_are_refused() -> None:
    with pytest.raises(DataError, match="span no mesh"):
        mesh_through(np.stack([np.arange(9.0), np.arange(9.0)], axis=1))


def test_coarser_meshes_cover_the_same_domain() -> None:
    axis = np.linspace(0, 1, 31)
    whole = MeshTri.init_tensor(axis, axis)
    kept = whole.restrict(np.flatnonzero(np.abs(whole.p[:, whole.t].mean(axis=1) - 0.5).max(axis=0) > 0.2))
    mesh = Mesh(kept.p.T, kept.t.T, "triangle")
    found = coarser(mesh)
    assert found is not None
    coarse, mask = found
    assert 0.2 < mask.mean() < 0.4
    assert np.array_equal(coarse.points, mesh.points[mask])
    assert count_holes(coarse) == 1
    assert area(coarse) == pytest.approx(area(mesh), rel=0.1)


def test_corners_are_kept_of_second_order_cells() -> None:
    lattice = np.stack(np.meshgrid(np.arange(9), np.arange(9), indexing="ij"), axis=-1).reshape(-1, 2) / 8
    number = np.arange(81).reshape(9, 9)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(0, 8, 2), np.arange(0, 8, 2), indexing="ij"))
    offsets = [(0, 0), (2, 0), (2, 2), (0, 2), (1, 0), (2, 1), (1, 2), (0, 1), (1, 1)]
    mesh = Mesh(lattice, np.stack([number[i + a, j + b] for a, b in offsets], axis=1), "quad9")
    found = coarser(mesh)
    assert found is not None
    coarse, mask = found
    assert coarse.cell_type == "quad"
    assert mask.sum() == coarse.n_nodes == 25
