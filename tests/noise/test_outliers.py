"""Outliers are found, fronts and noise are not; gaps are filled."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.data import Data, Grid
from bvsi.data.smoothness import filled
from bvsi.errors import DataError
from bvsi.noise import NoiseLevel, add_noise, find_outliers
from bvsi.noise.faults import copied, saturated
from bvsi.noise.outliers import scattered_outliers
from data.triangle_meshes import triangles

T = np.linspace(0, 1, 60)
GRID = Grid(x=np.arange(200) / 200, periodic="x")
SIGMA = 0.02


def outlier_weights(values, *args, **options):
    """Weights and replaced values of one field."""
    return scattered_outliers(values, *args, **options).dense(values)


def wave():
    """A travelling front."""
    u = np.tanh(4 * np.sin(2 * np.pi * (GRID.points[:, 0] - 0.3 * T[:, None])))
    return Data.from_arrays({"u": u}, times=T, geometry=GRID)


def spiked(data, sigma, rng, fraction=0.01, size=20.0):
    """Noisy data with spikes of either sign, and where they are."""
    noisy = add_noise(data, sigma, rng)
    hit = {n: rng.random(u.shape) < fraction for n, u in data.fields.items()}
    spikes = {n: size * sigma * rng.choice([-1.0, 1.0], size=h.shape) * h for n, h in hit.items()}
    return noisy.with_fields({n: u + spikes[n] for n, u in noisy.fields.items()}), hit


@pytest.mark.parametrize("sigma", [1e-3, 2e-2, 0.2])
def test_spikes_are_found_and_nothing_else(sigma):
    data = wave()
    spoiled, hit = spiked(data, sigma, np.random.default_rng(0))
    found = find_outliers(spoiled)
    flagged = found.weights["u"] < 1
    assert flagged[hit["u"]].mean() > 0.99
    assert flagged[~hit["u"]].mean() < 1e-3
    assert found.count["u"] == flagged.sum()
    error = (found.replaced["u"] - data.fields["u"])[hit["u"]]
    assert np.sqrt(np.mean(error**2)) < 4 * sigma  # was 20
    assert np.array_equal(found.replaced["u"][~flagged], spoiled.fields["u"][~flagged])


def test_weights_are_students():
    spoiled, hit = spiked(wave(), SIGMA, np.random.default_rng(0))
    few = outlier_weights(spoiled.fields["u"], GRID, T, SIGMA, nu=1.0)[0]
    many = outlier_weights(spoiled.fields["u"], GRID, T, SIGMA, nu=8.0)[0]
    assert np.all(few <= many)
    assert few.max() == 1
    assert few.min() > 0
    # z of a spike of 20 σ is 20 / (1 … √2): the weight is (ν + z₀²) / (ν + z²).
    assert 21.25 / 401 < np.median(few[hit["u"]]) < 21.25 / 201


@pytest.mark.parametrize("width", [1e-9, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("speed", [0.0, 0.3, 0.9, 1.7])
def test_clean_fronts_are_not_flagged(width, speed):
    x, times = np.arange(100.0), np.arange(60.0)
    u = np.tanh((x - 20.3 - speed * times[:, None]) / width)
    data = Data.from_arrays({"u": u}, times=times, geometry=Grid(x=x))
    assert find_outliers(data).count["u"] == 0
    noisy = add_noise(data, 1e-3, np.random.default_rng(0))
    assert find_outliers(noisy).count["u"] <= 3


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0])
def test_noise_is_not_flagged(sigma):
    noisy = add_noise(wave(), sigma, np.random.default_rng(3))
    assert find_outliers(noisy).count["u"] <= 2


def test_a_single_spike_in_clean_data():
    u = np.array(wave().fields["u"])
    exact = u[30, 17]
    u[30, 17] += 0.5
    weights, replaced = outlier_weights(u, GRID, T)
    assert np.argwhere(weights < 1).tolist() == [[30, 17]]
    assert replaced[30, 17] == pytest.approx(exact, abs=0.01)


def test_spikes_at_ends_and_corners():
    grid = Grid(x=np.linspace(0, 1, 50))
    rng = np.random.default_rng(0)
    u = np.sin(3 * grid.points[:, 0] - T[:, None]) + 0.01 * rng.standard_normal((T.size, 50))
    places = [(0, 0), (0, 25), (T.size - 1, 49), (30, 0), (30, 49), (T.size - 1, 10)]
    for place in places:
        u[place] += 0.3
    weights, _ = outlier_weights(u, grid, T)
    assert {tuple(p) for p in np.argwhere(weights < 1).tolist()} == set(places)


def test_mesh():
    mesh, times = triangles(25), np.linspace(0, 1, 20)
    x, y = mesh.points.T
    u = np.sin(4 * (x - 0.5 * times[:, None])) * np.cos(3 * y)
    data = Data.from_arrays({"u": u}, times=times, geometry=mesh)
    assert find_outliers(data).count["u"] == 0
    spoiled, hit = spiked(data, SIGMA, np.random.default_rng(0))
    flagged = find_outliers(spoiled).weights["u"] < 1
    assert flagged[hit["u"]].mean() > 0.98
    assert flagged[~hit["u"]].mean() < 1e-3


def test_missing_values_get_no_weight_and_are_filled():
    rng = np.random.default_rng(0)
    spoiled, hit = spiked(wave(), SIGMA, rng)
    gaps = rng.random(hit["u"].shape) < 0.05
    weights, replaced = outlier_weights(np.where(gaps, np.nan, spoiled.fields["u"]), GRID, T)
    assert np.all(weights[gaps] == 0)
    assert np.all(np.isfinite(replaced))
    assert (weights < 1)[hit["u"]].mean() > 0.99
    assert (weights < 1)[~hit["u"] & ~gaps].mean() < 1e-3
    error = (replaced - wave().fields["u"])[gaps]
    assert np.sqrt(np.mean(error**2)) < 1.5 * SIGMA


def test_level_and_nu_are_checked():
    data = wave()
    with pytest.raises(DataError, match="nu is 0"):
        find_outliers(data, nu=0)
    with pytest.raises(DataError, match="level has no noise of field 'u'"):
        find_outliers(data, level=NoiseLevel({"v": 1.0}, {"v": 0.1}, {"v": ""}))
    given = find_outliers(add_noise(data, SIGMA, np.random.default_rng(0)), level=NoiseLevel({"u": 1.0}, {}, {}))
    assert given.count["u"] == 0


def test_filling_converges_with_order_four_for_single_gaps():
    errors = []
    for n in (40, 80):
        grid = Grid(x=np.arange(n) / n, periodic="x")
        times = np.linspace(0, 1, n)
        u = np.sin(2 * np.pi * grid.points[:, 0] - times[:, None])
        holes = np.array(u)
        holes[3:-3:6, 3::8] = np.nan
        errors.append(np.abs(filled(holes, grid, times) - u).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.4)


def test_filling_is_exact_for_linear_data_however_wide_the_gap():
    grid, times = Grid(x=np.linspace(0, 1, 20), y=np.linspace(0, 2, 15) ** 1.2), np.linspace(0, 1, 8) ** 1.5
    x, y = grid.points.T
    u = 1 + 2 * x - y + 3 * times[:, None]
    holes = u.reshape(8, 20, 15).copy()
    holes[2:5, 4:12, 3:9] = np.nan
    assert np.allclose(filled(holes.reshape(8, -1), grid, times), u, atol=1e-5)


def test_filling_on_a_mesh():
    mesh, times = triangles(12), np.linspace(0, 1, 6)
    u = mesh.points @ [1.0, -2.0] + times[:, None]
    holes = np.where(np.random.default_rng(0).random(u.shape) < 0.2, np.nan, u)
    assert np.allclose(filled(holes, mesh, times), u, atol=1e-6)


def test_filling_far_from_data_keeps_near_values_and_present_ones():
    grid = Grid(x=np.arange(6.0))
    holes = np.full((4, 6), np.nan)
    holes[:, 0] = 3.0
    assert np.allclose(filled(holes, grid, np.arange(4.0)), 3.0)
    full = np.arange(24.0).reshape(4, 6)
    out = filled(full, grid, np.arange(4.0))
    assert np.array_equal(out, full)
    assert not np.shares_memory(out, full)
    with pytest.raises(DataError, match="all values are missing"):
        filled(np.full((4, 6), np.nan), grid, np.arange(4.0))


@pytest.mark.parametrize("shape", [[(0, 0), (1, 0), (2, -1)], [(0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]])
def test_outliers_side_by_side_do_not_hide_one_another(shape):
    data = wave()
    noisy, rng = add_noise(data, SIGMA, np.random.default_rng(1)), np.random.default_rng(2)
    u, hit = np.array(noisy.fields["u"]), np.zeros((60, 200), dtype=bool)
    for start in ((5, 20), (20, 95), (40, 160), (56, 60)):
        for i, j in shape:
            hit[start[0] + i, start[1] + j] = True
    u[hit] += SIGMA * rng.uniform(50, 400, hit.sum()) * rng.choice([-1, 1], hit.sum())
    found = find_outliers(noisy.with_fields({"u": u}))
    flagged = found.weights["u"] < 1
    assert flagged[hit].all()
    assert flagged[~hit].mean() < 1e-3


def test_a_narrow_peak_that_spreads_is_no_outlier():
    # as densities are that start narrow: Gaussians of 1.6 to 12 nodes
    x, t = GRID.points[:, 0], np.arange(40)[:, None]
    width = 0.008 * np.sqrt(1 + 1.5 * t)
    u = np.exp(-((x - 0.5 - 0.002 * t) ** 2) / (2 * width**2)) / width
    data = Data.from_arrays({"u": u}, times=np.linspace(0, 1, 40), geometry=GRID)
    spoiled, hit = spiked(data, 0.05, np.random.default_rng(0), size=60.0)
    flagged = find_outliers(spoiled).weights["u"] < 1
    assert flagged[hit["u"]].mean() > 0.9
    peak = u > 0.3 * u.max(axis=1, keepdims=True)
    assert not flagged[peak & ~hit["u"]].any()


def test_large_frames_in_strips_and_files_give_the_same_outliers(tmp_path, monkeypatch):
    rng = np.random.default_rng(7)
    grid, times = Grid(x=np.arange(40) * 0.1, y=np.arange(15) * 0.1), np.arange(12) * 0.1
    u = np.sin(grid.points.sum(axis=1) + times[:, None]) + 0.1 * rng.standard_normal((12, 600))
    u[[4, 7, 7, 11], [303, 0, 1, 599]] += 9.0  # two of them side by side
    whole = scattered_outliers(u, grid, times, 0.1)
    u.tofile(tmp_path / "u")
    monkeypatch.setattr("bvsi.noise.outliers._AT_ONCE", 60)
    mapped = np.memmap(tmp_path / "u", dtype=float, mode="r", shape=u.shape)
    found = scattered_outliers(mapped, grid, times, 0.1)
    assert {4 * 600 + 303, 7 * 600, 7 * 600 + 1, 11 * 600 + 599} <= set(whole.outliers)
    np.testing.assert_array_equal(found.outliers, whole.outliers)
    np.testing.assert_allclose(found.weights, whole.weights)


def rounded(values, step):
    """On a lattice."""
    return values if step is None else step * np.round(values / step)


@pytest.mark.parametrize("step", [None, SIGMA, SIGMA / 10])
def test_values_at_a_limit_of_the_camera_are_found_and_nothing_else(step):
    u = rounded(add_noise(wave(), SIGMA, np.random.default_rng(0)).fields["u"], step)
    low, high = rounded(np.array([-0.9, 0.8]), step)
    assert_array_equal(saturated(np.minimum(u, high), SIGMA), u >= high)
    assert_array_equal(saturated(np.maximum(u, low), SIGMA), u <= low)
    assert_array_equal(saturated(np.clip(u, low, high), SIGMA), (u <= low) | (u >= high))
    gap = np.where(np.arange(u.shape[1]) < 20, np.nan, np.minimum(u, high))
    assert_array_equal(saturated(gap, SIGMA), (u >= high) & np.isfinite(gap))
    assert saturated(u, SIGMA) is None


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_frames_that_repeat_others_or_lie_between_them_are_found_and_nothing_else(precision):
    u = add_noise(wave(), SIGMA, np.random.default_rng(0)).fields["u"].astype(precision)
    frames, times = np.arange(len(u)), np.arange(3 * len(u) - 2) / 3
    assert not copied(u).any()
    assert_array_equal(copied(np.repeat(u, 3, axis=0)), np.arange(3 * len(u)) % 3 > 0)
    between = np.array([np.interp(times, frames, column) for column in u.T]).T.astype(precision)
    assert_array_equal(copied(between), np.arange(len(times)) % 3 > 0)
    once = np.insert(u, 7, u[6], axis=0)
    assert_array_equal(np.flatnonzero(copied(once)), [7])
    once[:, :20] = np.nan
    assert_array_equal(np.flatnonzero(copied(once)), [7])
    assert not copied(np.repeat(u, 2, axis=0)[:, :8]).any()  # few nodes may agree by chance
    assert not copied(np.zeros((5, 64))).any()


def test_what_is_equal_for_other_reasons_is_not_saturated():
    u = add_noise(wave(), SIGMA, np.random.default_rng(0)).fields["u"]
    assert saturated(np.maximum(u, 0.0), SIGMA) is None  # fields that vanish, and counts
    wall = u.copy()
    wall[:, [0, -1]] = 2.0  # a boundary value
    assert saturated(wall, SIGMA) is None
    assert saturated(np.round(u), SIGMA) is None  # coarse: the noise does not spread the plateaus
    assert saturated(np.clip(u, -0.9, 0.8), 0.0) is None
    counts = np.random.default_rng(0).poisson(3.0 + 2 * u).astype(float)
    assert saturated(counts, float(np.sqrt(3.0))) is None
