"""Posteriors as probability laws: densities, intervals, draws; and against Markov chain Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import Lagged
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, UnknownScale
from inference.cases import dense_weights, reaction_system, stacked

NAMES = ("a", "b")
MEAN = np.array([1.0, -2.0])
SHAPE = np.array([[2.0, 0.6], [0.6, 0.5]])
GAUSSIAN = GaussianPosterior(NAMES, MEAN, SHAPE)
STUDENT = NormalInverseGammaPosterior(NAMES, MEAN, SHAPE, alpha=4.0, beta=2.0)
DRAWS = 200_000


def check_moments(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Sample mean and covariance within five of their estimated standard errors."""
    n = len(draws)
    assert_allclose((draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / n), 0, atol=5)
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
    error = (products.mean(axis=0) - covariance) / (products.std(axis=0) / np.sqrt(n))
    assert_allclose(error, 0, atol=5)


@pytest.mark.parametrize("posterior", [GAUSSIAN, STUDENT], ids=["gaussian", "student"])
def test_draws_have_the_stated_mean_and_covariance(posterior):
    draws = posterior.sample(DRAWS, np.random.default_rng(0))
    assert draws.shape == (DRAWS, 2)
    check_moments(draws, posterior.mean, posterior.covariance)


@pytest.mark.parametrize("posterior", [GAUSSIAN, STUDENT], ids=["gaussian", "student"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_hold_the_stated_share_of_the_draws(posterior, level):
    draws = posterior.sample(DRAWS, np.random.default_rng(1))
    low, high = posterior.interval(level).T
    for tail in (draws < low, draws > high):
        expected = (1 - level) / 2
        assert_allclose(tail.mean(axis=0), expected, atol=5 * np.sqrt(expected / DRAWS))


@pytest.mark.parametrize("posterior", [GAUSSIAN, STUDENT], ids=["gaussian", "student"])
def test_draws_repeat_with_the_seed(posterior):
    first, second = (posterior.sample(10, np.random.default_rng(3)) for _ in range(2))
    assert_allclose(first, second, rtol=0)
    assert not np.array_equal(first, posterior.sample(10, np.random.default_rng(4)))


def test_student_draws_follow_the_marginal_law():
    """Tails included: Kolmogorov–Smirnov against the Student-t with 2α degrees of freedom."""
    draws = STUDENT.sample(20_000, np.random.default_rng(5))
    for i in range(2):
        law = scipy.stats.t(8.0, loc=MEAN[i], scale=np.sqrt(2.0 / 4.0 * SHAPE[i, i]))
        assert scipy.stats.kstest(draws[:, i], law.cdf).pvalue > 1e-3
        normal = scipy.stats.norm(MEAN[i], np.sqrt(STUDENT.variance[i]))
        assert scipy.stats.kstest(draws[:, i], normal.cdf).pvalue < 1e-3


@pytest.mark.parametrize("theta", [[1.0, -2.0], [2.5, -1.0], [-4.0, 0.0]])
def test_the_student_density_is_the_integral_over_the_variance(theta):
    """∫ N(θ; μ, s·Σ) Inv-Gamma(s; α, β) ds."""

    def integrand(s: float) -> float:
        return scipy.stats.multivariate_normal(MEAN, s * SHAPE).pdf(theta) * scipy.stats.invgamma(4.0, scale=2.0).pdf(s)

    expected = scipy.integrate.quad(integrand, 1e-3, 200, points=[0.3, 1, 5], limit=200)[0]
    assert_allclose(np.exp(STUDENT.logpdf(theta)), expected, rtol=1e-5)


def test_the_gaussian_density():
    offset = np.array([0.3, 0.4])
    expected = -0.5 * (offset @ np.linalg.inv(SHAPE) @ offset + np.log(np.linalg.det(2 * np.pi * SHAPE)))
    assert_allclose(GAUSSIAN.logpdf(MEAN + offset), expected, rtol=1e-12)


def test_many_degrees_of_freedom_are_gaussian():
    posterior = NormalInverseGammaPosterior(NAMES, MEAN, SHAPE, alpha=1e7, beta=1e7)
    assert_allclose(posterior.interval(), GAUSSIAN.interval(), rtol=1e-5)
    assert_allclose(posterior.covariance, SHAPE, rtol=1e-6)


def test_moments_of_the_noise_variance():
    law = scipy.stats.invgamma(4.0, scale=2.0)
    assert_allclose(STUDENT.noise_variance, law.mean(), rtol=1e-12)
    assert_allclose(STUDENT.noise_variance_sd, law.std(), rtol=1e-12)


def test_moments_that_do_not_exist_are_refused():
    heavy = NormalInverseGammaPosterior(NAMES, MEAN, SHAPE, alpha=1.5, beta=1.0)
    assert heavy.noise_variance == 2.0
    with pytest.raises(BvsiError, match="alpha > 2"):
        _ = heavy.noise_variance_sd
    with pytest.raises(BvsiError, match="alpha > 1"):
        _ = NormalInverseGammaPosterior(NAMES, MEAN, SHAPE, alpha=1.0, beta=1.0).covariance


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95, np.nan])
@pytest.mark.parametrize("posterior", [GAUSSIAN, STUDENT], ids=["gaussian", "student"])
def test_impossible_levels_are_refused(posterior, level):
    with pytest.raises(BvsiError, match="level"):
        posterior.interval(level)


