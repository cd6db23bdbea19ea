"""Matrices for the coefficients of many times at once are those made one by one, on every measure and pattern."""

import numpy as np
import pytest
from geometries import UNIFORM, grid, mesh
from measures import GRIDS, MESHES, geometry_of, label
from numpy.testing import assert_allclose

from bvsi.common.naming import MEASURES, Sided
from bvsi.errors import SpaceError
from bvsi.spaces import H3, P1, P2, Q1, Q2, Galerkin

SPACES = [
    ("1D", Q2),
    ("1D periodic", Q2),
    ("2D", Q1),
    ("2D", Q2),
    ("2D", P2),
    ("2D", H3),
    ("2D half periodic", H3),
    ("2D periodic", Q2),
    ("triangle6", P2),
    ("quad9", Q2),
    ("tetra", P1),
]


def built(name, element):
    return Galerkin(element).build(geometry_of(name, element), 4)


def jets(space, where):
    """A few derivatives of test and field."""
    zero, first = (0,) * space.dim, (1,) + (0,) * (space.dim - 1)
    plain = [(zero, zero), (zero, first), (first, first)]
    if where != "facets":
        return plain
    return [(Sided(a, side), Sided(b, -1)) for a, b in plain for side in (1, -1)]


def dense(space, reach, values):
    return space.reach(reach).matrix(values).toarray()


@pytest.mark.parametrize(("name", "element"), SPACES, ids=label)
@pytest.mark.parametrize("where", MEASURES)
def test_many_coefficients_at_once_are_those_one_by_one(name, element, where):
    space = built(name, element)
    rng = np.random.default_rng(0)
    c = rng.standard_normal((len(space.measure(where).weights), 35))  # more than are done side by side
    reach = "facets" if where == "facets" else "cells"
    for test, trial in jets(space, where):
        many = space.bilinear(where, test, trial, c, reach)
        assert many.shape == (35, space.reach(reach).nnz)
        single = [space.bilinear(where, test, trial, c[:, [j]], reach)[0] for j in (0, 31, 34)]
        assert_allclose(many[[0, 31, 34]], single, atol=1e-13 * max(np.abs(many).max(initial=0), 1e-300))


@pytest.mark.parametrize(("name", "element"), SPACES, ids=label)
@pytest.mark.parametrize("where", MEASURES)
def test_sums_over_derivatives_and_adjoints(name, element, where):
    """Σ_β E_αᵀ diag(w c_β) E_β in one product; ⟨G, E_αᵀ diag(w c) E_β⟩ is linear in c with the adjoint as slope."""
    space = built(name, element)
    rng = np.random.default_rng(1)
    points, reach = len(space.measure(where).weights), "facets" if where == "facets" else "cells"
    pairs = list(jets(space, where))
    for test in {test for test, _ in pairs}:
        trials = {trial: rng.standard_normal(points) for one, trial in pairs if one == test}
        each = [space.bilinear(where, test, trial, c[:, None], reach)[0] for trial, c in trials.items()]
        size = max(np.abs(each).max(initial=0), 1e-300)
        assert_allclose(space.bilinear_sum(where, test, trials, reach), np.sum(each, axis=0), atol=1e-12 * size)
        G = rng.standard_normal(space.reach(reach).nnz)
        for (trial, c), values in zip(trials.items(), each, strict=True):
            slope = space.bilinear_adjoint(where, test, trial, G, reach)
            assert_allclose(slope @ c, G @ values, atol=1e-11 * size * len(G))


@pytest.mark.parametrize(("name", "element"), SPACES, ids=label)
@pytest.mark.parametrize("where", MEASURES)
def test_a_matrix_is_the_product_of_evaluations(name, element, where):
    """E_testᵀ diag(w c) E_trial, in dense algebra."""
    space = built(name, element)
    measure = space.measure(where)
    c = np.random.default_rng(0).standard_normal((len(measure.weights), 1))
    reach = "facets" if where == "facets" else "cells"
    for test, trial in jets(space, where):
        E, F = measure.test.matrix(test).toarray(), measure.trial.matrix(trial).toarray()
        expected = E.T @ ((measure.weights * c[:, 0])[:, None] * F)
        found = dense(space, reach, space.bilinear(where, test, trial, c, reach)[0])
        assert_allclose(found, expected, atol=1e-12 * max(np.abs(expected).max(initial=0), 1e-300))


