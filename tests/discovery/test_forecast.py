"""The forward check: honest bands, wrong equations found out, the same numbers again, refusals with reasons."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bvsi.app.storage import forecast_of, plain
from bvsi.data import Data, Grid
from bvsi.data.denoise import smoothers
from bvsi.discovery import discover
from bvsi.discovery.forecasting import all_kept, forecast, simulate_found
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.infer.priors import Normal, Prior
from bvsi.noise import IID, Diagonal, PerTime, add_noise
from bvsi.operators import Library
from bvsi.predict.push import Forecast, ForecastError, band_variance, forecast_status

TIMES = np.linspace(0, 2, 41)
SIGMA = 0.02
RING = Grid(x=np.linspace(0, 2 * np.pi, 48, endpoint=False), periodic={"x": 2 * np.pi})
LINE = Grid(x=np.linspace(0.3, 4.3, 41))
LIBRARY = Library({"u": ["dx(u)", "dx(dx(u))"]})


def waves(grid):
    """u_t = −u_x + 0.1 u_xx, exactly."""
    x, t = grid.axes["x"], TIMES[:, None]
    return sum(a * np.exp(-0.1 * k**2 * t) * np.sin(k * (x - t) + k) for k, a in ((1, 1.0), (2, 0.6), (3, 0.3)))


def measured(grid=RING, seed=0):
    exact = Data(TIMES, {"u": waves(grid)}, grid)
    return add_noise(exact, SIGMA, np.random.default_rng(seed))


def found_in(data, library=LIBRARY):
    return discover(data, all_kept(library), noise=IID(SIGMA), check=False)


@pytest.fixture(scope="module")
def ring():
    data = measured()
    return data, found_in(data)


@pytest.mark.parametrize("grid", [RING, LINE], ids=["periodic", "boundary values from the data"])
def test_the_right_equation_forecasts_to_within_noise(grid):
    data = measured(grid)
    made = forecast(data, LIBRARY, found_in(data), rng=np.random.default_rng(0), draws=6)
    assert made.held_out.sum() == 8
    assert made.coverage[made.held_out].mean() > 0.9
    assert made.error[made.held_out] == pytest.approx(made.expected_error[made.held_out], rel=0.3)
    assert "forecasts the held-out frames" in made.status
    assert ("boundary" in made.status) == (grid is LINE)
    assert made.noise == pytest.approx(SIGMA / np.sqrt(np.mean(np.square(data.fields["u"]))), rel=0.1)


def test_spread_is_the_error_against_the_truth(ring):
    """The mean forecast misses the noise-free solution by about what the spread says."""
    data, found = ring
    made = simulate_found(found, LIBRARY, data, TIMES, rng=np.random.default_rng(0), draws=6)
    miss = np.sqrt(np.mean(np.square(made["u"].values - waves(RING)), axis=1))
    spread = np.sqrt(np.mean(np.square(made["u_sd"].values), axis=1))
    ratio = np.sqrt(np.mean(miss**2) / np.mean(spread**2))
    assert 0.4 < ratio < 2


def test_an_equation_that_lacks_an_operator_is_found_out():
    data = measured()
    library = Library({"u": ["dx(u)"]})
    made = forecast(data, library, found_in(data, library), rng=np.random.default_rng(0), draws=4)
    assert made.coverage[made.held_out].mean() < 0.8
    assert "wrong" in made.status


def test_the_same_seed_gives_the_same_bits(ring):
    data, found = ring
    one, two = (forecast(data, LIBRARY, found, rng=np.random.default_rng(3), draws=3) for _ in range(2))
    for key, value in vars(one).items():
        assert np.array_equal(value, vars(two)[key])


def test_fewer_draws_where_the_budget_is_small(ring):
    data, found = ring
    assert forecast(data, LIBRARY, found, rng=np.random.default_rng(3), draws=20, budget=75).draws == 3


def test_options_of_discover_are_cut_to_the_first_frames(ring):
    data, found = ring
    shape = data.fields["u"].shape
    given = {
        "prior": Prior({"dx(dx(u))": Normal(0.1, 0.05)}),
        "constraints": ["dx(dx(u)) > 0"],
        "check": True,
    }
    for noise in (PerTime(np.full(len(TIMES), SIGMA)), Diagonal({"u": np.full(shape, SIGMA)}), [IID(SIGMA)]):
        made = forecast(data, LIBRARY, found, rng=np.random.default_rng(0), draws=2, options={**given, "noise": noise})
        assert made.coverage[made.held_out].mean() > 0.85


def test_priors_and_constraints_on_operators_that_were_not_selected_are_left_out(ring):
    data, found = ring
    wide = Library({"u": ["dx(u)", "dx(dx(u))", "u**3"]})
    options = {"prior": Prior({"u**3": Normal(0.0, 1.0)}), "constraints": ["dx(dx(u)) > 0"]}
    made = forecast(data, wide, found, rng=np.random.default_rng(0), draws=2, options=options)
    assert made.draws == 2


def test_values_that_were_not_measured_do_not_count(ring):
    data, found = ring
    u = np.array(data.fields["u"])
    u[:, 10] = 50.0
    mask = np.ones(u.shape, dtype=bool)
    mask[:, 10] = False
    filled = Data(data.times, {"u": np.where(mask, u, np.nan)}, RING, {}, {"u": mask})
    made = forecast(filled, LIBRARY, found, rng=np.random.default_rng(0), draws=4)
    assert made.error[made.held_out].max() < 2 * made.noise


@pytest.mark.parametrize(
    ("options", "word"), [({"holdout": 0.0}, "holdout"), ({"holdout": 1.5}, "holdout"), ({"draws": 1}, "draws")]
)
def test_wrong_arguments_are_refused(ring, options, word):
    data, found = ring
    with pytest.raises(ForecastError, match=word):
        forecast(data, LIBRARY, found, rng=np.random.default_rng(0), **options)


def test_what_cannot_be_forecast_is_refused_with_a_reason(ring):
    data, found = ring
    rng = np.random.default_rng(0)
    with pytest.raises(ForecastError, match="too few"):
        forecast(data.select_times(slice(0, 5)), LIBRARY, found, rng=rng)
    with pytest.raises(ForecastError, match="system of first order"):
        forecast(data, Library({"u": ["dx(u)", "dx(dx(u))"]}, time_order=2), found, rng=rng)
    with pytest.raises(ForecastError, match="too long"):
        forecast(data, LIBRARY, found, rng=rng, budget=0.025)


def test_an_equation_that_blows_up_is_told(ring):
    """u_t = 5 u² is infinite at t = 0.2/max u, long before the last frame."""
    data, found = ring
    library = Library({"u": ["u**2"]})
    posterior = GaussianPosterior(library.names, np.array([5.0]), 1e-6 * np.eye(1))
    wrong = replace(found, posterior=posterior, candidates=library.names)
    with pytest.raises(ForecastError, match=r"cannot be simulated.*stable"):
        simulate_found(wrong, library, data, TIMES, rng=np.random.default_rng(0), draws=3, budget=50)


def test_a_simulation_is_labelled_and_may_go_beyond_the_data(ring):
    data, found = ring
    times = np.linspace(0, 3, 7)
    made = simulate_found(found, LIBRARY, data, times, rng=np.random.default_rng(0), draws=3)
    assert made["u"].dims == ("time", "x")
    assert made["time"].values == pytest.approx(times)
    assert np.all(made["u_lower"] <= made["u"])
    assert np.all(made["u"] <= made["u_upper"])
    with pytest.raises(ForecastError, match="begin"):
        simulate_found(found, LIBRARY, data, times + 1, rng=np.random.default_rng(0))
    with pytest.raises(ForecastError, match="increasing"):
        simulate_found(found, LIBRARY, data, [0.0, np.nan], rng=np.random.default_rng(0))


def test_undeclared_boundaries_end_with_the_data():
    data = measured(LINE)
    with pytest.raises(BvsiError, match="boundary"):
        simulate_found(found_in(data), LIBRARY, data, np.linspace(0, 3, 7), rng=np.random.default_rng(0))


def test_smoothing_takes_off_noise_and_says_how_much_is_left():
    """Drawn sd and true error agree; without noise nothing is changed."""
    exact, rng = waves(RING), np.random.default_rng(0)
    smoother = smoothers(measured())["u"]
    miss = smoother.smooth(np.asarray(measured().fields["u"])) - exact
    drawn = np.stack([smoother.draw(SIGMA, rng) for _ in range(20)])
    assert smoother.sigma == pytest.approx(SIGMA, rel=0.1)
    assert np.std(miss) < 0.4 * SIGMA
    assert np.std(drawn) == pytest.approx(np.std(miss), rel=0.3)
    clean = smoothers(Data(TIMES, {"u": exact}, RING))["u"]
    assert np.abs(clean.smooth(exact) - exact).max() < 1e-6


def test_the_record_is_stored_and_read_again():
    made = Forecast(
        TIMES[:3], np.array([False, False, True]), np.ones(3), np.full(3, 0.5), 0.1, np.full(3, 0.9), 5, 1, "«so»."
    )
    again = forecast_of(json.loads(json.dumps(plain(vars(made)))))
    assert again is not None
    assert all(np.array_equal(value, vars(again)[key]) for key, value in vars(made).items())
    assert "1 of them broke off" in made.text
    assert "held out" in str(made)


def test_bands_of_few_draws_cover_a_new_value():
    """c (1 + 1/m) s²: 95% of new values for any m."""
    rng = np.random.default_rng(0)
    for m in (3, 5, 20):
        draws, new = rng.standard_normal((m, 20000)), rng.standard_normal(20000)
        variance = band_variance(draws.var(axis=0, ddof=1), np.zeros(1), m)
        assert np.mean(np.abs(new - draws.mean(axis=0)) <= 1.96 * np.sqrt(variance)) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(
    ("error", "spread", "coverage", "failed", "word"),
    [
        (0.1, 0.01, 0.95, 0.0, "forecasts the held-out"),
        (0.9, 0.9, 0.95, 0.0, "says little"),
        (0.9, 0.01, 0.3, 0.0, "wrong"),
        (0.11, 0.01, 0.8, 0.0, "too narrow"),
        (0.1, 0.01, 0.95, 0.8, "broke off"),
    ],
)
def test_the_status_says_what_the_numbers_show(error, spread, coverage, failed, word):
    held = np.arange(5) > 2
    numbers = (np.full(5, error), np.full(5, spread), 0.1, np.full(5, coverage))
    assert word in forecast_status(np.arange(5.0), held, *numbers, failed=failed)
