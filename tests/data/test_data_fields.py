"""Data: layouts, refusals, immutability, subsampling, noise, experiments."""

import copy
import pickle
import subprocess
import sys

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from bvsi.common.naming import DERIVATIVES, FUNCTION_NAMES
from bvsi.data import RESERVED_NAMES, Data, Grid, Mesh, as_experiments, check_field_name
from bvsi.errors import DataError
from bvsi.noise import add_noise

T = np.array([0.0, 0.5, 2.0])
GRID = Grid(x=np.linspace(0, 1, 5), y=np.linspace(-1, 1, 9))
MESH = Mesh([[0.0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]], "triangle")
U = np.arange(3 * 5 * 9, dtype=float).reshape(3, 5, 9)


def make(fields=None, times=T, geometry=GRID, **kwargs):
    return Data.from_arrays({"u": U} if fields is None else fields, times=times, geometry=geometry, **kwargs)


def refuses(words):
    return pytest.raises(DataError, match=words)


# Layouts


def test_stored_form():
    data = make()
    assert (data.n_times, data.n_nodes, data.names) == (3, 45, ("u",))
    assert data.fields["u"].shape == (3, 45)
    np.testing.assert_array_equal(data.grid_field("u"), U)
    assert np.shares_memory(data.grid_field("u"), data.fields["u"])
    # the node number and the position agree
    k = int(np.ravel_multi_index((2, 7), GRID.shape))
    assert data.fields["u"][1, k] == U[1, 2, 7]
    np.testing.assert_array_equal(GRID.points[k], [GRID.axes["x"][2], GRID.axes["y"][7]])


def test_flattened_arrays_are_accepted():
    np.testing.assert_array_equal(make({"u": U.reshape(3, 45)}).fields["u"], make().fields["u"])


@pytest.mark.parametrize("dims", [("time", "x", "y"), ("y", "x", "t"), ["x", "time", "y"]])
def test_dims_name_the_axes(dims):
    order = [{"time": 0, "t": 0, "x": 1, "y": 2}[name] for name in dims]
    static = [i - 1 for i in order if i != 0]
    data = make(
        {"u": U.transpose(order)},
        dims=dims,
        auxiliary={"a": U.transpose(order), "k": U[0].transpose(static)},
    )
    np.testing.assert_array_equal(data.grid_field("u"), U)
    np.testing.assert_array_equal(data.grid_field("a"), U)
    np.testing.assert_array_equal(data.grid_field("k"), U[0])


@settings(max_examples=25)
@given(
    order=st.permutations(["time", "x", "y", "z"]),
    axes=st.permutations(["x", "y", "z"]),
    values=hnp.arrays(np.float64, (2, 3, 4, 2), elements=st.floats(-10, 10)),
)
def test_transposing_commutes_with_dims(order, axes, values):
    sizes = {"x": 3, "y": 4, "z": 2}
    names = ["time", "x", "y", "z"]
    grid = Grid(**{name: np.arange(sizes[name]) for name in axes})
    shuffled = values.transpose([names.index(name) for name in order])
    data = make({"u": shuffled}, times=[0, 1], geometry=grid, dims=order)
    expected = values.transpose([names.index(name) for name in ("time", *axes)])
    np.testing.assert_array_equal(data.grid_field("u"), expected)


def test_square_grids_are_transposed_by_name_only():
    grid = Grid(x=[0, 1, 2], y=[0, 1, 2])
    u = np.arange(18.0).reshape(2, 3, 3)
    plain = make({"u": u}, times=[0, 1], geometry=grid)
    turned = make({"u": u}, times=[0, 1], geometry=grid, dims=("time", "y", "x"))
    np.testing.assert_array_equal(turned.grid_field("u"), plain.grid_field("u").swapaxes(1, 2))


