"""The library: names, columns, subsets, explanations."""

import pytest
import sympy as sp

from bvsi.errors import OperatorError
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, Unknown, Vocabulary, ZeroNeumann

ONE = {"u": ["laplacian(u)", "u * dx(u)", "u**2"]}
TWO = {"a": ["laplacian(a)", "a*b", "b"], "b": ["laplacian(b)", "a*b", "a"]}


def test_names_are_the_texts_and_carry_the_equation_where_there_are_several():
    assert Library(ONE).names == ("laplacian(u)", "u * dx(u)", "u**2")
    assert Library(TWO).names == ("a: laplacian(a)", "a: a*b", "a: b", "b: laplacian(b)", "b: a*b", "b: a")
    assert len(Library(TWO)) == 6


def test_a_sympy_operator_is_named_by_its_text():
    u, x = sp.symbols("u x")
    assert Library({"u": [u * x, "u"]}).names == (str(u * x), "u")


def test_index_ignores_spaces_and_the_equation_where_it_is_clear():
    one, two = Library(ONE), Library(TWO)
    assert one.index("u*dx(u)") == 1
    assert one.index(" u * dx( u ) ") == 1
    assert two.index("b: laplacian(b)") == two.index("laplacian(b)") == two.index("b:laplacian( b )") == 3
    assert two.index("b: a*b") == 4
    assert two.index("a: a*b") == 1


def test_index_refuses_a_name_that_stands_in_several_equations():
    with pytest.raises(OperatorError, match=r"several equations.*a: a\*b"):
        Library(TWO).index("a*b")


def test_an_unknown_name_gets_the_nearest_known_one():
    with pytest.raises(OperatorError, match=r"(?i)'laplacian\(v\)'.*did you mean 'laplacian\(u\)'"):
        Library(ONE).index("laplacian(v)")
    with pytest.raises(OperatorError, match=r"(?i)'qqqqqqqqqq'.*known.*laplacian\(u\)"):
        Library(ONE).index("qqqqqqqqqq")


@pytest.mark.parametrize(
    "equations", [{"u": ["u", "u"]}, {"u": ["u*dx(u)", "u * dx(u)"]}, {"u": ["u", sp.Symbol("u")]}]
)
def test_an_operator_given_twice_is_refused(equations):
    with pytest.raises(OperatorError, match="twice"):
        Library(equations)


def test_the_same_operator_may_stand_in_two_equations():
    assert len(Library({"a": ["a*b"], "b": ["a*b"]})) == 2


def test_keep_takes_all_operators_or_a_list_of_them():
    library = Library({"u": ["u", "laplacian(u)"]}, keep="all")
    assert library.keep == library.names
    with pytest.raises(OperatorError, match=r'keep: .*write keep=\["u"\]'):
        Library({"u": ["u", "laplacian(u)"]}, keep="u")


def test_keep_is_given_in_full_names():
    assert Library(ONE, keep=["laplacian( u )"]).keep == ("laplacian(u)",)
    assert Library(TWO, keep=["laplacian(b)", "a: a*b"]).keep == ("b: laplacian(b)", "a: a*b")
    with pytest.raises(OperatorError, match=r"'dx\(u\)' is not"):
        Library(ONE, keep=["dx(u)"])


@pytest.mark.parametrize("equations", [{}, {"u": []}, {"u": [], "v": []}])
def test_an_empty_library_is_refused(equations):
    with pytest.raises(OperatorError, match="no operators"):
        Library(equations)


@pytest.mark.parametrize("equations", [{"u": "laplacian(u)"}, ["u"], "u", None, {"u": None}, {"u": 3}], ids=repr)
def test_what_is_no_mapping_of_lists_is_refused(equations):
    with pytest.raises(OperatorError, match="library"):
        Library(equations)


def test_syntax_errors_are_reported_where_the_library_is_written():
    with pytest.raises(OperatorError, match="not an expression"):
        Library({"u": ["laplacian(u"]})


def test_an_equation_for_a_field_without_data_is_refused():
    with pytest.raises(OperatorError, match=r"'u'.*c"):
        Library(ONE).weak(Vocabulary(("x",), ("c",)))


