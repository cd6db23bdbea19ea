"""Rates of right and wrong answers with and without an alarm, by case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, ORANGE

_SHARES = {
    "right_consistent": ("right, consistent", BLUE),
    "right_alarm": ("right, alarm", "#9ecae1"),
    "wrong_alarm": ("wrong, alarm", GREY),
    "wrong_consistent": ("wrong, consistent", ORANGE),
}


def honesty(figure: Any, cases: Mapping[str, Mapping[str, Any]]) -> None:
    """One bar for each case.

    Parameters
    ----------
    cases
        Shares by case, as ``bvsi bench honesty`` stores them.
    """
    ax, places = figure.subplots(), np.arange(len(cases))
    left = np.zeros(len(cases))
    for key, (label, colour) in _SHARES.items():
        share = np.array([one[key] for one in cases.values()])
        ax.barh(places, share, left=left, color=colour, label=label)
        left += share
    ax.set_yticks(places, list(cases), fontsize=7)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of the runs")
    ax.legend(fontsize=7, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
