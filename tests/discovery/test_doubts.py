"""Reasons to doubt an answer that the check finds nothing wrong with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bvsi.app.report.summary_section import judgement
from bvsi.discovery import Discovery, discover
from bvsi.infer import Reason, Status
from bvsi.operators import Library
from bvsi.predict.push import Forecast
from discovery.exact_cases import BURGERS, burgers, noisy


def forecast(coverage: float, failed: int = 0) -> Forecast:
    T = 5
    held = np.arange(T) > 2
    return Forecast(
        np.arange(T) * 1.0, held, np.full(T, 0.1), np.full(T, 0.01), 0.1, np.full(T, coverage), 10, failed, "told"
    )


def sure() -> Discovery:
    return discover(noisy(burgers(), 0.02), BURGERS)


def test_doubts_turn_the_tick_into_a_warning() -> None:
    found = sure()
    assert found.verdict == "consistent"
    assert found.doubts == ()
    assert judgement(found).style == "good"
    for doubtful in (
        replace(found, status=Status(False, 30, "not converged")),
        replace(found, status=Status(True, 3, "noise", frozenset({Reason.SWAMPED}))),
        replace(found, path=replace(found.path, doubts="Not decided: rivals.")),
        replace(found, forecast=forecast(0.3)),
        replace(found, forecast=forecast(0.95, failed=8)),
        replace(found, no_simulation="simulate: no solution"),
    ):
        assert len(doubtful.doubts) == 1
        assert judgement(doubtful).style == "doubt"
        assert f"doubt: {doubtful.doubts[0]}" in str(doubtful)
    assert replace(found, forecast=forecast(0.95)).doubts == ()


def test_what_the_data_cannot_tell_is_said_as_an_interval() -> None:
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u"]}, keep=["u"])
    found = discover(noisy(burgers(), 0.02), library)
    assert "u" in found.names
    low, high = found.posterior.interval()[found.names.index("u")]
    assert low < 0 < high
    assert f"u between {low:.3g} and {high:.3g}" in found.doubts[0]
    assert "u between" in str(found)
