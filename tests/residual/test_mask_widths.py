"""Widths within a mask: residuals are counted as they are assembled, and no value that was not measured enters."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import DataError
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.residual.layout import _counts, gaps_in_mask
from bvsi.residual.widths import choose_tests
from bvsi.spaces import SplineTests

TIMES = np.linspace(0, 2, 24)
GRIDS = {
    "line": Grid(x=np.linspace(0, 3.1, 40)),
    "ring": Grid(x=0.1 * np.arange(40), periodic="x"),
    "plane": Grid(x=0.1 * np.arange(24), y=np.linspace(0, 1.7, 21), periodic="x"),
    "box": Grid(x=np.linspace(0, 1, 12), y=np.linspace(0, 1, 13), z=0.2 * np.arange(12), periodic="z"),
}
LADDER = {"time": [2.0, 1.0], "x": [2.0, 1.0], "y": [1.5, 1.0], "z": [1.0]}


def moving(grid, share=0.2, junk=0.0):
    """A ball without values that moves along the diagonal, and a smooth field elsewhere."""
    points = grid.points
    low, high = points.min(axis=0), points.max(axis=0)
    middle = low + (high - low) * (0.1 + 0.4 * TIMES[:, None, None] / TIMES[-1])
    seen = (((points - middle) / (high - low)) ** 2).sum(axis=2) > share**2
    u = 1 + np.cos(2 * points.sum(axis=1) - TIMES[:, None])
    return Data(TIMES, {"u": np.where(seen, u, junk)}, grid, measured={"u": seen})


def names(grid):
    return ("time", *grid.names)


@pytest.mark.parametrize("name", GRIDS)
def test_residuals_are_counted_as_they_are_assembled(name):
    data, degrees = moving(GRIDS[name]), (4, 3)
    ladder = {axis: LADDER[axis] for axis in names(data.geometry)}
    library = Library({"u": ["dx(u)", "u"]})
    combinations = np.stack(np.meshgrid(*ladder.values(), indexing="ij"), axis=-1).reshape(-1, len(ladder))
    for count, some in zip(_counts(data, ladder, degrees), combinations, strict=True):
        gaps = dict(zip(ladder, some.tolist(), strict=True))
        time = gaps.pop("time")
        tests, stencil = SplineTests(gaps, degrees[0]), TemporalTests(degrees[1], time)
        assert count == assemble(data, library, discretisation=tests, stencil=stencil).n


@pytest.mark.parametrize("name", ["line", "plane"])
def test_no_value_that_was_not_measured_enters(name):
    library, found = Library({"u": ["dx(u)", "u**2", "laplacian(u)"]}), []
    for junk in (0.0, 1e6):
        data = moving(GRIDS[name], junk=junk)
        gaps = dict.fromkeys(data.geometry.names, 1.0)
        (one,) = assemble(data, library, discretisation=SplineTests(gaps, 5), stencil=TemporalTests(3, 1.0)).experiments
        assert 0 < one.n < one.structure.n_rows * one.structure.n_blocks
        found.append(one.Z)
    np.testing.assert_array_equal(*found)


def test_gaps_are_as_wide_as_the_mask_lets_them():
    grid = Grid(x=np.linspace(0, 1, 64), y=np.linspace(0, 1, 64))
    wanted, degrees = {"time": 2.0, "x": 5.0, "y": 5.0}, (6, 5)
    times = np.linspace(0, 1, 40)

    def chosen(seen):
        data = Data(times, {"u": np.ones((40, grid.n_nodes))}, grid, measured={"u": seen.reshape(40, -1)})
        return gaps_in_mask(wanted, [data], degrees, fewest=36, most=4500), data

    seen = np.ones((40, 64, 64), dtype=bool)
    seen[0, 0, 0] = False
    assert chosen(seen)[0] == wanted
    seen = np.zeros((40, 64, 64), dtype=bool)
    for j in range(40):
        seen[j, :, j // 2 : j // 2 + 16] = True  # a strip of 16 nodes that moves by half a node a frame
    gaps, data = chosen(seen)
    assert gaps["y"] < gaps["x"] < 5
    ladder = {axis: [gap] for axis, gap in gaps.items()}
    assert 36 <= next(_counts(data, ladder, degrees)) <= 4500


def test_too_large_a_mask_is_refused_with_what_is_needed():
    seen = np.zeros((24, 40), dtype=bool)
    seen[:, ::2] = True
    data = Data(TIMES, {"u": np.ones((24, 40))}, GRIDS["line"], measured={"u": seen})
    with pytest.raises(DataError, match=r"50% of the values are missing.*box of 6 nodes in 5 successive frames"):
        choose_tests([data], [{"u": 0.1}], 2)
