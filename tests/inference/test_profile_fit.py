"""The profile estimator: what it minimises, the error bars it states, and what it says when it fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError, OperatorError, RankError
from bvsi.infer import Profile
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.infer.profile import with_unknown_scale
from bvsi.infer.starts import dominant
from bvsi.likelihood import Isotropic, residual_likelihood
from bvsi.noise import IID, PerTime, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import CrankNicolson, assemble
from inference.cases import dense_weights, reaction_diffusion, reaction_system, stacked

SIGMA = 1e-2
TRUTH = np.array([0.1, -0.8])
PRIOR = GaussianPrior({"laplacian(u)": (0.15, 1e-4)}, default=(-0.5, 0.01))
MEAN, PRECISION = np.array([0.15, -0.5]), np.diag([1e4, 1e2])


@pytest.fixture(scope="module")
def system():
    return reaction_system(n=11, steps=14, sigma=SIGMA)


@pytest.fixture(scope="module")
def likelihood(system):
    return residual_likelihood(system, IID(SIGMA))


@pytest.fixture(scope="module")
def fit(likelihood):
    return Profile(tol=1e-10).fit(likelihood)


@pytest.fixture(scope="module")
def nonlinear():
    data, _ = reaction_diffusion(n=9, steps=10, sigma=SIGMA)
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, boundary=NoFlux())
    return residual_likelihood(assemble(data, library, stencil=CrankNicolson()), IID(SIGMA))


def misfit(likelihood, theta: np.ndarray, variance: float = SIGMA**2) -> float:
    """Q(θ) = Σ_k r_kᵀ Σ_k(θ)⁻¹ r_k, dense."""
    (residuals,) = likelihood.system.experiments
    y, X = stacked(residuals)
    r = y - X @ theta
    return float(r @ dense_weights(residuals, theta, variance) @ r)


def half_gradient(function, theta: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """½∇ by central differences, per standard deviation."""
    steps = 0.1 * np.diag(sd)
    return np.array([(function(theta + s) - function(theta - s)) / 0.4 for s in steps])


def test_the_estimate_is_stationary(likelihood, fit):
    """½∇Q = 0, to a small fraction of its own standard deviation."""
    sd = np.sqrt(np.diag(fit.inverse))
    assert fit.status.converged
    assert_allclose(half_gradient(lambda t: misfit(likelihood, t), fit.theta, sd), 0, atol=1e-3)
    assert_allclose(likelihood.profile_equations(fit.theta).equations.g * sd, 0, atol=1e-8)


def test_the_estimate_of_a_nonlinear_model_is_stationary(nonlinear):
    fit = Profile(tol=1e-10).fit(nonlinear)
    sd = np.sqrt(np.diag(fit.inverse))
    assert fit.status.converged
    assert_allclose(half_gradient(lambda t: misfit(nonlinear, t), fit.theta, sd), 0, atol=1e-3)


def test_the_estimate_is_a_minimum(likelihood, fit):
    rng = np.random.default_rng(0)
    sd = np.sqrt(fit.posterior.variance)
    lowest = likelihood.normal_equations(fit.theta).q
    for _ in range(20):
        assert likelihood.normal_equations(fit.theta + rng.normal(size=2) * sd).q > lowest


def test_with_a_prior_the_estimate_is_stationary_with_it(likelihood):
    """X̃ᵀWr + Σ_0⁻¹(μ_0 − θ) = 0."""
    fit = Profile(tol=1e-10).fit(likelihood, prior=PRIOR)
    sd = np.sqrt(np.diag(fit.inverse))
    downhill = -half_gradient(lambda t: misfit(likelihood, t), fit.theta, sd) + sd * (PRECISION @ (MEAN - fit.theta))
    assert_allclose(downhill, 0, atol=1e-3)
    assert np.abs(sd * (PRECISION @ (MEAN - fit.theta))).max() > 0.1


def test_a_prior_shrinks_between_data_and_its_mean(likelihood, fit):
    weak, middle, strong = (
        Profile().fit(likelihood, prior=GaussianPrior({}, default=(0.5, v))).theta for v in (1e9, 1e-5, 1e-14)
    )
    assert_allclose(weak, fit.theta, rtol=1e-5)
    assert_allclose(strong, 0.5, rtol=1e-5)
    assert np.all((middle - fit.theta) * (0.5 - middle) > 0)


def test_the_error_bars_are_the_sandwich(likelihood):
    """A⁻¹(S + Σ_0⁻¹)A⁻¹, A = H + Σ_0⁻¹ − N."""
    for prior, precision in ((None, np.zeros((2, 2))), (PRIOR, PRECISION)):
        fit = Profile().fit(likelihood, prior=prior, rng=np.random.default_rng(3))
        parts = likelihood.profile_equations(fit.theta, rng=np.random.default_rng(3))
        A = np.linalg.inv(parts.equations.H + precision - parts.N)
        assert isinstance(fit.posterior, GaussianPosterior)
        assert_allclose(fit.inverse, A, rtol=1e-8)
        assert_allclose(fit.posterior.covariance, A @ (parts.S + precision) @ A, rtol=1e-8)
        assert_allclose(fit.posterior.mean, fit.theta)
        assert_allclose(fit.chi2, parts.equations.q / parts.equations.n, rtol=1e-10)


def test_error_bars_from_the_scores_of_the_blocks(likelihood, fit):
    """Bartlett weights 1, 2/3, 1/3 on neighbouring blocks."""
    (g,) = likelihood.profile_equations(fit.theta).scores
    k = np.arange(len(g))
    weights = np.clip(1 - np.abs(k[:, None] - k) / 3, 0, None)
    expected = fit.inverse @ (g.T @ weights @ g) @ fit.inverse
    assert_allclose(fit.score_covariance, expected, rtol=1e-7)


def test_error_bars_from_scores_do_not_know_the_stated_noise(system):
    """Twice the stated σ leaves the estimate and the score variances, and doubles the model's."""
    one, two = (Profile(tol=1e-9).fit(residual_likelihood(system, IID(s))) for s in (1e-3, 2e-3))
    assert_allclose(one.theta, two.theta, rtol=1e-6)
    assert_allclose(np.sqrt(two.posterior.variance / one.posterior.variance), 2, rtol=0.02)
    assert_allclose(two.score_covariance, one.score_covariance, rtol=0.05)


