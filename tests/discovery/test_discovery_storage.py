"""A discovery kept in a file, and files that are none."""

from __future__ import annotations

import warnings
from dataclasses import replace

import h5py
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from bvsi.discovery import Discovery
from bvsi.errors import DataError
from bvsi.infer.constraints import as_linear
from bvsi.infer.posteriors import (
    ChainPosterior,
    GaussianPosterior,
    NormalInverseGammaPosterior,
    ParticlePosterior,
    TruncatedPosterior,
)
from discovery.discovery_cases import made


@pytest.mark.parametrize("kind", ["gaussian", "nig"])
def test_a_round_trip_changes_nothing(tmp_path, kind):
    found, path = made(kind), tmp_path / "new" / "out.nc"
    found.save(path)
    again = Discovery.load(path)
    assert str(again) == str(found)
    assert type(again.posterior) is type(found.posterior)
    assert_array_equal(again.theta, found.theta)
    assert_array_equal(again.posterior.covariance, found.posterior.covariance)
    assert_array_equal(again.score_sd, found.score_sd)
    assert again.settings == found.settings
    assert again.status == found.status
    assert again.seconds == found.seconds
    assert again.candidates == found.candidates
    assert again.fields == found.fields
    for a, b in zip(again.chi2_blocks, found.chi2_blocks, strict=True):
        assert_array_equal(a, b)
    for a, b in zip(again.path.visited, found.path.visited, strict=True):
        assert (a.names, a.score, a.chi2, a.changed) == (b.names, b.score, b.chi2, b.changed)
        assert dict(a.candidates) == dict(b.candidates)
        assert a.refitted == b.refitted
        assert_array_equal(a.theta, b.theta)
        assert a.fit is None


def test_kinds_of_posterior_survive(tmp_path):
    for kind, expected in (("gaussian", GaussianPosterior), ("nig", NormalInverseGammaPosterior)):
        made(kind).save(tmp_path / kind)
        loaded = Discovery.load(tmp_path / kind).posterior
        assert isinstance(loaded, expected)
        if kind == "nig":
            assert (loaded.alpha, loaded.beta) == (12.5, 1 / 7)


def test_draws_and_constrained_posteriors_survive(tmp_path):
    base = made().posterior
    draws = np.random.default_rng(0).standard_normal((2, 9, 2))
    constraints = as_linear([f"[{base.names[0]}] >= 0.3"], base.names)
    truncated = TruncatedPosterior(base, constraints, base.mean)
    for posterior in (ChainPosterior(base.names, draws), ParticlePosterior(base.names, draws[0]), truncated):
        found = replace(made(), posterior=posterior)
        found.save(tmp_path / "out.nc")
        again = Discovery.load(tmp_path / "out.nc")
        assert type(again.posterior) is type(posterior)
        assert str(again) == str(found)


@pytest.mark.parametrize("kind", ["gaussian", "nig"])
def test_files_from_before_other_posteriors_can_be_read(tmp_path, kind):
    made(kind).save(tmp_path / "new.nc")
    with xr.open_dataset(tmp_path / "new.nc", engine="h5netcdf") as stored:
        dataset = stored.load()
    del dataset.attrs["posterior"]
    dataset.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    assert str(Discovery.load(tmp_path / "old.nc")) == str(made(kind))


