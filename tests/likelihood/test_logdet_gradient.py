"""∂ log det Σ/∂θ by the selected inverse, against finite differences and dense traces."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import OperatorError
from bvsi.likelihood import Block, Isotropic, residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library, NoFlux
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from inference.cases import dense_jacobian, dense_sensitivities, reaction_system, smooth_1d
from likelihood.test_residual_covariance import SETTINGS, STENCILS


def pairs() -> list:
    return [
        pytest.param(name, stencil, id=f"{name}-{type(stencil).__name__}")
        for i, name in enumerate(SETTINGS)
        for m, stencil in enumerate(STENCILS)
        if name in ("iid", "nonlinear") or m == (i + 1) % 3
    ]


def differences(likelihood, theta: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Central differences of fourth order, per relative change of each coefficient."""
    result = []
    for i, size in enumerate(np.abs(theta)):
        e = step * size * np.eye(len(theta))[i]
        near, far = (
            likelihood.normal_equations(theta + m * e).logdet - likelihood.normal_equations(theta - m * e).logdet
            for m in (1, 2)
        )
        result.append((8 * near - far) / (12 * step))
    return np.array(result)


@pytest.mark.parametrize("name, stencil", pairs())
def test_the_gradient_is_that_of_finite_differences(name, stencil):
    setting = SETTINGS[name]
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=stencil)
    likelihood = residual_likelihood(system, setting.noise)
    found = np.abs(setting.theta) * likelihood.logdet_gradient(setting.theta)
    expected = differences(likelihood, setting.theta)
    assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_the_gradient_is_the_trace():
    """tr(W_k ∂Σ_k) = −2 Σ_j b_kj tr(W_k J_i Σ_u C_kjᵀ)."""
    setting = SETTINGS["nonlinear"]
    (residuals,) = (system := assemble(setting.data, setting.library, stencil=CrankNicolson())).experiments
    C, b = dense_sensitivities(residuals, setting.theta), residuals.structure.b.toarray()
    expected = np.zeros(3)
    for k, row in enumerate(C):
        W = np.linalg.inv(1e-6 * sum(c @ c.T for c in row))
        for j, c in enumerate(row):
            for i in range(3):
                expected[i] -= 2e-6 * b[k, j] * np.trace(W @ dense_jacobian(residuals, i, j) @ c.T)
    found = residual_likelihood(system, setting.noise, Block()).logdet_gradient(setting.theta)
    assert_allclose(found, expected, rtol=1e-9)


def test_experiments_add_up():
    library = Library({"u": ["laplacian(u)", "u*dx(u)"]}, boundary=NoFlux())
    data, theta = [smooth_1d(9, seed=0), smooth_1d(6, seed=1)], np.array([0.05, -0.4])
    noises = [IID(0.1), IID(0.3)]
    both = residual_likelihood(assemble(data, library, stencil=BDF2()), noises).logdet_gradient(theta)
    parts = [
        residual_likelihood(assemble(d, library, stencil=BDF2()), n).logdet_gradient(theta)
        for d, n in zip(data, noises, strict=True)
    ]
    assert_allclose(both, sum(parts), rtol=1e-10)


def test_a_restricted_model_has_the_gradient_of_its_operators():
    setting = SETTINGS["iid"]
    likelihood = residual_likelihood(assemble(setting.data, setting.library), setting.noise)
    theta = setting.theta * [1, 0, 1]
    full = likelihood.logdet_gradient(theta)
    fewer = likelihood.restrict(["laplacian(u)", "u"]).logdet_gradient(theta[[0, 2]])
    assert_allclose(fewer, full[[0, 2]], rtol=1e-10)


def test_the_size_of_the_noise_does_not_matter():
    system = assemble(SETTINGS["iid"].data, SETTINGS["iid"].library, stencil=BackwardEuler())
    a, b = (residual_likelihood(system, IID(s)).logdet_gradient([0.02, -0.5, 0.8]) for s in (0.3, 1e-4))
    assert_allclose(a, b, rtol=1e-9)


def test_weights_that_do_not_depend_on_the_coefficients_have_none():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3), Isotropic())
    assert_allclose(likelihood.logdet_gradient([0.1, -0.8]), 0)


def test_coefficients_are_checked():
    likelihood = residual_likelihood(reaction_system(n=5, steps=3), IID(1e-3))
    with pytest.raises(OperatorError, match="theta"):
        likelihood.logdet_gradient([np.inf, 1.0])