@pytest.mark.parametrize(("name", "element"), [("2D", Q2), ("1D periodic", Q2), ("triangle", P1)], ids=label)
def test_one_coefficient_for_all_points_or_times_is_broadcast(name, element):
    space = built(name, element)
    zero, n_q = (0,) * space.dim, len(space.cells.weights)
    full = np.full((n_q, 4), 2.0)
    for c in (np.full((1, 4), 2.0), full):
        assert_allclose(space.bilinear("cells", zero, zero, c), np.tile(2 * space.mass, (4, 1)), atol=1e-14)


@pytest.mark.parametrize(("name", "element"), SPACES, ids=label)
def test_wider_patterns_hold_the_same_matrix(name, element):
    space = built(name, element)
    zero = (0,) * space.dim
    c = np.random.default_rng(0).uniform(1, 2, (len(space.cells.weights), 2))
    narrow = [dense(space, "cells", v) for v in space.bilinear("cells", zero, zero, c)]
    for reach in ("facets", "recovered"):
        wide = [dense(space, reach, v) for v in space.bilinear("cells", zero, zero, c, reach)]
        assert_allclose(wide, narrow, rtol=1e-13)
    assert_allclose(dense(space, "recovered", space.widened(space.mass[None])[0]), dense(space, "cells", space.mass))


@pytest.mark.parametrize(
    ("name", "element"), [("1D", Q2), ("2D", Q1), ("2D", Q2), ("2D", H3), ("3D", Q1), ("tetra", P1)], ids=label
)
def test_chained_matrices_are_products_with_the_lumped_mass_between(name, element):
    space = Galerkin(element).build(mesh(name) if name in MESHES else grid(GRIDS[name][0], UNIFORM), 4)
    zero, first = (0,) * space.dim, (1,) + (0,) * (space.dim - 1)
    rng = np.random.default_rng(0)
    outer, inner = (
        space.bilinear("cells", a, b, rng.uniform(1, 2, (len(space.cells.weights), 1)))[0]
        for a, b in ((zero, first), (first, first))
    )
    A, B = dense(space, "cells", outer), dense(space, "cells", inner)
    expected = A @ np.diag(1 / space.lumped_mass) @ B
    found = dense(space, "recovered", space.chained(outer, inner))
    assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "element"), [(n, e) for n, e in MESHES.items() if e != P2], ids=label)
def test_the_lumped_mass_is_the_row_sum_of_the_mass_matrix(name, element):
    space = built(name, element)
    assert_allclose(space.lumped_mass, dense(space, "cells", space.mass).sum(axis=1), rtol=1e-12)
    assert space.lumped_mass.sum() == pytest.approx(space.cells.weights.sum())


def test_the_lumped_mass_of_second_degree_is_simpsons_rule():
    space = Galerkin(Q2).build(grid("x", {"x": np.linspace(0, 1, 5)}), 4)
    assert_allclose(space.lumped_mass, np.array([1, 4, 2, 4, 1]) / 12)


@pytest.mark.parametrize("name", ["triangle6", "tetra10"])
def test_second_degree_on_simplices_cannot_be_lumped(name):
    space = Galerkin(P2).build(mesh(name), 4)
    with pytest.raises(SpaceError, match="lumped"):
        _ = space.lumped_mass


def test_second_degree_far_off_the_middle_cannot_be_lumped_either():
    """A node at less than a third of its element gives the end next to it a negative mean."""
    space = Galerkin(Q2).build(grid("x", {"x": np.array([0.0, 0.3, 1.0])}), 4)
    with pytest.raises(SpaceError, match=r"lumped.*or Q2 on evenly spaced nodes"):
        _ = space.lumped_mass


def test_a_measure_is_made_once():
    space = built("2D", Q2)
    for where in MEASURES:
        assert space.measure(where) is space.measure(where)
