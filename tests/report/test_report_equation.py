"""The equation of a discovery in LaTeX and MathML."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from bvsi.app.report import equation_latex, notebook_html
from bvsi.app.report.equation import equation_mathml, measured, operator_label
from bvsi.app.report.formula import Number
from bvsi.infer.posteriors import GaussianPosterior


@pytest.mark.parametrize(
    ("value", "sd", "expected"),
    [
        (0.0998, 0.0004, Number("0.0998(4)")),
        (3.214e-6, 5e-8, Number("3.21(5)", -6)),
        (-2.5e7, 1e5, Number("-2.50(1)", 7)),
        (0.0, 2e-12, Number("0(2)", -12)),
        (0.0, 0.0, Number("0")),
        (3e-310, 1e-311, Number("3.0(1)", -310)),
        (0.5, np.nan, Number("0.5")),
    ],
)
def test_numbers_have_their_uncertainty_in_units_of_the_last_digit(value, sd, expected):
    assert measured(value, sd) == expected


def test_latex_of_one_equation(burgers):
    lines = equation_latex(burgers).splitlines()
    assert lines[1:2] + lines[-1:] == [r"\begin{align*}", r"\end{align*}"]
    u = burgers.equation.split()  # u_t = 0.301(2) laplacian(u) − 1.01(2) u*dx(u)
    assert (
        lines[2].strip()
        == rf"\frac{{\partial u}}{{\partial t}} &= {u[2]}\,\nabla^{{2}} u - {u[5]}\,u\,\partial_{{x}} u"
    )


def test_latex_has_one_line_per_field_and_few_terms_in_a_line(burgers, by_hand):
    assert equation_latex(by_hand).count("&=") == 2
    names = tuple(f"u**{k}" for k in range(2, 9))
    many = GaussianPosterior(names, np.arange(3.0, 10.0), np.eye(7))
    text = equation_latex(replace(burgers, posterior=many, time_order=2))
    assert r"\frac{\partial^{2} u}{\partial t^{2}} &= 3(1)" in text
    assert text.count(r"\\") == 2
    assert [line.count("u^") for line in text.splitlines()[2:-1]] == [3, 3, 1]


def test_a_constant_is_a_number_by_itself_and_no_operator_gives_zero(burgers):
    constant = replace(burgers, posterior=GaussianPosterior(("1",), np.array([-2.0]), np.eye(1)))
    assert "&= - 2(1)\n" in equation_latex(constant)
    other = replace(burgers, fields=("u", "v"), posterior=GaussianPosterior(("u: v",), np.ones(1), np.eye(1)))
    assert r"\frac{\partial v}{\partial t} &= 0" in equation_latex(other)


def test_markup_holds_all_terms_and_says_the_equation(by_hand):
    tree = ElementTree.fromstring(equation_mathml(by_hand))
    assert tree.get("aria-label").split() == by_hand.equation.split()
    lines = ["".join(line.itertext()) for line in tree]
    assert lines == ["∂u∂t= 0.33(1)∇2u", "∂v∂t= [−3.9e−12, 3.9e−12]∇·(v∇x2)"]


def test_labels_name_the_field_where_there_are_several():
    assert operator_label("dx(u)", ("u",)) == "∂ₓu"
    assert operator_label("c1: dx(c2)", ("c1", "c2")) == "c₁: ∂ₓc₂"


def test_a_notebook_gets_equation_verdict_and_table_without_scripts(burgers, by_hand):
    tree = ElementTree.fromstring(notebook_html(burgers))
    tags = [node.tag for node in tree.iter()]
    assert {"math", "table"} <= set(tags)
    assert not {"script", "style", "link"} & set(tags)
    words = "".join(tree.itertext())
    assert "✓ Consistent" in words
    for low, high in burgers.posterior.interval():
        assert f"[{low:.6g}, {high:.6g}]".replace("-", "−") in words
    assert "? Not checked" in notebook_html(by_hand)
