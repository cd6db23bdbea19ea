"""What stands under the Laplacian: a free-energy derivative from names of operators."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.errors import BvsiError
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.predict import diffusion_potential_map, predict_linear
from bvsi.predict.push import labelled_map, points_of
from bvsi.studies.problems.cahn_hilliard import TRUTH
from bvsi.studies.problems.free_energy import MOBILITY, chemical

AXES = {"c1": np.linspace(0, 1, 7), "c2": np.linspace(-0.2, 1.1, 5)}
C1, C2 = np.meshgrid(*AXES.values(), indexing="ij")


def centred(values):
    return values - values.mean()


@pytest.mark.parametrize(
    "inner, values",
    [
        ("diff(c1**2*c2, c1)", 2 * C1 * C2),
        ("diff(c1**2*c2, c2)", C1**2),
        ("c1", C1),
        ("3*c2**3 - c1", 3 * C2**3 - C1),
        ("sin(c1)*exp(-c2)", np.sin(C1) * np.exp(-C2)),
        ("5", 0 * C1),
    ],
)
def test_the_map_is_the_argument_of_the_laplacian_minus_its_mean(inner, values):
    name = f"c1: laplacian({inner})"
    Phi = diffusion_potential_map((name,), "c1", AXES)
    assert Phi.dims == ("operator", "c1", "c2")
    assert_allclose(Phi.sel(operator=name), centred(values), atol=1e-13)
    assert_allclose(Phi.mean(), 0, atol=1e-13)


def test_rows_of_other_equations_and_other_operators_are_zero():
    names = (
        "c1: laplacian(diff(c1**2*c2, c1))",
        "c2: laplacian(diff(c1**2*c2, c2))",
        "c1: biharmonic(c1)",
        "c1: c1**2",
        "c1: laplacian(dx(c1))",
        "c1: laplacian(c3)",
    )
    Phi = diffusion_potential_map(names, "c1", AXES)
    assert tuple(Phi["operator"].values) == names
    assert_allclose(Phi[0], centred(2 * C1 * C2), atol=1e-13)
    assert not Phi[1:].values.any()
    other = diffusion_potential_map(names, "c2", AXES)
    assert_allclose(other[1], centred(C1**2), atol=1e-13)
    assert not other.values[[0, 2, 3, 4, 5]].any()


@pytest.mark.parametrize(
    "names, equation",
    [
        (("c1: biharmonic(c1)", "c1: c1"), "c1"),
        (("c1: laplacian(c1)",), "c2"),
        (("c1: laplacian(u)",), "c1"),
        (("c1: laplacian(dx(c1))",), "c1"),
        ((), "c1"),
    ],
)
def test_names_of_which_none_fits_are_refused(names, equation):
    with pytest.raises(BvsiError, match=rf"{equation}.*laplacian\(f\).*c1, c2"):
        diffusion_potential_map(names, equation, AXES)


def test_a_single_equation_needs_no_prefix():
    axis = {"u": np.linspace(-1, 2, 9)}
    Phi = diffusion_potential_map(("laplacian(u)", "laplacian(u**3)", "u"), "u", axis)
    assert_allclose(Phi[0], centred(axis["u"]), atol=1e-13)
    assert_allclose(Phi[1], centred(axis["u"] ** 3), atol=1e-13)
    assert not Phi[2].values.any()


def test_the_true_coefficients_give_the_chemical_potentials():
    for i, f in enumerate(("c1", "c2")):
        zeta = np.tensordot(list(TRUTH.values()), diffusion_potential_map(tuple(TRUTH), f, AXES).values, axes=1)
        assert_allclose(zeta, centred(MOBILITY * chemical(C1, C2)[i]), atol=1e-10)


def test_the_posterior_of_the_potential_is_linear_in_that_of_the_coefficients():
    names = ("c1: laplacian(c1)", "c1: laplacian(c1*c2)", "c1: biharmonic(c1)")
    mean, covariance = np.array([2.0, -1.0, 5.0]), np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.0], [0.1, 0.0, 9.0]])
    Phi = diffusion_potential_map(names, "c1", AXES)
    found = predict_linear(GaussianPosterior(names, mean, covariance), Phi)
    assert_allclose(found["mean"], centred(2 * C1 - C1 * C2), atol=1e-12)
    flat = Phi.values.reshape(3, -1)
    assert_allclose(found["variance"].values.ravel(), np.einsum("ip,ij,jp->p", flat, covariance, flat), atol=1e-12)


def test_the_grid_is_a_tensor_product_of_its_axes():
    points = points_of({"a": [1, 2], "b": [3, 4, 5]})
    assert_allclose(points["a"], [[1, 1, 1], [2, 2, 2]])
    assert_allclose(points["b"], [[3, 4, 5], [3, 4, 5]])
    Phi = labelled_map(("p", "q"), {"a": [1, 2], "b": [3, 4, 5]}, [points["a"] + 10, None])
    assert_allclose(Phi[0], points["a"] - 1.5)
    assert not Phi[1].values.any()


@pytest.mark.parametrize(
    "axes", [{}, {"c1": []}, {"c1": [[0.0]]}, {"c1": [0.0, np.nan]}, {"c1": "ab"}, {"c1": 1.0}], ids=repr
)
def test_axes_that_are_none_are_refused(axes):
    with pytest.raises(BvsiError, match="axes"):
        diffusion_potential_map(("c1: laplacian(c1)",), "c1", axes)
