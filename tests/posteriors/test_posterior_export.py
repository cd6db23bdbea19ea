"""Posteriors as labelled draws, for xarray and ArviZ."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from bvsi import __version__
from bvsi.app.posterior_storage import to_arviz, to_dataset, to_datatree
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.infer.posteriors import ChainPosterior, ParticlePosterior
from posteriors.posterior_cases import NAMES, every_kind, installed_arviz

KINDS = every_kind()


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_labels(kind):
    posterior = KINDS[kind]
    dataset = to_dataset(posterior, size=90)
    theta = dataset["theta"]
    assert theta.dims == ("chain", "draw", "operator")
    assert tuple(theta["operator"].values) == NAMES
    assert dataset.attrs["posterior"] == type(posterior).__name__
    assert dataset.attrs["inference_library_version"] == __version__
    if isinstance(posterior, ChainPosterior):
        assert_array_equal(theta, posterior.draws)
    elif isinstance(posterior, ParticlePosterior):
        assert_array_equal(theta, posterior.particles[None])
    else:
        assert theta.shape == (4, 23, 2)
        assert_array_equal(theta.values.reshape(92, 2), posterior.sample(92, np.random.default_rng(0)))


def test_the_generator_given_is_used():
    posterior = KINDS["gaussian"]
    drawn = to_dataset(posterior, size=8, rng=np.random.default_rng(5))["theta"].values
    assert_array_equal(drawn.reshape(8, 2), posterior.sample(8, np.random.default_rng(5)))


@pytest.mark.parametrize("size", [0, -4])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(BvsiError, match="size"):
        to_dataset(KINDS["gaussian"], size=size)


def test_a_tree_has_what_the_sampler_told():
    chains = KINDS["chains"]
    tree = chains.to_datatree()
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert_array_equal(tree["sample_stats/lp"], chains.log_density)
    assert_array_equal(tree["sample_stats/diverging"], chains.diverging)
    assert tree.attrs["warnings"] == "one divergence.\nshort"
    for kind in ("gaussian", "particles", "bare chains"):
        assert set(to_datatree(KINDS[kind]).children) == {"posterior"}


def test_a_tree_survives_a_file(tmp_path):
    tree = to_datatree(KINDS["chains"])
    tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as again:
        xr.testing.assert_identical(again.load(), tree)


def test_arviz_takes_chains_and_agrees_on_their_diagnostics():
    arviz = installed_arviz()
    chains = KINDS["chains"]
    handed = chains.to_arviz()
    assert_array_equal(handed["posterior"]["theta"].values, chains.draws)
    assert_array_equal(handed["sample_stats"]["diverging"].values, chains.diverging)
    summary = arviz.summary(handed, round_to="none")
    assert list(summary.index) == [f"theta[{name}]" for name in NAMES]
    np.testing.assert_allclose(summary["r_hat"].to_numpy(float), chains.r_hat, rtol=1e-9)
    np.testing.assert_allclose(summary["ess_bulk"].to_numpy(float), chains.ess_bulk, rtol=1e-9)


def test_arviz_takes_closed_forms():
    installed_arviz()
    handed = to_arviz(KINDS["gaussian"], size=40)
    assert handed["posterior"]["theta"].shape == (4, 10, 2)


def test_the_next_arviz_gets_a_tree(monkeypatch):
    """ArviZ 1 works on DataTree; a name InferenceData is left there that warns."""
    module = types.ModuleType("arviz")
    module.__version__, module.InferenceData = "1.0.0", None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "arviz", module)
    xr.testing.assert_identical(to_arviz(KINDS["chains"]), to_datatree(KINDS["chains"]))


def test_without_arviz_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bvsi\[arviz\]'"):
        to_arviz(KINDS["gaussian"])
