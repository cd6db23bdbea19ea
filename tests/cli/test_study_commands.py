"""From a data file to a report and what follows from it, through the commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bvsi.app.cli.main import main
from bvsi.app.study import run as engine
from bvsi.discovery import Discovery
from discovery.exact_cases import BURGERS_TRUTH, burgers, noisy

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bvsi(command: Command, monkeypatch: pytest.MonkeyPatch, study: Path) -> Command:
    """Run a command in the folder of the study; exit code, stdout, stderr."""
    monkeypatch.chdir(study.parent)
    return command


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with noisy Burgers data, and the study that init writes for them, made quicker; it has been run."""
    folder = tmp_path_factory.mktemp("study")
    noisy(burgers(), 0.02).to_xarray().to_netcdf(folder / "run.nc", engine="h5netcdf")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    for arguments in (["init", "run.nc"], ["run", "study.toml", "--quiet"]):
        patch.setattr(sys, "argv", ["bvsi", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        if arguments[0] == "init":
            text = (folder / "study.toml").read_text()
            text = re.sub(r"#draws = 20", "draws = 3", text, count=1)
            text += '\n[[quantity]]\nname = "viscosity"\nexpression = "2*[laplacian(u)]"\n'
            (folder / "study.toml").write_text(text)
    patch.undo()
    return folder / "study.toml"


def test_run_writes_everything(study: Path) -> None:
    result = study.parent / "result"
    names = {path.name for path in result.iterdir() if path.is_file()}
    assert names == {
        "result.nc", "report.html", "report.md", "equation.tex", "coefficients.csv", "summary.json", "settings.json",
        "timing.json", "study.toml",
    }  # fmt: skip
    found = Discovery.load(result / "result.nc")
    assert set(found.names) == set(BURGERS_TRUTH)
    for name, value in BURGERS_TRUTH.items():
        assert abs(found.coefficient(name) - value) < 4 * found.sd[found.names.index(name)]
    assert found.forecast is not None
    assert found.frames is not None
    summary = json.loads((result / "summary.json").read_text())
    assert summary["verdict"] == found.verdict == "consistent"
    with xr.open_dataset(result / "quantities" / "viscosity.nc", engine="h5netcdf") as quantity:
        assert float(quantity["mean"]) == pytest.approx(2 * found.coefficient("laplacian(u)"))


def test_a_finished_run_is_not_computed_again(study: Path, bvsi: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(engine, "discover", never)
    monkeypatch.setattr(engine, "forecast", never)
    before = Discovery.load(study.parent / "result" / "result.nc")
    code, out, err = bvsi("run", "study.toml", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["equation"] == before.equation.splitlines()
    np.testing.assert_array_equal(Discovery.load(study.parent / "result" / "result.nc").theta, before.theta)


def test_an_interrupted_run_goes_on(
    study: Path, bvsi: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The discovery was done, the forecast was not: the answer is there, and nothing is done twice."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "result"
    with monkeypatch.context() as patch:
        patch.setattr(engine, "forecast", interrupted)
        code, said, err = bvsi("run", "study.toml", "--out", out)
    assert code == 130
    assert "verdict: " in said
    assert "continues where it stopped" in err
    assert Discovery.load(out / "result.nc").forecast is None
    monkeypatch.setattr(engine, "discover", interrupted)
    assert bvsi("run", "study.toml", "--out", out, "--quiet") == (0, "", "")
    mine, whole = (Discovery.load(folder / "result.nc") for folder in (out, study.parent / "result"))
    np.testing.assert_array_equal(mine.theta, whole.theta)
    assert mine.forecast is not None
    assert whole.forecast is not None
    np.testing.assert_array_equal(mine.forecast.error, whole.forecast.error)


def test_check_only_computes_nothing(bvsi: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "discover", None)
    code, out, _ = bvsi("run", "study.toml", "--check-only")
    assert code == 0
    assert out.endswith("The study can be run.\n")


def test_inspect(bvsi: Command, study: Path) -> None:
    code, out, _ = bvsi("inspect", "run.nc", "--json")
    seen = json.loads(out)
    assert code == 0
    assert seen["noise"]["u"] == pytest.approx(0.02, rel=0.1)
    assert "u*dx(u)" in seen["operators"]["u"]
    assert (study.parent / seen["picture"]).read_bytes().startswith(b"\x89PNG")
    code, out, _ = bvsi("inspect", "run.nc", "--no-picture")
    assert out.endswith("next: bvsi init run.nc\n")
    code, out, _ = bvsi("inspect", "run.nc", "--no-picture", "--time", "time")
    assert out.endswith("next: bvsi init run.nc --time time\n")


def test_init_does_not_write_over_a_study(bvsi: Command, study: Path) -> None:
    before = study.read_text()
    code, _, err = bvsi("init", "run.nc")
    assert code == 2
    assert "--force" in err
    assert study.read_text() == before


def test_report(bvsi: Command, study: Path) -> None:
    code, out, _ = bvsi("report", "result", "--out", "again.html", "--title", "Again & again")
    assert (code, out) == (0, "report: again.html\n")
    page, before = ((study.parent / name).read_text() for name in ("again.html", "result/report.html"))
    assert "Again &amp; again" in page
    assert "viscosity" in page  # what stands beside the result is there again
    assert len(page) == pytest.approx(len(before), rel=0.01)


def test_other_values_in_the_same_file_are_another_run(bvsi: Command, study: Path, tmp_path: Path) -> None:
    text = (study.parent / "study.toml").read_text()
    text += "\n[forecast]\nenabled = false\n" if "[forecast]" not in text else ""
    (tmp_path / "study.toml").write_text(text.replace("draws = 3", "enabled = false\n#draws = 3"))
    found = []
    for seed in (1, 2):
        noisy(burgers(), 0.02, seed).to_xarray().to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
        assert bvsi("run", tmp_path / "study.toml", "--quiet")[0] == 0
        found.append(Discovery.load(tmp_path / "result" / "result.nc").theta)
    assert not np.array_equal(*found)


def test_predict(bvsi: Command, study: Path) -> None:
    code, out, _ = bvsi("predict", "result", "[laplacian(u)]*x**2", "--axis", "x=0:1:5", "--out", "p.csv", "--json")
    value = Discovery.load(study.parent / "result" / "result.nc").coefficient("laplacian(u)")
    assert code == 0
    assert json.loads(out)["data_vars"]["mean"]["data"][-1] == pytest.approx(value)
    table = np.genfromtxt(study.parent / "p.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["mean"], value * np.linspace(0, 1, 5) ** 2, atol=1e-12)
    code, out, _ = bvsi("predict", "result", "[laplacian(u)]")
    assert f"{value:.6g}" in out


def test_simulate(bvsi: Command, study: Path) -> None:
    code, out, _ = bvsi("simulate", "--draws", "3", "--json", "--out", "s.nc")
    assert code == 0
    assert max(json.loads(out)["error"]["u"]) < 0.15  # the noise is 0.09 of the field
    with xr.open_dataset(study.parent / "s.nc", engine="h5netcdf") as made:
        assert made["u"].shape == made["u_sd"].shape == (41, 48)
    assert bvsi("simulate", "--draws", "3", "--out", "s.pvd")[0] == 0
    assert len(list(study.parent.glob("s*.vtu"))) == 41


def test_compare(bvsi: Command, study: Path) -> None:
    assert bvsi("compare", "result", "result")[0] == 2
    (study.parent / "other.nc").write_bytes((study.parent / "result" / "result.nc").read_bytes())
    code, out, _ = bvsi("compare", "result", "other.nc")
    assert code == 0
    assert out.count("u_t = ") == 2


def test_doctor(bvsi: Command) -> None:
    code, out, _ = bvsi("doctor", "--json")
    assert code == 0
    assert json.loads(out)["versions"]["bvsi"]
