"""Posteriors side by side in a figure."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from bvsi.app import plot
from bvsi.app.comparison import compare
from bvsi.infer.posteriors import GaussianPosterior

ONE = GaussianPosterior(("a", "b"), np.array([1.0, -2.0]), np.diag([0.04, 9.0]))
TWO = GaussianPosterior(("b", "c"), np.array([4.0, 3.0]), np.diag([36.0, 1e-4]))
HALF = 1.959964


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def drawn(ax) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Points and intervals of each method; everything can be rendered."""
    ax.figure.savefig("/dev/null", format="png")
    points = [line.get_xdata() for line in ax.lines if line.get_marker() == "o"]
    intervals = [np.array([s[:, 0] for s in c.get_segments()]) for c in ax.collections]
    return points, intervals


def test_rows_are_in_sd_of_the_reference(ax):
    plot.posterior_comparison(ax, compare({"one": ONE, "two": TWO}))
    points, intervals = drawn(ax)
    assert_allclose(points[0], [0, 0])
    assert_allclose(points[1], [2, 0])  # c is measured by the second method
    assert_allclose(intervals[0], [[-HALF, HALF], [-HALF, HALF]], rtol=1e-5)
    assert_allclose(intervals[1], [[2 - 2 * HALF, 2 + 2 * HALF], [-HALF, HALF]], rtol=1e-5)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in ax.texts] == ["1.0(2)", "−2(3)", "–", "one"]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["one", "two"]
    assert ax.get_xlabel() == "95% intervals, distance from one in sd of one"
    assert ax.get_xscale() == "linear"


def test_with_a_truth_distances_are_from_it(ax):
    plot.posterior_comparison(ax, compare({"one": ONE, "two": TWO}, truth={"a": 0.0, "b": 1.0, "c": 2.0}))
    points, _ = drawn(ax)
    assert_allclose(points[0], [5, -1])
    assert_allclose(points[1], [1, 100])
    assert "from the truth" in ax.get_xlabel()
    assert ax.get_xscale() == "symlog"  # 100 sd and 1 sd are both to be seen


def test_a_single_method_and_a_known_coefficient(ax):
    known = GaussianPosterior(("a",), np.array([1.0]), np.zeros((1, 1)))
    plot.posterior_comparison(ax, compare({"one": known}))
    points, _ = drawn(ax)
    assert_allclose(points[0], [0])
    assert ax.texts[0].get_text() == "1"
