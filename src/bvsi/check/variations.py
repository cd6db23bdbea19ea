"""Other discretisations of the same data, whose estimates tell whether the one used can be trusted.

With every second frame or node, and test functions that stay the same in physical units, nothing changes but the
quadrature error and the noise: a wrong equation is as wrong as before. Other widths of test functions change the
quadrature error at the same data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.errors import DataError, SpaceError
from bvsi.residual import Stencil, TemporalTests
from bvsi.residual.assembly import Discretisation
from bvsi.spaces import Q1, Q2, Galerkin, SplineTests
from bvsi.spaces.galerkin import fills_q2

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Kind = Literal["time", "space", "width"]

_WIDER = 1.5
# A knot per step or more: test functions are then no more than the data.
_NARROWEST = 1.0
# From this many steps on the quadrature error |sin(πg)/(πg)|^(p + 1) is negligible for every gap g.
_WIDE = 4.0
# Functions that should be left along an axis, Galerkin nodes, and times before every second one is left out. Three
# nodes are one more than an element has: with five, Q1 on 8 nodes was off by 8 to 60 sd and not tried in space.
_FEWEST = 2
_FEWEST_NODES = 3
_FEWEST_TIMES = 5
_SPLINE_ORDER = 5.0
_ELEMENT_ORDER = 2.0


@dataclass(frozen=True, eq=False)
class Variation:
    """All that a refit needs.

    name: for people; kind: what is coarser, or ``width`` where only the test functions are others.
    data: experiments; frames, nodes: which times and which nodes, (nodes,) of the original data, they have, by
        experiment.
    better: kinds of discretisation error that are smaller than those of the fit, at the price of wider error bars.
    ratio: how much coarser; order: of the quadrature error. The error at the original data is that of the refit times
        1/ratio^order.
    """

    name: str
    kind: Kind
    data: tuple[Data, ...]
    discretisation: Discretisation
    stencil: Stencil
    ratio: float
    order: float
    frames: tuple[Integers, ...]
    nodes: tuple[Mask, ...]
    better: tuple[Kind, ...] = ()


def variations(experiments: Sequence[Data], discretisation: Discretisation, stencil: Stencil) -> tuple[Variation, ...]:
    """Every second frame, every second node, wider tests or the other element, where data are enough.

    discretisation, stencil: as they were used.
    """
    used = Variation(
        "as used", "width", tuple(experiments), discretisation, stencil, 1.0, _order(discretisation, stencil),
        tuple(np.arange(data.n_times) for data in experiments),
        tuple(np.ones(data.n_nodes, dtype=bool) for data in experiments),
    )  # fmt: skip
    found = [_frames(used), _nodes(used)]
    if isinstance(discretisation, SplineTests):
        found.append(_scaled(used, "wider tests", _WIDER))
    else:
        found.append(_other_element(used))
    return tuple(v for v in found if v is not None and _possible(v))


def _order(discretisation: Discretisation, stencil: Stencil) -> float:
    """Of B-splines of degree p with m derivatives p + 1 − m, five with the default degrees; elements two."""
    splines = isinstance(discretisation, SplineTests) and isinstance(stencil, TemporalTests)
    return _SPLINE_ORDER if splines else _ELEMENT_ORDER


def _frames(used: Variation) -> Variation | None:
    """Every second frame; gaps that are counted in frames are halved."""
    if any(data.n_times < _FEWEST_TIMES for data in used.data):
        return None
    stencil = used.stencil
    if isinstance(stencil, TemporalTests):
        stencil = replace(stencil, gap=max(_NARROWEST, 0.5 * stencil.gap))
    return replace(
        used,
        name="every second frame",
        kind="time",
        ratio=2.0,
        data=tuple(data.select_times(slice(None, None, 2)) for data in used.data),
        stencil=stencil,
        frames=tuple(f[::2] for f in used.frames),
    )


def _nodes(used: Variation) -> Variation | None:
    """Every second node along every axis that can spare them; gaps that are counted in nodes are halved."""
    halves = [_halved_axes(data) for data in used.data]
    axes = halves[0]
    if not axes or any(other != axes for other in halves):
        return None
    kept = [_every_second(data, axes) for data in used.data]
    discretisation = used.discretisation
    if isinstance(discretisation, SplineTests):
        discretisation = _with_gaps(discretisation, used.data[0], dict.fromkeys(axes, 0.5))
    elif discretisation.on is not None or (discretisation.element == Q2 and not _fills_q2(data for data, _ in kept)):
        return None
    return replace(
        used,
        name="every second node",
        kind="space",
        ratio=2.0,
        data=tuple(data for data, _ in kept),
        discretisation=discretisation,
        nodes=tuple(index for _, index in kept),
    )


def _halved_axes(data: Data) -> tuple[str, ...]:
    """Axes of a grid that have enough nodes; those of a periodic one must be even in number."""
    grid = data.geometry
    if not isinstance(grid, Grid):
        return ()
    sizes = zip(grid.names, grid.shape, strict=True)
    return tuple(name for name, n in sizes if n >= 2 * _FEWEST_NODES and not (name in grid.periods and n % 2))


def _every_second(data: Data, axes: tuple[str, ...]) -> tuple[Data, Mask]:
    """Data on every second node of some axes, and which nodes these are; a bounded axis may lose its last node."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    cut: Any = tuple(slice(None, None, 2 if name in axes else 1) for name in grid.names)
    index = np.arange(grid.n_nodes).reshape(grid.shape)[cut].ravel()
    thinned = {name: axis[step] for (name, axis), step in zip(grid.axes.items(), cut, strict=True)}
    coarse = Grid(periodic=grid.periods, **thinned)
    fields = {name: values[:, index] for name, values in data.fields.items()}
    known = {name: values[..., index] for name, values in data.auxiliary.items()}
    masks = None if data.measured is None else {name: mask[:, index] for name, mask in data.measured.items()}
    return Data(data.times, fields, coarse, known, masks), np.isin(np.arange(grid.n_nodes), index)


