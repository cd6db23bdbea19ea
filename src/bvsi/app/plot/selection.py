"""The path of a selection (fig:FP_model_selection)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, ORANGE
from bvsi.select import SelectionPath


def highest_shown(path: SelectionPath) -> float:
    """Rise above the selected model at which candidates are cut off, so that the models of the path can be seen."""
    rises = [v.score - path.best.score for v in path.visited]
    return 100 * max([10.0, *(rise for rise in rises if math.isfinite(rise))])


def selection_path(ax: Any, path: SelectionPath) -> None:
    """Criterion of every candidate by number of operators; the model taken in blue, the selected one in orange.

    The vertical axis is the rise above the selected model, on a scale that shows small and large ones (symlog).
    """
    best, top = path.best, highest_shown(path)
    for v in path.visited[1:]:
        others = [min(score - best.score, top) for name, score in v.candidates.items() if name != v.changed]
        ax.plot([len(v.names)] * len(others), others, "_", color=GREY, markersize=9, zorder=1)
    sizes = [len(v.names) for v in path.visited]
    scores = np.array([v.score - best.score for v in path.visited])
    ax.plot(sizes, scores, "o-", color=BLUE, label="best at this size", zorder=2)
    ax.plot(len(best.names), 0.0, "o", color=ORANGE, markersize=11, label=f"selected: {len(best.names)}", zorder=3)
    ax.set_yscale("symlog", linthresh=10)
    if sizes[0] > sizes[-1]:  # in the order of the path, from left to right
        ax.invert_xaxis()
    ax.set(xlabel="operators in the model", ylabel=f"{path.criterion}, above the selected model")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="lower left")
