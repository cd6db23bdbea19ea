"""Seconds of all ways as bars, and growth of the lagged fit with nodes, times and operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, ORANGE, SERIES

Record = Mapping[str, Any]

_OURS = ("paper", "paper_refit", "own", "default", "iteration")


def performance(figure: Any, comparisons: Sequence[Record], growth: Mapping[str, Record]) -> None:
    """One row of bars per size, and below one panel per kind of growth.

    Parameters
    ----------
    comparisons
        Comparisons with ``nx`` and ``rows`` (``key``, ``label``, ``seconds``, ``extrapolated``).
    growth
        What is changed → ``rows`` with its sizes and seconds, and ``exponents``.
    """
    parts = figure.subfigures(len(comparisons) + 1, 1, squeeze=False)[:, 0]
    for part, one in zip(parts[:-1], comparisons, strict=True):
        ways(part.subplots(), one)
    axes = np.ravel(parts[-1].subplots(1, max(1, len(growth)), squeeze=False))
    for ax, (what, one) in zip(axes, growth.items(), strict=True):
        growth_curves(ax, one, what)


def ways(ax: Any, comparison: Record) -> None:
    """Seconds of all ways on a logarithmic scale, and as multiples of bvsi's own discovery.

    Those of bvsi are blue, extrapolated ones hatched.
    """
    own = next((row["seconds"] for row in comparison["rows"] if row["key"] == "own"), None)
    rows = [row for row in comparison["rows"] if row["seconds"] is not None][::-1]
    colours = [BLUE if row["key"] in _OURS else GREY for row in rows]
    bars = ax.barh(range(len(rows)), [row["seconds"] for row in rows], color=colours, height=0.7)
    for bar, row in zip(bars, rows, strict=True):
        if row["extrapolated"]:
            bar.set(hatch="///", alpha=0.6)
        multiple = f" = {_digits(row['seconds'] / own)} × own" if own and row["key"] != "own" else ""
        ax.annotate(
            f" {_digits(row['seconds'])} s{multiple}",
            (row["seconds"], bar.get_y() + bar.get_height() / 2),
            va="center",
            fontsize=8,
        )
    ax.set_yticks(range(len(rows)), [row["label"].strip() for row in rows], fontsize=8)
    ax.set(xscale="log", xlabel="seconds", title=f"n_x = {comparison['nx']}, ten candidates (hatched: extrapolated)")
    ax.margins(x=0.2)


def _digits(value: float) -> str:
    """Two digits, no exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def growth_curves(ax: Any, growth: Record, what: str) -> None:
    """Seconds of a whole fit, of one iteration and of the bare linear algebra against the size."""
    rows = growth["rows"]
    sizes = np.array([row[what] for row in rows], dtype=float)
    exponents = growth["exponents"]
    series = (
        (f"assembly to fit, p = {exponents['total']:.2f}", [row["total"] for row in rows], SERIES[2], "^-"),
        (f"lagged fit, p = {exponents['fit']:.2f}", [row["fit"] for row in rows], BLUE, "s-"),
        (f"one iteration, p = {exponents['iteration']:.2f}", [row["iteration"] for row in rows], ORANGE, "o-"),
        ("bare linear algebra", [row["bare_factor"] + row["bare_solve"] for row in rows], GREY, "x--"),
    )
    for label, seconds, colour, style in series:
        ax.loglog(sizes, seconds, style, color=colour, label=label, markersize=5)
    ax.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
    ax.minorticks_off()
    ax.set(xlabel=what, ylabel="seconds", title=f"growth with {what}")
    ax.legend(fontsize=7)
