"""Spline tests: residuals of manufactured solutions, Jacobians, and what they refuse."""

import numpy as np
import pytest
import sympy as sp
from numpy.testing import assert_allclose

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import OperatorError, SpaceError
from bvsi.operators import Library, Mixed, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import TemporalTests, assemble
from bvsi.spaces import SplineTests
from bvsi.spaces.spline_tests import is_uniform

X, Y, TIME = sp.symbols("x y t")
WAVE = sp.sin(X - TIME) + sp.Rational(1, 2) * sp.cos(2 * X + TIME)
WAVE_2D = sp.sin(X - TIME) * sp.cos(Y) + sp.Rational(1, 2) * sp.cos(X + Y + 2 * TIME)


def line(n):
    return Grid(x=np.linspace(0, 5, n + 1))


def ring(n):
    return Grid(x=np.arange(n) * 2 * np.pi / n, periodic={"x": 2 * np.pi})


def square(n):
    return Grid(x=np.linspace(0, 5, n + 1), y=np.linspace(0, 4, n + 1))


def torus(n):
    axis = np.arange(n) * 2 * np.pi / n
    return Grid(x=axis, y=axis, periodic={"x": 2 * np.pi, "y": 2 * np.pi})


def tube(n):
    return Grid(x=np.arange(n) * 2 * np.pi / n, y=np.linspace(0, 4, n + 1), periodic={"x": 2 * np.pi})


def kuramoto_sivashinsky(u):
    return -u * sp.diff(u, X) - sp.diff(u, X, 2) - sp.diff(u, X, 4)


def korteweg_de_vries(u):
    return -6 * u * sp.diff(u, X) - sp.diff(u, X, 3)


def reaction_diffusion(u):
    return sp.Rational(1, 2) * (sp.diff(u, X, 2) + sp.diff(u, Y, 2)) - u * sp.diff(u, Y) + sp.diff(u**3, X, 2)


EQUATIONS = {
    "KS": (kuramoto_sivashinsky, ["u*dx(u)", "laplacian(u)", "dx(dx(dx(dx(u))))"], [-1.0, -1.0, -1.0]),
    "KdV": (korteweg_de_vries, ["dx(u**2)", "dx(dx(dx(u)))"], [-3.0, -1.0]),
    "reaction": (reaction_diffusion, ["laplacian(u)", "u*dy(u)", "dx(dx(u**3))"], [0.5, -1.0, 1.0]),
}


def manufactured(equation, grid, steps):
    """Data of a given u, with what it lacks as a solution as an auxiliary field s: u_t = F(u) + s."""
    u = WAVE if grid.dim == 1 else WAVE_2D
    source = sp.diff(u, TIME) - EQUATIONS[equation][0](u)
    t = np.linspace(0, 2, steps + 1)[:, None]
    at = (TIME, X, Y)
    places = grid.points.T if grid.dim == 2 else (grid.points[:, 0], np.zeros(grid.n_nodes))
    values = [np.asarray(sp.lambdify(at, f)(t, *places)) for f in (u, source)]
    return Data(t[:, 0], {"u": values[0]}, grid, {"s": values[1]})


def residual_size(equation, grid, steps, gap):
    """Largest residual at the true coefficients relative to the largest of y."""
    _, operators, theta = EQUATIONS[equation]
    system = assemble(
        manufactured(equation, grid, steps),
        Library({"u": [*operators, "s"]}),
        discretisation=SplineTests(gap=gap),
        stencil=TemporalTests(7, 2.0),
    )
    (r,) = system.experiments
    left = r.y - r.X @ np.array([*theta, 1.0])
    return np.abs(left).max() / np.abs(r.y).max()


@pytest.mark.parametrize("gap", [2, 3], ids=["gap 2", "gap 3"])
@pytest.mark.parametrize("grid", [ring, line], ids=lambda g: g.__name__)
@pytest.mark.parametrize("equation", ["KS", "KdV"])
def test_residuals_of_solutions_vanish_with_high_order(equation, grid, gap):
    """Degree m + 4 for m derivatives: the fifth order, or more where errors of one sign meet those of another."""
    coarse, fine = (residual_size(equation, grid(n), n, gap) for n in (36, 72))
    assert np.log2(coarse / fine) > 4.5
    assert fine < 1e-4


@pytest.mark.parametrize("grid", [torus, square, tube], ids=lambda g: g.__name__)
def test_residuals_vanish_in_two_dimensions(grid):
    coarse, fine = (residual_size("reaction", grid(n), n, 2) for n in (32, 48))
    assert np.log(coarse / fine) / np.log(48 / 32) > 4.5
    assert fine < 1e-5


def test_a_soliton_of_kdv_satisfies_it():
    """u = c/2 sech²(√c/2 (x − c t − 4)), a solution by itself; splines ask for no boundary condition."""
    c, x, t = 2.0, np.linspace(0, 12, 121), np.linspace(0, 1.5, 61)[:, None]
    u = 0.5 * c / np.cosh(0.5 * np.sqrt(c) * (x - c * t - 4)) ** 2
    library = Library({"u": ["u*dx(u)", "dx(dx(dx(u)))", "u"]})
    data = Data(t[:, 0], {"u": u}, Grid(x=x))
    (r,) = assemble(data, library, discretisation=SplineTests(gap=3), stencil=TemporalTests(5, 2.0)).experiments
    theta, *_ = np.linalg.lstsq(r.X.reshape(-1, 3), r.y.ravel(), rcond=None)
    assert_allclose(theta, [-6.0, -1.0, 0.0], atol=2e-3)


