"""Noise of an experiment: as stated, as filters measure it, growing with the signal, with outliers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.errors import NoiseError
from bvsi.noise import IID, Covariance, Diagonal, PerField, UnknownScale, estimate_noise
from bvsi.noise.measurement import cycles_of, measure, measure_all, stated_variance
from bvsi.operators import Library
from bvsi.residual.widths import bandwidth, choose_tests
from discovery.exact_cases import burgers, noisy, rotation

SIGMA = 0.01


@pytest.fixture(scope="module")
def data() -> Data:
    return noisy(burgers(64, 61), SIGMA)


def spiked(data: Data, count: int = 30, size: float = 0.3) -> tuple[Data, np.ndarray]:
    """Some values far off, and which."""
    rng = np.random.default_rng(5)
    u = data.fields["u"].copy()
    hit = rng.choice(u.size, count, replace=False)
    u.ravel()[hit] += size * rng.choice([-1.0, 1.0], count)
    return data.with_fields({"u": u}), hit


def test_noise_that_is_stated_is_taken(data):
    found = measure(data, IID(0.02))
    assert found.noise == IID(0.02)
    assert found.sigma == {"u": 0.02}
    assert found.error == 0
    assert_allclose(found.variance["u"], 4e-4, rtol=1e-12)
    assert found.summary == "as stated, IID(sigma=0.02)"
    assert_allclose(found.filtered["u"], SIGMA, rtol=0.1)  # filters know better
    assert found.data is data


def test_noise_that_is_not_stated_is_measured_with_its_error():
    pulls = []
    for seed in range(5):
        found = measure(noisy(rotation(32, 61), SIGMA, seed), None)
        assert isinstance(found.noise, PerField)
        assert set(found.sigma) == {"u", "v"}
        assert 0 < found.error < 0.1
        assert found.filtered == found.sigma
        assert "by filters" in found.summary
        pulls += [(s / SIGMA - 1) / found.error for s in found.sigma.values()]
    assert np.abs(pulls).max() < 4
    assert np.abs(pulls).max() > 0.1


def test_fields_have_levels_of_their_own():
    data = rotation(32, 61)
    rng = np.random.default_rng(0)
    levels = {"u": 0.003, "v": 0.03}
    found = measure(
        data.with_fields({f: u + levels[f] * rng.standard_normal(u.shape) for f, u in data.fields.items()}), None
    )
    for field, level in levels.items():
        assert_allclose(found.sigma[field], level, rtol=0.15)
        assert_allclose(np.sqrt(found.variance[field]), level, rtol=0.15)


def test_noise_that_grows_with_the_signal_is_seen():
    data = burgers(64, 81)
    clean = 1 + 2 * data.fields["u"]
    rng = np.random.default_rng(1)
    grown = data.with_fields({"u": clean + np.abs(clean) * 0.02 * rng.standard_normal(clean.shape)})
    found = measure(grown, None)
    assert "grows with the signal" in found.summary
    assert isinstance(found.noise, Diagonal)
    assert found.variance["u"].shape == clean.shape
    assert np.corrcoef(found.variance["u"].ravel(), clean.ravel() ** 2)[0, 1] > 0.95
    assert_allclose(np.mean(found.variance["u"]), np.mean((0.02 * clean) ** 2), rtol=0.15)
    even = measure(data.with_fields({"u": clean + 0.02 * rng.standard_normal(clean.shape)}), None)
    assert "grows" not in even.summary


def test_noise_that_grows_with_the_signal_is_finite_inside_holes():
    """The smoothed signal has nothing to stand on there; a NaN would be refused as an operator that is not finite."""
    clean = burgers(96, 81)
    rng = np.random.default_rng(0)
    u = 1 + clean.fields["u"]
    mask = np.ones(u.shape, dtype=bool)
    mask[20:40, 30:50] = False
    values = u * (1 + 0.02 * rng.standard_normal(u.shape))
    data = Data(clean.times, {"u": values}, clean.geometry, measured={"u": mask})
    found = measure(data, None)
    assert "grows with the signal" in found.summary
    assert np.all(np.isfinite(found.variance["u"]))
    assert discover(data, Library({"u": ["laplacian(u)", "u*dx(u)", "dx(u)"]}), check=False).names


@pytest.mark.parametrize("noise", [None, IID(SIGMA)], ids=["measured", "stated"])
def test_outliers_are_replaced_and_count_as_missing(data, noise):
    wrong, hit = spiked(data)
    found = measure(wrong, noise)
    assert "30 outliers are replaced, and count as missing" in found.summary
    assert isinstance(found.noise, Diagonal)
    variance = found.variance["u"].ravel()
    others = np.setdiff1d(np.arange(variance.size), hit)
    part = len(hit) / variance.size
    assert variance[hit].min() >= (2 - part) / (1 - part) * np.median(variance[others]) * (1 - 1e-9)
    assert found.bridged["u"].ravel()[hit].all()
    assert not found.observed.measured["u"].ravel()[hit].any()
    assert_allclose(np.sqrt(np.median(variance[others])), SIGMA, rtol=0.1)
    moved = np.abs(found.data.fields["u"] - burgers(64, 61).fields["u"]).ravel()[hit]
    assert np.median(moved) < 0.05  # they were off by 0.3


def test_robust_decides_on_outliers(data):
    wrong, _ = spiked(data)
    assert measure(wrong, IID(SIGMA), robust=False).noise == IID(SIGMA)
    assert measure(wrong, IID(SIGMA), robust=False).data is wrong
    few, _ = spiked(data, count=1)
    assert "1 outliers" in measure(few, IID(SIGMA)).summary  # 30 sd, which noise never reaches
    u = np.array(data.fields["u"])
    u[30, 30] = burgers(64, 61).fields["u"][30, 30] + 7.5 * SIGMA
    small = data.with_fields({"u": u})
    assert "outliers" not in measure(small, IID(SIGMA)).summary  # no more than the tail of noise
    assert "1 outliers" in measure(small, IID(SIGMA), robust=True).summary
    assert measure(data, IID(SIGMA)).data is data


def test_correlated_noise_cannot_be_weighted_down(data):
    wrong, _ = spiked(data)
    model = Covariance(SIGMA**2 * np.eye(64))
    left = measure(wrong, model)
    assert left.data is wrong
    assert left.noise is model
    with pytest.raises(NoiseError, match="IID, PerField, Diagonal"):
        measure(wrong, model, robust=True)


def test_too_few_data_leave_the_level_to_the_fit():
    grid = Grid(x=np.linspace(0, 1, 3))
    found = measure(Data([0, 1], {"u": np.ones((2, 3))}, grid), None)
    assert isinstance(found.noise, UnknownScale)
    assert found.variance == {}
    assert found.filtered == {}
    assert "too few" in found.summary


def test_data_without_noise_have_a_floor():
    """Values of one size are not known better than to rounding: the covariance stays positive."""
    found = measure(burgers(64, 61), None)
    size = np.sqrt(np.mean(burgers(64, 61).fields["u"] ** 2))
    assert found.sigma["u"] >= 1e-8 * size
    still = measure(Data(np.linspace(0, 1, 20), {"u": np.zeros((20, 30))}, Grid(x=np.linspace(0, 1, 30))), None)
    assert still.sigma["u"] > 0


def test_variances_of_simple_models():
    data = rotation(16, 12)
    assert_allclose(stated_variance(PerField({"u": 2.0, "v": 3.0}), data)["v"], 9)
    varying = np.random.default_rng(0).uniform(1, 2, (12, 16))
    assert_allclose(stated_variance(Diagonal({"u": varying, "v": varying}), data)["u"], varying**2)
    assert stated_variance(UnknownScale(), data) is None


def test_every_experiment_has_its_noise(data):
    both = measure_all([data, data], [IID(0.1), IID(0.2)], robust=None)
    assert [m.sigma["u"] for m in both] == [0.1, 0.2]
    assert [m.sigma["u"] for m in measure_all([data, data], IID(0.1), robust=None)] == [0.1, 0.1]
    with pytest.raises(NoiseError, match="1 models for 2 experiments"):
        measure_all([data, data], [IID(0.1)], robust=None)


def test_the_band_is_worked_out_once_and_sets_the_widths(data):
    measured = measure_all((data, data.subsample(2)), IID(1e-3), robust=None)
    bands = [bandwidth(m.data, m.sigma) for m in measured]
    cycles = cycles_of(measured)
    assert cycles == {axis: max(band[axis] for band in bands) for axis in bands[0]}
    assert measured[0].band is measured[0].band
    experiments, sigma = [m.data for m in measured], [m.sigma for m in measured]
    assert choose_tests(experiments, sigma, 2, cycles=cycles) == choose_tests(experiments, sigma, 2)


def test_how_noise_grows_with_the_signal_is_measured_once(data, monkeypatch):
    """The check takes what the measurement found; of stated noise it looks itself."""
    from bvsi.check.residual_tests import noise_tests

    found = measure(data, None)
    assert found.growth is not None
    assert measure(data, IID(SIGMA)).growth is None
    (own,) = (one for one in noise_tests([data], [found.noise]) if one.kind == "signal")
    assert own.statistic >= 0
    monkeypatch.setattr("bvsi.check.residual_tests.estimate_signal_noise", None)
    tests = noise_tests([data], [found.noise], growth=[found.growth])
    assert [one.p for one in tests if one.kind == "signal"] == [found.growth["u"].p_value]


def test_a_ridge_that_is_hardly_resolved_is_not_drawn_to_its_predictions():
    # as a density that starts narrow, across the axes, and is swept away within some frames
    x = np.arange(31.0)
    X, Y = np.meshgrid(x - 15, x - 15, indexing="ij")
    across, along = X + 0.6 * Y, 0.6 * X - Y
    t = np.arange(12)[:, None, None]
    u = np.exp(-1.7 * t - across**2 / 1.5 - along**2 / 40) + 0.3 * np.exp(-((X - t) ** 2 + Y**2) / 50)
    u += 1e-3 * np.random.default_rng(3).standard_normal(u.shape)
    u[6, [3, 20], [25, 4]] += 0.5
    given = Data.from_arrays({"u": u}, times=np.arange(12.0), geometry=Grid(x=x, y=x))
    found = measure(given, IID(1e-3))
    changed = np.argwhere((found.data.fields["u"] != given.fields["u"]).reshape(u.shape))
    assert "outliers" in found.summary
    assert {(6, 3, 25), (6, 20, 4)} <= set(map(tuple, changed.tolist()))
    assert not np.any(changed[:, 0] == 0)


def test_saturated_values_are_missing_and_the_equation_is_right():
    """Cut off at a limit that 7% of the values pass, Burgers' equation was wrong and called consistent."""
    whole = noisy(burgers(64, 61), SIGMA)
    limit = float(np.quantile(whole.fields["u"], 0.93))
    cut = whole.with_fields({"u": np.minimum(whole.fields["u"], limit)})
    found = measure(cut, None)
    assert found.summary.startswith(f"u: {np.count_nonzero(cut.fields['u'] == limit)} values are at a limit, saturated")
    assert found.data.measured is not None
    assert np.all(cut.fields["u"][~found.data.measured["u"]] == limit)
    assert_allclose(found.sigma["u"], SIGMA, rtol=0.15)
    assert measure(cut, None, robust=False).data.measured is None
    library = Library({"u": ["dx(dx(u))", "u*dx(u)", "u", "u**2", "dx(u)", "u**3"]})
    model, true = discover(cut, library), discover(whole, library)
    assert model.names == true.names
    assert model.verdict is true.verdict
    assert np.abs((model.theta - true.theta) / model.sd).max() < 3


