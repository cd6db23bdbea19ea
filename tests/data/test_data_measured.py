"""Values that were not measured: who says so, what is kept, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import DataError
from bvsi.noise import add_noise

T = np.array([0.0, 0.5, 2.0, 2.5])
GRID = Grid(x=np.linspace(0, 1, 5), y=np.linspace(-1, 1, 9))
MESH = Mesh([[0.0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]], "triangle")
X, Y = (c.reshape(GRID.shape) for c in GRID.points.T)
U = 1 + T[:, None, None] + 2 * X + 3 * Y  # linear, so that interpolation is exact
V = U**2


def holes(values=U):
    with_gaps = np.array(values)
    with_gaps[1, 2, 3] = with_gaps[3, 1:3, 5] = np.nan
    return with_gaps


def made(u=None, **more):
    fields = {"u": holes() if u is None else u, "v": V}
    return Data.from_arrays(fields, times=T, geometry=GRID, missing="nan", **more)


def refuses(words):
    return pytest.raises(DataError, match=words)


def same(a, b):
    assert_array_equal(a.times, b.times)
    for name in a.names:
        assert_array_equal(a.observed(name), b.observed(name))
        assert_array_equal(a.measured[name], b.measured[name])


def test_nan_are_refused_unless_the_user_says_what_they_mean():
    with refuses("field 'u' has 3 values that are not finite, first nan .*say so with missing='nan'"):
        Data.from_arrays({"u": holes()}, times=T, geometry=GRID)
    with refuses("missing is 'zero'; pass 'nan'"):
        Data.from_arrays({"u": U}, times=T, geometry=GRID, missing="zero")


def test_infinity_is_never_missing():
    u = np.array(U)
    u[0, 0, 0] = np.inf
    with refuses("field 'u' has 1 values that are not finite, first inf at time index 0") as caught:
        made(u)
    assert "missing=" not in str(caught.value)


def test_masks_and_values():
    data = made()
    assert_array_equal(data.measured["u"], np.isfinite(holes()).reshape(4, -1))
    assert data.measured["v"].all()
    assert_array_equal(data.fields["u"][data.measured["u"]], U.reshape(4, -1)[data.measured["u"]])
    assert_allclose(data.fields["u"], U.reshape(4, -1), atol=1e-6)
    assert "missing" in repr(data)
    with pytest.raises(ValueError, match="read-only"):
        data.measured["u"][0, 0] = False


def test_complete_data_have_no_masks():
    assert made(U).measured is None
    whole = {"u": np.ones((4, 45), dtype=bool)}
    assert Data(T, {"u": U.reshape(4, 45)}, GRID, measured=whole).measured is None


def test_filled_values_stay_within_the_measured_ones():
    """Operators such as log(u) stay finite: the gap at the steep end would be filled by a negative number."""
    x = np.linspace(0, 1, 12)
    u = np.stack([np.maximum(0.9 - x, 0.05) ** 2] * 3)
    u[:, -3:] = np.nan
    data = Data.from_arrays({"u": u}, times=T[:3], geometry=Grid(x=x), missing="nan")
    assert data.fields["u"].min() >= np.nanmin(u) > 0


def test_given_values_in_gaps_are_kept():
    """They must not matter, and it is for the user to say what stands there."""
    mask = np.isfinite(holes()).reshape(4, 45)
    u = np.where(mask, U.reshape(4, 45), 77.0)
    assert_array_equal(Data(T, {"u": u}, GRID, measured={"u": mask}).fields["u"], u)


def test_empty_frames_are_dropped_with_what_is_known_there():
    u, v, k = holes(), np.array(V), U + 5
    u[2], v[2], k[2] = np.nan, np.nan, np.nan
    data = Data.from_arrays({"u": u, "v": v}, times=T, geometry=GRID, missing="nan", auxiliary={"k": k, "s": X})
    assert_array_equal(data.times, T[[0, 1, 3]])
    assert_array_equal(data.auxiliary["k"], k[[0, 1, 3]].reshape(3, 45))
    assert data.auxiliary["s"].shape == (45,)
    assert_array_equal(data.observed("u"), u[[0, 1, 3]].reshape(3, 45))
    half = Data.from_arrays({"u": u, "v": V}, times=T, geometry=GRID, missing="nan")  # v was measured at that time
    assert half.n_times == 4
    assert not half.measured["u"][2].any()


def test_dropping_frames_can_make_data_complete():
    u = np.array(U)
    u[1] = np.nan
    data = Data.from_arrays({"u": u}, times=T, geometry=GRID, missing="nan")
    assert data.measured is None
    assert_array_equal(data.times, T[[0, 2, 3]])


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.select_times([0, 1, 3]),
        lambda d: d.subsample({"x": 2, "y": 1}),
        lambda d: d.with_fields({"u": 2 * d.fields["u"], "v": d.fields["v"]}),
        lambda d: add_noise(d, 0.1, np.random.default_rng(0)),
        copy.deepcopy,
        lambda d: pickle.loads(pickle.dumps(d)),
    ],
    ids=["select_times", "subsample", "with_fields", "add_noise", "copy", "pickle"],
)
def test_masks_go_along(change):
    marked = np.where(made().measured["u"], 0.0, 1.0)
    changed = change(made())
    reference = change(Data(T, {"u": marked, "v": V.reshape(4, 45)}, GRID))
    if changed.n_nodes != 45 or changed.n_times != 4:  # places are those that the same change takes of an array
        assert_array_equal(changed.measured["u"], reference.fields["u"] == 0)
    else:
        assert_array_equal(changed.measured["u"], marked == 0)
    assert not changed.measured["u"].all()
    assert np.isfinite(changed.fields["u"]).all()


def test_labelled_arrays_round_trip():
    data = made(auxiliary={"k": X})
    ds = data.to_xarray()
    assert_array_equal(np.isnan(ds["u"].values), np.isnan(holes()))
    same(Data.from_xarray(ds, time="time"), data)
    same(Data.from_xarray(ds.isel(x=slice(None, None, -1)).transpose("y", "time", "x"), time="time"), data)
    for name in ("u", "v"):
        ds[name].attrs.clear()
    with refuses("missing='nan'"):
        Data.from_xarray(ds, time="time")
    same(Data.from_xarray(ds, time="time", missing="nan"), data)
    with refuses("missing is 'none'"):
        Data.from_xarray(ds, time="time", missing="none")


def test_meshes():
    u = np.arange(16.0).reshape(4, 4)
    u[2, 1] = np.nan
    data = Data.from_arrays({"u": u}, times=T, geometry=MESH, missing="nan")
    assert_array_equal(~data.measured["u"], np.isnan(u))
    assert np.isfinite(data.fields["u"]).all()
    same(Data.from_xarray(data.to_xarray(), time="time"), data)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"w": np.ones((4, 45), dtype=bool)}, "measured: 'w' is not a field; the fields are u"),
        ({"u": np.ones((4, 44), dtype=bool)}, r"mask of field 'u' has shape \(4, 44\), expected \(4, 45\)"),
        ({"u": np.ones((4, 45))}, "mask of field 'u' has dtype float64; pass True where measured"),
        (np.ones((4, 45), dtype=bool), "measured is a ndarray; pass masks by name"),
        ({"u": np.zeros((4, 45), dtype=bool)}, "field 'u' has no measured value; leave the field out"),
    ],
)
def test_wrong_masks_are_refused(measured, words):
    with refuses(words):
        Data(T, {"u": U.reshape(4, 45)}, GRID, measured=measured)


def test_all_missing_is_refused():
    with refuses("field 'u' has no measured value"):
        made(np.full_like(U, np.nan))


def test_nan_in_measured_places_are_refused():
    mask = np.ones((4, 45), dtype=bool)
    mask[0, 0] = False
    with refuses("field 'u' has 3 values"):
        Data(T, {"u": holes().reshape(4, 45)}, GRID, measured={"u": mask})


def test_masked_arrays_name_the_remedy():
    with refuses(r"has masked values; .*missing='nan'"):
        Data.from_arrays({"u": np.ma.masked_greater(U, 3)}, times=T, geometry=GRID)


def test_observed_names_the_fields():
    with refuses("no field 'w'; the data have u, v"):
        made().observed("w")