def test_subset_keeps_order_conditions_and_protected_operators():
    library = Library(TWO, keep=["laplacian(a)", "laplacian(b)"], boundary={"a": NoFlux(), "b": Dirichlet()})
    small = library.subset(["b: a", "a: a*b", "laplacian(a)", "laplacian(b)"])
    assert small.names == ("a: laplacian(a)", "a: a*b", "b: laplacian(b)", "b: a")
    assert small.keep == ("a: laplacian(a)", "b: laplacian(b)")
    assert small.condition("a") == NoFlux()
    assert small.condition("b") == Dirichlet()
    assert library.names == Library(TWO).names


def test_subset_of_one_equation_has_that_equation_only():
    small = Library(TWO, keep=["laplacian(b)"]).subset(["laplacian(b)", "b: a*b"])
    assert tuple(small.equations) == ("b",)
    assert small.names == ("laplacian(b)", "a*b")
    assert small.keep == ("laplacian(b)",)


def test_subset_refuses_unknown_names():
    with pytest.raises(OperatorError, match=r"'dx\(u\)' is not"):
        Library(ONE).subset(["dx(u)"])
    with pytest.raises(OperatorError, match="no operators"):
        Library(ONE).subset([])


def test_the_library_cannot_be_changed_through_what_it_gives_out():
    given = {"u": ["u", "u**2"]}
    library = Library(given)
    given["u"].append("u**3")
    library.equations["u"] = ()
    assert library.names == ("u", "u**2")


def test_repr_shows_the_equations():
    text = repr(Library(TWO))
    assert "a_t" in text
    assert "laplacian(b)" in text


EXPLAINED = [
    "laplacian(u)",
    "u*dx(u)",
    "div(u*grad(x*y))",
    "k*u",
    "u**3 - u",
    "dot(grad(u), grad(u))",
    "sin(x)*t",
    "laplacian(u*w)",
    "dx(dz(u))",
    "1",
    "div(exp(u)*grad(u))",
]


@pytest.mark.parametrize(
    "condition", [NoFlux(), Dirichlet(), Unknown(), Assembled(), ZeroNeumann()], ids=lambda c: type(c).__name__
)
def test_explain_shows_all_forms_of_every_operator(condition):
    library = Library({"u": EXPLAINED, "w": ["laplacian(w)"]}, boundary=condition)
    blocks = library.explain().split("\n\n")
    assert len(blocks) == len(library)
    for name, block in zip(library.names, blocks, strict=True):
        head, *lines = block.splitlines()
        assert head == name
        assert [line.split()[0] for line in lines] == ["strong", "weak", "boundary", "Jacobian"]
        assert all(len(line.split()) > 1 for line in lines)


def test_explain_says_what_becomes_of_the_boundary_term():
    def boundary(condition):
        text = Library({"u": ["laplacian(u)"]}, boundary=condition).explain()
        return next(line for line in text.splitlines() if line.strip().startswith("boundary"))

    assert "no flux" in boundary(NoFlux())
    assert "unknown" in boundary(Unknown())
    assert "prescribed" in boundary(Dirichlet())
    assert "assembled" in boundary(Assembled())
    assert "zero" in boundary(ZeroNeumann())


def test_explain_takes_the_dimension_from_the_operators():
    assert "u_y" not in Library({"u": ["laplacian(u)"]}).explain()
    assert "u_y" in Library({"u": ["laplacian(u)", "y*u"]}).explain()
    assert "u_z" in Library({"u": ["laplacian(u)"]}).explain(dim=3)
    assert "u_z" in Library({"u": ["laplacian(u)", "dz(u)"]}).explain()


def test_explain_of_sympy_operators_with_known_fields():
    x, y = sp.symbols("x y")
    u, k = (sp.Function(name)(x, y) for name in "uk")
    text = Library({"u": [k * u.diff(x), sp.Symbol("u") * sp.Symbol("q")]}).explain()
    assert "Jacobian" in text


def test_explain_tells_constant_from_state_dependent_jacobians():
    text = Library({"u": ["laplacian(u)", "u**2", "x"]}).explain().split("\n\n")
    assert "constant" in text[0]
    assert "depends on the state" in text[1]
    assert "known source" in text[2]
