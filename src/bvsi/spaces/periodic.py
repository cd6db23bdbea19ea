"""Points on periodic axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Grid

Array = NDArray[np.float64]


def into_first_period(grid: Grid, points: Array) -> Array:
    """x ← x₀ + (x − x₀) mod L on the axes of period L that begin at x₀; points (n_p, dim)."""
    wrapped = points.copy()
    for axis, name in enumerate(grid.names):
        if name in grid.periods:
            first = grid.axes[name][0]
            wrapped[:, axis] = first + np.mod(points[:, axis] - first, grid.periods[name])
    return wrapped
