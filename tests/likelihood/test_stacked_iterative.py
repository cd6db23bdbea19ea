"""Stacked weighting by conjugate gradients: the same as with a factor."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import NotPositiveDefiniteError
from bvsi.infer import Profile
from bvsi.likelihood import residual_likelihood
from bvsi.likelihood.iterative import Iterative, Substitution, conjugate_gradients
from bvsi.likelihood.products import SpaceTime
from bvsi.likelihood.stacked import Stacked
from bvsi.noise import IID
from bvsi.residual import BackwardEuler, CrankNicolson
from inference.cases import reaction_system
from likelihood.stacked_cases import ALL, CASES, SQUARE, TEMPORAL, dense_stacked, ids, stacked_likelihood
from likelihood.test_profile_equations import close

WITHOUT = Stacked(max_memory=0)


def iterative(name: str, stencil) -> tuple[Iterative, SpaceTime]:
    (part,) = stacked_likelihood(name, stencil, WITHOUT).parts
    products = SpaceTime(part, ALL[name].theta)
    return Iterative.of(part, ALL[name].theta, products), products


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_product_is_that_of_the_matrix(name, stencil):
    dense = dense_stacked(name, stencil)
    solver, products = iterative(name, stencil)
    K, N = (products.structure.n_blocks, products.structure.n_rows)
    w = np.random.default_rng(0).standard_normal((N, K, 2))
    expected = (dense.covariance @ w.transpose(1, 0, 2).reshape(K * N, 2)).reshape(K, N, 2).transpose(1, 0, 2)
    assert_allclose(solver.product(w), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_equations_are_those_of_a_factor(name, stencil):
    theta = ALL[name].theta
    found, expected = (
        stacked_likelihood(name, stencil, w).profile_equations(theta, rng=np.random.default_rng(0))
        for w in (WITHOUT, Stacked())
    )
    scale = np.sqrt(np.diag(expected.equations.H) * expected.equations.q)
    close(found.equations.H, expected.equations.H, 1e-7)
    close(found.N, expected.N, 1e-7)
    assert_allclose(found.equations.g / scale, expected.equations.g / scale, atol=1e-8)
    assert_allclose(found.equations.q, expected.equations.q, rtol=1e-8)
    assert np.isnan(found.equations.logdet)


@pytest.mark.parametrize("name, stencil", SQUARE, ids=ids)
def test_the_preconditioner_is_the_inverse_of_the_newest_part(name, stencil):
    """L⁻ᵀ D⁻¹ L⁻¹ with L the columns of C at the newest times, D the diagonal of Σ_u there."""
    dense = dense_stacked(name, stencil)
    solver, products = iterative(name, stencil)
    assert isinstance(solver.preconditioner, Substitution)
    K, N = products.structure.n_blocks, products.structure.n_rows
    n = K * N
    L, D = dense.C[:, -n:], np.diag(dense.state)[-n:]
    R = np.random.default_rng(0).standard_normal((n, 2))
    expected = np.linalg.solve(L.T, np.linalg.solve(L, R) / D[:, None])
    found = solver.preconditioner(R.reshape(K, N, 2).transpose(1, 0, 2)).transpose(1, 0, 2).reshape(n, 2)
    assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("steps", [10, 40])
def test_iterations_do_not_grow_with_the_number_of_times(steps):
    """Preconditioned, Σ is the identity plus a matrix of the rank of the first state, n_u: n_u + 1 steps at most."""
    n_u = 7
    likelihood = residual_likelihood(reaction_system(n=n_u, steps=steps), IID(1e-3), WITHOUT)
    (part,) = likelihood.parts
    products, count = SpaceTime(part, np.array([0.1, -0.8])), 0
    solver = Iterative.of(part, np.array([0.1, -0.8]), products)

    def counted(w):
        nonlocal count
        count += 1
        return products.covariance(w)

    above_rounding = 1e-9
    conjugate_gradients(counted, solver.preconditioner, part.residuals.Z, label="test", tol=above_rounding)
    assert 2 <= count <= n_u + 1


def test_columns_of_zeros_stay_zeros():
    solver, products = iterative("nonlinear", BackwardEuler())
    B = np.array(products.residuals.Z)
    B[:, :, 1] = 0.0
    X = solver.solve(B)
    assert not X[:, :, 1].any()
    assert_allclose(solver.product(X), B, rtol=0, atol=1e-8 * np.abs(B).max())


def test_without_convergence_it_says_so():
    solver, products = iterative("splines, linear", TEMPORAL)
    assert not isinstance(solver.preconditioner, Substitution)
    with pytest.raises(NotPositiveDefiniteError, match=r"test: conjugate gradients .* in 2 iterations.*max_memory"):
        conjugate_gradients(solver.product, solver.preconditioner, products.residuals.Z, label="test", max_iterations=2)


def test_an_indefinite_matrix_is_noticed():
    _, products = iterative("iid", CrankNicolson())
    with pytest.raises(NotPositiveDefiniteError):
        conjugate_gradients(lambda w: -w, lambda r: r, products.residuals.Z, label="test")


def test_estimates_are_the_same():
    system = reaction_system(n=9, steps=12, sigma=1e-2)
    found, expected = (Profile().fit(residual_likelihood(system, IID(1e-2), w)) for w in (WITHOUT, Stacked()))
    assert found.status.converged
    assert_allclose(found.theta, expected.theta, rtol=1e-6)
    assert_allclose(found.posterior.covariance, expected.posterior.covariance, rtol=1e-5)


def test_the_memory_of_the_factor_decides():
    """One byte less than it takes, and it is not made."""
    structure = reaction_system(n=9, steps=12).experiments[0].structure
    plan = Stacked().plan(structure, IID(1.0))
    least = 8 * structure.n_blocks * structure.n_rows * (structure.n_rows + 1) / 2  # its dense diagonal blocks
    assert least < plan.factor_memory < 8 * plan.stacked.pattern.shape[0] ** 2
    need = max(plan.factor_memory, 40 * plan.stacked.nnz)
    assert Stacked(max_memory=need).plan(structure, IID(1.0)).direct
    assert not Stacked(max_memory=need - 1).plan(structure, IID(1.0)).direct
