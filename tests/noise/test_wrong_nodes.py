"""Pixels that are wrong at all times are found, and nothing else is."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.noise import estimate_noise
from bvsi.noise.faults import wrong_nodes
from bvsi.noise.measurement import measure
from bvsi.operators import Library

T = np.linspace(0, 1, 41)
LINE = Grid(x=np.arange(96) / 96, periodic="x")
PLANE = Grid(x=np.linspace(0, 1, 24), y=np.linspace(0, 1, 20))
K = 2 * np.pi


def line(seed, sigma=0.05):
    """u_t = 0.02 u_xx − 0.5 u_x."""
    x, decay = LINE.points[:, 0] - 0.5 * T[:, None], np.exp(-0.02 * K**2 * T)[:, None]
    u = decay * np.sin(K * x) + 0.5 * decay**4 * np.cos(2 * K * x)
    return u + sigma * np.random.default_rng(seed).standard_normal(u.shape)


def found_in(values, grid):
    data = Data.from_arrays({"u": values.reshape(len(T), *grid.shape)}, times=T, geometry=grid)
    return np.flatnonzero(wrong_nodes(values, grid, T, estimate_noise(data).sigma["u"]))


@pytest.mark.parametrize("fault", ["hot", "dead", "stuck"])
def test_wrong_pixels_are_found(fault):
    u = line(0)
    u[:, 30] = {"hot": u[:, 30] + 0.8, "dead": 0.0, "stuck": 0.37}[fault]
    assert found_in(u, LINE).tolist() == [30]


def test_nothing_is_found_in_noise_and_in_what_is_held_at_the_ends():
    assert sum(len(found_in(line(seed), LINE)) for seed in range(100)) <= 1
    x, y = PLANE.points.T
    held = np.exp(-K * T)[:, None] * np.sin(np.pi * x) * np.sin(np.pi * y)
    edge = (x == 0) | (x == 1) | (y == 0) | (y == 1)
    found = 0
    for seed in range(20):
        noise = 0.02 * np.random.default_rng(seed).standard_normal(held.shape)
        found += len(found_in(np.where(edge, 0.0, held + noise), PLANE))
    assert found == 0


def test_counts_that_are_zero_by_chance_are_not_stuck():
    x, y = PLANE.points.T
    mean = 3 * np.exp(-40 * ((x - 0.5) ** 2 + (y - 0.5) ** 2)) * np.ones((len(T), 1))
    found = [found_in(np.random.default_rng(seed).poisson(mean).astype(float), PLANE) for seed in range(20)]
    assert sum(map(len, found)) <= 1


def test_steps_and_sensors_that_are_noisier_are_left():
    front = np.tanh((LINE.points[:, 0] - 0.5) / 0.01) * np.ones((len(T), 1))
    levels = np.exp(0.7 * np.random.default_rng(3).standard_normal(96))
    noise = np.random.default_rng(0).standard_normal((20, *front.shape))
    bounded = Grid(x=LINE.axes["x"])
    assert sum(len(found_in(front + 0.05 * one, bounded)) for one in noise) <= 1
    assert sum(len(found_in(line(0, 0.0) + 0.05 * levels * one, LINE)) for one in noise) <= 1


@pytest.mark.parametrize("fault", ["hot", "stuck"])
def test_discovery_does_without_them(fault):
    library = Library({"u": ["u", "u**2", "u**3", "dx(u)", "u*dx(u)", "dx(dx(u))"]})
    truth, z = {"dx(u)": -0.5, "dx(dx(u))": 0.02}, []
    for seed in range(6):
        u = line(seed)
        u[:, 17 + seed] = u[:, 17 + seed] + 0.7 if fault == "hot" else 0.4
        found = discover(Data.from_arrays({"u": u}, times=T, geometry=LINE), library)
        assert set(found.names) == set(truth)
        assert "1 node is wrong" in found.settings["noise"]
        assert found.verdict == "consistent"
        z += [(t - truth[n]) / s for n, t, s in zip(found.names, found.theta, found.sd, strict=True)]
    assert np.max(np.abs(z)) < 4


def test_they_are_kept_where_that_is_wanted():
    u = line(0)
    u[:, 30] = 0.0
    data = Data.from_arrays({"u": u}, times=T, geometry=LINE)
    assert "wrong" in measure(data, None).summary
    assert "wrong" not in measure(data, None, robust=False).summary
