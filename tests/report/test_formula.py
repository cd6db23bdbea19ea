"""Operator texts as formulas: brackets where the meaning needs them, and nothing else."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bvsi.app.report.formula import operator_formula
from bvsi.app.report.typeset import latex, mathml, plain

TEXTS = {
    "dx(u)": (r"\partial_{x} u", "∂ₓu"),
    "laplacian(u)": (r"\nabla^{2} u", "∇²u"),
    "biharmonic(c1)": (r"\nabla^{4} c_{1}", "∇⁴c₁"),
    "div(p*grad(x**2))": (r"\nabla \cdot\left(p\,\nabla x^{2}\right)", "∇·(p ∇x²)"),
    "u*dx(u)": (r"u\,\partial_{x} u", "u ∂ₓu"),
    "dx(u)*u": (r"\left(\partial_{x} u\right)\,u", "(∂ₓu) u"),
    "dx(u)**2": (r"\left(\partial_{x} u\right)^{2}", "(∂ₓu)²"),
    "dx(dx(dx(u)))": (r"\partial_{x}^{3} u", "∂ₓ³u"),
    "dx(dy(u))": (r"\partial_{x} \partial_{y} u", "∂ₓ∂_y u"),
    "dx(u + v)": (r"\partial_{x}\left(u + v\right)", "∂ₓ(u + v)"),
    "u - (v - w)": (r"\left(u -\left(v - w\right)\right)", "(u − (v − w))"),
    "(u + v)*w": (r"\left(u + v\right)\,w", "(u + v) w"),
    "(u/v)**2": (r"\left(\frac{u}{v}\right)^{2}", "(u/v)²"),
    "u/(1 + u**2)": (r"\frac{u}{1 + u^{2}}", "u/(1 + u²)"),
    "2*3*u": (r"2 \cdot 3\,u", "2·3 u"),
    "1e-5*u": (r"1\times 10^{-05}\,u".replace("-05", "-5"), "1×10⁻⁵ u"),
    "dot(grad(u), grad(v))": (r"\nabla u \cdot \nabla v", "∇u·∇v"),
    "sqrt(u)*sin(2*pi*x)": (r"\sqrt{u}\,\sin\left(2\,\pi\,x\right)", "√(u) sin(2 π x)"),
    "atan(rho_2)": (r"\arctan\left(\rho_{2}\right)", "atan(ρ₂)"),
    "laplacian(diff(c1**2*c2, c1))": (
        r"\nabla^{2} \partial_{c_{1}}\left(c_{1}^{2}\,c_{2}\right)",
        "∇²∂_c₁ (c₁² c₂)",
    ),
}
HOSTILE = ("u.__class__", "__import__('os')", "u*v − strange 'name'", "<b>u</b>", "\\input{x}", "u if v else w", "1j*u")


@pytest.mark.parametrize("text", TEXTS)
def test_an_operator_is_set_as_people_write_it(text):
    formula = operator_formula(text)
    assert (latex(formula), plain(formula)) == TEXTS[text]


@pytest.mark.parametrize("text", [*TEXTS, *HOSTILE])
def test_markup_is_well_formed_and_keeps_every_letter(text):
    tree = ElementTree.fromstring(f"<math>{mathml(operator_formula(text))}</math>")
    letters = "".join(tree.itertext())
    assert letters
    if text in HOSTILE:
        assert letters == text


@pytest.mark.parametrize("text", TEXTS)
def test_latex_is_understood_by_a_mathematics_typesetter(text):
    from matplotlib.mathtext import MathTextParser

    width, *_ = MathTextParser("path").parse(f"${latex(operator_formula(text))}$")
    assert width > 0


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_operator_stays_a_text(text):
    printed = latex(operator_formula(text))
    assert printed.startswith(r"\texttt{")
    assert printed.isascii()
    assert r"\input" not in printed
    assert plain(operator_formula(text)) == text


@pytest.mark.parametrize("text", ["u" * 3000, "(" * 100 + "u" + ")" * 100, "-" * 90 + "u"])
def test_texts_beyond_the_bounds_are_not_read(text):
    assert plain(operator_formula(text)) in (text, "u")
