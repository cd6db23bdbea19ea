"""Normal equations and log density against dense Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.data import Grid
from bvsi.errors import NoiseError, NotPositiveDefiniteError, OperatorError
from bvsi.likelihood import Block, Isotropic, residual_likelihood
from bvsi.noise import IID, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, CrankNicolson, assemble
from bvsi.spaces import Galerkin
from inference.cases import dense_covariance, dense_weights, smooth_1d, stacked

LIBRARY = Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, boundary=NoFlux())
THETA = np.array([0.02, -0.3, 0.5])
TWO_FIELDS = Library({"u": ["laplacian(u)", "u*v"], "v": ["laplacian(v)", "u"]}, boundary=NoFlux())


@pytest.fixture
def system():
    return assemble(smooth_1d(), LIBRARY)


def dense_log_density(residuals, theta, sigma: np.ndarray) -> float:
    """Σ_k log N(r_k; 0, Σ_kk), noise of standard deviation sigma (T,)."""
    state = sigma[:, None, None] ** 2 * np.eye(residuals.structure.n_state)
    covariance = dense_covariance(residuals, theta, state)
    r = residuals.residual(theta)
    return sum(
        scipy.stats.multivariate_normal(np.zeros(len(r)), covariance[k, k]).logpdf(r[:, k]) for k in range(r.shape[1])
    )


@pytest.mark.parametrize("stencil", [None, CrankNicolson(), BDF2()], ids=["BE", "CN", "BDF2"])
def test_log_density_is_that_of_dense_gaussians(stencil):
    system = assemble(smooth_1d(), LIBRARY, stencil=stencil)
    likelihood = residual_likelihood(system, IID(0.01))
    expected = dense_log_density(system.experiments[0], THETA, np.full(6, 0.01))
    assert_allclose(likelihood.log_density(THETA), expected, rtol=1e-10)


def test_log_density_with_noise_that_changes_in_time(system):
    sigma = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02])
    expected = dense_log_density(system.experiments[0], THETA, sigma)
    assert_allclose(residual_likelihood(system, PerTime(sigma)).log_density(THETA), expected, rtol=1e-10)


def test_log_density_of_two_fields():
    system = assemble(smooth_1d(fields=("u", "v")), TWO_FIELDS)
    theta = np.array([0.02, -0.3, 0.01, 0.4])
    expected = dense_log_density(system.experiments[0], theta, np.full(6, 0.02))
    assert_allclose(residual_likelihood(system, IID(0.02)).log_density(theta), expected, rtol=1e-10)


def test_experiments_add_up():
    data = [smooth_1d(seed=0), smooth_1d(7, np.array([0.0, 0.2, 0.5]), seed=1)]
    noise = [IID(0.01), IID(0.03)]
    together = residual_likelihood(assemble(data, LIBRARY), noise)
    alone = [residual_likelihood(assemble(d, LIBRARY), m) for d, m in zip(data, noise, strict=True)]
    assert_allclose(together.log_density(THETA), sum(p.log_density(THETA) for p in alone), rtol=1e-12)
    equations, parts = together.normal_equations(THETA), [p.normal_equations(THETA) for p in alone]
    assert_allclose(equations.H, sum(p.H for p in parts), rtol=1e-12)
    assert_allclose(equations.g, sum(p.g for p in parts), rtol=1e-12)
    assert_allclose(equations.logdet, sum(p.logdet for p in parts), rtol=1e-12)
    assert equations.n == sum(p.n for p in parts) == 9 * 5 + 7 * 2
    assert [len(q) for q in equations.q_blocks] == [5, 2]


def test_one_noise_model_serves_all_experiments():
    system = assemble([smooth_1d(seed=0), smooth_1d(7, seed=1)], LIBRARY)
    one, each = (residual_likelihood(system, noise) for noise in (IID(0.01), [IID(0.01), IID(0.01)]))
    assert one.log_density(THETA) == each.log_density(THETA)


def test_normal_equations_are_those_of_dense_algebra(system):
    (residuals,) = system.experiments
    W, (y, X) = dense_weights(residuals, THETA, 0.01**2), stacked(residuals)
    r = y - X @ THETA
    equations = residual_likelihood(system, IID(0.01)).normal_equations(THETA)
    assert_allclose(equations.H, X.T @ W @ X, rtol=1e-10)
    assert_allclose(equations.g, X.T @ W @ r, rtol=1e-9)
    assert_allclose(equations.q, r @ W @ r, rtol=1e-10)
    assert_allclose(equations.logdet, -np.linalg.slogdet(W)[1], rtol=1e-10)
    by_block = [(r * (W @ r))[k * 9 : (k + 1) * 9].sum() for k in range(5)]
    assert_allclose(equations.q_blocks[0], by_block, rtol=1e-10)


def test_more_columns_than_are_whitened_at_once():
    """40 equal blocks of one group, 1 + 3 columns each: several batches."""
    library = Library({"u": ["laplacian(u)", "dx(u)", "u"]}, boundary=NoFlux())
    system = assemble(smooth_1d(5, np.linspace(0, 1, 41)), library)
    (residuals,) = system.experiments
    W, (y, X) = dense_weights(residuals, THETA), stacked(residuals)
    equations = residual_likelihood(system, IID(1.0)).normal_equations(THETA)
    assert_allclose(equations.H, X.T @ W @ X, rtol=1e-9)
    assert_allclose(equations.g, X.T @ W @ (y - X @ THETA), rtol=1e-9)


def test_moving_by_a_step_is_the_quadratic_with_the_same_weights(system):
    (residuals,) = system.experiments
    W, (y, X) = dense_weights(residuals, THETA, 0.01**2), stacked(residuals)
    step = np.array([0.01, 0.2, -0.3])
    r = y - X @ (THETA + step)
    moved = residual_likelihood(system, IID(0.01)).normal_equations(THETA).moved(step)
    assert_allclose(moved.q, r @ W @ r, rtol=1e-9)
    assert_allclose(moved.g, X.T @ W @ r, rtol=1e-7)


def test_isotropic_weights_are_the_identity(system):
    (residuals,) = system.experiments
    y, X = stacked(residuals)
    equations = residual_likelihood(system, IID(0.01), Isotropic()).normal_equations(THETA)
    assert_allclose(equations.H, X.T @ X, rtol=1e-13)
    assert_allclose(equations.g, X.T @ (y - X @ THETA), rtol=1e-12)
    assert_allclose(equations.q, np.sum((y - X @ THETA) ** 2), rtol=1e-13)
    assert equations.logdet == 0


def test_isotropic_log_density_is_the_maximum_over_the_residual_variance(system):
    (residuals,) = system.experiments
    y, X = stacked(residuals)
    r = y - X @ THETA
    found = residual_likelihood(system, IID(0.01), Isotropic()).log_density(THETA)
    s = np.sqrt(np.mean(r**2)) * np.array([0.99, 1.0, 1.01])
    densities = scipy.stats.norm(0, s[:, None]).logpdf(r).sum(axis=1)
    assert_allclose(found, densities[1], rtol=1e-12)
    assert densities[1] > max(densities[0], densities[2])


def test_unknown_scale_is_put_at_its_maximum(system):
    unknown = residual_likelihood(system, UnknownScale())
    equations = unknown.normal_equations(THETA)
    best = np.sqrt(equations.q / equations.n)
    known = [residual_likelihood(system, IID(s)).log_density(THETA) for s in best * np.array([0.99, 1.0, 1.01])]
    assert_allclose(unknown.log_density(THETA), known[1], rtol=1e-12)
    assert known[1] > max(known[0], known[2])


@pytest.mark.parametrize("kept", [["u"], ["u", "laplacian(u)"], ["laplacian(u)", "u*dx(u)"]])
@pytest.mark.parametrize("weighting", [Block(), Isotropic()], ids=["block", "isotropic"])
def test_a_restriction_equals_building_afresh(system, kept, weighting):
    restricted = residual_likelihood(system, IID(0.01), weighting).restrict(kept)
    assert restricted.names == tuple(kept)
    library = Library({"u": kept}, boundary=NoFlux())
    fresh = residual_likelihood(assemble(smooth_1d(), library), IID(0.01), weighting)
    theta = np.array([0.2, -0.1])[: len(kept)]
    a, b = restricted.normal_equations(theta), fresh.normal_equations(theta)
    assert_allclose(a.H, b.H, rtol=1e-11)
    assert_allclose(a.g, b.g, rtol=1e-11)
    assert_allclose(a.logdet, b.logdet, rtol=1e-11)
    assert_allclose(restricted.log_density(theta), fresh.log_density(theta), rtol=1e-11)


def test_a_restriction_is_the_full_model_with_zeros(system):
    """r and Σ do not notice operators whose coefficient is zero."""
    likelihood = residual_likelihood(system, IID(0.01))
    restricted = likelihood.restrict(["u", "laplacian(u)"])
    assert_allclose(restricted.log_density([0.5, 0.02]), likelihood.log_density([0.02, 0.0, 0.5]), rtol=1e-12)


def test_a_restriction_plans_nothing_again(system):
    likelihood = residual_likelihood(system, IID(0.01))
    assert likelihood.restrict(["u"]).plans is likelihood.plans


def test_restricting_to_unknown_or_repeated_names_is_refused(system):
    likelihood = residual_likelihood(system, IID(0.01))
    with pytest.raises(OperatorError, match="laplacian"):
        likelihood.restrict(["laplacian(v)"])
    with pytest.raises(OperatorError, match="twice"):
        likelihood.restrict(["u", " u "])


@pytest.mark.parametrize("theta", [[1.0, 2.0], [1.0, 2.0, np.nan], [[1.0, 2.0, 3.0]], 1.0])
def test_a_wrong_theta_is_refused(system, theta):
    with pytest.raises(OperatorError, match=r"theta: needs 3 finite numbers.*laplacian\(u\)"):
        residual_likelihood(system, IID(0.01)).log_density(theta)


def test_a_singular_covariance_names_experiment_and_block():
    """33 unknowns, and 9 measured nodes at each of the two times of a block: rank 18 at most."""
    space = Galerkin(on=Grid(x=np.linspace(0, 1, 33)))
    system = assemble([smooth_1d(49), smooth_1d(9, seed=1)], LIBRARY, discretisation=space)
    likelihood = residual_likelihood(system, IID(0.01), Block())
    with pytest.raises(NotPositiveDefiniteError, match="experiment 1, block 0") as caught:
        likelihood.normal_equations(THETA)
    assert "experiment 1" in caught.value.label
    assert 0 <= caught.value.row < 33


def test_the_block_that_fails_is_named():
    """Nonlinear blocks have covariances of their own; a huge coefficient overflows one after a quiet start."""
    data = smooth_1d()
    u = data.fields["u"].copy()
    u[:3] = 0.0
    library = Library({"u": ["u**2"]}, boundary=NoFlux())
    system = assemble(data.with_fields({"u": u}), library)
    with pytest.raises(NotPositiveDefiniteError, match="experiment 0, block 2"):
        residual_likelihood(system, IID(1.0)).normal_equations([1e200])


def test_noise_models_of_another_number_than_experiments_are_refused(system):
    with pytest.raises(NoiseError, match="noise: 2 models for 1 experiments"):
        residual_likelihood(system, [IID(1.0), IID(1.0)])
