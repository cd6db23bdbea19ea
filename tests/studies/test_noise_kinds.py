"""The study of noise of many kinds: a run of each sort ends right, consistent and covered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bvsi.studies import noise_kinds
from bvsi.studies.problems.classics import CLASSICS


@pytest.fixture(scope="module")
def small():
    return replace(CLASSICS["burgers"], make=lambda: CLASSICS["burgers"].make(nodes=128, times=61))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("blur x 1", "noise is blurred over"),
        ("counts 20", "noise grows with the signal"),
        ("outliers 1%", "as missing"),
    ],
)
def test_a_run_is_right_and_tells_the_kind(small, kind, words):
    run = noise_kinds.trial(small, noise_kinds.KINDS[kind], np.random.default_rng(0))
    assert run.right
    assert run.verdict == "consistent"
    assert np.abs(run.z).max() < 4
    assert words in run.told
    assert f"| burgers | {kind} | 1 | 1 | 0 | 0 | 0 |" in noise_kinds.line("burgers", kind, [run])
