"""Malformed inputs to bvsi as users start it; how many there are; and what this user may not read or write."""

import os
import subprocess
import sys

import pytest

from cli.malformed import BASE, Case, check_refused, picture, study
from cli.malformed_commands import command_cases
from cli.malformed_contents import content_cases
from cli.malformed_files import file_cases
from cli.malformed_studies import study_cases

CASES = [*file_cases(), *content_cases(), *study_cases(), *command_cases()]
STARTED = (
    "nc: cut at 90%",
    "csv: web page",
    "vtu: noise in the middle",
    "arrays: pickled objects",
    "table: escapes of a terminal",
    "operator: import",
    "operator: tower",
    "constraints: contradiction of three",
    "report: result cut at 30%",
    "run of a pipe",
)


def test_there_are_hundreds_and_all_differ():
    names = [case.name for case in CASES]
    assert len(names) >= 200
    assert len(set(names)) == len(names)
    assert set(STARTED) <= set(names)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in STARTED], ids=lambda case: case.name)
def test_refused_in_a_process_of_its_own(tmp_path, whole, case):
    case.fill(tmp_path, whole)
    before = picture(tmp_path)
    command = [sys.executable, "-m", "bvsi.app.cli", *case.command]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    check_refused(ended.returncode, ended.stderr, before, tmp_path)


def closed(name, mode):
    """The small study with its data, one of them without permissions."""

    def fill(folder, whole):
        study(BASE, "good.nc")(folder, whole)
        (folder / name).chmod(mode)
        if os.access(folder / name, os.R_OK if name else os.W_OK):
            pytest.skip("this user may read and write everything")

    return fill


@pytest.mark.parametrize("name, mode", [("good.nc", 0o200), ("study.toml", 0o200), ("", 0o500)])
def test_without_permission(refused, tmp_path, name, mode):
    try:
        refused(Case("no permission", closed(name, mode)))
    finally:
        tmp_path.chmod(0o700)
