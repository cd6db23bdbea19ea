"""What must not change the answer: the numbering of nodes, the units, the order of operators and experiments."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid, Mesh
from bvsi.infer import Lagged, Lasso, LeastSquares, Ridge
from bvsi.infer.priors import GaussianPrior
from bvsi.likelihood import Isotropic, residual_likelihood
from bvsi.noise import IID, Diagonal, UnknownScale, add_noise
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import reaction_diffusion

OPERATORS = ["laplacian(u)", "u*dx(u)", "u"]
LIBRARY = Library({"u": OPERATORS}, boundary=NoFlux())
SIGMA = 1e-3


def plane(n: int = 7, steps: int = 6, sigma: float = SIGMA) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n², 2), times, and noisy smooth values (T, n²)."""
    rng = np.random.default_rng(0)
    axis = np.linspace(0, 1, n)
    points = np.stack([a.ravel() for a in np.meshgrid(axis, axis, indexing="ij")], axis=1)
    times = np.linspace(0, 0.5, steps)
    x, y = points.T
    values = np.stack([1 + np.exp(-t) * np.cos(np.pi * x) + np.exp(-2 * t) * np.cos(np.pi * y) * x for t in times])
    return points, times, values + sigma * rng.standard_normal(values.shape)


def triangles(n: int) -> np.ndarray:
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n - 1), np.arange(n - 1), indexing="ij"))
    corner = i * n + j
    lower = np.stack([corner, corner + n, corner + n + 1], axis=1)
    upper = np.stack([corner, corner + n + 1, corner + 1], axis=1)
    return np.concatenate([lower, upper])


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("prior", [None, GaussianPrior({"u": (0.0, 1e-4)})], ids=["flat", "prior"])
def test_the_numbering_of_nodes_and_cells_does_not_matter(seed, prior):
    points, times, values = plane()
    cells = triangles(7)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(points))  # new node m is old node order[m]
    renamed = np.argsort(order)[cells]
    shuffled = rng.permutation(renamed)
    rotated = np.stack([np.roll(cell, rng.integers(3)) for cell in shuffled])
    sigma = rng.uniform(0.5e-3, 2e-3, len(points))

    def fit(mesh: Mesh, u: np.ndarray, s: np.ndarray):
        system = assemble(Data(times=times, fields={"u": u}, geometry=mesh), LIBRARY)
        return Lagged(tol=1e-12).fit(residual_likelihood(system, Diagonal({"u": s})), prior=prior)

    first = fit(Mesh(points, cells, "triangle"), values, sigma)
    second = fit(Mesh(points[order], rotated, "triangle"), values[:, order], sigma[order])
    assert first.status.converged
    assert_allclose(second.posterior.mean, first.posterior.mean, rtol=1e-8)
    assert_allclose(second.posterior.covariance, first.posterior.covariance, rtol=1e-8)
    assert_allclose(second.chi2, first.chi2, rtol=1e-8)


def test_a_grid_and_the_mesh_of_its_quads_agree():
    points, times, values = plane()
    axis = np.linspace(0, 1, 7)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(6), np.arange(6), indexing="ij"))
    corner = i * 7 + j
    mesh = Mesh(points, np.stack([corner, corner + 7, corner + 8, corner + 1], axis=1), "quad")
    fits = [
        Lagged(tol=1e-12).fit(
            residual_likelihood(assemble(Data(times=times, fields={"u": values}, geometry=g), LIBRARY), IID(SIGMA))
        )
        for g in (Grid(x=axis, y=axis), mesh)
    ]
    assert_allclose(fits[1].posterior.mean, fits[0].posterior.mean, rtol=1e-7)
    assert_allclose(fits[1].posterior.covariance, fits[0].posterior.covariance, rtol=1e-7)


LENGTH, TIME, AMOUNT = 250.0, 1e-4, 3e5
# θ' = θ · factor: laplacian [L²/t], u*dx(u) [L/(t u)], u [1/t]
FACTORS = np.array([LENGTH**2 / TIME, LENGTH / (TIME * AMOUNT), 1 / TIME])


def in_units(length: float, time: float, amount: float):
    _, times, values = plane()
    axis = length * np.linspace(0, 1, 7)
    data = Data(times=time * times, fields={"u": amount * values}, geometry=Grid(x=axis, y=axis))
    return assemble(data, LIBRARY)


@pytest.fixture(scope="module")
def two_units():
    return in_units(1, 1, 1), in_units(LENGTH, TIME, AMOUNT)


@pytest.mark.parametrize(
    "method", [LeastSquares(), Ridge(0.05), Lasso(0.05, tol=1e-13)], ids=lambda m: type(m).__name__
)
def test_least_squares_do_not_depend_on_units(two_units, method):
    first, second = (method.fit(s) for s in two_units)
    assert_allclose(second.theta, first.theta * FACTORS, rtol=1e-7)


