"""Residual density: gradients against differences, change of variables against dense Gaussians, invariances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, OperatorError
from bvsi.likelihood import Block, Density, Isotropic, ValueGradient, residual_likelihood
from bvsi.noise import IID, Covariance
from bvsi.operators import Library
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from bvsi.studies.benchmarks.gradient_cost import SMALL, TERMS, GradientProblem, gradient_errors
from inference.cases import dense_jacobian, dense_sensitivities, smooth_1d
from likelihood.test_profile_equations import likelihood_of, pairs, state_covariances
from likelihood.test_residual_covariance import LINEAR, NONLINEAR, SETTINGS, STENCILS, tridiagonal

SQUARE = [name for name in SETTINGS if name != "iid, boundary unknown"]


def terms(density: Density) -> tuple[ValueGradient, ...]:
    return density.q, density.logdet, density.change


def assert_same_terms(found: Density, expected: Density, rtol: float = 1e-9) -> None:
    """Values and gradients, these in units of their largest component."""
    assert found.n == expected.n
    for a, b in zip(terms(found), terms(expected), strict=True):
        assert_allclose(a.value, b.value, rtol=rtol)
        assert_allclose(a.gradient, b.gradient, rtol=0, atol=rtol * np.abs(b.gradient).max())


@pytest.fixture(scope="module")
def problems(tmp_path_factory) -> dict[str, GradientProblem]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BVSI_CACHE", str(tmp_path_factory.mktemp("density")))
        return {name: make() for name, make in SMALL.items()}


@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_those_of_central_differences(problems, name):
    errors = gradient_errors(problems[name])
    assert set(errors) == set(TERMS)
    assert max(errors.values()) < 1e-6


def test_the_differences_converge_with_fourth_order(problems):
    """So what is left is the error of the differences, not one of the gradient."""
    coarse, fine = (gradient_errors(problems["Burgers"], step) for step in (0.04, 0.02))
    for name in TERMS:
        assert 14 < coarse[name] / fine[name] < 18


@pytest.mark.parametrize("term", TERMS)
def test_the_differences_notice_a_gradient_that_is_slightly_wrong(problems, term):
    @dataclass(frozen=True)
    class Spoiled:
        right: GradientProblem

        def density(self, theta, **choices) -> Density:
            density = self.right.likelihood.density(theta, **choices)
            wrong = getattr(density, term)
            return replace(density, **{term: ValueGradient(wrong.value, wrong.gradient * [1.0, 1 + 1e-4])})

    problem = problems["Burgers"]
    errors = gradient_errors(GradientProblem(Spoiled(problem), problem.theta))
    assert {name for name in TERMS if errors[name] > 1e-6} == {term}


@pytest.mark.parametrize("name, stencil", pairs())
def test_the_gradient_of_the_misfit_is_the_profile_equation(name, stencil):
    """−½∇q = X̃ᵀWr, by smoothed regressors."""
    likelihood, theta = likelihood_of(name, stencil), SETTINGS[name].theta
    g = likelihood.profile_equations(theta).equations.g
    found = -0.5 * likelihood.density(theta, gradient=True).q.gradient
    assert_allclose(found, g, rtol=0, atol=1e-9 * np.abs(g).max())


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name, stencil", pairs())
def test_values_are_those_of_the_normal_equations(name, stencil, gradient):
    likelihood, theta = likelihood_of(name, stencil), SETTINGS[name].theta
    density, equations = likelihood.density(theta, gradient=gradient), likelihood.normal_equations(theta)
    assert_allclose(density.q.value, equations.q, rtol=1e-10)
    assert_allclose(density.logdet.value, equations.logdet, rtol=1e-10)
    assert density.n == equations.n


def test_what_was_not_asked_for_is_zero():
    density = likelihood_of("nonlinear", CrankNicolson()).density(SETTINGS["nonlinear"].theta)
    assert density.change.value == 0
    assert not any(term.gradient.any() for term in terms(density))
    assert [term.gradient.shape for term in terms(density)] == [(3,)] * 3


@pytest.mark.parametrize("stencil", STENCILS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("name", SQUARE)
def test_the_change_of_variables_is_that_of_dense_determinants(name, stencil):
    """Σ_k log |det C_kk|, with the gradient −Σ_k b_kk tr(C_kk⁻¹ J_i)."""
    likelihood, theta = likelihood_of(name, stencil), SETTINGS[name].theta
    (residuals,) = likelihood.system.experiments
    C, b = dense_sensitivities(residuals, theta), residuals.structure.b.toarray()
    K, T = b.shape
    newest = np.arange(K) + T - K
    value = sum(np.linalg.slogdet(C[k, j])[1] for k, j in enumerate(newest))
    gradient = [
        -sum(
            b[k, j] * np.trace(np.linalg.solve(C[k, j], dense_jacobian(residuals, i, j))) for k, j in enumerate(newest)
        )
        for i in range(len(theta))
    ]
    change = likelihood.density(theta, gradient=True, change=True).change
    assert_allclose(change.value, value, rtol=1e-9)
    assert_allclose(change.gradient, gradient, rtol=0, atol=1e-8 * np.abs(gradient).max())


@pytest.mark.parametrize("library", [LINEAR, NONLINEAR], ids=["linear", "nonlinear"])
def test_the_change_of_variables_does_not_depend_on_the_noise(library):
    system, theta = assemble(smooth_1d(), library, stencil=CrankNicolson()), [0.02, -0.5, 0.8]
    band = Covariance(sparse.csr_array(tridiagonal(9, 0)))
    first, *others = (
        residual_likelihood(system, noise).density(theta, gradient=True, change=True).change
        for noise in (IID(0.3), IID(1e-5), band)
    )
    for other in others:
        assert_allclose(other.value, first.value, rtol=1e-9)
        assert_allclose(other.gradient, first.gradient, rtol=1e-8)


@pytest.mark.parametrize("noise", ["iid", "covariance"])
@pytest.mark.parametrize("stencil", STENCILS, ids=lambda s: type(s).__name__)
def test_with_one_block_it_is_the_exact_density_of_the_newest_data(stencil, noise):
    """0 = Σ_j C_j u_j carries the law of the older states, u_j ~ N(û_j, Σ_u), forward to û_K = u_K + ε.

    û_K ~ N(−C_K⁻¹ Σ_{j<K} C_j û_j, Σ_u + C_K⁻¹ (Σ_{j<K} C_j Σ_u C_jᵀ) C_K⁻ᵀ)
    """
    setting = SETTINGS[noise]
    n_times = 3 if stencil == BDF2() else 2
    data = Data(
        times=setting.data.times[:n_times],
        fields={"u": setting.data.fields["u"][:n_times]},
        geometry=setting.data.geometry,
    )
    likelihood = residual_likelihood(assemble(data, setting.library, stencil=stencil), setting.noise)
    density = likelihood.density(setting.theta, change=True)
    found = -0.5 * (density.q.value + density.logdet.value + density.n * np.log(2 * np.pi)) + density.change.value

    (C,) = dense_sensitivities(likelihood.system.experiments[0], setting.theta)
    forward = np.stack([-np.linalg.solve(C[-1], c) for c in C[:-1]])
    older, newest, S = data.fields["u"][:-1], data.fields["u"][-1], setting.covariances[0]
    mean = np.einsum("jnu,ju->n", forward, older)
    covariance = S + np.einsum("jnu,uv,jmv->nm", forward, S, forward)
    assert_allclose(found, scipy.stats.multivariate_normal(mean, covariance).logpdf(newest), rtol=1e-10)


def test_fewer_residuals_than_unknowns_are_no_change_of_variables():
    likelihood, theta = likelihood_of("iid, boundary unknown", BackwardEuler()), SETTINGS["iid"].theta
    assert likelihood.density(theta).q.value > 0
    with pytest.raises(BvsiError, match=r"jacobian: .*7 and 9 in experiment 0.*leave it out"):
        likelihood.density(theta, change=True)


def test_tests_inside_are_no_change_of_variables():
    """Four derivatives without ∇u·n = 0 are tested with functions that share no cell with the boundary."""
    library = Library({"u": ["biharmonic(u)", "u"]})
    likelihood = residual_likelihood(assemble(smooth_1d(12), library), IID(1e-3))
    with pytest.raises(BvsiError, match=r"jacobian: .*leave it out"):
        likelihood.density([-1e-4, 0.3], change=True)


def test_blocks_that_end_at_the_same_time_are_no_change_of_variables():
    @dataclass(frozen=True)
    class Twice:
        def matrices(self, times, order=1):
            a, b = BackwardEuler().matrices(times, order)
            return sparse.csr_array(sparse.vstack([a, a[-1:]])), sparse.csr_array(sparse.vstack([b, b[-1:]]))

    likelihood = residual_likelihood(assemble(smooth_1d(), LINEAR, stencil=Twice()), IID(0.3))
    with pytest.raises(BvsiError, match="one new time per block"):
        likelihood.density(SETTINGS["iid"].theta, change=True)


@pytest.mark.parametrize("name", ["covariance of two fields", "nonlinear, covariance"])
def test_permuting_the_operators_permutes_the_gradient(name):
    likelihood, theta = likelihood_of(name, CrankNicolson()), SETTINGS[name].theta
    order = np.random.default_rng(0).permutation(len(theta))
    assert not np.array_equal(order, np.arange(len(theta)))
    whole = likelihood.density(theta, gradient=True, change=True)
    other = likelihood.restrict(likelihood.names[i] for i in order)
    permuted = other.density(theta[order], gradient=True, change=True)
    expected = Density(*(ValueGradient(term.value, term.gradient[order]) for term in terms(whole)), whole.n)
    assert_same_terms(permuted, expected)


def test_other_units():
    """x = ℓ x′, t = τ t′, u = s u′: q stays, the determinants shift by constants, θ_i ∂/∂θ_i stays."""
    length, duration, size, sigma = 7.0, 30.0, 0.2, 0.05
    data, theta = smooth_1d(), np.array([0.02, -0.5, 0.8])
    scaled = Data(
        times=duration * data.times,
        fields={"u": size * data.fields["u"]},
        geometry=Grid(x=length * data.geometry.axes["x"]),
    )
    units = np.array([length**2, length / size, size**-2.0]) / duration
    one, two = (
        residual_likelihood(assemble(d, NONLINEAR, stencil=BDF2()), IID(s)).density(t, gradient=True, change=True)
        for d, s, t in ((data, sigma, theta), (scaled, size * sigma, units * theta))
    )
    shift = np.array([0.0, 2 * one.n * np.log(length * size / duration), one.n * np.log(length / duration)])
    for a, b, constant in zip(terms(one), terms(two), shift, strict=True):
        assert_allclose(b.value, a.value + constant, rtol=1e-9)
        assert_allclose(units * b.gradient, a.gradient, rtol=0, atol=1e-9 * np.abs(a.gradient).max())


def test_experiments_add_up():
    data, noises = [smooth_1d(9, seed=0), smooth_1d(6, seed=1)], [IID(0.1), IID(0.3)]
    theta, choices = np.array([0.05, -0.4, 0.3]), {"gradient": True, "change": True}
    both = residual_likelihood(assemble(data, NONLINEAR), noises).density(theta, **choices)
    parts = [
        residual_likelihood(assemble(d, NONLINEAR), noise).density(theta, **choices)
        for d, noise in zip(data, noises, strict=True)
    ]
    summed = Density(*(a + b for a, b in zip(*map(terms, parts), strict=True)), sum(p.n for p in parts))
    assert_same_terms(both, summed)


@pytest.mark.parametrize("name", ["iid, uniform", "nonlinear, covariance", "projected covariance"])
def test_the_density_is_that_of_dense_algebra(name):
    """∇q = −2 X̃ᵀWr and ∂ log det Σ = −2 Σ_kj b_kj tr(W_k J_i Σ_u C_kjᵀ), written out."""
    setting = SETTINGS[name]
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=CrankNicolson())
    (residuals,) = system.experiments
    C, b, state = (
        dense_sensitivities(residuals, setting.theta),
        residuals.structure.b.toarray(),
        state_covariances(setting),
    )
    r = residuals.residual(setting.theta)
    q, logdet, dq, dlogdet = 0.0, 0.0, np.zeros(len(setting.theta)), np.zeros(len(setting.theta))
    for k, row in enumerate(C):
        covariance = sum(c @ S @ c.T for c, S in zip(row, state, strict=True))
        W = np.linalg.inv(covariance)
        w = W @ r[:, k]
        q, logdet = q + r[:, k] @ w, logdet + np.linalg.slogdet(covariance)[1]
        for i in range(len(dq)):
            J = [b[k, j] * dense_jacobian(residuals, i, j) for j in range(len(row))]
            slope = -sum(J[j] @ state[j] @ c.T + c @ state[j] @ J[j].T for j, c in enumerate(row))
            dq[i] += -2 * residuals.X[:, k, i] @ w - w @ slope @ w
            dlogdet[i] += np.trace(W @ slope)
    found = residual_likelihood(system, setting.noise, Block()).density(setting.theta, gradient=True)
    zero = ValueGradient(0.0, np.zeros(len(dq)))
    assert_same_terms(
        found, Density(ValueGradient(q, dq), ValueGradient(logdet, dlogdet), zero, residuals.n), rtol=1e-8
    )


def test_unweighted_residuals_have_the_gradient_of_a_sum_of_squares():
    system, theta, step = assemble(smooth_1d(), NONLINEAR), np.array([0.02, -0.5, 0.8]), 1e-3
    likelihood = residual_likelihood(system, IID(0.3), Isotropic())
    density = likelihood.density(theta, gradient=True)
    r, X = system.residual(theta)[0], system.experiments[0].X
    assert_allclose(density.q.value, np.sum(r**2), rtol=1e-12)
    assert_allclose(density.q.gradient, -2 * np.einsum("nki,nk->i", X, r), rtol=1e-10)
    shifts = step * np.eye(3)
    slopes = [
        (likelihood.density(theta + e).q.value - likelihood.density(theta - e).q.value) / (2 * step) for e in shifts
    ]
    assert_allclose(density.q.gradient, slopes, rtol=1e-8)
    assert density.logdet.value == 0
    with pytest.raises(BvsiError, match="jacobian: unweighted"):
        likelihood.density(theta, change=True)


@pytest.mark.parametrize("theta", [[1.0, 2.0], [0.1, np.nan, 0.3], [np.inf, 1.0, 1.0], "abc"], ids=str)
def test_coefficients_are_checked(theta):
    with pytest.raises(OperatorError, match="theta"):
        likelihood_of("iid", BackwardEuler()).density(theta, gradient=True)


def test_the_misfit_alone_is_the_same():
    likelihood, theta = likelihood_of("nonlinear", CrankNicolson()), np.array([0.02, -0.5, 0.8])
    whole, alone = (likelihood.density(theta, gradient=True, logdet=wanted) for wanted in (True, False))
    assert_array_equal([alone.q.value, *alone.q.gradient], [whole.q.value, *whole.q.gradient])
    assert whole.logdet.value != 0
    assert alone.logdet.value == 0
    assert not alone.logdet.gradient.any()
