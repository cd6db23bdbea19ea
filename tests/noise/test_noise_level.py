"""Noise measured from data: filters, levels, signal-dependent noise, smoothing."""

from pathlib import Path

import numpy as np
import pytest
import scipy.io

from bvsi.data import Data, Grid
from bvsi.data.smoothness import along, difference_filter, graph_filter
from bvsi.errors import DataError
from bvsi.noise import add_noise, estimate_noise, estimate_signal_noise
from bvsi.noise.level import _difference_axis_filter, field_noise, in_space, median_of, times_last
from bvsi.noise.signal import smoothed
from data.triangle_meshes import triangles

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
T = np.linspace(0, 1, 60)


def wave(grid, times=T):
    """A travelling front with periodic ends."""
    x = grid.points[:, 0]
    return Data.from_arrays(
        {"u": 1.5 + np.tanh(4 * np.sin(2 * np.pi * (x - 0.3 * times[:, None])))}, times=times, geometry=grid
    )


def periodic_grid(n=100):
    return Grid(x=np.arange(n) / n, periodic="x")


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("uneven", [False, True])
def test_differences_remove_polynomials_and_keep_white_noise(order, uneven):
    x = np.linspace(-1, 1, 21) ** (3 if uneven else 1) + np.linspace(-1, 1, 21)
    K = difference_filter(x, order)
    assert K.shape == (21 - order, 21)
    assert np.allclose(K.power(2).sum(axis=1), 1)
    powers = x[:, None] ** np.arange(order + 1)
    assert np.abs(K @ powers[:, :order]).max() < 1e-12
    assert np.abs(K @ powers[:, order]).min() > 1e-9


def test_differences_wrap_on_a_periodic_axis():
    x = np.arange(12) / 12
    K = difference_filter(x, 2, period=1.0).toarray()
    assert K.shape == (12, 12)
    assert np.allclose(K, np.roll(np.roll(K, 1, axis=0), 1, axis=1))


@pytest.mark.parametrize("order", [0, 1, 3, 8])
@pytest.mark.parametrize("period", [None, 2.5])
def test_correlations_of_filtered_values(order, period):
    x = np.linspace(0, 1, 24) ** 1.3 + np.linspace(0, 1, 24)
    found = _difference_axis_filter("x", x, order, period)
    rho = (found.K @ found.K.T).toarray()
    assert found.squares == pytest.approx(np.sum(rho**2) / len(rho), rel=1e-12)
    assert found.fourths == pytest.approx(np.sum(rho**4) / len(rho), rel=1e-12)


def test_filters_in_space_act_on_one_axis_after_the_other():
    u = np.random.default_rng(0).standard_normal((3, 12, 11, 10))
    matrices = [difference_filter(np.arange(float(n)), order) for n, order in ((12, 2), (11, 0), (10, 3))]
    expected = u
    for axis, K in enumerate(matrices, start=1):
        expected = along(K, expected, axis)
    np.testing.assert_allclose(in_space(matrices, times_last(u)), np.moveaxis(expected, 0, -1), atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 30_000, 30_001])
def test_median(n):
    f = np.random.default_rng(n).standard_normal(n)
    assert median_of(f.copy()) == np.median(f)


def test_graph_filter_removes_linear_functions():
    mesh = triangles(9)
    D = graph_filter(mesh)
    norm = np.sqrt(D.power(2).sum(axis=1))
    assert np.abs(D @ (1 + mesh.points @ [2.0, -3.0])).max() < 1e-12
    assert np.all(np.isclose(norm, 1) | (norm == 0))
    assert np.sum(norm == 0) <= 4  # corners at most
    assert np.abs(D @ (mesh.points**2).sum(axis=1))[norm > 0].max() > 1e-4


