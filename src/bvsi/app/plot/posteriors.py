"""Posteriors of several methods, one row per operator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.comparison import Comparison
from bvsi.app.plot.style import GREY, SERIES
from bvsi.discovery.result import with_uncertainty

Array = NDArray[np.float64]

WIDE = 30.0
"""Distances beyond this many standard deviations are drawn on a scale that is logarithmic further out."""


def posterior_comparison(ax: Any, comparison: Comparison) -> None:
    """Means and intervals of every method, each row in standard deviations of the reference.

    Distances are from the truth where it is known, else from the mean of the reference, which stands at the right with
    its standard deviation. A row that the reference lacks is measured by the first method that has it.
    """
    rows = np.arange(len(comparison.names))[::-1]
    centre, unit = _origin(comparison)
    ax.axvline(0.0, color=GREY, linewidth=1, zorder=0)
    for row in rows[::2]:
        ax.axhspan(row - 0.5, row + 0.5, color=GREY, alpha=0.08, linewidth=0, zorder=0)
    offsets = np.linspace(0.25, -0.25, len(comparison.methods)) if len(comparison.methods) > 1 else [0.0]
    for m, (method, offset, colour) in enumerate(
        zip(comparison.methods, offsets, itertools.cycle(SERIES), strict=False)
    ):
        mean, ends = comparison.mean[m], np.stack([comparison.lower[m], comparison.upper[m]])
        has = np.isfinite(mean)
        place, height = ((mean - centre) / unit)[has], (rows + offset)[has]
        ax.hlines(height, *((ends - centre) / unit)[:, has], color=colour, linewidth=2.5, alpha=0.55)
        ax.plot(place, height, "o", color=colour, markersize=5, label=method)
    _finish(ax, comparison, rows)


def _origin(comparison: Comparison) -> tuple[Array, Array]:
    """Zero and unit of each row (d,): by the reference, or the first method with a posterior that has the operator."""
    r = comparison.methods.index(comparison.reference)
    order = np.array([r, *(m for m in range(len(comparison.methods)) if m != r)])
    measured = comparison.sd[order] > 0
    first = order[np.argmax(measured, axis=0)]
    columns = np.arange(len(comparison.names))
    unit = np.where(measured.any(axis=0), comparison.sd[first, columns], 1.0)
    return comparison.mean[first, columns] if comparison.truth is None else comparison.truth, unit


def _finish(ax: Any, comparison: Comparison, rows: NDArray[np.intp]) -> None:
    """Labels, the reference's numbers at the right, and the scale."""
    r = comparison.methods.index(comparison.reference)
    for row, mean, sd in zip(rows, comparison.mean[r], comparison.sd[r], strict=True):
        text = "–" if np.isnan(mean) else with_uncertainty(mean, sd).replace("-", "−")
        ax.text(1.02, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    ax.text(1.02, 1.02, comparison.reference, transform=ax.transAxes, va="bottom", fontsize="small", color=GREY)
    if np.abs(ax.dataLim.intervalx).max() > WIDE:
        ax.set_xscale("symlog", linthresh=3)
    origin = comparison.reference if comparison.truth is None else "the truth"
    ax.set_yticks(rows, comparison.names)
    ax.tick_params(axis="y", length=0)
    label = f"{100 * comparison.level:g}% intervals, distance from {origin} in sd of {comparison.reference}"
    ax.set(xlabel=label, ylim=(-0.5, len(rows) - 0.5))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize="small")
