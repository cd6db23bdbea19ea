"""Derivatives of the data at the nodes: exact on polynomials, right for long waves, with a known covariance."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi import Data, Grid, Mesh, SplineTests
from bvsi.data.scattered import mesh_through
from bvsi.errors import SpaceError
from bvsi.residual.blur import Blur
from bvsi.spaces.domain import Domain
from bvsi.spaces.nodal_derivatives import (
    BALL_DEGREES,
    DEGREE,
    derivative_matrix,
    narrowest_ball,
    noise_gain,
    scattered_derivative,
)
from bvsi.spaces.reconstruction import exponents, monomials


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("reach", [4, 9.4])
def test_exact_on_polynomials_up_to_the_ends(order, reach):
    x = np.linspace(-1, 1, 41)
    D = derivative_matrix(41, x[1] - x[0], order, reach, periodic=False)
    p = np.polynomial.Polynomial(np.random.default_rng(0).standard_normal(DEGREE + 1))
    wanted = (p.deriv(order) if order else p)(x)
    assert_allclose(D @ p(x), wanted, atol=1e-9 * np.abs(wanted).max())


def test_waves_that_the_reach_is_made_for_are_right_to_a_thousandth():
    n = 480
    for cycles in (8, 16, 24):
        x, f = np.arange(n), cycles / n
        for order, wanted in (
            (1, 2 * np.pi * f * np.cos(2 * np.pi * f * x)),
            (2, -((2 * np.pi * f) ** 2) * np.sin(2 * np.pi * f * x)),
        ):
            made = derivative_matrix(n, 1.0, order, 0.5 / f, periodic=True) @ np.sin(2 * np.pi * f * x)
            assert np.abs(made - wanted).max() < 1e-3 * np.abs(wanted).max()
            longer = derivative_matrix(n, 1.0, order, 0.25 / f, periodic=True) @ np.sin(2 * np.pi * f * x)
            assert np.abs(longer - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_a_wider_reach_averages_more_noise():
    gains = np.array([noise_gain(w, 1) for w in (8, 16, 32)])
    assert_allclose(gains[:-1] / gains[1:], 8, rtol=0.15)  # w⁻³


GRID = Grid(x=np.linspace(0, 1, 30), y=np.linspace(0, 2, 24))
MESH = mesh_through(np.random.default_rng(3).uniform(0, 1, (400, 2)))[0]


@pytest.mark.parametrize("grid", [GRID, MESH], ids=["grid", "scattered"])
def test_covariances_at_a_node_are_those_of_draws(grid):
    space = SplineTests(gap=2, degree=4, reach={"x": 5, "y": 4}).build(grid, 0, 2)
    rng = np.random.default_rng(1)
    sd = rng.uniform(0.5, 2, grid.n_nodes)
    draws = sd[:, None] * rng.standard_normal((grid.n_nodes, 4000))
    for a, b in [((1, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 0), (0, 1)), ((0, 0), (0, 2)), ((0, 0), (0, 0))]:
        known = space.derivative_covariance(a, b, sd[:, None] ** 2)[:, 0]
        left, right = (space.derivative_at_nodes(index) @ draws for index in (a, b))
        error = np.sqrt(np.mean(left**2, axis=1) * np.mean(right**2, axis=1) / 4000)
        assert np.abs((np.mean(left * right, axis=1) - known) / error).max() < 6


def test_covariances_of_blurred_noise_are_those_of_draws():
    data = Data.from_arrays({"u": np.zeros((3, 30, 24))}, times=np.arange(3.0), geometry=GRID)
    blur = Blur.of(data, {"x": 1.5 / 29, "y": 2 * 1.0 / 23})
    kernels = blur.kernels_of(GRID)
    space = replace(SplineTests(gap=2, degree=4, reach={"x": 5, "y": 4}).build(GRID, 0, 2), noise_kernels=kernels)
    xi = np.random.default_rng(1).standard_normal((30, 24, 4000))
    draws = np.einsum("ij,jkn->ikn", kernels[0].toarray(), np.einsum("kl,jln->jkn", kernels[1].toarray(), xi))
    draws = draws.reshape(GRID.n_nodes, -1)
    for a, b in [((1, 0), (1, 0)), ((0, 0), (0, 2)), ((0, 1), (0, 1))]:
        known = space.derivative_covariance(a, b, np.ones((GRID.n_nodes, 1)))[:, 0]
        left, right = (space.derivative_at_nodes(index) @ draws for index in (a, b))
        error = np.sqrt(np.mean(left**2, axis=1) * np.mean(right**2, axis=1) / 4000)
        assert np.abs((np.mean(left * right, axis=1) - known) / error).max() < 6


@pytest.mark.parametrize("dim, n", [(1, 60), (2, 400), (3, 700)])
@pytest.mark.parametrize("order", [1, 2])
def test_on_any_nodes_exact_on_polynomials_up_to_the_boundary(dim, n, order):
    rng = np.random.default_rng(dim)
    points = np.sort(rng.uniform(-1, 1, n))[:, None] if dim == 1 else rng.uniform(-1, 1, (n, dim))
    cells = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    mesh = Mesh(points, cells, "line") if dim == 1 else mesh_through(points)[0]
    domain, powers = Domain.of(mesh), exponents(dim, BALL_DEGREES[dim])
    index = (order, *[0] * (dim - 1))
    reach = np.full(dim, 1.3 * narrowest_ball(dim))
    D = scattered_derivative(domain, rng.uniform(0.5, 2, mesh.n_nodes), index, reach)
    c = rng.standard_normal(len(powers))
    falling = np.prod([powers[:, 0] - m for m in range(order)], axis=0)
    lower = np.maximum(powers - np.array(index), 0)
    wanted = monomials(mesh.points, lower) @ (c * falling)
    assert_allclose(D @ (monomials(mesh.points, powers) @ c), wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("index", [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)])
def test_splines_through_the_nodes_are_exact_on_polynomials_and_hardly_damp_short_waves(index):
    rng = np.random.default_rng(4)
    mesh, _ = mesh_through(rng.uniform(0, 1, (500, 2)))
    domain, powers = Domain.of(mesh), exponents(2, 4)
    D = scattered_derivative(domain, np.ones(mesh.n_nodes), index, np.full(2, 0.5))
    c = rng.standard_normal(len(powers))
    falling = np.prod([powers[:, a] - m for a in range(2) for m in range(index[a])], axis=0)
    wanted = monomials(mesh.points, np.maximum(powers - np.array(index), 0)) @ (c * falling)
    assert_allclose(D @ (monomials(mesh.points, powers) @ c), wanted, atol=1e-6 * np.abs(wanted).max())
    if sum(index) == 1:  # a wave of 12 spacings, away from the boundary
        a, k = index.index(1), 2 * np.pi / (12 * domain.spacing.mean())
        inner = np.all(np.abs(mesh.points - 0.5) < 0.35, axis=1)
        slope = k * np.cos(k * mesh.points[:, a])
        splines = (D @ np.sin(k * mesh.points[:, a]) - slope)[inner]
        balls = scattered_derivative(domain, np.ones(mesh.n_nodes), index, np.full(2, narrowest_ball(2)))
        window = (balls @ np.sin(k * mesh.points[:, a]) - slope)[inner]
        assert abs(splines @ slope[inner]) < 1e-3 * (slope[inner] @ slope[inner])
        assert np.linalg.norm(splines) < 0.5 * np.linalg.norm(window)


def test_too_few_nodes_and_meshes_are_refused():
    with pytest.raises(SpaceError, match="9"):
        derivative_matrix(8, 1.0, 1, 4, periodic=True)
    with pytest.raises(SpaceError, match="reach"):
        SplineTests(reach=-1.0)
    with pytest.raises(SpaceError, match=r"reach.*'y'"):
        SplineTests(reach={"x": 5.0}).reach_of("y")
