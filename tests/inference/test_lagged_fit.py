"""The lagged-covariance estimator against the paper's formulas in dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, OperatorError
from bvsi.infer import Lagged, LeastSquares
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import CrankNicolson, assemble
from inference.cases import dense_weights, reaction_diffusion, reaction_system, smooth_1d, stacked

SIGMA = 2e-3
PRIOR = GaussianPrior({"laplacian(u)": (0.12, 1e-4)}, default=(-0.5, 0.3))
MEAN, PRECISION = np.array([0.12, -0.5]), np.diag([1e4, 1 / 0.3])
FLAT = np.zeros((2, 2))


@pytest.fixture(scope="module")
def system():
    return reaction_system(n=9, steps=12, sigma=SIGMA)


@pytest.fixture(scope="module")
def nonlinear():
    data, _ = reaction_diffusion(n=9, steps=8, sigma=SIGMA)
    return assemble(data, Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, boundary=NoFlux()), stencil=CrankNicolson())


def dense(system, theta, variance):
    (residuals,) = system.experiments
    return (dense_weights(residuals, theta, variance), *stacked(residuals))


def test_the_fixed_point_solves_the_weighted_normal_equations(system):
    """XᵀW(θ)(y − Xθ) = 0."""
    fit = Lagged(tol=1e-12).fit(residual_likelihood(system, IID(SIGMA)))
    W, y, X = dense(system, fit.theta, SIGMA**2)
    terms = np.abs(X.T @ W) @ np.abs(y)
    assert fit.status.converged
    assert_allclose(X.T @ W @ (y - X @ fit.theta) / terms, 0, atol=1e-10)


def test_the_fixed_point_of_a_nonlinear_model(nonlinear):
    fit = Lagged(tol=1e-12).fit(residual_likelihood(nonlinear, IID(SIGMA)))
    W, y, X = dense(nonlinear, fit.theta, SIGMA**2)
    assert fit.status.converged
    assert_allclose(X.T @ W @ (y - X @ fit.theta) / (np.abs(X.T @ W) @ np.abs(y)), 0, atol=1e-10)
    assert_allclose(fit.posterior.covariance, np.linalg.inv(X.T @ W @ X), rtol=1e-7)


def test_the_fixed_point_with_a_prior(system):
    """XᵀW(θ)(y − Xθ) + Σ_0⁻¹(μ_0 − θ) = 0."""
    fit = Lagged(tol=1e-12).fit(residual_likelihood(system, IID(SIGMA)), prior=PRIOR)
    W, y, X = dense(system, fit.theta, SIGMA**2)
    gradient = X.T @ W @ (y - X @ fit.theta) + PRECISION @ (MEAN - fit.theta)
    assert_allclose(gradient / (np.abs(X.T @ W) @ np.abs(y)), 0, atol=1e-10)


@pytest.mark.parametrize(
    "prior, mean, precision", [(None, 0 * MEAN, FLAT), (PRIOR, MEAN, PRECISION)], ids=["flat", "prior"]
)
@pytest.mark.parametrize("iterations", [1, 2, 50])
def test_gaussian_posterior_is_the_papers(system, prior, mean, precision, iterations):
    """eq:lagged_gaussian_posterior_parameters with the covariance of the last iteration, converged or not."""
    fit = Lagged(tol=1e-12, max_iterations=iterations).fit(residual_likelihood(system, IID(SIGMA)), prior=prior)
    W, y, X = dense(system, fit.history[-1].theta, SIGMA**2)
    covariance = np.linalg.inv(precision + X.T @ W @ X)
    assert isinstance(fit.posterior, GaussianPosterior)
    assert_allclose(fit.posterior.covariance, covariance, rtol=1e-9)
    assert_allclose(fit.posterior.mean, covariance @ (precision @ mean + X.T @ W @ y), rtol=1e-8)
    assert_allclose(fit.theta, fit.posterior.mean, rtol=0)
    r = y - X @ fit.theta
    assert_allclose(fit.chi2, r @ W @ r / len(y), rtol=1e-7)


@pytest.mark.parametrize("noise_prior", [None, InverseGammaPrior(3.0, 1e-5)], ids=["reference", "informative"])
@pytest.mark.parametrize(
    "prior, mean, precision", [(None, 0 * MEAN, FLAT), (PRIOR, MEAN, PRECISION)], ids=["flat", "prior"]
)
@pytest.mark.parametrize("iterations", [1, 50])
def test_normal_inverse_gamma_posterior_is_the_papers(system, prior, mean, precision, noise_prior, iterations):
    """eq:NIG_posterior_parameters, letter by letter; of a flat prior each coefficient takes a degree of freedom."""
    likelihood = residual_likelihood(system, UnknownScale())
    fit = Lagged(tol=1e-12, max_iterations=iterations).fit(likelihood, prior=prior, noise_prior=noise_prior)
    W, y, X = dense(system, fit.history[-1].theta, 1.0)
    alpha_0, beta_0 = (0.0, 0.0) if noise_prior is None else (3.0, 1e-5)
    shape = np.linalg.inv(precision + X.T @ W @ X)
    mu = shape @ (precision @ mean + X.T @ W @ y)
    alpha = alpha_0 + (len(y) - (len(mu) if prior is None else 0)) / 2
    beta = beta_0 + 0.5 * (y @ W @ y + mean @ precision @ mean - mu @ np.linalg.inv(shape) @ mu)
    posterior = fit.posterior
    assert isinstance(posterior, NormalInverseGammaPosterior)
    assert_allclose(posterior.shape, shape, rtol=1e-9)
    assert_allclose(posterior.mean, mu, rtol=1e-8)
    assert posterior.alpha == alpha
    assert_allclose(posterior.beta, beta, rtol=1e-6)
    assert_allclose(posterior.covariance, beta / (alpha - 1) * shape, rtol=1e-6)
    assert_allclose(posterior.noise_variance, beta / (alpha - 1), rtol=1e-6)
    assert_allclose(posterior.noise_variance_sd, beta / ((alpha - 1) * np.sqrt(alpha - 2)), rtol=1e-6)
    student = scipy.stats.t(2 * alpha, loc=mu, scale=np.sqrt(beta / alpha * np.diag(shape)))
    for level in (0.5, 0.95):
        assert_allclose(posterior.interval(level), np.stack(student.interval(level), axis=1), rtol=1e-7)


def test_known_and_unknown_scale_agree_on_the_coefficients(system):
    known, unknown = (Lagged(tol=1e-13).fit(residual_likelihood(system, n)) for n in (IID(SIGMA), UnknownScale()))
    assert_allclose(known.theta, unknown.theta, rtol=1e-10)
    ratio = unknown.posterior.covariance / known.posterior.covariance
    assert_allclose(ratio, unknown.posterior.noise_variance / SIGMA**2, rtol=1e-7)


def test_the_shape_of_the_noise_counts_with_an_unknown_scale(system):
    sigma = np.linspace(1, 5, 13)
    known = Lagged(tol=1e-13).fit(residual_likelihood(system, PerTime(1e-3 * sigma)))
    unknown = Lagged(tol=1e-13).fit(residual_likelihood(system, UnknownScale(PerTime(sigma))))
    flat = Lagged(tol=1e-13).fit(residual_likelihood(system, UnknownScale()))
    assert_allclose(known.theta, unknown.theta, rtol=1e-10)
    assert np.abs(known.theta - flat.theta).max() > 1e-4


@pytest.mark.parametrize("sigma", [1e-5, 1e-3])
def test_the_noise_level_is_found(sigma):
    """Data of the identification's own discretisation: σ² within its sampling error."""
    system = reaction_system(n=25, steps=80, sigma=sigma, seed=3)
    fit = Lagged().fit(residual_likelihood(system, UnknownScale()))
    assert abs(fit.posterior.noise_variance / sigma**2 - 1) < 0.12
    assert_allclose(fit.chi2, 1, atol=1e-2)


