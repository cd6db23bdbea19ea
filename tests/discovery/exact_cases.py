"""Exact solutions on rings, sampled without error of discretisation."""

from __future__ import annotations

import numpy as np

from bvsi.data import Data, Grid
from bvsi.operators import Library

NU = 0.3
BURGERS_TRUTH = {"u*dx(u)": -1.0, "laplacian(u)": NU}
BURGERS = Library({"u": ["laplacian(u)", "u*dx(u)", "u", "dx(u)", "u**2", "u**3", "dx(dx(dx(u)))"]})

ROTATION_TRUTH = {"u: laplacian(u)": 0.1, "u: v": -1.0, "v: laplacian(v)": 0.05, "v: u": 0.8}
ROTATION = Library({"u": ["laplacian(u)", "u", "v", "dx(u)"], "v": ["laplacian(v)", "u", "v"]})


def ring(nodes: int) -> Grid:
    """[0, 2π)."""
    return Grid(x=np.arange(nodes) * 2 * np.pi / nodes, periodic={"x": 2 * np.pi})


def burgers(nodes: int = 48, times: int = 41) -> Data:
    """u_t = −u u_x + ν u_xx by Cole and Hopf: u = −2ν φ_x/φ, φ_t = ν φ_xx, for t ∈ [0, 2]."""
    grid, t = ring(nodes), np.linspace(0, 2, times)
    x, at = grid.axes["x"], t[:, None]
    phi, slope = np.ones((times, nodes)), np.zeros((times, nodes))
    for k, a, p in ((1, 0.6, 0.0), (2, 0.2, 1.0)):
        decay = a * np.exp(-NU * k**2 * at)
        phi = phi + decay * np.cos(k * x + p)
        slope = slope - k * decay * np.sin(k * x + p)
    return Data(t, {"u": -2 * NU * slope / phi}, grid)


def rotation(nodes: int = 32, times: int = 41) -> Data:
    """u_t = 0.1 u_xx − v, v_t = 0.05 v_xx + 0.8 u, mode by mode, for t ∈ [0, 2]."""
    grid, t = ring(nodes), np.linspace(0, 2, times)
    x = grid.axes["x"]
    fields = np.zeros((2, times, nodes))
    for k, start, p in ((0, (0.5, 0.2), 0.0), (1, (1.0, -0.3), 0.4), (2, (0.4, 0.5), 2.0)):
        values, vectors = np.linalg.eig(np.array([[-0.1 * k**2, -1.0], [0.8, -0.05 * k**2]]))
        weights = np.linalg.solve(vectors, np.array(start))
        modes = (vectors @ (weights[:, None] * np.exp(values[:, None] * t))).real
        fields += modes[:, :, None] * np.cos(k * x + p)
    return Data(t, {"u": fields[0], "v": fields[1]}, grid)


def noisy(data: Data, sigma: float, seed: int = 0) -> Data:
    """White noise added to all fields."""
    rng = np.random.default_rng(seed)
    return data.with_fields({f: u + sigma * rng.standard_normal(u.shape) for f, u in data.fields.items()})
