"""Result folders from somebody else, and folders with work of one's own: nothing is lost, forged or brought in."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bvsi.app.cli.main import main
from bvsi.discovery import Discovery

Command = Callable[..., tuple[int, str, str]]

STUDY = """[data]
file = "run.nc"
time = "t"
periodic = {x = 6.283185307179586}
[library.equations]
u = ["u", "dx(u)", "laplacian(u)"]
[check]
enabled = false
[forecast]
enabled = false
[[quantity]]
name = "D"
expression = "[laplacian(u)]"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with advection and diffusion of four waves, a study, and its result."""
    folder = tmp_path_factory.mktemp("made")
    x, t = np.arange(64) * 2 * np.pi / 64, np.linspace(0, 1, 41)
    u = sum(np.exp(-0.3 * k * k * t[:, None]) * np.sin(k * (x - 0.5 * t[:, None]) + k) / k for k in (1, 2, 3, 4))
    u = u + 0.005 * np.random.default_rng(0).standard_normal(u.shape)
    xr.Dataset({"u": (("t", "x"), u)}, {"t": t, "x": x}).to_netcdf(folder / "run.nc", engine="h5netcdf")
    (folder / "study.toml").write_text(STUDY)
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setattr(sys, "argv", ["bvsi", "run", "-q"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    patch.undo()
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which commands run; beside it other work."""
    shutil.copytree(made, tmp_path / "here")
    other = tmp_path / "other"
    (other / "outputs").mkdir(parents=True)
    (other / "quantities").mkdir()
    for name in ("notes.txt", "photo-001.png", "outputs/simulation.dat", "quantities/mine.nc", "study.toml"):
        (other / name).write_text("mine")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def others(here: Path) -> dict[str, str]:
    folder = here.parent / "other"
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def replaced(place: Path, target: Path) -> None:
    """A link in place of what was there."""
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("result/.bvsi/lock", "notes.txt"),
        ("result/.bvsi/written", "notes.txt"),
        ("result/.bvsi", ""),
        ("result/.bvsi/outputs", "outputs"),
        ("result", ""),
        ("result/quantities", "quantities"),
        ("result/study.toml", "study.toml"),
        ("result/report.html", "notes.txt"),
        ("result/report.html", "absent"),
    ],
)
def test_a_run_follows_no_link(here: Path, command: Command, link: str, target: str) -> None:
    before = others(here)
    replaced(here / link, here.parent / "other" / target)
    code, out, err = command("run", "study.toml")
    assert code == 2
    assert "link" in err
    assert out == ""
    assert others(here) == before


@pytest.mark.parametrize(
    "name", ["study.toml", "summary.json", "settings.json", "timing.json", "quantities", "result.nc"]
)
def test_a_report_takes_nothing_through_links(here: Path, command: Command, name: str) -> None:
    (here.parent / "other/secret").write_text("password")
    (here / "result/report.html").unlink()
    replaced(here / "result" / name, here.parent / "other" / ("" if name == "quantities" else "secret"))
    code, _, err = command("report", "result")
    assert code == 2
    assert "link" in err
    assert not (here / "result/report.html").exists()


def test_a_simulation_takes_no_result_through_a_link(here: Path, command: Command) -> None:
    (here / "result/result.nc").rename(here.parent / "other/result.nc")
    (here / "result/result.nc").symlink_to(here.parent / "other/result.nc")
    code, _, err = command("simulate", "--draws", "2")
    assert code == 2
    assert "link" in err


def test_a_report_takes_nothing_from_outside_through_hdf5(here: Path, command: Command) -> None:
    (here.parent / "other/secret").write_bytes(b"password")
    with h5py.File(here / "result/quantities/D.nc", "a") as file:
        file.create_dataset("secret", (8,), "u1", external=[(str(here.parent / "other/secret"), 0, 8)])
    code, _, err = command("report", "result")
    assert code == 2
    assert "outside its folder" in err


@pytest.mark.parametrize("way", ["--out", "relative", "absolute"])
def test_a_folder_with_other_work_is_left_alone(here: Path, command: Command, way: str) -> None:
    before = others(here)
    folder = {"--out": "result", "relative": "../other", "absolute": str(here.parent / "other")}[way]
    (here / "study.toml").write_text(f'{STUDY}[output]\nfolder = "{folder}"\n')
    code, _, err = command("run", "study.toml", *(("--out", "../other") if way == "--out" else ()))
    assert code == 2
    assert ("which bvsi did not write" if way == "--out" else "outside the study's folder") in err
    assert others(here) == before
    assert not (here.parent / "other/.bvsi").exists()


def test_data_behind_a_link_out_of_the_folder_need_a_permission(here: Path, command: Command) -> None:
    (here / "run.nc").rename(here.parent / "other/run.nc")
    (here / "run.nc").symlink_to(here.parent / "other/run.nc")
    code, _, err = command("run", "--check-only")
    assert code == 2
    assert "a link out of the study's folder" in err
    assert command("run", "--check-only", "--allow-outside")[0] == 0


def test_the_study_file_itself_is_never_replaced(here: Path, command: Command) -> None:
    shutil.copy(here / "run.nc", here / "result")
    for folder, study in ((".", "study.toml"), ("result", "result/study.toml")):
        before = (here / study).read_bytes()
        code, _, err = command("run", study, "--out", folder)
        assert code == 2
        assert "the study file itself" in err
        assert (here / study).read_bytes() == before


