"""Damaged, truncated and hostile files end as DataError, whatever the library below raises."""

import pickle
from contextlib import suppress

import numpy as np
import pytest

from bvsi.app.readers import Reading, contents, read, suggest
from bvsi.errors import DataError
from readers import samples

ONE_FILE = [".nc", ".zarr.zip", ".npz", ".h5", ".mat", ".73.mat", ".csv", ".tif"]


def written(folder, kind):
    path, reading = samples.write_line(folder, kind)
    return path, reading


@pytest.mark.parametrize("kind", ONE_FILE)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_truncated(tmp_path, kind, share):
    path, reading = written(tmp_path, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match=r"line.*\.|dims|missing"):
        read(path, reading)


@pytest.mark.parametrize("kind", ONE_FILE)
def test_another_format_inside(tmp_path, kind):
    path, reading = written(tmp_path, kind)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    with pytest.raises(DataError, match="line"):
        read(path, reading)
    if kind != ".mat":  # SciPy lists no arrays there, and no error
        with pytest.raises(DataError, match="line"):
            contents(path)
    with pytest.raises(DataError, match="line"):
        suggest(path)


@pytest.mark.parametrize("kind", ONE_FILE)
def test_flipped_bytes_give_data_or_a_clear_error(tmp_path, kind):
    path, reading = written(tmp_path, kind)
    whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(5)
    for _ in range(12):
        damaged = whole.copy()
        places = rng.integers(0, min(len(whole), 3000), 6)  # where the headers are
        damaged[places] = rng.integers(0, 256, 6)
        path.write_bytes(damaged.tobytes())
        with suppress(DataError):  # flips within the values are not seen
            read(path, reading)


@pytest.mark.parametrize("kind", [".vtu", ".xdmf", ".msh"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_series(tmp_path, kind, share, capfd):
    path, reading = samples.write_mesh(tmp_path, kind)
    victim = path if kind == ".xdmf" else tmp_path / f"mesh_1{kind}"
    whole = victim.read_bytes()
    victim.write_bytes(whole[: int(share * len(whole))])
    capfd.readouterr()
    with pytest.raises(DataError, match="mesh"):
        read(path, reading)
    assert capfd.readouterr() == ("", "")  # meshio is kept from writing to the terminal


def test_xdmf_without_its_numbers(tmp_path):
    path, reading = samples.write_mesh(tmp_path, ".xdmf")
    (tmp_path / "mesh.h5").write_bytes((tmp_path / "mesh.h5").read_bytes()[:3000])
    with pytest.raises(DataError, match="mesh"):
        read(path, reading)


def test_zarr_folder_with_damaged_parts(tmp_path):
    path, reading = samples.write_plane(tmp_path, ".zarr")
    chunk = next(file for file in (path / "u").rglob("*") if file.is_file() and file.name != "zarr.json")
    chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(DataError, match="plane"):
        read(path, reading)
    (path / "zarr.json").write_text("{")
    with pytest.raises(DataError, match="plane"):
        read(path, reading)
    (path / "zarr.json").unlink()
    with pytest.raises(DataError, match="plane"):
        read(path, reading)


class Hostile:
    """Unpickling it would leave a trace."""

    ran = False

    def __reduce__(self):
        return exec, ("from readers import test_damaged; test_damaged.Hostile.ran = True",)


def test_pickles_in_npz_are_not_opened(tmp_path):
    x, t, u = samples.line()
    np.savez(tmp_path / "a.npz", x=x, t=t, u=u, evil=np.array([Hostile()], dtype=object))
    assert [v.name for v in contents(tmp_path / "a.npz").variables] == ["x", "t", "u"]
    assert "pickle" in contents(tmp_path / "a.npz").notes[0]
    with pytest.raises(DataError, match="there is no 'evil'"):
        read(tmp_path / "a.npz", Reading(dims=["x", "t"], fields=["evil"]))
    assert not Hostile.ran


def test_pickles_in_zarr_are_refused(tmp_path):
    samples.save_zarr(tmp_path / "a.zarr", {"u": np.ones((3, 4))}, zarr_format=2)
    meta = tmp_path / "a.zarr" / "u" / ".zarray"
    meta.write_text(meta.read_text().replace('"filters": null', '"filters": [{"id": "pickle", "protocol": 5}]'))
    assert "pickle" in meta.read_text()
    for chunk in (tmp_path / "a.zarr" / "u").glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DataError):
        read(tmp_path / "a.zarr", Reading(dims=["x", "t"], spacing={"x": 1, "t": 1}))
    assert not Hostile.ran
