"""Stacked weighting against dense algebra, differences, Monte Carlo and invariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.likelihood import Block, Isotropic, residual_likelihood
from bvsi.likelihood.stacked import Stacked, StackedPlan
from bvsi.noise import IID
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from inference.cases import reaction_diffusion, reaction_system
from likelihood.stacked_cases import ALL, CASES, TEMPORAL, dense_stacked, ids, stacked_likelihood
from likelihood.test_profile_equations import close, gradient, z_of_mean
from likelihood.test_residual_covariance import SETTINGS

DRAWN = [("iid", BackwardEuler()), ("nonlinear", CrankNicolson()), ("splines, nonlinear", TEMPORAL)]


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_covariance_is_that_of_dense_algebra(name, stencil):
    """Σ = C Σ_u Cᵀ, all blocks."""
    likelihood = stacked_likelihood(name, stencil)
    (part,) = likelihood.parts
    plan = part.covariance
    assert isinstance(plan, StackedPlan)
    found = plan.stacked.pattern.matrix(plan.stacked.values(part.residuals, ALL[name].theta)).toarray()
    expected = dense_stacked(name, stencil).covariance
    assert plan.stacked.nnz == plan.stacked.pattern.nnz
    assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_equations_are_those_of_dense_algebra(name, stencil):
    theta, likelihood, dense = ALL[name].theta, stacked_likelihood(name, stencil), dense_stacked(name, stencil)
    found = likelihood.profile_equations(theta, rng=np.random.default_rng(0))
    scale = np.sqrt(np.diag(dense.H) * dense.q)
    close(found.equations.H, dense.H, 1e-7)
    close(found.S, found.equations.H, 1e-12)
    assert_allclose(found.equations.g / scale, dense.g / scale, atol=1e-8)
    assert_allclose(found.equations.q, dense.q, rtol=1e-8)
    assert_allclose(found.equations.logdet, np.linalg.slogdet(dense.covariance)[1], rtol=1e-9)
    lagged = likelihood.normal_equations(theta)
    close(lagged.H, dense.X.T @ dense.W @ dense.X, 1e-7)
    assert_allclose(lagged.g / scale, dense.X.T @ dense.W @ dense.r / scale, atol=1e-7)


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_gradient_of_the_misfit_is_that_of_finite_differences(name, stencil):
    """∇Q = −2g, Q = rᵀW(θ)r."""
    theta, likelihood = ALL[name].theta, stacked_likelihood(name, stencil)
    found = -2 * likelihood.profile_equations(theta).equations.g
    expected = gradient(lambda t: likelihood.density(t, logdet=False).q.value, theta)
    scale = np.abs(theta)
    assert_allclose(scale * found, scale * expected, rtol=0, atol=1e-6 * np.abs(scale * expected).max())


@pytest.mark.parametrize("name, stencil", DRAWN, ids=ids)
def test_what_noise_adds_to_the_curvature_is_the_expected_trace(name, stencil):
    draws = 60
    likelihood, rng = stacked_likelihood(name, stencil), np.random.default_rng(1)
    N = np.stack([likelihood.profile_equations(ALL[name].theta, rng=rng).N for _ in range(draws)])
    error = N.std(axis=0, ddof=1) / np.sqrt(draws)
    assert np.abs((N.mean(axis=0) - dense_stacked(name, stencil).N) / error).max() < 4.5


@pytest.mark.parametrize("name, stencil", DRAWN, ids=ids)
def test_other_combinations_of_the_test_functions_give_the_same(name, stencil):
    """r ↦ T r with any invertible T, across space and time: q, H and g stay. With blocks they would not."""
    dense = dense_stacked(name, stencil)
    n = len(dense.r)
    T = np.eye(n) + 0.3 * np.random.default_rng(0).standard_normal((n, n)) / np.sqrt(n)
    other = dense.recombined(T)
    found = stacked_likelihood(name, stencil).profile_equations(ALL[name].theta).equations
    scale = np.sqrt(np.diag(dense.H) * dense.q)
    close(found.H, other.H, 1e-6)
    assert_allclose(found.g / scale, other.g / scale, atol=1e-7)
    assert_allclose(found.q, other.q, rtol=1e-7)


@dataclass(frozen=True)
class Alternate:
    """Every second block of backward Euler: no two share a time."""

    def matrices(self, times, order=1):
        a, b = BackwardEuler().matrices(times, order)
        return sparse.csr_array(a[::2]), sparse.csr_array(b[::2])


@pytest.mark.parametrize("name", ["iid", "nonlinear", "covariance of two fields"])
def test_it_is_block_weighting_where_blocks_share_no_time(name):
    theta, stack = SETTINGS[name].theta, stacked_likelihood(name, Alternate())
    block = residual_likelihood(stack.system, SETTINGS[name].noise, Block())
    one, two = (x.profile_equations(theta, rng=np.random.default_rng(0)) for x in (block, stack))
    for field in ("H", "g", "q", "logdet", "n"):
        assert_allclose(getattr(two.equations, field), getattr(one.equations, field), rtol=1e-8)
    assert_allclose(two.S, one.S, rtol=1e-8)
    assert_allclose(two.N, one.N, rtol=1e-8)
    one, two = (x.density(theta, gradient=True, change=True) for x in (block, stack))
    for field in ("q", "logdet", "change"):
        assert_allclose(getattr(two, field).value, getattr(one, field).value, rtol=1e-9)
        assert_allclose(getattr(two, field).gradient, getattr(one, field).gradient, rtol=1e-7)


def test_it_differs_from_block_weighting_where_they_do():
    theta, stack = SETTINGS["iid"].theta, stacked_likelihood("iid", BackwardEuler())
    block = residual_likelihood(stack.system, SETTINGS["iid"].noise, Block())
    H, other = (np.diag(x.profile_equations(theta).equations.H) for x in (stack, block))
    assert np.abs(H / other - 1).max() > 0.1


# Over many data sets: u_t = 0.1 u_xx − 0.8 u, own discretisation, large noise.

TRUTH, SIGMA, SEEDS = np.array([0.1, -0.8]), 0.05, 100


@pytest.fixture(scope="module")
def replicas():
    """Profile, lagged and moment equations at the truth for many seeds, and the noise-free ZᵀWZ."""
    clean, library = reaction_diffusion(n=7, steps=8, sigma=0.0)
    noise, rows = np.random.default_rng(5), []

    def likelihood_of(u):
        return residual_likelihood(assemble(clean.with_fields({"u": u}), library), IID(SIGMA), Stacked())

    for seed in range(SEEDS):
        u = clean.fields["u"]
        likelihood = likelihood_of(u + SIGMA * noise.standard_normal(u.shape))
        rng = np.random.default_rng(seed)
        profile, moments = likelihood.profile_equations(TRUTH, rng=rng), likelihood.moment_equations(TRUTH, rng=rng)
        rows.append((profile, likelihood.normal_equations(TRUTH).g, moments))
    without = likelihood_of(clean.fields["u"]).moment_equations(TRUTH, rng=np.random.default_rng(0)).gram
    return rows, without


def test_the_profile_equation_is_unbiased_and_the_lagged_one_is_not(replicas):
    profile, lagged = np.array([r[0].equations.g for r in replicas[0]]), np.array([r[1] for r in replicas[0]])
    assert np.abs(z_of_mean(profile)).max() < 4
    assert np.abs(z_of_mean(lagged)).max() > 10


def test_the_score_has_the_covariance_of_noise_free_regressors(replicas):
    """Cov(g) = E[H − N], with no sandwich."""
    scores = np.array([r[0].equations.g for r in replicas[0]])
    stated = np.mean([r[0].equations.H - r[0].N for r in replicas[0]], axis=0)
    L = np.linalg.inv(np.linalg.cholesky(stated))
    assert_allclose(L @ np.cov(scores.T) @ L.T, np.eye(2), atol=6 * np.sqrt(2 / SEEDS))


def test_the_moment_equations_are_unbiased_at_fixed_weights(replicas):
    """E[ZᵀWZ − B] is ZᵀWZ without noise."""
    rows, without = replicas
    corrected = np.array([r[2].gram - r[2].noise for r in rows])
    raw = np.array([r[2].gram for r in rows])
    assert np.abs(z_of_mean(corrected - without)).max() < 4
    assert np.abs(z_of_mean(raw - without)).max() > 10


def test_moment_equations_of_block_weighting_have_its_normal_equations():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3))
    moments = likelihood.moment_equations(TRUTH, rng=np.random.default_rng(0))
    equations = likelihood.normal_equations(TRUTH)
    assert_allclose(moments.gram[1:, 1:], equations.H, rtol=1e-10)
    assert_allclose(moments.gram[1:, 0] - moments.gram[1:, 1:] @ TRUTH, equations.g, rtol=1e-6)


def test_moment_equations_need_the_noise():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3), Isotropic())
    with pytest.raises(BvsiError, match="noise covariance"):
        likelihood.moment_equations(TRUTH, rng=np.random.default_rng(0))


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_max_memory_is_checked(bad):
    with pytest.raises(BvsiError, match="max_memory"):
        Stacked(max_memory=bad)
