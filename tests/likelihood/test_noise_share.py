"""The noise in y and X that is drawn once, against its expectation from J and Σ_u in dense algebra.

‖G ε‖² with ε ~ N(0, Σ) and A = Gᵀ G Σ has mean tr A and variance 2 tr A².
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse
from numpy.testing import assert_allclose

from bvsi.data import Grid
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, Covariance, PerField, PerTime, UnknownScale
from bvsi.operators import Library, Mixed, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from bvsi.spaces import Q2, Galerkin
from inference.cases import UNEQUAL, dense_jacobian, dense_mass, smooth_1d

DATA = smooth_1d(11, fields=("u", "v"))
LIBRARY = Library(
    {"u": ["laplacian(u)", "u*v", "x"], "v": ["biharmonic(v)", "v**2*u", "dx(u)"]},
    boundary=ZeroNeumann(),
    biharmonic=Mixed(),
)
DRAWS = 60
N = DATA.n_nodes
BAND = np.diag(np.linspace(0.5, 2, 2 * N)) + 0.2 * (np.eye(2 * N, k=1) + np.eye(2 * N, k=-1))
TIMES = np.linspace(0.5, 2, len(UNEQUAL))
NOISE = {
    "iid": (IID(0.3), [0.09 * np.eye(2 * N)] * len(UNEQUAL)),
    "per field": (
        PerField({"u": 0.1, "v": 2.0}),
        [np.diag(np.repeat([0.01, 4.0], N))] * len(UNEQUAL),
    ),
    "per time": (PerTime(TIMES), [s**2 * np.eye(2 * N) for s in TIMES]),
    "covariance": (Covariance(sparse.csr_array(BAND)), [BAND] * len(UNEQUAL)),
    "unknown scale": (UnknownScale(), [np.eye(2 * N)] * len(UNEQUAL)),
}


def expected(system, covariances):
    """Mean and variance of the noise in y (E,) and X (E, d) of the only experiment."""
    (residuals,) = system.experiments
    s = residuals.structure
    operators = [[dense_mass(residuals)] * s.n_times]
    operators += [[dense_jacobian(residuals, i, j) for j in range(s.n_times)] for i in range(residuals.d)]
    mean, variance = np.zeros((2, len(s.equations), 1 + residuals.d))
    for e in range(len(s.equations)):
        rows = s.equation_of_row == e
        for i, matrices in enumerate(operators):
            stencil = (s.a if i == 0 else s.b).toarray()
            G = np.einsum("kj,jnu->knju", stencil, np.stack([m[rows] for m in matrices]))
            G = G.reshape(stencil.shape[0] * rows.sum(), -1)
            A = G.T @ G @ block_diagonal(covariances)
            mean[e, i], variance[e, i] = np.trace(A), 2 * np.trace(A @ A)
    return mean, variance


def block_diagonal(blocks):
    n = len(blocks[0])
    whole = np.zeros((n * len(blocks),) * 2)
    for j, block in enumerate(blocks):
        whole[j * n : (j + 1) * n, j * n : (j + 1) * n] = block
    return whole


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("name", NOISE)
def test_one_draw_is_its_expectation_up_to_the_number_of_terms(name, stencil):
    noise, covariances = NOISE[name]
    system = assemble(DATA, LIBRARY, discretisation=Galerkin(Q2), stencil=stencil)
    likelihood = residual_likelihood(system, noise)
    mean, variance = expected(system, covariances)
    draws = [likelihood.noise_share(np.random.default_rng(seed)) for seed in range(DRAWS)]
    found = np.stack([np.column_stack([d.y, d.X]) for d in draws])
    sd = np.sqrt(variance)
    assert np.all(np.abs(found - mean) <= 7 * sd)  # sums of squares have longer tails than a normal
    assert np.all(np.abs(found.mean(axis=0) - mean) <= 4 * sd / np.sqrt(DRAWS))


def test_size_and_share_are_those_of_the_columns_in_their_own_equation():
    system = assemble(DATA, LIBRARY, discretisation=Galerkin(Q2))
    share = residual_likelihood(system, IID(0.1)).noise_share(np.random.default_rng(0))
    (residuals,) = system.experiments
    rows = residuals.structure.equation_of_row
    for e in range(2):
        assert_allclose(share.size[e], np.square(residuals.X[rows == e]).sum(axis=(0, 1)))
    own = np.array([[True] * 3 + [False] * 3, [False] * 3 + [True] * 3])
    assert np.all(share.size[~own] == 0)
    assert np.all(share.share[~own] == 0)
    assert_allclose(share.share[own], share.X[own] / share.size[own])
    assert share.X[0, 2] == 0  # a known source has no noise
    assert share.share[1].argmax() == 3  # four derivatives are the noisiest


def test_the_noise_grows_with_its_variance():
    system = assemble(DATA, LIBRARY, discretisation=Galerkin(Q2))
    one, two = (residual_likelihood(system, IID(s)).noise_share(np.random.default_rng(0)) for s in (0.1, 0.2))
    assert_allclose(two.y, 4 * one.y)
    assert_allclose(two.X, 4 * one.X)
    assert_allclose(two.size, one.size)


def test_experiments_add_up():
    other = smooth_1d(9, fields=("u", "v"), seed=1)
    library = Library({"u": ["laplacian(u)", "u"], "v": ["v"]}, boundary=NoFlux())
    both = residual_likelihood(assemble([DATA, other], library), IID(0.1)).noise_share(np.random.default_rng(0))
    rng = np.random.default_rng(0)
    single = [residual_likelihood(assemble(d, library), IID(0.1)).noise_share(rng) for d in (DATA, other)]
    for part in ("y", "X", "size"):
        assert_allclose(getattr(both, part), sum(getattr(s, part) for s in single))


def test_more_derivatives_are_rougher():
    library = Library({"u": ["biharmonic(u)", "u", "laplacian(u)", "dx(u)", "x"]}, boundary=ZeroNeumann())
    system = assemble(smooth_1d(31), library, discretisation=Galerkin(Q2))
    rough = residual_likelihood(system, IID(0.1)).noise_share(np.random.default_rng(0)).roughness[0]
    assert np.argsort(rough).tolist() == [4, 1, 3, 2, 0]
    assert rough[4] == 0


@pytest.mark.parametrize("condition", [ZeroNeumann(), Unknown()], ids=lambda c: type(c).__name__)
def test_fields_without_an_equation_are_smoothed_like_the_others(condition):
    """∇⁴w in the equation of u is the roughest, as ∇⁴u would be; tests may be fewer than nodes."""
    texts = ["biharmonic({0})", "{0}", "laplacian({0})"]
    data = smooth_1d(31, fields=("u", "w"))
    even = replace(data, geometry=Grid(x=np.linspace(0, 1, 31)))
    found = []
    for field in ("u", "w"):
        library = Library({"u": [text.format(field) for text in texts]}, boundary=condition)
        system = assemble(even, library, discretisation=Galerkin(Q2))
        found.append(residual_likelihood(system, IID(0.1)).noise_share(np.random.default_rng(0)))
    own, other = (share.roughness[0] for share in found)
    assert np.argsort(other).tolist() == np.argsort(own).tolist() == [1, 2, 0]
    assert_allclose(other, own, rtol=0.25)


def test_noise_of_one_field_does_not_change_the_roughness_of_another():
    """ε̃ is as long as ε field by field."""
    library = Library({"u": ["laplacian(u)", "biharmonic(u)"], "v": ["v"]}, boundary=ZeroNeumann())
    system = assemble(DATA, library, discretisation=Galerkin(Q2))
    one, two = (
        residual_likelihood(system, PerField({"u": 0.1, "v": s})).noise_share(np.random.default_rng(0)).roughness[0]
        for s in (0.1, 1e3)
    )
    assert_allclose(two[:2], one[:2], rtol=1e-9)
