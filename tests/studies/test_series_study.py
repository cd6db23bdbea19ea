"""The study of series: its systems, one repeat, and what it says."""

import json

import numpy as np
import pytest

from bvsi.studies.series import SYSTEMS, main, repeat, summary


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_true_operator_is_a_candidate(name):
    system = SYSTEMS[name]
    assert set(system.truth) <= set(system.library.names)
    assert len(system.low) == len(system.high) == len(system.fields)


def test_a_repeat_is_reproducible_and_told(tmp_path):
    one, again = (repeat("logistic", 0.05, 0, 3) for _ in range(2))
    assert one.names == again.names == ("x", "x**2")
    assert one.tpr == 1
    assert one.z == again.z
    assert max(np.abs(list(one.z.values()))) < 4
    assert "right 1 of 1" in summary([one])


def test_the_command_writes_what_it_found(tmp_path, capsys):
    main(["--systems", "logistic", "--noise", "0.05", "--repeats", "1", "--seed", "3", "--out", str(tmp_path)])
    assert "logistic 5%: TPR 1.000" in capsys.readouterr().out
    assert json.loads((tmp_path / "series-3.json").read_text())[0]["covered"]
