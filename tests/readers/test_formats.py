"""The same data in every format is read as the same data."""

import numpy as np
import pytest
import xarray as xr

from bvsi.app.readers import Reading, contents, read, read_with_notes, suggest
from bvsi.data import Data
from bvsi.errors import DataError
from readers import samples


def refuses(words):
    return pytest.raises(DataError, match=words)


@pytest.mark.parametrize("kind", samples.LINE_KINDS)
def test_line(tmp_path, kind):
    path, reading = samples.write_line(tmp_path, kind)
    samples.same(read(path, reading), samples.line_data(), rtol=1e-14 if kind in (".tif", ".xlsx") else 0)


@pytest.mark.parametrize("kind", samples.PLANE_KINDS)
def test_plane(tmp_path, kind):
    path, reading = samples.write_plane(tmp_path, kind)
    if kind == ".vtk":  # the older VTK format has no place for the time that meshio writes
        reading = Reading(spacing={"time": 0.1})
        expected = samples.plane_data()
        expected = Data(0.1 * np.arange(7), expected.fields, expected.geometry)
        samples.same(read(path, reading), expected, rtol=1e-15)
    else:
        samples.same(read(path, reading), samples.plane_data())


@pytest.mark.parametrize("kind", samples.MESH_KINDS)
def test_mesh(tmp_path, kind):
    path, reading = samples.write_mesh(tmp_path, kind)
    data = samples.mesh_data()
    samples.same(read(path, reading), data.select_times([0, 1]) if kind == ".msh" else data)


@pytest.mark.parametrize("kind", [k for k in samples.LINE_KINDS if k != ".tif"])
def test_suggestion_of_line_reads(tmp_path, kind):
    path, _ = samples.write_line(tmp_path, kind)
    data = read(path, suggest(path))
    rounded = 1e-14 if kind == ".xlsx" else 0  # Excel keeps 15 to 16 digits
    np.testing.assert_allclose(data.fields["u"], samples.line_data().fields["u"], rtol=rounded, atol=rounded)
    np.testing.assert_allclose(data.times, samples.line()[1], rtol=rounded)


@pytest.mark.parametrize("kind", [k for k in samples.PLANE_KINDS if k != ".vtk"])
def test_suggestion_of_plane_reads(tmp_path, kind):
    path, _ = samples.write_plane(tmp_path, kind)
    data = read(path, suggest(path))
    np.testing.assert_array_equal(next(iter(data.fields.values())), samples.plane_data().fields["u"])


@pytest.mark.parametrize("order", [("t", "x"), ("x", "t")])
@pytest.mark.parametrize("names", [("x", "t"), ("xs", "tspan")])
def test_axes_of_equal_lengths_are_not_guessed(tmp_path, order, names):
    x, t = np.linspace(-1, 1, 21), np.linspace(0, 3, 21)
    np.savez(tmp_path / "a.npz", **dict(zip(names, (x, t), strict=True)), u=np.arange(441.0).reshape(21, 21))
    with pytest.raises(DataError, match=r"equal lengths.*not guessed.*--dims t,x or x,t"):
        suggest(tmp_path / "a.npz")
    data = read(tmp_path / "a.npz", suggest(tmp_path / "a.npz", Reading(dims=order)))
    np.testing.assert_array_equal(data.times, t)
    np.testing.assert_array_equal(data.geometry.axes["x"], x)
    assert data.fields["u"][1, 0] == (21 if order == ("t", "x") else 1)


def test_the_two_axes_of_a_square_are_not_guessed(tmp_path):
    x, t = np.linspace(0, 1, 8), np.linspace(0, 1, 5)
    np.savez(tmp_path / "a.npz", x=x, y=2 * x, t=t, u=np.zeros((5, 8, 8)))
    with pytest.raises(DataError, match="--dims t,x,y or t,y,x"):
        suggest(tmp_path / "a.npz")


def test_suggestion_for_images(tmp_path):
    path, _ = samples.write_line(tmp_path, ".tif")
    found = suggest(path)
    assert found.dims == ("t", "y", "x")
    assert found.fields == {"u": "image"}
    assert read(path, found).geometry.shape == (32,)


@pytest.mark.parametrize("kind", [k for k in samples.LINE_KINDS if k not in samples.TABLES])
def test_contents_tell_the_shape(tmp_path, kind):
    path, _ = samples.write_line(tmp_path, kind)
    found = contents(path)
    sizes = {variable.name: sorted(variable.shape) for variable in found.variables}
    assert sizes["image" if kind == ".tif" else "u"] == ([1, 21, 32] if kind == ".tif" else [21, 32])


@pytest.mark.parametrize("kind", samples.TABLES)
def test_contents_of_a_table(tmp_path, kind):
    path, _ = samples.write_line(tmp_path, kind)
    found = contents(path)
    assert [(v.name, v.shape) for v in found.variables] == [(n, (21 * 32,)) for n in ("time", "x", "u")]