def test_mesh_data():
    u = np.arange(12.0).reshape(3, 4)
    data = make({"u": u}, geometry=MESH, auxiliary={"k": u[0], "a": u})
    np.testing.assert_array_equal(data.fields["u"], u)
    assert (data.auxiliary["k"].shape, data.auxiliary["a"].shape) == ((4,), (3, 4))
    np.testing.assert_array_equal(make({"u": u.T}, geometry=MESH, dims=("node", "time")).fields["u"], u)
    with refuses(r"axis 1 \('node'\) has 3 entries, the mesh has 4"):
        make({"u": u[:, :3]}, geometry=MESH)
    with refuses("grid_field needs data on a grid"):
        data.grid_field("u")


@pytest.mark.parametrize(
    ("shape", "dims", "words"),
    [
        ((3, 6, 9), None, r"field 'u': axis 1 \('x'\) has 6 entries, the grid has 5; pass dims=\(\.\.\.\)"),
        ((3, 5, 8), None, r"axis 2 \('y'\) has 8 entries, the grid has 9"),
        ((4, 5, 9), None, r"axis 0 \('time'\) has 4 entries, times have 3"),
        ((3, 9, 5), None, r"fit in another order: pass dims=\('time', 'y', 'x'\)$"),
        ((5, 9, 3), None, r"fit in another order: pass dims=\('x', 'y', 'time'\)"),
        ((3, 44), None, r"it has 2 axes \(3, 44\), expected are 3 \(time 3, x 5, y 9\)"),
        (
            (3, 5, 9),
            ("time", "y", "x"),
            r"axis 1 \('y'\) has 5 entries, the grid has 9.*\('time', 'x', 'y'\)",
        ),
        ((3, 5, 7), ("time", "y", "x"), "the grid has 9; check dims and shape"),
        ((3, 45), ("time", "x", "y"), "it has 2 axes"),
        ((3, 5, 9), ("time", "x"), "dims is .* must name each of 'time', 'x', 'y' once"),
        ((3, 5, 9), ("time", "x", "x"), "must name each"),
        ((3, 5, 9), ("time", "lat", "x"), "must name each"),
        ((3, 5, 9), "txy", "must name each"),
    ],
)
def test_wrong_shapes_are_refused(shape, dims, words):
    with refuses(words):
        make({"u": np.zeros(shape)}, dims=dims)


def test_ambiguous_permutation_is_said_to_be_so():
    grid = Grid(x=[0, 1], y=[0, 1], z=[0, 1, 2])
    with refuses("pass dims=.*or another order that fits; only you know which"):
        make({"u": np.zeros((3, 3, 2, 2))}, geometry=grid)


def test_auxiliary_shapes():
    k = U[0]
    for value, shape in ((k, (45,)), (k.ravel(), (45,)), (U, (3, 45)), (U.reshape(3, 45), (3, 45))):
        assert make(auxiliary={"k": value}).auxiliary["k"].shape == shape
    with refuses(r"auxiliary 'k': axis 0 \('x'\) has 9 entries, .*pass dims=\('time', 'y', 'x'\)"):
        make(auxiliary={"k": k.T})
    with refuses("auxiliary 'k' has 1 values that are not finite, first inf at grid index"):
        make(auxiliary={"k": np.where(k == 13, np.inf, k)})


# Refusals


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([0.0, 2.0, 1.0], "times must be strictly increasing; it decreases at index 2"),
        ([0.0, 1.0, 1.0], "times .* repeats its value at index 2"),
        ([0.0, np.nan, 1.0], "times has 1 values that are not finite, first at index 1"),
        ([], "times is empty; at least one frame is needed"),
        ([[0.0, 1.0]], "times must be one-dimensional"),
        (
            np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
            r"times has dtype datetime64.*seconds.*timedelta64",
        ),
        (np.array([0, 1], "m8[s]"), "times has dtype timedelta64"),
    ],
)
def test_times_are_checked(times, words):
    with refuses(words):
        make(times=times)


