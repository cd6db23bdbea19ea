"""Boundary conditions: a boundary term goes only where the condition proves it zero."""

import pytest
import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, Unknown, Vocabulary, ZeroNeumann

LINE = Vocabulary(("x",), ("u", "w"), ("k",))
PLANE = Vocabulary(("x", "y"), ("u", "w"), ("k",))
SPACE = Vocabulary(("x", "y", "z"), ("u", "w"), ("k",))


def kept(text, condition, words=PLANE):
    """The boundary terms that stay, as one expression; v is tested without derivative."""
    equations = {"u": [text], "w": ["w"]} if isinstance(condition, dict) else {"u": [text]}
    operator = Library(equations, boundary=condition).weak(words)[0]
    assert all(sum(term.test) == 0 for term in operator.boundary.kept)
    return sp.expand(sum((term.integrand for term in operator.boundary.kept), sp.Integer(0)))


def normal_derivative(field, words=PLANE):
    return sum(n * words.jet(field, words.unit(i)) for i, n in enumerate(words.n))


@pytest.mark.parametrize("words", [LINE, PLANE, SPACE])
@pytest.mark.parametrize(
    "text",
    ["laplacian(u)", "div(u*grad(u))", "u*laplacian(u)", "laplacian(u**3)", "div(k*grad(u))", "div(exp(x)*grad(u))"],
)
def test_zero_neumann_proves_diffusion_zero(text, words):
    assert kept(text, ZeroNeumann(), words) == 0
    assert kept(text, Assembled(), words) != 0


@pytest.mark.parametrize("words", [PLANE, SPACE])
def test_zero_neumann_keeps_drift(words):
    x, n, u = words.x[0], words.n[0], words.jet("u")
    assert sp.expand(kept("div(u*grad(x**2))", ZeroNeumann(), words) - 2 * x * n * u) == 0


def test_zero_neumann_keeps_only_the_drift_of_a_sum():
    drift = kept("laplacian(u) + div(u*grad(x**2))", ZeroNeumann())
    assert sp.expand(drift - 2 * PLANE.x[0] * PLANE.n[0] * PLANE.jet("u")) == 0


def test_zero_neumann_keeps_fluxes_along_one_axis_only():
    """u_x n_x alone is not zero where ∇u·n = u_x n_x + u_y n_y is; on the line it is."""
    assert kept("dx(dx(u))", ZeroNeumann()) != 0
    assert kept("dx(dx(u))", ZeroNeumann(), LINE) == 0


def test_zero_neumann_of_one_field_says_nothing_of_another():
    other_unknown = {"u": ZeroNeumann(), "w": Unknown()}
    assert sp.expand(kept("laplacian(w)", other_unknown) - normal_derivative("w")) == 0
    assert kept("laplacian(w)", {"u": ZeroNeumann(), "w": ZeroNeumann()}) == 0
    assert kept("laplacian(u*w)", {"u": ZeroNeumann(), "w": ZeroNeumann()}) == 0
    expected = PLANE.jet("u") * normal_derivative("w")
    assert sp.expand(kept("laplacian(u*w)", other_unknown) - expected) == 0


@pytest.mark.parametrize("text", ["laplacian(u)", "div(u*grad(x))", "laplacian(u**3) + div(u*grad(w))", "dx(dx(u))"])
@pytest.mark.parametrize("condition", [NoFlux(), Dirichlet(), Unknown()], ids=lambda c: type(c).__name__)
def test_conditions_that_leave_no_boundary_term(text, condition):
    assert kept(text, condition) == 0


@pytest.mark.parametrize("text", ["laplacian(u)", "div(u*grad(x))", "u*laplacian(u)"])
def test_assembled_keeps_every_term(text):
    operator = Library({"u": [text]}, boundary=Assembled()).weak(PLANE)[0]
    assert operator.boundary.kept == operator.weak.boundary
    assert operator.weak.boundary


@pytest.mark.parametrize(
    "condition", [NoFlux(), Dirichlet(), Unknown(), Assembled(), ZeroNeumann()], ids=lambda c: type(c).__name__
)
def test_without_integration_by_parts_no_boundary_term_arises(condition):
    assert kept("u*dx(u) + u**2", condition) == 0


@pytest.mark.parametrize(
    ("condition", "vanish"),
    [(Unknown(), True), (Dirichlet(), True), (NoFlux(), False), (ZeroNeumann(), False), (Assembled(), False)],
    ids=lambda c: type(c).__name__,
)
def test_which_conditions_restrict_the_test_functions(condition, vanish):
    assert condition.tests_vanish is vanish


def test_fields_without_condition_are_unknown():
    library = Library({"u": ["u"], "w": ["w"]}, boundary={"w": NoFlux()})
    assert library.condition("u") == Unknown()
    assert library.condition("w") == NoFlux()


def test_one_condition_serves_all_fields():
    library = Library({"u": ["u"], "w": ["w"]}, boundary=Dirichlet())
    assert library.condition("u") == library.condition("w") == Dirichlet()


@pytest.mark.parametrize(
    "boundary", [{"q": NoFlux()}, {"u": "noflux"}, {"u": NoFlux}, "noflux", NoFlux, 3, ["u"]], ids=repr
)
def test_wrong_conditions_are_refused(boundary):
    with pytest.raises(OperatorError, match="boundary"):
        Library({"u": ["u"]}, boundary=boundary)


@pytest.mark.parametrize(
    "condition", [NoFlux(), Dirichlet(), Unknown(), Assembled(), ZeroNeumann()], ids=lambda c: type(c).__name__
)
def test_biharmonic_is_refused_on_continuous_elements(condition):
    with pytest.raises(OperatorError, match=r"biharmonic\(u\).*element"):
        Library({"u": ["biharmonic(u)"]}, boundary=condition).weak(PLANE, trial_order=1, test_order=1)
