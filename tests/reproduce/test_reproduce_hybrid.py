"""The Fokker–Planck study with non-Gaussian priors, on a small grid."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.app.comparison import compare
from bvsi.data import Grid
from bvsi.infer import NUTS
from bvsi.infer.posteriors import ChainPosterior, ParticlePosterior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.predict import potential_map
from bvsi.studies.problems import fokker_planck as problem
from bvsi.studies.reproduce import fokker_planck_hybrid as study

pytest.importorskip("nutpie")


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """10 × 10 cells without discretisation error: likelihood, axes, true potential."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "N_FINE", 10)
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("cache")))
        data = problem.observed(problem.Case(nx=10, sigma=1e-3, seed=0))
    assert isinstance(data.geometry, Grid)
    likelihood = residual_likelihood(problem.residual_system(data), IID(1e-3))
    axes = dict(data.geometry.axes)
    truth = np.tensordot(list(problem.TRUTH.values()), potential_map(tuple(problem.TRUTH), axes).values, axes=1)
    return likelihood, axes, truth


@pytest.fixture(scope="module")
def hybrid(case):
    return study.run(*case, nuts=NUTS(draws=200, tune=100, chains=2))


def test_the_priors_are_those_of_the_paper(case):
    """Their moments are eq:FP_EM_priors."""
    bound = study.PRIOR.bind(case[0].names)
    assert_allclose(bound.gaussian.mean, [3.08, 0, 0, 0, 0], atol=5e-3)
    assert_allclose(1 / np.diag(bound.gaussian.precision), [2.69, 2, 2, 2, 2], atol=5e-3)


def test_particles_agree_with_chains_on_the_same_target(hybrid):
    particles, chains = hybrid.fits["hybrid"].posterior, hybrid.fits["NUTS"].posterior
    assert isinstance(particles, ParticlePosterior)
    assert isinstance(chains, ChainPosterior)
    assert len(particles.particles) == 20
    assert_allclose(particles.variance / chains.variance, 1, atol=0.25)
    assert_allclose((particles.mean - chains.mean) / np.sqrt(chains.variance), 0, atol=0.2)
    assert np.all(particles.particles[:, 0] > 0)


def test_the_calibrated_profile_target_is_nearer_to_the_truth(hybrid):
    assert problem.error(hybrid.fits["unbiased"]) < 0.2 * problem.error(hybrid.fits["hybrid"])
    assert hybrid.mse["unbiased"] < 0.1 * hybrid.mse["hybrid"]


def test_the_predictive_potential_is_that_of_the_particles(case, hybrid):
    Phi = potential_map(case[0].names, case[1])
    draws = np.tensordot(hybrid.fits["hybrid"].posterior.particles, Phi.values, axes=1)
    assert_allclose(hybrid.potential["mean"], draws.mean(axis=0), atol=1e-10)
    assert_allclose(hybrid.potential["variance"], draws.var(axis=0, ddof=1), rtol=1e-8)


def test_table_and_verdict_set_the_paper_beside_the_chains(hybrid):
    table = "\n".join([study.table(hybrid), *study.verdict(hybrid), *study.pieces(hybrid)])
    for text in ("hybrid", "paper", "NUTS", "unbiased", "3.00e-03", "7.89", "The paper's variances over those of NUTS"):
        assert text in table
    result = json.loads(json.dumps(study.summary(hybrid)))
    ratios = result["variance_over_nuts"]["hybrid"]
    assert set(ratios) == set(problem.TRUTH)
    assert_allclose(list(ratios.values()), 1, atol=0.25)
    assert result["paper_variance_over_nuts"]["laplacian(p)"] > 0


def test_the_figures_are_written(case, hybrid, tmp_path):
    files = [path.name for path, _ in study.draw(hybrid, case[1], case[2], tmp_path)]
    assert files == ["hybrid_covariance.png", "hybrid_potential.png", "hybrid_comparison.png"]
    assert all((tmp_path / name).stat().st_size > 10_000 for name in files)


def test_without_the_sampler_the_rest_is_there(hybrid):
    fits = {method: fit for method, fit in hybrid.fits.items() if method != "NUTS"}
    without = replace(hybrid, fits=fits, comparison=compare(fits))
    assert "bvsi[mcmc]" in study.verdict(without)[-1]
    assert "variance_over_nuts" not in study.summary(without)
