"""Forms that are written weakly, jumps and averages, recovered fields, definitions, derivatives by fields."""

import pytest
import sympy as sp

from bvsi.common.naming import Sided
from bvsi.errors import OperatorError
from bvsi.operators import (
    Assembled,
    InteriorPenalty,
    Library,
    Mixed,
    NoFlux,
    Unknown,
    Vocabulary,
    ZeroNeumann,
    free_energy_library,
    monomials,
)

LINE = Vocabulary(("x",), ("c",))
PLANE = Vocabulary(("x", "y"), ("c", "d"))


def weak(text, *, words=LINE, boundary=None, **options):
    return Library({"c": [text]}, boundary=boundary, **options).weak(words)[0]


def test_diff_is_the_derivative_by_a_field():
    by_diff = weak("laplacian(diff(c**3*d, c))", words=PLANE, boundary=NoFlux())
    by_hand = weak("laplacian(3*c**2*d)", words=PLANE, boundary=NoFlux())
    assert by_diff.key == by_hand.key
    twice = weak("div(diff(c**2*d**2, c, c)*grad(c) + diff(c**2*d**2, c, d)*grad(d))", words=PLANE, boundary=NoFlux())
    once = weak("laplacian(diff(c**2*d**2, c))", words=PLANE, boundary=NoFlux())
    for left, right in zip(twice.terms, once.terms, strict=True):
        assert left.test == right.test
        assert sp.expand(left.integrand - right.integrand) == 0


@pytest.mark.parametrize("text", ["diff(c)", "diff(c, x)", "diff(c**2, c*2)", "diff(grad(c), c)", "diff(c, c, e)"])
def test_diff_refuses_what_is_no_derivative_by_a_field(text):
    with pytest.raises(OperatorError, match=r"diff|vector"):
        weak(text, words=PLANE)


def test_definitions_stand_for_their_text():
    defined = weak("laplacian(diff(phi, c))", definitions={"phi": "c**4"}, boundary=NoFlux())
    assert defined.key == weak("laplacian(4*c**3)", boundary=NoFlux()).key


@pytest.mark.parametrize("definitions", [{"c": "x"}, {"x": "c"}, {"2a": "c"}, {"phi": "c +"}])
def test_definitions_are_checked(definitions):
    with pytest.raises(OperatorError):
        weak("laplacian(c)", definitions=definitions)


def test_definitions_do_not_use_each_other():
    with pytest.raises(OperatorError, match="unknown name 'b'"):
        weak("a", definitions={"a": "b + b", "b": "c"})


def test_jumps_and_averages_on_the_line():
    operator = weak("facets(jump(grad(test))*avg(c))")
    c = {1: sp.Symbol("c____p", real=True), -1: sp.Symbol("c____m", real=True)}
    n = LINE.n[0]
    found = {term.test: term.integrand for term in operator.forms["facets"].terms}
    assert set(found) == {Sided((1,), 1), Sided((1,), -1)}
    for side in (1, -1):
        assert sp.simplify(found[Sided((1,), side)] - side * n * (c[1] + c[-1]) / 2) == 0
    assert not operator.forms["cells"].terms
    assert {(t.field, t.trial) for t in operator.jacobian} == {("c", Sided((0,), 1)), ("c", Sided((0,), -1))}


def test_on_the_boundary_a_jump_is_the_normal_component():
    operator = weak("boundary(jump(grad(c))*test)", boundary=Assembled())
    (term,) = operator.forms["boundary"].terms
    assert term.integrand == LINE.n[0] * LINE.jet("c", (1,))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("cells(c)", "linear in the test function"),
        ("cells(test**2)", "linear"),
        ("cells(test*c + c)", "linear"),
        ("facets(c*jump(grad(test)))", "two values"),
        ("facets(test)", "two values"),
        ("cells(jump(grad(c))*test)", "unknown function 'jump'"),
        ("jump(grad(c))", "unknown function 'jump'"),
        ("cells(recover(c)*test)", "unknown function 'recover'"),
        ("c*cells(test*c)", "added and multiplied by numbers"),
        ("laplacian(cells(test*c))", "added and multiplied by numbers"),
        ("recover(cells(test*c))", "weak form"),
        ("recover(recover(c))", "another recover"),
        ("facets(dx(jump(grad(c)))*avg(test))", "derivative of jump"),
        ("facets(grad(test))", "vector"),
        ("test*c", "unknown name 'test'"),
        ("h*c", "unknown name 'h'"),
    ],
)
def test_what_makes_no_sense_is_refused(text, match):
    with pytest.raises(OperatorError, match=match):
        weak(text)


