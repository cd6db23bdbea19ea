"""The cosine-spectral Cahn–Hilliard solver: exact solutions, invariants, convergence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.fft import dctn

from bvsi.errors import BvsiError
from bvsi.studies.problems.cosine_spectral import LENGTH, solve, white_noise
from bvsi.studies.problems.free_energy import energy

M, K = 0.1, 10.0


def fields(solution):
    return np.stack([solution["c1"], solution["c2"]])


def modes(n, i, j):
    x = np.arange(n + 1) / n
    return np.outer(np.cos(np.pi * i * x), np.cos(np.pi * j * x))


def mean(c):
    """Trapezoidal mean over the square, exact for the cosine interpolant but for its fastest mode."""
    w = np.full(c.shape[-1], 1.0)
    w[[0, -1]] = 0.5
    return np.einsum("...ij,i,j->...", c, w, w) / w.sum() ** 2


def total_energy(c1, c2):
    """∫ g + k/2 (|∇c₁|² + |∇c₂|²) dx, the gradient part by Parseval's theorem."""
    n = c1.shape[-1] - 1
    q = np.pi * np.arange(n + 1) / LENGTH
    share = np.where(np.arange(n + 1) == 0, 1.0, 0.5)
    scale = np.where(np.isin(np.arange(n + 1), (0, n)), 1.0, 2.0) / (2 * n)
    total = LENGTH**2 * mean(energy(c1, c2))
    for c in (c1, c2):
        a = dctn(c, type=1) * np.multiply.outer(scale, scale)
        total += LENGTH**2 * K / 2 * ((q[:, None] ** 2 + q**2) * a**2 * np.multiply.outer(share, share)).sum()
    return total


@pytest.mark.parametrize("i, j", [(1, 0), (2, 3), (0, 6)])
def test_a_mode_of_a_quadratic_energy_decays_at_its_rate(i, j):
    """g = (α₁ c₁² + α₂ c₂²)/2: each field at −m q² (α + k q²)."""
    alpha = (0.8, -1.1)
    start = {"c1": 0.5 + 0.02 * modes(10, i, j), "c2": 0.4 - 0.03 * modes(10, i, j)}
    t = np.array([0, 0.3, 1.0, 2.0])
    found = solve(start, t, cells=16, chemical=lambda c1, c2: (alpha[0] * c1, alpha[1] * c2))
    q2 = (np.pi / LENGTH) ** 2 * (i**2 + j**2)
    for (name, c), a, middle in zip(start.items(), alpha, (0.5, 0.4), strict=True):
        rate = -M * q2 * (a + K * q2)
        exact = middle + np.exp(rate * t)[:, None, None] * (c - middle)
        assert_allclose(found[name], exact, rtol=0, atol=1e-10)


