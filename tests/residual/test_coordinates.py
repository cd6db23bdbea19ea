"""grad, div and laplacian in polar, cylindrical and spherical coordinates are those of the plane and of space."""

import numpy as np
import pytest

from bvsi import Data, Grid, Library, SplineTests
from bvsi.errors import DataError, OperatorError
from bvsi.residual import EachFrame, assemble

AXES = {
    "polar": {"r": (0.5, 2.0), "phi": (0.0, 2 * np.pi)},
    "cylindrical": {"r": (0.5, 2.0), "phi": (0.0, 2 * np.pi), "z": (0.0, 1.0)},
    "spherical": {"r": (0.7, 2.0), "theta": (0.6, 2.4), "phi": (0.0, 2 * np.pi)},
}


def grid_of(system, n):
    axes = {
        name: low + (high - low) * np.arange(n) / n if name == "phi" else np.linspace(low, high, n)
        for name, (low, high) in AXES[system].items()
    }
    return Grid(periodic=("phi",), coordinates=system, **axes)


def positions(grid):
    """x (n, 3) in space, z = 0 in the plane."""
    p = dict(zip(grid.names, grid.points.T, strict=True))
    if grid.coordinates == "spherical":
        s = np.sin(p["theta"])
        return p["r"][:, None] * np.stack([s * np.cos(p["phi"]), s * np.sin(p["phi"]), np.cos(p["theta"])], axis=1)
    z = p.get("z", np.zeros(grid.n_nodes))
    return np.stack([p["r"] * np.cos(p["phi"]), p["r"] * np.sin(p["phi"]), z], axis=1)


@pytest.mark.parametrize("system", AXES)
def test_operators_agree_with_those_of_space(system):
    """u = sin(k·x) has ∇²u = −|k|² u, ∇·(u ∇|x|²) = 2d u + 2 x·∇u and |∇u|² = |k|² cos²(k·x)."""
    grid = grid_of(system, 32 if system == "polar" else 20)
    x, k = positions(grid), np.array([0.9, 0.5, 0.0 if system == "polar" else 0.6])
    wave, slope, d = np.sin(x @ k), np.cos(x @ k), 2 if system == "polar" else 3
    square = {"polar": "r**2", "cylindrical": "r**2 + z**2", "spherical": "r**2"}[system]
    known = {"l": -(k @ k) * wave, "q": 2 * d * wave + 2 * (x @ k) * slope, "s": (k @ k) * slope**2}
    data = Data(np.zeros(1), {"u": wave[None]}, grid, known)
    texts = ["laplacian(u)", "l", f"div(u*grad({square}))", "q", "dot(grad(u), grad(u))", "s"]
    library = Library({"u": texts}, left="u**3")
    X = assemble(data, library, discretisation=SplineTests(gap=2), stencil=EachFrame()).experiments[0].X
    for one, tolerance in ((0, 1e-3), (2, 1e-3), (4, 1e-2)):
        assert np.abs(X[..., one] - X[..., one + 1]).max() < tolerance * np.abs(X[..., one]).max()


def test_what_is_left_out_does_not_matter():
    """With r alone ∇² is that of functions that depend on r only: ∇² r² is 4 in the plane and 6 in space."""
    for system, value in (("polar", 4.0), ("spherical", 6.0)):
        grid = Grid(r=np.linspace(1, 2, 25), coordinates=system)
        data = Data(np.zeros(1), {"u": grid.points[:, 0][None] ** 2}, grid)
        library = Library({"u": ["laplacian(u)", "1"]}, left="u")
        X = assemble(data, library, discretisation=SplineTests(gap=2), stencil=EachFrame()).experiments[0].X[:, 0]
        np.testing.assert_allclose(X[:, 0], value * X[:, 1], rtol=1e-6)


def test_axes_are_those_of_the_coordinates():
    r = np.linspace(0, 1, 9)
    with pytest.raises(DataError, match="coordinates='polar'"):
        Grid(r=r)
    with pytest.raises(DataError, match="leave out the nodes with r = 0"):
        Grid(r=r, coordinates="polar")
    with pytest.raises(DataError, match="'x' is none of r, phi"):
        Grid(x=r, coordinates="polar")
    with pytest.raises(DataError, match="none of cartesian, polar"):
        Grid(x=r, coordinates="toroidal")
    grid = Grid(r=r + 1, coordinates="polar")
    with pytest.raises(DataError, match="'r' is an axis"):
        Data(np.zeros(1), {"r": r[None]}, grid)
    assert grid.on({"r": r[::2] + 1}).coordinates == "polar"
    data = Data(np.zeros(1), {"u": r[None]}, grid)
    with pytest.raises(OperatorError, match="only the coordinates r"):
        assemble(data, Library({"u": ["dx(u)"]}, left="u"), discretisation=SplineTests(gap=1))
