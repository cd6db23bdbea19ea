"""Predictions by neighbours: the same at some places as everywhere, and in whatever parts the data are looked at."""

import numpy as np
import pytest

from bvsi.data import Grid, smoothness
from bvsi.data.smoothness import along
from bvsi.noise import prediction as _prediction
from bvsi.noise.outliers import scattered_outliers
from bvsi.noise.prediction import axes_of, odd_values
from data.triangle_meshes import triangles

GEOMETRIES = {
    "periodic": Grid(x=np.arange(30) / 30, y=np.linspace(0, 1, 20), periodic="x"),
    "uneven": Grid(x=np.linspace(0, 1, 80) ** 1.5),
    "mesh": triangles(14),
}
TIMES = np.linspace(0, 1, 24) ** 1.1
NONE = np.zeros(0, dtype=np.int64)
Z = 4.5


def spoiled(geometry):
    """A front with noise and spikes, (T, n_nodes)."""
    rng = np.random.default_rng(0)
    u = np.tanh(6 * (geometry.points[:, 0] - 0.2 - 0.5 * TIMES[:, None])) + 0.02 * rng.standard_normal(
        (TIMES.size, geometry.n_nodes)
    )
    u[rng.random(u.shape) < 0.01] += 0.5
    return u


def same(one, other):
    np.testing.assert_array_equal(one.outliers, other.outliers)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_places_by_themselves_and_all_at_once(name, monkeypatch):
    geometry, found = GEOMETRIES[name], []
    u = spoiled(geometry)
    for crowded in (0.0, np.inf):
        monkeypatch.setattr(_prediction, "_CROWDED", crowded)
        found.append(scattered_outliers(u, geometry, TIMES, 0.02))
    same(*found)
    assert found[0].outliers.size > 10


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("crowded", [0.0, np.inf])
def test_a_few_frames_at_a_time(name, crowded, monkeypatch):
    geometry = GEOMETRIES[name]
    u = spoiled(geometry)
    u[5, 3] = np.nan
    monkeypatch.setattr(_prediction, "_CROWDED", crowded)
    whole = scattered_outliers(u, geometry, TIMES, 0.02)
    monkeypatch.setattr(smoothness, "SLAB", 1)
    monkeypatch.setattr(_prediction, "_ENTRIES", 10_000)
    parts = scattered_outliers(u, geometry, TIMES, 0.02)
    same(whole, parts)
    np.testing.assert_allclose(whole.filled, parts.filled, rtol=1e-9)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_no_value_that_is_off_is_left_out(name):
    geometry = GEOMETRIES[name]
    u = spoiled(geometry).reshape(TIMES.size, *(geometry.shape if isinstance(geometry, Grid) else (-1,)))
    axes = axes_of(geometry, TIMES)
    every = odd_values(u, axes, 0.02, Z, np.arange(u.size))
    some = odd_values(u, axes, 0.02, Z, NONE)
    off = every.index[np.abs(u.ravel() - every.prediction) > Z * every.sd]
    assert every.index.size == u.size > 3 * some.index.size
    assert off.size > 0
    assert np.isin(off, some.index).all()


def test_the_mean_of_axes_that_agree_has_the_weights_of_their_spread():
    # far from structure q = σ² Σ P² on every axis: uniform axes then count alike, and sd² = σ² (1 + s/3)
    grid, times = Grid(x=np.arange(12.0), y=np.arange(13.0)), np.arange(14.0)
    u = 0.1 * np.random.default_rng(0).standard_normal((14, 12, 13))
    axes = axes_of(grid, times)
    place = np.ravel_multi_index((6, 6, 6), u.shape)
    found = odd_values(u, axes, 1.0, Z, np.array([place]))
    assert found.index.tolist() == [place]
    mean = np.mean([along(axis.P, u, n)[6, 6, 6] for n, axis in enumerate(axes)])
    assert found.prediction[0] == pytest.approx(mean, rel=1e-9)
    assert found.sd[0] == pytest.approx(np.sqrt(1 + (34 / 36) / 3), rel=1e-9)
