"""``bvsi bench discovery``: help, what it refuses, what it prints."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from bvsi.studies.benchmarks.discovery import ours
from bvsi.studies.benchmarks.discovery.method import CoefficientEstimate


@pytest.fixture
def bench(command, monkeypatch):
    """Run the command in this process; exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    return functools.partial(command, "bench", "discovery")


def test_help_names_all_options(bench):
    code, out, _ = bench("--help")
    assert code == 0
    for option in ("--cases", "--levels", "--seeds", "--out", "--no-peer", "--public-only"):
        assert option in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--cases", "burger"], ["--cases", "'burgers'"]),
        (["--levels", "0,ten"], ["--levels"]),
        (["--levels", "-5"], ["levels"]),
    ],
    ids=lambda v: " ".join(v),
)
def test_bad_settings_are_one_line_and_exit_code_two(bench, tmp_path, arguments, words):
    code, out, err = bench(*arguments, "--no-peer", "--out", tmp_path / "new")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err
    assert not (tmp_path / "new").exists()


def test_public_data_that_are_not_there_are_told(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("BVSI_DATA", str(tmp_path))
    code, _, err = bench("--public-only", "--no-peer", "--out", tmp_path / "new")
    assert code == 2
    assert "BVSI_DATA" in err


def test_a_missing_peer_is_told_before_the_work(bench, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysindy", None)
    code, _, err = bench("--cases", "fokker_planck_2d", "--levels", "0", "--out", tmp_path / "new")
    assert code == 2
    assert "bvsi[bench]" in err
    assert "--no-peer" in err
    assert not (tmp_path / "new").exists()


def test_the_command_prints_the_table_and_where_the_files_are(bench, tmp_path, monkeypatch):
    calls = []

    def half(self, case, data) -> CoefficientEstimate:
        calls.append(case.name)
        theta = {name: 1.5 * value for name, value in case.truth.items()}
        return CoefficientEstimate(theta, case.truth, 0.1, dict.fromkeys(theta, (-np.inf, np.inf)))

    monkeypatch.setattr(ours.Bvsi, "estimate", half)
    arguments = ("--cases", "fokker_planck_2d", "--levels", "0,20", "--seeds", 2, "--no-peer", "--out", tmp_path)
    code, out, err = bench(*arguments)
    assert code == 0, err
    assert "| fokker_planck_2d | 20% | 1.00 | – | 5.0e-01 |" in out
    for name in ("table.md", "table.csv", "figure.png"):
        assert str(tmp_path / name) in out
        assert (tmp_path / name).stat().st_size
    assert len(calls) == 3
    assert bench(*arguments)[:2] == (0, out)
    assert len(calls) == 3
