"""Starts strictly inside the constraints."""

from __future__ import annotations

import numpy as np
import pytest
from constraint_cases import random_constraints
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.errors import InfeasibleError
from bvsi.infer.constraints import as_linear, interior
from bvsi.infer.constraints.program import SLACK

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("spread", [0, 8])
@pytest.mark.parametrize("seed", range(10))
def test_strictly_inside(seed, spread):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-spread, spread, 5)
    rows = random_constraints(rng, 5, 8, units, equalities=1)
    theta = interior(10 * rng.standard_normal(5) * units, 0.1 * units, rows)
    value = rows.A @ theta
    slack = np.minimum(value - rows.lower, rows.upper - value)
    assert (slack[~rows.equality] > 0).all()
    assert rows.satisfied(theta)


def test_slack_is_a_share_of_the_scale():
    rows = as_linear(["a >= 0", "b <= 2", "0 <= c <= 1e-6"], NAMES)
    theta = interior(np.array([-5.0, 9.0, 3.0]), np.array([1.0, 1e-3, 10.0]), rows)
    assert_allclose(theta, [SLACK, 2 - SLACK * 1e-3, 1e-6 - SLACK * 0.5e-6], rtol=1e-9)


def test_a_point_with_room_stays():
    rows = as_linear(["a >= 0", "b + c <= 2"], NAMES)
    theta = np.array([1.0, 0.2, 0.3])
    assert_array_equal(interior(theta, np.ones(3), rows), theta)
    assert_array_equal(interior(theta, np.ones(3), as_linear(None, NAMES)), theta)


def test_a_narrow_set_has_a_start():
    rows = as_linear(["a - b >= 0", "a - 1.000001*b <= 0", "1 <= b <= 2"], NAMES)
    theta = interior(np.array([50.0, 1.0, 0.0]), np.ones(3), rows)
    assert theta[1] < theta[0] < 1.000001 * theta[1]


def test_equalities_are_kept():
    rows = as_linear(["a == b", "b >= 0", "c == 0.1"], NAMES)
    assert_allclose(interior(np.array([-1.0, -1.0, 0.0]), np.ones(3), rows), [SLACK, SLACK, 0.1], rtol=1e-12)


def test_no_room():
    rows = as_linear(["a >= b", "b >= c", "c >= a", "a <= 5"], NAMES)
    with pytest.raises(InfeasibleError, match="no room is left inside 'a >= b'; 'b >= c'; 'c >= a'") as caught:
        interior(np.zeros(3), np.ones(3), rows)
    assert caught.value.rows == ("a >= b", "b >= c", "c >= a")
