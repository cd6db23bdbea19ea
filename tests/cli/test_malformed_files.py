"""Damaged files of every format are refused: one message, exit code 2, nothing touched."""

import pytest

from cli.malformed_files import file_cases

CASES = list(file_cases())


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_refused(refused, case):
    refused(case)
