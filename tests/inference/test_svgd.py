"""Stein variational gradient descent: its kernel against loops, its particles against a known posterior."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import SVGD, FrozenCovariance, Lagged, MedianRBF, Profile, ResidualDensity, svgd
from bvsi.infer.constraints import as_linear
from bvsi.infer.priors import Flat, GaussianPrior, Laplace, LogNormal, Normal, Prior
from bvsi.infer.svgd import variance_shortfall
from bvsi.noise import UnknownScale
from inference.bayes_cases import four_operators, frozen_posterior, two_operators

NAMES = ("laplacian(u)", "dx(u)", "u", "u**2")
MEAN, PRECISION = np.array([0.11, 0.0, -0.7, 0.01]), np.diag([1e5, 1e3, 1e2, 1e3])
PRIOR = GaussianPrior({n: (m, 1 / p) for n, m, p in zip(NAMES, MEAN, np.diag(PRECISION), strict=True)})


@cache
def likelihood():
    return four_operators()


@cache
def frozen():
    return FrozenCovariance(Lagged().fit(likelihood()).theta)


def rng(seed=1):
    return np.random.default_rng(seed)


def naive(x, s, linear):
    """φ and KSD² of eq:SVGD by loops over pairs, derivatives of κ written out."""
    n, k = x.shape
    h = np.median([np.sum((x[i] - x[j]) ** 2) for i in range(n) for j in range(i)])
    mean = x.mean(axis=0)
    phi, ksd2 = np.zeros((n, k)), 0.0
    for i in range(n):
        for j in range(n):
            d, yi, yj = x[i] - x[j], x[i] - mean, x[j] - mean
            radial = np.exp(-d @ d / h)
            kappa = radial + linear * (1 + yi @ yj)
            by_j = 2 / h * d * radial + linear * yi
            by_i = -2 / h * d * radial + linear * yj
            mixed = radial * (2 * k / h - 4 / h**2 * d @ d) + linear * k
            phi[i] += (kappa * s[j] + by_j) / n
            ksd2 += (kappa * s[i] @ s[j] + s[i] @ by_j + s[j] @ by_i + mixed) / n**2
    return phi, ksd2


@pytest.mark.parametrize("linear", [0.0, 0.3, 2.0])
def test_direction_and_discrepancy_are_those_of_a_double_loop(linear):
    x, s = rng().standard_normal((12, 3)), rng(2).standard_normal((12, 3)) + 0.5
    phi, ksd2 = MedianRBF(linear).direction(x, s)
    expected_phi, expected_ksd2 = naive(x, s, linear)
    assert_allclose(phi, expected_phi, rtol=1e-10, atol=1e-12)
    assert_allclose(ksd2, expected_ksd2, rtol=1e-10)


def test_the_discrepancy_is_the_rate_at_which_particles_approach():
    """d/dλ of mean log-density plus divergence along φ is KSD²: 1/n Σ_i [s_i·φ_i + ∇·φ(x_i)] = ‖φ‖²."""
    x, kernel = rng().standard_normal((8, 2)), MedianRBF(0.0)
    s = -x - 0.3
    h, step = np.median([np.sum((a - b) ** 2) for i, a in enumerate(x) for b in x[:i]]), 1e-5

    def field(point):
        radial = np.exp(-np.square(point - x).sum(axis=1) / h)
        return (radial @ s + 2 / h * radial @ (point - x)) / len(x)

    phi, ksd2 = kernel.direction(x, s)
    assert_allclose(phi, [field(one) for one in x], rtol=1e-12)
    divergence = [sum((field(one + step * e) - field(one - step * e)) @ e / (2 * step) for e in np.eye(2)) for one in x]
    assert_allclose(ksd2, np.mean(np.einsum("ij,ij->i", s, phi) + divergence), rtol=1e-6)


def test_the_discrepancy_is_small_for_draws_of_the_law_and_large_for_others():
    x = rng().standard_normal((400, 2))
    right = MedianRBF().direction(x, -x)[1]
    assert MedianRBF().direction(x + 1, -(x + 1))[1] > 20 * right
    assert MedianRBF().direction(0.5 * x, -0.5 * x)[1] > 5 * right


@pytest.mark.parametrize("variance", [0.25, 1.0, 2.0])
def test_the_shortfall_of_variance_is_that_of_steins_identity(variance):
    x = rng().standard_normal((50, 3))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T, ddof=0))).T * np.sqrt(variance)
    assert_allclose(variance_shortfall(x, -x), 1 - variance, atol=1e-12)


def test_particles_have_the_mean_and_variance_of_a_known_posterior():
    mean, covariance = frozen_posterior(likelihood(), frozen().theta, MEAN, PRECISION)
    start = Lagged().fit(likelihood())  # without the prior: the particles have to move
    fit = SVGD(200, frozen(), tol=0.05).fit(likelihood(), prior=PRIOR, start=start, rng=rng())
    sd = np.sqrt(np.diag(covariance))
    assert fit.status.converged
    assert np.abs(start.theta - mean).max() > 0.5 * sd.min()
    assert np.all(np.abs(fit.theta - mean) < 0.1 * sd)
    assert_allclose(fit.posterior.variance, sd**2, rtol=0.15)
    correlation = fit.posterior.covariance / np.sqrt(np.outer(fit.posterior.variance, fit.posterior.variance))
    assert_allclose(correlation, covariance / np.outer(sd, sd), atol=0.1)
    assert fit.posterior.warnings == ()
    assert_allclose(fit.theta, fit.posterior.particles.mean(axis=0), rtol=1e-12)


def test_few_particles_collapse_without_the_linear_kernel_and_that_is_told():
    _, covariance = frozen_posterior(likelihood(), frozen().theta, MEAN, PRECISION)
    sd2 = np.diag(covariance)
    plain = SVGD(20, frozen(), MedianRBF(linear=0.0)).fit(likelihood(), prior=PRIOR, rng=rng())
    assert np.mean(plain.posterior.variance / sd2) < 0.9
    assert any("variance of the particles" in text and "more" in text for text in plain.posterior.warnings)
    assert "too small" in plain.status.message
    usual = SVGD(20, frozen()).fit(likelihood(), prior=PRIOR, rng=rng())
    assert_allclose(usual.posterior.variance, sd2, rtol=0.2)
    assert not any("too small" in text for text in usual.posterior.warnings)


def test_too_few_particles_for_the_dimension_are_told():
    fit = SVGD(10, frozen(), max_iterations=20).fit(likelihood(), rng=rng())
    assert any("10 particles are few for 4 dimensions" in text and "use 16" in text for text in fit.posterior.warnings)


CASES = {
    "bound": (["u**2 > 0.02"], None),
    "bounds": (["u**2 > 0.02", "dx(u) < -0.005", "-1 < u < -0.7"], None),
    "triangle": (["u**2 > 0", "dx(u) > 0", "u**2 + dx(u) < 0.004"], None),
    "equality": (["dx(u) == u**2", "u**2 > 0.01"], None),
    "LogNormal": ([], Prior({"u**2": LogNormal(-5.0, 1.0)}, Flat())),
}


@pytest.mark.parametrize("texts, prior", CASES.values(), ids=list(CASES))
def test_constraints_hold_for_every_particle_in_every_iteration(texts, prior):
    """Also where the estimate without them violates them; recorded wherever the target is evaluated."""
    seen = []
    allowed = as_linear(texts, NAMES)

    class Recorded:
        approximation = Lagged()

        def bind(self, likelihood, noise_prior):
            ell = frozen().bind(likelihood, noise_prior)
            return lambda theta: (seen.append(theta), ell(theta))[1]

    fit = SVGD(20, Recorded(), max_iterations=30).fit(likelihood(), constraints=texts, prior=prior, rng=rng())
    assert len(seen) >= 20 * 10
    particles = np.concatenate([np.array(seen), fit.posterior.particles])
    assert not (texts and allowed.satisfied(Lagged().fit(likelihood()).theta))
    assert np.all(allowed.satisfied(particles))
    value = particles @ allowed.A[allowed.single].T
    assert np.all((value >= allowed.lower[allowed.single]) & (value <= allowed.upper[allowed.single]))
    assert prior is None or np.all(particles[:, 3] > 0)


def test_particles_at_a_bound_have_the_moments_of_the_truncated_law():
    """One coefficient, its bound half a standard deviation above the estimate."""
    one = two_operators().restrict(["laplacian(u)"])
    start = Lagged().fit(one)
    (mean,), ((variance,),) = frozen_posterior(one, start.theta, np.zeros(1), np.zeros((1, 1)))
    sd = np.sqrt(variance)
    law = scipy.stats.truncnorm(0.5, np.inf, loc=mean, scale=sd)
    text = f"laplacian(u) > {float(mean + 0.5 * sd)!r}"
    fit = SVGD(40, FrozenCovariance(start.theta)).fit(one, constraints=text, rng=rng())
    assert_allclose(fit.theta[0], law.mean(), atol=0.1 * law.std())
    assert_allclose(fit.posterior.variance[0], law.var(), rtol=0.15)


def test_the_same_seed_gives_the_same_particles():
    method = SVGD(15, frozen(), max_iterations=15)
    one, two, other = (
        method.fit(likelihood(), constraints="u**2 > 0", rng=rng(seed)).posterior.particles for seed in (5, 5, 6)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_steps_do_not_raise_the_discrepancy(monkeypatch):
    flows = []
    original = svgd.SVGD._descend
    monkeypatch.setattr(svgd.SVGD, "_descend", lambda *a: flows.append(original(*a)) or flows[-1])
    SVGD(30, frozen(), max_iterations=60).fit(likelihood(), prior=PRIOR, start=Lagged().fit(likelihood()), rng=rng())
    seen = np.array(flows[0].seen)
    assert len(seen) > 10
    assert np.all(seen[1:] <= 1.001 * seen[:-1])
    assert seen[-1] < 0.1 * seen[0]


def test_unknown_noise_and_corners_are_taken():
    prior = Prior({"u**2": Laplace(0.0, 0.1), "dx(u)": Laplace(0.0, 0.1)}, Flat())
    unknown = four_operators(UnknownScale())
    start = Lagged().fit(unknown)
    fit = SVGD(30, frozen(), max_iterations=100).fit(unknown, prior=prior, start=start, rng=rng())
    sd = np.sqrt(start.posterior.variance)
    assert np.all(np.abs(fit.theta - start.theta) < 0.5 * sd)
    assert_allclose(fit.posterior.variance, sd**2, rtol=0.3)


def test_too_few_iterations_are_told():
    fit = SVGD(20, frozen(), max_iterations=2).fit(likelihood(), prior=PRIOR, rng=rng())
    assert not fit.status.converged
    assert "not converged" in fit.status.message
    assert "max_iterations" in fit.status.message


def test_a_start_that_does_not_know_of_the_constraints_is_refused():
    start = Lagged().fit(likelihood())
    with pytest.raises(BvsiError, match=r"start: .*% of its draws violate the constraints"):
        SVGD(20, frozen()).fit(likelihood(), constraints="u**2 > 0.02", start=start, rng=rng())
    with pytest.raises(BvsiError, match=r"start: .*support of the prior"):
        SVGD(20, frozen()).fit(likelihood(), prior=Prior({"u": LogNormal(0, 1)}), start=start, rng=rng())


def test_settings_are_checked():
    for particles in (2, 20.5, "a"):
        with pytest.raises(BvsiError, match="particles: a whole number, at least 3"):
            SVGD(particles=particles)
    with pytest.raises(BvsiError, match="objective: an instance"):
        SVGD(objective=ResidualDensity)
    with pytest.raises(BvsiError, match="tol"):
        SVGD(tol=-1.0)
    with pytest.raises(BvsiError, match="max_iterations"):
        SVGD(max_iterations=0)
    for linear in (-1.0, np.nan):
        with pytest.raises(BvsiError, match="linear: a number that is not negative"):
            MedianRBF(linear)


def test_particles_that_stopped_far_from_the_target_are_not_called_converged():
    """A narrow start far away: however little the discrepancy falls, it is far above that of draws of the target."""
    model = two_operators()
    start = Profile().fit(model, prior=Prior({"u": Normal(-0.7, 1e-8)}, Flat()))
    fit = SVGD(20, FrozenCovariance(Lagged().fit(model).theta), max_iterations=40).fit(model, start=start, rng=rng())
    exact = Lagged().fit(model).posterior
    far = np.abs(fit.theta - exact.mean) > 3 * np.sqrt(exact.variance)
    assert fit.status.converged == (not far.any())


def test_no_particle_leaves_a_triangle_and_a_bad_fit_is_not_called_converged():
    """More inequalities than dimensions: the last is not built into the coordinates."""
    model = two_operators()
    texts = ["laplacian(u) >= 0.0995", "u >= -0.803", "2*laplacian(u) + 0.5*u <= -0.2005"]
    theta = np.array([0.0999, -0.80135])
    fit = SVGD(50, FrozenCovariance(theta), max_iterations=60).fit(model, constraints=texts, rng=rng())
    allowed = as_linear(texts, model.names)
    assert np.all(allowed.satisfied(fit.posterior.particles, tol=1e-11))
    assert fit.posterior.particles[:, 1].min() >= -0.803
    law = Lagged().fit(model, constraints=texts).posterior
    near = np.all(np.abs(fit.theta - law.mean) < 0.5 * np.sqrt(law.variance))
    assert near or not fit.status.converged
