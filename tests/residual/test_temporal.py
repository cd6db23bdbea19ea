"""Temporal test functions: integrals against exact ones, second time derivatives, gaps, uneven steps, refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.errors import DataError
from bvsi.operators import Library
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, TemporalTests, assemble
from bvsi.residual.stencils import trapezoidal
from bvsi.residual.widths import aligned_in_time
from bvsi.spaces import SplineTests

OMEGA = 5.0


def signal(t, order=0):
    """∂_t^order of sin(ωt + 0.3)."""
    return OMEGA**order * np.sin(OMEGA * t + 0.3 + 0.5 * np.pi * order)


def exact_integrals(splines, order):
    """∫ ψ_k ∂_t^order u dt by Gauss–Legendre on every piece, (n,)."""
    x, w = np.polynomial.legendre.leggauss(10)
    edges = splines.start + splines.gap * np.arange(splines.pieces)
    points = (edges[:, None] + splines.gap * (x + 1) / 2).ravel()
    weights = np.tile(w * splines.gap / 2, splines.pieces)
    which, values = splines.functions(points), splines.values(points)
    total = np.zeros(splines.n)
    there = which >= 0
    np.add.at(total, which[there], (values * (weights * signal(points, order))[:, None])[there])
    return total


def quadrature_errors(stencil, times, order):
    """Largest errors of a u and b u^(order), in units of ∫ψ."""
    a, b = stencil.matrices(times, order)
    exact, gap = exact_integrals(stencil.splines(times), order), stencil.splines(times).gap
    return np.abs(a @ signal(times) - exact).max() / gap, np.abs(b @ signal(times, order) - exact).max() / gap


@pytest.mark.parametrize("degree", [4, 5, 7])
@pytest.mark.parametrize("order", [1, 2])
def test_quadrature_converges_with_high_order_while_the_functions_stay(degree, order):
    """Fixed functions, finer samples that miss their knots: the error of a is O(h^(p+1−m)), that of b O(h^(p+1))."""
    steps = np.array([41, 83])
    errors = np.array(
        [quadrature_errors(TemporalTests(degree, n / 12), np.linspace(0, 2, n + 1), order) for n in steps]
    )
    rates = np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0])
    assert errors[0].max() < 0.02 * OMEGA**order
    assert rates[0] > degree + 1 - order - 0.6
    assert rates[1] > degree + 1 - 0.6


@pytest.mark.parametrize("order", [1, 2])
def test_functions_a_whole_number_of_steps_wide_are_far_more_accurate(order):
    """Knots on samples: the quadrature sees no alias of a function's own spectrum."""
    times = np.linspace(0, 2, 49)
    on, off = (quadrature_errors(TemporalTests(5, gap), times, order)[0] for gap in (2.0, 48 / 26))
    assert on < 0.2 * off


@pytest.mark.parametrize("order", [1, 2])
def test_both_sides_of_an_equation_agree_as_the_step_falls(order):
    """Functions of a fixed number of steps: a u − b ∂_t^m u goes to zero with the order p + 1 − m."""
    errors = []
    for n in (60, 120):
        times = np.linspace(0, 2, n + 1)
        a, b = TemporalTests(5, 2.0).matrices(times, order)
        errors.append(np.abs(a @ signal(times) - b @ signal(times, order)).max() / (2.0 * times[1]))
    assert np.log2(errors[0] / errors[1]) > 5.9 - order
    assert errors[1] < 1e-5


def test_constants_have_no_derivative_and_linear_functions_no_second_one():
    times = np.linspace(1, 3, 31)
    a, b = TemporalTests(5, 2.0).matrices(times)
    assert_allclose(a @ np.ones(31), 0, atol=1e-12)
    assert_allclose(a @ times, b @ np.ones(31), rtol=1e-10)
    second, _ = TemporalTests(5, 2.0).matrices(times, 2)
    assert_allclose(second @ times, 0, atol=1e-10)
    assert_allclose(second @ times**2, 2 * b @ np.ones(31), rtol=1e-9)


def uneven(n):
    """Steps that differ by up to a fifth, smoothly."""
    s = np.linspace(0, 1, n + 1)
    return 2 * (s + 0.2 / (2 * np.pi) * np.sin(2 * np.pi * s) * 0.9)


def test_uneven_steps_converge_with_the_second_order_of_the_trapezoidal_rule():
    errors = []
    for n in (60, 120):
        times = uneven(n)
        stencil = TemporalTests(5, n / 14 * (2 / n) / np.median(np.diff(times)))
        errors.append(quadrature_errors(stencil, times, 1)[0])
        assert stencil.splines(times).pieces == 14
    assert np.log2(errors[0] / errors[1]) > 1.9
    assert errors[1] < 1e-3 * OMEGA
    assert_allclose(trapezoidal(uneven(60)).sum(), 2.0, rtol=1e-14)


def test_functions_over_a_gap_of_the_record_are_left_out():
    times = np.linspace(0, 4, 81)
    kept = np.delete(times, [40, 41, 42])
    stencil = TemporalTests(4, 2.0)
    whole, part = stencil.matrices(times)[0], stencil.matrices(kept)
    splines = stencil.splines(kept)
    begin = splines.start + splines.gap * np.arange(splines.n)
    clear = (begin + 5 * splines.gap <= times[39] + 1e-9) | (begin >= times[43] - 1e-9)
    assert part[0].shape == (clear.sum(), len(kept))
    assert 0 < clear.sum() < splines.n == whole.shape[0]
    exact = exact_integrals(splines, 1)[clear]
    assert_allclose(part[0] @ signal(kept), exact, atol=1e-4 * splines.gap * OMEGA)


