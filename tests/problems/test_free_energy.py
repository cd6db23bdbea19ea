"""The free energy of the Cahn–Hilliard case against its definition and the paper's table."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.studies.problems.free_energy import COEFFICIENTS, MOBILITY, chemical, energy

TABLE = {
    (4, 0): 3.998,
    (2, 2): 7.997,
    (3, 0): -7.997,
    (2, 1): -10.796,
    (1, 2): -7.997,
    (2, 0): 8.906,
    (1, 1): 10.796,
    (0, 4): 3.998,
    (0, 3): -7.064,
    (0, 2): 6.107,
}


@pytest.fixture
def points():
    return np.random.default_rng(0).uniform(-0.5, 1.5, (2, 7, 5))


def definition(c1, c2, d=0.4, s=0.7):
    u, v = 2 * c1 - 1, 2 * c2 - 1
    square = u**2 + v**2
    return 3 * d / (2 * s**4) * square**2 + d / s**3 * v * (v**2 - 3 * u**2) - 3 * d / (2 * s**2) * square


def test_the_expansion_is_the_definition(points):
    assert_allclose(energy(*points), definition(*points), rtol=1e-12, atol=1e-12)


def test_the_chemical_potentials_are_the_derivatives(points):
    """Im g(c + ih)/h, exact to rounding."""
    c1, c2 = points
    g1, g2 = chemical(c1, c2)
    assert_allclose(g1, definition(c1 + 1e-30j, c2).imag / 1e-30, rtol=1e-11, atol=1e-11)
    assert_allclose(g2, definition(c1, c2 + 1e-30j).imag / 1e-30, rtol=1e-11, atol=1e-11)


def test_there_are_three_wells_of_equal_depth():
    """At |(u, v)| = s, 120° apart; the middle is a maximum."""
    angle = np.deg2rad([-90, 30, 150])
    wells = (1 + 0.7 * np.array([np.cos(angle), np.sin(angle)])) / 2
    assert_allclose(chemical(*wells), 0, atol=1e-12)
    assert_allclose(energy(*wells), energy(wells[0, 0], wells[1, 0]), rtol=1e-12)
    assert (energy(*wells) < energy(np.array(0.5), np.array(0.5))).all()


def test_the_effective_coefficients_are_those_of_the_table():
    assert set(COEFFICIENTS) == set(TABLE)
    for exponents, value in TABLE.items():
        assert_allclose(COEFFICIENTS[exponents], value, atol=5.1e-4)


def test_the_coefficients_give_the_energy_up_to_linear_terms(points):
    c1, c2 = points
    rest = MOBILITY * definition(c1, c2) - sum(eta * c1**a * c2**b for (a, b), eta in COEFFICIENTS.items())
    linear = np.stack([np.ones(c1.size), c1.ravel(), c2.ravel()], axis=1)
    fitted = linear @ np.linalg.lstsq(linear, rest.ravel())[0]
    assert_allclose(rest.ravel(), fitted, atol=1e-11)
