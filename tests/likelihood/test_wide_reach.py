"""Normal and profile equations of operators that reach across facets or through recovered fields, in dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID
from bvsi.operators import InteriorPenalty, Library, Mixed, Unknown, ZeroNeumann
from bvsi.residual import CrankNicolson, assemble
from bvsi.spaces import H3, P2, Q2, Galerkin
from inference.cases import dense_weights, stacked

SIGMA = 0.1
SPACES = {
    "line Q2, mixed": (Grid(x=np.linspace(0, 1, 9)), Q2, Mixed()),
    "line Q2, interior penalty": (Grid(x=np.linspace(0, 1, 9)), Q2, InteriorPenalty()),
    "line H3": (Grid(x=np.linspace(0, 1, 9)), H3, None),
    "square P2, interior penalty": (Grid(x=np.linspace(0, 1, 7), y=np.linspace(0, 1, 7)), P2, InteriorPenalty()),
    "square Q2, mixed": (Grid(x=np.linspace(0, 1, 7), y=np.linspace(0, 1, 7)), Q2, Mixed()),
}
THETA = np.array([-1e-3, 0.02, 0.3, -2e-3, 0.5])


def likelihood_of(name, boundary):
    geometry, element, treatment = SPACES[name]
    rng = np.random.default_rng(0)
    fields = {f: 1 + 0.3 * rng.standard_normal((4, geometry.n_nodes)) for f in ("u", "v")}
    data = Data(np.array([0.0, 0.2, 0.3, 0.6]), fields, geometry)
    equations = {"u": ["biharmonic(u)", "laplacian(u**2*v)", "v"], "v": ["biharmonic(v)", "u*v"]}
    library = Library(equations, boundary=boundary, biharmonic=treatment)
    system = assemble(data, library, discretisation=Galerkin(element), stencil=CrankNicolson())
    return residual_likelihood(system, IID(SIGMA))


@pytest.mark.parametrize("boundary", [ZeroNeumann(), Unknown()], ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("name", SPACES)
def test_the_normal_equations_are_those_of_dense_algebra(name, boundary):
    likelihood = likelihood_of(name, boundary)
    (residuals,) = likelihood.system.experiments
    W = dense_weights(residuals, THETA, SIGMA**2)
    y, X = stacked(residuals)
    r = y - X @ THETA
    found = likelihood.normal_equations(THETA)
    scale = np.sqrt(np.diag(X.T @ W @ X))
    assert_allclose(found.H / np.outer(scale, scale), X.T @ W @ X / np.outer(scale, scale), atol=1e-8)
    assert_allclose(found.g / scale, X.T @ W @ r / scale, atol=1e-7 * np.sqrt(r @ W @ r))
    assert found.q == pytest.approx(r @ W @ r, rel=1e-8)
    assert found.logdet == pytest.approx(-np.linalg.slogdet(W)[1], rel=1e-8)


@pytest.mark.parametrize("name", SPACES)
def test_the_profile_equations_are_the_gradient_of_the_misfit(name):
    """½∇Q = −g, by central differences of Q(θ) = rᵀΣ(θ)⁻¹r."""
    likelihood = likelihood_of(name, ZeroNeumann())
    g = likelihood.profile_equations(THETA).equations.g
    for i, size in enumerate(np.abs(THETA)):
        step = 1e-4 * size * np.eye(len(THETA))[i]
        up, down = (likelihood.normal_equations(THETA + s).q for s in (step, -step))
        assert -g[i] * size == pytest.approx(0.5 * (up - down) / 2e-4, rel=1e-4, abs=1e-6 * up)
