"""Posteriors that are draws: moments, quantiles, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import ChainPosterior, ParticlePosterior

NAMES = ("a", "b")
DRAWS = np.random.default_rng(0).standard_normal((3, 50, 2)) * [1e-6, 1e3] + [1, -2]
PARTICLES = ParticlePosterior(NAMES, DRAWS.reshape(-1, 2))
CHAINS = ChainPosterior(NAMES, DRAWS)


@pytest.mark.parametrize("posterior", [PARTICLES, CHAINS], ids=["particles", "chains"])
def test_moments_and_quantiles_are_those_of_all_rows(posterior):
    rows = DRAWS.reshape(-1, 2)
    assert_allclose(posterior.mean, rows.mean(axis=0), rtol=1e-14)
    assert_allclose(posterior.covariance, np.cov(rows.T), rtol=1e-9)
    assert_allclose(posterior.variance, np.diag(posterior.covariance), rtol=1e-9)
    assert_allclose(posterior.interval(0.8), np.quantile(rows, [0.1, 0.9], axis=0).T, rtol=1e-14)


@pytest.mark.parametrize("batch", [1, 400, 10**6])
def test_linear_functions_do_not_depend_on_how_they_are_dealt_out(monkeypatch, batch):
    monkeypatch.setattr("bvsi.infer.posteriors.draws.BATCH", batch)
    Phi = np.random.default_rng(1).standard_normal((9, 2))
    expected = np.quantile(PARTICLES.rows @ Phi.T, [0.025, 0.975], axis=0).T
    assert_allclose(PARTICLES.linear_interval(Phi), expected, rtol=1e-12)
    assert_allclose(PARTICLES.linear_interval(np.eye(2), 0.6), PARTICLES.interval(0.6), rtol=1e-12)
    assert PARTICLES.linear_interval(np.empty((0, 2))).shape == (0, 2)


def test_a_sample_is_made_of_the_rows_and_repeats_with_the_seed():
    sample = CHAINS.sample(500, np.random.default_rng(2))
    known = {tuple(row) for row in CHAINS.rows}
    assert {tuple(row) for row in sample} <= known
    assert len({tuple(row) for row in sample}) > 120
    assert_array_equal(sample, CHAINS.sample(500, np.random.default_rng(2)))
    with pytest.raises(BvsiError, match="size"):
        CHAINS.sample(-1, np.random.default_rng(0))


def test_chains_count_where_the_integrator_failed():
    assert CHAINS.divergences == 0
    diverging = np.zeros((3, 50), dtype=bool)
    diverging[0, :7] = True
    assert ChainPosterior(NAMES, DRAWS, diverging=diverging).divergences == 7


@pytest.mark.parametrize("posterior", [PARTICLES, CHAINS], ids=["particles", "chains"])
def test_there_is_no_density(posterior):
    with pytest.raises(BvsiError, match="known by draws"):
        posterior.logpdf([0.0, 0.0])


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan])
def test_impossible_levels_are_refused(level):
    with pytest.raises(BvsiError, match="level"):
        PARTICLES.interval(level)


@pytest.mark.parametrize(
    "particles",
    [np.ones((3, 3)), np.ones(2), np.ones((1, 2)), np.ones((0, 2)), [[1, np.nan], [1, 1]], "text", [[1], [2, 3]]],
)
def test_impossible_particles_are_refused(particles):
    with pytest.raises(BvsiError, match="particles"):
        ParticlePosterior(NAMES, particles)


@pytest.mark.parametrize(
    ("label", "arguments"),
    [
        ("draws", {"draws": DRAWS[0]}),
        ("draws", {"draws": DRAWS[:1, :1]}),
        ("draws", {"draws": DRAWS * np.inf}),
        ("log_density", {"draws": DRAWS, "log_density": np.zeros((3, 49))}),
        ("log_density", {"draws": DRAWS, "log_density": np.full((3, 50), np.nan)}),
        ("diverging", {"draws": DRAWS, "diverging": np.zeros((50, 3), dtype=bool)}),
        ("diverging", {"draws": DRAWS, "diverging": np.zeros((3, 50))}),
    ],
)
def test_impossible_chains_are_refused(label, arguments):
    with pytest.raises(BvsiError, match=label):
        ChainPosterior(NAMES, **arguments)


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_names_have_to_differ(names):
    with pytest.raises(BvsiError, match="names"):
        ParticlePosterior(names, np.ones((3, len(names))))
