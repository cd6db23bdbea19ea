"""Whole files that hold what cannot be used are refused: one message, exit code 2, nothing touched."""

import pytest

from cli.malformed_contents import content_cases

CASES = list(content_cases())


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_refused(refused, case):
    refused(case)
