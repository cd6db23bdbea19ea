"""Operator texts and SymPy expressions: what they mean."""

import numpy as np
import pytest
import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators import Assembled, Library, Vocabulary
from bvsi.operators.parse import FUNCTIONS, strong_form
from bvsi.operators.strong import evaluate
from bvsi.operators.syntax import read

TIME = sp.Symbol("t", real=True)

WORDS = Vocabulary(("x", "y"), ("u", "v"), ("k",))
X, Y = WORDS.x
U, V, K = WORDS.jet("u"), WORDS.jet("v"), WORDS.jet("k")


def jet(field, letters, words=WORDS):
    return words.jet(field, tuple(letters.count(name) for name in words.coordinates))


def meaning(text, words=WORDS):
    """The text as one expression of jets, all derivatives carried out."""
    return evaluate(strong_form(read(text), words).form, words)


def same(left, right):
    return sp.simplify(sp.expand(left - right)) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 3*u**2", 2 + 3 * U**2),
        ("-u**2", -(U**2)),
        ("(-u)**2", U**2),
        ("u**-1", 1 / U),
        ("2**3**2*u", 512 * U),
        ("u/2/4", U / 8),
        ("1/2*u", U / 2),
        ("2*-u", -2 * U),
        ("--u", U),
        ("+u", U),
        ("u - v - x", U - V - X),
        ("u - (v - x)", U - V + X),
        ("u*v + x*y", U * V + X * Y),
        ("u*(v + x)*y", U * V * Y + U * X * Y),
        ("u**(1/2)", sp.sqrt(U)),
        ("sqrt(u)**2", U),
        ("x**2/y**2", (X / Y) ** 2),
    ],
)
def test_arithmetic_has_the_precedence_of_python(text, expected):
    assert same(meaning(text), expected)


@pytest.mark.parametrize(
    ("text", "number"), [("1e-3*u", 1e-3), (".5*u", 0.5), ("3.*u", 3.0), ("0.1*u", 0.1), ("7*u", 7), ("1E2*u", 100)]
)
def test_numbers_keep_all_their_digits(text, number):
    assert float(meaning(text) / U) == number


def test_integers_and_their_quotients_are_exact():
    assert meaning("u/3") == U / 3
    assert meaning("2*u/6") == U / 3


def test_names_are_fields_auxiliary_fields_coordinates_time_and_pi():
    assert meaning("u + v + k + x + y + t + pi") == U + V + K + X + Y + TIME + sp.pi


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_their_usual_values(name):
    numpy_name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name)
    expected = sp.erf(sp.Float(0.3)) if name == "erf" else getattr(np, numpy_name)(0.3)
    assert float(meaning(f"{name}(u)").subs(U, 0.3)) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(
    "text", ["laplacian(u)+u*dx(u)", "  laplacian ( u )  +  u * dx( u )  ", "laplacian(u)\t+u*dx(u)"]
)
def test_spaces_do_not_count(text):
    assert same(meaning(text), jet("u", "xx") + jet("u", "yy") + U * jet("u", "x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dx(u)", jet("u", "x")),
        ("dy(dx(u))", jet("u", "xy")),
        ("dx(x*u)", U + X * jet("u", "x")),
        ("dx(u**3)", 3 * U**2 * jet("u", "x")),
        ("dx(sin(u*v))", sp.cos(U * V) * (V * jet("u", "x") + U * jet("v", "x"))),
        ("dx(k*t)", TIME * jet("k", "x")),
        ("laplacian(u)", jet("u", "xx") + jet("u", "yy")),
        ("laplacian(x**2*y)", 2 * Y),
        ("div(grad(u))", jet("u", "xx") + jet("u", "yy")),
        ("div(u*grad(x**2))", 2 * U + 2 * X * jet("u", "x")),
        ("div(2*grad(u) - grad(v))", 2 * (jet("u", "xx") + jet("u", "yy")) - jet("v", "xx") - jet("v", "yy")),
        ("div(grad(u)/2)", (jet("u", "xx") + jet("u", "yy")) / 2),
        ("div(-grad(u))", -jet("u", "xx") - jet("u", "yy")),
        ("dot(grad(u), grad(v))", jet("u", "x") * jet("v", "x") + jet("u", "y") * jet("v", "y")),
        ("u*laplacian(u)", U * (jet("u", "xx") + jet("u", "yy"))),
        ("laplacian(u)*laplacian(v)", (jet("u", "xx") + jet("u", "yy")) * (jet("v", "xx") + jet("v", "yy"))),
        ("dx(laplacian(u))", jet("u", "xxx") + jet("u", "xyy")),
        ("biharmonic(u)", jet("u", "xxxx") + 2 * jet("u", "xxyy") + jet("u", "yyyy")),
        ("laplacian(u)*1", jet("u", "xx") + jet("u", "yy")),
        ("-laplacian(u)/4", -(jet("u", "xx") + jet("u", "yy")) / 4),
    ],
)
def test_derivatives_follow_the_chain_and_product_rules(text, expected):
    assert same(meaning(text), expected)