def test_nan_is_located():
    u = U.copy()
    u[1, 2, 7:] = [np.nan, np.inf]
    with refuses(
        r"field 'u' has 2 values .*first nan at time index 1 \(t = 0.5\), "
        r"grid index \(2, 7\) \(x = 0.5, y = 0.75\)"
    ):
        make({"u": u})
    v = np.zeros((3, 4))
    v[2, 3] = -np.inf
    with refuses(r"field 'v' has 1 .*-inf at time index 2 \(t = 2\), node 3 \(x = 0, y = 1\)"):
        make({"v": v}, geometry=MESH)


def test_masked_values_are_refused():
    with refuses("field 'u' has masked values"):
        make({"u": np.ma.masked_greater(U, 100)})
    np.testing.assert_array_equal(make({"u": np.ma.array(U)}).grid_field("u"), U)


@pytest.mark.parametrize("name", ["x", "t", "pi", "time", "node", "diff", *DERIVATIVES, *FUNCTION_NAMES])
def test_reserved_names_are_refused(name):
    assert name in RESERVED_NAMES
    with refuses(f"field name '{name}' is reserved .*rename"):
        make({name: U})
    with refuses(f"auxiliary field name '{name}' is reserved"):
        make(auxiliary={name: U})


@pytest.mark.parametrize("name", ["2u", "a b", "u-v", "", "lambda"])
def test_names_that_are_no_identifiers_are_refused(name):
    with refuses("is not an identifier; rename"):
        make({name: U})


def test_check_field_name():
    assert check_field_name("u_1") == "u_1"
    assert check_field_name("ρ") == "ρ"
    with refuses("field name 3 is not a text"):
        check_field_name(3)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "fields is empty"),
        (U, "fields is a ndarray; pass arrays by name"),
        ({"u": U + 1e-3j}, "field 'u' is complex with a non-zero imaginary part; pass its real part"),
        ({"u": np.full(U.shape, "a")}, "field 'u' has dtype <U1, which is not numeric"),
        ({"u": U.astype(object)}, "dtype object, which is not numeric"),
        ({"u": U > 3}, "dtype bool, which is not numeric"),
        ({"u": [[1.0, 2.0], [3.0]]}, "field 'u' is not a rectangular array"),
    ],
)
def test_unusable_values_are_refused(fields, words):
    with refuses(words):
        make(fields)


def test_clash_and_geometry():
    with refuses("'u' is given as field and as auxiliary"):
        make(auxiliary={"u": U})
    with refuses("geometry is a dict; pass a Grid or a Mesh"):
        make(geometry={"x": T})
    with refuses("geometry is a NoneType"):
        Data(T, {"u": U}, None)
    with refuses(r"field 'u' has shape \(3, 5, 9\), expected \(3, 45\).*from_arrays"):
        Data(T, {"u": U}, GRID)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.complex64, np.uint8])
def test_other_number_types_are_converted(dtype):
    data = make({"u": U.astype(dtype)})
    assert data.fields["u"].dtype == np.float64
    np.testing.assert_array_equal(data.grid_field("u"), U)


# Immutability


def test_nothing_is_shared_with_the_caller():
    u, t = U.copy(), T.copy()
    given_fields = {"u": u}
    data = make(given_fields, times=t, auxiliary={"k": u[0]})
    u[:] = t[:] = -1
    given_fields["v"] = u
    assert data.names == ("u",)
    np.testing.assert_array_equal(data.grid_field("u"), U)
    np.testing.assert_array_equal(data.grid_field("k"), U[0])
    np.testing.assert_array_equal(data.times, T)