def test_without_energy_the_result_is_exact_whatever_the_steps():
    """Diffusion of the gradient energy alone: e^{−mkq⁴t} of every mode of the interpolant."""
    start = white_noise((9, 9), 1)
    flat = fields(solve(start, [0, 0.7], cells=13, step=0.5, chemical=lambda c1, c2: (0 * c1, 0 * c2)))
    scale = np.where(np.isin(np.arange(9), (0, 8)), 1.0, 2.0) / 16
    for c, found in zip(start.values(), flat, strict=True):
        a = dctn(c, type=1) * np.multiply.outer(scale, scale)
        exact = sum(
            a[i, j] * np.exp(-M * K * ((np.pi / LENGTH) ** 2 * (i**2 + j**2)) ** 2 * 0.7) * modes(8, i, j)
            for i in range(9)
            for j in range(9)
        )
        assert_allclose(found[1], exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cells", [7, 10, 11, 20])
def test_nodal_values_come_back(cells):
    """The fastest mode of seven cells, on solver grids that are multiples of seven and that are not."""
    start = {"c1": 0.5 + 0 * modes(7, 0, 0), "c2": 0.1 * modes(7, 7, 7)}
    found = solve(start, [0, 1e-6], cells=cells, chemical=lambda c1, c2: (0 * c1, 0 * c2))
    rate = -M * K * (2 * (7 * np.pi / LENGTH) ** 2) ** 2
    assert_allclose(found["c1"][1], 0.5, rtol=1e-14)
    assert_allclose(found["c2"][1], np.exp(rate * 1e-6) * start["c2"], atol=1e-14)


def test_the_order_in_time_is_four():
    """Six cells, where h|Λ| is small: differences of successive halvings fall by 2⁴."""
    start = white_noise((7, 7), 0)
    results = [fields(solve(start, [0, 8.0], cells=6, step=h)) for h in (0.08, 0.04, 0.02, 0.01)]
    d = [np.linalg.norm(a - b) for a, b in pairwise(results)]
    assert_allclose(np.log2(np.array(d[:-1]) / d[1:]), 4, atol=0.3)


def test_the_defaults_are_accurate_from_white_noise():
    """Against half the step and more cells, relative to the fluctuation."""
    start, t = white_noise((41, 41), 3), [0, 0.01, 0.5]
    usual, fine = fields(solve(start, t)), fields(solve(start, t, cells=120, step=0.01))
    for found, expected in zip(usual[:, 1:].swapaxes(0, 1), fine[:, 1:].swapaxes(0, 1), strict=True):
        assert np.linalg.norm(found - expected) < 1e-6 * np.linalg.norm(expected - 0.5)


def test_mass_is_kept_and_energy_falls():
    found = solve(white_noise((51, 51), 0), np.linspace(0, 21, 15), cells=50, step=0.05)
    for c in found.values():
        assert_allclose(mean(c)[1:], mean(c)[0], rtol=1e-12)
    energies = [total_energy(c1, c2) for c1, c2 in zip(found["c1"], found["c2"], strict=True)]
    assert (np.diff(energies) < 0).all()


def test_phases_separate_about_t_20():
    found = fields(solve(white_noise((51, 51), 0), [0, 5, 20], cells=64, step=0.04))
    assert 0.48 < found[:, 1].min() < found[:, 1].max() < 0.53
    assert np.ptp(found[0, 2]) > 0.4
    assert np.ptp(found[1, 2]) > 0.35


def test_output_times_do_not_change_the_result():
    start = white_noise((21, 21), 2)
    many = fields(solve(start, np.linspace(0, 1, 101), cells=40))
    few = fields(solve(start, [0, 1.0], cells=40))
    assert many.shape == (2, 101, 21, 21)
    assert_array_equal(many[:, 0], fields(start))
    assert_allclose(many[:, -1], few[:, -1], atol=1e-9)


def test_only_differences_of_times_matter():
    start = white_noise((11, 11), 2)
    early, late = (fields(solve(start, np.array([0, 1.0]) + t0, cells=20)) for t0 in (0, 3))
    assert_allclose(late, early, atol=1e-14)


def test_white_noise_is_the_papers_and_has_a_seed():
    noise = white_noise((51, 51), 4)
    assert list(noise) == ["c1", "c2"]
    both = fields(noise)
    assert_array_equal(both, 0.5 + np.random.default_rng(4).uniform(-0.03, 0.03, (2, 51, 51)))
    assert not np.array_equal(both[0], both[1])
    assert not np.array_equal(both, fields(white_noise((51, 51), 5)))


def test_progress_is_reported():
    seen = []
    solve(white_noise((5, 5), 0), [1, 1.1, 1.2], cells=8, progress=lambda *report: seen.append(report))
    assert_allclose([done for done, _, _ in seen], [0.1, 0.2])
    assert_allclose([total for _, total, _ in seen], 0.2)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"cells": 4}, "cells"),
        ({"step": 0.0}, "step"),
        ({"step": float("nan")}, "step"),
        ({"times": [0, 1, 1]}, "times"),
        ({"times": []}, "times"),
        ({"initial": {"c1": np.ones((6, 6))}}, "initial"),
        ({"initial": {"c1": np.ones((6, 6)), "c2": np.ones((6, 5))}}, "initial"),
        ({"initial": {"c1": np.ones((6, 6)), "c2": np.full((6, 6), np.nan)}}, "initial"),
        ({"chemical": lambda c1, c2: (c1**3 * -1e6, c2), "times": [0, 1]}, "not finite"),
    ],
)
def test_impossible_requests_are_refused(change, match):
    arguments = {"initial": white_noise((6, 6), 0), "times": [0, 0.1], "cells": 8, **change}
    with pytest.raises(BvsiError, match=match):
        solve(arguments.pop("initial"), arguments.pop("times"), **arguments)
