"""Stacked weighting with log-determinant and change of variables: the exact density of the data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer import ResidualDensity
from bvsi.infer.priors import InverseGammaPrior
from bvsi.likelihood import residual_likelihood
from bvsi.likelihood.stacked import Stacked
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from inference.cases import dense_sensitivities
from likelihood.stacked_cases import ALL, CASES, SPLINES, SQUARE, TEMPORAL, ids, stacked_likelihood
from likelihood.test_profile_equations import gradient, state_covariances
from likelihood.test_residual_covariance import SETTINGS

LINEAR = [case for case in SQUARE if "nonlinear" not in case[0]]


def log_density(likelihood, theta: np.ndarray) -> float:
    density = likelihood.density(theta, change=True)
    return -0.5 * (density.q.value + density.logdet.value + density.n * np.log(2 * np.pi)) + density.change.value


def flat_start_log_density(C: np.ndarray, u: np.ndarray, state: np.ndarray) -> float:
    """log ∫ Π_j N(û_j; u_j, Σ_u,j) du_0…, where Σ_j C_kj u_j = 0 carries the first states to the others.

    C: (K, T, N, n_u); u: data (T, n_u); state: (T, n_u, n_u). All states are u = A s, s the first T − K of them.
    """
    K, T, _, n_u = C.shape
    free = T - K
    A = np.zeros((T, n_u, free * n_u))
    A[:free] = np.eye(free * n_u).reshape(free, n_u, free * n_u)
    for k in range(K):
        j = free + k
        A[j] = -np.linalg.solve(C[k, j], np.einsum("jnu,jus->ns", C[k, :j], A[:j]))
    A, data = A.reshape(T * n_u, -1), u.ravel()
    V = np.einsum("jl,juv->julv", np.eye(T), state).reshape(T * n_u, T * n_u)
    P = np.linalg.inv(V)
    information = A.T @ P @ A
    rest = data - A @ np.linalg.solve(information, A.T @ P @ data)
    logdet = np.linalg.slogdet(V)[1] + np.linalg.slogdet(information)[1]
    return float(-0.5 * (rest @ P @ rest + logdet + (T * n_u - A.shape[1]) * np.log(2 * np.pi)))


def unknowns(name: str) -> np.ndarray:
    """Data at the unknowns, (T, n_u)."""
    setting = SETTINGS[name]
    structure = stacked_likelihood(name, BackwardEuler()).system.experiments[0].structure
    values = [setting.data.fields[f].T for f in structure.fields]
    P = structure.transfer
    return np.concatenate(values if P is None else [P @ v for v in values]).T


@pytest.mark.parametrize("name, stencil", LINEAR, ids=ids)
def test_it_is_the_density_of_the_observations_with_the_first_states_integrated_out(name, stencil):
    likelihood, setting = stacked_likelihood(name, stencil), SETTINGS[name]
    (residuals,) = likelihood.system.experiments
    state = np.asarray(state_covariances(setting))
    for theta in (setting.theta, 0.7 * setting.theta):
        C = dense_sensitivities(residuals, theta)
        expected = flat_start_log_density(C, unknowns(name), state)
        assert_allclose(log_density(likelihood, theta), expected, rtol=1e-8)


def test_with_blocks_alone_it_is_not():
    setting, stencil = SETTINGS["iid"], BackwardEuler()
    system = assemble(setting.data, setting.library, stencil=stencil)
    C = dense_sensitivities(system.experiments[0], setting.theta)
    expected = flat_start_log_density(C, unknowns("iid"), np.asarray(state_covariances(setting)))
    assert abs(log_density(residual_likelihood(system, setting.noise), setting.theta) - expected) > 1


@pytest.mark.parametrize("name, stencil", CASES, ids=ids)
def test_the_gradient_of_the_log_determinant_is_that_of_finite_differences(name, stencil):
    theta, likelihood = ALL[name].theta, stacked_likelihood(name, stencil)
    scale = np.abs(theta)
    found = scale * likelihood.density(theta, gradient=True).logdet.gradient
    expected = scale * gradient(lambda t: likelihood.density(t).logdet.value, theta)
    assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("jacobian", [False, True])
@pytest.mark.parametrize("name, stencil", [("iid", BackwardEuler()), ("nonlinear", CrankNicolson())], ids=ids)
def test_the_objective_has_the_gradient_of_finite_differences(name, stencil, jacobian):
    theta, likelihood = ALL[name].theta, stacked_likelihood(name, stencil)
    objective = ResidualDensity(jacobian=jacobian).bind(likelihood, InverseGammaPrior())
    scale = np.abs(theta)
    expected = scale * gradient(lambda t: objective(t).value, theta)
    assert_allclose(scale * objective(theta).gradient, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    if jacobian:
        assert_allclose(
            objective(theta).value - objective(1.1 * theta).value, _difference(likelihood, theta), rtol=1e-7
        )


def _difference(likelihood, theta: np.ndarray) -> float:
    return log_density(likelihood, theta) - log_density(likelihood, 1.1 * theta)


def test_what_was_not_asked_for_is_zero():
    density = stacked_likelihood("nonlinear", BackwardEuler()).density(ALL["nonlinear"].theta, logdet=False)
    assert density.q.value > 0
    assert density.logdet.value == density.change.value == 0
    assert not any(term.gradient.any() for term in (density.q, density.logdet, density.change))


@pytest.mark.parametrize(
    "name, stencil", [("iid, boundary unknown", BackwardEuler()), *((n, TEMPORAL) for n in SPLINES)], ids=ids
)
def test_residuals_that_are_no_change_of_variables_are_refused(name, stencil):
    with pytest.raises(BvsiError, match="jacobian: the change of variables"):
        stacked_likelihood(name, stencil).density(ALL[name].theta, change=True)


def test_there_is_no_log_determinant_without_a_factor():
    likelihood, theta = stacked_likelihood("iid", BackwardEuler(), Stacked(max_memory=0)), ALL["iid"].theta
    assert likelihood.density(theta, gradient=True, logdet=False).q.value > 0
    for gradient_too in (False, True):
        with pytest.raises(BvsiError, match=r"log-determinant.*max_memory"):
            likelihood.density(theta, gradient=gradient_too)