@pytest.mark.parametrize("stored", ["twice", "between"])
def test_frames_that_were_not_taken_are_missing_and_the_noise_is_that_of_the_others(stored):
    """Differences in time of half of the values vanished: no noise was found, and χ²/n was 1e12."""
    taken = noisy(burgers(64, 61), SIGMA)
    u, t = taken.fields["u"], taken.times
    more = np.repeat(u, 2, axis=0)[:-1]
    if stored == "between":
        more[1::2] = (u[1:] + u[:-1]) / 2
    movie = Data(np.linspace(t[0], t[-1], 2 * len(t) - 1), {"u": more}, taken.geometry)
    found = measure(movie, None)
    assert found.summary.startswith("u: 60 frames are made of those beside them, and missing")
    assert_allclose(found.sigma["u"], SIGMA, rtol=0.1)
    np.testing.assert_array_equal(found.data.fields["u"], u)
    assert found.data.measured is None
    assert measure(movie, None, robust=False).data.n_times == 121


def test_frames_of_fields_that_hardly_change_are_all_kept():
    """Without noise, or with less than rounding, equal frames are what was measured."""
    x, t = np.arange(64) / 64, np.arange(40.0)[:, None]
    linear = (1 + t) * np.sin(2 * np.pi * x)
    coarse = np.round(linear[:20] / 8 + 1e-3 * np.random.default_rng(0).standard_normal((20, 64)))
    for u in (linear, coarse):
        assert measure(Data(np.arange(float(len(u))), {"u": u}, Grid(x=x)), None).data.n_times == len(u)


