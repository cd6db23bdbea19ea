"""What has to travel can be pickled, and is the same afterwards."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bvsi
from bvsi.errors import InfeasibleError, NotPositiveDefiniteError, RankError
from bvsi.infer import Profile
from bvsi.likelihood import Stacked, Tiles, residual_likelihood
from bvsi.noise import IID
from bvsi.residual import BackwardEuler, TemporalTests, assemble
from bvsi.spaces import SplineTests

from .cluster_cases import CASES, LIBRARY, SIGMA, TIMES, waves


def back(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize(
    ("error", "extra"),
    [
        (RankError("message", (("a", "b"),)), {"operators": (("a", "b"),)}),
        (NotPositiveDefiniteError("message", "what", 4), {"label": "what", "row": 4}),
        (InfeasibleError("message", ("a > 0",)), {"rows": ("a > 0",)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors(error, extra):
    again = back(error)
    assert type(again) is type(error)
    assert str(again) == "message"
    assert {name: getattr(again, name) for name in extra} == extra


@pytest.mark.parametrize("name", [*CASES, "tiles"])
def test_likelihoods_that_were_used(name):
    case = replace(CASES["stacked"], weighting=Tiles(60)) if name == "tiles" else CASES[name]
    likelihood = case.local()
    before = likelihood.normal_equations(case.theta)
    after = back(likelihood).normal_equations(case.theta)
    assert_array_equal(after.H, before.H)
    assert_array_equal(after.g, before.g)


def test_a_dense_factor_stays_behind():
    one = residual_likelihood(
        assemble(
            waves(np.linspace(0, 1, 14), 12),
            LIBRARY,
            discretisation=SplineTests(gap=1.5),
            stencil=TemporalTests(3, 1.5),
        ),
        IID(SIGMA),
        Stacked(),
    )
    theta = np.full(5, 0.02)
    before = one.normal_equations(theta)
    (plan,) = one.plans
    assert plan.dense
    assert plan._last
    again = back(one)
    assert not again.plans[0]._last
    assert_array_equal(again.normal_equations(theta).H, before.H)


def test_fits():
    fit = Profile().fit(CASES["backward Euler"].local())
    again = back(fit)
    assert_array_equal(again.posterior.covariance, fit.posterior.covariance)
    assert again.status == fit.status


@pytest.mark.parametrize("check", [False, True])
def test_discoveries(check):
    found = bvsi.discover(
        waves(TIMES), LIBRARY, noise=IID(SIGMA), method=bvsi.Method(stencil=BackwardEuler()), check=check
    )
    again = back(found)
    assert str(again) == str(found)
    assert_array_equal(again.posterior.covariance, found.posterior.covariance)


def test_spaces_are_shared_where_they_arrive():
    space = bvsi.Galerkin().build(waves(TIMES).geometry, 2)
    one, other = back(space), back(space)
    assert one is other
    assert_array_equal(one.mass, space.mass)
    assert_array_equal(one.cells.points, space.cells.points)
    assert one.name == space.name
    assert np.array_equal(one.pattern.indices, space.pattern.indices)