def test_the_draw_for_the_error_bars_is_reproducible_and_small(likelihood):
    first, again, given = (Profile().fit(likelihood, rng=r).posterior for r in (None, None, np.random.default_rng(7)))
    assert np.array_equal(first.covariance, again.covariance)
    assert np.array_equal(first.mean, given.mean)
    assert not np.array_equal(first.covariance, given.covariance)
    assert_allclose(given.variance, first.variance, rtol=0.1)


def test_unknown_noise_gives_the_same_coefficients_and_finds_the_noise():
    system = reaction_system(n=15, steps=60, sigma=SIGMA, seed=3)
    known, unknown = (Profile(tol=1e-9).fit(residual_likelihood(system, n)) for n in (IID(SIGMA), UnknownScale()))
    posterior = unknown.posterior
    assert isinstance(posterior, NormalInverseGammaPosterior)
    assert_allclose(unknown.theta, known.theta, rtol=1e-7)
    assert abs(posterior.noise_variance / SIGMA**2 - 1) < 0.12
    assert_allclose(unknown.chi2, 1, atol=0.01)
    assert_allclose(posterior.covariance, known.posterior.covariance * posterior.noise_variance / SIGMA**2, rtol=0.02)
    assert_allclose(np.diag(unknown.score_covariance), np.diag(known.score_covariance), rtol=0.02)


def test_the_shape_of_the_noise_counts_with_an_unknown_scale(system):
    sigma = np.linspace(1, 5, 15)
    known, unknown, flat = (
        Profile(tol=1e-9).fit(residual_likelihood(system, n)).theta
        for n in (PerTime(1e-2 * sigma), UnknownScale(PerTime(sigma)), UnknownScale())
    )
    assert_allclose(known, unknown, rtol=1e-6)
    assert np.abs(known / flat - 1).max() > 1e-3


