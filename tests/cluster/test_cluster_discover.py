"""Discoveries on a cluster are those of one machine."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bvsi
from bvsi.infer import NUTS, FrozenCovariance
from bvsi.noise import IID
from bvsi.residual import BackwardEuler
from bvsi.select import Backward, ProfileBIC, Sweep

from .cluster_cases import CASES, LIBRARY, SIGMA, TIMES, waves

OPTIONS = {
    "elements": {"method": bvsi.Method(stencil=BackwardEuler()), "noise": IID(SIGMA), "check": False},
    "noise from the data": {"method": bvsi.Method(stencil=BackwardEuler()), "check": False},
    "tied": {
        "method": bvsi.Method(stencil=BackwardEuler()),
        "noise": IID(SIGMA),
        "constraints": ["u*dx(u) == 2*dx(u)", "u < 5"],
        "check": False,
    },
}


def same(found: bvsi.Discovery, expected: bvsi.Discovery) -> None:
    assert found.names == expected.names
    sd = np.sqrt(expected.posterior.variance)
    assert_allclose(found.theta / sd, expected.theta / sd, rtol=0, atol=1e-6)
    assert_allclose(
        found.posterior.covariance / np.outer(sd, sd), expected.posterior.covariance / np.outer(sd, sd), atol=1e-6
    )
    assert_allclose(found.chi2, expected.chi2, rtol=1e-9)
    assert found.settings == expected.settings
    assert found.block_rows == expected.block_rows
    assert [v.names for v in found.path.visited] == [v.names for v in expected.path.visited]
    assert found.status == expected.status


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_discoveries_are_the_same(client, options):
    data = waves(TIMES)
    same(bvsi.discover(data, LIBRARY, client=client, **options), bvsi.discover(data, LIBRARY, **options))


def test_the_check_is_the_same(client):
    options = {"method": bvsi.Method(stencil=BackwardEuler(), selection=Sweep()), "noise": IID(SIGMA)}
    found = bvsi.discover(waves(TIMES), LIBRARY, client=client, **options)
    expected = bvsi.discover(waves(TIMES), LIBRARY, **options)
    same(found, expected)
    assert found.check.verdict == expected.check.verdict
    assert_allclose(found.check.covariance_added, expected.check.covariance_added, rtol=1e-5, atol=1e-12)


def test_spline_tests_of_two_experiments(client):
    data = [waves(np.linspace(0, 1, 31), 32), waves(np.linspace(0, 1, 26), 32, 0.5, 1)]
    options = {"noise": IID(SIGMA), "check": False}
    same(bvsi.discover(data, LIBRARY, client=client, **options), bvsi.discover(data, LIBRARY, **options))


def test_candidate_models_are_tasks(client):
    case, selection = CASES["backward Euler"], Backward(ProfileBIC(), refit_all=True)
    found, expected = (selection.select(likelihood) for likelihood in (case.on(client), case.local()))
    assert [v.names for v in found.visited] == [v.names for v in expected.visited]
    for one, other in zip(found.visited, expected.visited, strict=True):
        assert_allclose(one.score, other.score, rtol=1e-9)
        assert one.refitted == other.refitted


@pytest.mark.skipif(importlib.util.find_spec("nutpie") is None, reason="nutpie is not installed")
def test_chains_are_tasks(client):
    case = CASES["backward Euler"]
    local, few = case.local(), ["laplacian(u)", "u"]
    method = NUTS(draws=20, tune=20, chains=2, objective=FrozenCovariance(np.array([0.01, 0.0])))
    found, expected = (
        method.fit(likelihood.restrict(few), rng=np.random.default_rng(1)) for likelihood in (case.on(client), local)
    )
    assert_allclose(found.posterior.draws, expected.posterior.draws, rtol=1e-6)


@pytest.mark.parametrize(
    "inside", [{"unknown": {"k": "x"}}, {"parameters": {"K": (-1.0, 1.0)}}], ids=["function", "parameter"]
)
def test_functions_and_parameters_are_the_same(client, inside):
    data = waves(TIMES)
    text = "div(k*grad(u))" if "unknown" in inside else "div(exp(-K*u)*grad(u))"
    library = bvsi.Library({"u": ["u", "u*dx(u)", text]}, **inside)
    options = {"noise": IID(SIGMA), "check": False, "method": bvsi.Method(stencil=BackwardEuler())}
    found, expected = (bvsi.discover(data, library, client=one, **options) for one in (client, None))
    same(found, expected)
