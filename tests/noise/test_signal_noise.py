"""Noise that grows with the signal: what is known of the filters is used, and data are looked at in parts."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.noise import estimate_noise, estimate_signal_noise
from bvsi.noise import level as noise_level
from bvsi.noise import signal as signal_noise
from bvsi.noise.signal import smoothed

T = np.linspace(0, 1, 40)
GRID = Grid(x=np.arange(50) / 50, y=np.linspace(0, 1, 12), periodic="x")


def data():
    rng = np.random.default_rng(0)
    x, y = GRID.points.T
    u = 1.2 + np.sin(2 * np.pi * (x - T[:, None])) * np.cos(y)
    return Data.from_arrays({"u": u * (1 + 0.1 * rng.standard_normal(u.shape))}, times=T, geometry=GRID)


def test_a_level_of_the_same_data_saves_the_search_for_a_filter():
    found, given = estimate_signal_noise(data())["u"], estimate_signal_noise(data(), estimate_noise(data()))["u"]
    assert found == given
    assert found.significant
    assert found.c == pytest.approx(0.1, rel=0.1)


def test_frames_smoothed_apart_are_the_same(monkeypatch):
    u = np.array(data().fields["u"])
    holes = np.where(np.random.default_rng(1).random(u.shape) < 0.2, np.nan, u)
    whole = smoothed(u, GRID), smoothed(holes, GRID), estimate_signal_noise(data())["u"]
    monkeypatch.setattr(signal_noise, "SLAB", 1)
    np.testing.assert_allclose(smoothed(u, GRID), whole[0], rtol=1e-12)
    np.testing.assert_allclose(smoothed(holes, GRID), whole[1], rtol=1e-12)
    assert estimate_signal_noise(data())["u"].c == pytest.approx(whole[2].c, rel=1e-9)


def test_every_other_time_tells_nearly_as_much(monkeypatch):
    monkeypatch.setattr(signal_noise, "MOST", data().fields["u"].size // 2)
    found = estimate_signal_noise(data())["u"]
    assert found.significant
    assert found.c == pytest.approx(0.1, rel=0.1)


def test_the_strength_of_the_signal_is_that_of_the_filter():
    u = data().fields["u"].reshape(T.size, *GRID.shape)
    filters = noise_level.cleanest_filters(u, GRID, T, "u", "D_t^2 × D_x^3 × D_y^3")
    matrices = [f.K for f in filters]
    s = signal_noise._strength(u, None, GRID, matrices, 2, 2)
    expected = smoothed(data().fields["u"], GRID).reshape(u.shape) ** 2
    for axis, K in enumerate(matrices):
        expected = noise_level.along(K.power(2), expected, axis)
    np.testing.assert_allclose(s, np.moveaxis(expected[::2], 0, -1).ravel(), rtol=1e-12)


@pytest.mark.parametrize("gaps", [False, True])
def test_low_places_beside_high_ones_have_the_variance_of_low_ones(gaps):
    """Counts under a moving peak: where the mean is a tenth of the highest the low-pass is far too high."""
    rng, x = np.random.default_rng(3), np.arange(60)
    mean = 0.5 + 60 * np.exp(-np.square((x - 20 - 12 * T[:, None]) / 5))
    counts = rng.poisson(mean).astype(float)
    there = rng.random(mean.shape) > 0.1 if gaps else np.ones(mean.shape, dtype=bool)
    measured = {"u": there} if gaps else None
    grid = Grid(x=x.astype(float))
    peak = Data(T, {"u": np.where(there, counts, 1e6)}, grid, measured=measured)
    low = (mean > 1) & (mean < 6)
    by_law = signal_noise.SignalNoise(b=1.0).of(peak)["u"][low].mean() / mean[low].mean()
    by_low_pass = smoothed(np.where(there, counts, np.nan), grid)[low].mean() / mean[low].mean()
    assert by_law == pytest.approx(1, abs=0.1)
    assert by_low_pass > 1.12


def test_laws_under_a_moving_peak_are_those_of_the_noise():
    """The low-pass mixes variances beside peaks: 10% of the signal had 12% less, and counts had terms of a and c."""
    x, y = np.meshgrid(np.linspace(0, 2, 48), np.linspace(0, 1, 24), indexing="ij")
    grid, times = Grid(x=x[:, 0], y=y[0]), np.linspace(0, 0.4, 31)
    place = np.square(x - 0.5 - times[:, None, None]) + np.square(y - 0.4)
    mean = 0.02 + np.exp(-place / 0.03) + 0.6 * np.exp(-(np.square(x - 1.4) + np.square(y - 0.6)) / 0.02)
    rng, u = np.random.default_rng(0), np.array([0.1, 0.3, 1.0])
    share = mean * (1 + 0.1 * rng.standard_normal(mean.shape)) + 0.002 * rng.standard_normal(mean.shape)
    found = estimate_signal_noise(Data(times, {"u": share.reshape(31, -1)}, grid))["u"]
    np.testing.assert_allclose(found.variance(u), np.square(0.1 * u) + 0.002**2, rtol=0.05)
    counts = rng.poisson(40 * mean).astype(float)
    found = estimate_signal_noise(Data(times, {"u": counts.reshape(31, -1)}, grid))["u"]
    np.testing.assert_allclose(found.variance(40 * u), 40 * u, rtol=0.05)


def test_a_share_of_the_signal_above_a_low_floor_is_not_taken_for_counts():
    """Variances that span three decades; whole scoring steps from a flat law ended at c = 0 in 4 of these 20."""
    grid, times = Grid(x=np.linspace(0, 2, 64), y=np.linspace(0, 1, 32)), T[:31]
    x, y = grid.points.T
    for seed in range(20):
        rng = np.random.default_rng(seed)
        u = 2 * np.exp(-((x - 0.6 - 0.5 * times[:, None]) ** 2 + (y - 0.4) ** 2) / 0.06 * rng.uniform(0.5, 2))
        noise = 0.05 * u * rng.standard_normal(u.shape) + 0.0025 * rng.standard_normal(u.shape)
        law = estimate_signal_noise(Data.from_arrays({"u": u + noise}, times=times, geometry=grid))["u"]
        assert (law.a, law.b, law.c) == (pytest.approx(0.0025, rel=0.05), 0.0, pytest.approx(0.05, rel=0.05))