def test_unknown_noise_with_priors(system):
    """α = α_0 + n/2, β = β_0 + ½(Q + (θ−μ_0)ᵀΣ_0⁻¹(θ−μ_0)); prior variances are in units of σ²."""
    likelihood = residual_likelihood(system, UnknownScale())
    scaled = GaussianPrior({"laplacian(u)": (0.15, 1.0)}, default=(-0.5, 100.0))
    fit = Profile(tol=1e-9).fit(likelihood, prior=scaled, noise_prior=InverseGammaPrior(3.0, 2e-4))
    distance = (fit.theta - MEAN) @ np.diag([1.0, 0.01]) @ (fit.theta - MEAN)
    q = misfit(likelihood, fit.theta, 1.0)
    assert fit.posterior.alpha == 3.0 + system.n / 2
    assert_allclose(fit.posterior.beta, 2e-4 + 0.5 * (q + distance), rtol=1e-7)
    known = Profile(tol=1e-9).fit(residual_likelihood(system, IID(SIGMA)), prior=PRIOR)
    assert_allclose(fit.theta, known.theta, rtol=1e-6)  # σ² times the variances above is PRIOR


def test_a_start_may_be_given_as_a_vector_or_by_name(likelihood, fit):
    by_name = {"laplacian(u)": 0.12, "u": -0.7}
    a, b = (Profile(tol=1e-10).fit(likelihood, start=s) for s in ([0.12, -0.7], by_name))
    assert np.array_equal(a.theta, b.theta)
    assert_allclose(a.history[0].theta, [0.12, -0.7])
    assert_allclose(a.theta, fit.theta, rtol=1e-7)


def test_from_its_own_start_it_begins_with_the_weights_of_the_dominant_operators(likelihood):
    fit = Profile().fit(likelihood)
    first = dominant(likelihood, GaussianPrior({}).bind(likelihood.names))
    assert np.array_equal(fit.history[0].theta, first)


def test_a_start_of_another_strength_ends_at_the_same_estimate(likelihood, fit):
    start = dominant(likelihood, GaussianPrior({}).bind(likelihood.names), factor=10.0)
    other = Profile(tol=1e-10).fit(likelihood, start=start)
    assert not np.array_equal(other.history[0].theta, fit.history[0].theta)
    assert_allclose(other.theta, fit.theta, rtol=1e-7)


@pytest.mark.parametrize("start", [[0.1], [0.1, np.nan], {"v": 1.0}, {"u": "much"}, "text"])
def test_a_start_that_is_none_is_refused(likelihood, start):
    with pytest.raises(OperatorError):
        Profile().fit(likelihood, start=start)


def test_a_far_start_ends_at_the_minimum_or_says_that_it_did_not():
    """Of 24 far starts all end at the minimum today; one that does not must say so, and more than one is a loss."""
    complaints = 0
    for seed in range(8):
        likelihood = residual_likelihood(reaction_system(n=11, steps=14, sigma=SIGMA, seed=seed), IID(SIGMA))
        own = Profile().fit(likelihood)
        for start in ([1.0, 3.0], [0.5, -5.0], [0.0, 0.0]):
            found = Profile().fit(likelihood, start=start)
            if np.any(np.abs(found.theta - own.theta) > 1e-3 * np.sqrt(own.posterior.variance)):
                assert found.status.reasons
                complaints += 1
    assert complaints <= 1


def test_the_history_holds_every_step(likelihood):
    calls = []
    fit = Profile().fit(likelihood, start=[0.12, -0.7], progress=lambda *a: calls.append(a))
    assert len(fit.history) == fit.status.iterations == len(calls)
    assert fit.history[-1].change <= 1e-5 < fit.history[-2].change
    q = [step.chi2 for step in fit.history]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(q))
    for step in fit.history:
        assert_allclose(step.chi2, likelihood.normal_equations(step.theta).q / likelihood.system.n, rtol=1e-9)


def test_out_of_iterations_is_not_converged(likelihood):
    fit = Profile(max_iterations=1).fit(likelihood, start=[0.3, 0.3])
    assert not fit.status.converged
    assert "not converged in 1 iteration" in fit.status.message
    assert "not converged" in str(fit)


@pytest.mark.parametrize("sigma, words", [(SIGMA / 3, "larger than stated"), (SIGMA * 3, "smaller than stated")])
def test_a_misfit_is_told(system, sigma, words):
    fit = Profile().fit(residual_likelihood(system, IID(sigma)))
    assert not 0.5 < fit.chi2 < 2
    assert "far from one" in fit.status.message
    assert words in fit.status.message