def test_files_of_ones_own_in_a_result_folder_stay(here: Path, command: Command) -> None:
    for name in ("result/notes.txt", "result/quantities/mine.nc", "result/.bvsi/photo-001.png"):
        (here / name).write_text("mine")
    (here / "study.toml").write_text(STUDY.replace('name = "D"', 'name = "E"'))
    assert command("run", "-q")[0] == 0
    assert sorted(p.name for p in (here / "result/quantities").iterdir()) == ["E.nc", "mine.nc"]
    assert (here / "result/notes.txt").read_text() == (here / "result/.bvsi/photo-001.png").read_text() == "mine"


def test_what_comes_from_an_earlier_run_is_told(here: Path, command: Command) -> None:
    assert "discovery: from an earlier run on this machine" in command("run")[1]


def test_a_forged_stage_is_computed_anew(here: Path, command: Command, caplog: pytest.LogCaptureFixture) -> None:
    (stage,) = (p for p in (here / "result/.bvsi").glob("discovery-*") if p.suffix != ".seal")
    true = Discovery.load(stage)
    with h5py.File(stage, "a") as file:
        file["mean"][...] = 9.8765
    assert Discovery.load(stage).theta[0] == 9.8765
    code, out, _ = command("run")
    assert code == 0
    assert "9.87" not in out
    assert "discovery" in caplog.text
    assert "not computed on this machine" in caplog.text
    assert np.array_equal(Discovery.load(here / "result/result.nc").theta, true.theta)


def test_a_page_of_ones_own_is_not_written_over(here: Path, command: Command) -> None:
    (here / "alone").mkdir()
    shutil.copy(here / "result/result.nc", here / "alone")
    (here / "alone/report.html").write_text("mine")
    code, _, err = command("report", "alone")
    assert code == 2
    assert "was not written by bvsi" in err
    assert (here / "alone/report.html").read_text() == "mine"
    assert command("report", "alone", "--force")[0] == 0


@pytest.mark.parametrize("name", ["study.toml", "data.nc"])
def test_the_demo_writes_over_nothing(here: Path, command: Command, name: str) -> None:
    folder = here / "mine"
    folder.mkdir()
    (folder / name).write_text("mine")
    assert command("demo", "--out", folder)[0] == 2
    assert (folder / name).read_text() == "mine"


def attribute(name: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with h5py.File(folder / "result.nc", "a") as file:
            file.attrs[name] = value

    return change


def text(name: str, content: str | bytes) -> Callable[[Path], None]:
    return lambda folder: (
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode()) and None
    )


def quantity(folder: Path) -> None:
    xr.Dataset({"median": 1.0}).to_netcdf(folder / "quantities/D.nc", engine="h5netcdf")


TEXTS = ("null", "[]", "3", '{"settings": 3, "notes": 4, "discovery": "x", "title": []}', b"\xff", "[" * 100_000)
CHANGES = {
    **{f"{name} {value!r:.20}": attribute(name, value)
       for name in ("block_rows", "settings", "steps", "status", "check")
       for value in ("null", "[]", '"text"', "{}", "[1, [2]]", "[" * 100_000, "1e999")},
    "time_order": attribute("time_order", 1e308), "chi2": attribute("chi2", "many"), "fields": attribute("fields", "3"),
    **{f"{name} {value!r:.20}": text(name, value)
       for name in ("settings.json", "summary.json", "timing.json") for value in TEXTS},
    "study": text("study.toml", b"\xff\xfe"), "quantity": quantity,
    "huge": text("timing.json", b" " * 11_000_000),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_result_is_shown_or_refused_in_one_line(here: Path, command: Command, change) -> None:
    change(here / "result")
    for arguments in (("report", "result"), ("predict", "result", "[dx(u)]")):
        code, _, err = command(*arguments)
        assert code in (0, 2)
        assert code == 0 or (err.startswith("error: ") and err.count("\n") == 1)


def test_a_quantity_that_a_page_cannot_hold_is_refused(here: Path, command: Command) -> None:
    """80 MB of zeros in a few bytes; a page that held them as text took 2.2 GB."""
    with h5py.File(here / "result/quantities/D.nc", "a") as file:
        file.create_dataset("more", shape=(10_000_000,), dtype="f8", chunks=(1000,))
    code, _, err = command("report", "result")
    assert code == 2
    assert "its arrays take 0.08 GB" in err


def test_quantities_have_files_of_their_own(here: Path, command: Command) -> None:
    more = '[[quantity]]\nname = "{}"\nexpression = "[dx(u)]"\n'
    (here / "study.toml").write_text(STUDY + more.format("a b") + more.format("A_B"))
    code, _, err = command("run")
    assert code == 2
    assert "names the file of another quantity" in err


@pytest.mark.parametrize("axis", ["mean", "lower", "upper", "variance", "operator"])
def test_an_axis_does_not_take_the_name_of_a_result(here: Path, command: Command, axis: str) -> None:
    code, _, err = command("predict", "result", f"[dx(u)]*{axis}", "--axis", f"{axis}=0:1:5")
    assert code == 2
    assert "cannot be a variable" in err


def test_a_giant_number_is_refused(here: Path, command: Command) -> None:
    code, _, err = command("predict", "result", "1" + "0" * 400 + "*[dx(u)]")
    assert code == 2
    assert "moderate size" in err


def test_the_page_allows_its_own_script_only(here: Path) -> None:
    page = (here / "result/report.html").read_text()
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page) or re.findall(
        r'content="(default-src.*?)"', page
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = policy.replace("&#x27;", "'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "form-action 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
