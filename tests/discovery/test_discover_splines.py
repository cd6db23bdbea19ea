"""The default path on exact solutions: spline tests, measured noise, best subsets."""

from __future__ import annotations

import collections
import gc
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, Method, discover
from bvsi.infer.posteriors import NormalInverseGammaPosterior
from bvsi.infer.starts import Starts
from bvsi.likelihood import ResidualLikelihood, Stacked, Tiles
from bvsi.likelihood.stacked import Pilot
from bvsi.noise import IID
from bvsi.noise.measurement import NoiseLevels
from bvsi.operators import Library
from bvsi.residual.thinning import Thinning
from bvsi.residual.widths import Widths
from bvsi.select import BestSubset
from discovery.exact_cases import BURGERS, BURGERS_TRUTH, ROTATION, ROTATION_TRUTH, burgers, noisy, ring, rotation

SIGMA = 0.01


def pulls(found: Discovery, truth: dict[str, float]) -> np.ndarray:
    return (found.theta - np.array([truth[name] for name in found.names])) / found.sd


@pytest.fixture(scope="module")
def found() -> Discovery:
    return discover(noisy(burgers(), SIGMA), BURGERS, check=False)


def test_settings_tell_what_was_done(found):
    assert re.match(r"B-splines of degree 7, .* TemporalTests", found.settings["discretisation"])
    assert found.settings["reason"].startswith("spline tests: ")
    assert found.settings["method"] == repr(found.method)
    assert found.method.weighting == Stacked()
    assert found.method.selection == BestSubset()
    assert "by filters" in found.settings["noise"]


def test_records_of_thresholds_and_the_method_are_printed_as_they_are_given(found):
    """Evaluated again, what is printed makes the records that were used."""
    made = {"noise levels": NoiseLevels(), "starts": Starts(), "widths": Widths(), "thinning": Thinning()}
    names = {type(record).__name__: type(record) for record in made.values()}
    assert {key: eval(found.settings[key], names) for key in made} == made
    line = next(line for line in found.details.splitlines() if line.startswith("method: "))
    assert Method.read(line.removeprefix("method: ")) == found.method


def test_the_noise_level_is_that_of_filters_refined_by_the_fit(found):
    assert isinstance(found.posterior, NormalInverseGammaPosterior)
    filters = float(re.search(r"σ = (\S+) by filters", found.settings["noise"])[1])
    assert_allclose(filters * np.sqrt(found.posterior.noise_variance), SIGMA, rtol=0.1)
    assert_allclose(found.chi2, 1, atol=0.3)


@pytest.mark.parametrize("sigma", [1e-4, 1e-3, 1e-2, 3e-2])
@pytest.mark.parametrize("noise", ["stated", "measured"])
def test_burgers_is_found_at_all_levels_of_noise(sigma, noise):
    data = noisy(burgers(), sigma, seed=1)
    found = discover(data, BURGERS, noise=IID(sigma) if noise == "stated" else None, check=False)
    assert set(found.names) == set(BURGERS_TRUTH)
    assert_allclose(pulls(found, BURGERS_TRUTH), 0, atol=4)
    assert found.sd[0] < 0.4 * sigma / 0.22  # error bars go with the noise


def test_a_search_that_begins_on_a_pilot_ends_at_the_same_estimate(found, monkeypatch):
    """The posterior is that of all residuals, to a small part of a standard deviation."""
    monkeypatch.setattr("bvsi.likelihood.stacked.PILOT", Pilot(work=0, rows=70, tiles=1))
    some, made = ResidualLikelihood.some_tiles, []
    monkeypatch.setattr(ResidualLikelihood, "some_tiles", lambda self: made.append(some(self)) or made[-1])
    piloted = discover(noisy(burgers(), SIGMA), BURGERS, check=False)
    assert made[0] is not None
    assert piloted.names == found.names
    assert_allclose((piloted.theta - found.theta) / found.sd, 0, atol=1e-4)
    assert_allclose(piloted.sd, found.sd, rtol=1e-4)


@pytest.mark.parametrize("shared", [0.0, 1 / 3])
def test_burgers_is_found_with_tiles(found, shared):
    """The same equation, checked; its error bars are wider, since the weights leave correlation out."""
    tiled = discover(noisy(burgers(), SIGMA), BURGERS, method=Method(weighting=Tiles(rows=150, shared=shared)))
    assert set(tiled.names) == set(BURGERS_TRUTH)
    assert_allclose(pulls(tiled, BURGERS_TRUTH), 0, atol=3)
    assert np.all(tiled.sd > 0.99 * found.sd)
    assert np.all(tiled.sd < 2 * found.sd)
    assert tiled.verdict == "consistent"


@pytest.mark.parametrize("nodes, times", [(20, 17), (24, 14), (33, 29)])
def test_few_data_with_little_noise_are_fitted_to_their_noise(nodes, times):
    """Where quadrature is not exact for the test functions, χ²/n is in the thousands here."""
    x, t = np.arange(nodes) / nodes, np.linspace(0, 0.5, times)[:, None]
    truth, sigma = {"laplacian(u)": 0.02, "u": -0.5}, 1e-4
    modes = ((0, 1.5, 0.0), (1, 1.0, 1.0), (2, 0.4, 0.0))
    u = sum(a * np.cos(2 * np.pi * k * x + p) * np.exp(-(0.5 + 0.02 * (2 * np.pi * k) ** 2) * t) for k, a, p in modes)
    data = noisy(Data(t[:, 0], {"u": u}, Grid(x=x, periodic={"x": 1.0})), sigma)
    library = Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2", "u*dx(u)"]})
    found = discover(data, library, noise=IID(sigma), check=False)
    assert set(found.names) == set(truth)
    assert 0.5 < found.chi2 < 1.6
    assert_allclose(pulls(found, truth), 0, atol=5)