def test_a_stated_covariance_keeps_saturated_values(data):
    """It has no variance by value that could be left out."""
    limit = float(np.quantile(data.fields["u"], 0.93))
    cut = data.with_fields({"u": np.minimum(data.fields["u"], limit)})
    assert measure(cut, Covariance(SIGMA**2 * np.eye(64))).data.measured is None


def rounded(step: float) -> Data:
    exact = noisy(burgers(64, 61), SIGMA)
    return exact.with_fields({"u": step * np.round(exact.fields["u"] / step)})


def test_every_draw_of_a_measurement_is_that_of_its_generator():
    """Filters start from a copy of the generator, as ``estimate_noise`` does from its own; by default of seed 0."""
    data = rounded(2 * SIGMA)
    found = {seed: measure(data, None, rng=np.random.default_rng(seed)) for seed in range(3)}
    for seed, one in found.items():
        stated = measure(data, IID(SIGMA), rng=np.random.default_rng(seed))
        assert stated.filtered == pytest.approx(estimate_noise(data, np.random.default_rng(seed)).sigma, rel=1e-12)
        assert abs(one.sigma["u"] / found[0].sigma["u"] - 1) < 3 * one.error
    assert len({one.sigma["u"] for one in found.values()}) == 3
    assert measure(data, None).sigma == found[0].sigma
    rng = np.random.default_rng(1)
    assert measure(data, None, rng=rng).sigma == measure(data, None, rng=rng).sigma == found[1].sigma


def test_the_generator_of_discover_reaches_the_measurement():
    library = Library({"u": ["dx(u**2)", "laplacian(u)"]})
    data = rounded(2 * SIGMA)
    for seed in (1, 2):
        (measured,) = measure_all([data], None, robust=None, rng=np.random.default_rng(seed))
        found = discover(data, library, rng=np.random.default_rng(seed), check=False)
        assert found.settings["noise"] == measured.summary
    assert measured.summary != measure(data, None).summary
