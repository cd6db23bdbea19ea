"""Right-hand sides as functions of arrays: equal to the mathematics, in every coordinates and time order."""

from __future__ import annotations

import numpy as np
import pytest

from bvsi.app.exports.differences import derivative_matrix, difference_weights
from bvsi.app.exports.scripts import PROGRAMS
from bvsi.data import Grid, Mesh
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.operators import Library, Vocabulary
from exports.export_cases import LINE, X, discovery, lorenz, one_field

U, UX, UXX, UXXX = 2 + np.sin(X), np.cos(X), -np.sin(X), -np.cos(X)
#: Operators on the line, and what they are of u = 2 + sin x.
OPERATORS = {
    "1": np.ones_like(X),
    "u": U,
    "u**3": U**3,
    "u*dx(u)": U * UX,
    "laplacian(u)": UXX,
    "dx(dx(dx(u)))": UXXX,
    "biharmonic(u)": np.sin(X),
    "dx(dx(u**2))": 2 * U * UXX + 2 * UX**2,
    "dot(grad(u), grad(u))": UX**2,
    "div(u*grad(u))": UX**2 + U * UXX,
    "laplacian(diff(u**4, u))": 4 * (3 * U**2 * UXX + 6 * U * UX**2),
    "cos(x)*u": np.cos(X) * U,
    "div(u*grad(sin(x)))": UX * np.cos(X) - U * np.sin(X),
    "exp(-u)/u": np.exp(-U) / U,
    "sqrt(u) - log(u)*tanh(u)": np.sqrt(U) - np.log(U) * np.tanh(U),
    "t*u": 0.7 * U,
    "erf(u)/pi": None,
}


def value(text: str) -> np.ndarray:
    if OPERATORS[text] is not None:
        return OPERATORS[text]
    from scipy.special import erf

    return erf(U) / np.pi


@pytest.mark.parametrize("text", OPERATORS)
def test_numpy_is_the_operator(text):
    rhs = one_field([text]).to_numpy(LINE)
    np.testing.assert_allclose(rhs(0.7, U), 0.5 * value(text), atol=1e-9)
    np.testing.assert_allclose(rhs(0.7, U, [3.0]), 3.0 * value(text), atol=1e-8)


