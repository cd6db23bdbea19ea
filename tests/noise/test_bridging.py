"""Scattered gaps: what stands in for them, how well it is known, and which gaps stay gaps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bvsi.data import Data, Grid
from bvsi.data.scattered import mesh_through
from bvsi.discovery import discover
from bvsi.noise import IID
from bvsi.noise.measurement import measure
from bvsi.noise.outliers import bridge
from bvsi.operators import Library

RNG = np.random.default_rng(0)  # copied by what uses it
SIGMA = 0.005
TIMES, RING = np.linspace(0, 1, 41), np.arange(64) * 2 * np.pi / 64
TRUTH = {"dx(u)": -0.5, "laplacian(u)": 0.3}
MODES = ((1.0, 1, 0.3), (0.6, 2, 1.0), (0.4, 3, 2.0), (0.2, 4, 0.5))


def clean(modes=MODES):
    """u_t = −0.5 u_x + 0.3 u_xx."""
    t = TIMES[:, None]
    return sum(a * np.exp(-0.3 * k * k * t) * np.cos(k * (RING - 0.5 * t) + p) for a, k, p in modes)


def with_gaps(mask, u=None, junk=0.0, seed=0):
    noise = SIGMA * np.random.default_rng(seed).standard_normal(mask.shape)
    values = np.where(mask, (clean() if u is None else u) + noise, junk)
    return Data(TIMES, {"u": values}, Grid(x=RING, periodic="x"), measured={"u": mask})


def scattered(share, seed=1):
    return np.random.default_rng(seed).random((41, 64)) >= share


@pytest.mark.parametrize("seed", [11, 12])
def test_a_fifth_of_the_values_may_be_missing(seed):
    found = discover(with_gaps(scattered(0.2, seed), seed=seed), Library({"u": ["u", "u**2", *TRUTH, "u*dx(u)"]}))
    assert set(found.names) == set(TRUTH)
    for name, value in TRUTH.items():
        assert abs(found.coefficient(name) - value) < 4 * found.sd[found.names.index(name)] < 0.02
    assert found.verdict == "consistent"
    assert "scattered gaps are interpolated" in found.settings["noise"]


def test_what_stands_in_a_gap_does_not_matter():
    mask = scattered(0.2)
    one, other = (bridge(with_gaps(mask, junk=junk), {"u": SIGMA}, RNG).data.fields["u"] for junk in (0.0, 7e5))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_the_variance_at_gaps_is_not_less_than_their_error():
    for modes in (MODES, (*MODES, (0.3, 20, 0.0))):  # the second is hardly resolved
        u = clean(modes)
        data = with_gaps(scattered(0.2), u)
        bridged = bridge(data, {"u": SIGMA}, RNG)
        gaps = bridged.factor["u"] != 1
        off = bridged.data.fields["u"][gaps] - u[gaps]
        assert np.mean(off**2 / (bridged.factor["u"][gaps] * SIGMA**2)) < 1.2


def test_the_variance_at_gaps_is_in_units_of_the_noise_that_is_stated():
    # filters see next to no noise in these values; what interpolation misses of them is far below what is stated
    mask = scattered(0.1)
    data = Data(TIMES, {"u": np.where(mask, clean(), 0.0)}, Grid(x=RING, periodic="x"), measured={"u": mask})
    assert np.sqrt(measure(data, IID(SIGMA)).variance["u"].max()) < 2 * SIGMA


def test_gaps_that_nothing_tells_of_stay_gaps():
    # noise alone, 1e8 times the level that is told: no neighbour says anything about a value
    mask = scattered(0.1)
    u = np.random.default_rng(3).standard_normal(mask.shape)
    bridged = bridge(with_gaps(mask, u), {"u": 1e-8}, RNG)
    assert not bridged.factor
    assert bridged.data.measured is not None


def test_on_meshes_gaps_that_are_short_in_time_are_bridged():
    points = np.random.default_rng(5).uniform(0, 1, (80, 2))
    mesh, _ = mesh_through(points)
    u = np.sin(3 * mesh.points[:, 0] - 2 * TIMES[:, None]) * np.cos(2 * mesh.points[:, 1])
    mask = np.random.default_rng(6).random(u.shape) > 0.05
    mask[[0, -1]], mask[:, 7] = True, False
    noisy = u + SIGMA * np.random.default_rng(7).standard_normal(u.shape)
    data = Data(TIMES, {"u": np.where(mask, noisy, np.nan)}, mesh, measured={"u": mask})
    bridged = bridge(data, {"u": SIGMA}, RNG)
    gaps = bridged.factor["u"] != 1
    assert bridged.data.measured is not None
    assert_array_equal(bridged.data.measured["u"].all(axis=0), np.arange(len(u[0])) != 7)  # a sensor that is broken
    off = bridged.data.fields["u"][gaps] - u[gaps]
    assert np.mean(off**2 / (bridged.factor["u"][gaps] * SIGMA**2)) < 1.2


def test_holes_stay_holes():
    mask = np.ones((41, 64), dtype=bool)
    mask[10:30, 20:40] = False
    mask[5, 5] = False
    data = bridge(with_gaps(mask), {"u": SIGMA}, RNG).data
    assert data.measured is not None
    assert data.measured["u"][5, 5]
    assert not data.measured["u"][12:28, 22:38].any()


def test_the_mean_over_bridged_values_has_the_variance_that_is_stated():
    means, stated = [], []
    for seed in range(40):
        bridged = bridge(
            with_gaps(scattered(0.2, seed), 0 * clean(), seed=100 + seed), {"u": SIGMA}, np.random.default_rng(0)
        )
        means.append(bridged.data.fields["u"].mean())
        stated.append(bridged.factor["u"].sum() * SIGMA**2 / bridged.factor["u"].size ** 2)
    assert np.mean(np.square(means)) == pytest.approx(np.mean(stated), rel=0.6)  # 40 draws: sd of 22%
