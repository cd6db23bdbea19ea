"""The instrumental estimate: exact without noise, consistent with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.forward import ThetaScheme, simulate
from bvsi.infer import Lagged
from bvsi.infer.priors import GaussianPrior
from bvsi.infer.starts import instrumental
from bvsi.likelihood import Isotropic, residual_likelihood
from bvsi.likelihood.equations import instrument_shift
from bvsi.noise import IID, add_noise
from bvsi.operators import Library
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble

LIBRARY = Library({"u": ["laplacian(u)", "dx(u)"]})
TRUTH = np.array([0.05, -1.0])


@pytest.fixture(scope="module")
def clean():
    x = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    grid = Grid(x=x, periodic={"x": 2 * np.pi})
    u = np.exp(np.sin(x)) + 0.5 * np.cos(3 * x)
    start = Data.from_arrays({"u": np.stack([u, u])}, times=[0.0, 1.0], geometry=grid)
    return simulate(LIBRARY, TRUTH, start, np.linspace(0, 1, 26), scheme=ThetaScheme())


def bound(data, sigma, stencil=None):
    return residual_likelihood(assemble(data, LIBRARY, stencil=stencil or BackwardEuler()), IID(sigma))


def estimate(likelihood):
    return instrumental(likelihood, GaussianPrior({}).bind(likelihood.names))


def test_without_noise_the_coefficients_are_exact(clean):
    assert_allclose(estimate(bound(clean, 1e-3)), TRUTH, rtol=1e-8)


def test_the_mean_over_noise_is_the_truth_where_lagged_is_far_off(clean):
    sigma, runs = 0.02, 60
    data = [add_noise(clean, sigma, np.random.default_rng(seed)) for seed in range(runs)]
    found = np.array([estimate(bound(d, sigma)) for d in data])
    error = (found.mean(axis=0) - TRUTH) / (found.std(axis=0) / np.sqrt(runs))
    assert np.abs(error).max() < 4
    lagged = np.array([Lagged(tol=1e-4).fit(bound(d, sigma)).theta for d in data[:10]])
    assert abs(lagged.mean(axis=0)[0] - TRUTH[0]) > 10 * abs(found.mean(axis=0)[0] - TRUTH[0])


@pytest.mark.parametrize(("stencil", "shift"), [(BackwardEuler(), 2), (CrankNicolson(), 2), (BDF2(), 3)])
def test_instruments_share_no_time_with_their_block(clean, stencil, shift):
    structure = bound(clean, 1e-3, stencil).system.experiments[0].structure
    assert instrument_shift(structure.a, structure.b) == shift


def test_too_few_blocks_for_instruments_give_none(clean):
    short = bound(clean.select_times(slice(0, 3)), 1e-3)
    assert estimate(short) is None


def test_a_tight_prior_settles_the_estimate(clean):
    likelihood = bound(add_noise(clean, 0.02, np.random.default_rng(0)), 0.02)
    prior = GaussianPrior({"dx(u)": (-0.5, 1e-14)})
    found = instrumental(likelihood, prior.bind(likelihood.names))
    assert_allclose(found[1], -0.5, atol=1e-6)


def test_unweighted_residuals_have_no_instruments(clean):
    likelihood = residual_likelihood(assemble(clean, LIBRARY), IID(1.0), Isotropic())
    assert estimate(likelihood) is None