def test_the_lagged_fit_does_not_depend_on_units(two_units):
    first, second = (
        Lagged(tol=1e-12).fit(residual_likelihood(s, IID(sigma)))
        for s, sigma in zip(two_units, (SIGMA, AMOUNT * SIGMA), strict=True)
    )
    assert_allclose(second.posterior.mean, first.posterior.mean * FACTORS, rtol=1e-8)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-8)
    assert_allclose(second.chi2, first.chi2, rtol=1e-8)


def test_the_lagged_fit_with_unknown_noise_does_not_depend_on_units(two_units):
    first, second = (Lagged(tol=1e-12).fit(residual_likelihood(s, UnknownScale())) for s in two_units)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-7)
    assert_allclose(second.posterior.noise_variance, first.posterior.noise_variance * AMOUNT**2, rtol=1e-7)


def test_a_prior_in_the_same_units_changes_nothing(two_units):
    scales = (np.ones(3), FACTORS)
    first, second = (
        Lagged(tol=1e-12).fit(
            residual_likelihood(s, IID(sigma)),
            prior=GaussianPrior({n: (0.1 * c, 0.01 * c**2) for n, c in zip(OPERATORS, factor, strict=True)}),
        )
        for s, sigma, factor in zip(two_units, (SIGMA, AMOUNT * SIGMA), scales, strict=True)
    )
    assert_allclose(second.posterior.mean, first.posterior.mean * FACTORS, rtol=1e-8)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-8)


def test_error_bars_of_isotropic_weights_do_not_depend_on_units(two_units):
    """W = I says that residuals are alike, not that their variance is one."""
    first, second = (
        Lagged(tol=1e-12).fit(residual_likelihood(s, IID(sigma), Isotropic()))
        for s, sigma in zip(two_units, (SIGMA, AMOUNT * SIGMA), strict=True)
    )
    assert_allclose(second.theta, first.theta * FACTORS, rtol=1e-8)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-7)


def test_differences_of_log_density_do_not_depend_on_units(two_units):
    thetas = [np.array([0.05, -0.3, 0.2]), np.array([0.07, 0.1, -0.4])]
    first, second = (
        residual_likelihood(s, IID(sigma)) for s, sigma in zip(two_units, (SIGMA, AMOUNT * SIGMA), strict=True)
    )
    change = first.log_density(thetas[1]) - first.log_density(thetas[0])
    scaled = second.log_density(FACTORS * thetas[1]) - second.log_density(FACTORS * thetas[0])
    assert_allclose(scaled, change, rtol=1e-8)


def test_the_order_of_operators_does_not_matter(two_units):
    system = two_units[0]
    turned = system.subset(["u", "laplacian(u)", "u*dx(u)"])
    a, b = (Lagged(tol=1e-12).fit(residual_likelihood(s, IID(SIGMA))) for s in (system, turned))
    for name in OPERATORS:
        assert_allclose(a.coefficient(name), b.coefficient(name), rtol=1e-9)
        va, vb = (f.posterior.variance[f.names.index(name)] for f in (a, b))
        assert_allclose(va, vb, rtol=1e-9)


def test_the_order_of_experiments_does_not_matter():
    (one, library), (two, _) = reaction_diffusion(n=9, steps=8, seed=0), reaction_diffusion(n=13, steps=5, seed=1)
    fits = [
        Lagged(tol=1e-12).fit(residual_likelihood(assemble(pair, library), IID(SIGMA)))
        for pair in ([one, two], [two, one])
    ]
    assert_allclose(fits[0].theta, fits[1].theta, rtol=1e-9)
    assert_allclose(fits[0].posterior.covariance, fits[1].posterior.covariance, rtol=1e-9)


def test_the_origin_of_time_and_space_does_not_matter():
    data, library = reaction_diffusion(n=9, steps=8)
    moved = Data(times=data.times + 50, fields=data.fields, geometry=Grid(x=data.geometry.axes["x"] - 20))
    fits = [Lagged(tol=1e-12).fit(residual_likelihood(assemble(d, library), IID(SIGMA))) for d in (data, moved)]
    assert_allclose(fits[0].theta, fits[1].theta, rtol=1e-7)
    assert_allclose(fits[0].posterior.covariance, fits[1].posterior.covariance, rtol=1e-7)


def test_a_mirror_image_turns_the_sign_of_odd_operators_only():
    points, times, values = plane()
    cells = triangles(7)
    library = Library({"u": ["laplacian(u)", "dx(u)", "u"]}, boundary=NoFlux())
    fits = [
        Lagged(tol=1e-12).fit(
            residual_likelihood(
                assemble(Data(times=times, fields={"u": values}, geometry=Mesh(p, cells, "triangle")), library),
                IID(SIGMA),
            )
        )
        for p in (points, points * [-1, 1])
    ]
    assert_allclose(fits[1].theta, fits[0].theta * [1, -1, 1], rtol=1e-8)


def test_noise_is_reproducible():
    data, library = reaction_diffusion(n=9, steps=8, sigma=0.0)
    thetas = [
        LeastSquares().fit(assemble(add_noise(data, 1e-3, np.random.default_rng(s)), library)).theta for s in (1, 1, 2)
    ]
    assert np.array_equal(thetas[0], thetas[1])
    assert not np.array_equal(thetas[0], thetas[2])
