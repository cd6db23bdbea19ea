"""Weak forms: ∫ v F(u) dx equals cell terms plus boundary terms, for operators of all kinds.

The left side is computed from F written out by hand in SymPy, the right side from the package's weak form, both
with Gauss–Legendre quadrature on a box for smooth u and v.
"""

import itertools

import numpy as np
import pytest
import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators import Assembled, Library, Vocabulary

TIME = sp.Symbol("t", real=True)

BOX = {"x": (0.2, 1.1), "y": (-0.3, 0.8), "z": (0.1, 0.7)}
T = 0.7
x, y, z, t = sp.symbols("x y z t", real=True)
FIELDS = {
    1: {"u": 1 + sp.sin(2 * x) / 2, "w": sp.cos(x) + x**2, "k": sp.exp(x) / 3},
    2: {"u": 1 + sp.sin(2 * x + y) / 3 + x * y**2 / 4, "w": sp.cos(x - y) + x, "k": sp.exp(x * y / 2)},
    3: {"u": 1 + sp.sin(x + 2 * y - z) / 3, "w": sp.cos(x - y * z), "k": 1 + x * z},
}
TESTS = {1: sp.exp(-x) * x, 2: sp.cos(x + 2 * y) + x, 3: sp.exp(x - z) * (1 + y)}


def lap(f):
    return sum(sp.diff(f, s, 2) for s in (x, y, z))


def flux_div(scale, potential):
    """∇·(scale ∇potential)."""
    return sum(sp.diff(scale * sp.diff(potential, s), s) for s in (x, y, z))


def gradients(f, g):
    return sum(sp.diff(f, s) * sp.diff(g, s) for s in (x, y, z))


def integrate(expression, names, n=14):
    """∫ over the box of the named coordinates; the others must not occur."""
    rules = []
    for name in names:
        a, b = BOX[name]
        points, weights = np.polynomial.legendre.leggauss(n)
        rules.append((0.5 * (a + b) + 0.5 * (b - a) * points, 0.5 * (b - a) * weights))
    points = np.meshgrid(*(p for p, _ in rules), indexing="ij")
    weights = 1.0
    for _, w in rules:
        weights = np.multiply.outer(weights, w)
    symbols = [sp.Symbol(name, real=True) for name in names]
    values = sp.lambdify(symbols, expression, modules=["scipy", "numpy"])(*points)
    return float(np.sum(weights * values))


def on_fields(expression, words, dim):
    """Jets replaced by derivatives of the chosen fields."""
    replaced = {TIME: sp.Float(T)}
    for symbol, (field, index) in words.jets(expression).items():
        replaced[symbol] = derivative(FIELDS[dim][field], index, words)
    return expression.xreplace(replaced)


def derivative(f, index, words):
    for symbol, order in zip(words.x, index, strict=True):
        f = sp.diff(f, symbol, order)
    return f


def weak_value(operator, words, dim):
    """Cell terms plus boundary terms for the chosen fields and test function."""
    v = TESTS[dim]
    total = 0.0
    for term in operator.forms["cells"].terms:
        integrand = derivative(v, term.test, words) * on_fields(term.integrand, words, dim)
        total += integrate(integrand, words.coordinates)
    for (axis, name), end in itertools.product(enumerate(words.coordinates), (0, 1)):
        normal = {s: sp.Integer((2 * end - 1) * (i == axis)) for i, s in enumerate(words.n)}
        rest = [other for other in words.coordinates if other != name]
        for term in operator.forms["boundary"].terms:
            integrand = derivative(v, term.test, words) * on_fields(term.integrand, words, dim).xreplace(normal)
            total += integrate(sp.sympify(integrand).subs(words.x[axis], BOX[name][end]), rest)
    return total


def strong_value(F, words, dim):
    integrand = TESTS[dim] * F(**FIELDS[dim]).subs(t, T)
    return integrate(integrand, words.coordinates)


