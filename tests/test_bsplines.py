"""B-splines along one axis: what they sum up to, their derivatives, how they close, what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import SpaceError
from bvsi.spaces.axis import UniformSplines

POINTS = np.linspace(2.0, 5.0, 241)


def on_interval(degree, pieces=20):
    return UniformSplines(2.0, 3.0, pieces, degree)


def on_ring(degree, pieces=20):
    return UniformSplines(2.0, 3.0, pieces, degree, periodic=True)


def dense(splines, points, order=0):
    """∂^order φ_i at the points, (points, n)."""
    functions, values = splines.functions(points), splines.values(points, order)
    matrix = np.zeros((len(points), splines.n))
    rows = np.broadcast_to(np.arange(len(points))[:, None], functions.shape)
    np.add.at(matrix, (rows[functions >= 0], functions[functions >= 0]), values[functions >= 0])
    return matrix


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 8])
def test_functions_sum_to_one_where_all_are_there(degree):
    assert_allclose(dense(on_ring(degree), POINTS[:-1]).sum(axis=1), 1, rtol=1e-13)
    splines = on_interval(degree)
    inner = (2 + degree * splines.gap <= POINTS) & (5 - degree * splines.gap >= POINTS)
    assert inner.any()
    assert_allclose(dense(splines, POINTS[inner]).sum(axis=1), 1, rtol=1e-13)
    assert np.all(dense(splines, POINTS) >= 0)


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_all_polynomials_up_to_the_degree_are_sums_of_them(degree):
    splines = on_interval(degree)
    inner = POINTS[(2 + degree * splines.gap <= POINTS) & (5 - degree * splines.gap >= POINTS)]
    basis = dense(splines, inner)
    for power, contained in ((degree, True), (degree + 1, False)):
        target = (inner - 3.5) ** power
        fit, *_ = np.linalg.lstsq(basis, target, rcond=None)
        assert (np.abs(basis @ fit - target).max() < 1e-12) == contained


@pytest.mark.parametrize("periodic", [False, True], ids=["interval", "ring"])
@pytest.mark.parametrize("degree, order", [(3, 1), (3, 2), (5, 1), (5, 3), (7, 4)])
def test_derivatives_are_those_of_differences(degree, order, periodic):
    splines = on_ring(degree) if periodic else on_interval(degree)
    h = 1e-5
    x = POINTS[1:-1]
    difference = (dense(splines, x + h, order - 1) - dense(splines, x - h, order - 1)) / (2 * h)
    exact = dense(splines, x, order)
    assert_allclose(difference, exact, atol=2e-4 * np.abs(exact).max())
    assert np.abs(exact).max() > 0.1


def test_derivatives_beyond_the_degree_are_zero():
    assert not on_interval(3).values(POINTS, 4).any()
    assert on_interval(3).values(POINTS, 3).any()


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_functions_inside_vanish_at_both_ends_with_their_derivatives(degree):
    for order in range(degree):
        assert_allclose(dense(on_interval(degree), np.array([2.0, 5.0]), order), 0, atol=1e-9)
    assert np.abs(dense(on_interval(degree), np.array([2.0 + 1e-9]), degree)).max() > 0.5


def test_integrals_are_one_gap_and_derivatives_have_none():
    x, w = np.polynomial.legendre.leggauss(8)
    splines = on_interval(5)
    edges = np.linspace(2, 5, splines.pieces + 1)
    points = (edges[:-1, None] + splines.gap * (x + 1) / 2).ravel()
    weights = np.tile(w * splines.gap / 2, splines.pieces)
    assert_allclose(weights @ dense(splines, points), splines.gap, rtol=1e-12)
    assert_allclose(weights @ dense(splines, points, 1), 0, atol=1e-12)
    assert_allclose((weights * points) @ dense(splines, points) / splines.gap, splines.centres, rtol=1e-12)


@pytest.mark.parametrize("degree", [2, 5])
def test_a_ring_closes(degree):
    splines = on_ring(degree)
    assert splines.n == splines.pieces
    a, b = 2.0 + 1e-9, 5.0 - 1e-9
    assert_allclose(dense(splines, np.array([a])), dense(splines, np.array([b])), atol=1e-7)
    shifted = dense(splines, np.array([2.3 + splines.gap]))
    assert_allclose(np.roll(dense(splines, np.array([2.3])), 1, axis=1), shifted, atol=1e-13)
    assert np.all((splines.centres >= 2) & (splines.centres < 5))


def test_a_function_stands_where_its_centre_is():
    for splines in (on_interval(5), on_ring(5)):
        assert_array_equal(np.argmax(dense(splines, splines.centres), axis=1), np.arange(splines.n))


def test_pieces_fill_the_axis_evenly_and_suffice_for_one_function():
    assert UniformSplines.by_gap(0.0, 10.0, 1.9, 3, periodic=False).pieces == 5
    assert UniformSplines.by_gap(0.0, 10.0, 100.0, 3, periodic=False).n == 1
    assert UniformSplines.by_gap(0.0, 10.0, 1.9, 3, periodic=False).gap == 2


def test_what_makes_no_function_is_refused():
    with pytest.raises(SpaceError, match="degree: 0"):
        UniformSplines(0.0, 1.0, 5, 0)
    with pytest.raises(SpaceError, match="smaller gap"):
        UniformSplines(0.0, 1.0, 5, 5)
