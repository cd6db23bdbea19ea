"""Equations that cannot be solved forward in time are said to be such."""

from __future__ import annotations

import numpy as np
import pytest

import bvsi
from bvsi.check import Verdict
from bvsi.check.well_posed import grows_without_bound
from bvsi.data import Data, Grid
from bvsi.operators import Library

LINE = Grid(x=np.linspace(0, 1, 40, endpoint=False), periodic={"x": 1.0})
PLANE = Grid(x=np.linspace(0, 2, 20), y=np.linspace(0, 1, 10))


def positive(grid: Grid, *names: str) -> Data:
    """Fields between 0.5 and 1.5."""
    rng = np.random.default_rng(0)
    return Data(np.linspace(0, 1, 5), {name: rng.uniform(0.5, 1.5, (5, grid.n_nodes)) for name in names}, grid)


@pytest.mark.parametrize(
    "equation, ill",
    [
        ({"laplacian(u)": 0.1, "u": 30.0}, False),  # a reaction grows, and no faster at shorter waves
        ({"laplacian(u)": -1e-4, "u": -30.0}, True),
        ({"laplacian(u)": -1.0, "biharmonic(u)": -1e-3, "u*dx(u)": -1.0}, False),  # Kuramoto–Sivashinsky
        ({"laplacian(u)": 1.0, "biharmonic(u)": 1e-6}, True),
        ({"dx(dx(dx(u)))": -1.0, "u*dx(u)": -6.0}, False),
        ({"dx(dx(dx(u)))": -1.0, "laplacian(u)": -1e-3}, True),
        ({"laplacian(u**2)": 1.0}, False),
        ({"laplacian(u**2)": -1.0, "laplacian(u)": 0.1}, True),
        ({"dx(u)**2": -3.0, "laplacian(u)": 0.1}, False),
        ({"u*laplacian(u)": -3.0, "laplacian(u)": 0.1}, True),
        ({"dx(u)": 5.0}, False),
        ({"div(u*grad(x**2))": 5.0}, False),
    ],
)
@pytest.mark.parametrize("unit", [1.0, 1e3, 1e-6])
def test_scalar_equations_whatever_the_unit_of_time(equation, ill, unit):
    theta = unit * np.array(list(equation.values()))
    assert grows_without_bound(Library({"u": list(equation)}), theta, positive(LINE, "u")) is ill


@pytest.mark.parametrize("sign, ill", [(1.0, False), (-1.0, True)])
def test_one_direction_is_enough(sign, ill):
    library = Library({"u": ["dx(dx(u))", "dy(dy(u))"]})
    assert grows_without_bound(library, np.array([1.0, 0.01 * sign]), positive(PLANE, "u")) is ill


def test_coefficients_are_averaged_over_all_of_the_plane():
    # of 500 frames on 40 x 100 nodes every hundredth value would be one at y = 0, where diffusion is negative
    grid = Grid(x=np.linspace(0, 2, 40), y=np.linspace(0, 1, 100))
    data = Data(np.linspace(0, 1, 500), {"u": np.ones((500, grid.n_nodes))}, grid)
    assert not grows_without_bound(Library({"u": ["div((y - 0.2)*grad(u))"]}), np.array([1.0]), data)


@pytest.mark.parametrize("sign, ill", [(1.0, False), (-1.0, True)])
def test_waves(sign, ill):
    library = Library({"u": ["laplacian(u)", "u"]}, time_order=2)
    assert grows_without_bound(library, np.array([sign, 5.0]), positive(PLANE, "u")) is ill


@pytest.mark.parametrize("sign, ill", [(-1.0, False), (1.0, True)])
def test_systems_are_judged_together(sign, ill):
    # Schroedinger: no diffusion in either equation, and waves that turn; with the other sign one of them grows
    library = Library({"u": ["laplacian(v)"], "v": ["laplacian(u)"]})
    assert grows_without_bound(library, np.array([1.0, sign]), positive(LINE, "u", "v")) is ill


@pytest.mark.parametrize("backwards", [False, True])
def test_a_movie_of_diffusion_that_runs_backwards(backwards):
    x, t = np.linspace(0, 2 * np.pi, 64, endpoint=False), np.linspace(0, 1, 41)
    modes = [(k, np.exp(-0.1 * k**2 * t[:, None]) * np.cos(k * x + k**2)) for k in range(1, 5)]
    u = sum(wave / k for k, wave in modes)[:: -1 if backwards else 1]
    u = u + 1e-3 * np.random.default_rng(0).standard_normal(u.shape)
    data = Data(t, {"u": u}, Grid(x=x, periodic={"x": 2 * np.pi}))
    found = bvsi.discover(data, Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2"]}))
    assert found.names == ("laplacian(u)",)
    assert abs(abs(found.theta[0]) - 0.1) < 4 * found.sd[0]
    assert found.check.verdict is (Verdict.ILL_POSED if backwards else Verdict.CONSISTENT)
    assert ("cannot be solved forward in time" in found.check.advice) is backwards
