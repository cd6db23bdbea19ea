"""The BIC with the exact density of the data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bvsi
from bvsi.errors import BvsiError
from bvsi.infer import Profile
from bvsi.likelihood import residual_likelihood
from bvsi.likelihood.stacked import Stacked
from bvsi.noise import IID, add_noise
from bvsi.residual import assemble
from bvsi.select import Backward, ExactBIC, ResidualBIC
from bvsi.studies.problems import fokker_planck
from inference.cases import reaction_system
from likelihood.stacked_cases import TEMPORAL, stacked_likelihood
from selection.selection_cases import SPURIOUS, reaction_likelihood


def stacked_reaction(sigma: float, *, known: bool = True):
    block = reaction_likelihood(sigma, known=known)
    return residual_likelihood(block.system, block.noise, Stacked())


@pytest.fixture(scope="module")
def fokker_planck_system(tmp_path_factory):
    """10 × 10 cells, ten steps, own discretisation, one operator that is not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("exact")))
        clean = fokker_planck.forward_solve(10, accurate_time=False)
    clean = replace(clean, times=clean.times[:11], fields={"p": clean.fields["p"][:11]})
    data = add_noise(clean, 1e-2, np.random.default_rng(0))
    return assemble(data, fokker_planck.library(fokker_planck.CANDIDATES[:6]))


def selected(system, criterion, weighting) -> set[str]:
    likelihood = residual_likelihood(system, IID(1e-2), weighting)
    return set(Backward(criterion).select(likelihood, keep=["laplacian(p)"]).best.names)


def test_it_selects_the_true_operators_where_the_residual_density_does_not(fokker_planck_system):
    """The residual BIC as in the paper: block weighting and the lagged estimate, whose bias is part of its failure."""
    assert selected(fokker_planck_system, ExactBIC(Profile(tol=0.05)), Stacked()) == set(fokker_planck.TRUTH)
    assert selected(fokker_planck_system, ResidualBIC(), None) != set(fokker_planck.TRUTH)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_it_is_the_density_of_the_data_and_a_penalty(known):
    likelihood, criterion = stacked_reaction(1e-3, known=known), ExactBIC()
    fit = criterion.fit(likelihood, None)
    density, n = likelihood.density(fit.theta, change=True), likelihood.system.n
    misfit = density.q.value if known else n + n * math.log(density.q.value / n)
    minus_twice_log = misfit + density.logdet.value - 2 * density.change.value + n * math.log(2 * math.pi)
    assert_allclose(criterion.score(likelihood, fit), minus_twice_log + 5 * math.log(n), rtol=1e-10)


@pytest.mark.parametrize("sigma, error", [(1e-4, 0.2), (1e-3, 1.0)])
def test_predicted_scores_of_small_coefficients_are_the_refitted_ones(sigma, error):
    likelihood, criterion = stacked_reaction(sigma), ExactBIC()
    fit = criterion.fit(likelihood, None)
    predicted = criterion.score(likelihood, fit) + criterion.removal(likelihood, fit)
    for name in SPURIOUS:
        smaller = likelihood.restrict([n for n in likelihood.names if n != name])
        refitted = criterion.score(smaller, criterion.fit(smaller, None))
        assert_allclose(predicted[likelihood.names.index(name)], refitted, atol=error)


def test_other_weightings_are_refused():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3))
    with pytest.raises(BvsiError, match=r"criterion: ExactBIC\(\) needs Stacked\(\) weighting"):
        ExactBIC().fit(likelihood, None)


def test_residuals_that_are_no_change_of_variables_are_refused():
    likelihood = stacked_likelihood("splines, linear", TEMPORAL)
    with pytest.raises(BvsiError, match=r"criterion: ExactBIC\(\) has no density here, use ProfileBIC"):
        ExactBIC().fit(likelihood, None)


def test_without_a_factor_it_is_refused():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3), Stacked(max_memory=0))
    criterion = ExactBIC()
    with pytest.raises(BvsiError, match="max_memory"):
        criterion.score(likelihood, criterion.fit(likelihood, None))


def test_it_is_public():
    assert bvsi.select.ExactBIC is ExactBIC
