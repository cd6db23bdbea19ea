"""Where known fields jump: materials meet, sources begin.

Sums over nodes are integrals of smooth functions. Of a function that jumps they are off by half of a step or so, and
nothing tells by how much, so that test functions whose support holds a jump are left out.

    node i is at a jump  ⟺  |k_i − k_j| > 8 × the differences next to it, for some neighbour j
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bvsi.data._arrays import Floats
from bvsi.data.data import Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.smoothness import adjacency_of, padded

Mask = NDArray[np.bool_]

# A difference this many times those around it is a jump. Differences of a resolved wave grow by a factor 2 at most over
# two steps, except where they are small; not measured otherwise.
_TIMES = 8.0
# Part of the range of a field below which a difference is no jump; not measured.
_SMALL = 1e-3


def jumps(data: Data, names: Iterable[str]) -> Mask | None:
    """Nodes at a jump of some of the known fields, (nodes,); None where there are none."""
    found = np.zeros(data.n_nodes, dtype=bool)
    for name in names:
        for values in np.atleast_2d(data.auxiliary[name]):
            found |= _at_jumps(values, data.geometry)
    return found if found.any() else None


def _at_jumps(values: Floats, geometry: Geometry) -> Mask:
    """Nodes at a jump of one field at one time, (nodes,)."""
    least = _SMALL * float(np.ptp(values))
    if not least:
        return np.zeros(len(values), dtype=bool)
    return _on_grid(values, geometry, least) if isinstance(geometry, Grid) else _on_mesh(values, geometry, least)


def _on_grid(values: Floats, grid: Grid, least: float) -> Mask:
    """Differences along each axis against the two before and after them."""
    cube = values.reshape(grid.shape)
    found = np.zeros(grid.shape, dtype=bool)
    for axis, name in enumerate(grid.names):
        step = np.abs(np.roll(cube, -1, axis) - cube)
        if name not in grid.periods:
            np.moveaxis(step, axis, 0)[-1] = 0.0  # beyond the last node there is none
        around = np.max([np.roll(step, k, axis) for k in (-2, -1, 1, 2)], axis=0)
        jump = (step > _TIMES * around) & (step > least)
        found |= jump | np.roll(jump, 1, axis)
    return found.ravel()


def _on_mesh(values: Floats, mesh: Mesh, least: float) -> Mask:
    """Largest difference to a neighbour against the median of the medians of the neighbours."""
    rows = padded(adjacency_of(mesh))
    there = rows.values > 0
    step = np.where(there, np.abs(values[:, None] - values[rows.columns]), np.nan)
    around = np.nanmedian(np.where(there, np.nanmedian(step, axis=1)[rows.columns], np.nan), axis=1)
    largest = np.nanmax(step, axis=1)
    return np.asarray((largest > _TIMES * around) & (largest > least))