def test_a_discovery_is_handed_over_by_its_posterior():
    found = made()
    tree = found.to_datatree(size=20, rng=np.random.default_rng(1))
    expected = found.posterior.sample(20, np.random.default_rng(1)).reshape(4, 5, 2)
    assert_array_equal(tree["posterior/theta"], expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("arviz")
    assert_array_equal(found.to_arviz(size=20, rng=np.random.default_rng(1))["posterior"]["theta"], expected)


def test_a_loaded_discovery_can_be_saved_again(tmp_path):
    made().save(tmp_path / "a.nc")
    Discovery.load(tmp_path / "a.nc").save(tmp_path / "b.nc")
    assert str(Discovery.load(tmp_path / "b.nc")) == str(made())


def test_many_experiments_stay_in_order(tmp_path):
    many = replace(made(), chi2_blocks=tuple(np.full(m + 1, float(m)) for m in range(12)), block_rows=(7,) * 12)
    many.save(tmp_path / "many.nc")
    loaded = Discovery.load(tmp_path / "many.nc").chi2_blocks
    assert [len(b) for b in loaded] == list(range(1, 13))
    assert_array_equal([b[0] for b in loaded], np.arange(12.0))


def test_other_tools_can_read_it(tmp_path):
    made().save(tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as dataset:
        assert dataset["mean"].sel(operator="u: laplacian(u)") == 1 / 3
        assert np.isnan(dataset["path_theta"].values[1, 2])  # not in the model


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(DataError, match="no file"):
        Discovery.load(tmp_path / "none.nc")


@pytest.mark.parametrize("content", [b"", b"u_t = 1.0 u\n", b"\x89HDF\r\n\x1a\n", b"CDF\x01"], ids=repr)
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "text.nc"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"text\.nc"):
        Discovery.load(path)


@pytest.mark.parametrize("name", ["fields", "left", "settings", "margins", "steps", "status", "block_rows"])
def test_attributes_of_another_kind_are_refused_or_can_be_shown(tmp_path, name):
    """Found by the fuzzer: fields that are objects ended in a traceback where the equation is written."""
    made().save(tmp_path / "odd.nc")
    refused = 0
    for value in ('[{"a": 1}]', '{"u": {"a": [1]}}', "[[1], 2]", "null", "7"):
        with h5py.File(tmp_path / "odd.nc", "r+") as stored:
            assert name in stored.attrs
            stored.attrs[name] = value
        try:
            found = Discovery.load(tmp_path / "odd.nc")
        except DataError:
            refused += 1
        else:
            assert str(found)
            assert found.equation
    assert refused > 1


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DataError):
        Discovery.load(tmp_path)


def test_a_foreign_netcdf_file_is_refused(tmp_path):
    path = tmp_path / "foreign.nc"
    xr.Dataset({"temperature": ("x", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(DataError, match="not a discovery"):
        Discovery.load(path)


@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.7, 0.98])
def test_a_truncated_file_is_refused(tmp_path, fraction):
    path = tmp_path / "cut.nc"
    made().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(fraction * len(whole))])
    with pytest.raises(DataError, match=r"cut\.nc"):
        Discovery.load(path)


@pytest.mark.parametrize("lost", ["mean", "shape", "path_theta", "noise", "steps", "status", "fields"])
def test_a_file_with_something_missing_is_refused(tmp_path, lost):
    made().save(tmp_path / "whole.nc")
    with xr.open_dataset(tmp_path / "whole.nc", engine="h5netcdf") as stored:
        dataset = stored.load()
    if lost in dataset:
        dataset = dataset.drop_vars(lost)
    else:
        del dataset.attrs[lost]
    dataset.to_netcdf(tmp_path / "part.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=r"part\.nc"):
        Discovery.load(tmp_path / "part.nc")


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError], ids=lambda p: p.__name__)
def test_an_interrupted_save_leaves_the_earlier_file(tmp_path, monkeypatch, problem):
    path = tmp_path / "out.nc"
    made().save(path)
    before = path.read_bytes()

    def half(self, target, **kwargs):
        target.write(b"half a file")
        raise problem("no space left")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", half)
    with pytest.raises(problem):
        made("nig").save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_saving_over_an_earlier_file_replaces_it(tmp_path):
    path = tmp_path / "out.nc"
    made().save(path)
    made("nig").save(str(path))
    assert isinstance(Discovery.load(str(path)).posterior, NormalInverseGammaPosterior)
    assert list(tmp_path.iterdir()) == [path]
