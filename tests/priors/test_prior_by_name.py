"""Priors bound to the operators of a model: lookup of names, defaults, densities, matching Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.priors import (
    ColumnScale,
    Flat,
    HalfNormal,
    Horseshoe,
    JointNormal,
    Laplace,
    LogNormal,
    Normal,
    Prior,
    StudentT,
    Uniform,
)

JOINT = JointNormal([0.2, -0.3, 0.5], [[1.0, 0.3, 0.1], [0.3, 2.0, -0.4], [0.1, -0.4, 0.5]])
PRIOR = Prior(
    {
        "laplacian( u )": LogNormal(1.0, 0.25),
        ("u**2", "u**3", "u**4"): JOINT,
        "dx(u)": Uniform(-3.0, 3.0),
        "u": Horseshoe(0.5),
        "sin(u)": HalfNormal(2.0),
        "missing(u)": Normal(5.0, 1.0),
    },
    default=Laplace(0.1, 0.7),
)
NAMES = ("u", "u**4", "laplacian(u)", "cos(u)", "u**2", "dx(u)", "sin(u)", "exp(u)", "u**3")
THETA = np.array([[0.4, 0.2, 3.0, -0.5, 1.0, 2.0, 0.6, 0.3, -1.0], [-0.1, 0.9, 1.2, 0.5, 0.1, -2.0, 0.2, -2.0, 0.7]])
BOUND = PRIOR.bind(NAMES)


def test_the_log_density_is_the_sum_over_independent_factors():
    t = dict(zip(NAMES, THETA.T, strict=True))
    expected = (
        Horseshoe(0.5).logpdf(t["u"])
        + scipy.stats.lognorm(0.5, scale=np.e).logpdf(t["laplacian(u)"])
        + scipy.stats.uniform(-3, 6).logpdf(t["dx(u)"])
        + scipy.stats.halfnorm(scale=2.0).logpdf(t["sin(u)"])
        + scipy.stats.laplace(0.1, 0.7).logpdf(t["cos(u)"])
        + scipy.stats.laplace(0.1, 0.7).logpdf(t["exp(u)"])
        + scipy.stats.multivariate_normal(JOINT.mean, JOINT.covariance).logpdf(
            np.stack([t["u**2"], t["u**3"], t["u**4"]], axis=1)
        )
    )
    assert_allclose(BOUND.logpdf(THETA), expected)


def test_one_theta_is_as_good_as_many():
    one = BOUND.logpdf(THETA[1])
    assert isinstance(one, float)
    assert_allclose(one, BOUND.logpdf(THETA)[1])
    assert_allclose(BOUND.gradient(THETA[1]), BOUND.gradient(THETA)[1])
    assert BOUND.logpdf(THETA).shape == (2,)


def test_gradients_are_derivatives_of_the_log_densities():
    h = 1e-6
    steps = h * np.eye(len(NAMES))
    for density, gradient in [(BOUND.logpdf, BOUND.gradient), (BOUND.smooth_logpdf, BOUND.smooth_gradient)]:
        for theta in THETA:
            difference = (density(theta + steps) - density(theta - steps)) / (2 * h)
            assert_allclose(gradient(theta), difference, rtol=1e-6, atol=1e-8)


def test_the_smooth_part_and_the_corners_make_up_the_density():
    corner = ~np.isnan(BOUND.kinks)
    assert [name for name, k in zip(NAMES, corner, strict=True) if k] == ["cos(u)", "exp(u)"]
    b = BOUND.kink_scale
    assert_allclose(b[~corner], np.inf)
    corners = -(np.abs(THETA - BOUND.kinks)[:, corner] / b[corner] + np.log(2 * b[corner])).sum(axis=1)
    assert_allclose(BOUND.smooth_logpdf(THETA) + corners, BOUND.logpdf(THETA))
    assert_allclose(BOUND.smooth_gradient(THETA)[:, corner], 0)
    assert_allclose(BOUND.smooth_gradient(THETA)[:, ~corner], BOUND.gradient(THETA)[:, ~corner])


def test_permuting_the_names_permutes_the_results():
    order = np.random.default_rng(0).permutation(len(NAMES))
    other = PRIOR.bind(tuple(NAMES[i] for i in order))
    assert_allclose(other.logpdf(THETA[:, order]), BOUND.logpdf(THETA))
    assert_allclose(other.gradient(THETA[:, order]), BOUND.gradient(THETA)[:, order])
    assert_allclose(other.gaussian.mean, BOUND.gaussian.mean[order])
    assert_allclose(other.gaussian.precision, BOUND.gaussian.precision[np.ix_(order, order)], atol=1e-14)
    for attribute in ("lower", "upper", "kinks", "kink_scale"):
        assert_allclose(getattr(other, attribute), getattr(BOUND, attribute)[order])


def test_fewer_operators_have_the_marginal_prior():
    keep = [0, 2, 4, 8]
    small = PRIOR.bind(tuple(NAMES[i] for i in keep))
    covariance = np.linalg.inv(BOUND.gaussian.precision)[np.ix_(keep, keep)]
    assert_allclose(np.linalg.inv(small.gaussian.precision), covariance, atol=1e-14)
    assert_allclose(small.gaussian.mean, BOUND.gaussian.mean[keep])
    joint = JOINT.marginal([0, 1]).logpdf(THETA[:, [4, 8]])
    alone = PRIOR.bind(("u", "laplacian(u)")).logpdf(THETA[:, [0, 2]])
    assert_allclose(small.logpdf(THETA[:, keep]), alone + joint)


def test_a_model_without_operators_has_density_one():
    empty = PRIOR.bind(())
    assert empty.logpdf(np.zeros(0)) == 0
    assert empty.sample(3, np.random.default_rng(0)).shape == (3, 0)
    assert str(empty) == ""


def test_the_support_and_its_outside():
    assert_allclose(BOUND.lower, [-np.inf, -np.inf, 0, -np.inf, -np.inf, -3, 0, -np.inf, -np.inf])
    assert_allclose(BOUND.upper, [*[np.inf] * 5, 3, *[np.inf] * 3])
    for i in (2, 5, 6):
        outside = THETA[0].copy()
        outside[i] = -3.5
        assert BOUND.logpdf(outside) == -np.inf
        assert_allclose(BOUND.logpdf(np.stack([outside, THETA[0]])), [-np.inf, BOUND.logpdf(THETA[0])])


def test_the_matching_gaussian_has_the_moments_or_quartiles_of_each():
    bound = Prior({"a": LogNormal(1.0, 0.25), "b": StudentT(1.0, 2.0, 3.0), ("c", "d"): JOINT.marginal([0, 1])}, Flat())
    gaussian = bound.bind(("d", "x", "b", "a", "c")).gaussian
    assert_allclose(gaussian.mean, [-0.3, 0.0, 2.0, 3.0802168, 0.2])
    expected = np.zeros((5, 5))
    expected[2, 2] = (scipy.stats.norm.ppf(0.75) / 3.0) ** 2  # the quartile of a Cauchy is its scale
    expected[3, 3] = 1 / 2.6947581
    expected[np.ix_([4, 0], [4, 0])] = np.linalg.inv(JOINT.covariance[:2, :2])
    assert_allclose(gaussian.precision, expected, rtol=1e-7)


def test_draws_have_the_law_of_every_operator():
    draws = BOUND.sample(20_000, np.random.default_rng(0))
    assert draws.shape == (20_000, len(NAMES))
    t = dict(zip(NAMES, draws.T, strict=True))
    for name, cdf in {
        "u": Horseshoe(0.5).cdf,
        "laplacian(u)": scipy.stats.lognorm(0.5, scale=np.e).cdf,
        "cos(u)": scipy.stats.laplace(0.1, 0.7).cdf,
        "exp(u)": scipy.stats.laplace(0.1, 0.7).cdf,
        "u**3": scipy.stats.norm(-0.3, np.sqrt(2.0)).cdf,
    }.items():
        assert scipy.stats.kstest(t[name], cdf).pvalue > 1e-3
    assert np.corrcoef(t["u**3"], t["u**4"])[0, 1] == pytest.approx(-0.4, abs=0.03)
    assert np.corrcoef(t["cos(u)"], t["exp(u)"])[0, 1] == pytest.approx(0.0, abs=0.04)
    assert_allclose(BOUND.sample(4, np.random.default_rng(1)), BOUND.sample(4, np.random.default_rng(1)), rtol=0)


def test_the_text_says_what_each_operator_has():
    lines = str(BOUND).splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert lines[0].endswith("Horseshoe(0.5, 0.01); Gaussian of the same quartiles")
    assert lines[1].endswith("JointNormal of size 3: mean 0.5, sd 0.7071")
    assert lines[2].endswith("LogNormal(1, 0.25)")
    assert lines[3].endswith("Laplace(0.1, 0.7) (default)")
    assert BOUND.defaulted == ("cos(u)", "exp(u)")


EQUATIONS = ("a: u", "b: u", "b: v")


def test_a_name_without_equation_applies_to_all_equations():
    gaussian = Prior({"u": Normal(1.0, 4.0)}, Normal(0.0, 1.0)).bind(EQUATIONS).gaussian
    assert_allclose(gaussian.mean, [1.0, 1.0, 0.0])
    assert_allclose(np.diag(gaussian.precision), [0.25, 0.25, 1.0])


def test_a_joint_prior_reads_the_equation():
    joint = JointNormal([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])
    gaussian = Prior({(" v", "a:u"): joint}, Normal(7.0, 1.0)).bind(EQUATIONS).gaussian
    assert_allclose(gaussian.mean, [2.0, 7.0, 1.0])
    assert gaussian.precision[0, 2] == pytest.approx(joint.precision[0, 1])


@pytest.mark.parametrize(
    "terms, message",
    [
        ({"u": Normal(0, 1), "a: u": Normal(0, 2)}, "'u' and 'a: u' both name 'a: u'"),
        ({"b:v": Normal(0, 1), "b: v": Normal(0, 1)}, "both name 'b: v'"),
        ({("a: u", "v"): JOINT.marginal([0, 1]), "v": Flat()}, "both name 'b: v'"),
        ({("u", "v"): JOINT.marginal([0, 1])}, "'u' stands in several equations; write 'a: u'"),
        ({("v", "b: v"): JOINT.marginal([0, 1])}, "named twice"),
    ],
)
def test_operators_that_are_named_twice_are_refused(terms, message):
    prior = Prior(terms)
    with pytest.raises(BvsiError, match=message):
        prior.bind(EQUATIONS, np.ones(3))
    with pytest.raises(BvsiError, match=message):
        prior.needs_information(EQUATIONS)


def test_the_column_scale_follows_the_information():
    prior = Prior({"v": Normal(1.0, 2.0)}, ColumnScale(1e-3))
    bound = prior.bind(EQUATIONS, np.array([4.0, 0.0, np.pi]))
    assert_allclose(np.diag(bound.gaussian.precision), [4e-3, 0.0, 0.5])
    assert bound.defaulted == ("a: u", "b: u")
    assert [line.split("  ")[-1] for line in str(bound).splitlines()] == [
        "Normal(0, 250) (default)",
        "Flat() (default)",
        "Normal(1, 2)",
    ]


def test_rescaling_an_operator_rescales_its_default_prior():
    """H_ii → c² H_ii where θ_i → θ_i/c."""
    c = 1e4
    plain, scaled = (Prior({}).bind(("a",), np.array([h])) for h in (3.0, 3.0 * c**2))
    assert scaled.logpdf([2e3 / c]) - np.log(c) == pytest.approx(plain.logpdf([2e3]))


def test_information_is_needed_only_where_an_operator_takes_the_column_scale():
    prior = Prior({"u": Normal(0.0, 1.0)})
    assert not prior.needs_information(("u",))
    assert prior.needs_information(EQUATIONS)
    assert not Prior({}, Flat()).needs_information(EQUATIONS)
    assert prior.bind(("u",)).defaulted == ()
    with pytest.raises(BvsiError, match=r"information: .* 'b: v'; give it"):
        prior.bind(EQUATIONS)


@pytest.mark.parametrize("information", [[1.0, 2.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], 1.0])
def test_impossible_information_is_refused(information):
    with pytest.raises(BvsiError, match="information: 3 finite numbers"):
        Prior({}).bind(EQUATIONS, information)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_a_weight_that_is_not_positive_is_refused(weight):
    with pytest.raises(BvsiError, match="weight: a positive number"):
        ColumnScale(weight)


@pytest.mark.parametrize(
    "terms, message",
    [
        ([("u", Normal(0, 1))], "terms: a mapping"),
        ({1: Normal(0, 1)}, "terms: operator names"),
        ({"": Normal(0, 1)}, "terms: operator names"),
        ({(): JOINT}, "terms: operator names"),
        ({("u", 1): JOINT}, "terms: operator names"),
        ({"u": (0.0, 1.0)}, "prior of 'u': a distribution"),
        ({"u": Laplace}, "prior of 'u': a distribution"),
        ({"u": JOINT}, "prior of 'u': a distribution"),
        ({"u": ColumnScale()}, "prior of 'u': a distribution"),
        ({("u", "v"): Normal(0, 1)}, "need a JointNormal"),
        ({("u", "v"): JOINT}, "2 operators, and its JointNormal is of 3"),
    ],
)
def test_terms_that_are_no_priors_are_refused(terms, message):
    with pytest.raises(BvsiError, match=message):
        Prior(terms)


@pytest.mark.parametrize("default", [None, (0.0, 1.0), Laplace, JOINT, "flat"])
def test_defaults_that_are_no_priors_are_refused(default):
    with pytest.raises(BvsiError, match="default: a distribution"):
        Prior({}, default)


def test_a_hostile_name_is_only_a_name():
    prior = Prior({"__import__('os').abort()": Normal(0.0, 1.0)}, Flat())
    assert prior.bind(("u",)).defaulted == ("u",)


def test_terms_changed_afterwards_do_not_count():
    terms = {"u": Normal(0.0, 1.0)}
    prior = Prior(terms, Flat())
    terms["u"] = None
    assert prior.bind(("u",)).gaussian.precision[0, 0] == 1


def test_flat_operators_have_no_draws():
    bound = Prior({"u": Normal(0.0, 1.0)}, Flat()).bind(EQUATIONS)
    with pytest.raises(BvsiError, match="'b: v'; give these a proper prior"):
        bound.sample(3, np.random.default_rng(0))


@pytest.mark.parametrize("size", [-1, 2.5, "3"])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(BvsiError, match="size"):
        BOUND.sample(size, np.random.default_rng(0))


@pytest.mark.parametrize("theta", [np.zeros(8), np.zeros((9, 8)), np.zeros((1, 2, 9)), 0.0])
def test_theta_of_another_shape_is_refused(theta):
    for function in (BOUND.logpdf, BOUND.gradient, BOUND.smooth_logpdf, BOUND.smooth_gradient):
        with pytest.raises(BvsiError, match="theta: shape"):
            function(theta)


def test_a_model_that_names_an_operator_twice_is_refused():
    with pytest.raises(BvsiError, match="names"):
        PRIOR.bind(("u", " u"))
