"""Error and selection against noise level, one row of axes per case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, ORANGE
from bvsi.errors import BvsiError

Row = Mapping[str, Any]
_STYLES = ({"color": BLUE, "marker": "o", "linestyle": "-"}, {"color": ORANGE, "marker": "^", "linestyle": "--"})


def discovery_benchmark(axes: Any, rows: Sequence[Row]) -> None:
    """E∞ (left: median, range over seeds) and TPR (right: mean) against the noise level, for every case and method.

    Levels are evenly spaced, since they begin at 0. Methods differ in colour, marker and line.

    Parameters
    ----------
    axes
        (cases, 2).
    rows
        One per run, with ``case``, ``level`` (share of the RMS), ``method``, ``e_inf``, ``tpr``.
    """
    cases, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("case", "method"))
    levels = sorted({row["level"] for row in rows})
    axes = np.asarray(axes)
    if axes.shape != (len(cases), 2):
        raise BvsiError(f"axes: {len(cases)} rows of 2 are needed, one per case; got shape {axes.shape}.")
    if len(methods) > len(_STYLES):
        raise BvsiError(f"rows: at most {len(_STYLES)} methods can be drawn; got {', '.join(methods)}.")
    for case, (errors, ratios) in zip(cases, axes, strict=True):
        for method, style in zip(methods, _STYLES, strict=False):
            here = [row for row in rows if row["case"] == case and row["method"] == method]
            if here:
                _draw(errors, ratios, here, levels, {**style, "label": method})
        errors.set(yscale="log", ylabel="E∞", title=case)
        ratios.set(ylim=(-0.05, 1.05), ylabel="TPR", title=case)
        for ax in (errors, ratios):
            ax.set_xticks(range(len(levels)), [f"{100 * level:g}%" for level in levels])
            ax.set(xlabel="noise, share of the RMS", xlim=(-0.3, len(levels) - 0.7))
            ax.legend(fontsize=8)


def _draw(errors: Any, ratios: Any, rows: Sequence[Row], levels: Sequence[float], style: dict[str, Any]) -> None:
    groups = {level: [row for row in rows if row["level"] == level] for level in levels}
    present = [i for i, level in enumerate(levels) if groups[level]]
    values = [[row["e_inf"] for row in groups[levels[i]]] for i in present]
    middle = np.array([np.median(v) for v in values])
    spread = np.array([middle - [min(v) for v in values], [max(v) for v in values] - middle])
    errors.errorbar(present, middle, yerr=spread, capsize=2, markersize=4, **style)
    ratios.plot(present, [np.mean([row["tpr"] for row in groups[levels[i]]]) for i in present], markersize=4, **style)