@pytest.mark.parametrize("name", ["h", "penalty", "normal"])
def test_a_field_called_like_a_word_of_facets_is_refused_there_only(name):
    words = Vocabulary(("x",), (name,))
    Library({name: [f"laplacian({name})", f"cells(test*{name})"]}).weak(words)
    with pytest.raises(OperatorError, match=f"rename the field '{name}'"):
        Library({name: [f"facets(jump(grad(test))*jump(grad({name})))"]}).weak(words)


def test_written_terms_add_and_scale():
    operator = weak("2*cells(test*c) - 0.5*cells(test*c) + laplacian(c)", boundary=NoFlux())
    found = {term.test: term.integrand for term in operator.forms["cells"].terms}
    assert found[0,] == sp.Rational(3, 2) * LINE.jet("c") or abs(float(found[0,].as_coeff_Mul()[0]) - 1.5) < 1e-15
    assert found[1,] == -LINE.jet("c", (1,))


@pytest.mark.parametrize(
    ("condition", "boundary"), [(ZeroNeumann(), True), (NoFlux(), True), (Unknown(), True), (ZeroNeumann(), False)]
)
def test_interior_penalty_has_the_boundary_terms_of_its_condition(condition, boundary):
    operator = weak("biharmonic(c)", boundary=condition, biharmonic=InteriorPenalty(boundary=boundary))
    tests = {term.test for term in operator.forms["boundary"].terms}
    expected = {(1,), (2,)} if isinstance(condition, ZeroNeumann) else {(1,)}
    assert tests == (expected if boundary else set())
    assert operator.forms["facets"].terms
    assert operator.state_linear
    assert operator.second_derivatives


def test_interior_penalty_refuses_a_flux_that_no_element_carries():
    with pytest.raises(OperatorError, match="three derivatives"):
        weak("biharmonic(c)", boundary=Assembled(), biharmonic=InteriorPenalty())


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf")])
def test_a_penalty_is_positive(alpha):
    with pytest.raises(OperatorError, match="alpha"):
        InteriorPenalty(alpha)


def test_a_treatment_is_an_instance():
    with pytest.raises(OperatorError, match="instance"):
        Library({"c": ["biharmonic(c)"]}, biharmonic=Mixed)


def test_mixed_reads_the_recovered_laplacian():
    operator = weak("biharmonic(c)", boundary=ZeroNeumann(), biharmonic=Mixed())
    assert list(operator.recovered) == ["⟨laplacian(c)⟩"]
    assert operator.reads == ("c",)
    assert operator.state_linear
    assert not operator.forms["boundary"].terms
    assert not operator.second_derivatives


def test_recovered_fields_may_stand_in_nonlinear_operators():
    operator = weak("c*recover(dx(c))", boundary=NoFlux())
    assert not operator.state_linear
    assert {t.field for t in operator.jacobian} == {"c", "⟨dx(c)⟩"}


def test_operators_that_differ_by_a_number_share_their_form():
    three, factor = weak("laplacian(3*c**2)", boundary=NoFlux()).monic()
    one, unit = weak("laplacian(c**2)", boundary=NoFlux()).monic()
    assert three.key == one.key
    assert factor / unit == 3


@pytest.mark.parametrize("flux", ["c**2", "c", "exp(c)"])
def test_operators_of_opposite_sign_share_their_form(flux):
    plus, unit = weak(f"laplacian({flux})", boundary=NoFlux()).monic()
    minus, factor = weak(f"-2*laplacian({flux})", boundary=NoFlux()).monic()
    assert minus.key == plus.key
    assert factor / unit == -2


