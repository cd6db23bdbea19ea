"""Command lines that name what is not there, or is no result are refused: one message, exit code 2, nothing touched."""

import pytest

from cli.malformed_commands import command_cases

CASES = list(command_cases())


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_refused(refused, case):
    refused(case)
