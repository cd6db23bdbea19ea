"""Cells and structs of MATLAB files: members have names of their own, in both versions; damaged ones are refused."""

import h5py
import numpy as np
import pytest
import tifffile
from scipy.io import loadmat, savemat

from bvsi.app.readers.read import read, suggest
from bvsi.app.readers.reading import Reading
from bvsi.app.readers.registry import opened
from bvsi.errors import BvsiError

U, V = np.arange(24.0).reshape(4, 6), np.arange(24.0).reshape(4, 6) ** 2
X, T = np.linspace(0, 1, 4), np.linspace(0, 2, 6)


def _cell(*members):
    cell = np.empty((1, len(members)), dtype=object)
    for i, one in enumerate(members):
        cell[0, i] = one
    return cell


def _version5(path, *, compress):
    run = {"u": U, "inner": {"count": np.array([[3]], dtype=np.int16)}, "label": "a text"}
    content = {"fields": _cell(U, V), "xs": _cell(X[:, None], T[None]), "run": run, "plain": V, "nothing": _cell()}
    savemat(path, content, do_compression=compress)


def _version73(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, members in {"fields": (U, V), "xs": (X[:, None], T[None])}.items():
            cell = file.create_dataset(name, (len(members), 1), dtype=h5py.ref_dtype)
            cell.attrs["MATLAB_class"] = np.bytes_("cell")
            for i, one in enumerate(members):
                inside = file.create_dataset(f"#refs#/{name}{i}", data=one.T)  # HDF5 has MATLAB's axes reversed
                inside.attrs["MATLAB_class"] = np.bytes_("double")
                cell[i, 0] = inside.ref
        file.create_dataset("run/u", data=U.T).attrs["MATLAB_class"] = np.bytes_("double")
        file.create_dataset("plain", data=V.T).attrs["MATLAB_class"] = np.bytes_("double")


def _values(path):
    with opened(path, Reading()) as source:
        return {name: one.load((slice(None),) * len(one.shape)) for name, one in source.arrays.items()}, source.notes


@pytest.mark.parametrize("version", ["5", "5, compressed", "7.3"])
def test_members_have_names_and_the_values_that_were_saved(tmp_path, version):
    path = tmp_path / "data.mat"
    if version == "7.3":
        _version73(path)
    else:
        _version5(path, compress=version != "5")
    found, _ = _values(path)
    expected = {"fields/1": U, "fields/2": V, "xs/1": X, "xs/2": T, "run/u": U, "plain": V}
    assert set(found) - {"run/inner/count"} == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_what_is_not_read_is_said(tmp_path):
    _version5(tmp_path / "data.mat", compress=False)
    found, notes = _values(tmp_path / "data.mat")
    assert found["run/inner/count"] == [3]
    assert notes == ("'run/label' is of MATLAB class char",)


def test_every_flipped_byte_is_refused_or_read(tmp_path):
    """SciPy crashes where a length lies; each change ends in values or in one error."""
    path, rng = tmp_path / "data.mat", np.random.default_rng(5)
    _version5(path, compress=False)
    whole, ends = path.read_bytes(), {"read": 0, "refused": 0}
    for _ in range(300):
        changed = bytearray(whole)
        changed[rng.integers(128, len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            _values(path)
            ends["read"] += 1
        except (BvsiError, ValueError):
            ends["refused"] += 1
    assert min(ends.values()) > 30


def test_axes_in_a_cell_are_the_axes_in_its_order(tmp_path):
    """As in the files of WSINDy; equal lengths do not matter, since the cell tells the order."""
    square = np.arange(36.0).reshape(6, 6)
    savemat(tmp_path / "data.mat", {"U_exact": _cell(square), "xs": _cell(np.linspace(0, 1, 6)[:, None], T[None])})
    guessed = suggest(tmp_path / "data.mat")
    data = read(tmp_path / "data.mat", guessed)
    assert guessed.dims == ("x", "t")
    np.testing.assert_array_equal(data.times, T)
    np.testing.assert_array_equal(data.fields["U_exact_1"], square.T)


def test_structs_in_structs_end(tmp_path):
    nested = {"u": U}
    for _ in range(12):
        nested = {"deeper": nested}
    savemat(tmp_path / "data.mat", {"top": nested})
    assert "top" in loadmat(tmp_path / "data.mat")
    with pytest.raises((BvsiError, ValueError), match="too deep"):
        _values(tmp_path / "data.mat")


def test_coordinates_of_the_same_struct_are_found(tmp_path):
    data = {"x": X[::-1] + 5, "t": T, "u": U}
    savemat(tmp_path / "run.mat", {"other": {"x": X + 1}, "data": data, "opts": np.eye(3), "id": np.arange(6)})
    reading = suggest(tmp_path / "run.mat")
    assert reading.coordinates == {"x": "data/x", "t": "data/t"}
    assert reading.fields == {"data_u": "data/u"}
    assert not reading.spacing


def test_frames_in_a_cell_are_refused_with_what_to_write(tmp_path):
    savemat(tmp_path / "frames.mat", {"frames": _cell(*(U[:, i] for i in range(6))), "x": X, "t": T})
    with pytest.raises(BvsiError, match=r"frames\{1\} to frames\{6\} have one shape.*cat\(2, frames\{:\}\)"):
        suggest(tmp_path / "frames.mat")


def test_masks_and_colours_are_not_taken_for_data(tmp_path):
    np.savez(tmp_path / "mask.npz", u=U, mask=U > 3, x=X, t=T)
    with pytest.raises(BvsiError, match=r"'mask' has true and false.*write NaN"):
        suggest(tmp_path / "mask.npz")
    tifffile.imwrite(tmp_path / "rgb.tif", np.zeros((5, 8, 9, 3), dtype=np.uint8), photometric="rgb")
    with pytest.raises(BvsiError, match="looks like colours; save one of them"):
        suggest(tmp_path / "rgb.tif")
