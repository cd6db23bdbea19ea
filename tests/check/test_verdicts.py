"""Each verdict on exact data whose fault is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.check import Verdict, check, variations
from bvsi.check.assessment import _excess, model_error
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.infer import Profile
from bvsi.infer.priors import Normal, Prior
from bvsi.likelihood import Block, Stacked, Tiles
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import CrankNicolson
from bvsi.setup import Setup
from bvsi.spaces import Q1, Galerkin
from check.diagnose_cases import SIGMA, TRUTH, Case, noisy, wave

FILTERED = {"u": SIGMA}


@pytest.mark.parametrize("seed", [0, 1])
def test_adequate_data_are_consistent_and_keep_their_error_bars(seed):
    found = Case(noisy(wave(), seed)).checked()
    assert found.verdict is Verdict.CONSISTENT
    assert found.reasons == ()
    assert {c.name for c in found.comparisons} == {
        "every second frame", "every second node", "wider tests",
    }  # fmt: skip
    sd = np.abs(found.comparisons[0].difference / found.comparisons[0].z)
    assert np.all(found.bias < 0.5 * sd)


def test_too_few_frames_are_told_and_the_bias_covers_the_error():
    case = Case(noisy(wave(times=25), 0), gap_t=1.0)
    found = case.checked()
    fit = Profile().fit(case.likelihood())
    error = np.abs(fit.theta - np.array([TRUTH[name] for name in fit.names]))
    assert found.verdict is Verdict.TIME
    assert "frames" in found.advice
    assert np.any(error > 4 * np.sqrt(fit.posterior.variance))
    assert np.all(error < 3 * np.sqrt(fit.posterior.variance + found.bias**2))
    assert_array_equal(found.covariance_added, np.diag(found.bias**2))


def test_too_few_nodes_are_told():
    found = Case(noisy(wave(nodes=16, modes=7), 0), gap_x=1.0).checked()
    assert found.verdict is Verdict.SPACE
    assert "finer grid" in found.advice


def test_a_missing_operator_is_told_and_not_taken_for_poor_resolution():
    found = Case(noisy(wave(), 0), names=("dx(u)",)).checked(filter_sigma=FILTERED)
    assert found.verdict is Verdict.OPERATOR
    assert "library" in found.advice
    assert len(set(found.reasons)) == len(found.reasons)


@pytest.mark.parametrize("weighting", [Stacked(), Tiles(120), Block()], ids=repr)
def test_stretches_of_the_record_scatter_as_the_noise_model_says(weighting):
    """diag(H⁻¹SH⁻¹)/diag(H⁻¹) is χ²_7/7, of which what is below one counts as one: 1.21 on average."""
    cases = [Case(noisy(wave(nodes=24, times=81, modes=1), seed), gap_x=2.0, gap_t=2.0) for seed in range(16)]
    likelihoods = [case.setup.with_(weighting=weighting).likelihood() for case in cases]
    found = np.mean([model_error(Profile().fit(one), one) for one in likelihoods], axis=0)
    assert np.all(np.abs(found - 1.21) < 0.25)


def test_error_bars_beside_a_misfit_have_the_model_error_included():
    """Without its third operator, the diffusivity is another one at every time: by far more than the misfit says."""
    growing = wave()
    slow = growing.with_fields({"u": growing.fields["u"] * np.exp(0.3 * np.sin(growing.times))[:, None]})
    found = Case(noisy(slow, 0)).checked(filter_sigma=FILTERED)
    assert found.verdict is Verdict.OPERATOR
    assert "model error included" in found.reasons[-1]
    excess = np.diag(found.covariance_added) - found.bias**2
    assert np.sqrt(excess[1]) > 0.005  # of 0.05; the noise alone gives 2e-4


def test_a_misfit_widens_error_bars_however_the_noise_is_known_and_with_priors():
    """With a stated level, or a prior, error bars were those of the noise alone, many times too small."""
    data = noisy(wave(), 0)
    library, prior = Library({"u": ["dx(dx(u))", "u"]}, keep="all"), Prior({"dx(dx(u))": Normal(0.0, 1.0)})
    ways = ({}, {"noise": IID(SIGMA)}, {"prior": prior}, {"noise": IID(SIGMA), "prior": prior})
    found = [discover(data, library, **way) for way in ways]
    for one in found:
        assert one.check.verdict is Verdict.OPERATOR
        assert any("model error included" in reason for reason in one.check.reasons)
        np.testing.assert_allclose(one.sd, found[0].sd, rtol=0.2)


def test_what_a_prior_knows_stays_known_beside_a_misfit():
    """1/(1/(f v) + 1/v_s − 1/v): no more than a prior allows, all of f v without one, nothing that is there already."""
    v, f = np.ones(4), np.full(4, 25.0)
    shown = np.array([1.0, 0.5, 1 / 101, 30.0])
    total = shown + _excess(v, f, shown)
    np.testing.assert_allclose(total, [25.0, 1 / (1 / 25 + 1), 1 / (1 / 25 + 100), 30.0])
    np.testing.assert_allclose(_excess(v, f, None), 24.0)


@pytest.mark.parametrize("factor", [1 / 1.5, 1.5])
def test_a_wrong_noise_level_is_told(factor):
    found = Case(noisy(wave(), 0), sigma=factor * SIGMA).checked(filter_sigma=FILTERED)
    assert found.verdict is Verdict.NOISE
    assert "error bars" in found.advice


def test_a_level_known_to_half_its_size_is_not_wrong_by_a_factor():
    found = Case(noisy(wave(), 0), sigma=1.2 * SIGMA).checked(noise_error=0.2)
    assert found.verdict is Verdict.CONSISTENT


def test_noise_that_grows_with_the_signal_is_told():
    data = wave()
    u, rng = data.fields["u"], np.random.default_rng(0)
    size = SIGMA / np.sqrt(np.mean(u**2))
    found = Case(data.with_fields({"u": u * (1 + size * rng.standard_normal(u.shape))})).checked()
    assert found.verdict is Verdict.NOISE
    assert any("grows with the signal" in reason for reason in found.reasons)
    assert "SignalNoise(" in found.advice


def test_correlated_noise_is_told():
    data = wave()
    rng = np.random.default_rng(0)
    xi = rng.standard_normal(data.fields["u"].shape)
    xi = (xi + np.roll(xi, 1, axis=1)) / np.sqrt(2)
    found = Case(data.with_fields({"u": data.fields["u"] + SIGMA * xi})).checked()
    assert found.verdict is Verdict.NOISE
    assert any("correlated along x" in reason for reason in found.reasons)
    assert not any("correlated along time" in reason for reason in found.reasons)
    assert "Blurred(" in found.advice


def test_the_printout_has_verdict_advice_and_all_evidence():
    found = Case(noisy(wave(times=25), 0), gap_t=1.0).checked()
    text = str(found)
    assert text.startswith("check: under-resolved in time")
    assert found.advice in text
    for row in (*found.reasons, *(t.name for t in found.tests), *(c.name for c in found.comparisons)):
        assert row in text


def test_frequencies_at_the_limit_are_told_where_nothing_can_be_left_out():
    case = Case(noisy(wave(), 0))
    likelihood = case.likelihood()
    fit = Profile().fit(likelihood)
    for cycles, verdict in [(0.45, Verdict.TIME), (0.2, Verdict.CONSISTENT)]:
        found = check(fit, likelihood, [], noise_error=0.0, rng=np.random.default_rng(0), cycles={"time": cycles})
        assert found.verdict is verdict


def test_a_noise_error_that_is_none_is_refused():
    case = Case(noisy(wave(), 0))
    likelihood = case.likelihood()
    with pytest.raises(BvsiError, match="noise_error"):
        check(Profile().fit(likelihood), likelihood, [], noise_error=float("nan"), rng=np.random.default_rng(0))


@pytest.mark.parametrize("sigma, verdict", [(5e-2, Verdict.CONSISTENT), (2e-3, Verdict.TIME)])
def test_elements_with_block_weighting_are_checked_as_well(sigma, verdict):
    data = noisy(wave(nodes=32, times=121, modes=1), 0, sigma)
    library, noise = Library({"u": list(TRUTH)}), IID(sigma)
    setup = Setup((data,), (noise,), ({},), library, Galerkin(Q1), CrankNicolson(), Block())
    likelihood = setup.likelihood()
    fit = Profile().fit(likelihood)
    refits = [(v, Profile().fit(v.setup.likelihood())) for v in variations(setup)]
    found = check(fit, likelihood, refits, noise_error=0.0, rng=np.random.default_rng(0), data=[data])
    error = np.abs(fit.theta - np.array([TRUTH[name] for name in fit.names]))
    assert found.verdict is verdict
    assert np.all(error < 3 * np.sqrt(fit.posterior.variance + found.bias**2))
