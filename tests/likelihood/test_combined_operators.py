"""Residual systems of coefficients that move together: θ = T η."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import assemble
from inference.cases import smooth_1d

T = np.array([[1.0, 0.0], [0.0, -2.0], [3.0, 0.5]])
ETA = np.array([0.03, -0.2])


def systems():
    library = Library({"u": ["laplacian(u)", "u", "u*dx(u)"]})
    system = assemble(smooth_1d(9), library)
    return system, system.combined(T, ("laplacian(u)", "u"))


def test_residuals_and_sensitivities_are_those_of_theta():
    system, combined = systems()
    (whole,), (small,) = system.experiments, combined.experiments
    assert combined.names == ("laplacian(u)", "u")
    assert_allclose(small.residual(ETA), whole.residual(T @ ETA), atol=1e-13)
    for time in range(3):
        assert_allclose(small.jacobian(ETA, time), whole.jacobian(T @ ETA, time), atol=1e-13)
    V = np.random.default_rng(0).standard_normal((small.structure.n_state, 2))
    for j, J in enumerate(small.J):
        expected = sum(T[i, j] * whole.J[i].apply(1, V) for i in range(3))
        assert_allclose(J.apply(1, V), expected, atol=1e-12)


def test_likelihood_equations_follow_by_the_chain_rule():
    likelihoods = [residual_likelihood(system, IID(0.1)) for system in systems()]
    whole, small = (lk.density(theta, gradient=True) for lk, theta in zip(likelihoods, (T @ ETA, ETA), strict=True))
    for term in ("q", "logdet"):
        assert_allclose(getattr(small, term).value, getattr(whole, term).value, rtol=1e-12)
        assert_allclose(getattr(small, term).gradient, T.T @ getattr(whole, term).gradient, rtol=1e-10)
    a, b = (lk.normal_equations(theta) for lk, theta in zip(likelihoods, (T @ ETA, ETA), strict=True))
    assert_allclose(b.H, T.T @ a.H @ T, rtol=1e-11)