def test_chi2_is_one_where_noise_and_model_are_right():
    system = reaction_system(n=25, steps=80, sigma=1e-4, seed=4)
    fit = Lagged().fit(residual_likelihood(system, IID(1e-4)))
    assert 0.88 < fit.chi2 < 1.12
    half = Lagged().fit(residual_likelihood(system, IID(0.5e-4)))
    assert_allclose(half.chi2, 4 * fit.chi2, rtol=1e-4)


def test_coefficients_are_within_their_error_bars_when_the_noise_is_small():
    """At small noise the bias of errors in variables (of order σ²) is below the error bar (of order σ)."""
    z = []
    for seed in range(8):
        fit = Lagged().fit(residual_likelihood(reaction_system(n=13, steps=12, sigma=1e-6, seed=seed), IID(1e-6)))
        z.append((fit.theta - [0.1, -0.8]) / np.sqrt(fit.posterior.variance))
    assert np.abs(z).max() < 4
    assert np.mean(np.square(z)) < 2


def test_weights_beat_least_squares():
    errors = []
    for method in (lambda s: LeastSquares().fit(s), lambda s: Lagged().fit(residual_likelihood(s, IID(1e-5)))):
        fits = [method(reaction_system(n=33, steps=20, sigma=1e-5, seed=seed)).theta for seed in range(6)]
        errors.append(np.sqrt(np.mean(np.square(np.array(fits) - [0.1, -0.8]))))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("noise", [IID(SIGMA), UnknownScale()], ids=["known", "unknown"])