@pytest.mark.parametrize("kind", [".npz", ".h5", ".mat", ".73.mat"])
def test_axes_are_never_guessed_and_the_error_holds_the_line(tmp_path, kind):
    path, _ = samples.write_line(tmp_path, kind)
    with refuses(r'write dims = \["x", "t"\]'):
        read(path)
    with refuses("'u' has 32 entries|has shape"):
        read(path, Reading(dims=["t", "x"]))


def test_two_orders_that_fit_are_both_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(5.0), t=np.arange(5.0), u=np.ones((5, 5)))
    with refuses(r'dims = \["t", "x"\] or dims = \["x", "t"\]'):
        read(tmp_path / "a.npz")


def test_unknown_formats_name_the_known_ones(tmp_path):
    (tmp_path / "a.docx").write_text("a")
    with refuses(r"'\.docx' are not known; known are .nc, .*\.zarr.*\.tiff"):
        read(tmp_path / "a.docx")


def test_missing_files_and_patterns(tmp_path):
    with refuses("no such file"):
        read(tmp_path / "a.nc")
    with refuses("no file fits"):
        read(tmp_path / "a_*.vtu")
    with refuses("cannot be used"):
        read(tmp_path / ("a" * 300 + ".nc"))
    (tmp_path / "b.nc").mkdir()
    with refuses("this is a folder"):
        read(tmp_path / "b.nc")


def dated(units):
    x, _, u = samples.line()
    time = xr.Variable("when", np.arange(21.0), {"units": units, "calendar": "standard"})
    return xr.Dataset({"u": (("x", "when"), u)}, coords={"x": x, "when": time})


def test_dates_become_seconds(tmp_path):
    dated("hours since 2001-02-03").to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    data, notes = read_with_notes(tmp_path / "a.nc")
    np.testing.assert_allclose(data.times, 3600.0 * np.arange(21))
    assert any("seconds since the first" in note for note in notes)


def test_classic_netcdf_with_fill_values_and_a_single_level(tmp_path):
    x, t, u = samples.line()
    u = u.copy()
    u[3, 4] = np.nan
    ds = xr.Dataset({"u": (("x", "level", "t"), u[:, None])}, coords={"x": x[::-1], "t": t, "level": [850.0]})
    ds.to_netcdf(tmp_path / "a.nc", engine="scipy", encoding={"u": {"_FillValue": -999.0}})
    with refuses("not finite"):
        read(tmp_path / "a.nc")
    data, notes = read_with_notes(tmp_path / "a.nc", Reading(missing="nan"))
    np.testing.assert_array_equal(data.observed("u"), u[::-1].T)
    assert any("turned round" in note for note in notes)
    assert any("'level' has one entry" in note for note in notes)


def test_known_fields_static_and_in_time(tmp_path):
    x, y, t, u = samples.plane()
    arrays = {"x": x, "y": y, "t": t, "u": u, "k": u[:, 0], "f": u**2}
    np.savez(tmp_path / "a.npz", **arrays)
    data = read(tmp_path / "a.npz", Reading(dims=["y", "t", "x"], fields=["u"], auxiliary={"kappa": "k", "f": "f"}))
    np.testing.assert_array_equal(data.grid_field("kappa"), u[:, 0].T)
    np.testing.assert_array_equal(data.grid_field("f"), (u**2).transpose(1, 2, 0))


def test_hdf5_scales_name_the_axes(tmp_path):
    import h5py

    x, t, u = samples.line()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/u"], file["run/x"], file["run/t"] = u, x, t
        for i, name in enumerate(("x", "t")):
            file[f"run/{name}"].make_scale(name)
            file["run/u"].dims[i].attach_scale(file[f"run/{name}"])
    reading = Reading(fields={"u": "run/u"}, coordinates={"x": "run/x", "t": "run/t"}, periodic={"x": samples.PERIOD})
    samples.same(read(tmp_path / "a.h5", reading), samples.line_data())


@pytest.mark.parametrize("kind", [".nc", ".npz", ".73.mat", ".vtu", ".csv"])
def test_ranges(tmp_path, kind):
    path, reading = samples.write_plane(tmp_path, kind)
    given = reading or Reading()
    part = Reading(**{**vars(given), "select": {"time": (3.05, 3.45), "x": (0, None), "y": (None, 0.5)}})
    full, cut = samples.plane_data(), read(path, part)
    rows = slice(1, 5)
    inside = [(full.geometry.axes["x"] >= 0), (full.geometry.axes["y"] <= 0.5)]
    np.testing.assert_array_equal(cut.times, full.times[rows])
    np.testing.assert_array_equal(cut.grid_field("u"), full.grid_field("u")[rows][:, inside[0]][:, :, inside[1]])


