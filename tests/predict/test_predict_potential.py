"""The potential behind drift operators."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.predict import potential_map, predict_linear
from bvsi.studies.problems import fokker_planck

AXES = {"x": np.linspace(-2, 3, 6), "y": np.linspace(-1, 1, 5)}
X, Y = np.meshgrid(*AXES.values(), indexing="ij")


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


@pytest.mark.parametrize(
    "text, values",
    [
        ("x", X),
        ("y**2", Y**2),
        ("x**3", X**3),
        ("x**2*y", X**2 * Y),
        ("3*x*y - 2", 3 * X * Y - 2),
        ("sin(x)*exp(-y)", np.sin(X) * np.exp(-Y)),
        ("x**2 + 0.5*y**4", X**2 + 0.5 * Y**4),
        ("cos(pi*y)", np.cos(np.pi * Y)),
    ],
)
def test_the_potential_is_recovered_up_to_its_mean(text, values):
    Phi = potential_map((f"div(p*grad({text}))",), AXES)
    assert_allclose(Phi.sel(operator=f"div(p*grad({text}))"), centred(values), atol=1e-12)
    assert_allclose(Phi.mean(), 0, atol=1e-12)


def test_rows_are_named_and_ordered_and_zero_for_other_operators():
    names = ("laplacian(p)", "div(p*grad(y))", "p", "div(p*grad(x**2))", "dx(p)", "div(grad(p))", "grad(x)*p")
    Phi = potential_map((*names[:6],), AXES)
    assert tuple(Phi["operator"].values) == names[:6]
    assert Phi.dims == ("operator", "x", "y")
    assert_allclose(Phi["x"], AXES["x"])
    for i in (0, 2, 4, 5):
        assert not Phi[i].any()
    assert_allclose(Phi[1], centred(Y), atol=1e-14)
    assert_allclose(Phi[3], centred(X**2), atol=1e-13)


@pytest.mark.parametrize("text", ["div(p * grad( x**2 ))", "c: div(c*grad(x**2))", "u1: div(u1*grad(x**2))"])
def test_spaces_and_equations_in_names_do_not_matter(text):
    assert_allclose(potential_map((text,), AXES)[0], centred(X**2), atol=1e-13)


def test_one_and_three_dimensions():
    assert potential_map(("div(p*grad(x**2))",), {"x": AXES["x"]}).shape == (1, 6)
    three = potential_map(("div(p*grad(x*z))",), {**AXES, "z": np.linspace(0, 1, 3)})
    assert three.shape == (1, 6, 5, 3)


def test_the_potential_of_the_problem_is_the_same():
    theta = np.array(list(fokker_planck.TRUTH.values()))
    psi = np.tensordot(theta, potential_map(tuple(fokker_planck.TRUTH), AXES).values, axes=1)
    expected = -5 * X - 25 * Y + X**2 + 5 * Y**2
    assert_allclose(psi, expected - expected.mean(), rtol=1e-12)


def test_a_constant_potential_is_a_drift_all_the_same():
    """Its row is zero, but beside another it is no error."""
    Phi = potential_map(("div(p*grad(x))", "div(p*grad(3))"), AXES)
    assert not Phi[1].any()


def test_the_potential_goes_through_the_posterior():
    """Var ψ(x) = Σ_ij φ_i Cov_ij φ_j with centred φ: constants do not count."""
    names = ("laplacian(p)", "div(p*grad(x))", "div(p*grad(y**2))")
    covariance = np.array([[2.0, 0.3, 0.1], [0.3, 0.5, -0.2], [0.1, -0.2, 0.4]])
    found = predict_linear(GaussianPosterior(names, np.array([1.0, -5.0, 2.0]), covariance), potential_map(names, AXES))
    a, b = centred(X), centred(Y**2)
    assert_allclose(found["mean"], -5 * a + 2 * b, rtol=1e-12)
    assert_allclose(found["variance"], 0.5 * a**2 + 0.4 * b**2 - 0.4 * a * b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "names",
    [("laplacian(p)", "p"), ("div(p*grad(p))",), ()],
    ids=["none", "a field inside", "empty"],
)
def test_without_any_drift_operator_there_is_no_potential(names):
    """φ has to be a function of the coordinates."""
    with pytest.raises(BvsiError):
        potential_map(names, AXES)


@pytest.mark.parametrize("name", ["div(p*grad(p*x))", "div(p*grad(p))"])
def test_a_flux_with_a_field_in_it_is_no_drift(name):
    """φ is a function of the coordinates: div(p*grad(p)) is nonlinear diffusion, and its row is zero."""
    assert not potential_map(("div(p*grad(x))", name), AXES)[1].any()


def test_the_field_may_stand_behind():
    """div(grad(φ)*p) is the same operator."""
    assert_allclose(potential_map(("div(grad(x**2)*p)",), AXES)[0], centred(X**2), atol=1e-13)


HOSTILE = [
    "div(p*grad(__import__('pathlib').Path('{path}').touch()))",
    "div(p*grad(exec(\"open('{path}', 'w')\")))",
    "div(p*grad((lambda: open('{path}', 'w'))()))",
    "div(p*grad(x.__class__))",
    "div(p*grad([open('{path}', 'w') for _ in (1,)]))",
    "div(p*grad(9**9**9**9))",
    "div(p*grad(x",
    "",
    "div(p*grad('{path}'))",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_execute_nothing(tmp_path, text):
    path = tmp_path / "touched"
    with pytest.raises(BvsiError):
        potential_map(("div(p*grad(x))", text.replace("{path}", str(path))), AXES)
    assert not path.exists()


def test_a_hostile_name_that_is_no_drift_is_refused_and_not_run(tmp_path):
    path = tmp_path / "touched"
    with pytest.raises(BvsiError, match="open"):
        potential_map(("div(p*grad(x))", f"open('{path}', 'w')"), AXES)
    assert not path.exists()


def test_a_potential_that_moves_is_refused():
    """ψ(x, t) is no function on the grid of the axes."""
    with pytest.raises(BvsiError, match="t"):
        potential_map(("div(p*grad(x*t))",), AXES)


@pytest.mark.parametrize("axes", [{}, {"x": ["a", "b"]}, {"x": []}, {"x": [np.nan, 1.0]}, {"w": [0.0, 1.0]}], ids=str)
def test_axes_that_are_none_are_refused(axes):
    with pytest.raises(BvsiError):
        potential_map(("div(p*grad(x))",), axes)
