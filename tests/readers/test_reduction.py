"""Coarsening: the filter, the choice of the axes, and sets that are larger than the memory allowed."""

import numpy as np
import pytest
import tifffile
import xarray as xr

from bvsi.app.readers import Reading, read, read_with_notes
from bvsi.app.readers.oversampling import lost_share, spectrum
from bvsi.app.readers.reduction import (
    AFTER,
    BEFORE,
    TAPS,
    coarse_coordinates,
    coarse_size,
    halve,
    halve_blocks,
    response,
)
from bvsi.data import Grid
from bvsi.errors import DataError

K = np.arange(-BEFORE, AFTER + 1)


def refuses(words):
    return pytest.raises(DataError, match=words)


def test_taps_are_orthonormal_and_have_their_moments():
    for m in range(9):
        assert TAPS[2 * m :] @ TAPS[: TAPS.size - 2 * m] == pytest.approx(float(m == 0), abs=1e-13)
    assert TAPS.sum() == pytest.approx(np.sqrt(2), abs=1e-13)
    for p in range(1, 6):
        assert TAPS @ K.astype(float) ** p == pytest.approx(0, abs=1e-9)
    for p in range(6):  # the high-pass filter sees no polynomial either
        assert (TAPS * (-1.0) ** K) @ K.astype(float) ** p == pytest.approx(0, abs=1e-8)


def test_coarse_values_are_samples_to_sixth_order():
    errors = []
    for n in (32, 64, 128):
        x = np.arange(n) * 2 * np.pi / n
        u = np.sin(3 * x + 0.3)
        coarse = halve(u, 0, periodic=True)
        errors.append(np.abs(coarse - np.sin(3 * coarse_coordinates(x, True) + 0.3)).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 5.9)


@pytest.mark.parametrize("n", [18, 19, 40, 41])
def test_bounded_ends_keep_polynomials(n):
    x = np.linspace(-1, 2, n)
    y = coarse_coordinates(x, False)
    u = np.stack([x**p for p in range(6)])
    coarse = halve(u, 1, periodic=False)
    assert coarse.shape == (6, coarse_size(n, False))
    np.testing.assert_allclose(coarse, [y**p for p in range(6)], atol=1e-10)


def test_white_noise_stays_white_with_a_smaller_level():
    noise = np.random.default_rng(0).normal(size=(400, 256))
    coarse = halve(halve(noise, 1, periodic=True), 1, periodic=True)
    n = coarse.size
    assert coarse.std() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(2 * n))
    for lag in range(1, 6):
        correlation = np.mean(coarse * np.roll(coarse, lag, axis=1)) / coarse.var()
        assert abs(correlation) < 5 / np.sqrt(n)


def test_response_is_that_of_the_filter():
    n, k = 64, 5
    omega = 2 * np.pi * k / n
    wave = np.exp(1j * omega * np.arange(n))
    twice = halve(halve(wave.real, 0, True), 0, True) + 1j * halve(halve(wave.imag, 0, True), 0, True)
    np.testing.assert_allclose(twice, response(np.array([omega]), 2)[0] * wave[::4], atol=1e-13)


@pytest.mark.parametrize("lengths", [[100], [1] * 100, [7, 30, 2, 61], [50, 50]])
def test_blocks_give_the_same_as_all_at_once(lengths):
    u = np.random.default_rng(1).normal(size=(100, 3))
    parts = np.split(u, np.cumsum(lengths)[:-1])
    twice = np.concatenate(list(halve_blocks(halve_blocks(iter(parts)))))
    np.testing.assert_array_equal(twice, halve(halve(u, 0, False), 0, False))


def test_missing_values_spread_over_the_filter_only():
    u = np.zeros(64)
    u[30] = np.nan
    lost = np.flatnonzero(np.isnan(halve(u, 0, periodic=True)))
    np.testing.assert_array_equal(2 * lost, np.arange(30 - AFTER + 1, 30 + BEFORE + 1, 2))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_lost_share_is_the_difference_of_the_values(periodic, sigma):
    """Predicted and actual mean square difference of coarse values and clean signal, for waves of many lengths."""
    rng = np.random.default_rng(2)
    x = np.arange(512.0)
    for length, small in ((64, True), (16, True), (512 / 170, False)):
        clean = np.sin(2 * np.pi * x / length + rng.uniform(0, 6, (200, 1)))
        found = spectrum(clean + sigma * rng.normal(size=clean.shape), periodic, 0.5)
        actual = np.mean((halve(clean, 1, False) - clean[:, BEFORE : BEFORE + 496 : 2]) ** 2) / 0.5
        share = lost_share(found, 1)
        assert (share < 1e-5) == small
        if not small:
            # With noise the statistical error of the estimate is taken off.
            assert (0.9 if sigma == 0 else 0.4) * actual < share < 1.1 * actual


