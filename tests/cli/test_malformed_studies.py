"""Study files with faults and hostile texts are refused: one message, exit code 2, nothing touched."""

import pytest

from cli.malformed_studies import study_cases

CASES = list(study_cases())


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_refused(refused, case):
    refused(case)