def test_a_record_of_gaps_is_refused():
    times = np.delete(np.linspace(0, 1, 31), [4, 5, 6, 11, 12, 13, 18, 19, 20, 25, 26, 27])
    with pytest.raises(DataError, match="missing frames"):
        TemporalTests(5, 2.0).matrices(times)


def test_too_few_times_are_refused():
    with pytest.raises(DataError, match=r"at least 7 times, the data have 6.*CrankNicolson"):
        TemporalTests(5).matrices(np.linspace(0, 1, 6))
    a, _ = TemporalTests(5).matrices(np.linspace(0, 1, 7))
    assert a.shape == (1, 7)


@pytest.mark.parametrize("degree, gap", [(1, 2.0), (5, 0.0), (5, -1.0), (5, np.nan)])
def test_settings_that_make_no_function_are_refused(degree, gap):
    with pytest.raises(DataError, match="degree must be 2 or more and gap positive"):
        TemporalTests(degree, gap)


def test_a_degree_too_low_for_the_derivative_is_refused():
    with pytest.raises(DataError, match="degree 3"):
        TemporalTests(2).matrices(np.linspace(0, 1, 20), 2)


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
def test_difference_quotients_refuse_second_derivatives(stencil):
    with pytest.raises(DataError, match=r"TemporalTests\(\) for order 2"):
        stencil.matrices(np.linspace(0, 1, 9), 2)


def test_the_wave_equation_is_recovered():
    """u_tt = c² u_xx − k u with standing and travelling waves, least squares on the residual system."""
    speed, k = 1.3, 0.7
    x, t = np.arange(48) * 2 * np.pi / 48, np.linspace(0, 3, 61)[:, None]
    u = sum(
        a * np.cos(m * x - np.sqrt(speed**2 * m**2 + k) * t + p)
        for m, a, p in ((1, 1.0, 0.0), (2, 0.5, 1.0), (3, 0.2, 2.0))
    )
    data = Data(t[:, 0], {"u": u}, Grid(x=x, periodic={"x": 2 * np.pi}))
    library = Library({"u": ["laplacian(u)", "u", "dx(u)"]}, time_order=2)
    system = assemble(data, library, discretisation=SplineTests(gap=3), stencil=TemporalTests(5, 2.0))
    (residuals,) = system.experiments
    y, X = residuals.y.ravel(), residuals.X.reshape(-1, 3)
    theta, *_ = np.linalg.lstsq(X, y, rcond=None)
    assert_allclose(theta, [speed**2, -k, 0.0], atol=2e-4)
    with pytest.raises(DataError, match="order 2"):
        assemble(data, library, discretisation=SplineTests(gap=3), stencil=CrankNicolson())


RANDOM = [np.sort(np.random.default_rng(seed).uniform(0, 48, 240)) for seed in range(4)]


@pytest.mark.parametrize("times", RANDOM)
def test_irregular_times_integrate_cubics_exactly(times):
    stencil = TemporalTests(5, 6.0)
    a, b = stencil.matrices(times)
    splines, chosen = stencil.splines(times), stencil.whole(times)
    x, w = np.polynomial.legendre.leggauss(6)
    cuts = splines.start + np.arange(splines.pieces + 1) * splines.gap
    points = (cuts[:-1, None] + splines.gap * (x + 1) / 2).ravel()
    weights = np.tile(splines.gap * w / 2, splines.pieces)
    for power in range(4):
        exact = np.zeros(splines.n + 1)
        np.add.at(exact, splines.functions(points), splines.values(points) * (weights * points**power)[:, None])
        assert_allclose(b @ times**power, exact[:-1][chosen], rtol=1e-7)
        assert_allclose(a @ times**power, power * (b @ times ** max(power - 1, 0)), atol=1e-7 * 48.0**power)


@pytest.mark.parametrize("times", RANDOM)
def test_irregular_times_neither_amplify_noise_nor_damp_waves(times):
    """Polynomials through noisy values of times that nearly coincide made twelve to fifty times the noise."""
    stencil = TemporalTests(5, 6.0)
    even = stencil.matrices(np.linspace(0, 48, 240))
    matrices = stencil.matrices(times)
    for ours, theirs in zip(matrices, even, strict=True):
        sizes = [np.sqrt(np.mean(np.square(m.toarray()).sum(axis=1))) for m in (ours, theirs)]
        assert sizes[0] < 2 * sizes[1]
    omega = 2 * np.pi / (8 * stencil.splines(times).gap)  # the shortest wave for which such gaps are chosen
    wave = np.exp(1j * omega * times)
    left, right = matrices[0] @ wave, 1j * omega * (matrices[1] @ wave)
    assert np.abs(left - right).max() < 2e-4 * np.abs(left).max()


def test_irregular_times_take_the_gap_with_the_most_functions():
    for times in RANDOM:
        wider = aligned_in_time(2.0, times, 5)
        counts = [TemporalTests(5, gap).whole(times).sum() for gap in (2.0, wider)]
        assert 2.0 <= wider <= 4.0
        assert counts[0] <= counts[1]
    assert any(aligned_in_time(2.0, times, 5) > 2.0 for times in RANDOM)
