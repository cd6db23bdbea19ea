"""Gaussian priors by name are priors of normal distributions; and the prior of the noise level."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.priors import Flat, GaussianPrior, InverseGammaPrior, Normal, Prior

NAMES = ("u", "a: v", "b: v", "w")
THETA = np.array([0.3, -0.2, 1.5, 4.0])
TERMS = {" v": (1.0, 4.0), "u": (-2.0, 0.5)}


@pytest.mark.parametrize("default", [None, (2.0, 0.25)], ids=["flat", "normal"])
def test_it_is_the_prior_of_normal_distributions(default):
    gaussian = GaussianPrior(TERMS, default=default)
    law = Flat() if default is None else Normal(*default)
    prior = Prior({name: Normal(*pair) for name, pair in TERMS.items()}, law)
    assert gaussian.prior == prior
    bound, density = gaussian.bind(NAMES), prior.bind(NAMES)
    assert_allclose(bound.mean, [-2.0, 1.0, 1.0, 0.0 if default is None else 2.0])
    assert_allclose(bound.precision, np.diag([2.0, 0.25, 0.25, 0.0 if default is None else 4.0]))
    assert_allclose(bound.gradient(THETA), density.gradient(THETA))
    other = THETA + np.array([0.1, 2.0, -1.0, 3.0])
    assert -0.5 * (bound.distance(THETA) - bound.distance(other)) == pytest.approx(
        density.logpdf(THETA) - density.logpdf(other)
    )


def test_the_same_pairs_make_the_same_prior():
    assert GaussianPrior(TERMS) == GaussianPrior(dict(TERMS))
    assert GaussianPrior(TERMS) != GaussianPrior(TERMS, default=(0.0, 1.0))
    assert repr(GaussianPrior({"u": (0.0, 1.0)})) == "GaussianPrior(terms={'u': (0.0, 1.0)}, default=None)"


def test_no_prior_is_flat():
    bound = GaussianPrior({}).bind(NAMES)
    assert not bound.precision.any()
    assert_allclose(bound.gradient(THETA), 0)


@pytest.mark.parametrize(
    "entry",
    [(0.0, 0.0), (0.0, -1.0), (np.nan, 1.0), (0.0, np.inf), 1.0, (1.0,), (1.0, 2.0, 3.0), ("1", "2"), "ab", None],
)
def test_entries_that_are_no_pair_are_refused(entry):
    with pytest.raises(BvsiError, match=r"prior of 'u': a pair \(mean, variance > 0\) is needed, not "):
        GaussianPrior({"u": entry})


@pytest.mark.parametrize("default", [(), (0.0, 0.0), 1.0, "flat"])
def test_defaults_that_are_no_pair_are_refused(default):
    with pytest.raises(BvsiError, match=r"prior of 'default': a pair \(mean, variance > 0\) is needed, not "):
        GaussianPrior({}, default=default)


def test_terms_that_are_no_mapping_of_names_are_refused():
    with pytest.raises(BvsiError, match="terms: a mapping"):
        GaussianPrior([("u", (0.0, 1.0))])
    with pytest.raises(BvsiError, match="terms: operator names"):
        GaussianPrior({3: (0.0, 1.0)})


@pytest.mark.parametrize("pair", [(-1.0, 0.0), (0.0, -1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_impossible_noise_priors_are_refused(pair):
    with pytest.raises(BvsiError, match="Inverse-Gamma prior: alpha and beta must not be negative"):
        InverseGammaPrior(*pair)
