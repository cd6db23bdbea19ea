"""Data without space."""

import copy

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import DataError

T = np.linspace(0, 1, 11)
VALUES = {"x": np.sin(T), "y": np.cos(T), "z": T**2}


def test_fields_may_be_called_x_y_z():
    data = Data.from_arrays(VALUES, times=T, auxiliary={"f": T, "k": 2.0 * np.ones(1)})
    assert data.names == ("x", "y", "z")
    assert data.n_nodes == 1
    assert data.geometry.dim == 0
    assert data.geometry.points.shape == (1, 0)
    assert "series" in repr(data)
    assert data.fields["x"].shape == (11, 1)
    assert data.auxiliary["f"].shape == (11, 1)
    assert data.auxiliary["k"].shape == (1,)
    assert repr(Grid()) == "Grid: one point, no space"


def test_with_space_they_may_not():
    with pytest.raises(DataError, match="'x' is reserved"):
        Data.from_arrays({"x": np.ones((11, 4))}, times=T, geometry=Grid(x=np.arange(4.0)))


def test_several_axes_need_a_geometry():
    with pytest.raises(DataError, match="without geometry every field is one series"):
        Data.from_arrays({"u": np.ones((11, 3))}, times=T)


def test_xarray_and_back():
    data = Data.from_arrays(VALUES, times=T, auxiliary={"f": T})
    again = Data.from_xarray(data.to_xarray(), time="time")
    assert again.geometry.dim == 0
    for name in VALUES:
        np.testing.assert_array_equal(again.fields[name], data.fields[name])
    np.testing.assert_array_equal(again.auxiliary["f"], data.auxiliary["f"])
    np.testing.assert_array_equal(copy.deepcopy(data).fields["x"], data.fields["x"])


def test_missing_samples_are_interpolated_in_time():
    values = {"x": np.where(T == 0.5, np.nan, T), "y": T}
    data = Data.from_arrays(values, times=T, missing="nan")
    assert data.measured is not None
    assert not data.measured["x"][5, 0]
    assert data.fields["x"][5, 0] == pytest.approx(0.5)
    assert data.select_times(slice(None, None, 2)).n_times == 6