@pytest.mark.parametrize("condition", [ZeroNeumann(), NoFlux(), Unknown()], ids=lambda c: type(c).__name__)
def test_on_smooth_elements_the_form_is_that_of_interior_penalty_without_inner_facets(condition):
    library = Library({"c": ["biharmonic(c)"]}, boundary=condition, biharmonic=InteriorPenalty())
    (smooth,), (penalty,) = (library.weak(LINE, trial_order=k, test_order=k) for k in (2, 1))
    assert not smooth.forms["facets"].terms
    assert smooth.forms["cells"].terms == penalty.forms["cells"].terms
    found, expected = (o.forms["boundary"].terms for o in (smooth, penalty))
    assert [t.test for t in found] == [t.test for t in expected]
    assert all(sp.expand(a.integrand - b.integrand) == 0 for a, b in zip(found, expected, strict=True))


def test_on_smooth_elements_products_with_the_biharmonic_need_no_mirror():
    for condition in (NoFlux(), Unknown()):
        Library({"c": ["c*biharmonic(c)"]}, boundary=condition).weak(LINE, trial_order=2, test_order=2)
    with pytest.raises(OperatorError, match=r"ZeroNeumann.*multiplied by numbers only"):
        Library({"c": ["c*biharmonic(c)"]}, boundary=ZeroNeumann()).weak(LINE, trial_order=2, test_order=2)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("c", 0),
        ("laplacian(c**2)", 2),
        ("laplacian(recover(c**2))", 2),
        ("c*recover(laplacian(c))", 2),
        ("laplacian(recover(laplacian(c)))", 4),
        ("cells(laplacian(test)*laplacian(c))", 4),
    ],
)
def test_derivatives_are_counted_through_recovered_fields(text, count):
    assert weak(text, boundary=NoFlux()).derivatives == count


def test_the_free_energy_library_has_fourteen_distinct_operators_for_both_equations():
    library = free_energy_library()
    assert len(library) == 30
    assert library.keep == ("c1: biharmonic(c1)", "c2: biharmonic(c2)")
    words = Vocabulary(("x", "y"), ("c1", "c2"))
    operators = library.weak(words, biharmonic=InteriorPenalty())
    keys = {o.monic()[0].key for o in operators if "biharmonic" not in o.name}
    assert len(keys) == 14
    assert max(o.degree(2, simplices=True) for o in operators) == 8
    assert max(o.degree(2) for o in operators) == 10


def test_monomials_by_degree():
    assert monomials(2, 3) == [(2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3)]
    assert monomials(1, 4) == [(2,), (3,), (4,)]


@pytest.mark.parametrize("degree", [1, 9, 2.5, "5"])
def test_the_degree_of_a_free_energy_is_checked(degree):
    with pytest.raises(OperatorError, match="degree"):
        free_energy_library(degree=degree)


def test_explain_tells_facets_and_recovered_fields():
    text = Library({"c": ["biharmonic(c)"]}, boundary=ZeroNeumann(), biharmonic=InteriorPenalty()).explain(dim=1)
    assert "dE" in text
    assert "penalty" in text
    mixed = Library({"c": ["biharmonic(c)"]}, boundary=ZeroNeumann()).explain(dim=1)
    assert "M_lumped⁻¹" in mixed


def test_hostile_definitions_are_parsed_like_any_text():
    with pytest.raises(OperatorError, match="unknown function '__import__'"):
        weak("phi", definitions={"phi": "__import__('os')"})


def test_explain_tells_where_tests_stay_away_from_the_boundary():
    for boundary, told in ((Unknown(), True), (NoFlux(), True), (ZeroNeumann(), False)):
        library = Library({"c": ["biharmonic(c)"]}, boundary=boundary)
        assert ("away from the boundary" in library.explain(dim=1)) is told
    assert "away from the boundary" not in Library({"c": ["laplacian(c)"]}).explain(dim=1)
