"""Scalar functions of two coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.plot.style import FIELD_MAP, ORANGE

Array = NDArray[np.float64]


def scalar_map(ax: Any, x: Array, y: Array, values: Array, *, title: str = "", colorbar: bool = True) -> Any:
    """Image of values (len(x), len(y)) over the coordinates."""
    image = ax.pcolormesh(x, y, values.T, shading="gouraud", cmap=FIELD_MAP, rasterized=True)
    ax.set(aspect="equal", xlabel="x", ylabel="y", title=title)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return image


def contour_map(ax: Any, x: Array, y: Array, values: Array, truth: Array | None = None, *, title: str = "") -> None:
    """Filled contours of values (len(x), len(y)), with the contours of the truth drawn dashed over them."""
    from matplotlib.ticker import MaxNLocator

    levels = MaxNLocator(14).tick_values(values.min(), values.max())
    filled = ax.contourf(x, y, values.T, levels=levels, cmap=FIELD_MAP)
    ax.figure.colorbar(filled, ax=ax, shrink=0.8, format="%.0f")
    if truth is not None:
        ax.contour(x, y, truth.T, levels=levels, colors=ORANGE, linewidths=1.2, linestyles="dashed")
        ax.plot([], [], color=ORANGE, linestyle="dashed", label="truth")
        ax.legend(loc="upper right", framealpha=0.9)
    ax.set(aspect="equal", xlabel="x", ylabel="y", title=title)
