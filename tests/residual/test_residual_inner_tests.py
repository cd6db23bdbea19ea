"""Operators with more than two derivatives are tested away from a boundary on which too little is known."""

import numpy as np
import pytest
from fourth_order import periodic_box, prepared, random_data
from numpy.testing import assert_allclose
from residual_cases import box, simplices

from bvsi.data import Data, Grid
from bvsi.errors import OperatorError
from bvsi.infer import Profile
from bvsi.likelihood import residual_likelihood
from bvsi.noise import IID, add_noise
from bvsi.operators import Assembled, Dirichlet, InteriorPenalty, Library, Mixed, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import CrankNicolson, assemble
from bvsi.residual.discrete import evaluate
from bvsi.spaces import H3, P2, Q1, Q2, Galerkin

EPSILON = -1e-3
TREATMENTS = {
    "Q1, mixed": (Q1, Mixed(), 3e-3),
    "Q2, mixed": (Q2, Mixed(), 3e-3),
    "Q2, interior penalty": (Q2, InteriorPenalty(), 2e-2),
    "H3": (H3, None, 2e-2),
}


def rows(text, geometry, element, boundary, treatment=None, fields=("c",)):
    """Places of the test functions of the equation of the first field."""
    library = Library({fields[0]: [text]}, boundary={fields[0]: boundary}, biharmonic=treatment)
    system = assemble(random_data(geometry, fields), library, discretisation=Galerkin(element))
    return system.experiments[0].structure.coordinates


def open_waves(n=32):
    """u_t = −ε u_xxxx by waves that meet no condition on the boundary."""
    grid = Grid(x=np.linspace(0, 1, n + 1))
    x, t = grid.points[:, 0], np.linspace(0, 1, 41)[:, None]
    waves = ((1.0, 2.3, 0.4), (0.5, 4.1, 1.0), (0.3, 5.5, 2.0))
    u = sum(a * np.sin(k * x + phase) * np.exp(EPSILON * k**4 * t) for a, k, phase in waves)
    return Data(t[:, 0], {"c": u}, grid)


def mirrored_waves(n=32):
    """The same by cosines, which go on as their mirror images."""
    grid = Grid(x=np.linspace(0, 1, n + 1))
    x, t = grid.points[:, 0], np.linspace(0, 1, 41)[:, None]
    u = sum(a * np.cos(m * np.pi * x) * np.exp(EPSILON * (m * np.pi) ** 4 * t) for a, m in ((1.0, 1), (0.5, 2)))
    return Data(t[:, 0], {"c": u}, grid)


def fitted(data, text, element, treatment, boundary):
    noisy = add_noise(data, 1e-4, np.random.default_rng(0))
    library = Library({"c": [text]}, boundary=boundary, biharmonic=treatment)
    system = assemble(noisy, library, discretisation=Galerkin(element), stencil=CrankNicolson())
    return Profile().fit(residual_likelihood(system, IID(1e-4)))