def test_axis_order_does_not_change_what_a_derivative_is():
    words = Vocabulary(("y", "x"), ("u",))
    x = words.x[1]
    assert meaning("dx(u)", words) == jet("u", "x", words)
    assert same(meaning("dy(x*u)", words), x * jet("u", "y", words))
    assert same(meaning("div(u*grad(x**2))", words), 2 * words.jet("u") + 2 * x * jet("u", "x", words))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("w", "'w'"),
        ("z", "coordinate 'z'"),
        ("dz(u)", "coordinates x, y"),
        ("laplcian(u)", "laplacian"),
        ("grad(u)", "vector"),
        ("grad(u)*grad(v)", "dot"),
        ("u + grad(u)", "vector"),
        ("sin(grad(u))", "vector"),
        ("dx(grad(u))", "vector"),
        ("div(u)", "div needs a vector"),
        ("dot(u, v)", "dot needs two vectors"),
        ("dot(grad(u))", "2 argument"),
        ("sin(u, v)", "1 argument"),
        ("laplacian()", "1 argument"),
        ("laplacian", "laplacian(...)"),
        ("sin*u", "sin(...)"),
        ("2**u", "exp"),
        ("u**v", "exp"),
        ("1/0", "zero"),
        ("0**-1*u", "zero"),
        ("u//2", "+ - * / **"),
        ("u % 2", "+ - * / **"),
        ("u^2", "+ - * / **"),
        ("u @ v", "+ - * / **"),
    ],
)
def test_what_is_wrong_is_refused_with_the_text_and_a_hint(text, part):
    with pytest.raises(OperatorError) as caught:
        strong_form(read(text), WORDS)
    assert text in str(caught.value)
    assert part in str(caught.value)


def test_misspelt_name_gets_the_nearest_known_one():
    words = Vocabulary(("x",), ("density",))
    with pytest.raises(OperatorError, match="Did you mean 'density'"):
        strong_form(read("laplacian(densty)"), words)


def test_double_underscore_in_a_field_name_is_refused():
    with pytest.raises(OperatorError, match="are reserved"):
        Vocabulary(("x",), ("u__x",))


# --- from SymPy ------------------------------------------------------------------------------------------------

x, y, t = sp.symbols("x y t")
u_symbol, v_symbol = sp.symbols("u v")
u_function, v_function = (sp.Function(name)(x, y, t) for name in "uv")


def weak_of(source):
    return Library({"u": [source]}, boundary=Assembled()).weak(WORDS)[0]


def expanded(terms):
    return {term.test: sp.expand(term.integrand) for term in terms}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (u_symbol**2 * sp.exp(-v_symbol) + x * y, "u**2*exp(-v) + x*y"),
        (sp.Symbol("u", real=True) * sp.Symbol("x", positive=True), "u*x"),
        (u_function**3 - u_function, "u**3 - u"),
        (sp.Derivative(u_function, x), "dx(u)"),
        (sp.Derivative(u_symbol, x), "dx(u)"),
        (u_function.diff(x, 2) + u_function.diff(y, 2), "laplacian(u)"),
        (u_function * u_function.diff(x), "u*dx(u)"),
        (u_function.diff(x, y), "dx(dy(u))"),
        ((u_function**2 * u_function.diff(x)).diff(x), "dx(u**2*dx(u))"),
        (sp.Derivative(u_function**2, x), "dx(u**2)"),
        (u_function.diff(x) ** 2 + u_function.diff(y) ** 2, "dot(grad(u), grad(u))"),
        ((2 * x * u_function).diff(x), "dx(2*x*u)"),
        (sp.sqrt(u_function) * sp.pi * t / 3, "sqrt(u)*pi*t/3"),
        (sp.Function("v")(x, y).diff(x) * sp.Function("k")(x, y), "dx(v)*k"),
        (sp.sin(u_function) * sp.erf(v_function), "sin(u)*erf(v)"),
        (sp.Rational(1, 3) * u_symbol + sp.Rational(1, 4), "u/3 + 1/4"),
    ],
)
def test_sympy_gives_the_weak_form_of_the_text(expression, text):
    given, expected = weak_of(expression), weak_of(text)
    assert expanded(given.weak.cells) == expanded(expected.weak.cells)
    assert expanded(given.weak.boundary) == expanded(expected.weak.boundary)


@pytest.mark.parametrize(
    "expression",
    [
        u_function.diff(t),
        sp.Symbol("w") + u_symbol,
        sp.Integral(u_function, x),
        sp.Piecewise((u_symbol, x > 0), (0, True)),
        sp.gamma(u_symbol),
        sp.Abs(u_symbol),
        sp.I * u_symbol,
        sp.oo * x,
        sp.nan,
        sp.zoo * u_symbol,
        sp.MatrixSymbol("A", 2, 2),
        sp.Integer(10) ** 400 * u_symbol,
        sp.Derivative(u_function, sp.Symbol("z")),
    ],
    ids=lambda expression: str(expression)[:20],
)
def test_sympy_outside_the_language_is_refused(expression):
    with pytest.raises(OperatorError):
        weak_of(expression)
