"""Parameters inside operators: values in the place of names, and columns that are derivatives by them."""

import pickle

import numpy as np
import pytest

from bvsi import Data, Grid, Library, SplineTests
from bvsi.errors import OperatorError
from bvsi.operators import Parameter
from bvsi.operators.parameters import grid
from bvsi.residual import EachFrame, assemble

AXIS = 2 * np.pi * np.arange(32) / 32
TEXTS = ["laplacian(u**m)", "u/(K + u)", "div(exp(-K*u)*grad(u))", "K*laplacian(u)", "u"]


def library(**changes):
    return Library({"u": TEXTS}, parameters={"K": (0.1, 10), "m": (1, 4)}, left="1", **changes)


def columns(made):
    """X (residuals, operators) on a periodic line."""
    data = Data(np.zeros(1), {"u": (2 + np.sin(AXIS))[None]}, Grid(x=AXIS, periodic=("x",)))
    return assemble(data, made, discretisation=SplineTests(gap=2), stencil=EachFrame()).experiments[0].X[:, 0]


def test_columns_are_derivatives_of_what_carries_the_parameter():
    """X_κ = Σ_i θ_i ∂X_i/∂κ, by central differences."""
    values, theta, h = {"K": 0.7, "m": 2.3}, dict.fromkeys(TEXTS, 1.5) | {"u/(K + u)": -0.4}, 1e-4
    made = library().at(values, theta)
    assert made.names == (*TEXTS, "K", "m")
    weights = np.array([theta[text] for text in TEXTS])
    for name in ("K", "m"):
        up, down = (columns(library().at(values | {name: values[name] + s * h})) @ weights for s in (1, -1))
        X = columns(made)[:, made.names.index(name)]
        np.testing.assert_allclose(X, (up - down) / (2 * h), atol=1e-6 * np.abs(X).max())


def test_an_operator_at_a_value_is_the_operator_with_the_number():
    at = library().at({"K": 0.7, "m": 3.0})
    numbers = Library({"u": [t.replace("K", "0.7").replace("m)", "3)") for t in TEXTS]}, left="1")
    np.testing.assert_allclose(columns(at), columns(numbers), rtol=1e-12)
    assert at.names == tuple(TEXTS)


def test_parameters_go_with_their_operators():
    made = library().at({"K": 0.7, "m": 2.3}, dict.fromkeys(TEXTS, 1.0))
    some = made.subset(["u/(K + u)", "K", "u"])
    assert set(some.parameters) == {"K"}
    assert some.names == ("u/(K + u)", "u", "K")
    np.testing.assert_allclose(columns(some)[:, 0], columns(made)[:, 1])
    assert library().subset(["u"]).parameters == {}


def test_pickled_operators_keep_their_parameters():
    made = library().at({"K": 0.7, "m": 2.3}, dict.fromkeys(TEXTS, 1.0))
    again = pickle.loads(pickle.dumps(made))
    assert again.at({"K": 0.8, "m": 2.0}).operators[1].syntax.text == "u / (0.8 + u)"


def test_one_parameter_of_two_equations_is_tied():
    made = Library({"x": ["x", "x*y/(K + x)"], "y": ["x*y/(K + x)"]}, parameters={"K": (0.1, 10)})
    both = made.at({"K": 1.0}, {"x: x*y/(K + x)": -1.5, "y: x*y/(K + x)": 1.0})
    assert both.names == ("x: x", "x: x*y/(K + x)", "x: K", "y: x*y/(K + x)", "y: K")
    assert both.ties == ("[x: K] == [y: K]",)


def test_explain_says_what_is_estimated():
    text = Library({"u": ["u/(K + u)"]}, parameters={"K": (0.1, 10)}).explain()
    assert "parameter, estimated between 0.1 and 10" in text
    assert "u/(u + 1.0)" in text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"K": (1, 0.1)}, "two finite bounds"),
        ({"K": 3}, "bounds (low, high)"),
        ({"K": (0.1, np.inf)}, "two finite bounds"),
        ({"K": (0.1, 1, 5)}, "start"),
        ({"K": Parameter(0.1, 1), "q": (0, 1)}, "no operator"),
        ({"u": (0, 1)}, "is reserved"),
        ({"x": (0, 1)}, "is reserved"),
        (["K"], "not a mapping"),
    ],
)
def test_what_is_no_parameter_is_refused(given, why):
    with pytest.raises(OperatorError) as error:
        Library({"u": ["u/(K + u)"]}, parameters=given)
    assert why in str(error.value)


def test_a_prior_is_a_mean_and_a_positive_deviation():
    with pytest.raises(OperatorError):
        Parameter(0, 1, prior=(0.5, 0.0))
    assert Parameter(0, 1, prior=(0.5, 0.1)).sd == 0.1


def test_starts_lie_between_the_bounds():
    one = Parameter(0.1, 10)
    np.testing.assert_allclose(one.between(2), [10**-0.5, 10**0.5])  # by factors
    assert Parameter(-1, 3).between(2) == [0.0, 2.0]
    assert one.moved(1.0, -50.0) == pytest.approx(np.exp(-1))
    assert one.moved(9.0, 50.0) == 10
    assert len(grid({"a": one, "b": one}, 9)) == 9
