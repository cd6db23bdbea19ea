"""Meshes of triangles for tests of data on meshes."""

import numpy as np

from bvsi.data import Mesh


def triangles(n):
    """Unit square of n × n nodes, inner ones moved off their places."""
    rng = np.random.default_rng(0)
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    inner = ((points > 0) & (points < 1)).all(axis=1)
    points = points + inner[:, None] * rng.uniform(-0.2, 0.2, points.shape) / n
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    cells = np.concatenate(
        [np.stack([corner, corner + n, corner + 1], 1), np.stack([corner + n, corner + n + 1, corner + 1], 1)]
    )
    return Mesh(points, cells, "triangle")
