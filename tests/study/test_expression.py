"""Expressions of coefficients: values, linearity, and refusals of everything that is not the language."""

import numpy as np
import pytest

from bvsi.app.study.expression import parse_expression
from bvsi.errors import BvsiError

X = np.linspace(0.5, 2, 4)


@pytest.mark.parametrize(
    "text, operators, wanted",
    [
        ("2*[laplacian(u)]", ("laplacian(u)",), lambda a: 2 * a),
        ("-[a]/[b] + 3", ("a", "b"), lambda a, b: -a / b + 3),
        ("[c1: dx(u)**2]**2", ("c1: dx(u)**2",), lambda a: a**2),
        ("exp(-[a]*x) + log(x) - sqrt(x)*abs([a])", ("a", "a"), lambda a, b: np.exp(-a * X) + np.log(X) - X**0.5 * b),
        ("sin(pi*x)*erf([a]) + tanh(1.5e-1)", ("a",), lambda a: np.sin(np.pi * X) * 0.8427007929497149 + np.tanh(0.15)),
        ("2**-[a]", ("a",), lambda a: 2.0**-a),
    ],
)
def test_values(text, operators, wanted):
    expression = parse_expression(text, ("x",))
    assert expression.operators == operators
    coefficients = [1.0, 4.0][: len(operators)] if "b" in operators else [1.0] * len(operators)
    np.testing.assert_allclose(expression(coefficients, {"x": X}), wanted(*coefficients), rtol=1e-14)


@pytest.mark.parametrize(
    "text, linear",
    [
        ("[a]", True),
        ("2*[a] - x*[b]/3", True),
        ("-(exp(x)*[a])", True),
        ("[a] + 1", False),
        ("[a]*[b]", False),
        ("1/[a]", False),
        ("[a]**1", False),
        ("abs([a])", False),
    ],
)
def test_linear_ones_are_known(text, linear):
    assert parse_expression(text, ("x",)).linear is linear


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[a",
        "a]",
        "[a].__class__",
        "().__class__.__bases__ + [a]",
        "__import__('os').system('true')",
        "eval('1') + [a]",
        "open('f') + [a]",
        "exp(x=1) + [a]",
        "exp(1, 2) + [a]",
        "exp",
        "(lambda: 1)() + [a]",
        "[a] if x else 1",
        "x < 1 + [a]",
        "x or 1 + [a]",
        "{x: 1} + [a]",
        "x; x + [a]",
        "x @ x + [a]",
        "x // 2 + [a]",
        "x % 2 + [a]",
        "'x' + [a]",
        "1j + [a]",
        "True + [a]",
        "2[a]",
        "[a][b]",
        "_0",
        "[a] + _0",
        "(_0) + [a]",
        "x.real + [a]",
        "y + [a]",
        "9**9**9**9 + [a]",
        "x**1e9 + [a]",
        "[a]**(20 + 1)",
        "1e400*[a]",
        "exp(exp(exp(9)))*[a]",
        "[a]*sqrt(-1)",
        "[a] + 1/0",
        "1 + x",
        "[a]*1" + "0" * 150,
        "(" * 300 + "[a]" + ")" * 300,
        "-" * 300 + "[a]",
        "+".join(["[a]"] * 500),
        "[a]" + "*x" * 5_000,
        "[a]*ｘ",  # full-width x
        "[a]*х",  # Cyrillic
        "[a]*x\u200b",
        "ехр([a])",  # Cyrillic letters
        "[a]*x\x00",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(BvsiError, match="expression") as caught:
        parse_expression(text, ("x",))
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_outside_its_domain_there_is_no_number_and_no_warning():
    assert np.isnan(parse_expression("log([a])")([-1.0], {}))
    assert np.isinf(parse_expression("1/[a]")([0.0], {}))