def test_chi2_by_block_adds_up(system, noise):
    fit = Lagged().fit(residual_likelihood(system, noise))
    assert_allclose(np.mean(fit.chi2_blocks[0]), fit.chi2, rtol=1e-6)


def test_chi2_by_block_adds_up_before_convergence_too(system):
    fit = Lagged(max_iterations=1).fit(residual_likelihood(system, IID(SIGMA)), start=[0.0, 0.0])
    assert_allclose(np.mean(fit.chi2_blocks[0]), fit.chi2, rtol=1e-6)


def test_twice_the_same_data_halve_the_variance():
    data, library = reaction_diffusion(n=9, steps=12, sigma=SIGMA)
    one, two = (
        Lagged(tol=1e-12).fit(residual_likelihood(assemble(d, library), IID(SIGMA))) for d in (data, [data, data])
    )
    assert_allclose(two.theta, one.theta, rtol=1e-9)
    assert_allclose(two.posterior.covariance, one.posterior.covariance / 2, rtol=1e-8)
    assert_allclose(two.chi2, one.chi2, rtol=1e-9)
    assert len(two.chi2_blocks) == 2


def test_two_experiments_with_noise_of_their_own_are_pooled_by_their_weights():
    pairs = [reaction_diffusion(n=9, steps=12, sigma=s, seed=i) for i, s in enumerate((1e-4, 1e-3))]
    system = assemble([data for data, _ in pairs], pairs[0][1])
    fit = Lagged(tol=1e-12).fit(residual_likelihood(system, [IID(1e-4), IID(1e-3)]))
    H, g = np.zeros((2, 2)), np.zeros(2)
    for residuals, sigma in zip(system.experiments, (1e-4, 1e-3), strict=True):
        W, (y, X) = dense_weights(residuals, fit.theta, sigma**2), stacked(residuals)
        H, g = H + X.T @ W @ X, g + X.T @ W @ y
    assert_allclose(fit.theta, np.linalg.solve(H, g), rtol=1e-8)
    assert_allclose(fit.posterior.covariance, np.linalg.inv(H), rtol=1e-8)


def test_a_weak_prior_changes_nothing_and_a_strong_one_everything(system):
    likelihood = residual_likelihood(system, IID(SIGMA))
    flat = Lagged().fit(likelihood).theta
    weak = Lagged().fit(likelihood, prior=GaussianPrior({}, default=(0.0, 1e12))).theta
    strong = Lagged().fit(likelihood, prior=GaussianPrior({}, default=(0.5, 1e-16))).theta
    assert_allclose(weak, flat, rtol=1e-7)
    assert_allclose(strong, 0.5, rtol=1e-6)


def test_not_converged_says_what_to_do(system):
    fit = Lagged(max_iterations=1).fit(residual_likelihood(system, IID(SIGMA)), start=[0.0, 0.0])
    assert not fit.status.converged
    assert fit.status.iterations == 1
    for advice in ("not converged", "max_iterations", "start", "prior"):
        assert advice in fit.status.message
    assert "not converged" in str(fit)
    assert len(fit.history) == 1


def test_the_history_holds_every_step(system):
    likelihood = residual_likelihood(system, IID(SIGMA))
    calls = []
    fit = Lagged().fit(likelihood, start=[0.0, 0.0], progress=lambda *a: calls.append(a))
    assert fit.status.converged
    assert len(fit.history) == fit.status.iterations == len(calls)
    assert_allclose(fit.history[0].theta, 0)
    assert fit.history[-1].change <= 1e-8 < fit.history[-2].change
    for step in fit.history:
        equations = likelihood.normal_equations(step.theta)
        assert_allclose(step.chi2, equations.q / equations.n, rtol=1e-10)
    for before, after in zip(fit.history, fit.history[1:], strict=False):
        equations = likelihood.normal_equations(before.theta)
        assert_allclose(after.theta, before.theta + np.linalg.solve(equations.H, equations.g), rtol=1e-7)


