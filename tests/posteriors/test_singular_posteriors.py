"""Closed forms on an affine subspace: coefficients that are tied or known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.posteriors.closed_form import covariance_root

T = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0], [0.0, 0.0]])
OFFSET = np.array([0.0, 0.0, 3.0, 5.0])
ETA_MEAN, ETA_COVARIANCE = np.array([0.1, -4.0]), np.array([[2.0, 0.3], [0.3, 0.5]])
NAMES = ("a", "b", "c", "d")
MEAN, COVARIANCE = OFFSET + T @ ETA_MEAN, T @ ETA_COVARIANCE @ T.T
GAUSSIAN = GaussianPosterior(NAMES, MEAN, COVARIANCE)
STUDENT = NormalInverseGammaPosterior(NAMES, MEAN, COVARIANCE, 4.0, 2.0)
JACOBIAN = 0.5 * np.linalg.slogdet(T.T @ T)[1]  # area on the plane per area of η
BOTH = pytest.mark.parametrize("posterior", [GAUSSIAN, STUDENT], ids=["gaussian", "student"])


@BOTH
def test_draws_stay_on_the_subspace(posterior):
    draws = posterior.sample(20_000, np.random.default_rng(0))
    assert_allclose(draws, OFFSET + draws[:, :2] @ T.T, atol=1e-12)
    assert_allclose(np.cov(draws.T), posterior.covariance, atol=0.15)


def test_the_gaussian_density_is_that_of_the_free_coefficients():
    eta = np.array([0.7, -3.0])
    expected = scipy.stats.multivariate_normal(ETA_MEAN, ETA_COVARIANCE).logpdf(eta) - JACOBIAN
    assert_allclose(GAUSSIAN.logpdf(OFFSET + T @ eta), expected, rtol=1e-12)


def test_the_student_density_is_that_of_the_free_coefficients():
    eta = np.array([0.7, -3.0])
    law = scipy.stats.multivariate_t(ETA_MEAN, 0.5 * ETA_COVARIANCE, df=8.0)
    assert_allclose(STUDENT.logpdf(OFFSET + T @ eta), law.logpdf(eta) - JACOBIAN, rtol=1e-12)


@BOTH
@pytest.mark.parametrize("direction", [[0, 0, 1, 0], [0, 0, 0, 1], [-2, 1, 1, 0]])
def test_off_the_subspace_the_density_is_zero(posterior, direction):
    assert np.isfinite(posterior.logpdf(MEAN))
    assert posterior.logpdf(MEAN + 1e-6 * np.array(direction)) == -np.inf


def test_rounding_of_large_coefficients_does_not_leave_the_subspace():
    """sd of 1e-6 of the coefficient, and η moved by one of them."""
    S, shift = 1e-6, np.array([7.0, 11.0])
    posterior = GaussianPosterior(NAMES, OFFSET + T @ shift, S**2 * COVARIANCE)
    eta = shift + S * np.array([0.3, 1 / 3])
    expected = scipy.stats.multivariate_normal(shift, S**2 * ETA_COVARIANCE).logpdf(eta) - JACOBIAN
    assert_allclose(posterior.logpdf(OFFSET + T @ eta), expected, rtol=1e-6)


@pytest.mark.parametrize("units", [(1e-12, 1e12, 1.0), (1e-30, 1e-3, 1e25)])
def test_roots_and_determinants_whatever_the_units(units):
    A = np.random.default_rng(1).standard_normal((3, 3))
    S = np.array(units)
    root = covariance_root(A @ A.T * np.outer(S, S))
    assert root.R.shape[1] == 3
    assert_allclose(root.R @ root.R.T / np.outer(S, S), A @ A.T, rtol=1e-9, atol=1e-12)
    assert_allclose(root.inverse @ root.R, np.eye(3), atol=1e-9)
    assert_allclose(root.logdet, 2 * np.log(S).sum() + 2 * np.linalg.slogdet(A)[1], rtol=1e-9, atol=1e-9)


def test_the_determinant_of_tied_coefficients_in_different_units():
    """θ = (η, 1e12 η): the law lives on a line with 1e12 of length for one of η."""
    root = covariance_root(np.outer([1.0, 1e12], [1.0, 1e12]) * 4)
    assert root.R.shape[1] == 1
    assert_allclose(root.logdet, 2 * np.log(2e12), rtol=1e-12)


def test_everything_known_is_a_point():
    point = GaussianPosterior(("a", "b"), np.array([1.0, 2.0]), np.zeros((2, 2)))
    assert_array_equal(point.sample(3, np.random.default_rng(0)), [[1.0, 2.0]] * 3)
    assert_array_equal(point.interval(), [[1.0, 1.0], [2.0, 2.0]])
    assert point.logpdf([1.0, 2.0]) == 0
    assert point.logpdf([1.0, 2.1]) == -np.inf


@pytest.mark.parametrize("theta", [[1.0], 3.0, np.zeros((2, 4))])
def test_another_number_of_coefficients_is_refused(theta):
    with pytest.raises(BvsiError, match="theta"):
        GAUSSIAN.logpdf(theta)
