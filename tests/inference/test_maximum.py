"""Maximum likelihood and a posteriori against closed forms, other estimators, and brute force."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import FrozenCovariance, Lagged, Maximum, Profile, ProfileDensity, ResidualDensity
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.infer.priors import Flat, GaussianPrior, HalfNormal, Laplace, LogNormal, Prior, Uniform
from bvsi.infer.sampling import make_target
from bvsi.noise import IID, UnknownScale
from inference.bayes_cases import SIGMA, burgers, differences, fokker_planck, four_operators, frozen_posterior

NAMES = ("laplacian(u)", "dx(u)", "u", "u**2")
MEAN, PRECISION = np.array([0.11, 0.0, -0.7, 0.01]), np.diag([1e6, 1e4, 1e3, 1e4])
PRIOR = GaussianPrior({n: (m, 1 / p) for n, m, p in zip(NAMES, MEAN, np.diag(PRECISION), strict=True)})


@cache
def likelihood():
    return four_operators()


@cache
def frozen():
    """Where the weights are frozen, ℓ, and H and centre of the quadratic function."""
    theta = Lagged().fit(likelihood()).theta
    centre, covariance = frozen_posterior(likelihood(), theta, MEAN, 0 * PRECISION)
    return FrozenCovariance(theta), np.linalg.inv(covariance), centre


def fit(objective=None, **arguments):
    return Maximum(objective or frozen()[0]).fit(likelihood(), **arguments)


def test_maximum_with_the_profile_objective_is_the_profile_estimate():
    for case in (four_operators, burgers, fokker_planck):
        for noise in (IID(SIGMA), UnknownScale()):
            one = Maximum(ProfileDensity(calibrated=False)).fit(case(noise))
            other = Profile(tol=1e-8).fit(case(noise))
            assert one.status.converged
            assert_allclose(one.theta, other.theta, atol=1e-3 * np.sqrt(other.posterior.variance.min()))


@pytest.mark.parametrize("prior, precision", [(None, 0 * PRECISION), (PRIOR, PRECISION)], ids=["flat", "prior"])
def test_a_frozen_covariance_has_the_closed_form(prior, precision):
    mean, covariance = frozen_posterior(likelihood(), frozen()[0].theta, MEAN, precision)
    found = fit(prior=prior)
    sd = np.sqrt(np.diag(covariance))
    assert isinstance(found.posterior, GaussianPosterior)
    assert_allclose(found.theta, mean, atol=1e-3 * sd.min())
    assert_allclose(found.posterior.covariance / sd / sd[:, None], covariance / sd / sd[:, None], atol=1e-6)
    assert found.method == ("maximum likelihood" if prior is None else "maximum a posteriori")


def test_an_equality_leaves_the_closed_form_on_its_plane():
    """θ_2 = 2 θ_1: T (TᵀHT)⁻¹ Tᵀ, and the weighted projection of the centre."""
    _, H, centre = frozen()
    T = np.eye(4)[:, [0, 1, 3]]
    T[2] = [0, 2, 0]
    found = fit(constraints="u == 2*dx(u)")
    covariance = T @ np.linalg.inv(T.T @ H @ T) @ T.T
    sd = np.sqrt(np.diag(covariance))
    assert_allclose(found.theta, T @ np.linalg.solve(T.T @ H @ T, T.T @ H @ centre), atol=1e-3 * sd.min())
    assert_allclose(found.posterior.covariance / sd / sd[:, None], covariance / sd / sd[:, None], atol=1e-6)


@pytest.mark.parametrize("objective", [ResidualDensity(), ResidualDensity(jacobian=True)], ids=["residual", "jacobian"])
@pytest.mark.parametrize("noise", [IID(SIGMA), UnknownScale()], ids=["known", "unknown"])
def test_the_gradient_vanishes_at_the_maximum_and_the_covariance_is_the_inverse_curvature(objective, noise):
    """With σ² unknown the covariance is larger, by n/(n − d − 2) where the prior holds nothing."""
    case = four_operators(noise)
    prior = Prior({"u": HalfNormal(2.0), "dx(u)": LogNormal(-5.0, 0.5)}, Flat())
    unsigned = Prior({"laplacian(u)": LogNormal(-2.0, 0.01)}, Flat())
    for one in (unsigned, prior if objective.jacobian else None):
        found = Maximum(objective, tol=1e-6).fit(case, prior=one, constraints="u**2 < 1")
        target = make_target(case, objective, one, None, None)
        base = found.posterior.base
        free = np.diag(base.covariance) > 0
        root = np.linalg.cholesky(base.covariance[np.ix_(free, free)])
        assert_allclose(root.T @ target(found.theta).gradient[free], 0, atol=3e-3)

        def along(v, free=free, target=target, found=found):
            step = np.zeros(4)
            step[free] = 0.02 * v
            gradients = [target(found.theta + s * step).gradient[free] for s in (1, -1)]
            return (gradients[1] - gradients[0]) / 0.04

        hessian = np.stack([root.T @ along(v) for v in root.T])
        wider = 1.0 if case.scale_known else case.n / (case.n - len(root) - 2)
        ratio = np.linalg.eigvalsh(0.5 * (hessian + hessian.T))
        assert_allclose(hessian, hessian.T, atol=0.02)
        assert np.all((ratio > 0.98) & (ratio < wider + 0.02))


@pytest.mark.parametrize("shift", [-3.0, -0.6, 0.4, 2.0])
def test_a_laplace_prior_is_the_soft_threshold_in_one_dimension(shift):
    """argmin ½ h (θ − c)² + |θ − m|/b = m + sign(c − m) max(|c − m| − 1/(h b), 0)."""
    one = likelihood().restrict(["u"])
    theta = Lagged().fit(one).theta
    (c,), ((variance,),) = frozen_posterior(one, theta, np.zeros(1), np.zeros((1, 1)))
    sd = np.sqrt(variance)
    location = c - shift * sd
    found = Maximum(FrozenCovariance(theta), tol=1e-6).fit(one, prior=Prior({"u": Laplace(location, sd)}))
    expected = location + np.sign(shift) * max(abs(shift) - 1, 0) * sd
    assert_allclose(found.theta[0], expected, atol=1e-3 * sd)
    if abs(shift) < 1:
        assert found.theta[0] == location
        assert found.posterior.variance[0] == 0
        assert "At the corner of the prior: 'u'" in found.status.message
        assert "NUTS()" in found.status.message
    else:
        assert "corner" not in found.status.message
        assert_allclose(found.posterior.variance[0], variance, rtol=1e-6)


@pytest.mark.parametrize("weight", [0.3, 1.0, 3.0])
def test_laplace_priors_against_brute_force(weight):
    """min ½(θ−c)ᵀH(θ−c) + Σ|θ_i|/b_i, by cyclic soft thresholding."""
    objective, H, c = frozen()
    b = 1 / (weight * np.sqrt(np.diag(H)))
    found = Maximum(objective, tol=1e-6).fit(
        likelihood(), prior=Prior({name: Laplace(0.0, s) for name, s in zip(NAMES, b, strict=True)})
    )
    scale = 1 / np.sqrt(np.diag(H))
    R, pull = H * scale * scale[:, None], scale * (H @ c)
    z = np.zeros(4)
    for _ in range(20_000):
        for i in range(4):
            free = pull[i] - R[i] @ z + z[i]
            z[i] = np.sign(free) * max(abs(free) - weight, 0.0)
    assert_allclose(found.theta / scale, z, atol=1e-3)
    on = z == 0
    assert np.array_equal(found.theta == 0, on)
    assert on.any() or weight < 1


BOUNDS = {
    "one active": ["u**2 > 0", "dx(u) > 0", "u < 0"],
    "two active": ["u**2 > 0", "dx(u) < 0", "u < 0"],
    "off zero": ["u**2 > 0.02", "dx(u) < -0.001", "laplacian(u) < 0.2"],
    "sum": ["u + 2*[u**2] > -0.77", "laplacian(u) > 0"],
    "equality too": ["u == 2*dx(u) - 0.8", "u**2 > 0.01", "laplacian(u) > 0"],
    "vertex": ["u**2 > 0.02", "dx(u) > 0.02", "u**2 + dx(u) > 0.04", "u < 0"],
}


@pytest.mark.parametrize("texts", BOUNDS.values(), ids=list(BOUNDS))
def test_active_constraints_hold_exactly_and_the_rest_is_optimal(texts):
    """Against the quadratic program by SciPy in scaled coefficients."""
    _, H, c = frozen()
    allowed = as_linear(texts, NAMES)
    found = fit(constraints=texts)
    scale = 1 / np.sqrt(np.diag(H))
    R = H * scale * scale[:, None]
    rows = scipy.optimize.LinearConstraint(allowed.A * scale, allowed.lower, allowed.upper)
    brute = scipy.optimize.minimize(
        lambda z: 0.5 * (z - c / scale) @ R @ (z - c / scale),
        found.theta / scale,
        jac=lambda z: R @ (z - c / scale),
        hess=lambda z: R,
        constraints=rows,
        method="trust-constr",
        options={"gtol": 1e-9, "xtol": 1e-12, "barrier_tol": 1e-9},
    )
    assert_allclose(found.theta / scale, brute.x, atol=2e-3)
    value = allowed.A[allowed.single] @ found.theta
    assert np.all((value >= allowed.lower[allowed.single]) & (value <= allowed.upper[allowed.single]))
    assert allowed.satisfied(found.theta, tol=1e-12)
    assert found.status.converged
    assert "Active: 'u" in found.status.message
    assert "NUTS()" in found.status.message


@pytest.mark.parametrize("texts", BOUNDS.values(), ids=list(BOUNDS))
def test_the_laplace_approximation_at_a_bound_is_that_of_the_face(texts):
    """Draws stay on the face, within the other constraints; the covariance is N (NᵀHN)⁻¹ Nᵀ of the face."""
    _, H, _ = frozen()
    allowed = as_linear(texts, NAMES)
    found = fit(constraints=texts)
    value = allowed.A @ found.theta
    sides = (allowed.lower, allowed.upper)
    active = np.any([np.isclose(value, side, rtol=1e-12, atol=1e-15) for side in sides], axis=0)
    scale = 1 / np.sqrt(np.diag(H))
    _, s, Vt = np.linalg.svd(allowed.A[active] * scale)
    N = scale[:, None] * Vt[np.sum(s > 1e-9 * s[0]) :].T
    expected = N @ np.linalg.inv(N.T @ H @ N) @ N.T
    assert_allclose(
        found.posterior.base.covariance / scale / scale[:, None], expected / scale / scale[:, None], atol=1e-6
    )
    draws = found.posterior.sample(200, np.random.default_rng(0))
    assert np.all(allowed.satisfied(draws))
    assert_allclose(draws @ allowed.A[active].T, np.broadcast_to(value[active], (200, active.sum())), atol=1e-12)


def test_the_support_of_a_prior_holds_where_the_data_are_against_it():
    free = Maximum().fit(likelihood())
    below = free.theta[3] - 2 * np.sqrt(free.posterior.variance[3])
    found = Maximum().fit(likelihood(), prior=Prior({"u**2": Uniform(below - 1, below)}, Flat()))
    assert found.theta[3] == below
    assert "support of the prior of 'u**2'" in found.status.message


def test_a_prior_that_vanishes_at_its_bound_keeps_the_estimate_off_it():
    """LogNormal on a coefficient that the data put below zero: the maximum is inside, where the gradient vanishes."""
    free = Lagged().fit(likelihood())
    law = LogNormal(float(np.log(np.sqrt(free.posterior.variance[3]))), 1.0)
    prior = Prior({"u**2": law}, Flat())
    assert free.theta[3] < 0
    found = Maximum(frozen()[0], tol=1e-6).fit(likelihood(), prior=prior)
    assert found.status.converged
    assert found.theta[3] > 0
    target = make_target(likelihood(), frozen()[0], prior, None, None)
    sd = np.sqrt(np.diag(np.linalg.inv(frozen()[1])))
    assert_allclose(sd * target(found.theta).gradient, 0, atol=1e-2)


def test_the_start_does_not_matter():
    other = Profile().fit(likelihood())
    for prior in (None, PRIOR):
        one, two = (Maximum(tol=1e-6).fit(likelihood(), prior=prior, start=s) for s in (None, other))
        assert_allclose(one.theta, two.theta, atol=1e-4 * np.sqrt(one.posterior.variance.min()))


def test_the_order_of_operators_does_not_matter():
    order = [3, 1, 0, 2]
    one = Maximum(tol=1e-6).fit(likelihood(), prior=PRIOR, constraints="u**2 > 0.01")
    swapped = likelihood().restrict([NAMES[i] for i in order])
    two = Maximum(tol=1e-6).fit(swapped, prior=PRIOR, constraints="u**2 > 0.01")
    assert_allclose(two.theta, one.theta[order], atol=1e-4 * np.sqrt(one.posterior.variance[:3].min()))


def test_too_few_iterations_are_told():
    found = Maximum(max_iterations=1).fit(likelihood(), start=Profile().fit(likelihood()), prior=PRIOR)
    assert not found.status.converged
    for advice in ("not converged", "max_iterations", "start"):
        assert advice in found.status.message


def test_a_start_without_error_bars_or_of_other_operators_is_refused():
    with pytest.raises(BvsiError, match="start: a fit of the same operators with a posterior"):
        Maximum().fit(likelihood(), start=Lagged().fit(likelihood().restrict(["u", "dx(u)"])))


def test_a_start_where_the_target_is_zero_is_refused():
    prior = Prior({"u": LogNormal(0.0, 1.0)}, Flat())
    with pytest.raises(BvsiError, match="start: the target is zero there"):
        Maximum().fit(likelihood(), start=Lagged().fit(likelihood()), prior=prior, constraints="dx(u) > -1")


@pytest.mark.parametrize("settings", [{"tol": 0.0}, {"tol": np.nan}, {"max_iterations": 0}])
def test_settings_are_checked(settings):
    with pytest.raises(BvsiError, match=next(iter(settings))):
        Maximum(**settings)


def test_the_objective_is_at_its_highest():
    """No neighbour within a standard deviation is higher, for the paper's objective."""
    found = Maximum(ResidualDensity(), tol=1e-6).fit(likelihood())
    target = make_target(likelihood(), ResidualDensity(), None, None, None)
    sd = np.sqrt(found.posterior.variance)
    assert_allclose(differences(lambda x: target(x).value, found.theta, 0.05 * sd) * sd, 0, atol=3e-3)
    rng = np.random.default_rng(3)
    top = target(found.theta).value
    assert all(
        target(found.theta + s * sd * rng.standard_normal(4)).value < top for s in (0.1, 0.3, 1.0) for _ in range(5)
    )