@pytest.mark.parametrize("sigma", [1e-3, 1e-2, 1e-1, 1.0])
def test_level_is_within_its_error(sigma):
    data = wave(periodic_grid(200))
    z = []
    for seed in range(6):
        level = estimate_noise(add_noise(data, sigma, np.random.default_rng(seed)))
        assert abs(level.sigma["u"] / sigma - 1) < 0.05
        z.append((level.sigma["u"] / sigma - 1) / level.relative_error["u"])
    assert abs(np.mean(z)) < 1.5
    assert np.sqrt(np.mean(np.square(z))) < 2.0


def test_clean_data_have_almost_no_noise():
    assert estimate_noise(wave(periodic_grid(200))).sigma["u"] < 1e-6


def test_uneven_spacing_in_space_and_time():
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(0.5, 1.5, 30))
    grid = Grid(x=np.linspace(0, 1, 40) ** 1.5, y=np.linspace(0, 1, 30))
    x, y = grid.points.T
    u = np.sin(3 * x + y - 0.1 * times[:, None]) * np.exp(y)
    data = Data.from_arrays({"u": u}, times=times, geometry=grid)
    assert estimate_noise(add_noise(data, 0.02, rng)).sigma["u"] == pytest.approx(0.02, rel=0.04)


@pytest.mark.parametrize("n_times", [3, 25])
def test_mesh(n_times):
    mesh = triangles(25)
    times = np.linspace(0, 1, n_times)
    x, y = mesh.points.T
    u = np.sin(4 * (x - 0.5 * times[:, None])) * np.cos(3 * y)
    data = Data.from_arrays({"u": u}, times=times, geometry=mesh)
    level = estimate_noise(add_noise(data, 0.02, np.random.default_rng(0)))
    assert level.sigma["u"] == pytest.approx(0.02, rel=0.1 if n_times == 3 else 0.04)
    assert estimate_noise(data).sigma["u"] < 1e-3


def test_fields_are_measured_apart_and_scale():
    grid = periodic_grid()
    u = wave(grid).fields["u"]
    data = Data.from_arrays({"a": u, "b": u}, times=T, geometry=grid)
    noisy = add_noise(data, {"a": 0.01, "b": 0.1}, np.random.default_rng(0))
    level = estimate_noise(noisy)
    assert level.sigma["a"] == pytest.approx(0.01, rel=0.05)
    assert level.sigma["b"] == pytest.approx(0.1, rel=0.05)
    scaled = estimate_noise(noisy.with_fields({n: 1e6 * v for n, v in noisy.fields.items()}))
    assert scaled.sigma["a"] == pytest.approx(1e6 * level.sigma["a"])
    assert set(level.filters) == {"a", "b"}
    assert "D_" in level.filters["a"]


def test_outliers_and_missing_values_hardly_matter():
    grid, rng = periodic_grid(), np.random.default_rng(0)
    u = np.array(add_noise(wave(grid), 0.02, rng).fields["u"])
    u[rng.random(u.shape) < 0.01] += 3.0
    u[rng.random(u.shape) < 0.05] = np.nan
    assert field_noise(u, grid, T) == pytest.approx(0.02, rel=0.08)


def test_scattered_gaps_leave_the_level_what_it_is():
    """Few values are left behind high orders: the lowest of many estimates is low by chance, with a large error."""
    found = []
    for seed in range(110, 150):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((41, 64))
        values[rng.random(values.shape) < 0.05] = np.nan
        data = Data.from_arrays({"u": values}, times=np.arange(41.0), geometry=periodic_grid(64), missing="nan")
        found.append(estimate_noise(data).sigma["u"])
    assert min(found) > 0.9
    assert max(found) < 1.1


def test_constant_field_has_no_noise():
    data = Data.from_arrays({"u": np.full((6, 20), 3.0)}, times=np.arange(6.0), geometry=periodic_grid(20))
    assert estimate_noise(data).sigma["u"] == 0
    assert not estimate_signal_noise(data)["u"].significant


def test_too_few_values_are_refused():
    data = Data.from_arrays({"u": np.eye(3, 5)}, times=np.arange(3.0), geometry=Grid(x=np.arange(5.0)))
    with pytest.raises(DataError, match=r"'u' has too few values.*state the noise"):
        estimate_noise(data)


