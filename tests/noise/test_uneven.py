"""Noise whose level varies over times and nodes: measured, told from other laws, and stated against."""

import numpy as np
import pytest

from bvsi.check import Verdict
from bvsi.check.residual_tests import noise_tests
from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.noise import IID, Diagonal, PerField, SignalNoise, estimate_noise
from bvsi.noise.measurement import measure
from bvsi.noise.uneven import estimate_uneven, heavy_tails
from bvsi.operators import Library
from data.triangle_meshes import triangles

GRID = Grid(x=np.arange(96) / 96, periodic="x")
T = np.linspace(0, 1, 61)
RAMP = np.exp(1.2 * np.linspace(-1, 1, 61))[:, None] * np.ones(96)
SENSORS = np.exp(0.6 * np.random.default_rng(1).standard_normal(96)) * np.ones((61, 1))


def waves(grid=GRID, times=T):
    """A wave that moves and decays, as u_t = 0.02 u_xx − 0.5 u_x has it."""
    x, k = grid.points[:, 0], 2 * np.pi
    decay = np.exp(-0.02 * k**2 * times)[:, None]
    u = decay * np.sin(k * (x - 0.5 * times[:, None])) + 0.3 * decay**4 * np.cos(2 * k * (x - 0.5 * times[:, None]))
    return Data.from_arrays({"u": u}, times=times, geometry=grid)


def noisy(exact, sigma, seed):
    xi = np.random.default_rng(seed).standard_normal(exact.fields["u"].shape)
    return exact.with_fields({"u": exact.fields["u"] + sigma * xi})


def uneven(data, others=None):
    return estimate_uneven(data, estimate_noise(data), others)["u"]


def test_even_noise_is_rarely_called_uneven():
    found = [uneven(noisy(waves(), 0.05, seed)) for seed in range(60)]
    assert np.mean([one.significant for one in found]) <= 0.05
    assert np.median([one.sigma.mean() for one in found]) == pytest.approx(0.05, rel=0.05)
    hardly = 0.05 * (1 + 0.3 * np.linspace(-1, 1, 96)) * np.ones((61, 1))
    assert np.mean([uneven(noisy(waves(), hardly, seed)).significant for seed in range(20)]) >= 0.9


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        (RAMP, "time"),
        (1 + 4 * np.linspace(-1, 1, 96) ** 2 * np.ones((61, 1)), "x"),
        (RAMP * (1 + 3 * np.linspace(0, 1, 96)), "x"),
        (SENSORS, "single nodes"),
        (np.exp(0.6 * np.random.default_rng(2).standard_normal(61))[:, None] * np.ones(96), "single frames"),
    ],
)
def test_levels_are_measured(shape, where):
    found = uneven(noisy(waves(), 0.02 * shape, 5))
    assert found.significant
    assert where in found.where
    error = np.log(found.sigma / (0.02 * shape))
    assert abs(np.mean(np.exp(-2 * error)) - 1) < 0.15  # χ² of the noise, which single levels would make too large
    assert error.std() < (0.25 if "single" in where else 0.1)
    assert error.std() < 0.5 * np.log(shape).std()


def test_on_a_mesh_and_scaled():
    mesh = triangles(16)
    x = mesh.points[:, 0]
    exact = Data.from_arrays({"u": np.sin(3 * x - 2 * T[:, None])}, times=T, geometry=mesh)
    data = noisy(exact, 0.02 * np.exp(1.5 * x) * np.ones((61, 1)), 3)
    found = uneven(data)
    assert found.significant
    assert np.std(np.log(found.sigma / np.exp(1.5 * x))) < 0.15
    larger = uneven(data.with_fields({"u": 1000 * data.fields["u"]}))
    np.testing.assert_allclose(larger.sigma, 1000 * found.sigma, rtol=1e-6)


def test_noise_that_grows_with_the_signal_stays_so():
    u = 1.5 + waves().fields["u"]
    exact = waves().with_fields({"u": u})
    data = noisy(exact, 0.1 * u, 4)
    law = SignalNoise(c=0.1)
    assert uneven(data).significant
    assert not uneven(data, law.of(data)).significant
    model = measure(data, None).noise
    assert isinstance(model, Diagonal)
    assert "grows with the signal" in measure(data, None).summary