PLANE = {
    "u": lambda u, w, k: u,
    "x*u**2": lambda u, w, k: x * u**2,
    "laplacian(u)": lambda u, w, k: lap(u),
    "div(u*grad(x**2))": lambda u, w, k: flux_div(u, x**2),
    "div(u*grad(x*y**2))": lambda u, w, k: flux_div(u, x * y**2),
    "u*dx(dx(u))": lambda u, w, k: u * sp.diff(u, x, 2),
    "u*laplacian(u)": lambda u, w, k: u * lap(u),
    "dx(u**2*dx(u))": lambda u, w, k: sp.diff(u**2 * sp.diff(u, x), x),
    "laplacian(u**3)": lambda u, w, k: lap(u**3),
    "dy(u)*dx(dx(u))": lambda u, w, k: sp.diff(u, y) * sp.diff(u, x, 2),
    "dx(u)*dx(dx(u))": lambda u, w, k: sp.diff(u, x) * sp.diff(u, x, 2),
    "dx(u)**2*dx(dx(u))": lambda u, w, k: sp.diff(u, x) ** 2 * sp.diff(u, x, 2),
    "dx(dy(u))": lambda u, w, k: sp.diff(u, x, y),
    "u**2*dx(dy(u))": lambda u, w, k: u**2 * sp.diff(u, x, y),
    "x*y*dx(dy(u))": lambda u, w, k: x * y * sp.diff(u, x, y),
    "div(exp(u)*grad(u))": lambda u, w, k: flux_div(sp.exp(u), u),
    "exp(u)*laplacian(u)": lambda u, w, k: sp.exp(u) * lap(u),
    "dot(grad(u), grad(u))": lambda u, w, k: gradients(u, u),
    "u*dx(u)": lambda u, w, k: u * sp.diff(u, x),
    "dx(u**2)/2": lambda u, w, k: u * sp.diff(u, x),
    "div(u*grad(w))": lambda u, w, k: flux_div(u, w),
    "w*laplacian(u) - u*laplacian(w)": lambda u, w, k: w * lap(u) - u * lap(w),
    "dx(w)*dy(u)": lambda u, w, k: sp.diff(w, x) * sp.diff(u, y),
    "div(k*grad(u))": lambda u, w, k: flux_div(k, u),
    "k*laplacian(u)": lambda u, w, k: k * lap(u),
    "laplacian(k)": lambda u, w, k: lap(k),
    "laplacian(u)/(1 + u**2)": lambda u, w, k: lap(u) / (1 + u**2),
    "laplacian(log(u))": lambda u, w, k: lap(sp.log(u)),
    "laplacian(sqrt(u))*2": lambda u, w, k: 2 * lap(sp.sqrt(u)),
    "t*laplacian(u)*sin(x)": lambda u, w, k: t * sp.sin(x) * lap(u),
    "dx(u)*dx(w)*laplacian(u)*0 + x*laplacian(u)": lambda u, w, k: x * lap(u),
    "dx(dx(u))/(2 + dx(u))": lambda u, w, k: sp.diff(u, x, 2) / (2 + sp.diff(u, x)),
    "div(grad(u)/sqrt(1 + dot(grad(u), grad(u))))": lambda u, w, k: flux_div((1 + gradients(u, u)) ** -0.5, u),
    "tanh(u) + atan(w)*erf(u)": lambda u, w, k: sp.tanh(u) + sp.atan(w) * sp.erf(u),
}


TURNED = ("div(u*grad(x*y**2))", "dy(u)*dx(dx(u))", "u**2*dx(dy(u))", "div(u*grad(w))", "dx(u**2*dx(u))")


