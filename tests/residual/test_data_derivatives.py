"""Operators that read derivatives of the data: residuals, Jacobians, means and covariances over the noise, masks."""

from functools import cache

import numpy as np
import pytest
import sympy as sp
from numpy.testing import assert_allclose

from bvsi import IID, Data, Grid, Library, SplineTests, Stacked
from bvsi.data.scattered import mesh_through
from bvsi.residual import TemporalTests, assemble
from bvsi.setup import Setup
from bvsi.spaces import is_uniform

X, Y, TIME = sp.symbols("x y t")
WAVE = sp.sin(X - TIME) + sp.cos(2 * X + TIME) / 2
WAVE_2D = sp.sin(X - TIME) * sp.cos(Y) + sp.cos(X + Y + 2 * TIME) / 2


def ring(n):
    return Grid(x=np.arange(n) * 2 * np.pi / n, periodic={"x": 2 * np.pi})


def line(n):
    return Grid(x=np.linspace(0, 5, n + 1))


def torus(n):
    axis = np.arange(n) * 2 * np.pi / n
    return Grid(x=axis, y=axis, periodic={"x": 2 * np.pi, "y": 2 * np.pi})


@cache
def triangles(n):
    """A square of about n × n nodes, and the same number of them scattered."""
    axis = np.linspace(0, 3, n)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    step = (np.arange(n) % 2 - 0.5) * axis[1] / 2
    points = np.stack([x + np.where((x == 0) | (x == 3), 0, step), y], axis=2).reshape(-1, 2)
    return mesh_through(points)[0]


@cache
def scattered(n):
    return mesh_through(np.random.default_rng(2).uniform(0, 3, (n * n, 2)))[0]


@cache
def uneven(n):
    x, y = (3 * np.cumsum(s) / s.sum() for s in np.random.default_rng(3).uniform(0.7, 1.3, (2, n)))
    return Grid(x=x, y=y)


PLACES = {"ring": ring(64), "line": line(64), "torus": torus(40)}
OTHERS = {"triangles": triangles(26), "scattered": scattered(26), "uneven": uneven(26)}
OPERATORS = {
    "dx(u)**2": lambda u: sp.diff(u, X) ** 2,
    "u*laplacian(u)": lambda u: u * (sp.diff(u, X, 2) + sp.diff(u, Y, 2)),
    "dot(grad(u), grad(u))": lambda u: sp.diff(u, X) ** 2 + sp.diff(u, Y) ** 2,
    "div(u**3*grad(laplacian(u)))": lambda u: sum(
        sp.diff(u**3 * sp.diff(sp.diff(u, X, 2) + sp.diff(u, Y, 2), c), c) for c in (X, Y)
    ),
    "sqrt(1 + dx(u)**2)": lambda u: sp.sqrt(1 + sp.diff(u, X) ** 2),
    "dx(dx(u))**2": lambda u: sp.diff(u, X, 2) ** 2,
}


def sampled(expression, grid, times):
    places = grid.points.T if grid.dim == 2 else (grid.points[:, 0], np.zeros(grid.n_nodes))
    return np.asarray(sp.lambdify((TIME, X, Y), expression)(times[:, None], *places))


@cache
def library(*texts):
    """Operators keep their weak forms."""
    return Library({"u": list(texts)})


def made(grid, texts, values, variance=None, reach=4.0, **more):
    times, gap = np.linspace(0, 2, len(values)), 3.0 if is_uniform(grid) else 2.5
    data = Data(times, {"u": values}, grid, **more)
    tests = SplineTests(gap=gap, reach=reach)
    return assemble(data, library(*texts), discretisation=tests, stencil=TemporalTests(5, 2.0), variance=variance)