@pytest.mark.parametrize("remake", [lambda d: d, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_arrays_are_read_only(remake):
    data = remake(make(auxiliary={"k": U[0]}))
    for array in (data.times, data.fields["u"], data.auxiliary["k"], data.grid_field("u")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(TypeError):
        data.fields["u"] = U
    with pytest.raises(AttributeError):
        data.times = T


# Selection


def test_select_times():
    data = make(auxiliary={"k": U[0], "a": U})
    for index in (slice(None, None, 2), [0, 2], np.array([True, False, True]), [0, -1]):
        part = data.select_times(index)
        np.testing.assert_array_equal(part.times, [0.0, 2.0])
        np.testing.assert_array_equal(part.grid_field("u"), U[[0, 2]])
        np.testing.assert_array_equal(part.grid_field("a"), U[[0, 2]])
        np.testing.assert_array_equal(part.grid_field("k"), U[0])
    for index, words in (
        (1, "index must select several times"),
        ([0, 7], "index does not fit the 3 times"),
        ([0.5, 1.0], "index does not fit"),
        ([2, 0], "times must be strictly increasing"),
        (slice(0, 0), "times is empty"),
    ):
        with refuses(words):
            data.select_times(index)


def test_one_frame_needs_no_times():
    data = Data.from_arrays({"u": U[1]}, geometry=make().geometry, auxiliary={"k": U[0]})
    assert data.n_times == 1
    np.testing.assert_array_equal(data.grid_field("u")[0], U[1])
    np.testing.assert_array_equal(data.select_times([0]).grid_field("k"), U[0])
    turned = Data.from_arrays({"u": U[1].T}, geometry=make().geometry, dims=data.geometry.names[::-1])
    np.testing.assert_array_equal(turned.fields["u"], data.fields["u"])
    with refuses("a series needs its times"):
        Data.from_arrays({"u": U[1]})


def test_subsample_keeps_end_points():
    data = make(auxiliary={"k": U[0], "a": U})
    coarse = data.subsample({"x": 2, "y": 4})
    assert coarse.geometry.shape == (3, 3)
    np.testing.assert_array_equal(coarse.geometry.axes["y"], [-1, 0, 1])
    np.testing.assert_array_equal(coarse.grid_field("u"), U[:, ::2, ::4])
    np.testing.assert_array_equal(coarse.grid_field("a"), U[:, ::2, ::4])
    np.testing.assert_array_equal(coarse.grid_field("k"), U[0, ::2, ::4])
    np.testing.assert_array_equal(data.subsample(4).grid_field("u"), U[:, ::4, ::4])
    np.testing.assert_array_equal(data.subsample({"y": 2}).grid_field("u"), U[:, :, ::2])


def test_subsample_keeps_the_period():
    grid = Grid(x=np.arange(12) / 12, periodic={"x": 1.0})
    data = make({"u": np.arange(36.0).reshape(3, 12)}, geometry=grid)
    coarse = data.subsample(3)
    assert coarse.geometry.periods == {"x": 1.0}
    np.testing.assert_array_equal(coarse.fields["u"], data.fields["u"][:, ::3])
    with refuses("periodic axis 'x' has 12 nodes, not divisible by 5; choose a divisor of 12"):
        data.subsample(5)
    with refuses("axis 'x' is periodic and has 2 points"):
        data.subsample(6)


@pytest.mark.parametrize(
    ("every", "words"),
    [
        (3, "every 3-th of the 5 nodes of axis 'x' loses its end point; choose a divisor of 4"),
        (0, "0 for axis 'x' is not a positive integer"),
        (True, "not a positive integer"),
        ({"x": 1.5}, "1.5 for axis 'x' is not a positive integer"),
        ({"z": 2}, "'z' is not an axis of the grid; the grid has x, y"),
        ({"time": 2}, "'time' is not an axis of the grid; use select_times"),
    ],
)
def test_subsample_refusals(every, words):
    with refuses(words):
        make().subsample(every)


def test_subsample_needs_a_grid():
    with refuses("subsample needs data on a grid"):
        make({"u": np.zeros((3, 4))}, geometry=MESH).subsample(2)


def test_with_fields():
    data = make({"u": U, "v": 2 * U}, auxiliary={"k": U[0]})
    other = data.with_fields({"v": U, "u": (3 * U).reshape(3, 45)})
    assert other.names == ("u", "v")
    np.testing.assert_array_equal(other.grid_field("u"), 3 * U)
    np.testing.assert_array_equal(other.grid_field("k"), U[0])
    assert other.geometry is data.geometry
    np.testing.assert_array_equal(data.grid_field("u"), U)
    with refuses("fields given are u, the data have u, v; give all of them"):
        data.with_fields({"u": U})
    with refuses("no field 'w'; the data have u, v, k"):
        data.grid_field("w")


# Noise


def test_noise_has_the_given_size_and_leaves_the_data_alone():
    grid = Grid(x=np.arange(200.0))
    data = make({"u": np.ones((50, 200)), "v": np.ones((50, 200))}, times=np.arange(50), geometry=grid)
    noisy = add_noise(data, {"u": 0.5, "v": 0.01}, np.random.default_rng(1))
    for name, sigma in (("u", 0.5), ("v", 0.01)):
        error = noisy.fields[name] - 1
        assert np.std(error) == pytest.approx(sigma, rel=0.03)
        assert abs(np.mean(error)) < 4 * sigma / 100
        assert np.all(data.fields[name] == 1)
    # one field's noise does not depend on the size of another's
    other = add_noise(data, {"u": 0.0, "v": 0.01}, np.random.default_rng(1))
    np.testing.assert_array_equal(other.fields["v"], noisy.fields["v"])
    np.testing.assert_array_equal(other.fields["u"], data.fields["u"])
    same = add_noise(data, 0.01, np.random.default_rng(1))
    np.testing.assert_array_equal(same.fields["v"], noisy.fields["v"])


@pytest.mark.parametrize(
    ("sigma", "rng", "words"),
    [
        (0.1, 3, r"rng is a int; pass numpy.random.default_rng\(seed\)"),
        (-0.1, np.random.default_rng(0), "sigma of field 'u' is -0.1; give a finite standard deviation"),
        (np.nan, np.random.default_rng(0), "sigma of field 'u' is nan"),
        ({"w": 0.1}, np.random.default_rng(0), "sigma is given for w, the fields are u"),
        ({}, np.random.default_rng(0), "sigma is given for none"),
    ],
)
def test_noise_refusals(sigma, rng, words):
    with refuses(words):
        add_noise(make(), sigma, rng)


# Experiments


def test_as_experiments():
    a, b = make(), make(times=[0, 1, 3])
    assert as_experiments(a) == (a,)
    assert as_experiments([a, b]) == (a, b)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (lambda: [make({"v": U})], "experiment 1 has the fields v, experiment 0 has u"),
        (
            lambda: [make(), make(auxiliary={"k": U})],
            "experiment 2 has the auxiliary fields k, experiment 0 has none",
        ),
        (
            lambda: [make({"u": np.zeros((3, 4))}, geometry=Grid(x=[0, 1, 2, 3]))],
            r"experiment 1 has .*1 \(x\), experiment 0 has .*2 \(x, y\)",
        ),
        (lambda: [U], "experiment 1 is a ndarray"),
    ],
)
def test_experiments_that_differ_are_refused(others, words):
    with refuses(words):
        as_experiments([make(), *others()])


def test_no_experiments():
    with refuses("data is empty"):
        as_experiments([])


# The door


def test_repr():
    grid = Grid(x=np.linspace(-5, 5, 51), y=np.linspace(-5, 5, 51))
    data = make({"p": np.zeros((51, 51, 51))}, times=np.linspace(0, 1, 51), geometry=grid)
    assert repr(data) == "Data: 51 times in [0, 1], grid 51 × 51 in [-5, 5] × [-5, 5], fields p"
    data = make({"u": np.zeros((3, 4)), "v": np.zeros((3, 4))}, geometry=MESH, auxiliary={"k": np.zeros(4)})
    assert repr(data) == (
        "Data: 3 times in [0, 2], mesh of 2 triangle cells, 4 nodes in [0, 1] × [0, 1], fields u, v, auxiliary k"
    )


def test_import_is_light():
    code = (
        "import sys, bvsi.data; "
        "heavy = {'pandas', 'xarray', 'matplotlib', 'numba', 'skfem'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
