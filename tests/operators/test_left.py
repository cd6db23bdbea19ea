"""Left sides: what is read from their texts, what they add to y and to the sensitivity of the residual."""

import numpy as np
import pytest

from bvsi import Data, Grid, Library, SplineTests
from bvsi.errors import OperatorError
from bvsi.operators.boundary import read_left
from bvsi.residual import EachFrame, TemporalTests, assemble

TIMES = np.linspace(0, 1, 12)
GRID = Grid(x=2 * np.pi * np.arange(24) / 24, periodic="x")
X = GRID.axes["x"]
U = 1.5 + np.sin(X + TIMES[:, None])
K = 2 + np.cos(X)
TESTS, STENCIL = SplineTests(gap=2), TemporalTests(5, 1.0)


def residuals(candidates, left, u=U, stencil=STENCIL):
    data = Data.from_arrays({"u": u}, times=TIMES, geometry=GRID, auxiliary={"k": K})
    system = assemble(data, Library({"u": candidates}, left=left), discretisation=TESTS, stencil=stencil)
    return system.experiments[0]


@pytest.mark.parametrize(
    ("text", "evolves", "known", "density"),
    [
        ("f", False, "(f)", None),
        ("laplacian(u)", False, "(laplacian(u))", None),
        ("dt(u)", True, None, None),
        ("dt(u) - (f + u)", True, "- (f) - (u)", None),
        ("u*dx(u) + dt(rho*u)", True, "(u * dx(u))", "rho * u"),
    ],
)
def test_a_text_is_split_into_time_derivative_and_known_terms(text, evolves, known, density):
    left = read_left(text, "u")
    assert left.evolves == evolves
    assert (left.known and left.known.source) == known
    assert (left.density and left.density.source) == density


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ("0", "all coefficients could be zero"),
        ("laplacian(u)", "where its coefficient is one"),
        ("u - dt(u)", "turn the signs"),
        ("2*dt(u)", "once and as a term by itself"),
        ("dt(u) + dt(v)", "once and as a term by itself"),
        ({"v": "f"}, "has no equation"),
        (3, "is not a text"),
    ],
)
def test_what_cannot_stand_on_the_left_is_refused_with_a_remedy(left, why):
    with pytest.raises(OperatorError, match=why):
        Library({"u": ["laplacian(u)", "u"]}, left=left)


def test_systems_are_steady_as_a_whole():
    with pytest.raises(OperatorError, match="in a library of their own"):
        Library({"u": ["v"], "v": ["u"]}, left={"u": "f"})


def test_known_terms_are_moved_with_their_sign():
    """∂_t u + F_0 = Σ θ F has the residual of ∂_t u = Σ θ F − F_0, and the same sensitivity."""
    one, other = residuals(["laplacian(u)", "u"], "dt(u) + u*dx(u)"), residuals(["laplacian(u)", "u", "u*dx(u)"], None)
    theta = np.array([0.3, -1.2])
    both = np.append(theta, -1.0)
    np.testing.assert_allclose(one.residual(theta), other.residual(both), atol=1e-12)
    for time in (0, 7):
        np.testing.assert_allclose(one.jacobian(theta, time), other.jacobian(both, time), atol=1e-12)
    V = np.random.default_rng(0).standard_normal(U.T.shape)
    both_ways = [r.jacobians(t).summed(r.structure.b, V) for r, t in ((one, theta), (other, both))]
    np.testing.assert_allclose(*both_ways, atol=1e-12)


@pytest.mark.parametrize(
    ("candidates", "left", "stencil"),
    [
        (["laplacian(u)", "u**2"], "dt(u) + u*dx(u)", STENCIL),
        (["laplacian(u)", "u"], "dt(k*u)", STENCIL),
        (["u", "u**2", "k"], "laplacian(u**2)", EachFrame()),
        (["laplacian(u)", "u**2"], "k", EachFrame()),
    ],
)
def test_sensitivity_is_the_derivative_of_the_residual(candidates, left, stencil):
    """r(û + δ) − r(û − δ) = 2 C δ + O(δ³)."""
    rng, theta = np.random.default_rng(1), np.array([0.7, -0.4, 0.2])[: len(candidates)]
    step = 1e-4 * rng.standard_normal(U.shape)
    up, down = (residuals(candidates, left, U + s * step, stencil).residual(theta) for s in (1, -1))
    own = residuals(candidates, left, U, stencil)
    structure = own.structure
    C = structure.mass.summed(structure.a, step.T) - own.jacobians(theta).summed(structure.b, step.T)
    np.testing.assert_allclose((up - down) / 2, C, atol=1e-9 * np.abs(own.residual(theta)).max())


def test_a_factor_of_the_time_derivative_is_known_and_steady():
    with pytest.raises(OperatorError, match="only a known factor"):
        residuals(["laplacian(u)"], "dt(u**2)")


def test_without_a_time_derivative_every_frame_is_a_block():
    own = residuals(["laplacian(u)"], "k", stencil=EachFrame())
    assert own.structure.a.nnz == 0
    alone = residuals(["laplacian(u)"], "k", U[[3] * len(TIMES)], EachFrame())
    np.testing.assert_array_equal(own.Z[:, 3], alone.Z[:, 0])
    with pytest.raises(OperatorError, match="has no time derivative"):
        residuals(["laplacian(u)"], None, stencil=EachFrame())
