"""Files whose outside is right and whose inside is not: libraries crash on some of them, so we look first."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import xarray as xr

from bvsi.app.readers.read import contents, read
from bvsi.errors import DataError


def mat(folder: Path, *, compressed: bool, values: np.ndarray | None = None) -> Path:
    path = folder / "run.mat"
    u = np.arange(12.0).reshape(3, 4) if values is None else values
    scipy.io.savemat(path, {"u": u, "t": np.arange(3.0)}, do_compression=compressed)
    return path


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("values", [np.arange(12.0), np.eye(3), np.arange(6, dtype=np.int16), np.arange(4) + 1j])
def test_whole_matlab_files_are_read(tmp_path: Path, compressed: bool, values: np.ndarray) -> None:
    assert {v.name for v in contents(mat(tmp_path, compressed=compressed, values=values)).variables} == {"u", "t"}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("left", [60, 128 + 4, 128 + 40, -30, -4])
def test_a_matlab_file_that_was_cut_is_refused(tmp_path: Path, compressed: bool, left: int) -> None:
    path = mat(tmp_path, compressed=compressed)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match="cannot be read as MATLAB"):
        contents(path)


def test_an_array_that_states_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = mat(tmp_path, compressed=False)
    content = path.read_bytes()
    at = content.index(struct.pack("<ii", 3, 4))
    path.write_bytes(content[:at] + struct.pack("<ii", 3000, 4) + content[at + 8 :])
    with pytest.raises(DataError, match="damaged"):
        contents(path)


@pytest.mark.parametrize("name", ["DIMENSION_LIST", "REFERENCE_LIST", "CLASS"])
def test_dimension_scales_of_a_wrong_type_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.nc"
    dataset = xr.Dataset({"u": (("t", "x"), np.zeros((4, 5)))}, coords={"t": np.arange(4.0), "x": np.arange(5.0)})
    dataset.to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        place = file["u" if name == "DIMENSION_LIST" else "t"]
        del place.attrs[name]
        place.attrs[name] = np.arange(3.0)
    with pytest.raises(DataError, match=f"the attribute {name} of .* is damaged"):
        contents(path)


def test_names_of_axes_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    import zarr

    path = tmp_path / "run.zarr"
    array = zarr.create_array(path / "u", shape=(4, 5), dtype="f8", zarr_format=2)
    array[:] = 1.0
    (path / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    (path / "u/.zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["t", "x", "y"]}))
    (found,) = contents(path).variables
    assert found.dims is None
    assert found.shape == (4, 5)


def test_a_dimension_that_a_field_has_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(6.0)
        file["t"].make_scale("t")
        file["u"] = np.random.default_rng(0).standard_normal((6, 6))
        for number in range(2):
            file["u"].dims[number].attach_scale(file["t"])
    with pytest.raises(DataError, match=r"'u' has a dimension twice \(t, t\); name each once"):
        read(path)
