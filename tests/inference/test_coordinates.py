"""Coordinates without bounds: the change of variables is exact, and constraints hold wherever w lies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.infer.constraints import as_linear
from bvsi.infer.fit import truncated
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.infer.priors import Flat, Prior
from bvsi.infer.quadratic import constrained
from bvsi.infer.sampling import LogPosterior, SamplingProblem, coordinates
from bvsi.likelihood import ValueGradient
from inference.bayes_cases import differences

NAMES = ("a", "b", "c")
MEAN = np.array([0.3, 0.2, -1.0])
ROOT = np.array([[0.4, 0.0, 0.0], [-0.2, 0.3, 0.0], [1.0, 0.5, 2.0]])
INDEPENDENT = {
    "none": [],
    "lower": ["a > 0"],
    "upper": ["b < 0.1"],
    "two-sided": ["0 <= a <= 0.5"],
    "all kinds": ["a > 0", "b < 1", "-3 < c < 4"],
    "sum": ["a + 2*b - c > -0.5"],
    "two sums": ["a + b + c < 0.5", "-1 < a - b < 1"],
    "equality": ["a == b"],
    "equality with bounds": ["a == 2*b + 0.1", "0 < b < 1", "c < 0"],
    "equality that carries a bound over": ["a == b", "a > 0", "b > 0.1"],
    "far away": ["a > -1000", "c < 1e5"],
    "violated by the mean": ["a > 2", "b < -1"],
}
DEPENDENT = {
    "triangle": ["a > 0", "b > 0", "a + b < 1"],
    "order": ["a > 0", "b > a", "c < b", "c < 0.5"],
    "equality and triangle": ["c == a - b", "a > 0", "b > 0", "a + b < 1"],
}
ALL = INDEPENDENT | DEPENDENT


def posterior_on(texts):
    """N(MEAN, ROOT ROOTᵀ) on the set that the constraints leave, and the constraints."""
    allowed = as_linear(texts, NAMES)
    solver = constrained(np.linalg.inv(ROOT @ ROOT.T), allowed, NAMES)
    base = GaussianPosterior(NAMES, solver.free(MEAN, np.zeros(3)), solver.inverse())
    return truncated(base, allowed, solver.update(MEAN, np.zeros(3))), allowed


@pytest.fixture(params=ALL, ids=list(ALL))
def case(request):
    posterior, allowed = posterior_on(ALL[request.param])
    return posterior, allowed, coordinates(posterior, allowed, np.random.default_rng(1))


def log_density(theta):
    """A density that is not Gaussian, with its gradient."""
    u = np.linalg.solve(ROOT, theta - MEAN)
    value = -0.25 * np.sum(u**4) - np.sin(theta.sum())
    return ValueGradient(value, -np.linalg.solve(ROOT.T, u**3) - np.cos(theta.sum()))


def pulled_back(q, w):
    return q.pull_back(w, log_density(q.theta(w)))


def test_there_and_back(case):
    posterior, _, q = case
    theta = posterior.sample(200, np.random.default_rng(2))
    assert_allclose(q.theta(q.w(theta)), theta, rtol=1e-9, atol=1e-10)
    w = np.random.default_rng(3).standard_normal((200, q.n))
    inside = q.allows(q.theta(w))
    assert inside.sum() > 20
    assert_allclose(q.w(q.theta(w))[inside], w[inside], atol=1e-6)


def test_equalities_take_dimensions_away():
    for texts, n in (([], 3), (["a > 0"], 3), (["a == b"], 2), (["a == b", "b + c == 1", "a < 3"], 1)):
        posterior, allowed = posterior_on(texts)
        assert coordinates(posterior, allowed, np.random.default_rng(1)).n == n


def test_the_gradient_of_the_pulled_back_density_is_that_of_finite_differences(case):
    q = case[2]
    for w in np.random.default_rng(4).standard_normal((5, q.n)):
        exact = pulled_back(q, w).gradient
        found = differences(lambda x: pulled_back(q, x).value, w, np.full(q.n, 2e-3))
        assert_allclose(found, exact, atol=1e-6 * max(1.0, np.abs(exact).max()))


def test_the_factor_is_the_determinant_of_the_map(case):
    """log |det ∂η/∂w| up to a constant, for the coefficients η that the equalities leave free."""
    _, allowed, q = case
    free, h = allowed.affine().free, 1e-5

    def numerical(w):
        step = h * np.eye(q.n)
        jacobian = (q.theta(w + step) - q.theta(w - step))[:, free] / (2 * h)
        return np.linalg.slogdet(jacobian)[1]

    points = 0.7 * np.random.default_rng(5).standard_normal((6, q.n))
    factors = np.array([q.pull_back(w, ValueGradient(0.0, np.zeros(3))).value for w in points])
    expected = np.array([numerical(w) for w in points])
    assert_allclose(factors - factors[0], expected - expected[0], atol=1e-5)


@pytest.mark.parametrize("text, low, high", [("a > 0", 0, np.inf), ("a < 1", -np.inf, 1), ("0 < a < 1", 0, 1)])
def test_probability_is_conserved(text, low, high):
    """∫ p(θ(w)) |∂θ/∂w| dw = ∫ p(θ) dθ over the allowed interval."""
    law, allowed = scipy.stats.norm(0.8, 0.5), as_linear(text, ("a",))
    base = GaussianPosterior(("a",), np.array([0.8]), np.array([[0.25]]))
    q = coordinates(truncated(base, allowed, np.array([0.8])), allowed, np.random.default_rng(1))

    def density(w):
        theta = q.theta(np.array([w]))
        return np.exp(q.pull_back(np.array([w]), ValueGradient(float(law.logpdf(theta[0])), np.zeros(1))).value)

    total = scipy.integrate.quad(density, -60, 60, limit=400, points=[0.0])[0] * abs(q.L[0, 0] * q.G[0, 0])
    assert_allclose(total, law.cdf(high) - law.cdf(low), rtol=1e-6)


@pytest.mark.parametrize("texts", INDEPENDENT.values(), ids=list(INDEPENDENT))
def test_constraints_hold_for_wild_coordinates(texts):
    posterior, allowed = posterior_on(texts)
    q = coordinates(posterior, allowed, np.random.default_rng(1))
    w = np.random.default_rng(6).uniform(-50, 50, (2000, q.n))
    theta = q.theta(w)
    assert np.all(np.isfinite(theta))
    assert np.all(allowed.satisfied(theta))
    assert np.all(allowed.satisfied(q.theta(np.array([np.full(q.n, 50.0), np.full(q.n, -50.0)]))))


@pytest.mark.parametrize("texts", [*INDEPENDENT.values(), *DEPENDENT.values()], ids=list(ALL))
def test_bounds_of_single_coefficients_hold_to_the_last_bit(texts):
    posterior, allowed = posterior_on(texts)
    q = coordinates(posterior, allowed, np.random.default_rng(1))
    theta = q.theta(np.random.default_rng(6).uniform(-50, 50, (2000, q.n)))
    theta = theta[q.allows(theta)]
    single = (allowed.A != 0).sum(axis=1) == 1
    value = theta @ allowed.A[single].T
    assert np.all((value >= allowed.lower[single]) & (value <= allowed.upper[single]))


@pytest.mark.parametrize("texts", DEPENDENT.values(), ids=list(DEPENDENT))
def test_the_density_is_zero_where_a_row_that_depends_on_others_is_violated(texts):
    posterior, allowed = posterior_on(texts)
    q = coordinates(posterior, allowed, np.random.default_rng(1))
    target = LogPosterior(NAMES, log_density, Prior({}, Flat()).bind(NAMES), allowed)
    problem = SamplingProblem(target, posterior, q)
    w = 2 * np.random.default_rng(7).standard_normal((300, q.n))
    value = np.array([problem.density(one).value for one in w])
    inside = allowed.satisfied(q.theta(w))
    assert 0 < inside.sum() < len(w)
    assert np.array_equal(np.isfinite(value), inside)
    assert np.all(problem.density(w[~inside][0]).gradient == 0)


def test_the_approximation_is_near_a_standard_normal(case):
    posterior, _, q = case
    w = q.w(posterior.sample(20_000, np.random.default_rng(8)))
    assert_allclose(w.mean(axis=0), 0, atol=0.1)
    assert_allclose(np.cov(w.T).reshape(q.n, q.n), np.eye(q.n), atol=0.2)


def test_units_do_not_matter():
    """Coefficients in other units have the same coordinates."""
    factor = np.array([1e-6, 1.0, 1e5])
    texts, other = ["a > 0", "a + b < 1"], ["a > 0", "1e6*a + b < 1"]
    posterior, allowed = posterior_on(texts)
    base = posterior.base
    scaled = GaussianPosterior(NAMES, factor * base.mean, factor * base.covariance * factor[:, None])
    moved = as_linear(other, NAMES)
    one = coordinates(posterior, allowed, np.random.default_rng(1))
    two = coordinates(truncated(scaled, moved, factor * posterior.mode), moved, np.random.default_rng(1))
    theta = posterior.sample(50, np.random.default_rng(9))
    gaps = [np.linalg.norm(np.diff(q.w(t), axis=0), axis=1) for q, t in ((one, theta), (two, factor * theta))]
    assert_allclose(gaps[1], gaps[0], rtol=0.1)
