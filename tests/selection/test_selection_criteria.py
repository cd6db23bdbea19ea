"""Scores of criteria, and the closed forms that predict what a removal does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.infer import Lagged, Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.select import FStatistic, ProfileBIC, ResidualBIC, Wald
from bvsi.select.criterion import minimum_of
from inference.cases import dense_weights, reaction_system, stacked
from selection.selection_cases import SPURIOUS, reaction_likelihood

CRITERIA = [Wald(), ProfileBIC(), ResidualBIC(), FStatistic()]


@pytest.fixture(scope="module", params=[True, False], ids=["known", "unknown"])
def likelihood(request):
    return reaction_likelihood(known=request.param)


def without(likelihood, name: str):
    return likelihood.restrict([n for n in likelihood.names if n != name])


def test_residual_bic_is_the_papers(likelihood):
    """−2 log p(r_θ̂ | θ̂) + d log n, eq:residual_bic."""
    criterion = ResidualBIC()
    fit = criterion.fit(likelihood, None)
    expected = -2 * likelihood.log_density(fit.theta) + 5 * math.log(likelihood.system.n)
    assert criterion.score(likelihood, fit) == pytest.approx(expected, rel=1e-14)
    assert_allclose(fit.theta, Lagged().fit(likelihood).theta)


def test_residual_bic_in_dense_algebra():
    sigma = 2e-3
    system = reaction_system(n=7, steps=6, sigma=sigma)
    likelihood = residual_likelihood(system, IID(sigma))
    criterion = ResidualBIC()
    fit = criterion.fit(likelihood, None)
    (residuals,) = system.experiments
    W, (y, X) = dense_weights(residuals, fit.theta, sigma**2), stacked(residuals)
    r, n = y - X @ fit.theta, len(y)
    minus_twice_log = r @ W @ r - np.linalg.slogdet(W)[1] + n * math.log(2 * math.pi)
    assert_allclose(criterion.score(likelihood, fit), minus_twice_log + 2 * math.log(n), rtol=1e-10)


def test_profile_bic_is_misfit_and_penalty(likelihood):
    criterion = ProfileBIC()
    fit = criterion.fit(likelihood, None)
    q, n = likelihood.normal_equations(fit.theta).q, likelihood.system.n
    misfit = q if likelihood.scale_known else n * math.log(q / n)
    assert_allclose(criterion.score(likelihood, fit), misfit + 5 * math.log(n), rtol=1e-9)


def test_wald_is_the_squared_z_score_against_log_n(likelihood):
    """With the larger of the two variances."""
    criterion = Wald()
    fit = criterion.fit(likelihood, None)
    variance = np.maximum(fit.posterior.variance, np.diag(fit.score_covariance))
    assert_allclose(criterion.removal(likelihood, fit), fit.theta**2 / variance - math.log(likelihood.system.n))
    assert_allclose(minimum_of(likelihood, fit).variance, variance)
    assert criterion.score(likelihood, fit) == 0


def test_wald_takes_the_model_variance_where_there_is_no_other():
    likelihood = reaction_likelihood()
    fit = Lagged().fit(likelihood)
    assert_allclose(minimum_of(likelihood, fit).variance, fit.posterior.variance)


def test_f_statistic_is_exactly_the_growth_of_refitted_least_squares(likelihood):
    """(ℓ_{−i} − ℓ)/ℓ, ℓ = ‖y − Xθ‖², without a refit."""
    criterion = FStatistic(threshold=0.03)
    predicted = criterion.removal(likelihood, criterion.fit(likelihood, None))
    y, X = stacked(likelihood.system.experiments[0])

    def loss(columns: list[int]) -> float:
        scale = np.linalg.norm(X[:, columns], axis=0)
        theta = np.linalg.lstsq(X[:, columns] / scale, y, rcond=None)[0]
        return float(np.sum((y - X[:, columns] / scale @ theta) ** 2))

    whole = loss([0, 1, 2, 3, 4])
    growth = [loss([j for j in range(5) if j != i]) / whole - 1 for i in range(5)]
    assert_allclose(predicted + 0.03, growth, rtol=1e-6)


def test_the_step_of_a_removal_is_that_of_the_smaller_least_squares_problem(likelihood):
    fit = FStatistic().fit(likelihood, None)
    removal_step = minimum_of(likelihood, fit).removal_step
    for i, name in enumerate(likelihood.names):
        moved = np.delete(fit.theta + removal_step(i), i)
        smaller = FStatistic().fit(without(likelihood, name), None)
        assert_allclose(moved, smaller.theta, rtol=1e-5)
        assert (fit.theta + removal_step(i))[i] == pytest.approx(0, abs=1e-12 * abs(fit.theta[i]))


@pytest.mark.parametrize("criterion", [ProfileBIC(), ResidualBIC()], ids=lambda c: c.name)
@pytest.mark.parametrize("sigma, error", [(1e-4, 0.2), (1e-3, 1.0)])
def test_predicted_scores_of_small_coefficients_are_the_refitted_ones(criterion, sigma, error):
    """The smaller the coefficients, the better; those that are not there have the size of their noise."""
    likelihood = reaction_likelihood(sigma)
    fit = criterion.fit(likelihood, None)
    predicted = criterion.score(likelihood, fit) + criterion.removal(likelihood, fit)
    for name in SPURIOUS:
        smaller = without(likelihood, name)
        refitted = criterion.score(smaller, criterion.fit(smaller, None))
        assert_allclose(predicted[likelihood.names.index(name)], refitted, atol=error)


@pytest.mark.parametrize("criterion", [ProfileBIC(), ResidualBIC()], ids=lambda c: c.name)
def test_predicted_scores_are_the_refitted_ones_with_unknown_noise(criterion):
    likelihood = reaction_likelihood(1e-4, known=False)
    fit = criterion.fit(likelihood, None)
    predicted = criterion.score(likelihood, fit) + criterion.removal(likelihood, fit)
    for name in SPURIOUS:
        smaller = without(likelihood, name)
        refitted = criterion.score(smaller, criterion.fit(smaller, None))
        assert_allclose(predicted[likelihood.names.index(name)], refitted, atol=0.3)


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda c: c.name)
def test_removal_does_not_depend_on_the_units_of_the_noise(criterion):
    """u → 1000 u with its noise: what to remove must stay."""
    likelihood = reaction_likelihood(known=False)
    (residuals,) = likelihood.system.experiments
    scaled = replace(likelihood.system, experiments=(replace(residuals, Z=1000 * residuals.Z),))
    other = residual_likelihood(scaled, likelihood.noise)
    a, b = (criterion.removal(m, criterion.fit(m, None)) for m in (likelihood, other))
    assert_allclose(a, b, rtol=1e-5)


def test_misfit_growth_is_the_quadratic_model():
    likelihood = reaction_likelihood()
    fit = Profile().fit(likelihood)
    assert_allclose(minimum_of(likelihood, fit).growth, fit.theta**2 / np.diag(fit.inverse))


@pytest.mark.parametrize("criterion", [Wald(), ProfileBIC()], ids=lambda c: c.name)
def test_a_start_that_fails_is_not_the_last_word(criterion):
    """Where the iteration from a given start does not converge, the estimator's own start is taken."""
    likelihood = reaction_likelihood()
    found = criterion.fit(likelihood, np.array([40.0, 90.0, -70.0, 30.0, 99.0]))
    assert found.status.converged
    assert_allclose(found.theta, criterion.fit(likelihood, None).theta, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda c: type(c).__name__)
def test_criteria_are_named_and_frozen(criterion):
    assert criterion.name
    assert isinstance(criterion.absolute, bool)
    with pytest.raises(AttributeError):
        criterion.estimator = None
