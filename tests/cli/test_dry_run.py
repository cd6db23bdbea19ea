"""``bvsi run --dry-run``: what would be done and the memory that it takes, and nothing is computed."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Never

import pytest

from bvsi.app.cli.main import main
from bvsi.app.study import load_study, read_inputs
from bvsi.app.study import run as engine
from discovery.exact_cases import burgers, noisy

_STUDY = """\
[data]
file = "run.nc"
time = "time"
[library.equations]
u = ["u", "u*dx(u)", "laplacian(u)"]
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study whose discovery must not be begun."""

    def refuse(*_: object, **__: object) -> Never:
        raise AssertionError("a dry run computes nothing")

    noisy(burgers(), 0.02).to_xarray().to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    (tmp_path / "study.toml").write_text(_STUDY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["bvsi.app.study.run"], "discover", refuse)
    return tmp_path / "study.toml"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bvsi", "run", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_dry_run_tells_method_sizes_and_memory(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, str(study), "--dry-run") == 0
    printed = capsys.readouterr().out
    for words in ("method: spline tests", "3 operators", "time: about", "peak memory about", "The study can be run."):
        assert words in printed
    assert {path.name for path in study.parent.iterdir()} == {"run.nc", "study.toml"}


def test_dry_run_as_json(study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, str(study), "--dry-run", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["valid"]
    assert record["operators"] == 3
    memory = record["memory"]
    assert memory["peak"] > sum(memory["parts"].values()) > 0


def test_a_run_warns_where_memory_will_not_do(
    study: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = read_inputs(load_study(study))
    for module in ("bvsi.app.study.run", "bvsi.app.study.memory"):
        monkeypatch.setattr(f"{module}.free_memory", lambda: 1e5)
    with caplog.at_level(logging.WARNING), pytest.raises(AssertionError, match="dry run"):
        engine.discovered(inputs)
    assert "free" in caplog.text