@pytest.mark.parametrize(("a", "b"), [(0.01, 0.03), (0.1, 0.1), (0.1, 0.2)])
def test_signal_dependent_noise(a, b):
    data = wave(periodic_grid(400), np.linspace(0, 1, 120))
    u = data.fields["u"] - 1.5
    noise = np.sqrt(a**2 + b**2 * u**2) * np.random.default_rng(0).standard_normal(u.shape)
    fit = estimate_signal_noise(data.with_fields({"u": u + noise}))["u"]
    assert fit.significant
    strengths = np.array([0.2, 0.6, 1.0])  # the range of the signal; beyond it a law with b and one with c differ
    assert np.sqrt(fit.variance(strengths)) == pytest.approx(np.hypot(a, b * strengths), rel=0.1)


@pytest.mark.parametrize("sigma", [0.01, 1.0])
def test_homoscedastic_noise_is_not_taken_for_signal_dependent(sigma):
    data = wave(periodic_grid(80), T[:41])
    fits = [estimate_signal_noise(add_noise(data, sigma, np.random.default_rng(k)))["u"] for k in range(60)]
    assert np.mean([fit.significant for fit in fits]) <= 0.05
    assert np.mean([fit.p_value < 0.5 for fit in fits]) > 0.15  # not blind either
    assert np.median([fit.a for fit in fits]) == pytest.approx(sigma, rel=0.05)


def test_smoothing_keeps_constants_and_lowers_noise():
    grid, rng = Grid(x=np.linspace(0, 1, 40)), np.random.default_rng(0)
    noise = rng.standard_normal((60, 40))
    data = Data.from_arrays({"u": 5 + noise}, times=T, geometry=grid)
    smooth = smoothed(data.fields["u"], data.geometry)
    assert smooth.shape == (60, 40)
    assert np.allclose(smoothed(np.ones((60, 40)), grid), 1)
    # Σ w² of the weights (1, 4, 6, 4, 1)/16 is 70/256 along each axis.
    assert np.std(smooth[2:-2, 2:-2]) == pytest.approx(70 / 256, rel=0.15)
    mesh = triangles(8)
    assert np.allclose(smoothed(np.ones((5, 64)), mesh), 1)
    holes = np.where(rng.random((60, 40)) < 0.2, np.nan, 7.0)
    assert np.allclose(smoothed(holes, grid), 7)


@pytest.mark.shared
@pytest.mark.parametrize(("file", "key", "time"), [("burgers", "usol", "t"), ("kdv", "usol", "t")])
def test_public_data(file, key, time):
    path = SHARED / f"{file}.mat"
    if not path.exists():
        pytest.skip("public data are absent")
    raw = scipy.io.loadmat(path)
    grid = Grid(x=raw["x"].ravel(), periodic="x")
    data = Data.from_arrays({"u": raw[key].real.T}, times=raw[time].ravel(), geometry=grid)
    rms = np.sqrt(np.mean(data.fields["u"] ** 2))
    for level, tolerance in ((1e-3, 0.1), (1e-2, 0.03), (0.1, 0.02), (1.0, 0.02)):
        noisy = add_noise(data, level * rms, np.random.default_rng(0))
        assert estimate_noise(noisy).sigma["u"] == pytest.approx(level * rms, rel=tolerance)
    assert estimate_noise(data).sigma["u"] < 1e-4 * rms


def test_a_level_that_is_hardly_known_does_not_agree_with_everything():
    """With scattered gaps long filters leave few values; the level of short ones, with signal in them, is far off."""
    data = wave(periodic_grid(96), np.linspace(0, 1, 61))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = data.fields["u"] + 0.02 * rng.standard_normal(data.fields["u"].shape)
        mask = rng.random(values.shape) > 0.053
        gaps = Data(data.times, {"u": values}, data.geometry, measured={"u": mask})
        assert estimate_noise(gaps).sigma["u"] == pytest.approx(0.02, rel=0.15)