@pytest.mark.parametrize("text", OPERATORS)
def test_the_script_is_the_function(text):
    found = one_field([text, "u**2"])
    space: dict = {}
    exec(compile(PROGRAMS["numpy"](found), "script", "exec"), space)
    rhs = space["right_side"]({"x": X}, {"x": 2 * np.pi})
    np.testing.assert_allclose(rhs(0.7, U), found.to_numpy(LINE)(0.7, U), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", OPERATORS)
def test_sympy_is_the_operator(text):
    import sympy as sp

    (equation,) = one_field([text]).to_sympy()
    t, x = sp.symbols("t x", real=True)
    u = sp.Function("u", real=True)(t, x)
    assert equation.lhs == sp.Derivative(u, t)
    exact = sp.lambdify([t, x], equation.rhs.subs(u, 2 + sp.sin(x)).doit())
    np.testing.assert_allclose(exact(0.7, X) + 0 * X, 0.5 * value(text), atol=1e-12)


def test_sympy_takes_symbols():
    import sympy as sp

    a, b = sp.symbols("a b")
    (equation,) = one_field(["u", "laplacian(u)"]).to_sympy(theta=[a, b])
    assert {a, b} <= equation.free_symbols


def test_series_are_systems():
    rhs = lorenz().to_numpy()
    x, y, z = state = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(rhs(0.0, state), [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def test_plane():
    x, y = np.linspace(-1, 1, 21), np.linspace(0, 2, 25)
    grid = Grid(x=x, y=y)
    found = one_field(["laplacian(p)", "div(p*grad(x**2*y))"], grid, field="p")
    p = x[:, None] ** 2 * y**2
    laplacian = 2 * y**2 + 2 * x[:, None] ** 2 + 0 * p
    # ∇·(p∇ψ) = ∇p·∇ψ + p∇²ψ with ψ = x²y
    drift = 2 * x[:, None] * y**2 * 2 * x[:, None] * y + 2 * x[:, None] ** 2 * y * x[:, None] ** 2 + p * 2 * y
    slope = found.to_numpy(grid)(0.0, p.ravel())
    np.testing.assert_allclose(slope, (0.5 * laplacian - drift).ravel(), atol=1e-9)


def test_diffusion_between_fixed_ends():
    """u = sin πx e^(−½π²t) + x, by the function and by the script."""
    from scipy.integrate import solve_ivp

    x = np.linspace(0, 1, 31)
    grid = Grid(x=x)
    found = one_field(["laplacian(u)"], grid)
    space: dict = {}
    exec(compile(PROGRAMS["numpy"](found), "script", "exec"), space)
    for rhs in (found.to_numpy(grid, fixed=True), space["right_side"]({"x": x}, fixed=True)):
        solved = solve_ivp(rhs, (0, 0.5), np.sin(np.pi * x) + x, method="BDF", rtol=1e-8, atol=1e-10)
        exact = np.sin(np.pi * x) * np.exp(-0.25 * np.pi**2) + x
        np.testing.assert_allclose(solved.y[:, -1], exact, atol=1e-5)


def test_polar_coordinates():
    """∇²(r³ cos φ) = 8 r cos φ."""
    r, phi = np.linspace(1, 2, 41), np.linspace(0, 2 * np.pi, 32, endpoint=False)
    grid = Grid(r=r, phi=phi, coordinates="polar", periodic="phi")
    found = one_field(["laplacian(u)"], grid)
    slope = found.to_numpy(grid)(0.0, r[:, None] ** 3 * np.cos(phi))
    np.testing.assert_allclose(slope, 0.5 * 8 * r[:, None] * np.cos(phi), atol=1e-8)
    for refused in ("pypde", "dedalus", "modelingtoolkit", "ufl"):
        with pytest.raises(BvsiError, match="polar"):
            PROGRAMS[refused](found)


def test_second_order_in_time_has_the_rates_in_its_state():
    found = one_field(["laplacian(u)"], time_order=2)
    rate = np.cos(3 * X)
    slope = found.to_numpy(LINE)(0.0, np.stack([U, rate]))
    np.testing.assert_allclose(slope, np.stack([rate, 0.5 * UXX]), atol=1e-10)


def test_known_terms_of_the_left_side_go_to_the_right():
    found = one_field(["laplacian(u)"], left="dt(u) + u*dx(u)")
    np.testing.assert_allclose(found.to_numpy(LINE)(0.0, U), 0.5 * UXX - U * UX, atol=1e-10)


def test_what_does_not_evolve_is_for_sympy():
    import sympy as sp

    steady = one_field(["u"], left="laplacian(u)")
    (equation,) = steady.to_sympy()
    assert equation.lhs == 0
    assert len(equation.rhs.args) == 2
    dense = one_field(["laplacian(u)"], left="dt(rho*u)", auxiliary=["rho"])
    assert dense.to_sympy()[0].lhs.atoms(sp.Derivative)
    for found in (steady, dense):
        with pytest.raises(BvsiError, match="SymPy"):
            found.to_numpy(LINE)


def test_fields_that_are_known():
    found = one_field(["k*laplacian(u)"], auxiliary=["k"])
    with pytest.raises(BvsiError, match="'k'"):
        found.to_numpy(LINE)
    k = 1 + 0.1 * np.cos(X)
    np.testing.assert_allclose(found.to_numpy(LINE, known={"k": k})(0.0, U), 0.5 * k * UXX, atol=1e-10)
    moving = found.to_numpy(LINE, known={"k": lambda t: t * k})
    np.testing.assert_allclose(moving(2.0, U), k * UXX, atol=1e-10)


def test_definitions_and_vectors_are_worked_out():
    found = one_field(["laplacian(diff(phi, u))"], definitions={"phi": "u**4"})
    np.testing.assert_allclose(found.to_numpy(LINE)(0.0, U), 0.5 * value("laplacian(diff(u**4, u))"), atol=1e-9)
    axis = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    grid = Grid(x=axis, y=axis, periodic=("x", "y"))
    library = Library({"v": ["laplacian(v)", "advect(v, v)"]}, vectors={"v": ("a", "b")})
    flow = discovery(library, dict.fromkeys(library.names, 2.0), Vocabulary(("x", "y"), ("a", "b")))
    a, b = np.sin(axis)[:, None] + 0 * axis, np.cos(axis) + 0 * axis[:, None]
    slope = flow.to_numpy(grid)(0.0, np.stack([a, b]))
    ax, by = np.cos(axis)[:, None] + 0 * axis, -np.sin(axis) + 0 * axis[:, None]
    np.testing.assert_allclose(slope, [2 * (-a + a * ax), 2 * (-b + b * by)], atol=1e-10)


def test_another_grid_is_refused():
    with pytest.raises(BvsiError, match="axes x"):
        one_field(["u"]).to_numpy()
    triangle = Mesh(points=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], cells=[[0, 1, 2]], cell_type="triangle")
    with pytest.raises(BvsiError, match="a mesh has no axes"):
        one_field(["u"], Grid(x=X, y=X)).to_numpy(triangle)
    with pytest.raises(BvsiError, match="2 coefficients"):
        one_field(["u", "u**2"]).to_sympy(theta=[1.0])


def test_forms_for_elements_have_no_strong_form():
    with pytest.raises(BvsiError, match="elements"):
        one_field(["cells(dx(u)*dx(test))"]).to_numpy(LINE)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivative_matrices(order):
    k = 5
    exact = {1: k * np.cos(k * X), 2: -(k**2) * np.sin(k * X)}
    exact |= {3: -(k**3) * np.cos(k * X), 4: k**4 * np.sin(k * X)}
    np.testing.assert_allclose(derivative_matrix(X, order, 2 * np.pi) @ np.sin(k * X), exact[order], atol=1e-8)
    uneven = np.sort(np.random.default_rng(0).uniform(-1, 1, 30))
    p = np.polynomial.Polynomial([1, -2, 0.5, 3, -1])
    np.testing.assert_allclose(derivative_matrix(uneven, order) @ p(uneven), p.deriv(order)(uneven), atol=1e-5)


def test_differences_are_of_fourth_order():
    errors = []
    for n in (20, 40):
        x = np.linspace(0, 1, n)
        errors.append(np.abs(derivative_matrix(x, 2) @ np.exp(2 * x) - 4 * np.exp(2 * x)).max())
    assert errors[0] / errors[1] > 2**4
    np.testing.assert_allclose(difference_weights(np.array([-1.0, 0.0, 1.0]), 2), [1, -2, 1])


def test_uneven_periodic_axes():
    x = np.sort(np.random.default_rng(1).uniform(0, 2 * np.pi, 200))
    np.testing.assert_allclose(derivative_matrix(x, 1, 2 * np.pi) @ np.sin(x), np.cos(x), atol=1e-3)


def test_jax_is_numpy():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    found = one_field(["u*dx(u)", "laplacian(u)", "cos(x)*u", "erf(u)"])
    rhs, reference = found.to_jax(LINE), found.to_numpy(LINE)
    np.testing.assert_allclose(jax.jit(rhs)(0.3, U), reference(0.3, U), atol=1e-10)
    draws = found.posterior.sample(3, np.random.default_rng(0))
    mapped = jax.vmap(rhs, in_axes=(None, None, 0))(0.3, U, draws)
    np.testing.assert_allclose(mapped, [reference(0.3, U, theta) for theta in draws], atol=1e-10)
    J = jax.jacfwd(rhs, argnums=2)(0.3, U, found.theta)
    np.testing.assert_allclose(J @ found.theta, reference(0.3, U), atol=1e-9)
    space: dict = {}
    exec(compile(PROGRAMS["jax"](found), "script", "exec"), space)
    np.testing.assert_allclose(space["right_side"]({"x": X}, {"x": 2 * np.pi})(0.3, U), reference(0.3, U), atol=1e-10)


def test_a_missing_package_is_named(monkeypatch):
    import sys

    for name in ("jax", "jax.numpy", "pde", "ufl"):
        monkeypatch.setitem(sys.modules, name, None)
    found = one_field(["u"])
    for export in (lambda: found.to_jax(LINE), found.to_pypde, lambda: found.to_ufl({}, {})):
        with pytest.raises(MissingDependencyError, match=r"bvsi\[export\]"):
            export()
