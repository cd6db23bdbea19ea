"""Joint Gaussian priors: against SciPy, quadrature and finite differences; marginals; what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.priors import JointNormal

MEAN = np.array([0.5, -1.0, 20.0])
COVARIANCE = np.array([[2.0, 0.6, -5.0], [0.6, 0.5, 1.0], [-5.0, 1.0, 100.0]])
JOINT = JointNormal(MEAN, COVARIANCE)
THETA = np.array([[0.1, 0.2, 3.0], [1.0, -1.0, 21.0]])


def test_the_density_is_that_of_scipy():
    assert_allclose(JOINT.logpdf(THETA), scipy.stats.multivariate_normal(MEAN, COVARIANCE).logpdf(THETA))
    assert JOINT.logpdf(THETA[0]) == pytest.approx(JOINT.logpdf(THETA)[0])


def test_the_gradient_is_the_derivative_of_the_log_density():
    h = 1e-5
    steps = h * np.eye(3)
    difference = (JOINT.logpdf(THETA[:, None] + steps) - JOINT.logpdf(THETA[:, None] - steps)) / (2 * h)
    assert_allclose(JOINT.gradient(THETA), difference, rtol=1e-6)


def test_the_precision_is_the_inverse_of_the_covariance():
    assert_allclose(JOINT.precision @ COVARIANCE, np.eye(3), atol=1e-12)
    assert_allclose(JOINT.precision, JOINT.precision.T, rtol=0)


def test_a_marginal_is_the_density_with_the_others_integrated_out():
    other = np.linspace(-11.0, 9.0, 401)  # equal steps are exact for a density that has died away at both ends
    points = np.stack([np.full(401, 0.3), other, np.full(401, 12.0)], axis=1)
    integral = 0.05 * np.exp(JOINT.logpdf(points)).sum()
    assert JOINT.marginal([2, 0]).logpdf(np.array([12.0, 0.3])) == pytest.approx(np.log(integral), rel=1e-8)


def test_draws_follow_the_law():
    draws = JOINT.sample(20_000, np.random.default_rng(0))
    assert draws.shape == (20_000, 3)
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (draws - MEAN).T)
    for column in white:
        assert scipy.stats.kstest(column, scipy.stats.norm.cdf).pvalue > 1e-3
    assert_allclose(np.corrcoef(white) - np.eye(3), 0, atol=5 / np.sqrt(20_000))


def test_units_of_very_different_size_are_no_reason_to_refuse():
    unit = np.array([1e-8, 1.0, 1e9])
    scaled = JointNormal(unit * MEAN, np.outer(unit, unit) * COVARIANCE)
    assert_allclose(scaled.logpdf(unit * THETA) + np.log(unit).sum(), JOINT.logpdf(THETA), rtol=1e-10)


def test_the_parameters_cannot_be_changed_from_outside():
    covariance = np.eye(2)
    joint = JointNormal([0, 1], covariance)
    covariance[0, 0] = -1
    assert_allclose(joint.covariance, np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        joint.covariance[0, 0] = -1


@pytest.mark.parametrize(
    "covariance, message",
    [
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 1.0], [1.0, 1.0]], "not positive definite"),
        ([[0.01, 0.1], [0.1, 1.0]], "not positive definite"),
        ([[1.0, 0.1], [0.2, 1.0]], "symmetric"),
        ([[1.0, 0.0], [0.0, 0.0]], "positive variances"),
        ([[1.0, 0.0], [0.0, -1.0]], "positive variances"),
        ([[1.0, np.nan], [np.nan, 1.0]], "covariance has to be an array of finite numbers"),
        ([[1.0, 0.0], [0.0]], "covariance has to be an array of finite numbers"),
        ("eye(2)", "covariance has to be an array of finite numbers"),
        (None, "covariance has to be an array of finite numbers"),
        (np.eye(3), "shapes"),
        ([1.0, 1.0], "shapes"),
    ],
)
def test_impossible_covariances_are_refused(covariance, message):
    with pytest.raises(BvsiError, match=message):
        JointNormal([0.0, 1.0], covariance)


@pytest.mark.parametrize(
    "mean, message", [([[0.0, 1.0]], "shapes"), (0.0, "shapes"), ([], "shapes"), ([0.0, np.inf], "mean has to be")]
)
def test_impossible_means_are_refused(mean, message):
    with pytest.raises(BvsiError, match=message):
        JointNormal(mean, np.eye(2))


@pytest.mark.parametrize("indices", [[], [0, 0], [3], [-1]])
def test_impossible_marginals_are_refused(indices):
    with pytest.raises(BvsiError, match="indices"):
        JOINT.marginal(indices)
