"""Quadratic programs: against every working set tried, optimality conditions, units, degenerate rows, projection."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from constraint_cases import brute_force, named, random_constraints, random_precision
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer.constraints import Constraints, as_linear, project, solve_program

NAMES = ("a", "b", "c", "d")


def check_optimal(P, g, rows, found):
    """The optimality conditions, in units that make P a correlation matrix."""
    x = found
    value, size = rows.A @ x, np.abs(rows.A) @ np.abs(x)
    scale = np.sqrt(np.diag(P))
    terms = (np.abs(P) @ np.abs(x) + np.abs(g)) / scale
    assert (rows.lower - value <= 1e-12 * size).all()
    assert (value - rows.upper <= 1e-12 * size).all()
    assert (rows.lower <= value)[rows.single].all()
    assert (value <= rows.upper)[rows.single].all()
    at_lower, at_upper = np.abs(value - rows.lower) <= 1e-12 * size, np.abs(value - rows.upper) <= 1e-12 * size
    assert np.abs(gradient_left((P @ x - g) / scale, rows.A / scale, at_lower, at_upper)).max() <= 1e-10 * terms.max()


def gradient_left(slope, A, at_lower, at_upper):
    """What rows cannot hold of a slope: at lower bounds they push up, at upper ones down, equalities either way."""
    unit = A / np.linalg.norm(A, axis=1)[:, None]
    pushes = np.concatenate([unit[at_lower], -unit[at_upper], np.zeros((1, A.shape[1]))])
    return pushes.T @ scipy.optimize.nnls(pushes.T, slope)[0] - slope


@pytest.mark.parametrize("spread", [0, 8])
@pytest.mark.parametrize("equalities", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_against_every_working_set(seed, equalities, spread):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-spread, spread, 3)
    rows = random_constraints(rng, 3, 4, units, equalities)
    P, g = random_precision(rng, 3, units), 10 * rng.standard_normal(3) / units
    found = solve_program(P, g, rows)
    assert_allclose(found / units, brute_force(P, g, rows) / units, rtol=1e-9, atol=1e-9)
    check_optimal(P, g, rows, found)


@pytest.mark.parametrize("spread", [0, 8])
@pytest.mark.parametrize("seed", range(30))
def test_optimality_conditions(seed, spread):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 12)), int(rng.integers(1, 20))
    units = 10.0 ** rng.uniform(-spread, spread, d)
    rows = random_constraints(rng, d, m, units, equalities=min(m, d) // 3)
    P, g = random_precision(rng, d, units), 10.0 ** rng.uniform(-1, 3) * rng.standard_normal(d) / units
    check_optimal(P, g, rows, solve_program(P, g, rows))


def test_nonnegative_least_squares():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
    rows = Constraints(bounds=dict.fromkeys("abcdef", (0, None))).bind(tuple("abcdef"))
    found = solve_program(X.T @ X, X.T @ y, rows)
    expected, _ = scipy.optimize.nnls(X, y)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert (found == 0).any()
    assert not (found == 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_corner_where_many_rows_meet(seed):
    """More rows than dimensions meet in one point, some are redundant, some hold without a multiplier."""
    rng = np.random.default_rng(seed)
    directions = np.abs(rng.integers(0, 3, (8, 3))).astype(float)
    directions[~directions.any(axis=1)] = 1.0
    corner = rng.integers(-2, 3, 3).astype(float)
    A = np.concatenate([np.eye(3), directions, directions[:2] * 3])
    rows = named(A, A @ corner, np.full(len(A), np.inf))
    P = random_precision(rng, 3, np.ones(3))
    g = P @ corner - A[:5].T @ rng.exponential(size=5)
    found = solve_program(P, g, rows)
    assert_array_equal(found, corner)
    check_optimal(P, g, rows, found)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_an_optimum_that_just_touches_a_row(scale):
    """The free optimum lies on two bounds: no row pushes, and rounding must not break any."""
    rng = np.random.default_rng(0)
    P = random_precision(rng, 4, np.full(4, scale))
    x = np.array([0.1, 0.3, -0.7, 2.0]) * scale
    rows = as_linear([f"a >= {float(x[0])!r}", f"b <= {float(x[1])!r}", "d >= 0"], NAMES)
    found = solve_program(P, P @ x, rows)
    assert_allclose(found, x, rtol=1e-12)
    assert found[0] >= x[0]
    assert found[1] <= x[1]


def test_equalities_hold_and_bounds_hold_to_the_last_bit():
    rows = as_linear(["a == 3*b", "b + c == 0.3", "a >= 0.1", "c <= 0.1", "d == 0.7"], NAMES)
    rng = np.random.default_rng(1)
    for _ in range(50):
        P, g = random_precision(rng, 4, np.ones(4)), 30 * rng.standard_normal(4)
        found = solve_program(P, g, rows)
        assert found[0] >= 0.1
        assert found[2] <= 0.1
        assert found[3] == 0.7
        check_optimal(P, g, rows, found)


def test_one_point_is_left():
    rows = as_linear(["a == 1", "a + b == 3", "c == b", "d - c == 0.5", "2*a + b == 4"], NAMES)
    found = solve_program(np.eye(4), np.ones(4), rows)
    assert_allclose(found, [1, 2, 2, 2.5], rtol=1e-15)


def test_without_constraints_and_far_from_them():
    rng = np.random.default_rng(2)
    P, g = random_precision(rng, 4, np.ones(4)), rng.standard_normal(4)
    free = np.linalg.solve(P, g)
    for rows in (as_linear(None, NAMES), as_linear(["a <= 1e6", "b + c >= -1e6"], NAMES)):
        found = solve_program(P, g, rows)
        assert_allclose(found, free, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_operators_and_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    texts = ["a + b <= 1", "0 <= c <= 2", "a == 2*d", "b - 3*c >= -1"]
    P, g = random_precision(rng, 4, np.ones(4)), 10 * rng.standard_normal(4)
    order = rng.permutation(4)
    expected = solve_program(P, g, as_linear(texts, NAMES))
    shuffled = as_linear([texts[i] for i in rng.permutation(4)], tuple(NAMES[i] for i in order))
    found = solve_program(P[np.ix_(order, order)], g[order], shuffled)
    assert_allclose(found, expected[order], rtol=1e-11, atol=1e-13)
    assert_allclose(solve_program(P, g, shuffled.restrict(NAMES)), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_projection(seed):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-6, 6, 5)
    rows = random_constraints(rng, 5, 7, units, equalities=1)
    P = random_precision(rng, 5, units)
    theta = 10 * rng.standard_normal(5) * units
    nearest = project(theta, rows, P)
    assert rows.satisfied(nearest)
    assert not rows.satisfied(theta)
    assert_allclose(project(nearest, rows, P) / units, nearest / units, rtol=1e-11, atol=1e-12)
    # the nearest point of a convex set: no other point lies beyond the plane through it
    for other in rng.standard_normal((20, 5)) * 10 * units:
        feasible = project(other, rows, P)
        gap = (theta - nearest) @ P @ (feasible - nearest)
        assert gap <= 1e-9 * np.sqrt((theta - nearest) @ P @ (theta - nearest) * 100)


def test_a_point_inside_stays_as_it_is():
    rows = as_linear(["a >= 0", "b + c <= 1"], NAMES)
    theta = np.array([0.1, 0.2, 0.3, 0.4])
    assert_array_equal(project(theta, rows, random_precision(np.random.default_rng(0), 4, np.ones(4))), theta)


def test_wrong_input():
    rows = as_linear("a >= 0", ("a", "b"))
    good = np.eye(2)
    for P in (np.eye(3), np.full((2, 2), np.nan), np.array([[1.0, 2.0], [0.0, 1.0]])):
        with pytest.raises(BvsiError, match="P: "):
            solve_program(P, np.ones(2), rows)
    for P in (-good, np.ones((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]])):
        with pytest.raises(NotPositiveDefiniteError, match="P: "):
            solve_program(P, np.ones(2), rows)
    for g in (np.ones(3), np.array([1.0, np.nan])):
        with pytest.raises(BvsiError, match="g: 2 finite"):
            solve_program(good, g, rows)
        with pytest.raises(BvsiError, match="theta: 2 finite"):
            project(g, rows, good)


def test_rows_that_cannot_hold_are_refused_by_the_program_as_well():
    rows = named(np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), np.full(3, 1.0), np.full(3, np.inf))
    with pytest.raises(BvsiError, match=r"constraints: .*could not be solved"):
        solve_program(np.eye(2), np.zeros(2), rows)
