"""How wide test functions are where values are missing: as wide as the mask lets them.

    n(g): residuals (m, k) whose box of nodes and frames holds no missing value      V(g) = n(g) Π_a g_a

A residual stands for a gap g_a of every axis, so that V is the number of values that all of them describe. On a Fisher
front of which a moving band is seen, error bars follow V^(−1/2) within 20% over a factor 50 of V, whatever the gaps.
Gaps are therefore the widest with nearly the largest V that few enough residuals have, or nearly that which the gaps
wanted would have, in proportion, if nothing was missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common import Mask
from bvsi.data import Data, Grid
from bvsi.data.smoothness import along
from bvsi.errors import DataError
from bvsi.residual.layout import touched
from bvsi.residual.stencils import TemporalTests
from bvsi.spaces.spline_tests import SplineTests, axis_tests

# Volume that wider gaps may lose, as a part of the largest: 12% in error bars.
_KEPT = 0.8
# Up to here gaps are whole numbers of steps, for which sums are integrals; wider ones shrink by a third at a time.
_WHOLE = 4


def gaps_in_mask(
    gaps: Mapping[str, float], experiments: Sequence[Data], degrees: tuple[int, int], *, fewest: int, most: int
) -> dict[str, float]:
    """Gaps by axis, ``time`` first if at all, for data of which values are missing; at most those given.

    Parameters
    ----------
    degrees
        Of the splines in space and in time.
    fewest, most
        Residuals that there should be.
    """
    ladder = {name: _narrower(gap) for name, gap in gaps.items()}
    options = [dict(zip(ladder, some, strict=True)) for some in product(*ladder.values())]
    n = np.sum([list(_counts(data, ladder, degrees)) for data in experiments], axis=0)
    volume = n * np.array([np.prod(list(some.values())) for some in options])
    whole = float(np.prod(list(gaps.values()))) * sum(_without_mask(data, gaps, degrees) for data in experiments)
    if n.max() < fewest:
        raise DataError(_too_few(int(n.max()), fewest, experiments[0], degrees))
    enough = (n >= fewest) & (n <= max(most, n[n >= fewest].min()))
    enough &= volume >= _KEPT * min(float(volume[enough].max()), whole)
    return options[int(np.argmin(np.where(enough, n, np.inf)))]


def count_in_mask(data: Data, tests: SplineTests, stencil: TemporalTests | None, degree: int) -> int:
    """Residuals of one equation on a uniform grid that touch no missing value.

    Parameters
    ----------
    stencil
        None without test functions in time.
    degree
        Of the splines in space.
    """
    time = {} if stencil is None else {"time": [stencil.gap]}
    gaps = {**time, **{name: [tests.gap_of(name)] for name in data.geometry.names}}
    return next(_counts(data, gaps, (degree, stencil.degree if stencil else 0)))


def _without_mask(data: Data, gaps: Mapping[str, float], degrees: tuple[int, int]) -> float:
    """Residuals of one experiment if nothing was missing, times the share of what was measured."""
    (count,) = _counts(replace(data, measured=None), {name: [gap] for name, gap in gaps.items()}, degrees)
    return count * float(1 - _missing(data).mean())


def _narrower(gap: float) -> list[float]:
    """A gap, and narrower ones."""
    found = [gap]
    while found[-1] * 2 / 3 > _WHOLE:
        found.append(found[-1] * 2 / 3)
    return found + [float(whole) for whole in range(_WHOLE, 0, -1) if whole < found[-1]]


def _counts(data: Data, ladder: Mapping[str, Sequence[float]], degrees: tuple[int, int]) -> Iterator[int]:
    """Residuals of one experiment that touch no missing value, for every combination of gaps, the last fastest."""
    grid = data.geometry
    assert isinstance(grid, Grid)
    axes = [
        [_touched(data, name, gap, degrees[name == "time"]).astype(np.float32) for gap in some]
        for name, some in ladder.items()
    ]
    every = [] if "time" in ladder else [[sparse.eye_array(data.n_times, format="csr")]]
    return _nested(_missing(data).reshape(-1, *grid.shape), [*every, *axes])


def _missing(data: Data) -> Mask:
    """Where a field was not measured, (T, nodes)."""
    missing = np.zeros((data.n_times, data.n_nodes), dtype=bool)
    for mask in (data.measured or {}).values():
        missing |= ~mask
    return missing


def _touched(data: Data, name: str, gap: float, degree: int) -> Any:
    """One where a function of an axis touches a node or frame of it, (functions × nodes)."""
    assert isinstance(data.geometry, Grid)
    if name == "time":
        a, b = TemporalTests(degree, gap).matrices(data.times)
        return touched(abs(a) + abs(b))
    return touched(axis_tests(data.geometry, name, gap, degree))


def _nested(missing: Mask, axes: Sequence[Sequence[Any]]) -> Iterator[int]:
    """Boxes without a missing value; the first axis is summed over and what is left of it goes to the end."""
    if not axes:
        yield int(np.count_nonzero(~missing))
        return
    for functions in axes[0]:
        hit = along(functions, missing.astype(np.float32), 0) > 0
        yield from _nested(np.moveaxis(hit, 0, -1), axes[1:])


def _too_few(found: int, fewest: int, data: Data, degrees: tuple[int, int]) -> str:
    share = _missing(data).mean()
    nodes = " × ".join(str(degrees[0]) for _ in data.geometry.names)
    return (
        f"measured: {share:.0%} of the values are missing, and only {found} test functions fit between them, where "
        f"{fewest} are needed; the narrowest take a box of {nodes} nodes in {degrees[1]} successive frames in which "
        "every value was measured. Give data with larger measured regions, finer sampling, or fill the gaps yourself"
    )
