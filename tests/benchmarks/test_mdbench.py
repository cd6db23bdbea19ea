"""``bvsi bench mdbench``: the layout, the scores of MDBench, and ours beside them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bvsi.errors import BvsiError, DataError
from bvsi.studies.benchmarks import mdbench
from bvsi.studies.benchmarks.mdbench import Estimator, data_sets, read_set, scored, write_examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mdbench")
    write_examples(place, levels=(40,))
    return place


def test_the_layout(folder):
    sets = {one.name: one for one in data_sets(folder)}
    assert set(sets) == {
        f"{n}{s}" for n in ("logistic", "oscillator", "heat1d", "transport2d") for s in ("", "_snr_40")
    }
    assert sets["oscillator"].kind == "ode"
    assert sets["transport2d"].u.shape == (32, 20, 40, 1)
    assert sets["heat1d_snr_40"].snr == 40
    relative = sets["heat1d_snr_40"].u / sets["heat1d"].u - 1
    assert np.std(relative) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("name", ["logistic", "oscillator", "heat1d", "transport2d"])
def test_rates_of_the_examples_are_their_equations(folder, name):
    """du is the time derivative of u, and what the true equation gives."""
    one = read_set(next(folder.rglob(f"{name}.npz")))
    slope = np.gradient(one.u, one.times, axis=-2, edge_order=2)
    np.testing.assert_allclose(slope, one.du, atol=0.02 * np.abs(one.du).max())


def test_scores_of_an_ode(folder):
    one = scored(read_set(folder / "ode" / "oscillator" / "oscillator_snr_40.npz"))
    assert one.right is True
    assert one.error == ""
    assert one.nmse < 1e-3
    assert one.complexity == 8  # 2 u1, and 4 − 2 u0
    assert one.score == pytest.approx(1 / (1 + one.nmse) + np.exp(-8 / 200))
    assert set(one.theirs) >= {"dataset", "nmse", "complexity", "train_time", "score", "error", "equation"}


def test_a_pde_by_the_interface_of_the_harness(folder):
    one = read_set(folder / "pde" / "heat1d" / "heat1d.npz")
    model = Estimator({"u0": ["laplacian(u0)", "u0", "dx(u0)"]}, n_jobs=1, symbol_names=None, target_names=None)
    model.set_spatial_grid(list(one.axes.values()))
    model.fit(one.times, one.u, one.du)
    assert model.predict(one.times, one.u).shape == one.u.shape
    inner = np.s_[4:-4]
    np.testing.assert_allclose(model.predict(one.times, one.u)[inner], one.du[inner], atol=0.02)
    assert model.complexity() == 3
    assert "laplacian(u0)" in model.to_str()


def test_the_command_writes_both_tables(command, folder, tmp_path):
    code, out, _ = command("bench", "mdbench", "--data", folder, "--cases", "logistic", "--out", tmp_path / "out")
    assert code == 0
    assert "logistic_snr_40" in out
    lines = [json.loads(line) for line in (tmp_path / "out" / "bvsi-ode.jsonl").read_text().splitlines()]
    assert [line["dataset"] for line in lines] == ["logistic", "logistic_snr_40"]
    record = json.loads((tmp_path / "out" / "mdbench.json").read_text())
    assert record[0]["coverage"] == 1.0
    assert record[0]["verdict"] == "consistent"


def test_a_data_set_without_an_equation_is_a_row(folder, monkeypatch):
    def refuse(*_, **__):
        raise BvsiError("nothing\nchanges")

    monkeypatch.setattr(mdbench, "discover", refuse)
    one = scored(read_set(folder / "ode" / "logistic" / "logistic.npz"))
    assert one.error == "nothing changes"
    assert one.nmse is None
    assert "nothing changes" in mdbench.markdown([one])


def test_what_is_not_in_the_layout_is_refused(tmp_path, folder):
    with pytest.raises(DataError, match="no NPZ files"):
        data_sets(tmp_path)
    with pytest.raises(DataError, match="known are heat1d"):
        data_sets(folder, ["burgers"])
    np.savez(tmp_path / "a.npz", t=np.arange(5.0), u=np.ones((5, 1)))
    with pytest.raises(DataError, match="'du'"):
        read_set(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", t=np.arange(5.0), u=np.ones((4, 1)), du=np.ones((4, 1)))
    with pytest.raises(DataError, match="shape"):
        read_set(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", t=np.arange(5.0), u=np.array([{}], dtype=object), du=np.ones((5, 1)))
    with pytest.raises(DataError):
        read_set(tmp_path / "c.npz")
    (tmp_path / "truth.json").write_text('["u0"]')
    np.savez(tmp_path / "d.npz", t=np.arange(5.0), u=np.ones((5, 1)), du=np.ones((5, 1)))
    with pytest.raises(DataError, match="by operator"):
        read_set(tmp_path / "d.npz")
    with pytest.raises(BvsiError, match="call fit"):
        Estimator().predict(np.arange(3), np.ones((3, 1)))
