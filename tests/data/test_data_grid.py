"""Grid: numbering, periods, refusals."""

import copy
import pickle

import numpy as np
import pytest

from bvsi.data import Grid
from bvsi.errors import DataError

X = np.linspace(0.0, 1.0, 5)


def test_nodes_are_numbered_last_axis_fastest():
    grid = Grid(x=[0.0, 1.0, 2.0], y=[5.0, 7.0])
    assert grid.names == ("x", "y")
    assert (grid.dim, grid.shape, grid.n_nodes) == (2, (3, 2), 6)
    np.testing.assert_array_equal(grid.points, [[0, 5], [0, 7], [1, 5], [1, 7], [2, 5], [2, 7]])


def test_axes_keep_the_order_of_the_arguments():
    grid = Grid(y=[0.0, 1.0], x=[2.0, 3.0, 5.0])
    assert grid.names == ("y", "x")
    assert grid.shape == (2, 3)
    np.testing.assert_array_equal(grid.points[:3], [[0, 2], [0, 3], [0, 5]])


def test_period_of_a_uniform_axis_is_n_h():
    n = 16
    xs = np.linspace(0, 2 * np.pi, n, endpoint=False)
    for periodic in ("x", ("x",), ["x"], iter(["x"])):
        assert Grid(x=xs, periodic=periodic).periods == {"x": pytest.approx(2 * np.pi, rel=1e-14)}
    assert Grid(x=xs.astype(np.float32), periodic="x").periods["x"] == pytest.approx(2 * np.pi, rel=1e-6)
    assert Grid(x=xs, y=X, periodic={"x": 2 * np.pi}).periods == {"x": 2 * np.pi}


def test_non_uniform_periodic_axis_needs_its_period():
    xs = [0.0, 0.1, 0.5, 0.7]
    with pytest.raises(DataError, match=r"axis 'x' .*not uniform.*pass periodic=\{'x': period\}"):
        Grid(x=xs, periodic=("x",))
    assert Grid(x=xs, periodic={"x": 1}).periods == {"x": 1.0}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("period", [2 * np.pi, 6.0])
def test_repeated_end_point_is_refused(dtype, period):
    with pytest.raises(DataError, match=r"axis 'x' spans .*end point probably repeats the first; drop"):
        Grid(x=np.linspace(0, 2 * np.pi, 9).astype(dtype), periodic={"x": period})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lon": X}, "'lon' is none of x, y, z; rename"),
        ({"axes": {"x": X}}, "'axes' is none of x, y, z; rename"),
        ({"x": [0.0]}, "axis 'x' has 1 points, at least 2"),
        ({"x": []}, "axis 'x' has 0 points"),
        ({"x": [0.0, 1.0], "periodic": "x"}, "axis 'x' is periodic and has 2 points; it needs at least 3"),
        ({"x": [0.0, 2.0, 1.0]}, "axis 'x' must be strictly increasing; it decreases at index 2"),
        ({"x": [0.0, 0.25, 0.5, 1e300]}, "axis 'x' has steps from 0.25 to 1e\\+300"),
        ({"x": [-1.7e308, 1.7e308]}, "axis 'x' has steps from inf to inf"),
        ({"x": [0.0, 1.0, 1.0]}, "axis 'x' .* repeats its value at index 2"),
        ({"x": [0.0, np.nan, 1.0]}, "axis 'x' has 1 values that are not finite, first at index 1"),
        ({"x": [X, X]}, r"axis 'x' must be one-dimensional, got shape \(2, 5\)"),
        ({"x": ["a", "b"]}, "axis 'x' has dtype .* not numeric"),
        ({"x": X, "periodic": ("y",)}, "periodic: 'y' is not an axis of the grid; its axes are x"),
        ({"x": X, "periodic": {"x": np.inf}}, "period of axis 'x' is inf; give one finite number"),
        ({"x": X, "periodic": {"x": [1.5, 2]}}, "period of axis 'x' .* one finite number"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(DataError, match=words):
        Grid(**arguments)


def test_two_points_suffice_on_a_bounded_axis():
    assert Grid(x=[0.0, 1.0]).shape == (2,)


def test_arrays_are_read_only_copies():
    xs = X.copy()
    grid = Grid(x=xs)
    xs[0] = -7.0
    assert grid.axes["x"][0] == 0.0
    for array in (grid.axes["x"], grid.points):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(TypeError):
        grid.axes["x"] = X
    with pytest.raises(AttributeError):
        grid.axes = {}


@pytest.mark.parametrize("remake", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy, copy.copy])
def test_copies_are_equal_and_read_only(remake):
    grid = Grid(y=X, x=X + 2, periodic={"x": 3.0})
    again = remake(grid)
    assert again.names == ("y", "x")
    assert again.periods == {"x": 3.0}
    np.testing.assert_array_equal(again.points, grid.points)
    assert not again.axes["x"].flags.writeable


def test_repr():
    assert repr(Grid(x=X, y=2 * X)) == "Grid: x, y, 5 × 5 in [0, 1] × [0, 2]"
    assert repr(Grid(x=X, periodic={"x": 1.25})) == "Grid: x, 5 in [0, 1.25), periodic in x"