def test_the_fixed_point_does_not_depend_on_the_start(system):
    likelihood = residual_likelihood(system, IID(SIGMA))
    starts = [None, [0.0, 0.0], np.array([1.0, 1.0]), {"u": -0.8, "laplacian( u )": 0.1}, {"u": 3.0}]
    fits = [Lagged(tol=1e-12).fit(likelihood, start=s) for s in starts]
    for fit in fits:
        assert fit.status.converged
        assert_allclose(fit.theta, fits[0].theta, rtol=1e-8)
        assert_allclose(fit.posterior.covariance, fits[0].posterior.covariance, rtol=1e-7)


def test_a_start_by_name_leaves_the_others_zero(system):
    fit = Lagged(max_iterations=1).fit(residual_likelihood(system, IID(SIGMA)), start={"u": -0.3})
    assert_allclose(fit.history[0].theta, [0.0, -0.3])


def test_the_default_start_is_least_squares(system):
    fit = Lagged().fit(residual_likelihood(system, IID(SIGMA)))
    assert_allclose(fit.history[0].theta, LeastSquares().fit(system).theta, rtol=0)


@pytest.mark.parametrize("start", [[0.1], [0.1, 0.2, 0.3], [0.1, np.nan], {"u": np.inf}, [[0.1, 0.2]]])
def test_a_start_of_another_size_is_refused(system, start):
    with pytest.raises(OperatorError, match="2 finite numbers"):
        Lagged().fit(residual_likelihood(system, IID(SIGMA)), start=start)


def test_a_start_with_an_unknown_name_is_refused(system):
    with pytest.raises(OperatorError, match=r"'laplacian\(v\)'.*did you mean 'laplacian\(u\)'"):
        Lagged().fit(residual_likelihood(system, IID(SIGMA)), start={"laplacian(v)": 1.0})


@pytest.mark.parametrize("start", ["vsi", ["a", "b"], {"u": "large"}, {"u": None}])
def test_a_start_that_is_no_number_is_refused(system, start):
    with pytest.raises(BvsiError, match=r"start|theta"):
        Lagged().fit(residual_likelihood(system, IID(SIGMA)), start=start)


@pytest.mark.parametrize("choice", [{"max_iterations": 0}, {"tol": -1.0}, {"tol": np.nan}])
def test_bad_settings_are_refused(system, choice):
    with pytest.raises(BvsiError, match=next(iter(choice))):
        Lagged(**choice).fit(residual_likelihood(system, IID(SIGMA)))


def test_the_fit_of_a_restriction_equals_that_of_the_smaller_model():
    data, _ = reaction_diffusion(n=9, steps=12, sigma=SIGMA)
    large = assemble(data, Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, boundary=NoFlux()))
    small = assemble(data, Library({"u": ["u", "laplacian(u)"]}, boundary=NoFlux()))
    a = Lagged().fit(residual_likelihood(large, IID(SIGMA)).restrict(["u", "laplacian(u)"]))
    b = Lagged().fit(residual_likelihood(small, IID(SIGMA)))
    assert a.names == b.names
    assert_allclose(a.theta, b.theta, rtol=1e-9)
    assert_allclose(a.posterior.covariance, b.posterior.covariance, rtol=1e-8)


def test_the_text_of_a_fit_has_error_bars(system):
    fit = Lagged().fit(residual_likelihood(system, IID(SIGMA)))
    assert "±" in str(fit)
    assert all(name in str(fit) for name in fit.names)


def test_two_fields_are_fitted_together():
    """The same dense formulas with coupled equations."""
    library = Library({"u": ["laplacian(u)", "v"], "v": ["laplacian(v)", "u"]}, boundary=NoFlux())
    system = assemble(smooth_1d(9, np.linspace(0, 1, 12), fields=("u", "v")), library)
    fit = Lagged(tol=1e-12, max_iterations=200).fit(residual_likelihood(system, IID(0.05)))
    W, y, X = dense(system, fit.history[-1].theta, 0.05**2)
    assert fit.names == ("u: laplacian(u)", "u: v", "v: laplacian(v)", "v: u")
    assert_allclose(fit.posterior.covariance, np.linalg.inv(X.T @ W @ X), rtol=1e-8)
    assert_allclose(fit.theta, np.linalg.solve(X.T @ W @ X, X.T @ W @ y), rtol=1e-7)
