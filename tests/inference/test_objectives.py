"""Objectives of full inference: values against dense algebra, gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import FrozenCovariance, Lagged, Maximum, Profile, ProfileDensity, ResidualDensity
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.noise import IID, UnknownScale
from inference.bayes_cases import (
    SIGMA,
    burgers,
    dense_quadratic,
    differences,
    fokker_planck,
    four_operators,
    two_operators,
)
from inference.cases import dense_sensitivities

CASES = [two_operators, burgers, fokker_planck]
NOISE = [IID(SIGMA), UnknownScale()]
FLAT = InverseGammaPrior()
OBJECTIVES = [
    lambda fit: ResidualDensity(),
    lambda fit: ResidualDensity(jacobian=True),
    lambda fit: ProfileDensity(calibrated=False),
    lambda fit: ProfileDensity(fit),
    lambda fit: FrozenCovariance(1.1 * fit.theta),
]
LABELS = ["residual", "residual and jacobian", "profile", "profile of a fit", "frozen"]


def near(likelihood):
    """A fit, a θ some standard deviations off it, and the standard deviations."""
    fit = Profile().fit(likelihood)
    sd = np.sqrt(fit.posterior.variance)
    return fit, fit.theta + sd * np.array([2.0, -1.5, 1.0])[: len(sd)], sd


@pytest.mark.parametrize("noise", NOISE, ids=["known", "unknown"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=LABELS)
def test_the_gradient_is_that_of_finite_differences(objective, case, noise):
    likelihood = case(noise)
    fit, theta, sd = near(likelihood)
    ell = objective(fit).bind(likelihood, InverseGammaPrior(2.0, 1e-5))
    exact = ell(theta).gradient * sd
    found = differences(lambda x: ell(x).value, theta, 0.03 * sd) * sd
    assert np.abs(exact).max() > 0.1
    assert_allclose(found, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_the_fit_of_the_calibration_is_the_start(monkeypatch):
    """Without prior and constraints; with a prior the start is another fit."""
    made, fit = [], Profile.fit
    monkeypatch.setattr(Profile, "fit", lambda *args, **given: made.append(given) or fit(*args, **given))
    likelihood = two_operators(IID(SIGMA))
    Maximum().fit(likelihood)
    assert len(made) == 1
    Maximum().fit(likelihood, prior=GaussianPrior({}, default=(0.0, 1.0)))
    assert len(made) == 3


@pytest.mark.parametrize("case", CASES)
def test_the_residual_density_is_the_log_density_of_the_residuals(case):
    likelihood = case()
    fit, theta, _ = near(likelihood)
    ell = ResidualDensity().bind(likelihood, FLAT)
    expected = likelihood.log_density(theta) - likelihood.log_density(fit.theta)
    assert_allclose(ell(theta).value - ell(fit.theta).value, expected, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_the_jacobian_is_the_determinant_of_the_newest_sensitivities(case):
    """Σ_k log |det ∂r_k/∂û_k|, backward Euler: the newest time of block k is k + 1."""
    likelihood = case()
    (residuals,) = likelihood.system.experiments
    theta = near(likelihood)[1]
    with_change, without = (ResidualDensity(jacobian=j).bind(likelihood, FLAT)(theta).value for j in (True, False))
    C = dense_sensitivities(residuals, theta)
    expected = sum(np.linalg.slogdet(C[k, k + 1])[1] for k in range(len(C)))
    assert_allclose(with_change - without, expected, rtol=1e-9)


@pytest.mark.parametrize("noise_prior", [InverseGammaPrior(2.0, 1e-5), FLAT], ids=["informative", "reference"])
def test_an_unknown_scale_is_integrated_out(noise_prior):
    """exp ℓ ∝ ∫ N(r; 0, σ²Σ) p(σ²) dσ², by quadrature over log σ²."""
    likelihood = two_operators(UnknownScale())
    fit, theta, _ = near(likelihood)
    ell = ProfileDensity(calibrated=False).bind(likelihood, noise_prior)

    def log_integral(point):
        W, y, X = dense_quadratic(likelihood, point, 1.0)
        q, n = (y - X @ point) @ W @ (y - X @ point), len(y)

        def log_integrand(s):
            prior = -noise_prior.alpha * s - noise_prior.beta * np.exp(-s)
            return prior - 0.5 * n * s - 0.5 * q * np.exp(-s)

        top = np.log(q / n)
        peak = log_integrand(top)
        return np.log(scipy.integrate.quad(lambda s: np.exp(log_integrand(s) - peak), top - 2, top + 3)[0]) + peak

    expected = log_integral(theta) - log_integral(fit.theta)
    assert_allclose(ell(theta).value - ell(fit.theta).value, expected, rtol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_the_profile_is_half_the_misfit_with_weights_that_move(case):
    likelihood = case()
    theta = near(likelihood)[1]
    W, y, X = dense_quadratic(likelihood, theta, SIGMA**2)
    r = y - X @ theta
    assert_allclose(ProfileDensity(calibrated=False).bind(likelihood, FLAT)(theta).value, -0.5 * r @ W @ r, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_a_frozen_covariance_is_quadratic(case):
    """−½ (y − Xθ)ᵀW(θ_0)(y − Xθ), however far from θ_0."""
    likelihood = case()
    fit, _, sd = near(likelihood)
    ell = FrozenCovariance(fit.theta).bind(likelihood, FLAT)
    W, y, X = dense_quadratic(likelihood, fit.theta, SIGMA**2)
    for theta in (fit.theta, fit.theta + 10 * sd, -2 * fit.theta):
        r = y - X @ theta
        assert_allclose(ell(theta).value, -0.5 * r @ W @ r, rtol=1e-9)
        assert_allclose(ell(theta).gradient, X.T @ W @ r, atol=1e-9 * np.abs(X.T @ W @ y).max())


@pytest.mark.parametrize("noise", NOISE, ids=["known", "unknown"])
@pytest.mark.parametrize("case", [two_operators, burgers, four_operators])
def test_the_curvature_of_an_adjusted_profile_is_the_inverse_of_the_sandwich(case, noise):
    likelihood = case(noise)
    fit = Profile(tol=1e-9).fit(likelihood)
    ell = ProfileDensity(fit).bind(likelihood, FLAT)
    root = np.linalg.cholesky(fit.posterior.covariance)
    step = 0.1
    ahead, behind = (np.stack([root.T @ ell(fit.theta + s * step * v).gradient for v in root.T]) for s in (1, -1))
    # A is E[½∇²Q] with one draw of noise; the curvature at hand differs from it by the noise of the data
    assert_allclose((behind - ahead) / (2 * step), np.eye(len(root)), atol=0.15)
    assert_allclose(root.T @ ell(fit.theta).gradient, 0, atol=1e-3)


def test_without_adjustment_the_curvature_is_another():
    likelihood = two_operators()
    fit = Profile().fit(likelihood)
    ell = ProfileDensity(calibrated=False).bind(likelihood, FLAT)
    root = np.linalg.cholesky(fit.posterior.covariance)
    ahead, behind = (root.T @ ell(fit.theta + s * 0.1 * root[:, 0]).gradient for s in (1, -1))
    assert abs((behind - ahead)[0] / 0.2 - 1) > 0.3


def test_an_adjustment_needs_a_profile_fit_of_the_same_operators():
    likelihood = two_operators()
    for fit in (Lagged().fit(likelihood), Profile().fit(likelihood.restrict(["u"]))):
        with pytest.raises(BvsiError, match=r"fit: a fit of Profile\(\) to the same operators"):
            ProfileDensity(fit).bind(likelihood, FLAT)


def test_a_frozen_covariance_needs_a_coefficient_for_every_operator():
    with pytest.raises(BvsiError, match="theta: needs 2 finite numbers"):
        FrozenCovariance(np.array([1.0])).bind(two_operators(), FLAT)
