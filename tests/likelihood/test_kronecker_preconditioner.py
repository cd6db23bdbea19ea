"""The preconditioner of spline tests: exact where only time terms have noise; the same equations as with a factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid
from bvsi.likelihood import Stacked, residual_likelihood
from bvsi.likelihood.iterative import Iterative, KroneckerPreconditioner
from bvsi.likelihood.products import SpaceTime
from bvsi.noise import IID, PerField
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.spaces import SplineTests

PERIODIC = {"x": 2 * np.pi, "y": 2 * np.pi}


def likelihood_of(periodic, fields=("u",), noise=None, **stacked):
    rng = np.random.default_rng(0)
    n = 18
    axis = 2 * np.pi * np.arange(n) / n
    grid = Grid(x=axis, y=axis, periodic=PERIODIC if periodic else {})
    x, y = np.meshgrid(axis, axis, indexing="ij")
    t = np.linspace(0, 1, 12)
    wave = np.exp(-0.2 * t)[:, None, None] * (np.sin(x) * np.cos(y) + 0.3 * np.cos(2 * x))
    arrays = {f: wave * (1 + i) + 0.01 * rng.standard_normal(wave.shape) for i, f in enumerate(fields)}
    data = Data.from_arrays(arrays, times=t, geometry=grid)
    library = Library({f: [f"laplacian({f})", f"{f}**2", f"dx({f})"] for f in fields})
    system = assemble(data, library, discretisation=SplineTests(gap=2.5, degree=3), stencil=TemporalTests(gap=2.0))
    return residual_likelihood(system, noise or IID(0.01), Stacked(**stacked))


@pytest.mark.parametrize("fields", [("u",), ("u", "v")], ids=["one field", "two fields"])
def test_it_is_the_inverse_where_operators_have_no_part(fields):
    noise = PerField({"u": 0.01, "v": 0.03}) if len(fields) > 1 else IID(0.01)
    (part,) = likelihood_of(True, fields, noise).parts
    products = SpaceTime(part, np.zeros(part.residuals.d))
    R = np.random.default_rng(1).standard_normal((*part.residuals.Z.shape[:2], 2))
    inverse = KroneckerPreconditioner.of(part)
    assert_allclose(products.covariance(inverse(R)), R, atol=1e-6 * np.abs(R).max())


@pytest.mark.parametrize("periodic", [True, False], ids=["periodic", "open"])
def test_equations_are_those_of_a_factor(periodic):
    theta = np.array([0.2, 0.1, -0.3])
    without, factored = likelihood_of(periodic, max_memory=0.0), likelihood_of(periodic)
    (part,) = without.parts
    solver = Iterative.of(part, theta, SpaceTime(part, theta))
    assert isinstance(solver.preconditioner, KroneckerPreconditioner)
    found, expected = (one.profile_equations(theta).equations for one in (without, factored))
    assert_allclose(found.q, expected.q, rtol=1e-8)
    assert_allclose(found.H, expected.H, rtol=1e-6, atol=1e-7 * np.abs(expected.H).max())
    scale = np.sqrt(np.diag(expected.H) * expected.q)
    assert_allclose(found.g / scale, expected.g / scale, atol=1e-6)


def test_it_is_symmetric_and_positive():
    (part,) = likelihood_of(False).parts
    inverse = KroneckerPreconditioner.of(part)
    rng = np.random.default_rng(2)
    A, B = (rng.standard_normal((*part.residuals.Z.shape[:2], 1)) for _ in range(2))
    assert_allclose(np.vdot(A, inverse(B)), np.vdot(inverse(A), B), rtol=1e-8)
    assert np.vdot(A, inverse(A)) > 0
