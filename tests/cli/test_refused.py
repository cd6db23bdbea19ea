"""Malformed inputs are refused: one message that says what is wrong, exit code 2, nothing touched."""

import os
import subprocess
import sys

import pytest

from cli.malformed import BASE, Case, check_refused, picture, study
from cli.malformed_commands import command_cases
from cli.malformed_contents import content_cases
from cli.malformed_files import file_cases
from cli.malformed_studies import study_cases
from cli.refusals import REFUSALS

TOLD = {name: words for words, names in REFUSALS.items() for name in names}
ALL = [*file_cases(), *content_cases(), *study_cases(), *command_cases()]
CASES = [case for case in ALL if case.name in TOLD]
IN_PROCESSES = ("vtu: noise in the middle", "operator: import", "run of a pipe")


def test_the_table_and_the_inputs_belong_together():
    names = [case.name for case in ALL]
    assert len(set(names)) == len(names)
    assert len(TOLD) == sum(len(names) for names in REFUSALS.values())
    assert {case.name for case in CASES} == set(TOLD)
    assert {name for name in names if name not in TOLD} <= {case.name for case in file_cases()}


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_refused(refused, case):
    refused(case, TOLD[case.name])


@pytest.mark.parametrize("case", [case for case in CASES if case.name in IN_PROCESSES], ids=lambda case: case.name)
def test_refused_in_a_process_of_its_own(tmp_path, whole, case):
    case.fill(tmp_path, whole)
    before = picture(tmp_path)
    command = [sys.executable, "-m", "bvsi.app.cli", *case.command]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    check_refused(ended.returncode, ended.stderr, TOLD[case.name], before, tmp_path)


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
        refused(Case("no permission", closed(name, mode)), "ermission")
    finally:
        tmp_path.chmod(0o700)
