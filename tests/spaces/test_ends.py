"""Test functions that reach the ends of an axis: exact for polynomials, unbiased, and with smaller error bars."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.discovery import Method, discover
from bvsi.operators import Library
from bvsi.residual import TemporalTests
from bvsi.spaces import SplineTests
from bvsi.spaces.axis import UniformSplines, spline_matrix, with_ends

AXIS = np.linspace(1.0, 4.0, 61)


def splines(vanishing, pieces=13, degree=6):
    return UniformSplines(1.0, 3.0, pieces, degree, vanishing=vanishing)


@pytest.mark.parametrize("vanishing", [0, 1, 2, 4])
def test_functions_vanish_at_both_ends_to_the_order_that_was_asked_for(vanishing):
    own = splines(vanishing)
    ends = np.array([1.0, 4.0])
    for order in range(vanishing):
        assert_allclose(spline_matrix(own, ends, order).toarray(), 0, atol=1e-9)
    assert np.abs(spline_matrix(own, ends, vanishing).toarray()).max() > 0.1
    assert own.n == 13 + 6 - 2 * vanishing


def test_with_all_functions_they_sum_to_one_and_the_inner_ones_are_the_usual():
    every, inner = spline_matrix(splines(0), AXIS).toarray(), spline_matrix(splines(None), AXIS).toarray()
    assert_allclose(every.sum(axis=0), 1, rtol=1e-12)
    assert_allclose(every[~splines(0).at_ends], inner, atol=1e-12)
    begin, end = splines(0).supports
    assert np.all(every[(begin[:, None] - 1e-9 > AXIS) | (end[:, None] + 1e-9 < AXIS)] == 0)


@pytest.mark.parametrize("pieces", [5, 13, 28])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_integration_by_parts_is_exact_for_polynomials_however_narrow_the_functions(pieces, order):
    """∫ φ g^(m) = (−1)^m ∫ φ^(m) g where φ vanishes with m derivatives, for g of degree 5."""
    own, g = splines(order, pieces), Polynomial([0.3, -1.0, 0.7, 0.2, -0.15, 0.03], domain=[1, 4], window=[-1, 1])
    x, w = np.polynomial.legendre.leggauss(10)
    edges = 1.0 + own.gap * np.arange(pieces)
    points = (edges[:, None] + own.gap * (x + 1) / 2).ravel()
    exact = spline_matrix(own, points) @ (np.tile(w * own.gap / 2, pieces) * g.deriv(order)(points))
    sums = with_ends(spline_matrix(own, AXIS, order) * (AXIS[1] - AXIS[0]), own, AXIS, order)
    found = (-1) ** order * sums @ g(AXIS)
    at_ends = own.at_ends
    assert at_ends.any()
    assert_allclose(found[at_ends], exact[at_ends], atol=1e-9 * np.abs(exact).max())


def test_functions_are_fewer_than_frames():
    for frames in (5, 6, 7, 12, 61):
        own = TemporalTests(3 if frames < 9 else 5, 1.0, ends=True).splines(np.linspace(0, 1, frames))
        assert 1 <= own.n < frames - 1


def heat(rng, nodes=61, frames=25, sigma=0.01):
    """u_t = 0.3 u_xx on a part of the line, which two waves cross."""
    x, t = np.linspace(0, 4, nodes), np.linspace(0, 1, frames)[:, None]
    u = sum(np.exp(-0.3 * k**2 * t) * np.cos(k * x + p) for k, p in ((1.0, 0.3), (2.0, 1.1)))
    return Data.from_arrays({"u": u + sigma * rng.standard_normal(u.shape)}, times=t[:, 0], geometry=Grid(x=x))


def test_estimates_stay_unbiased_and_error_bars_get_smaller():
    library = Library({"u": ["dx(dx(u))"]}, keep="all")
    z, ratio = [], []
    for seed in range(12):
        data = heat(np.random.default_rng([77, seed]))
        plain, further = (
            discover(data, library, method=Method(tests=SplineTests(ends=ends)), check=False) for ends in (False, True)
        )
        z.append((further.theta[0] - 0.3) / further.sd[0])
        ratio.append(further.sd[0] / plain.sd[0])
    assert "ends=True" in repr(further.method)
    assert np.mean(ratio) < 0.8
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.6
    assert abs(np.mean(z)) < 3 / np.sqrt(len(z))


def test_discover_turns_to_the_ends_only_where_the_choice_is_open():
    """Growth with saturation seen for a short time: u² or u³, which the inner functions cannot tell apart."""
    x, t = np.linspace(0, 2 * np.pi, 48, endpoint=False), np.linspace(0, 1, 21)
    start = 0.6 + 0.3 * np.cos(x) + 0.1 * np.sin(2 * x)
    u = 1 / (1 + (1 / start - 1) * np.exp(-t[:, None]))  # u_t = u − u²
    library = Library({"u": ["u", "u**2", "u**3"]})
    reached = {}
    for sigma in (0.002, 0.04):
        noisy = u + sigma * np.random.default_rng(5).standard_normal(u.shape)
        data = Data.from_arrays({"u": noisy}, times=t, geometry=Grid(x=x, periodic={"x": 2 * np.pi}))
        found = discover(data, library, check=False)
        reached[sigma] = "reach the ends" in found.settings["reason"]
        assert reached[sigma] == found.method.stencil.ends == found.method.tests.ends
    assert reached == {0.002: False, 0.04: True}
