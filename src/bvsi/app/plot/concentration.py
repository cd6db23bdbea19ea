"""Functions of two concentrations, with the part of concentration space that the data visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.style import FIELD_MAP, ORANGE

Array = NDArray[np.float64]

_BINS = 60


def concentration_map(
    ax: Any, c1: Array, c2: Array, values: Array, visited: tuple[Array, Array] | None = None, *, title: str = ""
) -> None:
    """Filled contours of values (len(c1), len(c2)); ``visited``: concentrations in the data, outlined."""
    from matplotlib.ticker import MaxNLocator

    levels = MaxNLocator(14).tick_values(values.min(), values.max())
    filled = ax.contourf(c1, c2, values.T, levels=levels, cmap=FIELD_MAP)
    ax.figure.colorbar(filled, ax=ax, shrink=0.85)
    if visited is not None:
        counts, x, y = np.histogram2d(*visited, bins=_BINS, range=[[c1[0], c1[-1]], [c2[0], c2[-1]]])
        middle = [0.5 * (edges[1:] + edges[:-1]) for edges in (x, y)]
        ax.contour(*middle, (counts > 0).T.astype(float), levels=[0.5], colors=ORANGE, linewidths=1.5)
        ax.plot([], [], color=ORANGE, label="visited by the data")
        ax.legend(loc="upper right", framealpha=0.9, fontsize=8)
    ax.set(aspect="equal", xlabel="$c_1$", ylabel="$c_2$", title=title)
