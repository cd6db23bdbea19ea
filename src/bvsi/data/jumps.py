"""Where known fields jump from one value to another: materials meet, sources begin.

Sums over nodes are integrals of smooth functions. Of a function that jumps they are off by half of a step or so, and
the nodes do not tell by how much, so that test functions whose support holds a jump are left out. A field is of
materials where it has a few values only; a node is at a jump where a neighbour has another one. Jumps of other fields
are not looked for: on uneven nodes they cannot be told from steep slopes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bvsi.common.arrays import Array, Mask
from bvsi.data.data import Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.smoothness import adjacency_of

# Values that a field of materials has at most, and nodes that each has at least on average; not measured.
_VALUES, _NODES = 10, 10
_SAMPLE = 200  # values that are looked at first


def jumps(data: Data, names: Iterable[str]) -> Mask | None:
    """Nodes at a jump of some of the known fields, (nodes,); None where there are none."""
    found = np.zeros(data.n_nodes, dtype=bool)
    for name in names:
        for values in np.atleast_2d(data.auxiliary[name]):
            found |= _at_jumps(values, data.geometry)
    return found if found.any() else None


def of_materials(values: Array) -> bool:
    """Whether values (nodes,) are a few only; the derivative of such a field is zero, but at jumps."""
    most = min(_VALUES, len(values) // _NODES)
    some = values[:: max(1, len(values) // _SAMPLE)]  # nearly always enough to tell, and soon sorted
    return len(np.unique(some)) <= most and 1 < len(np.unique(values)) <= most


def _at_jumps(values: Array, geometry: Geometry) -> Mask:
    """Nodes at a jump of one field at one time, (nodes,)."""
    found = np.zeros(len(values), dtype=bool)
    if not of_materials(values):
        return found
    if not isinstance(geometry, Grid):
        near = adjacency_of(geometry).tocoo()
        found[near.row[values[near.row] != values[near.col]]] = True
        return found
    cube, found = values.reshape(geometry.shape), found.reshape(geometry.shape)
    for axis, name in enumerate(geometry.names):
        other = np.roll(cube, -1, axis) != cube
        if name not in geometry.periods:
            np.moveaxis(other, axis, 0)[-1] = False  # beyond the last node there is none
        found |= other | np.roll(other, 1, axis)
    return found.ravel()