@pytest.mark.parametrize("grid", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("text", OPERATORS)
def test_they_are_what_the_same_numbers_as_a_known_source_are(grid, text):
    u = 2 + (WAVE if grid.dim == 1 else WAVE_2D)
    times = np.linspace(0, 2, 13)
    known = {"s": sampled(OPERATORS[text](u), grid, times)}
    X_i, X_s = np.moveaxis(made(grid, [text, "s"], sampled(u, grid, times), auxiliary=known).experiments[0].X, 2, 0)
    assert np.abs(X_i - X_s).max() < 1e-4 * np.abs(X_s).max()


@pytest.mark.parametrize("grid", OTHERS.values(), ids=OTHERS)
def test_where_nodes_are_no_uniform_grid_they_are_nearly_so(grid):
    texts, u, times = ["u*laplacian(u)", "dot(grad(u), grad(u))", "dx(dx(u))**2"], 2 + WAVE_2D, np.linspace(0, 2, 13)
    known = {f"s{i}": sampled(OPERATORS[text](u), grid, times) for i, text in enumerate(texts)}
    values = made(grid, [*texts, *known], sampled(u, grid, times), auxiliary=known).experiments[0].X
    X_i, X_s = values[..., :3], values[..., 3:]
    assert np.all(np.abs(X_i - X_s).max(axis=(0, 1)) < np.array([1e-3, 1e-3, 1e-2]) * np.abs(X_s).max(axis=(0, 1)))


@pytest.mark.parametrize("text", OPERATORS)
@pytest.mark.parametrize("name", PLACES)
def test_the_jacobian_is_the_derivative(name, text):
    are_derivatives(PLACES[name], [text], 1e-3)  # by parts


@pytest.mark.parametrize("grid", [triangles(22), scattered(22), uneven(22)], ids=OTHERS)
def test_where_nodes_are_no_uniform_grid_the_jacobian_is_nearly_so(grid):
    """Through fits that are poor at the boundary."""
    are_derivatives(grid, ["u*laplacian(u)", "dot(grad(u), grad(u))"], 5e-2)


def are_derivatives(grid, texts, off):
    u, change = (
        sampled(2 + e, grid, np.linspace(0, 2, 13))
        for e in ((WAVE, WAVE.subs(X, X + 1)) if grid.dim == 1 else (WAVE_2D, WAVE_2D.subs(Y, Y + 1)))
    )
    h = 1e-4
    more, less = (made(grid, texts, u + s * h * change).experiments[0].X for s in (1, -1))
    residuals = made(grid, texts, u).experiments[0]
    for i, J in enumerate(residuals.J[: len(texts)]):
        slope = J.summed(residuals.structure.b, change.T)
        assert_allclose(slope, (more - less)[..., i] / (2 * h), atol=off * np.abs(slope).max())


def test_noise_is_taken_off_products_of_derivatives():
    grid, sigma, rng = line(48), 0.2, np.random.default_rng(0)
    u = sampled(2 + WAVE, grid, np.linspace(0, 2, 13))
    texts = ["dx(u)**2", "u*laplacian(u)", "div(u**3*grad(laplacian(u)))"]

    def tested(values, variance):
        return made(grid, texts, values, variance, reach=6.0).experiments[0].X.mean(axis=(0, 1))

    clean = tested(u, None)
    draws = [u + sigma * rng.standard_normal(u.shape) for _ in range(60)]
    fair, raw = (np.array([tested(v, variance) for v in draws]) for variance in ({"u": sigma**2}, None))
    error = fair.std(axis=0) / np.sqrt(60)
    assert np.all(np.abs(fair.mean(axis=0) - clean) < 4 * error)
    assert np.all(np.abs(raw.mean(axis=0) - clean)[:2] > 8 * error[:2])


@pytest.mark.parametrize(
    "grid, gap, reach, count, off",
    [(ring(64), 8.0, 8.0, 60, 0.05), (scattered(23), 2.0, 4.0, 4, 0.2)],
    ids=["ring", "scattered"],
)
def test_the_covariance_is_that_of_draws(grid, gap, reach, count, off):
    """Σ is linearised, and with the derivative moved onto the test functions: both must be true to a few percent."""
    sigma, rng = 0.01, np.random.default_rng(1)
    times, theta = np.linspace(0, 2, 21), np.array([0.1, 0.5])
    u = sampled(2 + (WAVE if grid.dim == 1 else WAVE_2D), grid, times)
    tests = SplineTests(gap=gap, reach=reach)

    def setup(values):
        data = Data(times, {"u": values}, grid)
        variance = {"u": np.array(sigma**2)}
        return Setup(
            (data,),
            (IID(sigma),),
            (variance,),
            library("laplacian(u)", "dx(u)**2"),
            tests,
            TemporalTests(5, 2.0),
            Stacked(),
        )

    clean = setup(u).likelihood()
    (r_0,) = clean.system.residual(theta)
    chi2 = []
    for _ in range(count):
        likelihood = setup(u + sigma * rng.standard_normal(u.shape)).likelihood()
        (r,) = likelihood.system.residual(theta)
        (part,) = likelihood.parts
        W = likelihood.weighting.weights(part, theta)((r - r_0)[:, :, None])[:, :, 0]
        chi2.append(float(np.sum(W * (r - r_0))) / r.size)
    assert abs(np.mean(chi2) - 1) < off


def test_residuals_whose_derivatives_read_a_missing_value_are_not_used():
    grid, times = ring(96), np.linspace(0, 2, 13)
    u = sampled(2 + WAVE, grid, times)
    measured = np.ones(u.shape, dtype=bool)
    measured[:, 40:43] = False
    wild = np.where(measured, u, 1e3)
    one, other = (
        made(grid, ["dx(u)**2"], values, measured={"u": measured}, reach=6.0).experiments[0] for values in (u, wild)
    )
    assert_allclose(one.Z, other.Z, atol=1e-12)
    plain = made(grid, ["u**2"], u, measured={"u": measured}).experiments[0]
    assert 0 < one.n < plain.n
