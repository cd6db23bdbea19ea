"""Labelled arrays in and out."""

import numpy as np
import pytest
import xarray as xr

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import DataError

T = np.array([0.0, 0.5, 2.0])
XS, YS = np.linspace(0, 1, 5), np.array([-1.0, 0.0, 0.5, 3.0])
GRID = Grid(x=XS, y=YS)
MESH = Mesh([[0.0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]], "triangle")
U = np.arange(60.0).reshape(3, 5, 4)


def dataset(**more):
    return xr.Dataset({"u": (("t", "x", "y"), U), **more}, coords={"t": T, "x": XS, "y": YS})


def mesh_dataset(**coords):
    return xr.Dataset({"u": (("n", "t"), np.arange(12.0).reshape(4, 3))}, coords={"t": T, **coords})


def same(a, b):
    assert a.names == b.names
    assert set(a.auxiliary) == set(b.auxiliary)
    np.testing.assert_array_equal(a.times, b.times)
    np.testing.assert_array_equal(a.geometry.points, b.geometry.points)
    for name in a.names:
        np.testing.assert_array_equal(a.fields[name], b.fields[name])
    for name in a.auxiliary:
        np.testing.assert_array_equal(a.auxiliary[name], b.auxiliary[name])
    if isinstance(a.geometry, Grid):
        assert a.geometry.periods == b.geometry.periods
        assert a.geometry.names == b.geometry.names
    else:
        np.testing.assert_array_equal(a.geometry.cells, b.geometry.cells)
        assert a.geometry.cell_type == b.geometry.cell_type


def refuses(words):
    return pytest.raises(DataError, match=words)


@pytest.mark.parametrize("dims", [("t", "x", "y"), ("y", "t", "x"), ("y", "x", "t"), ("x", "t", "y")])
@pytest.mark.parametrize("flip", [[], ["x"], ["x", "y"]])
def test_order_and_direction_do_not_matter(dims, flip):
    expected = Data.from_arrays({"u": U}, times=T, geometry=GRID)
    ds = dataset().transpose(*dims).isel({name: slice(None, None, -1) for name in flip})
    same(Data.from_xarray(ds, time="t"), expected)
    same(Data.from_xarray(ds["u"], time="t"), expected)
    renamed = ds.rename({"x": "lon", "y": "lat", "t": "when"})
    same(Data.from_xarray(renamed, time="when", axes={"lat": "y", "lon": "x"}), expected)
    by_dims = Data.from_arrays({"u": dataset()["u"].transpose(*dims).values}, times=T, geometry=GRID, dims=dims)
    same(by_dims, expected)


def test_axes_are_ordered_x_y_z():
    ds = dataset().rename({"x": "z"})
    assert Data.from_xarray(ds, time="t").geometry.names == ("y", "z")
    assert Data.from_xarray(dataset(), time="t", axes={"x": "y", "y": "x"}).geometry.shape == (4, 5)


def test_choice_of_variables():
    ds = dataset(v=(("t", "y", "x"), U.swapaxes(1, 2)), k=(("y", "x"), U[0].T), c=((), 3.0))
    data = Data.from_xarray(ds, time="t")
    assert data.names == ("u", "v")
    np.testing.assert_array_equal(data.grid_field("v"), U)
    data = Data.from_xarray(ds, time="t", auxiliary=["k", "v"])
    assert data.names == ("u",)
    np.testing.assert_array_equal(data.grid_field("k"), U[0])
    np.testing.assert_array_equal(data.grid_field("v"), U)
    assert Data.from_xarray(ds, time="t", fields=["v"]).names == ("v",)


@pytest.mark.parametrize(
    "data",
    [
        Data.from_arrays({"u": U, "v": -U}, times=T, geometry=GRID, auxiliary={"k": U[0], "a": U}),
        Data.from_arrays({"u": U}, times=T, geometry=Grid(x=XS, y=YS, periodic={"x": 1.25, "y": 7.0})),
        Data.from_arrays({"u": U[:, :4, 0]}, times=T, geometry=MESH, auxiliary={"k": U[0, 0]}),
        Data.from_arrays({"u": U[:, :3, 0]}, times=T, geometry=Mesh([[0.0], [2], [1]], [[0, 1, 2]], "line3")),
    ],
    ids=["auxiliary", "periodic", "mesh", "line3"],
)
def test_round_trip(data):
    ds = data.to_xarray()
    same(Data.from_xarray(ds, time="time"), data)
    # the dataset is the caller's: changing it does not reach the data
    ds["u"][:] = -99.0
    assert np.all(data.fields["u"] != -99.0)


def test_stored_period_is_overruled():
    grid = Grid(x=XS, y=YS, periodic={"x": 1.25})
    ds = Data.from_arrays({"u": U}, times=T, geometry=grid).to_xarray()
    assert Data.from_xarray(ds, time="time", periodic=()).geometry.periods == {}
    assert Data.from_xarray(ds, time="time", periodic={"x": 2}).geometry.periods == {"x": 2.0}


def test_periodic_uses_the_axis_names():
    ds = dataset().rename({"x": "lon"})
    assert Data.from_xarray(ds, time="t", axes={"lon": "x"}, periodic="x").geometry.periods == {"x": 1.25}


