"""Splines in operators, and unknown functions as one operator for each of their coefficients."""

import pickle

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import OperatorError
from bvsi.operators import Library, Vocabulary
from bvsi.operators.functions import UnknownFunction
from bvsi.operators.spline import Table, basis, spline_values

LINE = Vocabulary(("x",), ("u",))
C = (0.5, -1.0, 2.0, 0.3, 0.0, 1.5, -0.4)


@pytest.mark.parametrize("n", [0, -1, -2])
def test_a_spline_is_the_derivative_of_its_antiderivative_also_beyond_its_ends(n):
    x = np.linspace(-0.5, 2.5, 3001)
    slope = np.gradient(spline_values(x, n - 1, (0.0, 2.0, *C)), x)
    np.testing.assert_allclose(slope[2:-2], spline_values(x, n, (0.0, 2.0, *C))[2:-2], atol=2e-3)


def test_splines_add_up_to_one_and_to_their_combination():
    x = np.linspace(0.1, 0.7, 50)  # ends that are not exact in floats
    B = basis(x, 0.1, 0.7, len(C))
    np.testing.assert_allclose(B.sum(axis=1), 1.0)
    np.testing.assert_allclose(B @ C, spline_values(x, 0, (0.1, 0.7, *C)), atol=1e-14)


def test_all_derivatives_of_a_flux_with_a_spline_of_the_field_go_onto_the_test_function():
    text = f"div(spline(u, 0, 2, {', '.join(map(str, C))})*grad(u))"
    (form,) = Library({"u": [text]}).weak(LINE, trial_order=0, test_order=2)
    (term,) = form.forms["cells"].terms
    assert term.test == (2,)
    u = np.linspace(0, 2, 11)[:, None]
    (values,) = form.kernel("cells", "values")({LINE.jet("u"): u})
    np.testing.assert_allclose(values, spline_values(u, -1, (0.0, 2.0, *C)))
    kernel = form.kernel("cells", "values")
    assert pickle.loads(pickle.dumps(kernel)).made_from == kernel.made_from


def test_a_table_is_equal_to_itself_after_pickling():
    table = Table(0, 1, *C)
    assert pickle.loads(pickle.dumps(table)) == table
    assert Table(0, 1, *C[::-1]) != table


@pytest.mark.parametrize(
    "text", ["spline(u, 0, 1, 1, 2, 3)", "spline(u, 1, 0, 1, 2, 3, 4)", "spline(u, x, 1, 1, 2, 3, 4)"]
)
def test_a_spline_without_ends_or_numbers_is_refused(text):
    with pytest.raises(OperatorError, match=r"spline|constant"):
        Library({"u": [text]}).weak(LINE)


def test_an_operator_is_the_sum_of_those_of_its_coefficients():
    k = UnknownFunction(("x",), (0.0,), (1.0,), (4,), (False,))
    library = Library({"u": ["div(k*grad(u))", "u"]}, unknown={"k": k})
    made = library.with_functions({"k": None})
    assert made.names == ("u", *(f"k_{m}" for m in range(1, 8)))
    whole = library.with_functions({"k": k.tree(C)})
    assert whole.names == library.names
    x, u = np.linspace(0.01, 0.99, 9)[:, None], np.ones((9, 1))
    given = {LINE.x[0]: x, LINE.jet("u"): u}
    forms = {o.name: o for one in (made, whole) for o in one.weak(LINE, trial_order=0, test_order=2)}

    def values(name):
        return np.array([np.broadcast_to(v, u.shape) for v in forms[name].kernel("cells", "values")(given)])

    summed = sum(c * values(f"k_{m}") for m, c in enumerate(C, 1))
    np.testing.assert_allclose(summed, values("div(k*grad(u))"), atol=1e-12)


def test_of_several_variables_it_is_a_product_and_periodic_where_the_data_are():
    k = UnknownFunction(("x", "y"), (0.0, 0.0), (1.0, 1.0), (4, 5), (False, True))
    assert k.counts == (7, 5)
    points = np.random.default_rng(0).random((20, 2))
    np.testing.assert_allclose(k.design(points).sum(axis=1), 1.0)
    ends = [k.design(np.array([[0.3, y]])) for y in (0.0, 1.0)]
    np.testing.assert_allclose(*ends, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("periodic", [False, True])
def test_only_a_constant_has_no_roughness(order, periodic):
    K = UnknownFunction(("x",), (0.0,), (1.0,), (9,), (periodic,)).roughness(order)
    values = np.linalg.eigvalsh(K)
    assert abs(values[0]) < 1e-12
    assert values[1] > 1e-4
    np.testing.assert_allclose(K @ np.ones(len(K)), 0, atol=1e-12)


def test_ends_and_intervals_come_from_the_data():
    x, t = np.linspace(2, 5, 50), np.arange(4.0)
    data = Data.from_arrays({"u": np.outer(t + 1, np.sin(x))}, times=t, geometry=Grid(x=x))
    of_x = UnknownFunction(("x",)).located([data], {"u": 0.01})
    assert (of_x.low, of_x.high, of_x.intervals, of_x.periodic) == ((2.0,), (5.0,), (25,), (False,))
    of_u = UnknownFunction(("u",)).located([data], {"u": 0.5})
    assert of_u.intervals[0] < UnknownFunction(("u",)).located([data], {"u": 0.01}).intervals[0]
    with pytest.raises(OperatorError, match="no 'T'"):
        UnknownFunction(("T",)).located([data], {})


@pytest.mark.parametrize("text", ["k**2*u", "k*k*u", "exp(k)*u", "u/k", "k + u"])
def test_operators_are_linear_in_their_function(text):
    with pytest.raises(OperatorError, match="not linear in 'k'"):
        Library({"u": [text]}, unknown={"k": "x"})


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"k": "x", "m": "x"}, "stands in no operator"),
        ({"u": "x"}, "is reserved"),
        ({"k": 3}, "unknown"),
        ("k", "not a mapping"),
    ],
)
def test_unknown_functions_that_cannot_be_are_refused(given, match):
    with pytest.raises(OperatorError, match=match):
        Library({"u": ["div(k*grad(u))"]}, unknown=given)


def test_it_is_explained():
    text = Library({"u": ["div(k*grad(u))"]}, unknown={"k": "x"}).explain()
    assert "unknown function of x" in text
    assert "∂x(k*u_x)" in text


def test_components_of_a_vector_share_their_function():
    library = Library({"v": ["k*v"]}, vectors={"v": ("a", "b")}, unknown={"k": "x"})
    located = library.with_(unknown={"k": UnknownFunction(("x",), (0.0,), (1.0,), (4,), (False,))})
    made = located.with_functions({"k": None})
    assert "[a: k_1] == [b: k_1]" in made.ties
    assert len(made.ties) == 7
