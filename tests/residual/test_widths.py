"""How wide test functions are made: bandwidths of known spectra, and what follows from them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline

from bvsi.data import Data, Grid
from bvsi.residual import TemporalTests, widths
from bvsi.residual.widths import (
    TIME_DEGREE,
    WIDTHS,
    bandwidth,
    choose_tests,
    cycles_between_frames,
    power_spectrum,
    quadrature_error,
    residual_counts,
)
from bvsi.spaces.axis import UniformSplines
from discovery.exact_cases import burgers, ring


def wave(wave_number: int = 3, frequency: int = 5, nodes: int = 120, times: int = 200, noise: float = 0.0) -> Data:
    """sin(kx) sin(2πft) on a ring, t ∈ [0, 1], with noise."""
    grid, t = ring(nodes), np.linspace(0, 1, times)
    u = np.sin(wave_number * grid.axes["x"]) * np.sin(2 * np.pi * frequency * t[:, None])
    return Data(t, {"u": u + noise * np.random.default_rng(0).standard_normal(u.shape)}, grid)


@pytest.mark.parametrize("noise", [0.0, 0.3], ids=["clean", "noisy"])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_bandwidth_of_a_sine_is_its_frequency(k, noise):
    found = bandwidth(wave(k, noise=noise), {"u": noise})
    assert_allclose(found["x"], k / 120, rtol=1e-12)
    assert 5 / 200 <= found["time"] < 9 / 200  # the window widens it by two bins


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("periodic", [True, False])
def test_white_noise_has_its_variance_at_every_frequency_in_whatever_parts(axis, periodic, monkeypatch):
    u = 0.3 * np.random.default_rng(0).standard_normal((40, 30, 31))
    whole = power_spectrum(u, axis, periodic=periodic)
    assert_allclose(whole[2:], 0.09, rtol=0.25)
    monkeypatch.setattr(widths, "_SLAB", 3000)
    assert_allclose(power_spectrum(u, axis, periodic=periodic)[1:], whole[1:], rtol=1e-12)


def test_noise_that_is_not_taken_off_fills_the_spectrum():
    assert bandwidth(wave(noise=0.3), {"u": 0.0})["x"] > 0.4


def test_the_widest_field_counts():
    slow, fast = wave(2), wave(7)
    both = Data(slow.times, {"u": slow.fields["u"], "v": fast.fields["u"]}, slow.geometry)
    assert_allclose(bandwidth(both, {})["x"], 7 / 120, rtol=1e-12)


def test_a_constant_has_the_lowest_frequency():
    still = Data(np.linspace(0, 1, 30), {"u": np.ones((30, 40))}, ring(40))
    assert bandwidth(still, {"u": 0.0}) == {"time": 1 / 30, "x": 1 / 40}


def chosen(*data: Data, derivatives: int = 2, sigma: float = 0.01):
    return choose_tests(data, [{"u": sigma}] * len(data), derivatives)


def test_twice_the_nodes_have_functions_of_the_same_length():
    coarse, fine = chosen(wave(nodes=120))[0], chosen(wave(nodes=240))[0]
    assert_allclose(fine.gap["x"] / coarse.gap["x"], 2, rtol=0.1)


def test_functions_follow_the_signal():
    slow, fast = chosen(wave(3))[0].gap["x"], chosen(wave(9))[0].gap["x"]
    assert slow > 1.7 * fast
    long = {"nodes": 480, "times": 1000}  # so many that functions are not narrower than the signal asks for
    quick, lazy = chosen(wave(60, 100, **long))[1].gap, chosen(wave(60, 25, **long))[1].gap
    assert lazy > 2 * quick


def test_functions_are_as_narrow_along_time_as_enough_residuals_allow():
    """Those that hang over the ends are lost; a periodic axis has no ends, and its functions follow the signal."""
    data = wave(3, 2, times=60)
    space, time, _ = chosen(data)
    wide = WIDTHS.time / bandwidth(data, {})["time"]
    assert time.gap < 0.5 * wide
    assert 0.5 * WIDTHS.enough < residual_counts({**space.gap, "time": time.gap}, [data])[0] < 1.5 * WIDTHS.enough
    assert space.gap["x"] > 0.8 * WIDTHS.space * 120 / 3


def test_strong_noise_is_averaged_over_wider_functions():
    data = wave(3, 2, noise=0.7, times=60)
    gaps = [choose_tests([data], [{"u": sigma}], 2)[1].gap for sigma in (0.01, 0.7)]
    assert gaps[1] > 1.9 * gaps[0]


def test_quadrature_takes_waves_for_others_with_the_spectrum_of_the_spline():
    """Σ_j φ''(j − s) e^{2πifj} over all shifts s is off by the transforms of φ'' at 1 ± f cycles per step."""
    f, gap, degree, steps = 0.1, 2.2, 6, np.arange(-1, 30)
    second = BSpline.basis_element(gap * np.arange(degree + 2), extrapolate=False).derivative(2)
    shifts = np.linspace(0, 1, 200, endpoint=False)[:, None]
    sums = np.nan_to_num(second(steps - shifts)) @ np.exp(2j * np.pi * f * steps)
    turned = sums * np.exp(-2j * np.pi * f * shifts[:, 0])  # the exact integral is its mean
    signal = np.zeros(6)
    signal[1] = 1.0
    cycles = np.linspace(0, 0.5, 6)
    noise = gap**2 * (2 * np.pi) ** 4 * np.sum(cycles**4 * np.sinc(gap * cycles) ** (2 * degree + 2))
    found = quadrature_error(signal, 1.0, gap, degree, 2)
    assert_allclose(found, np.mean(np.abs(turned - turned.mean()) ** 2) / noise, rtol=0.01)


def test_the_less_noise_the_wider_until_knots_resolve_the_signal_no_more():
    data, f = wave(9, nodes=240), 9 / 240
    gaps = [chosen(data, sigma=sigma)[0].gap["x"] for sigma in (1e-2, 1e-4, 1e-6, 1e-9)]
    assert gaps == sorted(gaps)
    assert_allclose(gaps[0], WIDTHS.space / f, rtol=0.1)
    assert 2 * gaps[0] < gaps[-1] <= WIDTHS.resolved / f


def test_several_experiments_have_functions_for_the_fastest():
    assert chosen(wave(3), wave(9))[0].gap["x"] == pytest.approx(chosen(wave(9), wave(9))[0].gap["x"])


def test_degrees_leave_four_orders_beyond_the_derivatives():
    for derivatives in (0, 2, 4):
        space, time, _ = chosen(wave(), derivatives=derivatives)
        assert space.degree == derivatives + 4
        assert time.degree == TIME_DEGREE


def travelling(cycles: float, frames: int, noise: float = 0.0) -> Data:
    """cos(3x − 2π·cycles·j) at the j-th frame."""
    grid, j = ring(96), np.arange(frames)
    u = np.cos(3 * grid.axes["x"] - 2 * np.pi * cycles * j[:, None])
    return Data(1.0 * j, {"u": u + noise * np.random.default_rng(0).standard_normal(u.shape)}, grid)


@pytest.mark.parametrize("noise", [0.0, 0.02], ids=["clean", "noisy"])
def test_a_few_frames_tell_how_fast_a_wave_travels(noise):
    for cycles in (0.1, 0.2, 0.3):
        found = cycles_between_frames([travelling(cycles, 7, noise)], [{"u": noise}])
        assert_allclose(found, cycles, rtol=1e-9 if not noise else 0.25)  # noise is taken off with room to spare
    still = Data(np.arange(7.0), {"u": 0.02 * np.random.default_rng(1).standard_normal((7, 96))}, ring(96))
    assert cycles_between_frames([still], [{"u": 0.02}]) == 0.0


@pytest.mark.parametrize(("frames", "fast"), [(5, 3), (6, 4), (7, 5), (8, 5)])
def test_of_few_frames_one_function_over_all_where_the_data_move_fast(frames, fast):
    assert chosen(travelling(0.2, frames))[1].degree == fast
    assert chosen(travelling(0.08, frames))[1].degree == 3
    assert chosen(travelling(0.2, 9))[1].degree == TIME_DEGREE


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize("f", [0.1, 0.2, 0.3])
def test_the_error_of_an_odd_degree_in_time_is_at_most_f_times_the_difference_from_the_lower_one(f, degree):
    """Σ_j ψ'(t_j) u_j + iω Σ_j ψ(t_j) u_j is zero but for aliasing."""
    times, errors = np.arange(12.0), []
    u = np.exp(2j * np.pi * f * times)
    for p in (degree - 1, degree):
        a, b = TemporalTests(p, 1.0).matrices(times)
        errors.append(abs((a @ u)[2] / (b @ u)[2]) / (2 * np.pi * f) - 1)
    assert errors[0] * errors[1] < 0
    assert 0.2 * f < errors[1] / (errors[1] - errors[0]) < f


