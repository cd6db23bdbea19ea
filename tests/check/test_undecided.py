"""Where other operators explain the data as well, the verdict says so; where they do not, it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bvsi
from bvsi.check import Verdict
from bvsi.check.comparison import CheckLevels
from discovery.exact_cases import BURGERS_TRUTH, burgers, noisy


@pytest.fixture(scope="module")
def found() -> bvsi.Discovery:
    """u u_x and (1 + x/1000) u u_x cannot be distinguished at this noise."""
    library = bvsi.Library({"u": ["laplacian(u)", "u*dx(u)", "u*dx(u)*(1+0.001*x)", "u"]})
    return bvsi.discover(noisy(burgers(), 1e-2, 0), library)


def test_two_operators_that_are_alike(found):
    assert found.check.verdict is Verdict.UNDECIDED
    assert any("the best model without u*dx(u)" in reason for reason in found.check.reasons)
    assert "keep=" in found.check.advice


def test_the_probability_of_an_operator_that_another_may_replace(found):
    inclusion = found.inclusion()
    assert inclusion["laplacian(u)"] > 0.999
    assert max(inclusion[name] for name in found.names if name != "laplacian(u)") < 0.95


def test_without_the_other_operator_and_with_it_kept():
    data = noisy(burgers(), 1e-2, 0)
    plain = bvsi.discover(data, bvsi.Library({"u": ["laplacian(u)", "u*dx(u)", "u", "u**2"]}))
    assert set(plain.names) == set(BURGERS_TRUTH)
    assert plain.check.verdict is Verdict.CONSISTENT
    library = bvsi.Library({"u": ["laplacian(u)", "u*dx(u)", "u*dx(u)*(1+0.001*x)"]}, keep=["u*dx(u)"])
    assert bvsi.discover(data, library).check.verdict is Verdict.CONSISTENT


def test_the_odds_are_a_threshold(found):
    data = noisy(burgers(), 1e-2, 0)
    library = bvsi.Library({"u": list(found.candidates)})
    lenient = bvsi.discover(data, library, check=replace(CheckLevels(), odds=1e-9))
    assert lenient.check.verdict is Verdict.CONSISTENT


def test_margins_are_stored(found, tmp_path):
    found.save(tmp_path / "found.nc")
    again = bvsi.Discovery.load(tmp_path / "found.nc")
    assert again.path.margins == pytest.approx(found.path.margins)
    assert again.inclusion() == pytest.approx(found.inclusion())
    assert again.check.verdict is Verdict.UNDECIDED
    assert np.isfinite(list(again.path.margins.values())).all()


def test_few_counts_need_larger_odds():
    from bvsi.check.assessment import _for_counts
    from bvsi.check.comparison import LEVELS
    from bvsi.data import Data, Grid
    from bvsi.noise import Diagonal
    from bvsi.noise.measurement import Measurement

    grid, times = Grid(x=np.arange(8.0)), np.arange(6.0)
    for mean, odds in ((5.0, LEVELS.odds_of_few), (50.0, LEVELS.odds)):
        data = Data.from_arrays({"u": np.full((6, 8), mean)}, times=times, geometry=grid)
        counted = Measurement(data, Diagonal({"u": np.full(8, mean**0.5)}, {"u": 1.0}), {}, {}, {}, 0.0, "")
        assert _for_counts(LEVELS, [counted]).odds == odds
    silent = replace(LEVELS, odds=1.0)
    assert _for_counts(silent, [counted]) is silent
