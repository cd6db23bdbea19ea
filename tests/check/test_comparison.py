"""Differences of estimates: their covariance, their p-values and Richardson's rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from bvsi.check import Comparison
from bvsi.check.comparison import (
    bias_estimate,
    chance,
    compare,
    covariance_of,
    difference_covariance,
    richardson,
)
from bvsi.infer import Profile
from check.diagnose_cases import Case, noisy, wave


def random_covariance(d: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((d, 2 * d))
    return A @ A.T


def test_covariance_of_a_difference_is_that_of_the_less_efficient_estimate_minus_the_other():
    V, more = random_covariance(4, 0), random_covariance(4, 1)
    assert_allclose(difference_covariance(V, V + more, floor=0.0), more, rtol=1e-9)
    assert_allclose(difference_covariance(V, V, floor=0.2), 0.2 * V, rtol=1e-9)


def test_covariance_of_a_difference_is_positive_whichever_is_wider_and_has_the_units_of_theta():
    V, W = random_covariance(3, 2), random_covariance(3, 3)
    D = difference_covariance(V, W)
    assert np.linalg.eigvalsh(D).min() > 0
    units = np.diag([1e-6, 1.0, 1e5])
    assert_allclose(difference_covariance(units @ V @ units, units @ W @ units), units @ D @ units, rtol=1e-6)


def test_richardson_recovers_the_error_of_a_manufactured_convergence():
    for order in (2.0, 5.0):
        h, factor, exact = 0.1, np.array([3.0, -2.0]), np.array([1.0, 4.0])
        fine, coarse = exact + factor * h**order, exact + factor * (2 * h) ** order
        assert_allclose(richardson(coarse - fine, np.zeros(2), 2.0, order), fine - exact, rtol=1e-10)


def test_differences_within_noise_are_no_bias():
    assert_allclose(richardson(np.array([2.4, -2.4, 5.5]), np.ones(3), 2.0, 2.0), [0.0, 0.0, 1.0])


def moved(name, kind, difference, z, bias):
    arrays = [np.atleast_1d(np.asarray(v, dtype=float)) for v in (difference, z, bias)]
    better = ("time", "space") if kind == "width" else ()
    return Comparison(name, kind, arrays[0], arrays[0], arrays[1], 1.0, 0.5, arrays[2], 0.0, better)


def test_a_better_discretisation_bounds_the_bias_from_both_sides():
    coarser = moved("every second frame", "time", 100.0, 50.0, 3.0)
    for difference, sd, expected in [(0.5, 1.0, 0.5), (2.4, 1.0, 2.4), (9.0, 1.0, 6.5), (4.0, 2.0, 3.0)]:
        wider = moved("wider tests", "width", difference, difference / sd, 0.0)
        assert_allclose(bias_estimate([coarser, wider], 1), expected)
    assert_allclose(bias_estimate([coarser], 1), 3.0)
    assert_allclose(bias_estimate([], 2), [0.0, 0.0])


def test_differences_of_estimates_have_the_spread_that_is_claimed():
    """Over seeds Δᵀ Cov(Δ)⁻¹ Δ has mean d or less, and is not far below it where data are left out."""
    statistics: dict[str, list[float]] = {}
    for seed in range(5):
        case = Case(noisy(wave(nodes=20, times=31, modes=1), seed), gap_x=2.0, gap_t=2.0)
        fit = Profile().fit(case.likelihood())
        for variation, refit in case.refits(fit):
            statistics.setdefault(variation.name, []).append(compare(fit, variation, refit).statistic)
    assert all(np.mean(values) < 2 * 3 for values in statistics.values())
    for name in ("every second frame", "every second node"):
        assert np.mean(statistics[name]) > 0.5


def test_refits_may_have_their_operators_in_another_order():
    case = Case(noisy(wave(), 0))
    fit = Profile().fit(case.likelihood())
    names = tuple(reversed(case.names))
    variation, refit = case.refits(fit)[0]
    turned = Profile().fit(case.likelihood().restrict(names))
    found = compare(fit, variation, turned)
    assert_allclose(found.difference, 0, atol=1e-6 * np.sqrt(np.diag(covariance_of(fit))).max())
    assert compare(fit, variation, refit).theta.shape == (2,)


def test_elements_that_are_better_in_space_do_not_bound_the_bias_in_time():
    better = replace(moved("Q2 elements", "width", 0.5, 0.5, 0.0), better=("space",))
    in_time, in_space = moved("frames", "time", 9.0, 9.0, 3.0), moved("nodes", "space", 9.0, 9.0, 3.0)
    assert_allclose(bias_estimate([in_time, in_space, better], 1), 3.5)


def test_where_the_ratio_of_errors_is_measured_the_bias_counts_not_the_difference():
    case = Case(noisy(wave(), 0))
    fit = Profile().fit(case.likelihood())
    variation, refit = case.refits(fit)[0]
    far = replace(refit, theta=refit.theta + 12 * np.sqrt(np.diag(covariance_of(fit))))
    plain = compare(fit, replace(variation, ratio=11.0, order=1.0), far)
    measured = compare(fit, replace(variation, ratio=11.0, order=1.0, measured=True), far)
    assert plain.p < 1e-6
    assert measured.p > 0.1  # a tenth of it is 1.2 standard deviations
    assert_allclose(measured.bias, plain.bias)
    assert compare(fit, replace(variation, ratio=2.0, order=1.0, measured=True), far).p < 1e-6


def test_chances_in_words_are_never_zero():
    assert (chance(0.034), chance(0.034, 2), chance(0.0)) == ("p = 0.03", "p = 0.034", "p < 1e-99")