def test_a_missing_operator_is_told():
    data, _ = reaction_diffusion(n=11, steps=14, sigma=1e-3)
    system = assemble(data, Library({"u": ["laplacian(u)"]}, boundary=NoFlux()))
    fit = Profile().fit(residual_likelihood(system, IID(1e-3)))
    assert fit.chi2 > 2
    assert "an operator is missing" in fit.status.message


def test_a_good_fit_says_nothing_but_that(fit):
    assert 0.7 < fit.chi2 < 1.3
    assert fit.status.message == f"converged (iterations: {fit.status.iterations})."
    assert str(fit).startswith("profile: χ²/n = ")


def test_chi2_by_block_adds_up(fit):
    assert_allclose(np.mean(fit.chi2_blocks[0]), fit.chi2, rtol=1e-9)


@pytest.mark.parametrize(
    "choice",
    [{"tol": 0}, {"tol": -1e-3}, {"tol": np.nan}, {"tol": np.inf}, {"max_iterations": 0}, {"max_iterations": -3}],
    ids=str,
)
def test_settings_with_which_it_cannot_end_are_refused(choice):
    with pytest.raises(BvsiError, match=next(iter(choice))):
        Profile(**choice)


def test_unweighted_residuals_are_refused(system):
    with pytest.raises(BvsiError, match="Block"):
        Profile().fit(residual_likelihood(system, IID(SIGMA), Isotropic()))


def test_operators_that_are_alike_are_named():
    data, _ = reaction_diffusion(n=9, steps=8)
    system = assemble(data, Library({"u": ["laplacian(u)", "u", "3*u"]}, boundary=NoFlux()))
    with pytest.raises(RankError) as problem:
        Profile().fit(residual_likelihood(system, IID(1e-3)))
    assert problem.value.operators == (("u", "3*u"),)


def test_a_prior_settles_what_the_data_leave_open():
    data, _ = reaction_diffusion(n=9, steps=8)
    system = assemble(data, Library({"u": ["laplacian(u)", "u", "3*u"]}, boundary=NoFlux()))
    likelihood = residual_likelihood(system, IID(1e-3))
    both = Profile().fit(likelihood, prior=GaussianPrior({"u": (0.0, 1.0), "3*u": (0.0, 1.0)}))
    one = Profile().fit(likelihood.restrict(["laplacian(u)", "u"]))
    u, three = both.theta[1:]
    assert_allclose(three, 3 * u, rtol=1e-3)  # the shortest combination
    assert_allclose(u + 3 * three, one.theta[1], rtol=1e-2)


def test_an_operator_that_noise_alone_feeds_is_not_believed():
    """u_xx on a state without waves: the data say nothing, so the fit must not claim much."""
    rng = np.random.default_rng(0)
    data, library = reaction_diffusion(n=9, steps=10, sigma=0.0)
    flat = np.repeat(np.exp(-0.8 * data.times)[:, None], 9, axis=1)
    noisy = data.with_fields({"u": flat + 0.02 * rng.standard_normal(flat.shape)})
    fit = Profile().fit(residual_likelihood(assemble(noisy, library), IID(0.02)))
    z = (fit.theta - TRUTH) / np.sqrt(fit.posterior.variance)
    assert not fit.status.converged or np.abs(z).max() < 5


def test_a_fit_whose_noise_is_not_known_after_all_needs_no_other(system, likelihood, fit):
    """The posterior with σ² unknown, from the fit with σ² known, is that of a fit of its own."""
    unknown, level = residual_likelihood(system, UnknownScale(IID(SIGMA))), InverseGammaPrior(50.0, 49.0)
    expected = Profile(tol=1e-10).fit(unknown, noise_prior=level, start=fit.theta)
    found = with_unknown_scale(fit, unknown, level)
    assert isinstance(found.posterior, NormalInverseGammaPosterior)
    assert_allclose(found.theta, expected.theta, rtol=1e-8)
    assert_allclose(found.posterior.covariance, expected.posterior.covariance, rtol=1e-6)
    assert_allclose(found.chi2, expected.chi2, rtol=1e-8)
    assert_allclose(found.score_covariance, expected.score_covariance, rtol=1e-6)
