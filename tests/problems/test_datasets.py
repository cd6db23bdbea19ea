"""Data sets by name: the truth is in the library, and noise is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.app import datasets
from bvsi.errors import BvsiError


@pytest.mark.parametrize("name", ["burgers", "fokker_planck_2d", "lorenz", "logistic"])
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
