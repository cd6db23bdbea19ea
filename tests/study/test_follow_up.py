"""Answer first: what follows equation and verdict has a budget, is skipped where it cannot help, and is added later."""

from __future__ import annotations

import time

import numpy as np
import pytest

from bvsi.app.study import FollowUp, load_study, run_study
from bvsi.common.progress import Lines, OutOfTimeError, limited, silent
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery

STUDY = """
[data]
file = "data.nc"
[library.equations]
u = [{operators}]
[forecast]
draws = 2
"""


@pytest.fixture
def study(tmp_path):
    """A decaying, drifting wave on a ring, with a study of the operators given."""
    x, t = np.linspace(0, 2 * np.pi, 48, endpoint=False), np.linspace(0, 2, 41)
    u = sum(np.exp(-0.2 * k**2 * t[:, None]) * np.cos(k * (x - 0.5 * t[:, None])) / k for k in (1, 2, 3))
    u += 0.01 * np.random.default_rng(0).standard_normal(u.shape)
    Data(t, {"u": u}, Grid(x=x, periodic={"x": 2 * np.pi})).to_xarray().to_netcdf(tmp_path / "data.nc")

    def made(*operators):
        text = STUDY.format(operators=", ".join(f'"{one}"' for one in operators))
        (tmp_path / "study.toml").write_text(text)
        return load_study(tmp_path / "study.toml")

    return made


RIGHT = ("dx(u)", "dx(dx(u))", "u")


def test_the_answer_is_written_before_the_forecast(study):
    seen = []

    def answered(found, folder):
        seen.append((found.verdict, found.forecast, Discovery.load(folder / "result.nc").forecast))
        assert (folder / "report.html").exists()

    finished = run_study(study(*RIGHT), answered=answered)
    assert seen == [("consistent", None, None)]
    assert finished.found.forecast is not None


def test_a_budget_is_held_and_the_forecast_can_be_added(study):
    one = study(*RIGHT)
    finished = run_study(one, wanted=FollowUp(0.0))
    assert finished.found.forecast is None
    assert any("bvsi forecast --budget" in note for note in finished.notes)
    again = run_study(one, wanted=FollowUp(60.0, frozenset({"forecast"})))
    assert again.found.forecast is not None
    assert again.taken == ("discovery",)
    kept = run_study(one, wanted=FollowUp(0.0))
    assert kept.taken == ("discovery", "forecast")
    assert kept.found.forecast is not None


def test_an_equation_that_explains_nothing_is_not_forecast_unless_asked_for(study):
    one = study("u", "u**2")
    finished = run_study(one)
    assert finished.found.verdict != "consistent"
    assert finished.found.forecast is None
    assert any("skipped" in note for note in finished.notes)
    asked = run_study(one, wanted=FollowUp(60.0, frozenset({"forecast"})))
    assert not any("skipped" in note for note in asked.notes)


def test_a_report_says_what_changed(study):
    run_study(study(*RIGHT), wanted=FollowUp(0.0))
    finished = run_study(study("dx(u)", "u"), wanted=FollowUp(0.0))
    page = finished.report.read_text(encoding="utf-8")
    assert "Since the last run" in page
    assert "No longer in the equation: dx(dx(u))." in page
    assert "For the paper" in page


def test_work_that_reports_too_late_is_ended():
    late = limited(silent, -1.0)
    with pytest.raises(OutOfTimeError):
        late(1, 2, "simulating")


def test_lines_have_an_estimate_of_the_time_left():
    lines = []
    show = Lines(lines.append, every=0.0)
    show(0, 4, "selecting, 3 operators")
    show._begun["selecting"] = (time.monotonic() - 10, 0.0)
    show(2, 4, "selecting, 5 operators")
    show(7, None, "simulating")
    assert lines[0] == "selecting, 3 operators: 0 of 4\n"
    assert lines[1] == "selecting, 5 operators: 2 of 4, about 10 s left\n"
    assert lines[2] == "simulating: 7\n"
