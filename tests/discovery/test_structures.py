"""Probabilities of structures in residual space: they add up, agree with error bars, and follow the stated prior."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import bvsi
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.predict.mixture import Mixture
from bvsi.studies.structures import trial
from discovery.exact_cases import burgers, noisy

NAMES = ["laplacian(u)", "u*dx(u)", "u", "u**2", "u**3", "dx(u)"]


@pytest.fixture(scope="module")
def found() -> bvsi.Discovery:
    return bvsi.discover(noisy(burgers(), 5e-2, 0), bvsi.Library({"u": NAMES}), check=False)


def test_probabilities_add_up_and_are_those_of_the_scores(found):
    made = found.structures()
    assert made.probabilities.sum() == pytest.approx(1)
    assert set(made.names[0]) == set(found.names)
    p = dict(zip(map(frozenset, made.names), made.probabilities, strict=True))
    larger = next(one for one in found.path.compared if set(one.names) == {*found.names, "u"})
    assert p[frozenset(larger.names)] / p[frozenset(found.names)] == pytest.approx(math.exp(-0.5 * larger.rise))
    inclusion = found.inclusion()
    assert inclusion["u"] == pytest.approx(sum(q for names, q in p.items() if "u" in names))
    assert all(0 < inclusion[name] < 0.2 for name in ("u", "u**2", "u**3", "dx(u)"))


def test_a_coefficient_whose_interval_holds_zero_is_not_sure_to_be_in(found):
    """With the error bars of the posterior, whatever the selection said: z² − p decides."""
    z = 1.5
    wide = np.diag([found.sd[0], abs(found.theta[1]) / z])
    doubted = replace(found, posterior=GaussianPosterior(found.names, found.theta, wide**2))
    assert 0 in [np.sign(low) + np.sign(high) for low, high in doubted.posterior.interval()]
    assert doubted.inclusion()["u*dx(u)"] < 0.2
    assert doubted.inclusion()["laplacian(u)"] > 0.99


def test_the_prior_is_explicit(found):
    """A wider prior, or lower odds, cost a larger equation: each operator 2 log w − 2 log o."""
    usual, wider, narrow = found.inclusion()["u"], found.inclusion(4.0)["u"], found.inclusion(0.25)["u"]
    assert narrow > usual > wider
    assert found.inclusion(1.0, 1 / len(NAMES))["u"] == pytest.approx(usual)
    assert found.inclusion(4.0, 4.0 / len(NAMES))["u"] == pytest.approx(usual)
    with pytest.raises(BvsiError, match="wider, odds: positive numbers"):
        found.structures(0.0)
    assert "prior × 1/4" in found.structures_text
    assert found.structures_text in found.details


def test_they_are_stored(found, tmp_path):
    found.save(tmp_path / "found.nc")
    again = bvsi.Discovery.load(tmp_path / "found.nc")
    assert again.inclusion() == pytest.approx(found.inclusion())
    assert again.structures_text == found.structures_text
    kept, read = (one.predict("[laplacian(u)]", averaged=True) for one in (found, again))
    assert float(kept["mean"]) == pytest.approx(float(read["mean"]))


def test_a_mixture_of_two_laws():
    """Mean, variances within and between, and quantiles of ¼ N(0, 1) + ¾ N(4, 4), exact."""
    laws = [GaussianPosterior(("a",), np.array([m]), np.array([[v]])) for m, v in ((0.0, 1.0), (4.0, 4.0))]
    made = Mixture(("a", "b"), (("a",), ("a",)), np.array([0.25, 0.75]), tuple(laws))
    assert made.moments("a") == pytest.approx((3.0, math.sqrt(3.25), math.sqrt(3.0)))
    drawn = made.average("a", size=40_000)
    assert (drawn.mean, drawn.statistics, drawn.structure) == pytest.approx(made.moments("a"), rel=0.02)
    Phi = xr.DataArray([[1.0, -1.0], [5.0, 5.0]], dims=("operator", "x"), coords={"operator": ["a", "b"]})
    q = made.predict(Phi, size=40_000, rng=np.random.default_rng(1))
    assert q["mean"].values == pytest.approx([3.0, -3.0], rel=0.02)
    assert q["statistics"].values == pytest.approx([3.25, 3.25], rel=0.05)
    assert q["structure"].values == pytest.approx([3.0, 3.0], rel=0.05)
    same = made.predict(
        lambda c: xr.DataArray([c["a"] + c["b"], -c["a"]], dims="x"), size=400, rng=np.random.default_rng(1)
    )
    assert same["mean"].values == pytest.approx([3.0, -3.0], rel=0.2)
    # P(q < x) = ¼ Φ(x) + ¾ Φ((x − 4)/2): x with 0.025 and 0.975
    assert drawn.interval == pytest.approx((-1.348, 7.668), abs=0.08)


def test_a_structure_without_operators_changes_nothing():
    law = GaussianPosterior(("a",), np.array([2.0]), np.array([[0.01]]))
    made = Mixture(("a",), (("a",), ()), np.array([0.5, 0.5]), (law, None))
    assert made.inclusion() == {"a": 0.5}
    q = made.predict(lambda c: xr.DataArray(c["a"]), size=500, rng=np.random.default_rng(0))
    assert float(q["mean"]) == pytest.approx(1.0, abs=0.02)
    assert float(q["structure"]) == pytest.approx(1.0, abs=0.02)


def test_the_study_of_stated_probabilities():
    stated = trial(np.random.default_rng([3, 0]))
    assert len(stated) == 4
    assert all(0 <= p <= 1 for row in stated for p in row[:2])
