"""Noise that is blurred, counted or rounded, and replicates: each is measured for what it is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.ndimage import gaussian_filter1d

from bvsi.check.residual_tests import noise_tests
from bvsi.data import Data, Grid
from bvsi.errors import DataError, NoiseError
from bvsi.noise import (
    IID,
    Blurred,
    Covariance,
    Diagonal,
    PerField,
    SignalNoise,
    UnknownScale,
    estimate_noise,
    from_replicates,
)
from bvsi.noise.correlation import estimate_widths, neighbour_correlation, whiteness, without_blur
from bvsi.noise.level import lattice_step
from bvsi.noise.measurement import measure
from bvsi.residual.blur import Blur, correlation, kernel, spectral_density

GRID = Grid(x=np.arange(128) / 128, periodic="x")
T = np.linspace(0, 2, 81)
X = GRID.axes["x"]
CLEAN = 2 + np.sin(2 * np.pi * (X - 0.3 * T[:, None])) * np.exp(-0.3 * T[:, None])


def data(values: np.ndarray) -> Data:
    return Data.from_arrays({"u": values}, times=T, geometry=GRID)


def blurred(sigma: float, time: float, space: float, seed: int) -> np.ndarray:
    """Noise of a level, smoothed by Gaussians of so many frames and nodes."""
    noise = np.random.default_rng(seed).standard_normal((2 * T.size, X.size))
    noise = gaussian_filter1d(noise, time, axis=0) if time else noise
    noise = (gaussian_filter1d(noise, space, axis=1, mode="wrap") if space else noise)[20 : 20 + T.size]
    return sigma * noise / noise.std()


@pytest.mark.parametrize("width", [0.0, 0.4, 1.0, 2.5])
def test_a_kernel_twice_is_the_correlation(width):
    k = kernel(width, tail=1e-7)
    twice, m = np.convolve(k, k), len(k) - 1
    np.testing.assert_allclose(twice, correlation(width, np.arange(-m, m + 1)), atol=1e-5)
    f = np.linspace(0, 0.5, 7)
    waves = np.exp(2j * np.pi * np.outer(f, np.arange(-(m // 2), m // 2 + 1)))
    np.testing.assert_allclose(np.abs(waves @ k) ** 2, spectral_density(width, f), atol=1e-4)


@pytest.mark.parametrize(("time", "space"), [(0.0, 1.0), (1.5, 0.0), (1.2, 1.2), (0.0, 2.0)])
def test_widths_and_level_of_blurred_noise_are_measured(time, space):
    noisy = data(CLEAN + blurred(0.1, time, space, 3))
    blur = Blur.of(noisy, estimate_widths(noisy))
    assert blur is not None
    assert blur.widths == pytest.approx({"time": time, "x": space}, rel=0.12)
    assert estimate_noise(noisy, blur=blur).sigma["u"] == pytest.approx(0.1, rel=0.12)
    found = measure(noisy, None)
    assert isinstance(found.noise, Blurred)
    assert "noise is blurred over" in found.summary
    assert max(found.band.values()) < 0.05  # the signal has one wave in 128 nodes


def test_white_noise_and_smooth_signals_have_no_kernel():
    assert estimate_widths(data(CLEAN)) == {}
    for seed in range(5):
        assert estimate_widths(data(CLEAN + blurred(0.1, 0, 0, seed))) == {}


def test_short_records_of_blurred_noise_have_a_kernel_and_what_is_left_of_a_signal_has_none():
    t, x = np.linspace(0, 2, 61), np.arange(96) / 96
    grid = Grid(x=x, periodic="x")
    waves = sum(
        np.cos(2 * np.pi * k * (x - 0.16 * t[:, None]) + k) * np.exp(-0.08 * k**2 * t[:, None]) for k in range(1, 6)
    )
    assert estimate_widths(Data.from_arrays({"u": waves}, times=t, geometry=grid)) == {}
    for seed in range(6):
        noise = np.random.default_rng(seed).standard_normal((61, 96))
        noise = gaussian_filter1d(gaussian_filter1d(noise, 1.5, axis=0), 1.5, axis=1, mode="wrap")
        noisy = Data.from_arrays({"u": waves + 0.05 * noise / noise.std()}, times=t, geometry=grid)
        blur = Blur.of(noisy, estimate_widths(noisy))
        assert blur is not None
        assert blur.widths == pytest.approx({"time": 1.5, "x": 1.5}, rel=0.25)


def test_fronts_that_filters_leave_at_a_few_places_do_not_hide_a_kernel():
    """The fourth had no kernel while mean squares, not medians, of what filters leave were compared between places."""
    t, x = np.linspace(0, 2, 61), np.arange(96) / 96
    front = np.exp(-np.square((x - 0.3 - 0.05 * t[:, None]) / 0.04))
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal((61, 96))
        noise = gaussian_filter1d(gaussian_filter1d(noise, 1.5, axis=0), 1.5, axis=1, mode="wrap")
        noisy = Data.from_arrays({"u": front + 0.02 * noise / noise.std()}, times=t, geometry=Grid(x=x, periodic="x"))
        blur = Blur.of(noisy, estimate_widths(noisy))
        assert blur is not None
        assert blur.widths == pytest.approx({"time": 1.5, "x": 1.5}, rel=0.15)


def test_blurred_noise_is_as_the_model_says():
    noisy = data(CLEAN + blurred(0.1, 0, 1.0, 0))
    right, white = Blurred(IID(0.1), {"x": 1 / 128}), IID(0.1)
    for model, agrees in ((right, True), (white, False)):
        tests = whiteness(noisy.fields["u"], noisy, neighbour_correlation(model, noisy))
        assert (min(t.p for t in tests) > 1e-3) == agrees
    matrix = correlation(1.0, np.abs((np.arange(128)[:, None] - np.arange(128) + 64) % 128 - 64))
    same = neighbour_correlation(Covariance(np.where(matrix > 1e-9, 0.01 * matrix, 0)), noisy)
    assert same == pytest.approx(neighbour_correlation(right, noisy), abs=1e-9)


def test_widths_have_units_so_that_fewer_nodes_have_narrower_kernels():
    model = Blurred(Diagonal({"u": np.ones((81, 128))}), {"x": 2 / 128, "time": 0.05})
    few = model.at(slice(None, None, 2), np.arange(128) % 2 == 0)
    coarse = Data.from_arrays({"u": CLEAN[::2, ::2]}, times=T[::2], geometry=Grid(x=X[::2], periodic="x"))
    assert np.shape(few.level.sigma["u"]) == (41, 64)
    assert Blur.of(coarse, few.widths).widths == pytest.approx({"time": 1.0, "x": 1.0})
    assert without_blur(UnknownScale(Blurred(IID(1.0), {"x": 0.1}))) == UnknownScale(IID(1.0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Blurred(Covariance(np.eye(3)), {"x": 1.0}), "level: IID"),
        (lambda: Blurred(IID(1.0), {"x": -1.0}), "widths: positive numbers by axis"),
        (lambda: Blurred(IID(1.0), {"x": 0.1, "time": 0.0}), "axes without blur left out"),
        (lambda: Blurred(IID(1.0), {"x": "wide"}), "widths: positive numbers by axis"),
        (lambda: Blurred(IID(1.0), {}), "widths: positive numbers by axis"),
        (lambda: SignalNoise(b=-1.0), "numbers of at least zero"),
        (lambda: SignalNoise(b=1.0).covariance(None), "needs the data"),
    ],
)
def test_models_that_make_no_sense_are_refused(make, words):
    with pytest.raises(NoiseError, match=words):
        make()


@pytest.mark.parametrize("counts", [5, 50])
def test_counts_have_the_variance_of_their_mean(counts):
    noisy = data(np.random.default_rng(0).poisson(counts * CLEAN).astype(float))
    found = measure(noisy, None)
    assert "noise grows with the signal" in found.summary
    assert np.sqrt(np.mean(found.variance["u"])) == pytest.approx(np.sqrt(counts * CLEAN.mean()), rel=0.05)
    ratio = found.variance["u"] / (counts * CLEAN)
    assert np.std(np.sqrt(ratio)) < 0.2
    stated = measure(noisy, SignalNoise(b=1.0))
    assert isinstance(stated.noise, Diagonal)
    assert np.mean(stated.variance["u"] / (counts * CLEAN)) == pytest.approx(1, abs=0.03)


def test_a_signal_is_never_taken_from_the_noisy_value():
    """The variance of a value may hang on its own noise by its share in the mean over neighbours alone."""
    noise = np.random.default_rng(0).standard_normal(CLEAN.shape)
    variance = SignalNoise(c=0.2).of(data(CLEAN * (1 + 0.2 * noise)))["u"] / (0.2 * CLEAN) ** 2
    assert np.corrcoef(variance.ravel(), noise.ravel())[0, 1] < 0.6  # that of (û)² is 0.97
    assert np.mean(variance) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("levels", [0.3, 0.5, 1.04, 3.0])
def test_the_noise_of_rounded_values_includes_that_of_rounding(levels):
    for offset in (0.0, 17.3):
        exact = offset + 30 * levels * CLEAN
        rounded = np.round(exact + levels * np.random.default_rng(1).standard_normal(CLEAN.shape))
        assert lattice_step(rounded) == pytest.approx(1)
        truth = np.sqrt(np.mean((rounded - exact) ** 2))
        assert truth == pytest.approx(np.hypot(levels, 1 / np.sqrt(12)), rel=0.06)
        assert estimate_noise(data(rounded)).sigma["u"] == pytest.approx(truth, rel=0.1)


def test_lattices_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(5000)
    assert lattice_step(values) is None
    for step in (0.01, 1 / 255, 16.0):
        assert lattice_step(step * np.round(10 * values)) == pytest.approx(step)
        assert lattice_step(np.float32(step) * np.round(10 * values).astype(np.float32)) == pytest.approx(
            step, rel=1e-4
        )
    assert lattice_step(np.round(values, 2) * np.pi) == pytest.approx(0.01 * np.pi)
    assert lattice_step(np.zeros(100)) is None


def test_replicates_give_a_mean_and_its_noise():
    rng = np.random.default_rng(0)
    sigma = 0.05 * CLEAN
    mean, noise = from_replicates([data(CLEAN + sigma * rng.standard_normal(CLEAN.shape)) for _ in range(4)])
    z = (mean.fields["u"] - CLEAN) / noise.sigma["u"]
    assert np.std(z) == pytest.approx(1, abs=0.06)
    assert np.corrcoef(noise.sigma["u"].ravel(), CLEAN.ravel())[0, 1] > 0.75
    with pytest.raises(DataError, match="at least two"):
        from_replicates([data(CLEAN)])
    with pytest.raises(DataError, match="copies"):
        from_replicates([data(CLEAN), data(CLEAN)])
    with pytest.raises(DataError, match="same fields, times and nodes"):
        from_replicates([data(CLEAN), Data.from_arrays({"u": CLEAN[1:]}, times=T[1:], geometry=GRID)])


@pytest.mark.parametrize("blurred", [False, True], ids=["white", "blurred in time"])
def test_waves_of_five_nodes_are_not_taken_for_noise_that_is_blurred_in_time(blurred):
    """Differences along x leave much of them, as even as noise and as correlated in time."""
    rng = np.random.default_rng(8)
    x, t = 2 * np.pi * np.arange(64) / 64, np.linspace(0, 1, 81)[:, None]
    wave = 0.0 if blurred else sum(np.cos(k * (x - 0.5 * t) + k) for k in (1, 3, 12))
    noise = rng.standard_normal((81, 64))
    noise = gaussian_filter1d(noise, 1.5, axis=0) if blurred else noise
    data = Data(t[:, 0], {"u": wave + 0.01 * noise}, Grid(x=x, periodic={"x": 2 * np.pi}))
    tests = whiteness(data.fields["u"], data)
    assert [one.axis for one in tests if one.p < 1e-5] == (["time"] if blurred else [])
    assert [one.axis for one in tests if np.isnan(one.p)] == ([] if blurred else ["time"])
    told = [str(one) for one in noise_tests([data], [IID(0.01)])]
    assert any("along time (u): could not be tested" in one for one in told) != blurred
    assert bool(estimate_widths(data)) == blurred


@pytest.mark.parametrize("blurred", [False, True], ids=["white", "blurred"])
def test_what_filters_leave_of_few_frames_is_no_correlation(blurred):
    """Pulses that move by their own width between six frames; noise that is blurred along x is told all the same."""
    rng = np.random.default_rng(5)
    x, t = np.arange(128) / 16, np.arange(6.0)[:, None]
    pulse = 0.0 if blurred else np.exp(-4 * np.sin(np.pi * (x - t) / 8) ** 2)
    noise = rng.standard_normal((6, 128))
    noise = gaussian_filter1d(noise, 1.5, axis=1, mode="wrap") if blurred else noise
    data = Data(t[:, 0], {"u": pulse + 0.01 * noise}, Grid(x=x, periodic={"x": 8.0}))
    told = {one.axis: one.p for one in whiteness(data.fields["u"], data)}
    assert told["x"] < 1e-5 if blurred else np.isnan(told["x"])
    assert set(estimate_widths(data)) == ({"x"} if blurred else set())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Blurred(IID(0.1), {"q": 0.2}), "no axis 'q' to be blurred along; they have x, time"),
        (UnknownScale(Blurred(IID(1.0), {"x": 0.1, "t": 0.2})), "no axis 't' to be blurred along"),
        (Blurred(PerField({"w": 0.1}), {"x": 0.2}), "no field 'w'; they have u"),
        (PerField({"w": 0.1}), "no field 'w'; they have u"),
        (Diagonal({"w": np.ones(128)}), "no field 'w'; they have u"),
        (Covariance({"w": sparse.eye_array(128)}), "no field 'w'; they have u"),
        (0.01, "an instance of a noise model is needed"),
    ],
)
def test_models_of_other_axes_and_fields_are_refused(model, words):
    with pytest.raises(NoiseError, match=words):
        measure(data(CLEAN), model)
