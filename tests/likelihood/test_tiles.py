"""Tiles of residuals: every residual counts once, one tile is Stacked, sums over tiles are those of dense algebra."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose
from scipy.spatial import Delaunay

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import BvsiError
from bvsi.infer.quadratic import sandwich
from bvsi.likelihood import Stacked, Tiles, residual_likelihood
from bvsi.likelihood.products import SpaceTime
from bvsi.likelihood.stacked import Pilot
from bvsi.noise import IID, Covariance
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.residual.tiles import Tile, tiles_of
from bvsi.spaces import Galerkin, SplineTests
from likelihood.test_profile_equations import gradient
from likelihood.test_tensor_covariance import CASES as GRIDS
from likelihood.test_tensor_covariance import GRID, LINEAR, LINES, Y, by_blocks, data_of, theta_of


def scattered() -> Data:
    """A wave at scattered points of the plane."""
    points = np.random.default_rng(1).uniform(0, 1, (400, 2))
    phase = 6 * points[:, 0] + 3 * points[:, 1] - np.linspace(0, 1, 14)[:, None]
    mesh = Mesh(points, Delaunay(points).simplices, "triangle")
    return Data(times=np.linspace(0, 1, 14), fields={"u": np.sin(phase)}, geometry=mesh)


CORRELATED = Covariance({"u": sparse.csr_array(0.01 * np.exp(-np.abs(np.subtract.outer(Y, Y)) / 0.1))})
CASES = {
    **GRIDS,
    "correlated noise": (data_of(LINES, ("u",)), LINEAR, CORRELATED),
    "scattered points": (scattered(), Library({"u": ["laplacian(u)", "u*dx(u)"]}), IID(0.1)),
}


@cache
def likelihood_of(name, weighting):
    data, library, noise = CASES[name]
    tests = SplineTests(gap=1.6 if data.geometry is GRID else 1.2, degree=6)
    system = assemble(data, library, discretisation=tests, stencil=TemporalTests(degree=3, gap=1.5))
    return residual_likelihood(system, noise, weighting)


def long_system():
    """A wave along a line, much longer than the test functions in space and time."""
    x, t = np.linspace(0, 1, 85), np.linspace(0, 1, 60)
    data = Data(t, {"u": np.sin(6 * x + t[:, None])}, Grid(x=x))
    return assemble(data, LINEAR, discretisation=SplineTests(2, 6), stencil=TemporalTests(3, 1))


def tiled(name, shared=0.0):
    """Some tiles in every direction."""
    whole = likelihood_of(name, Stacked())
    structure = whole.system.experiments[0].structure
    return likelihood_of(name, Tiles(rows=structure.n_rows * structure.n_blocks // 7, shared=shared))


@pytest.mark.parametrize("shared", [0.0, 0.4])
@pytest.mark.parametrize("name", CASES)
def test_every_residual_counts_once_with_all_that_it_touches(name, shared):
    (part,) = tiled(name, shared).parts
    structure = part.residuals.structure
    count = np.zeros((structure.n_rows, structure.n_blocks))
    assert len(part.covariance.tiles) >= 7
    for tile, _ in part.covariance.tiles:
        count[np.ix_(tile.rows, tile.blocks)] += tile.count
        own = tile.residuals(part.residuals)
        assert_allclose(own.Z, part.residuals.Z[np.ix_(tile.rows, tile.blocks)])
        state = np.random.default_rng(0).standard_normal((structure.n_state, structure.n_times))
        some = state[np.ix_(tile.columns, tile.times)]
        for J, whole in zip((own.structure.mass, *own.J), (structure.mass, *part.residuals.J), strict=True):
            expected = whole.summed(structure.b, state)[np.ix_(tile.rows, tile.blocks)]
            assert_allclose(J.summed(own.structure.b, some), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert np.all(count == 1)


@pytest.mark.parametrize("name", CASES)
def test_a_tile_of_all_residuals_is_stacked(name, monkeypatch):
    """To rounding, by the way of tiles."""

    def one(structure, *sizes):
        del sizes
        factors = structure.mass_at_nodes.at_nodes()[0].tests.product.factors
        every = [np.arange(A.shape[0]) for A in factors]
        return (Tile.of(structure, every, np.arange(structure.n_blocks)),)

    whole = likelihood_of(name, Stacked())
    theta = theta_of(whole.parts[0])
    monkeypatch.setattr("bvsi.likelihood.stacked.tiles_of", one)
    one_tile = residual_likelihood(whole.system, whole.noise, Tiles())
    assert len(one_tile.plans[0].tiles) == 1
    expected, found = (some.profile_equations(theta, rng=np.random.default_rng(0)) for some in (whole, one_tile))
    size = np.sqrt(np.diag(expected.S))
    for matrix in ("S", "N"):
        close(getattr(found, matrix) / size / size[:, None], getattr(expected, matrix) / size / size[:, None])
    close(found.equations.H / size / size[:, None], expected.equations.H / size / size[:, None])
    close(found.equations.g / size, expected.equations.g / size)
    close(found.equations.q_blocks[0], expected.equations.q_blocks[0])
    assert found.equations.n == expected.equations.n
    assert_allclose(found.equations.logdet, expected.equations.logdet, rtol=1e-12)
    assert_allclose(one_tile.noise_estimates(theta)[0]["u"], whole.noise_estimates(theta)[0]["u"], atol=1e-9)


@pytest.mark.parametrize("shared", [0.0, 0.4])
@pytest.mark.parametrize(
    "name", ["two fields", "gaps", "noise everywhere other", "correlated noise", "scattered points"]
)
def test_sums_over_tiles_are_those_of_dense_algebra(name, shared):
    """W_τ = Σ_ττ⁻¹ of each tile, X̃ smoothed by the residuals of the tile alone, S with all of Σ."""
    likelihood = tiled(name, shared)
    (part,) = likelihood.parts
    theta, residuals = theta_of(part), part.residuals
    structure, products = residuals.structure, SpaceTime(part, theta)
    K, N, d = structure.n_blocks, structure.n_rows, residuals.d
    covariance = by_blocks(part, theta).reshape(K, N, K, N).transpose(1, 0, 3, 2)
    r, H, V, Wr = residuals.residual(theta), np.zeros((d, d)), np.zeros((N, K, d)), np.zeros((N, K))
    g, q = np.zeros(d), np.zeros(K)
    for tile, _ in part.covariance.tiles:
        place = np.ix_(tile.rows, tile.blocks)
        n = len(tile.rows) * len(tile.blocks)
        W = np.linalg.inv(covariance[np.ix_(tile.rows, tile.blocks, tile.rows, tile.blocks)].reshape(n, n))
        w = np.zeros((N, K))
        w[place] = (W @ r[place].ravel()).reshape(r[place].shape)
        X = (residuals.X - products.operators(products.spread(w)))[place]
        WX = (W @ X.reshape(n, d)).reshape(X.shape)
        H += tile.count * np.einsum("nki,nkj->ij", X, WX)
        g += tile.count * np.einsum("nki,nk->i", X, w[place])
        q += tile.count * np.einsum("nk,nk->k", r, w)
        V[place] += tile.count * WX
        Wr += tile.count * w
    S = np.einsum("nki,nkml,mlj->ij", V, covariance, V, optimize=True)
    found = likelihood.profile_equations(theta, rng=np.random.default_rng(0))
    size = np.sqrt(np.diag(H))
    for matrix, expected in ((found.equations.H, H), (found.S, S)):
        close(matrix / size / size[:, None], expected / size / size[:, None], 1e-8)
    close(found.equations.g / size, g / size, 1e-8)
    close(found.equations.q_blocks[0], q, 1e-8)
    assert np.abs((S - H) / size / size[:, None]).max() > 1e-3  # tiles do leave something out
    close(likelihood.weighting.weights(part, theta)(r[:, :, None])[:, :, 0], Wr, 1e-8)


def test_shared_tiles_lose_less_than_those_of_a_partition():
    """Standard deviations H⁻¹SH⁻¹ over those of one tile, H⁻¹; no linear weights do better than these."""
    system, theta = long_system(), np.array([0.02, -0.5, 0.3])

    def sd(weighting):
        likelihood = residual_likelihood(system, IID(0.1), weighting)
        found = likelihood.profile_equations(theta, smoothing=0.0, rng=np.random.default_rng(0))
        return np.sqrt(np.diag(sandwich(np.linalg.inv(found.equations.H), found.S)))

    shared, apart = (sd(Tiles(rows=400, shared=part)) / sd(Stacked()) - 1 for part in (1 / 3, 0.0))
    assert np.all(shared > 0)
    assert np.all(shared < 0.5 * apart)


@pytest.mark.parametrize("name", ["two fields", "scattered points"])
def test_the_gradient_is_that_of_finite_differences(name):
    likelihood = tiled(name, 0.4)
    theta = theta_of(likelihood.parts[0])
    density = likelihood.density(theta, gradient=True)
    at = cache(lambda *t: likelihood.density(np.array(t)))
    for what in ("q", "logdet"):
        expected = gradient(lambda t, what=what: getattr(at(*t), what).value, theta)
        assert_allclose(getattr(density, what).gradient, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert_allclose(density.q.gradient, -2 * likelihood.profile_equations(theta).equations.g, rtol=1e-9)


def test_a_pilot_has_the_tiles_that_tell_most(monkeypatch):
    """Each is an experiment with the sums of the tile; where nothing moves there is nothing to learn."""
    x, t = np.linspace(0, 1, 85), np.linspace(0, 1, 60)
    wave = np.exp(-((x - 0.2 - 0.1 * t[:, None]) ** 2) / 0.002)
    data = Data(t, {"u": wave}, Grid(x=x))
    system = assemble(data, LINEAR, discretisation=SplineTests(2, 6), stencil=TemporalTests(3, 1))
    whole, theta = residual_likelihood(system, IID(0.01), Stacked()), np.array([0.02, -0.5, 0.3])
    assert whole.pilot(10) is None  # too few residuals
    monkeypatch.setattr("bvsi.likelihood.stacked.PILOT", Pilot(work=0, rows=400, tiles=2))
    pilot = whole.pilot(10)
    assert len(pilot.system.experiments) == 2
    assert 200 < pilot.n <= 400
    for part in pilot.parts:
        assert part.residuals.structure.coordinates.max() < 0.6
    equations = pilot.profile_equations(theta, rng=np.random.default_rng(0))
    assert equations.equations.n == pilot.n
    assert_allclose(equations.S, equations.equations.H)
    assert np.trace(equations.equations.H) < np.trace(whole.profile_equations(theta).equations.H)


def test_spaces_without_tests_at_the_nodes_are_one_tile():
    data, library, _ = CASES["one axis"]
    system = assemble(data, library, discretisation=Galerkin(), stencil=TemporalTests(degree=3, gap=2))
    assert tiles_of(system.experiments[0].structure, 10, 0.0) == ()


def test_tiles_are_as_long_in_all_directions():
    """In widths of a function, here 7 functions along space, and 3 along time, where a fourth meets at a zero."""
    structure = long_system().experiments[0].structure
    assert (structure.n_rows, structure.n_blocks) == (36, 56)
    tiles = tiles_of(structure, 150, 0.0)
    assert {(len(tile.rows), len(tile.blocks)) for tile in tiles} == {(18, 8)}  # 2.6 and 2.7 widths


@pytest.mark.parametrize("argument", [{"rows": 0}, {"shared": 0.6}, {"shared": -0.1}, {"max_memory": -1}])
def test_sizes_that_are_none_are_refused(argument):
    with pytest.raises(BvsiError, match=next(iter(argument))):
        Tiles(**argument)


def close(found, expected, tol=1e-10):
    assert_allclose(found, expected, rtol=0, atol=tol * max(1.0, np.abs(expected).max()))


def test_threads_do_not_change_a_bit_and_need_not_be_had(monkeypatch):
    """Sums over tiles come in their order, and draws of the noise belong to the tile."""
    monkeypatch.setattr("bvsi.likelihood.covariance._LEAST_ENTRIES", 1)
    likelihood = tiled("two fields")
    theta, Z = theta_of(likelihood.parts[0]), likelihood.parts[0].residuals.Z
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr("bvsi.likelihood.covariance.usable_cores", lambda cores=cores: cores)
        assert likelihood.plans[0].threads == cores
        profile = likelihood.profile_equations(theta, rng=np.random.default_rng(0))
        weighted = likelihood.weighting.weights(likelihood.parts[0], theta)(Z)
        found.append([profile.equations.H, profile.equations.g, profile.S, profile.N, weighted])
    for others in zip(*found, strict=True):
        for other in others[1:]:
            np.testing.assert_array_equal(other, others[0])


def test_all_but_the_covariance_of_the_scores_is_there_without_it():
    likelihood = tiled("two fields")
    theta = theta_of(likelihood.parts[0])
    whole, rest = (
        likelihood.profile_equations(theta, rng=np.random.default_rng(0), spread=spread) for spread in (True, False)
    )
    assert whole.S is not None
    assert rest.S is None
    np.testing.assert_array_equal(rest.N, whole.N)
    np.testing.assert_array_equal(rest.equations.H, whole.equations.H)
