"""Discoveries with products of derivatives: the answer, what the result says of it, and a library that lacks one."""

from dataclasses import replace

import numpy as np
import pytest

import bvsi
from bvsi.check.variations import variations
from bvsi.infer import Profile
from bvsi.studies.data_derivatives import KPZ, TRIANGLES, WITHOUT

TRUTH = np.array([KPZ.truth["dx(dx(u))"], KPZ.truth["dx(u)**2"]])


@pytest.fixture(scope="module")
def clean():
    return KPZ.data(np.random.default_rng(7))


@pytest.fixture(scope="module")
def noisy(clean):
    return bvsi.add_noise(clean, 0.05 * float(np.sqrt(np.mean(clean.fields["u"] ** 2))), np.random.default_rng(8))


@pytest.fixture(scope="module")
def found(noisy):
    return bvsi.discover(noisy, bvsi.Library({"u": list(KPZ.candidates)}))


def test_the_right_terms_with_fair_error_bars_and_a_check_of_the_derivatives(found):
    assert set(found.names) == set(KPZ.truth)
    assert np.all(np.abs(found.theta - TRUTH) < 3 * found.sd)
    assert np.all(found.sd < 0.05 * TRUTH)
    assert found.verdict == "consistent"
    assert {"every second node", "derivatives over fewer nodes"} <= {c.name for c in found.check.comparisons}


def test_it_says_how_derivatives_were_taken(found):
    nodes = 2 * round(found.method.tests.reach["x"]) + 1
    words = f"derivatives of the data by polynomials of degree 8 fitted to {nodes} nodes"
    assert words in found.settings["discretisation"]
    assert found.settings["reason"].endswith(f"data for dx(u)**2 by polynomials of degree 8 fitted to {nodes} nodes")
    assert found.settings["reason"] in found.details
    assert bvsi.discovery.method.Method.read(found.settings["method"]) == found.method


def test_what_the_fit_of_derivatives_damps_is_far_below_the_error_bars(found, clean, noisy):
    """Data without noise, with the tests and the weights of the noisy ones: all that is off is the discretisation."""
    setup = bvsi.discovery.method.choose_method(
        [bvsi.noise.measurement.measure(noisy, None)], bvsi.Library({"u": list(KPZ.truth)}), found.method
    ).setup
    still = setup.with_(data=(clean,), variance=({"u": np.array(0.0)},))
    theta = Profile().fit(still.likelihood(), start=TRUTH).theta
    assert np.all(np.abs(theta - TRUTH) < 0.25 * found.sd)


def test_a_library_without_the_operator_is_not_consistent(noisy):
    assert bvsi.discover(noisy, bvsi.Library({"u": list(WITHOUT.candidates)})).verdict != "consistent"


@pytest.mark.parametrize("level, words", [(0.01, "splines through the nodes"), (0.1, "polynomials of degree 6")])
def test_on_triangles_derivatives_are_averaged_where_noise_asks_for_it(level, words):
    """The check then has the splines beside the polynomials; wider tests make no derivative better."""
    case = replace(TRIANGLES, times=9)
    clean = case.data(np.random.default_rng(7))
    sigma = level * float(np.sqrt(np.mean(clean.fields["u"] ** 2)))
    noisy = bvsi.add_noise(clean, sigma, np.random.default_rng(8))
    measured = bvsi.noise.measurement.measure(noisy, bvsi.IID(sigma))
    choice = bvsi.discovery.method.choose_method([measured], bvsi.Library({"u": list(case.truth)}))
    assert words in choice.reason
    found = {v.name: v.better for v in variations(choice.setup)}
    assert found.get("derivatives over fewer nodes", ()) == (() if level == 0.01 else ("space",))
    assert "space" not in found.get("wider tests", ())