def test_mesh():
    expected = Data.from_arrays({"u": np.arange(12.0).reshape(4, 3).T}, times=T, geometry=MESH)
    same(Data.from_xarray(mesh_dataset(), time="t", mesh=MESH), expected)
    same(Data.from_xarray(mesh_dataset(), time="t", mesh=MESH, nodes="n"), expected)
    ds = mesh_dataset(x=("n", MESH.points[:, 0].astype(np.float32)))
    same(Data.from_xarray(ds, time="t", mesh=MESH), expected)


@pytest.mark.parametrize(
    ("ds", "arguments", "words"),
    [
        (mesh_dataset(), {}, r"dimension 'n' is none of x, y, z.*pass mesh=Mesh"),
        (mesh_dataset().isel(n=[0, 1]), {}, "dimension 'n' has 2 entries, the mesh has 4"),
        (mesh_dataset(), {"nodes": "k"}, "nodes: 'k' is not a dimension of the fields; they have 'n'"),
        (mesh_dataset().expand_dims(e=2), {}, "nodes: which of the dimensions .*'e'"),
        (mesh_dataset().expand_dims(e=2), {"nodes": "n"}, "dimension 'e' is neither time nor nodes"),
        (mesh_dataset(), {"periodic": "x"}, "periodic applies to grids"),
        (mesh_dataset(), {"axes": {"n": "x"}}, "axes applies to grids"),
        (mesh_dataset(y=("n", MESH.points[::-1, 1])), {}, "coordinate 'y' of node 0 is 1 in ds.*same order"),
    ],
)
def test_mesh_refusals(ds, arguments, words):
    if "pass mesh=" not in words:
        arguments = {"mesh": MESH, **arguments}
    with refuses(words):
        Data.from_xarray(ds, time="t", **arguments)


def dated(dtype):
    return dataset().assign_coords(t=np.array([0, 1, 2]).astype(dtype))


@pytest.mark.parametrize(
    ("ds", "arguments", "words"),
    [
        (dataset(), {"time": "time"}, "time: 'time' is not a dimension; the dataset has"),
        (
            dataset().drop_vars("t"),
            {},
            "dimension 't' has no coordinate; add the times with ds.assign_coords",
        ),
        (dataset().drop_vars("y"), {}, "dimension 'y' has no coordinate; add it with ds.assign_coords"),
        (dated("M8[ns]"), {}, r"times: coordinate 't' has dtype datetime64.*convert to seconds.*timedelta64"),
        (dated("m8[ns]"), {}, "times: coordinate 't' has dtype timedelta64"),
        (dataset().isel(t=[0, 2, 1]), {}, "times must be strictly increasing; it decreases at index 2"),
        (dataset().isel(x=[0, 2, 1]), {}, "axis 'x' must be strictly increasing; it decreases at index 2"),
        (
            dataset().expand_dims(ensemble=2),
            {},
            r"dimension 'ensemble' is none of x, y, z.*ds.isel\(ensemble=0\)",
        ),
        (dataset().rename(x="lon"), {}, r"dimension 'lon' .*pass axes=\{'lon': 'x'\}"),
        (dataset().rename(x="lon"), {"axes": {"lat": "x"}}, "axes: 'lat' is not a dimension of the fields"),
        (dataset().rename(x="lon"), {"axes": {"lon": "y"}}, "dimensions 'lon' and 'y' both become 'y'"),
        (dataset(v=(("t", "x"), U[:, :, 0])), {}, "field 'v' lacks the dimension 'y'"),
        (dataset(k=("x", XS)), {"auxiliary": ["k"]}, "auxiliary 'k' lacks the dimension 'y'"),
        (dataset(k=(("x", "y", "s"), np.ones((5, 4, 2)))), {"auxiliary": ["k"]}, "'k' has the dimension 's'"),
        (
            dataset(k=(("x", "y"), U[0])),
            {"fields": ["k"]},
            "field 'k' lacks the time dimension 't'.*auxiliary",
        ),
        (dataset(), {"fields": ["w"]}, "fields: no variable 'w'; the dataset has 'u'"),
        (dataset(), {"auxiliary": ["w"]}, "auxiliary: no variable 'w'"),
        (dataset(), {"fields": "u"}, r"fields is the text 'u'; pass a list"),
        (dataset(), {"fields": ["u"], "auxiliary": ["u"]}, "'u' is given as field and as auxiliary"),
        (dataset(), {"auxiliary": ["u"]}, "fields: no variable has the time dimension 't'"),
        (dataset().isel(x=[0]), {}, "axis 'x' has 1 points"),
        (dataset().rename(u="grad"), {}, "field name 'grad' is reserved"),
        (dataset() * np.nan, {}, r"field 'u' has 60 values that are not finite"),
        (dataset()["u"].rename(None), {}, r"DataArray without a name; name the field with ds.rename\('u'\)"),
        (U, {}, "ds is a ndarray; pass an xarray Dataset or DataArray"),
    ],
)
def test_refusals(ds, arguments, words):
    with refuses(words):
        Data.from_xarray(ds, **{"time": "t", **arguments})


def test_labelled_arrays_are_refused_as_plain_ones():
    with refuses("field 'u' is an xarray object; use Data.from_xarray"):
        Data.from_arrays({"u": dataset()["u"]}, times=T, geometry=GRID)


def test_the_advice_for_dates_works():
    ds = dated("M8[s]")
    ds = ds.assign_coords(t=(ds["t"] - ds["t"][0]) / np.timedelta64(1, "s"))
    np.testing.assert_array_equal(Data.from_xarray(ds, time="t").times, [0, 1, 2])
