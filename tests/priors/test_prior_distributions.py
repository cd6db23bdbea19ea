"""Univariate distributions as probability laws: densities, gradients, moments, draws; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.priors import Distribution, Flat, HalfNormal, Horseshoe, Laplace, LogNormal, Normal, StudentT, Uniform

REFERENCES = [
    (Normal(0.7, 4.0), scipy.stats.norm(0.7, 2.0)),
    (LogNormal(1.0, 0.25), scipy.stats.lognorm(0.5, scale=np.e)),
    (HalfNormal(1.7), scipy.stats.halfnorm(scale=1.7)),
    (Uniform(-1.0, 2.5), scipy.stats.uniform(-1.0, 3.5)),
    (Laplace(-0.3, 0.6), scipy.stats.laplace(-0.3, 0.6)),
    (StudentT(5.0, 0.4, 1.3), scipy.stats.t(5.0, 0.4, 1.3)),
    (StudentT(1.0), scipy.stats.cauchy()),
    (StudentT(0.5, -1.0, 2.0), scipy.stats.t(0.5, -1.0, 2.0)),
]
HORSESHOES = [Horseshoe(1.0), Horseshoe(3.0, 0.5), Horseshoe(1e-3, 1e-4)]
PROPER = [law for law, _ in REFERENCES] + HORSESHOES
POINTS = np.array([-2.3, -0.9, 1e-3, 0.31, 0.8, 2.2, 7.0])


def integral(function, law, upper=None) -> float:
    """∫ f over the support, or from the centre to ``upper``.

    It is taken in the logarithm of the distance from the centre, where spikes and heavy tails are both smooth.
    """
    centre = 0.0 if isinstance(law, LogNormal | HalfNormal) else law.mean
    total = 0.0
    for sign, end in [(1.0, law.upper), (-1.0, law.lower)] if upper is None else [(1.0, upper)]:
        reach = sign * (end - centre)
        if reach > 0:
            top = min(np.log(reach), 200.0)
            edges = np.linspace(-60.0, top, 600)
            nodes, weights = np.polynomial.legendre.leggauss(10)
            s = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * nodes).ravel()
            w = (0.5 * np.diff(edges)[:, None] * weights).ravel()
            total += float((w * np.exp(s) * function(centre + sign * np.exp(s))).sum())
    return total


@pytest.mark.parametrize("law", PROPER, ids=str)
def test_densities_integrate_to_one(law):
    assert integral(lambda x: np.exp(law.logpdf(x)), law) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("law, reference", REFERENCES, ids=lambda x: str(x) if isinstance(x, Distribution) else "")
def test_densities_are_those_of_scipy(law, reference):
    assert_allclose(law.logpdf(POINTS), reference.logpdf(POINTS), rtol=1e-12)
    assert (law.lower, law.upper) == reference.support()


@pytest.mark.parametrize("law", PROPER, ids=str)
def test_gradients_are_derivatives_of_the_log_density(law):
    x = POINTS[np.isfinite(law.logpdf(POINTS))]
    h = 1e-6 * np.abs(x)
    difference = (law.logpdf(x + h) - law.logpdf(x - h)) / (2 * h)
    assert_allclose(law.gradient(x), difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("law", [law for law in PROPER if law.matched_by == "moments"], ids=str)
def test_mean_and_variance_are_moments_of_the_density(law):
    mean = integral(lambda x: x * np.exp(law.logpdf(x)), law)
    assert law.mean == pytest.approx(mean, rel=1e-8)
    assert law.variance == pytest.approx(integral(lambda x: (x - mean) ** 2 * np.exp(law.logpdf(x)), law), rel=1e-8)


def test_the_papers_lognormal_has_the_moments_that_the_paper_states():
    law = LogNormal(1.0, 0.25)
    assert (round(law.mean, 2), round(law.variance, 2)) == (3.08, 2.69)


@pytest.mark.parametrize("law", [StudentT(1.0), StudentT(0.5, -1.0, 2.0), StudentT(2.0), *HORSESHOES], ids=str)
def test_without_a_variance_the_gaussian_has_the_same_quartiles(law):
    assert law.matched_by == "quartiles"
    quartile = scipy.stats.norm(law.mean, np.sqrt(law.variance)).ppf(0.75)
    upper = integral(lambda x: np.exp(law.logpdf(x)), law, upper=quartile)
    assert upper == pytest.approx(0.25, abs=1e-8)


@pytest.mark.parametrize("law, reference", REFERENCES, ids=lambda x: str(x) if isinstance(x, Distribution) else "")
def test_draws_follow_the_law(law, reference):
    assert scipy.stats.kstest(law.sample(20_000, np.random.default_rng(1)), reference.cdf).pvalue > 1e-3


@pytest.mark.parametrize("law", HORSESHOES, ids=str)
def test_draws_follow_the_horseshoe(law):
    """Also far in the tails: the distance of 1/θ from its law."""
    draws = law.sample(20_000, np.random.default_rng(2))
    assert scipy.stats.kstest(draws, law.cdf).pvalue > 1e-3
    tail = np.abs(draws[np.abs(draws) > 20 * law.scale])
    beyond = 2 * (1 - law.cdf(np.array(20 * law.scale)))
    assert len(tail) == pytest.approx(20_000 * beyond, abs=5 * np.sqrt(20_000 * beyond))
    assert scipy.stats.kstest(tail, lambda x: 1 - 2 * (1 - law.cdf(x)) / beyond).pvalue > 1e-3


@pytest.mark.parametrize("law", HORSESHOES, ids=str)
def test_the_horseshoes_cdf_is_the_integral_of_its_density(law):
    x = law.scale * np.array([-5.0, -0.2, 1e-3, 0.4, 30.0])
    h = 1e-5 * np.abs(x)
    assert_allclose((law.cdf(x + h) - law.cdf(x - h)) / (2 * h), np.exp(law.logpdf(x)), rtol=1e-6)
    assert_allclose(law.cdf(np.array([-np.inf, 0.0, np.inf])), [0.0, 0.5, 1.0], atol=1e-15)


def test_a_horseshoe_far_out_is_a_cauchy_tail():
    """log p → −2 log|θ|, also where θ² over- and 1/θ² underflows; one scale is as good as another."""
    law, far = Horseshoe(1.0), np.array([1e5, 1e180, 1e300])
    assert_allclose(np.diff(law.logpdf(far)), -2 * np.diff(np.log(far)))
    assert_allclose(law.gradient(far), -2 / far)
    assert_allclose(Horseshoe(7.0).logpdf(7 * POINTS) + np.log(7.0), law.logpdf(POINTS))


def test_a_student_t_of_many_degrees_of_freedom_is_normal():
    assert_allclose(StudentT(1e14, 0.4, 2.0).logpdf(POINTS), Normal(0.4, 4.0).logpdf(POINTS), rtol=1e-10)


@pytest.mark.parametrize("law", [LogNormal(0.0, 1.0), HalfNormal(1.0), Uniform(0.0, 2.0)], ids=str)
def test_outside_the_support_there_is_no_density(law):
    assert law.lower == 0
    outside = np.array([-np.inf, -1e300, -1.0, -1e-300])
    assert_allclose(law.logpdf(outside), -np.inf)
    assert_allclose(law.gradient(outside), 0)
    assert np.isfinite(law.logpdf(np.array([1e-9, 1.0]))).all()
    assert (law.sample(1000, np.random.default_rng(0)) > 0).all()


def test_ends_of_the_support():
    assert LogNormal(0.0, 1.0).logpdf(np.array([0.0])) == -np.inf
    assert np.isfinite(HalfNormal(1.0).logpdf(np.array([0.0]))).all()
    assert np.isfinite(Uniform(0.0, 2.0).logpdf(np.array([0.0, 2.0]))).all()
    assert Uniform(0.0, 2.0).logpdf(np.array([np.nextafter(2.0, 3.0)])) == -np.inf


@pytest.mark.parametrize("law", [*PROPER, Flat()], ids=str)
def test_no_point_is_too_far_for_a_density(law):
    """pytest makes errors of warnings."""
    far = np.array([-1e300, -1e200, 1e200, 1e300])
    assert not np.isnan(law.logpdf(far)).any()
    assert not np.isnan(law.gradient(far)).any()
    assert law.logpdf(far.reshape(2, 2)).shape == law.gradient(far.reshape(2, 2)).shape == (2, 2)


def test_only_laplace_has_a_corner():
    law = Laplace(0.3, 2.0)
    assert (law.kink, law.kink_scale) == (0.3, 2.0)
    assert_allclose(law.gradient(np.array([0.3 - 1e-9, 0.3, 0.3 + 1e-9])), [0.5, 0.0, -0.5])
    for other in [law for law in PROPER if not isinstance(law, Laplace)]:
        assert (other.kink, other.kink_scale) == (None, np.inf)


def test_flat_is_improper():
    assert_allclose(Flat().logpdf(POINTS), 0)
    assert_allclose(Flat().gradient(POINTS), 0)
    assert Flat().variance == np.inf
    with pytest.raises(BvsiError, match="proper"):
        Flat().sample(3, np.random.default_rng(0))


@pytest.mark.parametrize("law", PROPER, ids=str)
def test_draws_repeat_with_the_seed(law):
    first, second, other = (law.sample(5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.shape == (5,)
    assert_allclose(first, second, rtol=0)
    assert not np.array_equal(first, other)


def test_small_numpy_numbers_do_not_overflow():
    assert HalfNormal(np.int8(100)).variance == HalfNormal(100.0).variance


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200, 10**400, "1", "__import__('os')", None, True, [1.0]])
@pytest.mark.parametrize(
    "law, label",
    [
        (lambda v: Normal(v, 1.0), "Normal: mean"),
        (lambda v: LogNormal(v, 1.0), "LogNormal: log_mean"),
        (lambda v: Laplace(v, 1.0), "Laplace: location"),
        (lambda v: StudentT(3.0, v), "StudentT: location"),
        (lambda v: Uniform(v, 1.0), "Uniform: lower"),
        (lambda v: Uniform(0.0, v), "Uniform: upper"),
    ],
)
def test_locations_that_are_no_finite_numbers_are_refused(law, label, value):
    with pytest.raises(BvsiError, match=f"{label} has to be a finite number"):
        law(value)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-200, np.nan, np.inf, "1", None, True])
@pytest.mark.parametrize(
    "law, label",
    [
        (lambda v: Normal(0.0, v), "Normal: variance"),
        (lambda v: LogNormal(0.0, v), "LogNormal: log_variance"),
        (lambda v: HalfNormal(v), "HalfNormal: scale"),
        (lambda v: Laplace(0.0, v), "Laplace: scale"),
        (lambda v: StudentT(v), "StudentT: dof"),
        (lambda v: StudentT(3.0, 0.0, v), "StudentT: scale"),
        (lambda v: Horseshoe(v), "Horseshoe: scale"),
        (lambda v: Horseshoe(1.0, v), "Horseshoe: smoothing"),
    ],
)
def test_scales_that_are_not_positive_are_refused(law, label, value):
    with pytest.raises(BvsiError, match=f"{label} has to be a positive number"):
        law(value)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0)])
def test_bounds_in_the_wrong_order_are_refused(bounds):
    with pytest.raises(BvsiError, match="upper − lower"):
        Uniform(*bounds)


@pytest.mark.parametrize("smoothing", [1e-13, 1.1])
def test_smoothing_that_is_none_or_all_is_refused(smoothing):
    with pytest.raises(BvsiError, match="smoothing"):
        Horseshoe(1.0, smoothing)


@pytest.mark.parametrize("pair", [(1000.0, 1.0), (-1000.0, 1.0), (0.0, 1000.0)])
def test_a_lognormal_whose_moments_overflow_is_refused(pair):
    with pytest.raises(BvsiError, match="log θ"):
        LogNormal(*pair)