def _fills_q2(experiments: Iterable[Data]) -> bool:
    """Whether all are grids that Q2 elements fill."""
    return all(isinstance(data.geometry, Grid) and fills_q2(data.geometry) for data in experiments)


def _scaled(used: Variation, name: str, factor: float) -> Variation | None:
    """Test functions of other width in space and time, at the same data."""
    discretisation, stencil = used.discretisation, used.stencil
    assert isinstance(discretisation, SplineTests)
    grid = used.data[0].geometry
    assert isinstance(grid, Grid)
    changed = _with_gaps(discretisation, used.data[0], dict.fromkeys(grid.names, factor))
    in_time = stencil
    if isinstance(stencil, TemporalTests):
        in_time = replace(stencil, gap=_aligned(factor * stencil.gap))
    if (changed, in_time) == (discretisation, stencil):
        return None
    better: tuple[Kind, ...] = ("time", "space") if factor > 1 else ()
    return replace(
        used, name=name, discretisation=changed, stencil=in_time, ratio=max(factor, 1 / factor), better=better
    )


def _aligned(gap: float) -> float:
    """A gap that quadrature is exact for: narrow ones are whole numbers of steps, wide ones need not be."""
    return max(_NARROWEST, gap if gap >= _WIDE else float(round(gap)))


def _with_gaps(tests: SplineTests, data: Data, factors: dict[str, float]) -> SplineTests:
    """Gaps times a factor by axis, not below the narrowest."""
    assert isinstance(data.geometry, Grid)
    gaps = {name: tests.gap_of(name) for name in data.geometry.names}
    return replace(tests, gap={n: _aligned(g * factors[n]) if n in factors else g for n, g in gaps.items()})


def _other_element(used: Variation) -> Variation | None:
    """Q1 for Q2 and the other way round, on grids."""
    discretisation = used.discretisation
    assert isinstance(discretisation, Galerkin)
    if not all(isinstance(data.geometry, Grid) for data in used.data) or discretisation.on is not None:
        return None
    element = discretisation.element_for(used.data[0].geometry)
    if element not in (Q1, Q2):
        return None
    other = Q1 if element == Q2 else Q2
    if other == Q2 and not _fills_q2(used.data):
        return None
    changed = replace(discretisation, element=other)
    better: tuple[Kind, ...] = ("space",) if other == Q2 else ()
    return replace(used, name=f"{other.name} elements", discretisation=changed, ratio=2.0, better=better)


def _possible(variation: Variation) -> bool:
    """Whether there are a few test functions left along every axis."""
    for data in variation.data:
        try:
            a, _ = variation.stencil.matrices(data.times)
        except DataError:
            return False
        if a.shape[0] < _FEWEST:
            return False
        if isinstance(variation.discretisation, SplineTests) and not _fits(variation.discretisation, data):
            return False
    return True


def _fits(tests: SplineTests, data: Data) -> bool:
    """Whether splines as wide as these fit onto the axes without being narrowed."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    for name, n in zip(grid.names, grid.shape, strict=True):
        pieces = (n - (name not in grid.periods)) / tests.gap_of(name)
        spare = 0 if name in grid.periods else _FEWEST - 1
        if tests.degree is not None and round(pieces) < tests.degree + 1 + spare:
            return False
    try:
        tests.element_for(grid)
    except SpaceError:
        return False
    return True
