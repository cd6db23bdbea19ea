"""What must not change the profile estimate: numbering, units, order, how experiments are cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Mesh
from bvsi.infer import Profile
from bvsi.infer.priors import GaussianPrior
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, Diagonal, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from inference.cases import reaction_diffusion
from inference.test_inference_invariance import AMOUNT, FACTORS, LENGTH, OPERATORS, TIME, in_units, plane, triangles

LIBRARY = Library({"u": OPERATORS}, boundary=NoFlux())
SIGMA = 1e-3
FIT = Profile(tol=1e-9)


@pytest.mark.parametrize("prior", [None, GaussianPrior({"u": (0.0, 1e-2)})], ids=["flat", "prior"])
def test_the_numbering_of_nodes_and_cells_does_not_matter(prior):
    """The error bars move a little: they take one draw of noise, which falls on other nodes."""
    points, times, values = plane()
    rng = np.random.default_rng(1)
    order = rng.permutation(len(points))  # new node m is old node order[m]
    cells = triangles(7)
    renamed = rng.permutation(np.argsort(order)[cells])
    sigma = rng.uniform(0.5e-3, 2e-3, len(points))

    def fit(mesh: Mesh, u: np.ndarray, s: np.ndarray):
        system = assemble(Data(times=times, fields={"u": u}, geometry=mesh), LIBRARY)
        return FIT.fit(residual_likelihood(system, Diagonal({"u": s})), prior=prior)

    first = fit(Mesh(points, cells, "triangle"), values, sigma)
    second = fit(Mesh(points[order], renamed, "triangle"), values[:, order], sigma[order])
    assert_allclose(second.theta, first.theta, rtol=1e-7)
    assert_allclose(second.posterior.variance, first.posterior.variance, rtol=0.02)
    assert_allclose(second.chi2, first.chi2, rtol=1e-8)


@pytest.fixture(scope="module")
def two_units():
    return in_units(1, 1, 1), in_units(LENGTH, TIME, AMOUNT)


def test_units_do_not_matter(two_units):
    first, second = (
        FIT.fit(residual_likelihood(s, IID(sigma))) for s, sigma in zip(two_units, (SIGMA, AMOUNT * SIGMA), strict=True)
    )
    # starts that end at the same minimum differ by rounding only, and so does the one that is kept
    assert replace(first.status, start="") == replace(second.status, start="")
    assert_allclose(second.theta, first.theta * FACTORS, rtol=1e-7)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-6)
    assert_allclose(second.score_covariance, first.score_covariance * np.outer(FACTORS, FACTORS), rtol=1e-6)
    assert_allclose(second.chi2, first.chi2, rtol=1e-8)


def test_units_do_not_matter_with_unknown_noise(two_units):
    first, second = (FIT.fit(residual_likelihood(s, UnknownScale())) for s in two_units)
    assert_allclose(second.theta, first.theta * FACTORS, rtol=1e-7)
    assert_allclose(second.posterior.covariance, first.posterior.covariance * np.outer(FACTORS, FACTORS), rtol=1e-5)
    assert_allclose(second.score_covariance, first.score_covariance * np.outer(FACTORS, FACTORS), rtol=1e-5)
    assert_allclose(second.posterior.noise_variance, first.posterior.noise_variance * AMOUNT**2, rtol=1e-7)


def test_a_prior_in_the_same_units_changes_nothing(two_units):
    first, second = (
        FIT.fit(
            residual_likelihood(s, IID(sigma)),
            prior=GaussianPrior({n: (0.1 * c, 0.01 * c**2) for n, c in zip(OPERATORS, factor, strict=True)}),
        )
        for s, sigma, factor in zip(two_units, (SIGMA, AMOUNT * SIGMA), (np.ones(3), FACTORS), strict=True)
    )
    assert_allclose(second.theta, first.theta * FACTORS, rtol=1e-7)


def test_the_order_of_operators_does_not_matter(two_units):
    system = two_units[0]
    turned = system.subset(["u", "laplacian(u)", "u*dx(u)"])
    a, b = (FIT.fit(residual_likelihood(s, IID(SIGMA))) for s in (system, turned))
    for name in OPERATORS:
        assert_allclose(a.coefficient(name), b.coefficient(name), rtol=1e-8)
        va, vb = (f.posterior.variance[f.names.index(name)] for f in (a, b))
        assert_allclose(va, vb, rtol=1e-8)


def test_the_order_of_experiments_does_not_matter():
    (one, library), (two, _) = reaction_diffusion(n=9, steps=8, seed=0), reaction_diffusion(n=13, steps=5, seed=1)
    a, b = (FIT.fit(residual_likelihood(assemble(p, library), IID(SIGMA))) for p in ([one, two], [two, one]))
    assert_allclose(a.theta, b.theta, rtol=1e-8)
    assert_allclose(a.posterior.covariance, b.posterior.covariance, rtol=0.02)
    for x, y in zip(a.chi2_blocks, reversed(b.chi2_blocks), strict=True):
        assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("cut", [1, 5])
def test_an_experiment_cut_in_two_at_a_frame_gives_the_same_estimate(stencil, cut):
    """Both parts have the frame of the cut, and so the same residual blocks as the whole."""
    data, library = reaction_diffusion(n=9, steps=8)
    pieces = [
        Data(times=data.times[part], fields={"u": data.fields["u"][part]}, geometry=data.geometry)
        for part in (slice(None, cut + 1), slice(cut, None))
    ]
    whole, cut_up = (
        FIT.fit(residual_likelihood(assemble(d, library, stencil=stencil), IID(SIGMA))) for d in (data, pieces)
    )
    assert_allclose(cut_up.theta, whole.theta, rtol=1e-8)
    assert_allclose(cut_up.chi2, whole.chi2, rtol=1e-8)
    assert_allclose(np.concatenate(cut_up.chi2_blocks), whole.chi2_blocks[0], rtol=1e-6)


def test_twice_the_same_data_halve_the_variance():
    data, library = reaction_diffusion(n=9, steps=12, sigma=1e-3)
    one, two = (FIT.fit(residual_likelihood(assemble(d, library), IID(1e-3))) for d in (data, [data, data]))
    assert_allclose(two.theta, one.theta, rtol=1e-8)
    assert_allclose(two.posterior.covariance, one.posterior.covariance / 2, rtol=0.01)


def test_experiments_with_noise_of_their_own_are_weighted_by_it():
    """A noisy experiment beside an accurate one hardly moves it."""
    (one, library), (two, _) = (reaction_diffusion(n=9, steps=12, sigma=s, seed=i) for i, s in enumerate((1e-4, 1e-2)))
    both = FIT.fit(residual_likelihood(assemble([one, two], library), [IID(1e-4), IID(1e-2)]))
    alone = FIT.fit(residual_likelihood(assemble(one, library), IID(1e-4)))
    sd = np.sqrt(alone.posterior.variance)
    assert np.abs((both.theta - alone.theta) / sd).max() < 0.3
    assert np.all(np.sqrt(both.posterior.variance) < 1.001 * sd)