@pytest.mark.parametrize(("text", "axes"), [*((text, "xy") for text in PLANE), *((text, "yx") for text in TURNED)])
def test_integration_by_parts_in_the_plane(text, axes):
    words = Vocabulary(tuple(axes), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    assert weak_value(operator, words, 2) == pytest.approx(strong_value(PLANE[text], words, 2), rel=1e-9, abs=1e-10)


LINE = {
    "laplacian(u)": lambda u, w, k: lap(u),
    "dx(u**2*dx(u))": lambda u, w, k: sp.diff(u**2 * sp.diff(u, x), x),
    "dx(dx(u))*w": lambda u, w, k: sp.diff(u, x, 2) * w,
    "dx(u)**3*dx(dx(u))*x": lambda u, w, k: x * sp.diff(u, x) ** 3 * sp.diff(u, x, 2),
    "dx(dx(u))/(1 + dx(u)**2)": lambda u, w, k: sp.diff(u, x, 2) / (1 + sp.diff(u, x) ** 2),
    "dx(dx(u))/(1 + dx(u)**2)**(3/2)": lambda u, w, k: sp.diff(u, x, 2) / (1 + sp.diff(u, x) ** 2) ** sp.Rational(3, 2),
    "dx(dx(u))*sqrt(1 + dx(u)**2)": lambda u, w, k: sp.diff(u, x, 2) * sp.sqrt(1 + sp.diff(u, x) ** 2),
    "dx(dx(w))/dx(w)": lambda u, w, k: sp.diff(w, x, 2) / sp.diff(w, x),
    "dx(dx(u))*exp(u)*dx(u)": lambda u, w, k: sp.diff(u, x, 2) * sp.exp(u) * sp.diff(u, x),
}


@pytest.mark.parametrize("text", LINE)
def test_integration_by_parts_on_the_line(text):
    words = Vocabulary(("x",), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    assert weak_value(operator, words, 1) == pytest.approx(strong_value(LINE[text], words, 1), rel=1e-9, abs=1e-10)


def test_antiderivative_holds_for_slopes_of_either_sign():
    """u_xx/u_x = ∂x log|u_x|: with u falling the flux must still be real."""
    words = Vocabulary(("x",), ("u",))
    operator = Library({"u": ["dx(dx(u))/dx(u)"]}, boundary=Assembled()).weak(words)[0]
    (flux,) = (term.integrand for term in operator.forms["cells"].terms if sum(term.test))
    slope = words.jet("u", (1,))
    at = [complex(flux.subs(slope, value)) for value in (-0.5, -2.0)]
    assert at[1] - at[0] == pytest.approx(-np.log(4))
    assert all(abs(value.imag) < 1e-14 for value in at)


SPACE = {
    "laplacian(u)": lambda u, w, k: lap(u),
    "div(u*grad(x*y*z))": lambda u, w, k: flux_div(u, x * y * z),
    "div(k*u*grad(w))": lambda u, w, k: flux_div(k * u, w),
    "u*laplacian(w)": lambda u, w, k: u * lap(w),
    "dz(u)*dx(dz(u))": lambda u, w, k: sp.diff(u, z) * sp.diff(u, x, z),
    "dot(grad(u), grad(w))*u": lambda u, w, k: gradients(u, w) * u,
}


@pytest.mark.parametrize("text", SPACE)
def test_integration_by_parts_in_space(text):
    words = Vocabulary(("x", "y", "z"), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    assert weak_value(operator, words, 3) == pytest.approx(strong_value(SPACE[text], words, 3), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("text", PLANE)
def test_no_more_derivatives_than_the_element_carries(text):
    words = Vocabulary(("x", "y"), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    for term in (*operator.forms["cells"].terms, *operator.forms["boundary"].terms):
        assert sum(term.test) <= 1
        assert all(sum(index) <= 1 for _, index in words.jets(term.integrand).values())


@pytest.mark.parametrize("text", [*PLANE, *SPACE])
def test_jacobian_is_the_gateaux_derivative_of_the_terms(text):
    """d/dε g(u + ε δu) = Σ_β ∂g/∂u_β ∂^β δu, at random values of the jets."""
    words = Vocabulary(("x", "y", "z"), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    rng = np.random.default_rng(0)
    for form in (operator.forms["cells"], operator.forms["boundary"]):
        for term in form.terms:
            symbols = sorted(term.integrand.free_symbols, key=lambda s: s.name)
            value = dict(zip(symbols, rng.uniform(0.5, 1.5, len(symbols)), strict=True))
            jets = {s: j for s, j in words.jets(term.integrand).items() if j[0] in words.fields}
            shift = {s: rng.standard_normal() for s in jets}
            by_index = {(field, index): shift[s] for s, (field, index) in jets.items()}
            h = 1e-6
            ends = [
                float(term.integrand.xreplace({s: sp.Float(c + e * shift.get(s, 0.0)) for s, c in value.items()}))
                for e in (-h, h)
            ]
            mine = [j for j in form.jacobian if j.test == term.test]
            assert {(j.field, j.trial) for j in mine} <= set(by_index)
            linear = sum(
                float(j.coefficient.xreplace({s: sp.Float(c) for s, c in value.items()})) * by_index[j.field, j.trial]
                for j in mine
            )
            assert linear == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-6, abs=1e-7)


def test_divergence_form_is_kept_as_written():
    """∇·(u∇x²) moves its derivative to v: no derivative of u is needed."""
    words = Vocabulary(("x", "y"), ("u",))
    operator = Library({"u": ["div(u*grad(x**2))"]}, boundary=Assembled()).weak(words)[0]
    ((test, integrand),) = ((term.test, term.integrand) for term in operator.forms["cells"].terms)
    assert test == (1, 0)
    assert sp.expand(integrand + 2 * words.x[0] * words.jet("u")) == 0


@pytest.mark.parametrize(
    ("text", "reads", "linear", "source"),
    [
        ("laplacian(u)", ("u",), True, False),
        ("x*dx(u) + t*u", ("u",), True, False),
        ("u*dx(u)", ("u",), False, False),
        ("laplacian(w)", ("w",), True, False),
        ("u*w", ("u", "w"), False, False),
        ("k*u", ("u",), True, False),
        ("k*x", (), True, True),
        ("laplacian(k)", (), True, True),
        ("u + 1", ("u",), True, True),
        ("exp(u)", ("u",), False, True),
    ],
)
def test_what_an_operator_says_of_itself(text, reads, linear, source):
    words = Vocabulary(("x", "y"), ("u", "w"), ("k",))
    operator = Library({"u": [text]}, boundary=Assembled()).weak(words)[0]
    assert operator.reads == reads
    assert operator.state_linear is linear
    assert operator.has_source is source


@pytest.mark.parametrize("text", ["u**3", "u**2*dx(u)", "u*w**2", "exp(u)", "div(u**2*grad(w))", "k*u**3"])
def test_operators_with_second_derivatives_that_read_the_fields_are_curved(text):
    assert Library({"u": [text]}, boundary=Assembled()).weak(Vocabulary(("x", "y"), ("u", "w"), ("k",)))[0].curved


@pytest.mark.parametrize("text", ["1", "u", "laplacian(u)", "u**2", "u*dx(u)", "u*w", "k**3*u**2", "div(u*grad(w))"])
def test_operators_up_to_the_second_degree_are_not_curved(text):
    assert not Library({"u": [text]}, boundary=Assembled()).weak(Vocabulary(("x", "y"), ("u", "w"), ("k",)))[0].curved


@pytest.mark.parametrize("text", ["0", "u - u", "dx(y)", "laplacian(x)"])
def test_an_operator_that_is_zero_is_refused_by_name(text):
    words = Vocabulary(("x", "y"), ("u", "w"), ("k",))
    with pytest.raises(OperatorError, match="is zero whatever the fields are; leave it out") as caught:
        Library({"u": [text]}, boundary=Assembled()).weak(words)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(("text", "degree"), [("u", 4), ("u**2", 6), ("x**2*u", 6), ("laplacian(u)", 4), ("u*w*x", 7)])
def test_degree_counts_fields_coordinates_and_test_function(text, degree):
    words = Vocabulary(("x", "y"), ("u", "w"), ("k",))
    assert Library({"u": [text]}, boundary=Assembled()).weak(words)[0].degree(2) >= degree


@pytest.mark.parametrize("text", ["biharmonic(u)", "laplacian(laplacian(u))", "dx(dx(dx(u)))"])
def test_more_than_two_derivatives_are_refused_with_advice(text):
    words = Vocabulary(("x", "y"), ("u",))
    with pytest.raises(OperatorError) as caught:
        Library({"u": [text]}, boundary=Assembled()).weak(words)
    assert text in str(caught.value)
    assert "element" in str(caught.value)
    assert "smoothness" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "dx(dx(u))**2",
        "exp(dx(dx(u)))",
        "dx(dx(u))*dy(dy(u))",
        "sqrt(laplacian(u))",
        "dx(w)*dx(dx(u))",
        "dx(u)*dx(w)*dx(dx(u))",
        "u*dx(dx(dx(dx(u))))",
    ],
)
def test_second_derivatives_that_cannot_be_moved_have_no_weak_form(text):
    words = Vocabulary(("x", "y"), ("u", "w"))
    with pytest.raises(OperatorError, match="no weak form") as caught:
        Library({"u": [text]}, boundary=Assembled()).weak(words)
    assert text in str(caught.value)


def test_derivatives_of_monomials_go_onto_the_test_function_as_they_are():
    """All monomials to degree 6 of two fields under derivatives to order 6, without the chain rule."""
    powers = [f"u**{i}*v**{j}" for i in range(7) for j in range(7 - i) if i + j]
    texts = [f"{'dx(' * k}{p}{')' * k}" for p in powers for k in range(7)]
    operators = Library({"u": texts}).weak(Vocabulary(("x",), ("u", "v"), ()), trial_order=0, test_order=6)
    assert len(operators) == 189
    for operator, text in zip(operators, texts, strict=True):
        (term,) = operator.forms["cells"].terms
        assert term.test == (text.count("dx("),)
        assert not operator.on_data
