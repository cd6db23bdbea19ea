"""Error against noise level and resolution (fig:ablation_study)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bvsi.app.plot.style import BLUE, GREY, ORANGE

Row = dict[str, Any]
_COLOURS = {"vsi": GREY, "lagged": ORANGE, "profile": BLUE}
_MARKERS = {"vsi": "s", "lagged": "^", "profile": "o"}


def ablation(ax: Any, rows: Sequence[Row]) -> None:
    """One cluster per noise level; inside it resolutions from fine (left) to coarse (right); seeds as a range.

    Parameters
    ----------
    rows
        Dictionaries with ``sigma``, ``nx`` and ``error`` by method.
    """
    sigmas = sorted({row["sigma"] for row in rows})
    sizes = sorted({row["nx"] for row in rows}, reverse=True)
    offsets = dict(zip(sizes, np.linspace(-0.3, 0.3, len(sizes)), strict=True))
    for method in _COLOURS:
        for sigma in sigmas:
            places, middle, low, high = [], [], [], []
            for nx in sizes:
                errors = [r["error"][method] for r in rows if r["sigma"] == sigma and r["nx"] == nx]
                if errors:
                    places.append(sigmas.index(sigma) + offsets[nx])
                    middle.append(float(np.median(errors)))
                    low.append(min(errors))
                    high.append(max(errors))
            bars = np.array([np.subtract(middle, low), np.subtract(high, middle)])
            label = method if sigma == sigmas[0] else None
            ax.errorbar(
                places, middle, yerr=bars, fmt=f"{_MARKERS[method]}-", color=_COLOURS[method], ms=4, label=label
            )
    ax.set_yscale("log")
    ax.set_xticks(range(len(sigmas)), [f"{np.log10(s):.3g}" for s in sigmas])
    order = ", ".join(str(nx) for nx in sizes)
    ax.set(xlabel=f"log₁₀ σ (in each cluster from left to right n_x = {order})", ylabel="‖θ − truth‖")
    ax.legend(loc="upper left")