CASES = {
    "linear": (ring(20), ["laplacian(u)", "dx(u)"]),
    "nonlinear": (line(20), ["u*dx(u)", "laplacian(u**3)", "sin(u)", "x*t*u**2"]),
    "two fields": (ring(20), ["u*v", "dx(u*v**2)", "laplacian(v)", "k*u**2"]),
    "2D": (tube(16), ["laplacian(u**2)", "dx(dy(u*v))", "dy(v)"]),
}


def data_on(grid, fields):
    return Data(np.linspace(0, 1, 12), fields, grid, {"k": 1 + grid.points[:, 0]})


def random_fields(grid, rng):
    return {name: 1 + 0.3 * rng.standard_normal((12, grid.n_nodes)) for name in ("u", "v")}


@pytest.mark.parametrize("name", CASES)
def test_jacobians_are_those_of_differences(name):
    grid, operators = CASES[name]
    rng = np.random.default_rng(0)
    fields, direction = random_fields(grid, rng), random_fields(grid, rng)
    library, h = Library({"u": operators}), 1e-4
    choices = {"discretisation": SplineTests(gap=2), "stencil": TemporalTests(3, 2.0)}

    def tested(sign):
        moved = {f: fields[f] + sign * h * direction[f] for f in fields}
        return assemble(data_on(grid, moved), library, **choices).experiments[0].X

    (r,) = assemble(data_on(grid, fields), library, **choices).experiments
    stacked = np.concatenate([direction[f] for f in r.structure.fields], axis=1).T
    for i, text in enumerate(operators):
        exact = r.J[i].everywhere(stacked) @ r.structure.b.T
        difference = ((tested(1) - tested(-1)) / (2 * h))[:, :, i]
        assert_allclose(difference, exact, atol=1e-6 * np.abs(exact).max(), err_msg=text)
        assert np.abs(exact).max() > 0


def test_noise_is_taken_off_nonlinear_operators():
    """The mean of X over the noise is X of the data without it, where the variance is stated; else u² has σ² more."""
    grid, sigma, rng = ring(24), 0.5, np.random.default_rng(0)
    t = np.linspace(0, 1, 12)
    u = np.broadcast_to(1 + np.sin(grid.points[:, 0]), (12, 24))
    library = Library({"u": ["u**2", "u**3"]})

    def tested(values, variance):
        return (
            assemble(
                Data(t, {"u": values}, grid),
                library,
                discretisation=SplineTests(gap=2, degree=3),
                stencil=TemporalTests(3, 2.0),
                variance=variance,
            )
            .experiments[0]
            .X.sum(axis=(0, 1))
        )

    clean = tested(u, None)
    draws = [u + sigma * rng.standard_normal(u.shape) for _ in range(30)]
    fair = np.array([tested(v, {"u": sigma**2}) for v in draws])
    raw = np.array([tested(v, None) for v in draws])
    error = fair.std(axis=0) / np.sqrt(30)
    assert np.all(np.abs(fair.mean(axis=0) - clean) < 4 * error)
    assert np.all(raw.mean(axis=0) - clean > 8 * error)


def test_meshes_with_too_few_nodes_are_refused():
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[0, 1, 2], [1, 3, 2]]), "triangle")
    with pytest.raises(SpaceError, match=r"no test function fits|polynomials need"):
        SplineTests().build(mesh, 2)
    assert is_uniform(ring(20))
    assert is_uniform(square(20))
    assert not is_uniform(mesh)


def flat(grid):
    return Data(np.linspace(0, 1, 12), {"u": np.ones((12, grid.n_nodes))}, grid)


@pytest.mark.parametrize(
    "text, error", [("laplacian(recover(laplacian(u)))", OperatorError), ("facets(avg(u)*avg(test))", SpaceError)]
)
def test_forms_that_need_elements_are_refused(text, error):
    with pytest.raises(error, match="Galerkin"):
        assemble(flat(line(30)), Library({"u": [text]}), discretisation=SplineTests(), stencil=TemporalTests(3))


def test_settings_are_checked():
    with pytest.raises(SpaceError, match="gap: positive"):
        SplineTests(gap=-1)
    with pytest.raises(SpaceError, match="axis 'y' has none"):
        SplineTests(gap={"x": 2.0}).build(square(20), 2)
    with pytest.raises(SpaceError, match="degree: 2 carries 1 derivatives, 2 are needed"):
        SplineTests(degree=2).build(line(20), 2, derivatives=2)


# Library.weak takes the treatment of C1 elements for splines, with a penalty on ∂u/∂n that they do not have.
@pytest.mark.parametrize(
    "boundary",
    [Unknown(), NoFlux(), ZeroNeumann()],
    ids=["unknown", "no flux", "Neumann"],
)
@pytest.mark.parametrize("treatment", [None, Mixed()], ids=["open", "mixed"])
def test_the_biharmonic_operator_goes_onto_the_tests(treatment, boundary):
    """As any other derivative: treatments are for elements that do not carry it, and the boundary is out of reach."""
    data = manufactured("KS", line(36), 20)
    choices = {"discretisation": SplineTests(gap=3), "stencil": TemporalTests(5, 2.0)}
    written, plain = (
        assemble(data, Library({"u": [text]}, biharmonic=treatment, boundary=boundary), **choices).experiments[0].X
        for text in ("biharmonic(u)", "dx(dx(dx(dx(u))))")
    )
    assert_allclose(written, plain, rtol=1e-12)
