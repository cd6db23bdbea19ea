"""Series in files: vectors over time and nothing else."""

import meshio
import numpy as np
import pytest
import scipy.io

from bvsi.app.readers import Reading, read, suggest
from bvsi.app.readers.read import read_with_notes
from bvsi.app.study.inspection import inspect
from bvsi.app.study.template import template
from bvsi.data import Data
from bvsi.errors import DataError
from readers import samples

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


def test_x_beside_other_columns_is_offered_as_a_series_where_every_time_has_one_row(tmp_path):
    write_csv(tmp_path / "a.csv", ("t", "x", "v"))
    assert tuple(suggest(tmp_path / "a.csv").fields) == ("x", "v")
    (tmp_path / "b.csv").write_text("t,x,u\n0,0,1\n0,1,2\n1,0,3\n1,1,4\n")
    assert suggest(tmp_path / "b.csv").fields is None


@pytest.mark.parametrize("turned", [False, True])
def test_columns_of_a_small_matrix_are_series(tmp_path, turned):
    """As solvers of systems return them; a matrix with coordinates for both axes is a field on a grid."""
    both = np.stack([np.sin(T), np.cos(T)], axis=1)
    np.savez(tmp_path / "a.npz", t=T, X=both.T if turned else both)
    data, notes = read_with_notes(tmp_path / "a.npz")
    assert not data.geometry.names
    np.testing.assert_allclose(data.fields["X2"][:, 0], np.cos(T))
    assert any("X is taken for the series X1, X2" in note for note in notes)
    np.savez(tmp_path / "b.npz", t=T, X=both, x=np.arange(2.0))
    with pytest.raises(DataError, match="does not name the axes"):
        read(tmp_path / "b.npz")


def test_x_y_z_alone_are_series_and_it_is_said(tmp_path):
    write_csv(tmp_path / "a.csv")
    _, notes = read_with_notes(tmp_path / "a.csv")
    assert "every time has one row: x, y are not a position but a series" in notes


def test_a_time_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("t,u\n0,1\n1,2\n1,3\n")
    with pytest.raises(DataError, match="rows 2 and 3 have the same time"):
        read(tmp_path / "a.csv")


def gmsh_file(path, times, *, binary):
    """Triangles with one section of values for every time, as Gmsh writes views; returns the values (T, n)."""
    mesh = samples.triangles()
    points = np.pad(mesh.points, ((0, 0), (0, 1)))
    meshio.gmsh.write(path, meshio.Mesh(points, [("triangle", mesh.cells)]), fmt_version="4.1", binary=binary)
    u = np.sin(mesh.points[:, 0] + np.array(times)[:, None])
    parts = []
    for k, (t, own) in enumerate(zip(times, u, strict=True)):
        parts.append(f'$NodeData\n1\n"temp"\n1\n{t!r}\n3\n{k}\n1\n{len(own)}\n'.encode())
        if binary:
            records = np.zeros(len(own), dtype=[("node", "<i4"), ("value", "<f8")])
            records["node"], records["value"] = np.arange(1, 1 + len(own)), own
            parts.append(records.tobytes() + b"\n$EndNodeData\n")
        else:
            parts.append("".join(f"{i + 1} {v!r}\n" for i, v in enumerate(own.tolist())).encode() + b"$EndNodeData\n")
    path.write_bytes(path.read_bytes() + b"".join(parts))
    return u


@pytest.mark.parametrize("binary", [True, False])
def test_one_gmsh_file_holds_all_times(tmp_path, binary):
    u = gmsh_file(tmp_path / "view.msh", [0.5, 1.0, 2.5], binary=binary)
    data = read(tmp_path / "view.msh", Reading())
    assert data.times.tolist() == [0.5, 1.0, 2.5]
    np.testing.assert_allclose(data.fields["temp"], u)


def test_gmsh_files_of_a_series_tell_their_times(tmp_path):
    for k, t in enumerate((0.5, 1.0, 2.5)):
        gmsh_file(tmp_path / f"frame_{k}.msh", [t], binary=True)
    assert read(tmp_path / "frame_*.msh", Reading()).times.tolist() == [0.5, 1.0, 2.5]
    gmsh_file(tmp_path / "twice.msh", [1.0, 1.0], binary=False)
    with pytest.raises(DataError, match="give each step a time"):
        read(tmp_path / "twice.msh", Reading())


def test_a_random_walk_is_told(tmp_path):
    """Increments of x_t = −x + noise in the equation have the variance of their length, with noise on top."""
    rng, x = np.random.default_rng(0), np.zeros(1001)
    for j, step in enumerate(0.05 * rng.standard_normal(1000)):
        x[j + 1] = 0.99 * x[j] + step
    times = 0.01 * np.arange(1001)
    smooth = np.sin(times)
    for values, told in (
        (x + 0.02 * rng.standard_normal(1001), True),
        (smooth + 0.1 * rng.standard_normal(1001), False),
    ):
        np.savez(tmp_path / "a.npz", t=times, x=values)
        assert any("take the density of many runs" in note for note in inspect(tmp_path / "a.npz").notes) == told
