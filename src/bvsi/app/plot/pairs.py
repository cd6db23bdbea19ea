"""The posterior, two coefficients at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.covariance import correlations
from bvsi.app.plot.style import BLUE, GREY, ORANGE
from bvsi.app.units import NO_UNITS, labelled
from bvsi.infer.posteriors import Posterior

Array = NDArray[np.float64]

MOST_PAIRS = 8
"""Coefficients that are shown at most."""

RADII = (1.51, 2.45)
"""√χ²₂ quantiles: ellipses with these radii hold 68% and 95% of a normal law."""

_GAP = 0.06


def posterior_pairs(
    ax: Any,
    posterior: Posterior,
    *,
    size: int = 400,
    rng: np.random.Generator,
    units: Mapping[str, str] = NO_UNITS,
) -> None:
    """Draws with 68% and 95% ellipses below the diagonal, histograms on it; panels are insets of the Axes.

    Parameters
    ----------
    size
        Number of draws. Of more than eight coefficients the least certain are shown.
    units
        Of the coefficients by name, for the labels.
    """
    chosen = least_certain(posterior)
    names = [labelled(posterior.names[i], units) for i in chosen]
    draws = posterior.sample(size, rng)[:, chosen]
    covariance = posterior.covariance[np.ix_(chosen, chosen)]
    ax.set_axis_off()
    d = len(chosen)
    for i in range(d):
        for j in range(i + 1):
            panel = ax.inset_axes(((j + _GAP) / d, (d - 1 - i + _GAP) / d, (1 - 2 * _GAP) / d, (1 - 2 * _GAP) / d))
            if i == j:
                panel.hist(draws[:, i], bins=24, color=BLUE, alpha=0.8)
            else:
                panel.plot(draws[:, j], draws[:, i], ".", color=BLUE, markersize=2, alpha=0.5)
                for radius in RADII:
                    ring = radius * ellipse(covariance[np.ix_([j, i], [j, i])]) + posterior.mean[[chosen[j], chosen[i]]]
                    panel.plot(*ring.T, color=ORANGE, linewidth=1)
            _finish(panel, names[j] if i == d - 1 else "", names[i] if j == 0 else "", counts=i == j)


def least_certain(posterior: Posterior, most: int = MOST_PAIRS) -> list[int]:
    """Positions of the coefficients with the largest relative standard deviation, in their own order."""
    sd, size = np.sqrt(posterior.variance), np.abs(posterior.mean)
    relative = sd / np.where(size > 0, size, np.finfo(float).tiny)
    return sorted(np.argsort(-relative, kind="stable")[:most].tolist())


def ellipse(covariance: Array, points: int = 49) -> Array:
    """The unit circle of a covariance (2, 2): points × 2, at Mahalanobis distance one from zero."""
    angle = np.linspace(0, 2 * np.pi, points)
    sd, r = np.sqrt(np.diag(covariance)), correlations(covariance)[0, 1]
    return np.stack([sd[0] * np.cos(angle), sd[1] * (r * np.cos(angle) + np.sqrt(1 - r**2) * np.sin(angle))], axis=1)


def _finish(panel: Any, below: str, left: str, *, counts: bool) -> None:
    """Names and numbers at the edge only, two numbers an axis, since the panels are small; counts have no numbers."""
    for axis, shown in ((panel.xaxis, below), (panel.yaxis, "" if counts else left)):
        low, high = axis.get_view_interval()
        ends = (0.8 * low + 0.2 * high, 0.2 * low + 0.8 * high)
        axis.set_ticks(ends if shown else [], [f"{end:.4g}".replace("-", "−") for end in ends] if shown else [])
    panel.tick_params(colors=GREY, labelsize="xx-small")
    panel.tick_params(axis="x", rotation=30)
    panel.set_xlabel(below, rotation=30, ha="right", fontsize="small")
    panel.set_ylabel(left, rotation=0, ha="right", va="center", fontsize="small")
