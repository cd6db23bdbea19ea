"""The fault injector: faults are put in, and results that are mixed, lost or told wrongly are seen."""

import errno
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from bvsi.studies.faults import Ended, Fault, Reference, drawn, left_behind, stage_of, told, violations_of
from bvsi.studies.faults import Trial as Tried


def result(path, value, seconds):
    xr.Dataset({"mean": ("operator", [value])}, attrs={"seconds": seconds, "format": "x"}).to_netcdf(
        path, engine="h5netcdf"
    )
    return path.read_bytes()


@pytest.fixture
def sets(tmp_path):
    """An earlier result, a new one, and the new one as another run writes it, which took longer."""
    texts = {"before": b"earlier", "wanted": b"base", "again": b"base"}
    return [
        {
            "result.nc": result(tmp_path / f"{name}.nc", value, seconds),
            "coefficients.csv": str(value).encode(),
            "report.html": texts[name] + str(seconds).encode(),
            "timing.json": str(seconds).encode(),
        }
        for name, value, seconds in (("before", 1.0, 3.0), ("wanted", 2.0, 4.0), ("again", 2.0, 5.0))
    ]


def test_whole_results_are_seen_as_such(sets):
    before, wanted, again = sets
    assert left_behind(before, before, wanted) == "earlier"
    assert left_behind(wanted, before, wanted) == "new"
    assert left_behind(again, before, wanted) == "new"


@pytest.mark.parametrize("name", ["result.nc", "coefficients.csv", "report.html"])
def test_a_mixed_result_is_seen(sets, name):
    before, wanted, again = sets
    assert left_behind(again | {name: before[name]}, before, wanted).startswith(f"mixed: of the earlier result {name};")
    assert left_behind(before | {name: again[name]}, before, wanted).startswith("mixed")


def test_lost_damaged_and_left_over_files_are_seen(sets):
    before, wanted, again = sets
    lacking = {name: content for name, content in again.items() if name != "coefficients.csv"}
    assert "missing coefficients.csv" in left_behind(lacking, before, wanted)
    assert "left over .x.part" in left_behind(again | {".x.part": b""}, before, wanted)
    assert left_behind(again | {"result.nc": again["result.nc"][:100]}, before, wanted).startswith("mixed")
    assert left_behind({}, before, wanted).startswith("mixed")


def test_the_last_bit_of_a_coefficient_counts(sets, tmp_path):
    before, wanted, again = sets
    near = result(tmp_path / "near.nc", np.nextafter(2.0, 3.0), 5.0)
    assert left_behind(again | {"result.nc": near}, before, wanted).startswith("mixed")


GOOD, BAD = Ended(0, "", 1.0), Ended(2, "error: x.\n", 1.0)


@pytest.mark.parametrize(
    "fault, ended, left, again, final, words",
    [
        (Fault("SIGKILL"), Ended(-9, "", 1.0), "earlier", GOOD, "new", ""),
        (Fault("SIGTERM"), Ended(143, "", 1.0), "earlier", GOOD, "new", ""),
        (Fault("SIGINT"), Ended(130, "interrupted\n", 1.0), "earlier", GOOD, "new", ""),
        (Fault("ENOSPC"), Ended(2, "error: no space.\n", 1.0), "earlier", GOOD, "new", ""),
        (Fault("ENOSPC"), Ended(-11, "", 1.0), "earlier", GOOD, "new", "exit code -11"),
        (Fault("ENOSPC"), Ended(2, "", 1.0), "earlier", GOOD, "new", "no single message"),
        (Fault("ENOSPC"), Ended(0, "", 1.0), "earlier", GOOD, "new", "the new result is not there"),
        (Fault("EIO"), Ended(2, "error: x.\nTraceback (\nOSError\n", 1.0), "earlier", GOOD, "new", "traceback"),
        (Fault("SIGINT"), Ended(1, "Traceback\nKeyboardInterrupt\n", 1.0), "earlier", GOOD, "new", "traceback"),
        (Fault("SIGINT"), Ended(-9, "", 300.0, hung=True), "earlier", GOOD, "new", "does not end"),
        (Fault("SIGKILL"), Ended(-9, "", 1.0), "mixed: a", GOOD, "new", "mixed: a"),
        (Fault("SIGKILL"), Ended(-9, "", 1.0), "earlier", BAD, "earlier", "started again: exit code 2"),
        (Fault("SIGKILL"), Ended(-9, "", 1.0), "earlier", GOOD, "earlier", "started again: earlier"),
    ],
)  # fmt: skip
def test_violations(fault, ended, left, again, final, words):
    found = violations_of(fault, ended, left, again, final)
    assert any(words in one for one in found) if words else not found


def test_stages_are_told_by_what_is_finished(tmp_path):
    work = tmp_path / "result/.bvsi"
    work.mkdir(parents=True)
    (work / "discovery-old").write_text("x")
    old = frozenset(["discovery-old"])
    assert stage_of(tmp_path, old, "earlier") == "start to discovery"
    (work / "discovery-new").write_text("x")
    assert stage_of(tmp_path, old, "earlier") == "forecast"
    (work / "forecast-new").write_text("x")
    assert stage_of(tmp_path, old, "earlier") == "writing"
    assert stage_of(tmp_path, old, "new") == "after the move"
    assert stage_of(tmp_path, old, "mixed: x") == "moving"


def test_faults_are_drawn_alike_from_a_seed():
    reference = Reference({}, {}, 4.0, 70, 100_000, 500_000)
    first, second = (drawn(reference, 30, 20, np.random.default_rng(3)) for _ in range(2))
    assert first == second
    assert {fault.kind for fault in first} == {
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
        "SIGKILL at a write",
        "ENOSPC",
        "EIO",
        "EACCES",
        "file size",
        "full disk",
    }
    assert all(0 <= fault.moment <= (70 if "write" in fault.kind else 4.2) for fault in first[:30])
    table = told(reference, [Tried(fault, "writing", 2, "earlier", ()) for fault in first])
    assert "| EIO | writing | 4 | 2 × 4 | 4 | 0 | 0 |" in table
    assert "Violations: 0" in table


@pytest.mark.parametrize("at, error, code", [(1, errno.ENOSPC, 2), (1, -9, -9), (0, 0, 0)])
def test_an_act_of_writing_fails(tmp_path, at, error, code):
    x = np.linspace(0, 6, 32)
    (tmp_path / "result").mkdir()
    values = np.sin(x + np.linspace(0, 1, 21)[:, None])
    dataset = xr.Dataset({"u": (("t", "x"), values)}, coords={"t": np.linspace(0, 1, 21), "x": x})
    dataset.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    plan = {"folder": str(tmp_path / "result"), "at": at, "error": error, "lasting": True, "size": 0}
    plan["count"] = str(tmp_path / "count")
    command = [sys.executable, "-P", "-m", "bvsi.studies.fault_child", json.dumps(plan)]
    command += ["init", "run.nc", "--out", "result/study.toml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == code, ended.stderr
    assert ("error: " in ended.stderr) == (code == 2)
    assert (tmp_path / "result/study.toml").exists() == (not at)
    assert code < 0 or int((tmp_path / "count").read_text()) >= 1
