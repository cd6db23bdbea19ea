"""Data sets by name: the truth is in the library, and noise is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

import bvsi
from bvsi.app import datasets
from bvsi.app.exports.arrays import operator_values
from bvsi.app.exports.system import system_of_library
from bvsi.errors import BvsiError
from bvsi.operators import Vocabulary
from bvsi.studies.problems.situations import SITUATIONS


@pytest.mark.parametrize(
    "name", ["burgers", "fokker_planck_2d", "lorenz", "logistic", "frap", "traffic", "video", "assay"]
)
def test_truth_is_among_the_candidates(name):
    case = datasets.load(name)
    assert set(case.truth) <= set(case.library.names)
    assert set(case.library.equations) <= set(case.data.names)


def test_noise_and_seed():
    clean, one, again, other = (
        datasets.load("burgers", noise=level, seed=seed).data.fields["u"]
        for level, seed in ((0, 0), (0.1, 1), (0.1, 1), (0.1, 2))
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert np.std(one - clean) == pytest.approx(0.1 * np.sqrt(np.mean(clean**2)), rel=0.02)


def test_what_is_not_there_is_refused():
    with pytest.raises(BvsiError, match="burgers"):
        datasets.load("burger")
    with pytest.raises(BvsiError, match="noise"):
        datasets.load("logistic", noise=-1.0)


@pytest.mark.parametrize("name", SITUATIONS)
def test_situations_obey_their_equation(name):
    made = SITUATIONS[name](np.random.default_rng(11))
    (field,), grid = made.clean.names, made.clean.geometry
    u = np.asarray(made.clean.fields[field]).reshape(-1, *grid.shape)
    system = system_of_library(made.library, Vocabulary.of(made.clean))
    parts = operator_values(system, grid, {field: u}, made.clean.times)[field]
    told = sum(made.truth.get(operator, 0.0) * part for operator, part in zip(made.library.names, parts, strict=True))
    middle = (slice(6, -2), *[slice(4, -4)] * len(grid.shape))  # away from fast decay and one-sided differences
    rate = np.gradient(u, made.clean.times, axis=0)
    assert np.abs(rate - told)[middle].max() < 0.03 * np.abs(rate)[middle].max()
    assert set(made.units) == {field, "t", *grid.names}


def test_what_a_situation_is_for():
    case = bvsi.datasets.load("traffic", seed=5)
    found = bvsi.discover(case.data, case.library, units=case.units, check=False)
    assert set(found.names) == set(case.truth)
    for name, value, sd in zip(found.names, found.theta, found.sd, strict=True):
        assert abs(value - case.truth[name]) < 4 * sd
    assert found.units["dx(rho)"] == "km/min"
    with pytest.raises(BvsiError, match="counted"):
        datasets.load("assay", noise=0.1)
    assert datasets.load("assay", seed=1).noise is not None
    clean = datasets.load("traffic", noise=0.0, seed=5).data.fields["rho"]
    assert 0 < np.std(np.asarray(case.data.fields["rho"]) / clean - 1) < 0.03
