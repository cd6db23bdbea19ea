"""Whole files to damage, and a way to run a command that must refuse what it is given."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bvsi.app.cli.main import main
from cli.malformed import Case, check_refused, picture
from cli.malformed_commands import whole_results
from cli.malformed_files import whole_files


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with whole files of every format, and results."""
    folder = tmp_path_factory.mktemp("whole")
    whole_files(folder)
    whole_results(folder)
    return folder


@pytest.fixture
def refused(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Case, str], None]:
    """Fill a folder, run the command there in this process, and check that it is refused with these words."""

    def run(case: Case, words: str) -> None:
        case.fill(tmp_path, whole)
        before = picture(tmp_path)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["bvsi", *case.command])
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        check_refused(stop.value.code, capfd.readouterr().err, words, before, tmp_path)

    return run