@pytest.mark.parametrize("wave_number", [6, 8, 10])
def test_short_waves_on_a_ring_leave_a_positive_covariance(wave_number):
    """Waves of three to five nodes ask for functions as narrow as can be."""
    grid, t = ring(32), np.linspace(0, 1, 41)[:, None]
    u = sum(np.exp(-0.002 * k**2 * t) * np.cos(k * (grid.axes["x"] - 0.5 * t) + k) for k in (1, 3, wave_number))
    truth = {"laplacian(u)": 0.002, "dx(u)": -0.5}
    library = Library({"u": ["laplacian(u)", "dx(u)", "u", "u**2"]})
    found = discover(noisy(Data(t[:, 0], {"u": u}, grid), SIGMA), library, check=False)
    assert set(found.names) == set(truth)
    assert_allclose(pulls(found, truth), 0, atol=4.5)


def test_two_fields_have_an_equation_each():
    found = discover(noisy(rotation(), SIGMA), ROTATION, check=False)
    assert set(found.names) == set(ROTATION_TRUTH)
    assert_allclose(pulls(found, ROTATION_TRUTH), 0, atol=4)
    u, v = found.equation.splitlines()
    assert re.fullmatch(r"u_t = 0\.\d+\(\d\) laplacian\(u\) − [01]\.\d+\(\d\) v", u)
    assert re.fullmatch(r"v_t = 0\.0\d+\(\d\) laplacian\(v\) \+ 0\.\d+\(\d\) u", v)


def test_several_experiments_know_more():
    data = [noisy(burgers(), SIGMA, 1), noisy(burgers(32, 31), 2 * SIGMA, 2)]
    both = discover(data, BURGERS, check=False)
    one = discover(data[0], BURGERS, check=False)
    assert set(both.names) == set(BURGERS_TRUTH)
    assert len(both.chi2_blocks) == 2
    assert np.all(both.sd < one.sd * 1.05)
    assert_allclose(pulls(both, BURGERS_TRUTH), 0, atol=4)


def test_spline_tests_need_no_boundary_condition():
    """Part of the ring, as an interval."""
    whole = noisy(burgers(64, 41), SIGMA, 3)
    part = Data(whole.times, {"u": whole.fields["u"][:, :45]}, Grid(x=whole.geometry.axes["x"][:45]))
    found = discover(part, BURGERS, check=False)
    assert set(found.names) == set(BURGERS_TRUTH)
    assert_allclose(pulls(found, BURGERS_TRUTH), 0, atol=4)


def test_outliers_do_little_harm():
    data = noisy(burgers(), SIGMA, 4)
    u = data.fields["u"].copy()
    u.ravel()[np.random.default_rng(0).choice(u.size, 20, replace=False)] += 0.4
    wrong = data.with_fields({"u": u})
    found = discover(wrong, BURGERS, check=False)
    assert "outliers" in found.settings["noise"]
    assert set(found.names) == set(BURGERS_TRUTH)
    assert_allclose(pulls(found, BURGERS_TRUTH), 0, atol=4)
    trusted = discover(wrong, BURGERS, robust=False, noise=IID(SIGMA), check=False)
    assert trusted.chi2 > 1.5 * found.chi2


def test_the_wave_equation_is_found():
    """u_tt = c² u_xx."""
    grid, t = ring(32), np.linspace(0, 3, 61)[:, None]
    x = grid.axes["x"]
    u = np.cos(x - 1.3 * t) + 0.5 * np.cos(2 * x + 2.6 * t + 1) + 0.3 * np.cos(3 * x - 3.9 * t)
    library = Library({"u": ["laplacian(u)", "u", "dx(u)", "u**2"]}, time_order=2)
    found = discover(noisy(Data(t[:, 0], {"u": u}, grid), SIGMA), library, check=False)
    assert found.names == ("laplacian(u)",)
    assert_allclose(pulls(found, {"laplacian(u)": 1.69}), 0, atol=4)
    assert found.equation.startswith("u_tt = 1.")


def test_draws_follow_the_generator_and_are_the_same_by_default(found):
    data = noisy(burgers(), SIGMA)
    once, again, other = (discover(data, BURGERS, rng=rng) for rng in (None, None, np.random.default_rng(7)))
    z = [[test.z for test in one.check.tests if np.isfinite(test.z)] for one in (once, again, other)]
    assert z[0] == z[1]
    assert z[0] != z[2]
    assert_allclose(once.theta, other.theta)
    assert np.all(once.theta == found.theta)
    scores = [[visited.score for visited in one.path.visited] for one in (once, again, other)]
    assert scores[0] == scores[1]
    assert scores[0] != scores[2]  # the moment equations of the search draw noise as well


def test_nothing_of_a_discovery_stays_in_memory_when_it_is_gone():
    """Arrays of spaces and likelihoods must not wait for the collector of cycles, which large arrays do not wake."""
    data = noisy(burgers(), SIGMA)

    def ours() -> collections.Counter:
        heavy = ("bvsi.spaces", "bvsi.likelihood", "bvsi.linalg", "bvsi.residual", "bvsi.data", "bvsi.infer")
        kinds = (type(o) for o in gc.get_objects())
        return collections.Counter(k.__name__ for k in kinds if str(k.__module__).startswith(heavy))

    discover(data, BURGERS)
    gc.collect()
    gc.disable()
    try:
        before = ours()
        discover(data, BURGERS)
        assert ours() == before
    finally:
        gc.enable()
