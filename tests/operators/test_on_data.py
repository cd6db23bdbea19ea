"""What integration by parts cannot move stays on the data, and nothing else does."""

import pytest
import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators import Library, Vocabulary
from bvsi.operators.strong import Scalar, evaluate

LINE = Vocabulary(("x",), ("u",))
PLANE = Vocabulary(("x", "y"), ("u", "v"))


def on_splines(text, words):
    return Library({"u": [text]}).weak(words, trial_order=0, test_order=8)[0]


@pytest.mark.parametrize(
    ("text", "words", "on_data"),
    [
        ("u*dx(u)", LINE, ()),
        ("dx(u)**2 + u*dx(dx(u))", LINE, ()),
        ("dx(u)**2", LINE, ((1,),)),
        ("u*laplacian(u)", LINE, ((1,),)),
        ("dx(u)*dx(dx(u))", LINE, ((1,),)),
        ("div(u**3*grad(laplacian(u)))", LINE, ((1,),)),
        ("dx(dx(u))**2", LINE, ((2,),)),
        ("sqrt(1 + dx(u)**2)", LINE, ((1,),)),
        ("dot(grad(u), grad(v))", PLANE, ((0, 1), (1, 0))),
        ("u*laplacian(v)", PLANE, ((0, 1), (1, 0))),
        ("dy(u)*dx(dx(u))", PLANE, ((0, 1), (1, 0))),
        ("div(u**3*grad(laplacian(u)))", PLANE, ((0, 1), (1, 0))),
        ("u*dx(v)", PLANE, ((1, 0),)),
    ],
)
def test_the_form_is_the_operator_with_the_lowest_derivatives(text, words, on_data):
    operator = on_splines(text, words)
    assert operator.on_data == on_data
    parts = {t.test: sp.Integer(-1) ** sum(t.test) * t.integrand for t in operator.forms["cells"].terms}
    assert sp.expand(evaluate(Scalar.from_parts(parts), words) - evaluate(operator.strong, words)) == 0


def test_what_can_be_moved_is_moved_beside_what_cannot():
    operator = on_splines("dx(u)**2 + u*dx(u)", LINE)
    u, ux = LINE.jet("u"), LINE.jet("u", (1,))
    assert {t.test: t.integrand for t in operator.forms["cells"].terms} == {(0,): ux**2, (1,): -(u**2) / 2}


def test_third_derivatives_of_the_data_are_refused():
    with pytest.raises(OperatorError, match="order 3"):
        on_splines("dx(dx(dx(u)))**2", LINE)
