"""Solutions with derivatives: the order of the scheme, and derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.forward.ensemble import simulator
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.forward.tangents import propagator, solve_with_tangents, weak_terms
from bvsi.operators import Dirichlet, Library, NoFlux

TIMES = np.array([0.0, 0.5, 1.5])


def fisher(boundary):
    x = np.linspace(0.0, 10.0, 24)
    u0 = 0.2 + 0.6 * np.exp(-((x - 4.0) ** 2))
    library = Library({"u": ["laplacian(u)", "u", "u**2"]}, boundary=boundary)
    return simulator(Data(TIMES, {"u": np.tile(u0, (3, 1))}, Grid(x=x)), library), np.array([0.3, 0.8, -0.9]), u0


def plane():
    grid = Grid(x=np.linspace(0, 1, 8, endpoint=False), y=np.linspace(0, 1, 9), periodic={"x": 1.0})
    x, y = grid.points.T
    u, v = 1 + 0.3 * np.sin(2 * np.pi * x) * np.cos(np.pi * y), 0.5 + 0.2 * np.cos(np.pi * y)
    library = Library({"u": ["laplacian(u)", "u*v"], "v": ["laplacian(v)", "u"]}, boundary=NoFlux())
    data = Data(TIMES, {"u": np.tile(u, (3, 1)), "v": np.tile(v, (3, 1))}, grid)
    return simulator(data, library), np.array([0.02, -0.5, 0.01, 0.3]), np.concatenate([u, v])


def drift(boundary):
    x = np.linspace(0.0, 10.0, 24)
    u0 = 0.2 + 0.6 * np.exp(-((x - 4.0) ** 2))
    library = Library({"u": ["laplacian(u)", "dx(u)", "x"]}, boundary=boundary)
    return simulator(Data(TIMES, {"u": np.tile(u0, (3, 1))}, Grid(x=x)), library), np.array([0.3, 0.8, 0.1]), u0


CASES = {"no flux": lambda: fisher(NoFlux()), "held ends": lambda: fisher(Dirichlet()), "two fields": plane}
CASES["linear"] = lambda: drift(Dirichlet())


def values(made, theta, u0, steps=2):
    return np.stack([u for u, _ in solve_with_tangents(made, theta, u0, np.zeros((len(u0), 0)), TIMES, steps)])


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_numbers_computed(case):
    made, theta, u0 = CASES[case]()
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((len(u0), 2))
    slopes = np.stack([G for _, G in solve_with_tangents(made, theta, u0, basis, TIMES, 2)])
    h = 1e-5
    for i in range(len(theta)):
        e = h * np.eye(len(theta))[i]
        difference = (values(made, theta + e, u0) - values(made, theta - e, u0)) / (2 * h)
        np.testing.assert_allclose(slopes[:, :, i], difference, atol=1e-6 * np.abs(difference).max())
    for i in range(2):
        e = h * basis[:, i]
        difference = (values(made, theta, u0 + e) - values(made, theta, u0 - e)) / (2 * h)
        np.testing.assert_allclose(slopes[:, :, len(theta) + i], difference, atol=1e-6 * np.abs(difference).max())


def test_the_scheme_is_of_order_three():
    made, theta, u0 = fisher(NoFlux())
    exact, _ = made.run(theta, {"u": u0}, TIMES, scheme=Rosenbrock(1e-10))
    errors = [np.abs(values(made, theta, u0, steps) - exact["u"]).max() for steps in (4, 8)]
    assert errors[0] / errors[1] > 6.5


def test_linear_equations_have_order_nine():
    made, theta, u0 = drift(Dirichlet())
    exact, _ = made.run(theta, {"u": u0}, TIMES, scheme=Rosenbrock(1e-11))
    errors = [np.abs(values(made, theta, u0, steps) - exact["u"]).max() for steps in (1, 2)]
    assert errors[1] < 1e-5
    assert errors[0] / errors[1] > 2**7
    one = np.arange(24) == 9
    *_, (_, G) = solve_with_tangents(made, theta, u0, np.eye(24)[:, one], TIMES[:2], 4)
    np.testing.assert_allclose(propagator(made, theta, 0.5)[:, one], G[:, 3:], atol=1e-5)


def test_weak_terms_add_up_to_the_rate():
    made, theta, u0 = fisher(NoFlux())
    Mu, F = weak_terms(made, u0[None], TIMES[:1])
    step = 1e-4
    later, _ = made.run(theta, {"u": u0}, np.array([0.0, step]), scheme=Rosenbrock(1e-10))
    then, _ = weak_terms(made, later["u"][1:], TIMES[:1])
    np.testing.assert_allclose((then - Mu)[0] / step, F[0] @ theta, atol=2e-4 * np.abs(F[0] @ theta).max())
