"""CPU seconds of discoveries at the sizes that others publish, beside the plain weak form, and growth with size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, ORANGE, SERIES

Record = Mapping[str, Any]

_COLOURS = {"few": BLUE, "many": SERIES[5], "floor": GREY, "floor_many": "#bbbbbb", "pysindy": ORANGE}
LABELS = {
    "few": "discover, ten candidates",
    "many": "discover, all candidates",
    "floor": "NumPy, true terms",
    "floor_many": "NumPy, all candidates",
    "pysindy": "PySINDy",
}


def scale(figure: Any, record: Record) -> None:
    """Bars by case and way; CPU seconds over values, where growth was measured.

    Parameters
    ----------
    record
        ``rows`` and ``growth`` of ``bvsi bench scale``.
    """
    growing = record["growth"]["rows"]
    axes = figure.subplots(1, 2 if growing else 1, squeeze=False, width_ratios=[2, 1] if growing else [1])[0]
    _bars(axes[0], record["rows"])
    if growing:
        _growth(axes[1], record["growth"])


def _bars(ax: Any, rows: list[Record]) -> None:
    ways = [way for way in _COLOURS if any("cpu" in row["ways"].get(way, {}) for row in rows)]
    places, width = np.arange(len(rows)), 0.8 / max(1, len(ways))
    for i, way in enumerate(ways):
        cpu = [row["ways"].get(way, {}).get("cpu", np.nan) for row in rows]
        ax.bar(places + (i - (len(ways) - 1) / 2) * width, cpu, width, color=_COLOURS[way], label=LABELS[way])
    labels = [f"{row['case']}\n{'×'.join(map(str, (*row['shape'], row['times'])))}" for row in rows]
    ax.set_xticks(places, labels, fontsize=7)
    ax.set(yscale="log", ylabel="CPU seconds", title="discovery beside plain weak-form least squares")
    ax.legend(fontsize=7)


def _growth(ax: Any, growth: Record) -> None:
    for way, p in growth["exponents"].items():
        made = [row["ways"][way] for row in growth["rows"] if "cpu" in row["ways"].get(way, {})]
        label = LABELS[way] if p is None else f"{LABELS[way]}, p = {p:.2f}"
        ax.loglog([one["values"] for one in made], [one["cpu"] for one in made], "o-", color=_COLOURS[way], label=label)
    ax.set(xlabel="values", ylabel="CPU seconds", title="growth of λ–ω")
    ax.legend(fontsize=7)
