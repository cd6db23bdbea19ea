"""Operators keep their syntax tree and their weak forms."""

import ast
import pickle

import pytest
import sympy as sp

import bvsi.operators.operator as building
from bvsi.app.report.formula import operator_formula
from bvsi.app.report.typeset import plain
from bvsi.errors import OperatorError
from bvsi.operators import InteriorPenalty, Library, Mixed, Vocabulary
from bvsi.operators.syntax import read

LINE = Vocabulary(("x",), ("u",))
PAIR = Vocabulary(("x",), ("u", "v"))
TEXTS = ["laplacian(u)", "u*dx(u)", "u"]
x = sp.Symbol("x")
u = sp.Function("u")(x, sp.Symbol("t"))


@pytest.fixture
def built(monkeypatch):
    """Names of the operators whose weak forms are built, in order."""
    names = []
    build = building.build_operator

    def counted(operator, **given):
        names.append(operator.name)
        return build(operator, **given)

    monkeypatch.setattr(building, "build_operator", counted)
    return names


def test_a_text_is_read_into_the_tree_of_python():
    operator = Library({"u": [" u*dx(u)"]}).operators[0]
    assert ast.dump(operator.syntax.tree) == ast.dump(ast.parse("u*dx(u)", mode="eval").body)
    assert (operator.name, operator.equation) == ("u*dx(u)", "u")
    assert operator.syntax.names == {"u"}
    assert operator.syntax.functions == {"dx"}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (u * u.diff(x), "u*dx(u)"),
        (-3 * u.diff(x, 2), "-3*dx(dx(u))"),
        (sp.Rational(1, 2) * sp.sin(sp.pi * u), "sin(pi*u)/2"),
        (-u, "-u"),
        (sp.sqrt(u), "sqrt(u)"),
        (sp.Float(0.1) * u, "0.1*u"),
        (u**2 - 1, "u**2 - 1"),
    ],
)
def test_a_sympy_expression_gets_a_tree_of_the_same_language(expression, text):
    tree = Library({"u": [expression]}).operators[0].syntax.tree
    assert ast.unparse(tree) == ast.unparse(read(text).tree)


def test_a_sympy_expression_is_typeset_and_keeps_its_name():
    operator = Library({"u": [u.diff(x, 2)]}).operators[0]
    assert operator.name == str(u.diff(x, 2))
    assert plain(operator_formula(operator.syntax)) == "∂ₓ²u"


def test_a_sympy_expression_has_the_bounds_of_a_text():
    long = sp.Add(*(sp.Symbol("u") ** k * x**j for k in range(1, 20) for j in range(20)))
    with pytest.raises(OperatorError, match="split it into several operators"):
        Library({"u": [long]})


def test_weak_forms_are_built_once(built):
    library = Library({"u": TEXTS})
    assert library.weak(LINE) == library.weak(LINE)
    assert built == TEXTS


def test_a_subset_and_another_treatment_know_the_weak_forms_of_the_whole(built):
    library = Library({"u": TEXTS, "v": ["u", "v"]})
    whole = library.weak(PAIR)
    part = library.subset(["laplacian(u)", "v: v"])
    assert part.weak(PAIR) == (whole[0], whole[4])
    assert library.with_(biharmonic=Mixed()).with_(biharmonic=Mixed()).weak(PAIR)[0].name == "u: laplacian(u)"
    assert built.count("u: laplacian(u)") == 2  # without a treatment of ∇⁴, and with one


def test_a_weak_form_follows_what_it_depends_on():
    library = Library({"u": ["biharmonic(u)"]})
    penalty, mixed = (library.weak(LINE, biharmonic=b)[0] for b in (InteriorPenalty(), Mixed()))
    assert not penalty.recovered
    assert mixed.recovered
    plane = library.weak(Vocabulary(("x", "y"), ("u",)), biharmonic=Mixed())[0]
    assert plane.words.dim == 2
    assert library.weak(LINE, trial_order=0, test_order=4)[0].forms["cells"].terms[0].test == (4,)


def test_a_name_without_its_equation_is_that_of_the_weak_form_too():
    library = Library({"u": TEXTS, "v": ["v"]})
    library.weak(PAIR)
    assert [o.name for o in library.subset(["u: u"]).weak(PAIR)] == ["u"]


def test_whether_there_is_a_weak_form_is_a_question(built):
    library = Library({"u": ["u", "u*dx(dx(u))"]})
    reason = library.obstacle(LINE, trial_order=1, test_order=0)
    assert reason.startswith("operator 'u*dx(dx(u))': ")
    assert library.obstacle(LINE) == ""
    with pytest.raises(OperatorError) as caught:
        library.weak(LINE, trial_order=1, test_order=0)
    assert str(caught.value) == reason
    assert len(built) == 4
    assert "fields v" in library.obstacle(Vocabulary(("x",), ("v",)))
    assert "Galerkin" in Library({"u": ["laplacian(recover(u))"]}).obstacle(LINE, trial_order=0, test_order=4)


def test_a_library_travels_without_its_weak_forms():
    library = Library({"u": TEXTS})
    library.weak(LINE)
    copy = pickle.loads(pickle.dumps(library))
    assert copy.names == library.names
    assert all(not operator.weak_forms for operator in copy.operators)
    assert [o.key for o in copy.weak(LINE)] == [o.key for o in library.weak(LINE)]
