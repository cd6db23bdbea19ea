"""Rank histograms of simulation-based calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvsi.app.plot.style import BLUE, GREY
from bvsi.errors import BvsiError

BAND = 0.99
"""Probability with which one bin of uniform ranks lies in the band."""


def rank_histogram(ax: Any, ranks: ArrayLike, bins: int, title: str) -> None:
    """Counts of relative ranks in equal bins of [0, 1], over the band in which those of a right posterior lie.

    Parameters
    ----------
    ranks
        (n,) between 0 and 1.
    bins
        How many; a count is Binomial(n, 1/bins) where the ranks are uniform.
    """
    from scipy.stats import binom  # half a second, which no other figure needs

    values = np.asarray(ranks, dtype=float)
    if values.ndim != 1 or not len(values) or not np.all((values >= 0) & (values <= 1)):
        raise BvsiError("ranks: a vector of numbers from 0 to 1 is needed; divide ranks by the number of draws.")
    if bins < 2:
        raise BvsiError(f"bins: at least 2 are needed; got {bins}.")
    low, high = binom.interval(BAND, len(values), 1 / bins)
    ax.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0, zorder=2)
    ax.axhline(len(values) / bins, color=GREY, linewidth=1, zorder=2)
    ax.hist(values, bins=bins, range=(0, 1), color=BLUE, alpha=0.8, edgecolor="white", linewidth=0.5)
    ax.set(title=title, xlim=(0, 1), xlabel="rank of the truth among the draws", ylabel="replications")
