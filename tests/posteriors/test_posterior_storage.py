"""Posteriors kept in files, and files that are none."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import h5py
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from bvsi.app.posterior_storage import load_posterior, save_posterior
from bvsi.errors import BvsiError, DataError
from bvsi.infer.posteriors import NormalInverseGammaPosterior
from posteriors.posterior_cases import every_kind

KINDS = every_kind()


def same(a: object, b: object) -> None:
    """The same type and, field by field, the same bits."""
    assert type(a) is type(b)
    if is_dataclass(a):
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_array_equal(list(a.values()), list(b.values()))
    else:
        assert a == b


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_changes_nothing(tmp_path, kind):
    path = tmp_path / "new" / "posterior.nc"
    KINDS[kind].save(path)
    same(load_posterior(path), KINDS[kind])
    save_posterior(load_posterior(path), str(path))
    same(load_posterior(str(path)), KINDS[kind])
    assert list(path.parent.iterdir()) == [path]


def test_a_loaded_truncated_posterior_has_the_same_law(tmp_path):
    KINDS["truncated gaussian"].save(tmp_path / "p.nc")
    again = load_posterior(tmp_path / "p.nc")
    assert_array_equal(again.mean, KINDS["truncated gaussian"].mean)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(DataError, match="no file"):
        load_posterior(tmp_path / "none.nc")


@pytest.mark.parametrize("content", [b"", b"text\n", b"\x89HDF\r\n\x1a\n", b"CDF\x01"], ids=repr)
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "text.nc"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"text\.nc"):
        load_posterior(path)


def test_a_foreign_netcdf_file_is_refused(tmp_path):
    path = tmp_path / "foreign.nc"
    xr.Dataset({"temperature": ("x", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(DataError, match="not a posterior"):
        load_posterior(path)


@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.7, 0.98])
def test_a_truncated_file_is_refused(tmp_path, fraction):
    path = tmp_path / "cut.nc"
    KINDS["chains"].save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(fraction * len(whole))])
    with pytest.raises(DataError, match=r"cut\.nc"):
        load_posterior(path)


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        ("gaussian", "shape"),
        ("normal-inverse-gamma", "noise"),
        ("truncated gaussian", "constraint_upper"),
        ("truncated gaussian", "constraint_texts"),
        ("truncated gaussian", "mode"),
        ("particles", "particles"),
        ("chains", "diverging"),
        ("chains", "draws"),
        ("chains", "warnings"),
    ],
)
def test_a_file_with_something_missing_is_refused(tmp_path, kind, lost):
    with pytest.raises(DataError, match=r"part\.nc.*missing"):
        load_posterior(changed(tmp_path, kind, lambda d: d.drop_vars(lost) if lost in d else without(d, lost)))


@pytest.mark.parametrize(
    "change",
    [
        {"posterior": "of tomorrow"},
        {"posterior": "chains", "held": '["names"]'},
        {"posterior": "closed form", "noise": '"text"'},
        {"posterior": "closed form", "noise": "{"},
    ],
)
def test_a_file_with_strange_attributes_is_refused(tmp_path, change):
    with pytest.raises(DataError, match=r"part\.nc"):
        load_posterior(changed(tmp_path, "gaussian", lambda d: d.assign_attrs(change)))


def test_numbers_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(DataError, match="mode"):
        load_posterior(changed(tmp_path, "truncated gaussian", lambda d: d.assign(mode=-d["mode"])))


def changed(folder, kind, change):
    KINDS[kind].save(folder / "whole.nc")
    with xr.open_dataset(folder / "whole.nc", engine="h5netcdf") as stored:
        dataset = stored.load()
    change(dataset).to_netcdf(folder / "part.nc", engine="h5netcdf")
    return folder / "part.nc"


def without(dataset: xr.Dataset, attribute: str) -> xr.Dataset:
    del dataset.attrs[attribute]
    return dataset


def test_a_posterior_of_ones_own_cannot_be_saved(tmp_path):
    with pytest.raises(BvsiError, match="cannot be saved"):
        save_posterior(object(), tmp_path / "p.nc")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_save_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "out.nc"
    KINDS["gaussian"].save(path)
    before = path.read_bytes()

    def half(self, target, **kwargs):
        target.write(b"half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(xr.Dataset, "to_netcdf", half)
    with pytest.raises(KeyboardInterrupt):
        KINDS["chains"].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("noise", ["[0, 1]", "[3, 0]", "[-1, 2]", "[NaN, 1]", "[Infinity, 1]"])
def test_a_law_of_the_noise_that_is_none_is_refused(tmp_path, noise):
    path = tmp_path / "posterior.nc"
    save_posterior(NormalInverseGammaPosterior(("a",), np.ones(1), np.eye(1), 3.0, 2.0), path)
    with h5py.File(path, "a") as file:
        file.attrs["noise"] = noise
    with pytest.raises(BvsiError, match="damaged"):
        load_posterior(path)
