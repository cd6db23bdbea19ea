"""A forecast against the data: growth of its error, and how often its band holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bvsi.app.plot.style import BLUE, GREY, ORANGE, SERIES
from bvsi.app.units import NO_UNITS, labelled
from bvsi.predict.forecast import Forecast


def forecast_errors(ax: Any, forecast: Forecast, *, units: Mapping[str, str] = NO_UNITS) -> None:
    """Relative error of the mean forecast over time, that expected, its spread; coverage on an axis at the right.

    Frames that were held out are shaded; the error expected is √(noise² + spread²).

    Parameters
    ----------
    units
        That of ``t`` is used.
    """
    times, held = forecast.times, forecast.held_out
    if held.any():
        ax.axvspan(times[held].min(), times[held].max(), color=SERIES[4], alpha=0.2, linewidth=0, label="held out")
    ax.plot(times, forecast.error, color=BLUE, label="error")
    ax.plot(times, forecast.expected_error, "--", color=ORANGE, label="expected")
    ax.plot(times, forecast.spread, ":", color=GREY, label="spread")
    ax.set(xlabel=labelled("t", units), ylabel="relative to the RMS of the data", ylim=(0, None))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5, frameon=False, fontsize="small")
    right = ax.twinx()
    right.plot(times, forecast.coverage, color=SERIES[2], linewidth=1)
    right.axhline(0.95, color=SERIES[2], linestyle=":", linewidth=1)
    right.set(ylim=(0, 1.05))
    right.set_ylabel("share within the 95% band", color=SERIES[2])
