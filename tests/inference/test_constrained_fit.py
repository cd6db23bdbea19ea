"""Lagged and profile estimates under constraints: every iterate obeys, and the optimum is the constrained one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.data import Data
from bvsi.errors import BvsiError, InfeasibleError, OperatorError, RankError
from bvsi.infer import Lagged, Profile
from bvsi.infer.constraints import Constraints, as_linear
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.infer.priors import GaussianPrior, HalfNormal, LogNormal, Normal, Prior, Uniform
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.residual.jacobians import combined_sensitivity
from inference.bayes_cases import SIGMA, burgers, dense_quadratic, four_operators, two_operators
from inference.cases import reaction_diffusion

LAGGED, PROFILE = Lagged(tol=1e-12), Profile(tol=1e-9)
METHODS = pytest.mark.parametrize("method", [LAGGED, PROFILE], ids=["lagged", "profile"])
NOISE = pytest.mark.parametrize("noise", [IID(SIGMA), UnknownScale()], ids=["known", "unknown"])
# the estimate without constraints is near 0.1, 0, -0.8, 0
VIOLATED = {
    "bound": ["u**2 > 0.02"],
    "bounds": ["u**2 >= 0.03", "dx(u) <= -0.01"],
    "two-sided": ["0.03 <= u**2 <= 0.04", "-0.82 < u"],
    "sum": ["u + 2*[u**2] >= -0.76", "laplacian(u) > 0"],
    "equality": ["dx(u) == 0.1*[u**2] + 0.03", "u < -0.83"],
}


@pytest.fixture(scope="module")
def likelihood():
    return likelihood_with(IID(SIGMA))


@cache
def likelihood_with(noise):
    return four_operators(noise)


@cache
def fitted(method, noise, *texts):
    """The fit under constraints, made once for all tests that look at it."""
    return method.fit(likelihood_with(noise), constraints=texts)


def downhill(method, likelihood, theta):
    """−½ ∇ of what the method has at its minimum: XᵀWr, with smoothed regressors for the profile."""
    if method is LAGGED:
        return likelihood.normal_equations(theta).g
    return likelihood.profile_equations(theta).equations.g


def merged_columns(likelihood, keep, drop):
    """The likelihood of a model in which the two operators share one coefficient, that of ``keep``."""
    system = likelihood.system
    i, j = system.index(keep), system.index(drop)
    rest = [k for k in range(system.d) if k != j]
    experiments = []
    for e in system.experiments:
        Z = e.Z.copy()
        Z[:, :, 1 + i] += Z[:, :, 1 + j]
        J = list(e.J)
        J[i] = combined_sensitivity([J[i], J[j]], np.ones(2))
        experiments.append(replace(e, Z=Z, J=tuple(J)).subset(rest))
    names = tuple(system.names[k] for k in rest)
    return replace(likelihood, system=replace(system, names=names, experiments=tuple(experiments)))


@METHODS
@NOISE
@pytest.mark.parametrize("texts", VIOLATED.values(), ids=list(VIOLATED))
def test_every_iterate_obeys_constraints_that_the_data_contradict(method, noise, texts):
    allowed = as_linear(texts, likelihood_with(noise).names)
    free, fit = fitted(method, noise), fitted(method, noise, *texts)
    assert not allowed.satisfied(free.theta, tol=1e-3)
    assert fit.status.converged
    for theta in (*(step.theta for step in fit.history), fit.theta):
        assert allowed.satisfied(theta, tol=1e-13)
        single = allowed.single & ~allowed.equality
        value = allowed.A[single] @ theta
        assert np.all((value >= allowed.lower[single]) & (value <= allowed.upper[single]))
    assert "would violate" in fit.status.message


@METHODS
@pytest.mark.parametrize("texts", VIOLATED.values(), ids=list(VIOLATED))
def test_the_optimum_satisfies_the_kkt_conditions(likelihood, method, texts):
    """−½∇Q = Aᵀλ with λ ≥ 0 at active upper, λ ≤ 0 at active lower bounds, 0 elsewhere."""
    allowed = as_linear(texts, likelihood.names)
    fit = fitted(method, IID(SIGMA), *texts)
    sd = np.sqrt(np.diag(np.linalg.inv(likelihood.normal_equations(fit.theta).H)))
    g = downhill(method, likelihood, fit.theta) * sd
    value = allowed.A @ fit.theta
    at_lower, at_upper = (np.isclose(value, b, rtol=1e-12, atol=1e-14) for b in (allowed.lower, allowed.upper))
    active = at_lower | at_upper
    assert active.any()
    rows = allowed.A[active] * sd
    multipliers = np.linalg.lstsq(rows.T, g, rcond=None)[0]
    assert_allclose(rows.T @ multipliers, g, atol=1e-4 * np.abs(g).max())
    inequality = ~allowed.equality[active]
    sign = np.where(at_upper[active], 1, -1)
    assert np.all((multipliers * sign)[inequality] > 0)


@METHODS
@NOISE
def test_constraints_that_do_not_bind_change_nothing(method, noise):
    free = fitted(method, noise)
    fit = fitted(method, noise, "laplacian(u) > 0", "u < 0", "-1 < dx(u) - [u**2] < 1")
    assert_allclose(fit.theta, free.theta, rtol=1e-10, atol=1e-12)
    assert_allclose(fit.posterior.mean, free.posterior.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(fit.posterior.covariance, free.posterior.covariance, rtol=1e-8)
    assert fit.status.message == free.status.message


@METHODS
def test_equal_coefficients_are_those_of_added_columns(method, likelihood):
    tied = method.fit(likelihood, constraints="dx(u) == u**2")
    merged = method.fit(merged_columns(likelihood, "dx(u)", "u**2"))
    expected = merged.theta[[0, 1, 2, 1]]
    assert_allclose(tied.theta, expected, rtol=1e-7)
    copy = np.eye(3)[[0, 1, 2, 1]]
    assert_allclose(tied.posterior.covariance, copy @ merged.posterior.covariance @ copy.T, rtol=1e-5)
    assert isinstance(tied.posterior, GaussianPosterior)
    assert_allclose(tied.chi2, merged.chi2, rtol=1e-9)


@METHODS
def test_operators_that_are_alike_can_be_told_apart_by_an_equality(method):
    """The data know only the sum of the two coefficients; an equality settles the rest."""
    data, _ = reaction_diffusion(n=9, steps=12, sigma=SIGMA)
    library = Library({"u": ["laplacian(u)", "u", "2*u"]}, boundary=NoFlux())
    twins = residual_likelihood(assemble(data, library), IID(SIGMA))
    with pytest.raises(RankError):
        method.fit(twins)
    with pytest.raises(RankError):
        method.fit(twins, constraints="laplacian(u) == 0.1")
    fit, single = method.fit(twins, constraints="[2*u] == u"), method.fit(twins.restrict(["laplacian(u)", "u"]))
    assert_allclose(fit.theta, single.theta[[0, 1, 1]] / [1, 3, 3], rtol=1e-7)


def test_a_coefficient_that_is_given_moves_its_term_to_the_left(likelihood):
    """XᵀW(θ)(y − X_0 − Xθ) = 0 over the others, W with the term that was moved."""
    fit = LAGGED.fit(likelihood, constraints="laplacian(u) == 0.11")
    W, y, X = dense_quadratic(likelihood, fit.theta, SIGMA**2)
    left, X = y - 0.11 * X[:, 0], X[:, 1:]
    assert fit.theta[0] == 0.11
    assert_allclose(fit.theta[1:], np.linalg.solve(X.T @ W @ X, X.T @ W @ left), rtol=1e-6)
    assert_allclose(fit.posterior.covariance[1:, 1:], np.linalg.inv(X.T @ W @ X), rtol=1e-6)
    assert np.all(fit.posterior.covariance[0] == 0)


def test_a_coefficient_of_zero_is_a_model_without_the_operator(likelihood):
    for method in (LAGGED, PROFILE):
        fit = method.fit(likelihood, constraints=["u**2 == 0", "dx(u) == 0"])
        smaller = method.fit(likelihood.restrict(["laplacian(u)", "u"]))
        assert_allclose(fit.theta[[0, 2]], smaller.theta, rtol=1e-7)
        assert np.all(fit.theta[[1, 3]] == 0)
        covariance = fit.posterior.covariance[np.ix_([0, 2], [0, 2])]
        assert_allclose(covariance, smaller.posterior.covariance, rtol=1e-4)


@METHODS
@NOISE
@pytest.mark.parametrize("texts", VIOLATED.values(), ids=list(VIOLATED))
def test_draws_of_the_posterior_obey(method, noise, texts):
    fit = fitted(method, noise, *texts)
    assert isinstance(fit.posterior, TruncatedPosterior)
    draws = fit.posterior.sample(500, np.random.default_rng(0))
    assert np.all(as_linear(texts, fit.names).satisfied(draws, tol=1e-12))
    assert np.all(draws.std(axis=0) > 0)


@METHODS
def test_the_posterior_at_a_bound_is_a_truncated_normal(method):
    """One coefficient alone: the moments of the law that SciPy has for it."""
    likelihood = two_operators().restrict(["laplacian(u)"])
    free = method.fit(likelihood)
    bound = free.theta[0] + 0.5 * np.sqrt(free.posterior.variance[0])
    fit = method.fit(likelihood, constraints=Constraints(bounds={"laplacian(u)": (bound, None)}))
    base = fit.posterior.base
    sd = np.sqrt(base.variance[0])
    law = scipy.stats.truncnorm((bound - base.mean[0]) / sd, np.inf, loc=base.mean[0], scale=sd)
    assert fit.theta[0] == bound
    assert_allclose(base.mean, free.theta, atol=0.2 * sd)
    assert_allclose(fit.posterior.mean[0], law.mean(), atol=0.02 * sd)
    assert_allclose(fit.posterior.variance[0], law.var(), rtol=0.05)


@METHODS
def test_constraints_that_cannot_hold_are_refused_with_their_rows(method, likelihood):
    texts = ["u > 1", "laplacian(u) > 0", "u + laplacian(u) < 0.5"]
    with pytest.raises(InfeasibleError, match="cannot hold together") as refused:
        method.fit(likelihood, constraints=texts)
    assert set(refused.value.rows) == set(texts)
    with pytest.raises(InfeasibleError) as refused:
        method.fit(likelihood, prior=Prior({"u": LogNormal(0, 1)}), constraints=["dx(u) > 0", "u < -1"])
    assert set(refused.value.rows) == {"u < -1", "support of the prior of 'u'"}


@METHODS
def test_names_that_the_model_lacks_are_refused(method, likelihood):
    with pytest.raises(OperatorError, match=r"biharmonic\(u\)"):
        method.fit(likelihood, constraints="biharmonic(u) > 0")


@METHODS
def test_what_is_no_constraint_is_refused(method, likelihood):
    with pytest.raises(BvsiError, match="constraints"):
        method.fit(likelihood, constraints=3.0)
    with pytest.raises(BvsiError, match="fix every coefficient"):
        method.fit(likelihood, constraints=["laplacian(u) == 0.1", "dx(u) == 0", "u == -0.8", "u**2 == dx(u)"])


@METHODS
@pytest.mark.parametrize(
    "law, low, high",
    [(LogNormal(-2, 1.0), 0, np.inf), (HalfNormal(0.5), 0, np.inf), (Uniform(0.04, 0.06), 0.04, 0.06)],
    ids=["LogNormal", "HalfNormal", "Uniform"],
)
def test_the_support_of_a_prior_is_a_constraint(method, likelihood, law, low, high):
    fit = method.fit(likelihood, prior=Prior({"u**2": law}), constraints="dx(u) < 0")
    draws = fit.posterior.sample(300, np.random.default_rng(0))
    for theta in (*(step.theta for step in fit.history), fit.theta, *draws):
        assert low <= theta[3] <= high
        assert theta[1] <= 0


@METHODS
def test_a_prior_is_replaced_by_the_gaussian_of_its_moments(method, likelihood):
    """LogNormal(1, 0.25) has mean 3.08 and variance 2.69 (sec:hybrid_constraints)."""
    law = LogNormal(1.0, 0.25)
    assert_allclose([law.mean, law.variance], [3.08, 2.69], atol=5e-3)
    fit = method.fit(likelihood, prior=Prior({"laplacian(u)": law}), constraints="u**2 > 0.02")
    gaussian = GaussianPrior({"laplacian(u)": (law.mean, law.variance)})
    other = method.fit(likelihood, prior=gaussian, constraints=["u**2 > 0.02", "laplacian(u) > 0"])
    assert_allclose(fit.theta, other.theta, rtol=1e-7)
    assert_allclose(fit.posterior.base.covariance, other.posterior.base.covariance, rtol=1e-6)


@METHODS
@pytest.mark.parametrize("prior", [Prior({"u": Normal(0, 1)}), Prior({}, Normal(0, 1))], ids=["named", "default"])
def test_a_prior_in_units_of_the_coefficients_is_refused_where_the_noise_is_unknown(method, prior):
    with pytest.raises(BvsiError, match=r"units of σ².*GaussianPrior.*NUTS\(\)"):
        method.fit(four_operators(UnknownScale()), prior=prior)


@METHODS
def test_the_weak_default_prior_serves_unknown_noise_too(method):
    fit = method.fit(likelihood_with(UnknownScale()), prior=Prior({}))
    assert_allclose(fit.theta, fitted(method, UnknownScale()).theta, rtol=1e-6)


@METHODS
def test_the_order_of_operators_and_constraints_does_not_matter(method, likelihood):
    texts = ["u**2 >= 0.03", "dx(u) <= -0.01", "u + laplacian(u) > -0.72"]
    order = [2, 0, 3, 1]
    one = method.fit(likelihood, constraints=texts)
    other = method.fit(likelihood.restrict([likelihood.names[i] for i in order]), constraints=texts[::-1])
    assert_allclose(other.theta, one.theta[order], rtol=1e-7)
    covariance = one.posterior.base.covariance[np.ix_(order, order)]
    # the profile's covariance takes a draw of noise, the same in both
    assert_allclose(other.posterior.base.covariance, covariance, rtol=1e-5)


@METHODS
def test_units_of_the_field_do_not_matter(method):
    """u → s u: coefficients of linear operators stay, that of u² is divided by s."""
    s = 1e4
    data, _ = reaction_diffusion(n=13, steps=12, sigma=SIGMA)
    library = Library({"u": ["laplacian(u)", "dx(u)", "u", "u**2"]}, boundary=NoFlux())
    large = Data(times=data.times, fields={"u": s * data.fields["u"]}, geometry=data.geometry)
    one = method.fit(
        residual_likelihood(assemble(data, library), IID(SIGMA)),
        constraints=["u**2 >= 0.03", "dx(u) <= -0.01", "u + 2*[u**2] > -0.75"],
    )
    other = method.fit(
        residual_likelihood(assemble(large, library), IID(s * SIGMA)),
        constraints=["u**2 >= 3e-6", "dx(u) <= -0.01", "u + 2e4*[u**2] > -0.75"],
    )
    factor = np.array([1, 1, 1, 1 / s])
    assert_allclose(other.theta, factor * one.theta, rtol=1e-7)
    covariance = factor * one.posterior.base.covariance * factor[:, None]
    assert_allclose(other.posterior.base.covariance, covariance, rtol=1e-5)


@METHODS
def test_a_start_outside_is_brought_inside(method, likelihood):
    allowed = as_linear(["u**2 > 0.02", "dx(u) == 0.01"], likelihood.names)
    fit = method.fit(likelihood, constraints=allowed, start=[0.1, 0.0, -0.8, -0.1])
    assert allowed.satisfied(fit.history[0].theta, tol=1e-12)
    assert_allclose(fit.theta, method.fit(likelihood, constraints=allowed).theta, rtol=1e-6)


@METHODS
def test_bounds_hold_to_the_last_bit_for_steps_from_far_inside(method, likelihood):
    """θ + (b − θ) is not always b in floating point."""
    for bound in np.random.default_rng(0).uniform(0.005, 0.04, 4):
        texts = [f"u**2 > {float(bound)!r}", "dx(u) < -0.0037"]
        fit = method.fit(likelihood, constraints=texts, start=[0.1, -0.3, -0.8, 0.37])
        iterates = np.array([*(step.theta for step in fit.history), fit.theta])
        assert np.all(iterates[:, 3] >= bound)
        assert np.all(iterates[:, 1] <= -0.0037)


@METHODS
def test_a_nonlinear_model_obeys(method):
    likelihood = burgers()
    fit = method.fit(likelihood, constraints=["u*dx(u) == -20*laplacian(u)", "laplacian(u) >= 0.06"])
    assert fit.theta[0] == 0.06
    assert_allclose(fit.theta[1], -1.2, rtol=1e-12)
