"""Anderson acceleration: exact for affine maps after as many steps as there are dimensions, safe for others."""

import numpy as np
from numpy.testing import assert_allclose

from bvsi.infer.lagged import Anderson


def iterate(phi, theta, steps):
    ahead, sd = Anderson(), np.full(len(theta), 0.3)
    for _ in range(steps):
        theta = ahead.next(theta, phi(theta), sd)
    return theta


def test_an_affine_map_is_solved_in_as_many_steps_as_it_has_dimensions():
    rng = np.random.default_rng(0)
    A = 0.95 * np.linalg.qr(rng.standard_normal((3, 3)))[0]
    c = rng.standard_normal(3)
    fixed = np.linalg.solve(np.eye(3) - A, c)
    found = iterate(lambda t: A @ t + c, np.zeros(3), 5)
    assert_allclose(found, fixed, rtol=1e-6)
    plain = np.zeros(3)
    for _ in range(5):
        plain = A @ plain + c
    assert np.linalg.norm(plain - fixed) > 0.1 * np.linalg.norm(fixed)


def test_a_slow_nonlinear_map_converges_sooner_to_the_same_point():
    start, fixed = np.array([0.1, 1.2]), 0.7390851332151607
    found, plain = iterate(np.cos, start, 8), start
    for _ in range(8):
        plain = np.cos(plain)
    assert np.abs(found - fixed).max() < 1e-4 < 1e-2 < np.abs(plain - fixed).max()


def test_a_fixed_point_stays():
    theta = np.array([1.0, 2.0])
    assert_allclose(iterate(lambda t: t, theta, 4), theta)