def field(t, x, y):
    return np.sin(x)[:, None] * np.cos(2 * y) * (1 + 0.3 * np.sin(t))[:, None, None] + 0.2 * np.cos(
        x[:, None] - t[:, None, None]
    )


def large(n_t=96, n_x=128, n_y=40, sigma=0.0):
    """A set that is sampled far more densely than it needs in x, less so in time, and hardly in y."""
    t, x, y = np.linspace(0, 12, n_t), np.arange(n_x) * 2 * np.pi / n_x, np.linspace(0, 3, n_y)
    u = field(t, x, y) + sigma * np.random.default_rng(0).normal(size=(n_t, n_x, n_y))
    return xr.Dataset(
        {"u": (("time", "x", "y"), u), "k": (("x", "y"), np.cos(x)[:, None] * y, {"role": "auxiliary"})},
        coords={"time": t, "x": ("x", x, {"period": 2 * np.pi}), "y": y},
    )


@pytest.mark.parametrize("kind", [".nc", ".zarr"])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_sets_larger_than_memory_are_samples_on_a_coarser_grid(tmp_path, kind, share):
    ds = large()
    path = tmp_path / f"a{kind}"
    if kind == ".nc":
        ds.to_netcdf(path, engine="h5netcdf", encoding={"u": {"chunksizes": (16, 64, 40)}})
    else:
        ds.isel(y=slice(None, None, -1)).transpose("y", "time", "x").to_zarr(path, zarr_format=3, consolidated=False)
    limit = share * ds["u"].nbytes
    data, notes = read_with_notes(path, Reading(max_memory=limit))
    grid = data.geometry
    assert isinstance(grid, Grid)
    assert data.fields["u"].nbytes <= limit
    assert dict(grid.periods) == {"x": 2 * np.pi}
    assert any("coarsened by a low-pass filter: " in note for note in notes)
    np.testing.assert_allclose(data.grid_field("u"), field(data.times, grid.axes["x"], grid.axes["y"]), atol=6e-3)
    np.testing.assert_allclose(data.grid_field("k"), np.cos(grid.axes["x"])[:, None] * grid.axes["y"], atol=6e-3)
    assert grid.axes["x"].size <= 32 if share == 0.1 else grid.axes["x"].size in (64, 128)


def test_slabs_and_coarsening_do_not_depend_on_the_length_of_slabs(tmp_path):
    from bvsi.app.readers.layout import resolve
    from bvsi.app.readers.registry import opened
    from bvsi.app.readers.slabs import read_moving
    from bvsi.common.progress import silent

    ds = large()
    ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    levels, grid = (1, 2, 0), Grid(x=ds["x"].values, y=ds["y"].values, periodic={"x": 2 * np.pi})
    with opened(tmp_path / "a.nc", Reading()) as source:
        layout = resolve(source, Reading())
        results = [
            read_moving(layout, grid, levels, coarse_size(96, False), slab, source.path, silent)["u"]
            for slab in (1, 7, 96)
        ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    whole = halve(halve(halve(ds["u"].values, 1, True), 1, True), 0, False)
    np.testing.assert_array_equal(results[0], whole.reshape(40, -1))


def test_noise_of_a_coarsened_set(tmp_path):
    sigma = 0.2
    ds = large(sigma=sigma)
    ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    data = read(tmp_path / "a.nc", Reading(max_memory=0.3 * ds["u"].nbytes))
    axes = data.geometry.axes
    noise = data.grid_field("u") - field(data.times, axes["x"], axes["y"])
    steps = [values[1] - values[0] for values in (data.times, axes["x"], axes["y"])]
    factor = round(float(np.prod(steps)) / (12 / 95 * 2 * np.pi / 128 * 3 / 39))
    assert factor >= 4
    assert noise.std() == pytest.approx(sigma / np.sqrt(factor), rel=0.03)


def test_signal_is_not_cut(tmp_path):
    rng = np.random.default_rng(0)
    t, x = np.arange(128.0), np.arange(128.0)
    u = np.cumsum(rng.normal(size=(128, 128)), axis=0).cumsum(axis=1)
    rough = xr.Dataset({"u": (("time", "x"), u)}, coords={"time": t, "x": x})
    rough.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=r"would cut real signal .*of the variance.*select"):
        read(tmp_path / "a.nc", Reading(max_memory=0.3 * u.nbytes))
    part = read(tmp_path / "a.nc", Reading(max_memory=0.3 * u.nbytes, select={"time": (0, 30)}))
    np.testing.assert_array_equal(part.fields["u"], u[:31])


