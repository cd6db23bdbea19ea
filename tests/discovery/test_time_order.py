"""The order of the time derivative, left open: both are compared."""

import numpy as np
import pytest

import bvsi

X = np.linspace(0, 2 * np.pi, 64, endpoint=False)
T = np.linspace(0, 2, 81)
OPERATORS = ["u", "dx(u)", "laplacian(u)", "u**2", "u*dx(u)", "biharmonic(u)"]
# A mode e^{ikx} of u_tt = −ω² u stands or travels with frequency ω(k); of u_t = −λ u it decays.
WAVES = {
    "wave": (lambda k: k, {"laplacian(u)": 1.0}),
    "Klein-Gordon": (lambda k: np.sqrt(k**2 + 2), {"laplacian(u)": 1.0, "u": -2.0}),
    "beam": (lambda k: 0.5 * k**2, {"biharmonic(u)": -0.25}),
}


def modes(rng):
    return [(k, *rng.normal(size=2), *rng.uniform(0, 2 * np.pi, 2)) for k in (1, 2, 3, 4)]


def data_of(u, rng):
    noisy = u + 0.02 * u.std() * rng.standard_normal(u.shape)
    return bvsi.Data.from_arrays({"u": noisy}, times=T, geometry=bvsi.Grid(x=X, periodic="x"))


def check(found, order, truth):
    assert found.time_order == order
    assert set(found.names) == set(truth)
    for name, sd in zip(found.names, found.sd, strict=True):
        assert abs(found.coefficient(name) - truth[name]) < 4 * sd


@pytest.mark.parametrize("name", WAVES)
def test_waves_are_of_second_order(name):
    frequency, truth = WAVES[name]
    rng = np.random.default_rng(3)
    u = sum(
        a * np.cos(frequency(k) * T[:, None] + p) * np.cos(k * X + q)
        + b * np.cos(frequency(k) * T[:, None] + q) * np.sin(k * X)
        for k, a, b, p, q in modes(rng)
    )
    found = bvsi.discover(data_of(u, rng), bvsi.Library({"u": OPERATORS}, time_order=None), check=False)
    check(found, 2, truth)
    assert found.settings["time order"].startswith("second order, with χ²/n")
    assert "u_tt = " in str(found)


def test_an_order_of_which_nothing_is_explained_is_not_searched():
    """Elastic waves, u_tt = λ ∇(∇·u) + 2μ ∇·ε(u) with λ = 1.2, μ = 0.8: u_t is a quarter of a period behind."""
    rng, n = np.random.default_rng(6), 24
    x, times = 2 * np.pi * np.arange(n) / n, np.linspace(0, 4, 41)
    grid = bvsi.Grid(x=x, y=x, periodic=("x", "y"))
    u = np.zeros((2, len(times), grid.n_nodes))
    for k in ([1, 0], [1, 1], [0, 2], [2, -1]):
        size = np.hypot(*k)
        along, across = np.array(k) / size, np.array([-k[1], k[0]]) / size
        for direction, speed in ((along, np.sqrt(2.8)), (across, np.sqrt(0.8))):
            phase = (grid.points @ k)[None] - speed * size * times[:, None] + rng.uniform(0, 2 * np.pi)
            u += direction[:, None, None] * rng.normal() * np.sin(phase)
    data = bvsi.add_noise(bvsi.Data(times, {"ux": u[0], "uy": u[1]}, grid), 0.01, rng)
    operators = ["grad(div(u))", "div(symgrad(u))", "u", "grad(dot(u, u))"]
    library = bvsi.Library({"u": operators}, vectors={"u": ("ux", "uy")}, time_order=None)
    found = bvsi.discover(data, library, check=False)
    check(
        found, 2, {f"{c}: {o}": v for c in ("ux", "uy") for o, v in (("grad(div(u))", 1.2), ("div(symgrad(u))", 1.6))}
    )
    assert "of the first order all candidates leave" in found.settings["time order"]


def test_heat_is_of_first_order():
    """It satisfies u_tt = D² u_xxxx as well, which follows."""
    rng = np.random.default_rng(4)
    u = sum(a * np.exp(-0.1 * k**2 * T[:, None]) * np.cos(k * X + q) for k, a, _, _, q in modes(rng))
    found = bvsi.discover(data_of(u, rng), bvsi.Library({"u": OPERATORS}, time_order=None), check=False)
    check(found, 1, {"laplacian(u)": 0.1})
    assert found.settings["time order"].startswith("first order")


def test_a_library_keeps_it_open():
    library = bvsi.Library({"u": ["u", "laplacian(u)"]}, time_order=None)
    assert library.orders == (1, 2)
    assert library.subset(["u"]).orders == (1, 2)
    assert library.with_(time_order=2).orders == (2,)
    assert library.time_order == 1
    with pytest.raises(bvsi.BvsiError, match="or None"):
        bvsi.Library({"u": ["u"]}, time_order=0)