@pytest.mark.parametrize("boundary", [Unknown(), Dirichlet(), NoFlux()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("name", TREATMENTS)
def test_the_coefficient_of_a_field_that_meets_no_condition_is_right(name, boundary):
    element, treatment, bound = TREATMENTS[name]
    fit = fitted(open_waves(), "biharmonic(c)", element, treatment, boundary)
    assert fit.theta[0] == pytest.approx(EPSILON, rel=bound)
    assert fit.chi2 < 1.1


@pytest.mark.parametrize("text", ["biharmonic(c)", "laplacian(laplacian(c))"])
def test_on_smooth_elements_the_coefficient_of_mirrored_fields_converges(text):
    errors = [abs(fitted(mirrored_waves(n), text, H3, None, ZeroNeumann()).theta[0] / EPSILON - 1) for n in (16, 32)]
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 2e-2


@pytest.mark.parametrize(
    ("geometry", "element", "treatment"),
    [
        (Grid(x=np.linspace(0, 1, 13)), Q1, Mixed()),
        (box(8, 2), Q2, Mixed()),
        (box(8, 2), Q2, InteriorPenalty()),
        (simplices(4, 2, 2, seed=1), P2, InteriorPenalty()),
    ],
    ids=["line Q1", "Q2, mixed", "Q2, interior penalty", "P2"],
)
def test_the_rows_that_are_left_share_no_cell_with_functions_on_the_boundary(geometry, element, treatment):
    operator, space, state = prepared("biharmonic(c)", geometry, element, treatment=treatment, boundary=NoFlux())
    library = Library({"c": ["biharmonic(c)"]}, boundary=NoFlux(), biharmonic=treatment)
    system = assemble(random_data(geometry), library, discretisation=Galerkin(element))
    kept = system.experiments[0].structure.coordinates
    cells = space.pattern.matrix(np.ones(space.pattern.nnz)).toarray()
    inner = np.flatnonzero(~cells[:, space.boundary_tests].any(axis=1))
    assert 0 < len(inner) < space.n_tests
    assert_allclose(kept, space.test_points[inner])
    found = system.experiments[0].X[:, 0, 0]
    assert_allclose(found, evaluate(operator, space, state)[inner, 1], atol=1e-9 * np.abs(found).max())


def test_only_operators_that_need_it_and_only_their_equation_lose_tests():
    grid = box(8, 1)
    n = grid.n_nodes
    assert len(rows("biharmonic(c)", grid, Q1, ZeroNeumann())) == n
    assert len(rows("biharmonic(c)", grid, Q1, Unknown())) == n - 4
    assert len(rows("recover(laplacian(c))*c", grid, Q1, NoFlux())) == n - 4
    assert len(rows("laplacian(recover(c**2))", grid, Q1, NoFlux())) == n
    for text in ("laplacian(c)", "c*laplacian(c)", "laplacian(c**3)"):  # two derivatives, also where v carries both
        assert len(rows(text, grid, H3, NoFlux())) == n
        assert len(rows(text, grid, H3, Unknown())) == n - 2
    assert len(rows("biharmonic(c)", periodic_box(8, 1), H3, Unknown())) == 8
    library = Library({"c": ["biharmonic(c)"], "d": ["laplacian(d)"]}, boundary=NoFlux())
    structure = assemble(random_data(grid, ("c", "d")), library).experiments[0].structure
    assert np.bincount(structure.equation_of_row).tolist() == [n - 4, n]


def test_all_fields_that_are_read_have_to_be_mirrored():
    """Nothing is known of d, which has no equation, or says so itself."""
    grid = box(8, 1)
    for treatment in (Mixed(), InteriorPenalty()):
        assert len(rows("biharmonic(d)", grid, Q2, ZeroNeumann(), treatment, ("c", "d"))) < grid.n_nodes
    for condition, kept in ((NoFlux(), grid.n_nodes - 4), (ZeroNeumann(), grid.n_nodes)):
        library = Library({"c": ["biharmonic(d)"], "d": ["d"]}, boundary={"c": ZeroNeumann(), "d": condition})
        structure = assemble(random_data(grid, ("c", "d")), library).experiments[0].structure
        assert np.bincount(structure.equation_of_row)[0] == kept


@pytest.mark.parametrize(("n", "element"), [(3, Q1), (2, Q2), (5, H3)], ids=str)
def test_a_grid_without_inner_tests_is_refused(n, element):
    with pytest.raises(OperatorError, match=r"operator 'biharmonic\(c\)'.*away from the boundary.*finer"):
        rows("biharmonic(c)", box(n, 1), element, Unknown())


@pytest.mark.parametrize("text", ["biharmonic(c)", "laplacian(laplacian(c))", "c*laplacian(laplacian(c))"])
def test_a_flux_of_three_derivatives_is_refused_by_name(text):
    with pytest.raises(OperatorError) as error:
        rows(text, box(8, 1), H3, Assembled())
    assert f"operator {text!r}" in str(error.value)
    assert "three derivatives" in str(error.value)


@pytest.mark.parametrize("text", ["c + 0*recover(laplacian(c))", "c + recover(c) - recover(c)", "c + 0*biharmonic(c)"])
def test_recovered_fields_that_cancel_are_no_obstacle(text):
    grid = box(8, 1)
    library = Library({"c": [text, "c"]}, boundary=ZeroNeumann())
    (residuals,) = assemble(random_data(grid), library, discretisation=Galerkin(Q2)).experiments
    assert_allclose(residuals.X[:, :, 0], residuals.X[:, :, 1], atol=1e-14)
    for J in residuals.J:
        assert_allclose(J.pattern.matrix(J.values(0)).sum(), 1.0)
