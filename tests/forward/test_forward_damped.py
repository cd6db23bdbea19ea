"""Damped steps: those of Newton's method where it converges, and a lowest residual where no solution is near."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.forward import ThetaScheme, simulate
from bvsi.operators import Library, Mixed, NoFlux, ZeroNeumann
from bvsi.spaces import Q1, Q2, Galerkin

GRID = Grid(x=np.linspace(0, 1, 17))
X = GRID.points[:, 0]
TIMES = np.linspace(0, 1, 6)
START = 1.2 + np.cos(np.pi * X) + 0.3 * np.cos(3 * np.pi * X)
CASES = {
    "linear": (Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux()), [0.1, -0.8], Q1),
    "nonlinear": (Library({"u": ["laplacian(u)", "u", "u**2"]}, boundary=NoFlux()), [0.05, 1.0, -1.0], Q2),
    "gradient flow": (
        Library(
            {"u": ["biharmonic(u)", "laplacian(diff(u**4, u))", "laplacian(u)"]},
            boundary=ZeroNeumann(),
            biharmonic=Mixed(),
        ),
        [-1e-3, 0.02, -0.02],
        Q2,
    ),
}


def solved(name, scheme, times=TIMES):
    library, theta, element = CASES[name]
    initial = Data(times[:2], {"u": np.stack([START, START])}, GRID)
    return simulate(library, theta, initial, times, discretisation=Galerkin(element), scheme=scheme).fields["u"]


@pytest.mark.parametrize("implicitness", [1.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_where_newton_converges_damping_changes_nothing(name, implicitness):
    plain = ThetaScheme(implicitness)
    assert_allclose(solved(name, replace(plain, damped=True)), solved(name, plain), rtol=1e-8, atol=1e-9)


def test_the_step_is_that_of_the_size_given_and_not_its_halves():
    """One backward-Euler step of a stiff decay, for which Newton's method may take two iterations only."""
    times = np.array([0.0, 2.0])
    exact = solved("nonlinear", ThetaScheme(max_newton=50), times)
    halved = solved("nonlinear", ThetaScheme(max_newton=3), times)
    damped = solved("nonlinear", ThetaScheme(max_newton=3, damped=True), times)
    assert np.abs(halved - exact).max() > 1e-3
    assert_allclose(damped, exact, rtol=1e-7)
