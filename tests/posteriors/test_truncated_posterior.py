"""Laws within linear constraints: against SciPy's truncated normal, rejection, order statistics, and quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior, TruncatedPosterior
from posteriors.posterior_cases import truncated

CORRELATED = np.array([[1.0, 0.6], [0.6, 1.0]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def agree(a: np.ndarray, b: np.ndarray) -> None:
    """Two sets of draws (n, d) of the same law: by coordinate, and by their sum and difference where d = 2."""
    columns = [(a[:, i], b[:, i]) for i in range(a.shape[1])]
    columns += [(a @ w, b @ w) for w in np.array([[1.0, 1.0], [1.0, -1.0]])] if a.shape[1] == 2 else []
    for x, y in columns:
        assert scipy.stats.ks_2samp(x, y).pvalue > 1e-3


@pytest.mark.parametrize(
    "bounds", [(-0.5, np.inf), (-np.inf, -1.0), (0.2, 0.3), (3.0, np.inf), (6.0, np.inf), (-9, -6)]
)
def test_one_coefficient_follows_the_truncated_normal(bounds):
    """Half a standard deviation to six: by rejection and by chains."""
    mean, sd = 2.0e-3, 1.0e-4
    low, high = (mean + sd * b for b in bounds)
    sides = [f"a {sign} {bound!r}" for sign, bound in ((">=", low), ("<=", high)) if np.isfinite(bound)]
    posterior = truncated([mean], [[sd**2]], *sides)
    law = scipy.stats.truncnorm(*bounds, loc=mean, scale=sd)
    draws = posterior.sample(5000, rng(1))
    assert np.all((draws >= low) & (draws <= high))
    assert scipy.stats.kstest(draws[:, 0], law.cdf).pvalue > 1e-3
    assert_allclose(posterior.mean[0], law.mean(), atol=0.05 * law.std())
    assert_allclose(posterior.variance[0], law.var(), rtol=0.1)
    assert_allclose(posterior.interval(0.9)[0], law.ppf([0.05, 0.95]), atol=0.1 * law.std())


@pytest.mark.parametrize("distance", [30.0, 1000.0])
def test_far_beyond_a_bound_the_law_is_exponential_and_the_others_stay_normal(distance):
    """θ_1 ≥ 0, mean −δ: δ θ_1 → Exp(1), and θ_2 | θ_1 is N(0.6 (θ_1 + δ), 0.8²)."""
    posterior = truncated([-distance, 0.0], CORRELATED, "a >= 0")
    a, b = posterior.sample(5000, rng(2)).T
    assert a.min() >= 0
    assert scipy.stats.kstest(distance * a, "expon").pvalue > 1e-3
    assert scipy.stats.kstest((b - 0.6 * (a + distance)) / 0.8, "norm").pvalue > 1e-3


@pytest.mark.parametrize("noise", [None, (3.0, 3.0)], ids=["gaussian", "student"])
def test_a_wedge_agrees_with_rejection(noise, monkeypatch):
    """The chains, where rejection would do as well."""
    posterior = truncated([-0.5, 0.5], CORRELATED, "a >= 0", "b - 2*a <= 0.1", noise=noise)
    free = posterior.base.sample(200_000, rng(3))
    kept = free[(free[:, 0] >= 0) & (free[:, 1] - 2 * free[:, 0] <= 0.1)]
    agree(posterior.sample(4000, rng(4)), kept)
    monkeypatch.setattr("bvsi.infer.posteriors.truncated.ENOUGH_INSIDE", 1.1)
    agree(posterior.sample(4000, rng(5)), kept)


def test_far_beyond_a_bound_a_student_law_keeps_its_tail():
    """θ ≥ 6 under Inv-Gamma(3, 3): a Student-t with six degrees of freedom, beyond 6."""
    posterior = truncated([0.0], [[1.0]], "a >= 6", noise=(3.0, 3.0))
    law = scipy.stats.t(6.0)
    draws = posterior.sample(6000, rng(6))[:, 0]
    assert scipy.stats.kstest(draws, lambda x: 1 - law.sf(x) / law.sf(6.0)).pvalue > 1e-3


def test_thin_layers_are_crossed_at_full_length():
    """−ε ≤ a − b ≤ ε holds a + b free: N(0, 2)."""
    posterior = truncated([0.0, 0.0], np.eye(2), "-1e-4 <= a - b <= 1e-4")
    draws = posterior.sample(4000, rng(7))
    assert scipy.stats.kstest(draws.sum(axis=1) / np.sqrt(2), "norm").pvalue > 1e-3
    assert scipy.stats.kstest((draws[:, 0] - draws[:, 1]) / 2e-4 + 0.5, "uniform").pvalue > 1e-3


def test_an_order_of_many_coefficients_is_that_of_sorted_numbers():
    """Independent N(0, 1) given θ_1 ≤ … ≤ θ_8 are order statistics; one in 40,320 draws would pass."""
    letters = "abcdefgh"
    posterior = truncated(np.zeros(8), np.eye(8), *(f"{x} <= {y}" for x, y in itertools.pairwise(letters)))
    agree(posterior.sample(3000, rng(8)), np.sort(rng(9).standard_normal((20_000, 8)), axis=1))


def tied(noise: tuple[float, float] | None = None) -> TruncatedPosterior:
    """a = 2b + 1 with b ~ N(−0.2, 0.3²), and a ≥ 1: b ≥ 0."""
    T, offset = np.array([2.0, 1.0]), np.array([1.0, 0.0])
    mean, shape = offset + T * -0.2, np.outer(T, T) * 0.09
    base = GaussianPosterior(("a", "b"), mean, shape)
    if noise is not None:
        base = NormalInverseGammaPosterior(("a", "b"), mean, shape, *noise)
    return TruncatedPosterior(base, as_linear(["a == 2*b + 1", "a >= 1"], ("a", "b")), np.array([1.0, 0.0]))


def test_equalities_and_inequalities_hold_together():
    draws = tied().sample(4000, rng(10))
    assert_allclose(draws[:, 0], 2 * draws[:, 1] + 1, rtol=1e-14)
    assert draws[:, 0].min() >= 1
    law = scipy.stats.truncnorm(0.2 / 0.3, np.inf, loc=-0.2, scale=0.3)
    assert scipy.stats.kstest(draws[:, 1], law.cdf).pvalue > 1e-3
    assert_allclose(tied().covariance, law.var() * np.array([[4, 2], [2, 1]]), rtol=0.05)


def test_equalities_may_leave_nothing_free():
    base = GaussianPosterior(("a", "b"), np.array([1.0, 3.0]), np.zeros((2, 2)))
    posterior = TruncatedPosterior(base, as_linear(["a == 1", "b == 3*a", "b >= 0"], ("a", "b")), base.mean)
    assert_array_equal(posterior.sample(3, rng()), [[1.0, 3.0]] * 3)
    assert_array_equal(posterior.interval(), [[1.0, 1.0], [3.0, 3.0]])
    assert posterior.logpdf([1.0, 3.0]) == 0


def test_a_known_coefficient_beside_a_bounded_one():
    base = GaussianPosterior(("a", "b"), np.array([-7.0, 3.0]), np.diag([1.0, 0.0]))
    posterior = TruncatedPosterior(base, as_linear(["b == 3", "a >= 0"], ("a", "b")), np.array([0.0, 3.0]))
    draws = posterior.sample(4000, rng(1))
    assert_array_equal(draws[:, 1], 3.0)
    assert scipy.stats.kstest(draws[:, 0], scipy.stats.truncnorm(7, np.inf, loc=-7).cdf).pvalue > 1e-3


def test_every_inequality_holds_to_the_last_bit():
    """Bounds whose numbers have no short binary form, sums of several terms, and means far outside."""
    posterior = truncated(
        [-3.0, 7.0, 0.0],
        np.diag([1e-2, 1.0, 1e4]),
        "a >= 0.1",
        "3*b <= 0.3",
        "a + b + 0.7*c <= 0.33",
    )
    draws = posterior.sample(3000, rng(11))
    assert draws[:, 0].min() >= 0.1
    assert (3 * draws[:, 1]).max() <= 0.3
    for row in draws:
        assert posterior.constraints.satisfied(row, 0.0)
        assert row[0] + row[1] + 0.7 * row[2] <= 0.33


def test_constraints_out_of_reach_change_nothing():
    posterior = truncated([0.0, 1.0], CORRELATED, "a >= -9", "a + b <= 20")
    base = posterior.base
    assert_array_equal(posterior.mean, base.mean)
    assert_array_equal(posterior.covariance, base.covariance)
    assert_array_equal(posterior.interval(), base.interval())
    assert posterior.logpdf([0.3, 0.2]) == base.logpdf([0.3, 0.2])


@pytest.mark.parametrize("noise", [None, (4.0, 2.0)], ids=["gaussian", "student"])
def test_the_density_integrates_to_one(noise):
    posterior = truncated([0.3, 0.0], CORRELATED, "0 <= a <= 1", "-1 <= b <= 2", noise=noise)
    mass = scipy.integrate.dblquad(lambda b, a: np.exp(posterior.logpdf([a, b])), 0, 1, -1, 2, epsabs=1e-3)[0]
    assert_allclose(mass, 1, atol=0.02)
    assert posterior.logpdf([-1e-12, 0.0]) == -np.inf


def test_a_density_whose_constant_is_not_known_is_refused():
    posterior = truncated([-6.0], [[1.0]], "a >= 0")
    assert posterior.logpdf([-1.0]) == -np.inf
    with pytest.raises(BvsiError, match=r"base\.logpdf"):
        posterior.logpdf([1.0])


def test_the_density_off_the_equalities_is_zero():
    assert tied().logpdf([1.5, 0.3]) == -np.inf
    law = scipy.stats.truncnorm(0.2 / 0.3, np.inf, loc=-0.2, scale=0.3)
    # a length √5 db on the line a = 2b + 1
    assert_allclose(tied().logpdf([1.5, 0.25]), law.logpdf(0.25) - 0.5 * np.log(5), atol=0.02)


def test_moments_repeat_and_draws_repeat_with_the_seed():
    one, two = (truncated([-4.0, 0.0], CORRELATED, "a >= 0") for _ in range(2))
    assert_array_equal(one.mean, two.mean)
    assert_array_equal(one.sample(5, rng(3)), two.sample(5, rng(3)))
    assert one.sample(0, rng()).shape == (0, 2)
    assert one.sample(1, rng()).shape == (1, 2)


def test_units_do_not_matter():
    """a in units of 1e-9, b in units of 1e6, constraints with them."""
    one = truncated([-4.0, 0.0], CORRELATED, "a >= 0", "b + a <= 1")
    S = np.array([1e-9, 1e6])
    other = truncated(S * [-4.0, 0.0], CORRELATED * np.outer(S, S), "a >= 0", "1e-6*b + 1e9*a <= 1")
    agree(one.sample(4000, rng(1)), other.sample(4000, rng(2)) / S)
    assert_allclose(other.mean / S, one.mean, atol=0.03)


def test_linear_functions_have_the_quantiles_of_the_draws():
    posterior = truncated([-1.0, 0.0], CORRELATED, "a >= 0")
    Phi = rng(1).standard_normal((7, 2))
    expected = np.quantile(posterior.sample(50_000, rng(2)) @ Phi.T, [0.1, 0.9], axis=0).T
    assert_allclose(posterior.linear_interval(Phi, 0.8), expected, atol=0.05)


def test_a_base_that_does_not_know_the_equalities_is_refused():
    constraints = as_linear(["a == b"], ("a", "b"))
    with pytest.raises(BvsiError, match="condition it"):
        TruncatedPosterior(GaussianPosterior(("a", "b"), np.zeros(2), np.eye(2)), constraints, np.zeros(2))
    with pytest.raises(BvsiError, match="condition it"):
        TruncatedPosterior(GaussianPosterior(("a", "b"), np.array([0, 1.0]), np.ones((2, 2))), constraints, np.zeros(2))


@pytest.mark.parametrize("mode", [[-1.0, 0.0], [1.0], [np.nan, 0.0]])
def test_impossible_modes_are_refused(mode):
    constraints = as_linear(["a >= 0"], ("a", "b"))
    with pytest.raises(BvsiError, match="mode"):
        TruncatedPosterior(GaussianPosterior(("a", "b"), np.zeros(2), np.eye(2)), constraints, np.array(mode))


def test_a_base_that_is_not_finite_is_refused_before_anything_is_computed():
    """Found by the fuzzer in a changed file: equalities of an infinite mean warned before the message."""
    base = GaussianPosterior(("a", "b"), np.array([np.inf, 0.0]), np.eye(2))
    with pytest.raises(BvsiError, match="finite"):
        TruncatedPosterior(base, as_linear(["a == 2*b"], ("a", "b")), np.zeros(2))


def test_constraints_of_another_model_are_refused():
    with pytest.raises(BvsiError, match="names"):
        TruncatedPosterior(
            GaussianPosterior(("a", "b"), np.zeros(2), np.eye(2)), as_linear(["a >= 0"], ("b", "a")), np.zeros(2)
        )
