"""Series in files: vectors over time and nothing else."""

import numpy as np
import pytest
import scipy.io

from bvsi.app.readers import Reading, read, suggest
from bvsi.app.readers.read import read_with_notes
from bvsi.app.study.inspection import inspect
from bvsi.app.study.template import template
from bvsi.data import Data
from bvsi.errors import DataError

T = np.linspace(0, 20, 201)
VALUES = {"x": np.sin(T), "y": np.cos(T)}


def write_npz(path):
    np.savez(path, t=T, **VALUES)


def write_mat(path):
    scipy.io.savemat(path, {"t": T, **VALUES})


def write_nc(path):
    Data.from_arrays(VALUES, times=T).to_xarray().to_netcdf(path)


def write_csv(path, names=("t", "x", "y")):
    np.savetxt(path, np.stack([T, *VALUES.values()], axis=1), delimiter=",", header=",".join(names), comments="")


WRITERS = {"npz": write_npz, "mat": write_mat, "nc": write_nc, "csv": write_csv}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_is_read_as_it_is_and_as_it_is_suggested(tmp_path, suffix):
    path = tmp_path / f"series.{suffix}"
    WRITERS[suffix](path)
    for reading in (Reading(), suggest(path)):
        data = read(path, reading)
        assert data.geometry.dim == 0
        assert data.names == ("x", "y")
        np.testing.assert_allclose(data.times, T)
        np.testing.assert_allclose(data.fields["y"][:, 0], VALUES["y"], atol=1e-12)


def test_an_inspection_and_a_study_know_a_series(tmp_path):
    write_csv(tmp_path / "a.csv", ("time", "prey", "predator"))
    seen = inspect(tmp_path / "a.csv")
    assert seen.data is not None
    assert "series, fields prey, predator" in str(seen)
    assert "prey**2*predator" in seen.operators["prey"]
    assert "laplacian" not in "".join(seen.operators["prey"])
    assert 'prey = [\n  "1",' in template(tmp_path / "a.csv", study_file=tmp_path / "study.toml")


def test_forcing_and_gaps_in_a_table(tmp_path):
    lines = [f"{t},{np.sin(t)},{t},{np.cos(t)}" for t in T]
    lines[7] = f"{T[7]},,{T[7]},{np.cos(T[7])}"
    (tmp_path / "a.csv").write_text("\n".join(["t,u,v,f", *lines[::-1]]))  # times need no order
    data = read(tmp_path / "a.csv", Reading(fields=["u", "v"], auxiliary=["f"], missing="nan"))
    assert np.isnan(data.observed("u")[7, 0])
    np.testing.assert_allclose(data.auxiliary["f"][:, 0], np.cos(T))


def test_x_beside_other_columns_is_a_position_unless_it_is_named(tmp_path):
    write_csv(tmp_path / "a.csv", ("t", "x", "v"))
    with pytest.raises(DataError, match="name all columns in fields"):
        read(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv", Reading(fields=["x", "v"])).names == ("x", "v")


def test_x_y_z_alone_are_series_and_it_is_said(tmp_path):
    write_csv(tmp_path / "a.csv")
    _, notes = read_with_notes(tmp_path / "a.csv")
    assert "every time has one row: x, y are no position but a series" in notes


def test_a_time_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("t,u\n0,1\n1,2\n1,3\n")
    with pytest.raises(DataError, match="rows 2 and 3 have the same time"):
        read(tmp_path / "a.csv")