def splines_of(data: Data, derivatives: int = 2) -> dict[str, UniformSplines]:
    """The functions along every axis, in steps of the data."""
    space, time, _ = chosen(data, derivatives=derivatives)
    n, nt = data.geometry.shape[0], len(data.times)
    periodic = "x" in data.geometry.periods
    return {
        "x": UniformSplines.by_gap(0.0, n if periodic else n - 1.0, space.gap["x"], space.degree, periodic=periodic),
        "time": UniformSplines.by_gap(0.0, nt - 1.0, time.gap, time.degree, periodic=False),
    }


CASES = {
    "few nodes and times": (burgers(20, 17), 2),
    "some more": (burgers(32, 25), 4),
    "even less": (burgers(16, 12), 2),
    "waves": (wave(3), 2),
    "short waves": (wave(25, 20), 2),
    "at the limit": (wave(40, 40), 3),
    "many": (burgers(200, 150), 2),
    "interval": (Data(np.linspace(0, 2, 40), {"u": burgers(33, 40).fields["u"]}, Grid(x=np.linspace(0, 6, 33))), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_quadrature_of_derivatives_is_exact_for_the_functions_chosen(name):
    """Σ_j φ'(x_j) = 0 up to 1e-6 of Σ_j |φ'(x_j)|: knots on nodes or nearly, or wide functions."""
    data, derivatives = CASES[name]
    for axis, splines in splines_of(data, derivatives).items():
        n = data.geometry.shape[0] if axis == "x" else len(data.times)
        points = np.arange(float(n))
        which, slope = splines.functions(points), splines.values(points, 1)
        total, size = np.zeros(splines.n), np.zeros(splines.n)
        np.add.at(total, which[which >= 0], slope[which >= 0])
        np.add.at(size, which[which >= 0], np.abs(slope[which >= 0]))
        assert np.abs(total / size).max() < 1e-6, axis


@pytest.mark.parametrize("name", CASES)
def test_no_combination_of_functions_sees_nothing(name):
    """The functions at the nodes have full rank: their noise has a positive covariance."""
    data, derivatives = CASES[name]
    for axis, splines in splines_of(data, derivatives).items():
        n = data.geometry.shape[0] if axis == "x" else len(data.times)
        points = np.arange(float(n))
        which, values = splines.functions(points), splines.values(points)
        matrix = np.zeros((n, splines.n))
        rows = np.broadcast_to(np.arange(n)[:, None], which.shape)
        np.add.at(matrix, (rows[which >= 0], which[which >= 0]), values[which >= 0])
        assert splines.n >= 1
        assert np.linalg.cond(matrix) < 1e6, axis


def test_there_are_not_too_many_residuals():
    n = 64
    axis = np.arange(n) / n
    grid = Grid(x=axis, y=axis, periodic={"x": 1.0, "y": 1.0})
    t = np.linspace(0, 1, 100)[:, None]
    x, y = grid.points.T
    data = Data(t[:, 0], {"u": np.sin(2 * np.pi * (8 * x - 9 * t)) * np.sin(2 * np.pi * 8 * y)}, grid)
    space, time, _ = chosen(data)
    assert (n / space.gap["x"]) * (n / space.gap["y"]) * (100 / time.gap) < max(
        WIDTHS.most, 100 * n**2 / WIDTHS.values
    ) * 1.5**3


def test_functions_at_the_ends_are_counted_and_leave_one_factor():
    """A plane of counts: with functions at the ends there were 6,732 residuals, in tiles with error bars 18% wider."""
    x, y = np.linspace(0, 2, 64), np.linspace(0, 1, 32)
    t = np.linspace(0, 0.4, 31)[:, None]
    grid = Grid(x=x, y=y)
    px, py = grid.points.T
    data = Data(t[:, 0], {"u": np.sin(2 * np.pi * (4 * px / 2 - 3 * t)) * np.sin(2 * np.pi * 3 * py)}, grid)
    counts = {}
    for ends in (None, 1):
        space, time, _ = choose_tests([data], [{"u": 0.3}], 2, ends=ends)
        on_grid = space.build(grid, 0, 2)
        counts[ends] = on_grid.n_tests * time.splines(t[:, 0]).n
    assert counts[None] < counts[1] < 1.5 * WIDTHS.most
    about = residual_counts(
        {**space.gap, "time": time.gap}, [data], at_ends={"x": 6 - 2 * 2, "y": 6 - 2 * 2, "time": TIME_DEGREE - 2 * 1}
    )
    assert_allclose(counts[1], about[0], rtol=0.15)


@pytest.mark.parametrize("times", [200, 1000])
def test_lines_have_most_of_what_the_spectrum_asks_for(times):
    """However long the record is, functions do not grow with it."""
    data = wave(30, times / 8, nodes=240, times=times)
    space, time, wanted = chosen(data)
    used = residual_counts({"x": space.gap["x"], "time": time.gap}, [data])[0]
    assert wanted > 4 * widths.WIDTHS.most
    assert 0.5 * wanted < used < wanted  # gaps move a little, for exact quadrature


def test_layers_at_the_ends_of_an_axis_count():
    x, t = np.linspace(0, 1, 201), np.linspace(0, 1, 21)
    layer = np.exp(-x / (0.03 + 0.02 * t[:, None]))
    found = bandwidth(Data(t, {"u": layer}, Grid(x=x)), {})["x"]
    assert found > 4 * widths.highest(layer, 1, 0.0, periodic=False)
    inside = np.exp(-0.5 * ((x - 0.5) / (0.03 + 0.02 * t[:, None])) ** 2)
    same = bandwidth(Data(t, {"u": inside}, Grid(x=x)), {})["x"]
    assert same == widths.highest(inside, 1, 0.0, periodic=False)
    noise = np.random.default_rng(0).standard_normal((2000, 64))
    expected = 64 * power_spectrum(np.eye(64), 1, periodic=False, ends=True)
    assert_allclose(power_spectrum(noise, 1, periodic=False, ends=True), expected, rtol=0.2)
    assert widths.highest(noise, 1, 1.0, periodic=False, ends=True) <= 2 / 64