def test_axes_that_are_not_uniform_are_left_alone(tmp_path):
    ds = large()
    uneven = ds.assign_coords(time=ds["time"].values ** 1.2)
    uneven.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    data = read(tmp_path / "a.nc", Reading(max_memory=0.3 * ds["u"].nbytes))
    assert data.n_times == 96


def test_meshes_are_not_coarsened(tmp_path):
    from readers import samples

    path, _ = samples.write_mesh(tmp_path, ".nc")
    with pytest.raises(DataError, match="meshes are not coarsened"):
        read(path, Reading(max_memory=1000))


def test_images_page_by_page(tmp_path):
    ds = large(n_y=64)
    stack = ds["u"].values.astype(np.float32)
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="minisblack")
    spacing = {"t": 12 / 95, "x": 2 * np.pi / 128, "y": 3 / 63}
    reading = Reading(dims=["t", "x", "y"], spacing=spacing, fields={"u": "image"}, periodic={"x": 2 * np.pi})
    small = Reading(**{**vars(reading), "max_memory": 4e6})
    data = read(tmp_path / "a.tif", small)
    axes = data.geometry.axes
    np.testing.assert_allclose(data.grid_field("u"), field(data.times, axes["x"], axes["y"]), atol=3e-3)
    assert read(tmp_path / "a.tif", reading).fields["u"].shape == (96, 128 * 64)
    for k, page in enumerate(stack[:3]):
        tifffile.imwrite(tmp_path / f"page_{k}.tif", page)
    np.testing.assert_array_equal(read(tmp_path / "page_*.tif", reading).grid_field("u"), stack[:3].astype(float))


def test_fields_that_are_kept_whole_are_a_file_that_is_mapped(tmp_path, monkeypatch):
    """The same numbers, read-only, and no copy of them in memory; refused where there is no room for them."""
    from bvsi.app.readers import slabs
    from bvsi.data._arrays import mapped

    ds = large(sigma=0.05)
    ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    size = ds["u"].nbytes
    whole = read(tmp_path / "a.nc")
    data, notes = read_with_notes(tmp_path / "a.nc", Reading(max_memory=0.1 * size, coarsen=False))
    assert mapped(data.fields["u"]) is not None
    assert mapped(whole.fields["u"]) is None
    np.testing.assert_array_equal(data.fields["u"], whole.fields["u"])
    assert not any("more densely" in note for note in notes)
    with pytest.raises(ValueError, match="read-only"):
        data.fields["u"][0, 0] = 1.0
    monkeypatch.setattr(slabs, "_ROOM", 0.0)
    with refuses("set TMPDIR"):
        read(tmp_path / "a.nc", Reading(max_memory=0.1 * size, coarsen=False))


def test_white_noise_is_no_signal():
    """The share that is lost of white noise alone is nothing, at every level."""
    from bvsi.app.readers.oversampling import lost_share, spectrum

    for seed in range(5):
        lines = np.random.default_rng(seed).normal(size=(6000, 512))
        found = spectrum(lines, True, 1.0)
        assert [lost_share(found, levels) for levels in range(1, 5)] == [0.0] * 4


def test_ends_of_bounded_axes_are_not_lost_where_a_condition_holds_there(tmp_path):
    ds = large(n_y=128)
    ds.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    size = ds["u"].nbytes
    y = read(tmp_path / "a.nc").geometry.axes["y"]
    assert (y[0], y[-1], y.size) == (0, 3, 128)
    _, notes = read_with_notes(tmp_path / "a.nc", Reading(max_memory=0.02 * size))
    assert any("y from 128 to" in note and "in [0." in note for note in notes)  # and says where it begins now
    with refuses("a boundary condition holds at its ends"):
        read(tmp_path / "a.nc", Reading(max_memory=0.02 * size, keep_ends=True))