def test_few_frames_tell_nothing():
    times = T[:7]
    data = noisy(waves(times=times), 0.02 * RAMP[:7], 1)
    assert estimate_uneven(data, estimate_noise(data)) == {}


def test_the_model_has_a_level_per_node_where_time_does_not_matter():
    found = measure(noisy(waves(), 0.02 * SENSORS, 2), None)
    assert isinstance(found.noise, Diagonal)
    assert np.shape(found.noise.sigma["u"]) == (96,)
    assert "uneven" in found.summary
    assert isinstance(measure(noisy(waves(), 0.02, 2), None).noise, PerField)


LIBRARY = Library({"u": ["u", "u**2", "u**3", "dx(u)", "u*dx(u)", "dx(dx(u))", "dx(dx(dx(u)))"]})


@pytest.mark.parametrize("shape", [RAMP, SENSORS])
def test_discovery_is_right_consistent_and_covered(shape):
    shape, z = shape / np.sqrt(np.mean(shape**2)), []
    for seed in range(8):
        found = discover(noisy(waves(), 0.05 * shape, 100 + seed), LIBRARY)
        assert set(found.names) == {"dx(u)", "dx(dx(u))"}
        z += list((found.theta - [TRUTH[n] for n in found.names]) / found.sd)
        assert found.verdict == str(Verdict.CONSISTENT)
    assert np.mean(np.abs(z) < 1.96) >= 0.75  # 16 intervals, of which 0.95 hold the truth: 0.75 has a chance of 1e-3
    assert np.max(np.abs(z)) < 4


TRUTH = {"dx(u)": -0.5, "dx(dx(u))": 0.02}


def tails(data):
    level = estimate_noise(data)
    return heavy_tails(data, "u", np.array(level.sigma["u"] ** 2), level)


def test_heavy_tails_count_in_the_variance_and_signal_does_not():
    exact, size = waves(), (61, 96)
    assert [tails(noisy(exact, 0.05, seed)) for seed in range(40)] == [1.0] * 40
    ratios, variance = [], 5 / 3
    for seed in range(20):
        xi = np.random.default_rng(seed).standard_t(5, size)
        data = exact.with_fields({"u": exact.fields["u"] + 0.05 * xi})
        ratios.append(tails(data) * estimate_noise(data).sigma["u"] ** 2 / (0.05**2 * variance))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)
    steps = np.where(GRID.points[:, 0] < 0.04, 0.3, 0.0) * np.random.default_rng(0).standard_normal(size)
    assert tails(noisy(exact.with_fields({"u": exact.fields["u"] + steps}), 0.05, 3)) == 1.0


def test_discovery_with_heavy_tails_is_right_and_consistent():
    for seed in range(6):
        xi = np.random.default_rng(seed).standard_t(3, (61, 96)) / 3**0.5
        found = discover(waves().with_fields({"u": waves().fields["u"] + 0.03 * xi}), LIBRARY)
        assert set(found.names) == set(TRUTH)
        assert found.verdict == str(Verdict.CONSISTENT)
        assert "tails" in found.settings["noise"]


def test_one_stated_level_is_refuted():
    shape = RAMP / np.sqrt(np.mean(RAMP**2))
    data = noisy(waves(), 0.05 * shape, 7)
    found = discover(data, LIBRARY, noise=IID(0.05))
    assert found.verdict == str(Verdict.NOISE)
    assert any("uneven" in reason for reason in found.check.reasons)
    assert "Diagonal(" in found.check.advice
    (test,) = (one for one in noise_tests([data], [IID(0.05)]) if one.kind == "level")
    assert test.p < 1e-10
    stated = Diagonal({"u": 0.05 * shape})
    assert not [one for one in noise_tests([data], [stated]) if one.kind == "level"]
    assert discover(data, LIBRARY, noise=stated).verdict == str(Verdict.CONSISTENT)
