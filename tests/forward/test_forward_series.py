"""Systems without space solved in time: known solutions, forcing, and what has none."""

import numpy as np
import pytest

import bvsi
from bvsi.forward.ensemble import simulator
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.forward.series import SeriesSimulator

T = np.linspace(0, 3, 61)


def series(auxiliary=None, **fields):
    return bvsi.Data.from_arrays(fields, times=T, auxiliary=auxiliary)


def test_logistic_growth():
    u = 2 / (1 + 3 * np.exp(-T))
    made = simulator(series(u=u), bvsi.Library({"u": ["u", "u**2"]}))
    assert isinstance(made, SeriesSimulator)
    found, steps = made.run(np.array([1.0, -0.5]), {"u": u[:1]}, T, scheme=Rosenbrock(1e-8))
    assert found["u"].shape == (len(T), 1)
    np.testing.assert_allclose(found["u"][:, 0], u, rtol=1e-7)
    assert 0 < steps < 2000


def test_time_known_numbers_and_several_equations():
    """x_t = k t, y_t = −2 x: x = k t²/2, y = −k t³/3."""
    data = series(auxiliary={"k": np.array([3.0])}, x=T, y=T)
    library = bvsi.Library({"x": ["k*t"], "y": ["x"]})
    found, _ = simulator(data, library).run(np.array([1.0, -2.0]), {"x": np.zeros(1), "y": np.zeros(1)}, T)
    np.testing.assert_allclose(found["x"][:, 0], 1.5 * T**2, atol=1e-5)
    np.testing.assert_allclose(found["y"][:, 0], -(T**3), atol=1e-4)


def test_forcing_is_followed_and_ends_with_its_data():
    """x_t = −x + f with f = cos t + sin t has x = sin t."""
    data = series(auxiliary={"f": (np.cos(T) + np.sin(T))[:, None]}, x=np.sin(T))
    made, theta = simulator(data, bvsi.Library({"x": ["x", "f"]})), np.array([-1.0, 1.0])
    found, _ = made.run(theta, {"x": np.zeros(1)}, T, scheme=Rosenbrock(1e-8))
    np.testing.assert_allclose(found["x"][:, 0], np.sin(T), atol=2e-4)
    with pytest.raises(bvsi.BvsiError, match="known until t = 3 only"):
        made.run(theta, {"x": np.zeros(1)}, np.linspace(0, 4, 5))


def test_what_runs_away_is_said():
    made = simulator(series(u=T), bvsi.Library({"u": ["u**2"]}))
    with pytest.raises(bvsi.BvsiError, match="is the model stable"):
        made.run(np.ones(1), {"u": np.ones(1)}, T)  # 1/(1 − t)


def test_a_field_without_an_equation_is_refused():
    with pytest.raises(bvsi.BvsiError, match="'y' is read but has no equation"):
        simulator(series(x=T, y=T), bvsi.Library({"x": ["x*y"]}))


def test_simulate_solves_a_series_between_its_output_times():
    """x_t = −x + f with f = cos t + sin t has x = sin t, however few the output times are."""
    data = series(auxiliary={"f": (np.cos(T) + np.sin(T))[:, None]}, x=np.sin(T))
    t = np.array([0.0, 1.3, 3.0])
    found = bvsi.simulate(bvsi.Library({"x": ["x", "f"]}), [-1.0, 1.0], data, t)
    np.testing.assert_allclose(found.fields["x"][:, 0], np.sin(t), atol=2e-4)
    np.testing.assert_allclose(found.auxiliary["f"][:, 0], np.cos(t) + np.sin(t), atol=1e-3)


def test_simulate_from_one_state():
    start = bvsi.Data.from_arrays({"u": np.array([0.5])}, times=[0.0])
    found = bvsi.simulate(bvsi.Library({"u": ["u", "u**2"]}), {"u": 1.0, "u**2": -0.5}, start, T)
    np.testing.assert_allclose(found.fields["u"][:, 0], 2 / (1 + 3 * np.exp(-T)), rtol=1e-7)