def test_ranges_that_cannot_be(tmp_path):
    path, _ = samples.write_line(tmp_path, ".nc")
    for select, words in (
        ({"x": (100, 200)}, "no entry of 'x'"),
        ({"q": (0, 1)}, "'q' is not an axis"),
        ({"x": (2, 1)}, "lowest value comes first"),
        ({"x": 3}, "give lowest and highest"),
    ):
        with refuses(words):
            read(path, Reading(select=select))
    with refuses("is periodic and only a part"):
        read(path, Reading(select={"x": (0, 3)}, periodic=["x"]))
    assert not read(path, Reading(select={"x": (0, 3)})).geometry.periods  # a part of the marked axis is not periodic


@pytest.mark.parametrize(
    "reading, words",
    [
        (Reading(fields={"a": "time"}), "is the time itself"),
        (Reading(fields=["w"]), "fields: there is no 'w'"),
        (Reading(fields="u"), r'write a list of names, \["u"\]'),
        (Reading(time="when"), "time: 'when' is not a dimension"),
        (Reading(dims=["x", "t"]), "names its axes itself"),
        (Reading(axes={"q": "x"}), "axes: 'q' is not a dimension"),
        (Reading(axes={"x": "w"}), "dimension 'x' is none of x, y, z"),
        (Reading(coordinates={"x": "w"}), "there is no array 'w'"),
        (Reading(fields=["u"], coordinates={"x": "u"}), "has shape"),
        (Reading(spacing={"x": -1.0}), "positive number"),
        (Reading(periodic=["y"]), "'y' is not an axis"),
        (Reading(missing="none"), "missing is 'none'"),
        (Reading(max_memory=0), "max_memory is 0"),
        (Reading(fields={"t": "u"}), "reserved"),
    ],
)
def test_wrong_choices(tmp_path, reading, words):
    path, _ = samples.write_line(tmp_path, ".nc")
    with refuses(words):
        read(path, reading)


def test_slabs_give_the_same_as_all_at_once(tmp_path):
    path, reading = samples.write_plane(tmp_path, ".73.mat")
    seen = []
    small = Reading(**{**vars(reading), "max_memory": 12 * 10 * 7 * 8.0})
    data = read(path, small, progress=lambda done, total, what: seen.append((done, total)))
    samples.same(data, samples.plane_data())
    assert len(seen) == 7
    assert seen[-1] == (7, 7)


@pytest.mark.parametrize("save", [samples.save73, samples.scipy.io.savemat])
def test_parts_of_complex_arrays(tmp_path, save):
    x, t, u = samples.line()
    save(tmp_path / "a.mat", {"x": x, "t": t, "w": u + 2j * u})
    with refuses(r'u = "real\(w\)"'):
        read(tmp_path / "a.mat", Reading(dims=["x", "t"]))
    data = read(tmp_path / "a.mat", Reading(dims=["x", "t"], fields={"a": "real(w)", "b": "imag(w)"}))
    np.testing.assert_array_equal(data.fields["a"], u.T)
    np.testing.assert_array_equal(data.fields["b"], 2 * u.T)


def test_sets_without_extent(tmp_path):
    for shape in ((0, 21), (32, 1)):
        np.savez(tmp_path / f"{shape[0]}.npz", x=np.arange(shape[0]), t=np.arange(shape[1]), u=np.ones(shape))
    with refuses("empty along 'x'"):
        read(tmp_path / "0.npz", Reading(dims=["x", "t"]))
    assert read(tmp_path / "32.npz", Reading(dims=["x", "t"])).fields["u"].shape == (1, 32)  # one frame


def test_mesh_files_that_do_not_fit(tmp_path):
    path, reading = samples.write_mesh(tmp_path, ".npz")
    with refuses("mesh: there is no file"):
        read(path, Reading(dims=["node", "t"], mesh=tmp_path / "none.msh"))
    line, _ = samples.write_line(tmp_path, ".npz")
    with refuses("mesh: it has 25 points, the fields have 32 nodes"):
        read(line, Reading(dims=["node", "t"], mesh=reading.mesh))
    reading.mesh.write_text("$MeshFormat")
    with refuses("only.msh: cannot be read as mesh"):
        read(path, reading)


def test_zeros_in_a_zarr_store_are_values(tmp_path):
    import zarr

    group = zarr.open_group(tmp_path / "run.zarr", mode="w", zarr_format=2)  # its fill value is zero
    for name, values, dims in (
        ("t", np.arange(5.0), ["t"]),
        ("x", np.arange(8.0), ["x"]),
        ("u", np.outer(np.arange(5.0), np.arange(8.0)), ["t", "x"]),
    ):
        array = group.create_array(name, shape=values.shape, dtype="f8", chunks=values.shape)
        array[:] = values
        array.attrs["_ARRAY_DIMENSIONS"] = dims
    data = read(tmp_path / "run.zarr", Reading(time="t"))
    np.testing.assert_array_equal(data.fields["u"], np.outer(np.arange(5.0), np.arange(8.0)))