@pytest.mark.parametrize("entry", [(0.0, 0.0), (0.0, -1.0), (np.nan, 1.0), (0.0, np.inf), (0.0, np.nan)])
def test_impossible_priors_are_refused(entry):
    with pytest.raises(BvsiError, match="'u'"):
        GaussianPrior({"u": entry})
    with pytest.raises(BvsiError, match="'default'"):
        GaussianPrior({}, default=entry)


@pytest.mark.parametrize("entry", [1.0, (1.0,), (1.0, 2.0, 3.0), ("a", "b"), None])
def test_priors_that_are_no_pair_are_refused(entry):
    with pytest.raises(BvsiError, match="'u'"):
        GaussianPrior({"u": entry})


@pytest.mark.parametrize("pair", [(-1.0, 0.0), (0.0, -1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_impossible_noise_priors_are_refused(pair):
    with pytest.raises(BvsiError, match="Inverse-Gamma"):
        InverseGammaPrior(*pair)


def test_a_prior_is_bound_by_name_whatever_the_spaces():
    bound = GaussianPrior({"laplacian( u )": (1.0, 4.0)}, default=(2.0, 0.5)).bind(("u", "laplacian(u)"))
    assert_allclose(bound.mean, [2.0, 1.0])
    assert_allclose(bound.precision, np.diag([2.0, 0.25]))
    assert_allclose(bound.distance(np.array([3.0, 3.0])), 2.0 + 1.0)
    assert_allclose(bound.gradient(np.array([3.0, 3.0])), [-2.0, -0.5])


def test_operators_without_prior_are_flat():
    bound = GaussianPrior({"u": (1.0, 4.0)}).bind(("u", "u**2"))
    assert_allclose(bound.precision, np.diag([0.25, 0.0]))


def metropolis(log_density, start: np.ndarray, root: np.ndarray, steps: int, rng) -> np.ndarray:
    """Random-walk Metropolis, many chains side by side; start (chains, d), proposals with covariance root rootᵀ.

    Returns the second half, (steps/2, chains, d).
    """
    theta, value = start, log_density(start)
    kept = []
    for step in range(steps):
        proposal = theta + rng.standard_normal(theta.shape) @ root.T
        proposed = log_density(proposal)
        accept = np.log(rng.random(len(theta))) < proposed - value
        theta, value = np.where(accept[:, None], proposal, theta), np.where(accept, proposed, value)
        if step >= steps // 2:
            kept.append(theta)
    return np.stack(kept)


def check_chains(chains: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    """Posterior mean and sd within five standard errors, taken from the spread between chains."""
    n = chains.shape[1]
    means, squares = chains.mean(axis=0), ((chains - mean) ** 2).mean(axis=0)
    errors = means.std(axis=0, ddof=1) / np.sqrt(n)
    assert np.all(errors < 0.03 * sd)  # the chains are long enough for the comparison to say something
    assert_allclose((means.mean(axis=0) - mean) / errors, 0, atol=5)
    assert_allclose((squares.mean(axis=0) - sd**2) / (squares.std(axis=0, ddof=1) / np.sqrt(n)), 0, atol=5)


@pytest.fixture(scope="module")
def system():
    return reaction_system(n=7, steps=6, sigma=5e-3)


PRIOR = GaussianPrior({"laplacian(u)": (0.2, 4e-3), "u": (0.0, 0.2)})
PRIOR_MEAN, PRIOR_VARIANCE = np.array([0.2, 0.0]), np.array([4e-3, 0.2])


def test_the_gaussian_posterior_is_that_of_markov_chains(system):
    """exp(−½ rᵀWr − ½ Σ (θ_i − μ_i)²/s_i²) with W of the last iteration, sampled without any formula for it."""
    fit = Lagged().fit(residual_likelihood(system, IID(5e-3)), prior=PRIOR)
    W, (y, X) = dense_weights(system.experiments[0], fit.history[-1].theta, 25e-6), stacked(system.experiments[0])
    R = np.linalg.cholesky(W).T
    Ry, RX = R @ y, R @ X

    def log_density(theta: np.ndarray) -> np.ndarray:
        misfit = np.sum((Ry - theta @ RX.T) ** 2, axis=1)
        return -0.5 * (misfit + np.sum((theta - PRIOR_MEAN) ** 2 / PRIOR_VARIANCE, axis=1))

    rng = np.random.default_rng(0)
    root = 1.6 * np.linalg.cholesky(fit.posterior.covariance)
    chains = metropolis(log_density, fit.theta + rng.standard_normal((200, 2)) @ root.T, root, 4000, rng)
    check_chains(chains, fit.posterior.mean, np.sqrt(fit.posterior.variance))
    correlation = np.corrcoef(chains.reshape(-1, 2).T)[0, 1]
    stated = fit.posterior.covariance[0, 1] / np.sqrt(fit.posterior.variance.prod())
    assert abs(correlation - stated) < 0.03


def test_the_normal_inverse_gamma_posterior_is_that_of_markov_chains(system):
    """The joint law of θ and log σ² with the covariance shape of the last iteration."""
    noise_prior = InverseGammaPrior(2.0, 5e-5)
    prior = GaussianPrior({"laplacian(u)": (0.2, 200.0), "u": (0.0, 1e4)})  # in units of σ²
    variance = np.array([200.0, 1e4])
    fit = Lagged().fit(residual_likelihood(system, UnknownScale()), prior=prior, noise_prior=noise_prior)
    W, (y, X) = dense_weights(system.experiments[0], fit.history[-1].theta), stacked(system.experiments[0])
    R = np.linalg.cholesky(W).T
    Ry, RX = R @ y, R @ X

    def log_density(state: np.ndarray) -> np.ndarray:
        theta, log_s = state[:, :2], state[:, 2]
        s = np.exp(log_s)
        misfit = np.sum((Ry - theta @ RX.T) ** 2, axis=1)
        distance = np.sum((theta - PRIOR_MEAN) ** 2 / variance, axis=1)
        # N(y; Xθ, sΣ) N(θ; μ_0, sΣ_0) Inv-Gamma(s; 2, 5e-5), and ds = s dlog s
        return -0.5 * (misfit + distance) / s - 0.5 * (len(y) + 2) * log_s - 3.0 * log_s - 5e-5 / s + log_s

    posterior = fit.posterior
    rng = np.random.default_rng(1)
    spread = np.zeros((3, 3))
    spread[:2, :2], spread[2, 2] = posterior.covariance, 1 / posterior.alpha
    root = 1.3 * np.linalg.cholesky(spread)
    centre = np.append(posterior.mean, np.log(posterior.noise_variance))
    chains = metropolis(log_density, centre + rng.standard_normal((200, 3)) @ root.T, root, 6000, rng)
    check_chains(chains[:, :, :2], posterior.mean, np.sqrt(posterior.variance))
    variances = np.exp(chains[:, :, 2:])
    check_chains(variances, np.array([posterior.noise_variance]), np.array([posterior.noise_variance_sd]))
