"""Under the noise model the tests have the p-values that they claim."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.check.residual_tests import misfit_test, noise_tests, residual_tests
from bvsi.data import Data, Grid
from bvsi.infer import Profile
from bvsi.likelihood import Block, residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.operators import Library
from bvsi.residual import CrankNicolson, assemble
from bvsi.spaces import Q2, Galerkin
from check.diagnose_cases import SIGMA, TRUTH, Case, noisy, wave


@pytest.mark.parametrize("freedom, error", [(50.0, 0.0), (2000.0, 0.0), (2000.0, 0.05)])
def test_p_values_of_the_misfit_are_uniform(freedom, error):
    rng = np.random.default_rng(0)
    level = (1 + error * rng.standard_normal(4000)) ** 2
    chi2 = level * rng.chisquare(freedom, 4000) / freedom
    p = np.array([misfit_test(float(c), freedom, error).p for c in chi2])
    assert abs(np.mean(p < 0.05) - 0.05) < 0.015
    assert np.mean(p < 1e-3) < 5e-3
    assert abs(np.mean(p) - 0.5) < 0.02


def test_p_values_of_residual_tests_are_not_small_under_the_model():
    p: dict[str, list[float]] = {}
    for seed in range(16):
        case = Case(noisy(wave(nodes=24, times=41, modes=1), seed), gap_x=2.0, gap_t=2.0)
        likelihood = case.likelihood()
        fit = Profile().fit(likelihood)
        for test in residual_tests(fit, likelihood, noise_error=0.0, rng=np.random.default_rng(seed)).tests:
            p.setdefault(test.name, []).append(test.p)
    assert len(p) == 4
    for values in p.values():
        assert min(values) > 5e-4
        assert 0.25 < np.mean(values) < 0.75


def test_misfit_has_n_minus_d_degrees_of_freedom():
    likelihood = Case(noisy(wave(), 0)).likelihood()
    found = residual_tests(Profile().fit(likelihood), likelihood, noise_error=0.0, rng=np.random.default_rng(0))
    assert found.freedom == likelihood.system.n - 2


def test_what_functions_took_is_no_freedom_of_the_misfit():
    likelihood = Case(noisy(wave(), 0)).likelihood()
    fit = Profile().fit(likelihood)
    plain, less = (
        residual_tests(fit, likelihood, noise_error=0.0, rng=np.random.default_rng(0), absorbed=a) for a in (0.0, 20.0)
    )
    assert less.freedom == pytest.approx(plain.freedom - 20)
    assert less.tests[0].statistic == pytest.approx(plain.tests[0].statistic * plain.freedom / less.freedom)


def test_block_weighting_has_fewer_degrees_of_freedom_and_is_not_alarmed():
    """About 0.64 n, which forty draws tell to a fifth, and never more than n − d."""
    clean, freedom = wave(nodes=64, times=61, modes=2), []
    for seed in range(6):
        data = add_noise(clean, {"u": SIGMA}, np.random.default_rng(seed))
        library = Library({"u": list(TRUTH)})
        system = assemble(data, library, discretisation=Galerkin(Q2), stencil=CrankNicolson())
        likelihood = residual_likelihood(system, IID(SIGMA), Block())
        found = residual_tests(Profile().fit(likelihood), likelihood, noise_error=0.0, rng=np.random.default_rng(seed))
        freedom.append(found.freedom / likelihood.system.n)
        assert found.tests[0].p > 1e-3
    assert np.mean(freedom) < 0.9


def test_white_noise_is_white_whatever_the_signal_and_smoothed_noise_is_not():
    found = {}
    for passes in (0, 1):
        data = wave()
        xi = np.random.default_rng(3).standard_normal(data.fields["u"].shape)
        for _ in range(passes):
            xi = (xi + np.roll(xi, 1, axis=0)) / np.sqrt(2)
        data = data.with_fields({"u": data.fields["u"] + SIGMA * xi})
        tests = noise_tests([data], [IID(1.0)])
        found[passes] = {t.name: t.p for t in tests if t.kind == "white"}
    assert min(found[0].values()) > 1e-3
    assert found[1]["noise correlated along time (u)"] < 1e-6
    assert found[1]["noise correlated along x (u)"] > 1e-3


@pytest.mark.parametrize("shape, periodic", [((40, 30), None), ((13, 14, 12), "x"), ((3, 300), None)])
def test_correlations_of_white_noise_have_the_spread_that_is_claimed(shape, periodic):
    names = dict(zip("xy", (np.linspace(0, 1, n) ** 1.2 for n in shape[1:]), strict=False))
    grid = Grid(**names, periodic={periodic: 1.2} if periodic else ())
    z = []
    for seed in range(100):
        noise = np.random.default_rng(seed).standard_normal((shape[0], grid.n_nodes))
        data = Data.from_arrays({"u": noise}, times=np.arange(float(shape[0])), geometry=grid)
        z.append([t.z for t in noise_tests([data], [IID(1.0)]) if t.kind == "white"])
    assert np.all(np.abs(np.mean(z, axis=0)) < 0.3)
    np.testing.assert_allclose(np.std(z, axis=0), 1.0, atol=0.2)


def test_of_large_data_the_middle_is_tested(monkeypatch):
    monkeypatch.setattr("bvsi.noise.correlation._LARGEST", 24 * 30 * 30)
    grid = Grid(x=np.arange(60.0), y=np.arange(50.0), periodic={"x": 60.0})
    noise = np.random.default_rng(0).standard_normal((30, 60, 50))
    noise[:, :10], noise[:, :, :5] = 0.0, 0.0  # were it not for the middle, zeros would forbid the test
    data = Data.from_arrays({"u": noise}, times=np.arange(30.0), geometry=grid)
    assert min(t.p for t in noise_tests([data], [IID(1.0)]) if t.kind == "white") > 1e-3
