"""Masks that move with time, and holes: right answers from what was measured, whatever stands elsewhere."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.discovery import discover
from bvsi.discovery.forecasting import forecast
from bvsi.discovery.method import choose_method
from bvsi.errors import DataError
from bvsi.infer.fit import misfit_by_block
from bvsi.likelihood import Stacked
from bvsi.noise.measurement import measure_all
from bvsi.operators import Library
from bvsi.predict.push import ForecastError
from bvsi.residual.widths import residual_counts

TIMES, RING = np.linspace(0, 1, 61), np.arange(96) * 2 * np.pi / 96
TRUTH = {"dx(u)": -0.5, "laplacian(u)": 0.3}
LIBRARY = Library({"u": ["u", "u**2", *TRUTH, "u*dx(u)"]})
SIGMA = 0.005


def waves(seed=0):
    """u_t = −0.5 u_x + 0.3 u_xx, with noise."""
    t, modes = TIMES[:, None], ((1.0, 1, 0.3), (0.6, 2, 1.0), (0.4, 3, 2.0))
    u = sum(a * np.exp(-0.3 * k * k * t) * np.cos(k * (RING - 0.5 * t) + p) for a, k, p in modes)
    return u + SIGMA * np.random.default_rng(seed).standard_normal(u.shape)


def window(width=40, speed=0.4):
    """A window that moves round the ring."""
    return (np.arange(96) - speed * np.arange(61)[:, None]) % 96 < width


def data_of(seen, junk=np.nan, seed=0):
    values = np.where(seen, waves(seed), junk)
    return Data(TIMES, {"u": values}, Grid(x=RING, periodic="x"), measured={"u": seen})


def assert_right(found):
    assert set(found.names) == set(TRUTH)
    for name, value in TRUTH.items():
        assert abs(found.coefficient(name) - value) < 4 * found.sd[found.names.index(name)] < 0.05
    assert found.verdict == "consistent"
    assert "residuals, which touch no missing value" in found.settings["discretisation"]


@pytest.mark.parametrize("seed", [21, 22])
def test_a_window_that_moves(seed):
    assert_right(discover(data_of(window(), seed=seed), LIBRARY))


def test_a_hole_that_stays():
    seen = np.ones((61, 96), dtype=bool)
    seen[:, 30:50] = False
    assert_right(discover(data_of(seen), LIBRARY))


def test_a_hole_and_scattered_gaps():
    seen = window(60) & (np.random.default_rng(5).random((61, 96)) > 0.05)
    found = discover(data_of(seen), LIBRARY)
    assert_right(found)
    assert "scattered gaps are interpolated" in found.settings["noise"]


def test_blocks_without_residuals_have_no_misfit():
    equations, likelihood = SimpleNamespace(q_blocks=(np.array([3.0, 0.0]),)), SimpleNamespace(block_rows=((2, 0),))
    np.testing.assert_array_equal(misfit_by_block(likelihood, equations), [[1.5, 0.0]])


def test_residuals_are_weighed_together_where_the_mask_leaves_few():
    # without the mask there would be so many that tiles are taken
    x, t = np.linspace(-16, 16, 64), np.linspace(0, 8, 40)
    place = x[:, None] + 0.3 * np.sin(x) - t[:, None, None]
    noise = 0.01 * np.random.default_rng(0).standard_normal(place.shape)
    values = np.where(np.abs(place) < 5, 1 / (1 + np.exp(place)) + noise, np.nan)
    data = Data.from_arrays({"u": values}, times=t, geometry=Grid(x=x, y=x), missing="nan")
    measured = measure_all([data], None, robust=False)  # bridging outliers would take most of the time
    choice = choose_method(measured, Library({"u": ["laplacian(u)", "u", "u**2"]}))
    tests, stencil = choice.method.tests, choice.method.stencil
    assert residual_counts({**tests.gap, "time": stencil.gap}, [data])[0] > 6000
    assert choice.method.weighting == Stacked()
    assert "tiles" not in choice.reason


def test_what_stands_under_the_mask_does_not_matter():
    one, other = (discover(data_of(window(), junk), LIBRARY) for junk in (np.nan, 3.0e4))
    assert one.names == other.names
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.sd, other.sd)
    assert one.settings["noise"] == other.settings["noise"]
    assert one.method == other.method
    assert str(one.check) == str(other.check)


def test_too_little_is_refused_with_what_is_needed():
    seen = window(5, 1.0)
    with pytest.raises(DataError, match=r"values are missing, and only \d+ test functions fit.*box of 6 nodes in 5"):
        discover(data_of(seen), LIBRARY)
    seen[:] = False
    with pytest.raises(DataError, match="no measured value"):
        discover(data_of(seen, 0.0), LIBRARY)


def test_nothing_is_simulated_from_a_frame_with_holes():
    data = data_of(window())
    found = discover(data, LIBRARY, check=False)
    with pytest.raises(ForecastError, match="the first frames have holes"):
        forecast(data, LIBRARY, found, rng=np.random.default_rng(0))
