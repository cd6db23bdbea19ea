"""Delays, and what differs by experiment, from data to the result."""

import numpy as np
import pytest

from bvsi import IID, Data, Discovery, Grid, Library, Method, Tiles, discover, forecast, simulate, simulate_found
from bvsi.app.report import equation_latex
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import simulator
from bvsi.likelihood import Isotropic


def delayed(rate, history, tau, end, step=0.01):
    """u' = rate(u(t), u(t − τ)) by Heun's steps; (times, …)."""
    back, count = round(tau / step), round(end / step)
    u = [np.asarray(history, dtype=float)] * (back + 1)
    for i in range(back, back + count):
        k1 = rate(u[i], u[i - back])
        k2 = rate(u[i] + step * k1, u[i - back + 1])
        u.append(u[i] + 0.5 * step * (k1 + k2))
    return np.array(u[back:])


@pytest.fixture(scope="module")
def logistic():
    """Hutchinson's equation, u' = 1.2 u (1 − u(t − 1.6))."""
    u = delayed(lambda a, b: 1.2 * a * (1 - b), 0.5, 1.6, 30)[::10]
    times = 0.1 * np.arange(len(u))
    data = Data.from_arrays({"u": u + 0.02 * np.random.default_rng(0).standard_normal(u.shape)}, times=times)
    library = Library({"u": ["u", "u**2", "u*lag(u, tau)"]}, parameters={"tau": (0.8, 3)})
    return data, library, discover(data, library)


def test_the_delay_is_found_with_its_error_bar(logistic):
    _, _, found = logistic
    truth = {"u": 1.2, "u*lag(u, tau)": -1.2, "tau": 1.6}
    assert set(found.names) == set(truth)
    assert found.sd[found.names.index("tau")] < 0.02
    for name, value, sd in zip(found.names, found.theta, found.sd, strict=True):
        assert abs(value - truth[name]) < 3.5 * sd


def test_it_is_written_stored_and_typeset(logistic, tmp_path):
    _, _, found = logistic
    found.save(tmp_path / "found.nc")
    assert str(Discovery.load(tmp_path / "found.nc")) == str(found)
    assert r"\tau" in equation_latex(found)
    assert found.report(tmp_path / "found.html").exists()


def test_a_forecast_begins_where_the_past_is_known(logistic):
    data, library, found = logistic
    data = data.select_times(slice(0, 121))
    seen = forecast(data, library, found, draws=2, rng=np.random.default_rng(0))
    assert 1.6 <= seen.times[0] < 1.8
    assert seen.error[seen.held_out].max() < 0.1
    assert seen.coverage[seen.held_out].mean() > 0.8
    known = {"rng": np.random.default_rng(0), "draws": 2}
    with pytest.raises(BvsiError, match="begin at a frame of the record"):
        simulate_found(found, library, data, [0.0, 1.0], **known)
    later = simulate_found(found, library, data, [4.0, 5.0, 6.0], **known)
    assert np.abs(later.u.values - data.fields["u"][[40, 50, 60], 0]).max() < 0.1


def test_simulations_look_back():
    """cos(πt/2) solves u' = −(π/2) u(t − 1); times cos 2x, with diffusion and growth that cancel, in space."""
    t, x = np.linspace(0, 3, 61), np.arange(16) * np.pi / 8
    past = Data.from_arrays({"u": np.cos(np.pi / 2 * t)[:, None]}, times=t, geometry=Grid())
    made = simulate(Library({"u": ["lag(u, 1)"]}), [-np.pi / 2], past, np.linspace(1, 5, 9))
    assert np.abs(made.fields["u"][:, 0] - np.cos(np.pi / 2 * made.times)).max() < 1e-4
    wave = np.cos(2 * x)
    grid = Grid(x=x, periodic={"x": 2 * np.pi})
    field = Data.from_arrays({"u": np.cos(np.pi / 2 * t)[:, None] * wave}, times=t, geometry=grid)
    library = Library({"u": ["laplacian(u)", "u", "lag(u, 1)"]})
    run = simulator(field, library).run(
        np.array([0.1, 0.4, -np.pi / 2]),
        {"u": field.fields["u"][40]},
        np.linspace(2, 4, 9),
        before=(t[:41], {"u": field.fields["u"][:41]}),
    )[0]
    assert np.abs(run["u"] - np.cos(np.pi / 2 * np.linspace(2, 4, 9))[:, None] * wave).max() < 2e-3


def test_tiles_lose_little(logistic):
    data, library, found = logistic
    tiled = discover(data, library, method=Method(weighting=Tiles(rows=40)), check=False)
    assert tiled.names == found.names
    assert np.abs((tiled.theta - found.theta) / tiled.sd).max() < 1
    assert np.all((tiled.sd / found.sd > 0.9) & (tiled.sd / found.sd < 1.4))


def test_weights_that_do_not_couple_times_are_refused(logistic):
    data, library, _ = logistic
    with pytest.raises(BvsiError, match=r"Isotropic\(\) does not, Stacked\(\) and Tiles\(\) do"):
        discover(data, library, method=Method(weighting=Isotropic()))


def test_a_known_delay_in_a_field():
    """u_t = 0.3 ∇²u − 0.8 u(t − 0.5) on a periodic line."""
    n, length = 24, 10.0
    x = np.arange(n) * length / n
    k2 = (2 * np.pi * np.fft.rfftfreq(n, length / n)) ** 2

    def rate(a, b):
        return -0.3 * np.fft.irfft(k2 * np.fft.rfft(a), n) - 0.8 * b

    u = delayed(rate, 1 + np.sin(2 * np.pi * x / length) + 0.5 * np.cos(4 * np.pi * x / length), 0.5, 6)[::10]
    noisy = u + 0.01 * np.random.default_rng(3).standard_normal(u.shape)
    grid = Grid(x=x, periodic={"x": length})
    data = Data.from_arrays({"u": noisy}, times=0.1 * np.arange(len(u)), geometry=grid)
    found = discover(data, Library({"u": ["laplacian(u)", "u", "lag(u, 0.5)"]}), noise=IID(0.01), check=False)
    assert found.names == ("laplacian(u)", "lag(u, 0.5)")
    assert np.abs((found.theta - [0.3, -0.8]) / found.sd).max() < 3.5


def test_parameters_and_coefficients_of_their_own():
    """u' = −k_e u/(K_e + u) + 0.3 in two experiments, K the same or not."""
    rng, times = np.random.default_rng(4), np.linspace(0, 6, 151)
    data = []
    for k, K in ((1.0, 0.5), (1.6, 1.0)):
        u = delayed(lambda a, _, k=k, K=K: 0.3 - k * a / (K + a), 4.0, 0.1, 6)[::4]
        data.append(Data.from_arrays({"u": u + 0.01 * rng.standard_normal(u.shape)}, times=times))
    apart = ["K", "u/(K + u)"]
    library = Library({"u": ["1", "u/(K + u)"]}, parameters={"K": (0.1, 5)}, keep="all", per_experiment=apart)
    found = discover(data, library, check=False)
    truth = {"1": 0.3, "u/(K + u)*experiment_1": -1.0, "u/(K + u)*experiment_2": -1.6, "K_1": 0.5, "K_2": 1.0}
    assert set(found.names) == set(truth)
    for name, value, sd in zip(found.names, found.theta, found.sd, strict=True):
        assert abs(value - truth[name]) < 3.5 * sd
    assert found.inclusion()["K_1"] == max(found.inclusion()[f"u/(K + u)*experiment_{e}"] for e in (1, 2))
    with pytest.raises(BvsiError, match="per_experiment"):
        Library({"u": ["u"]}, per_experiment="u")
