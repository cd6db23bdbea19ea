"""∇⁴ by interior penalty, mixed, and C1 elements: what converges, at which order, and which forms are positive.

Fields on the unit box: cosines, which go on as their mirror images (∇c·n = ∇∇²c·n = 0) or are periodic, and
Π sin⁴(πx), for which ∇²c = ∇∇²c·n = 0 on the boundary, the natural conditions of the form without boundary facets.
"""

from functools import cache

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from fourth_order import matrices, periodic_box
from numpy.testing import assert_allclose
from residual_cases import box, simplices

from bvsi.data import Grid, Mesh
from bvsi.operators import Assembled, InteriorPenalty, Mixed, NoFlux, Unknown, ZeroNeumann
from bvsi.spaces import H3, P1, P2, Q1, Q2

LITERAL = InteriorPenalty(boundary=False)


@cache
def made(make, n, element, treatment):
    """Nodes, B and M of a geometry with n nodes per side."""
    geometry = make(n)
    return geometry.points, *matrices(geometry, element, treatment=treatment)


def cosines(points, periodic):
    """c and ∇⁴c = q⁴c."""
    q = 2 * np.pi * np.ones(points.shape[1]) if periodic else np.pi * np.arange(1, points.shape[1] + 1)
    c = np.prod(np.cos(points * q), axis=1)
    return c, (q @ q) ** 2 * c


def bumps(points):
    """c = Π sin⁴(πx) and ∇⁴c."""
    a = np.pi * points
    value = np.sin(a) ** 4
    second = np.pi**2 * (2 * np.cos(2 * a) - 2 * np.cos(4 * a))
    fourth = np.pi**4 * (32 * np.cos(4 * a) - 8 * np.cos(2 * a))
    if points.shape[1] == 1:
        return value[:, 0], fourth[:, 0]
    mixed = 2 * second[:, 0] * second[:, 1]
    return value[:, 0] * value[:, 1], fourth[:, 0] * value[:, 1] + mixed + value[:, 0] * fourth[:, 1]


def solution_error(make, n, element, treatment, exact, shift=1.0):
    """‖u − c‖/‖c‖ for the solution of ∇⁴u + s u = ∇⁴c + s c; s fixes the constants that ∇⁴ leaves open."""
    points, B, M = made(make, n, element, treatment)
    c, f = exact(points)
    error = scipy.sparse.linalg.spsolve((B + shift * M).tocsc(), M @ (f + shift * c)) - c
    return np.sqrt(error @ (M @ error) / (c @ (M @ c)))


def action_error(make, n, element, treatment, exact):
    """|vᵀB c − ∫ v ∇⁴c| relative to q⁴, for samples c and v = c + 1/(5 + Π cos 2πx), both meeting the conditions."""
    points, B, M = made(make, n, element, treatment)
    c, f = exact(points)
    v = c + 1 / (5 + np.prod(np.cos(2 * np.pi * points), axis=1))
    return abs(v @ (B @ c) - v @ (M @ f)) / abs(v @ (M @ f))


def defect(make, n, element, treatment, exact):
    """Root mean square of (B c − M∇⁴c) per mass of the test function, relative to ∇⁴c."""
    points, B, M = made(make, n, element, treatment)
    c, f = exact(points)
    local = (B @ c - M @ f) / abs(M).sum(axis=1)
    return np.sqrt(np.mean(local**2) / np.mean(f**2))


def order(error, make, element, treatment, exact, sizes):
    coarse, fine = (error(make, n, element, treatment, exact) for n in sizes)
    return np.log2(coarse / fine), fine


def mirrored(points):
    return cosines(points, periodic=False)


def turning(points):
    return cosines(points, periodic=True)


def triangles(n):
    return simplices(n // 2, 2, 2, seed=1)


def line(n):
    return box(n, 1)


def square(n):
    return box(n, 2)


def ring(n):
    return periodic_box(n, 1)


def torus(n):
    return periodic_box(n, 2)


# name: geometry, element, treatment, field, nodes per side, order of the solution, its error on the finer grid
SOLUTIONS = {
    "line Q2, interior penalty": (line, Q2, InteriorPenalty(), mirrored, (32, 64), 2, 1e-3),
    "line Q2, mixed": (line, Q2, Mixed(), mirrored, (16, 32), 4, 1e-5),
    "line Q1, mixed": (line, Q1, Mixed(), mirrored, (16, 32), 4, 1e-6),
    "P2 on a grid, interior penalty": (square, P2, InteriorPenalty(), mirrored, (24, 48), 2, 2e-2),
    "P2 mesh, interior penalty": (triangles, P2, InteriorPenalty(), mirrored, (24, 48), 2, 2e-2),
    "Q2, interior penalty": (square, Q2, InteriorPenalty(), mirrored, (12, 24), 2, 2e-2),
    "Q2, mixed": (square, Q2, Mixed(), mirrored, (12, 24), 4, 2e-4),
    "Q1, mixed": (square, Q1, Mixed(), mirrored, (12, 24), 2, 1e-2),
    "P1, mixed": (square, P1, Mixed(), mirrored, (12, 24), 2, 1e-1),
    "ring Q2, interior penalty": (ring, Q2, InteriorPenalty(), turning, (32, 64), 2, 5e-3),
    "ring Q2, mixed": (ring, Q2, Mixed(), turning, (16, 32), 4, 1e-4),
    "line H3": (line, H3, None, mirrored, (32, 64), 2, 1e-2),
    "square H3": (square, H3, None, mirrored, (24, 48), 2, 2e-2),
    "ring H3": (ring, H3, None, turning, (16, 32), 2, 2e-2),
    "torus P2, interior penalty": (torus, P2, InteriorPenalty(), turning, (24, 48), 2, 5e-2),
    "torus Q2, interior penalty": (torus, Q2, InteriorPenalty(), turning, (12, 24), 2, 2e-2),
    "torus Q2, mixed": (torus, Q2, Mixed(), turning, (20, 40), 4, 1e-4),
    "torus H3": (torus, H3, None, turning, (12, 24), 2, 2e-2),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_converge_at_their_order(name):
    make, element, treatment, exact, sizes, expected, bound = SOLUTIONS[name]
    found, error = order(solution_error, make, element, treatment, exact, sizes)
    assert found > expected - 0.3
    assert error < bound


@pytest.mark.parametrize("name", SOLUTIONS)
def test_the_action_on_smooth_fields_converges_at_the_same_order(name):
    make, element, treatment, exact, sizes, expected, _ = SOLUTIONS[name]
    found, _ = order(action_error, make, element, treatment, exact, sizes)
    assert found > expected - 0.35


@pytest.mark.parametrize(
    ("make", "element"), [(line, Q2), (square, Q2), (square, P2)], ids=["line Q2", "square Q2", "square P2"]
)
def test_without_boundary_facets_fields_that_meet_its_natural_conditions_converge(make, element):
    """That form controls ∇²c only, up to harmonic functions: the shift, of the size of q⁴, determines those."""
    coarse, fine = (solution_error(make, n, element, LITERAL, bumps, shift=1e4) for n in (32, 64))
    assert np.log2(coarse / fine) > 1.7
    assert fine < 1e-2


@pytest.mark.parametrize(("make", "element"), [(square, Q2), (square, P2)], ids=["Q2", "P2"])
def test_without_boundary_facets_mirrored_fields_do_not_converge(make, element):
    """∇²c ≠ 0 on the boundary: the literal form then is another equation."""
    coarse, fine = (solution_error(make, n, element, LITERAL, mirrored, shift=1e4) for n in (12, 24))
    assert fine > 0.5 * coarse
    assert fine > 0.1


def test_the_defect_of_samples_converges_for_bilinear_and_smooth_elements_only():
    """Test function by test function, quadratics leave a defect of order one of samples of a smooth field."""
    for element, treatment, exact, make in ((Q1, Mixed(), mirrored, square), (H3, None, turning, torus)):
        found, _ = order(defect, make, element, treatment, exact, (12, 24))
        assert found > 1.7
    for element, treatment in ((Q2, Mixed()), (Q2, InteriorPenalty()), (P2, InteriorPenalty())):
        found, size = order(defect, square, element, treatment, mirrored, (12, 24))
        assert found < 0.5
        assert size > 0.1


FORMS = {
    "P2 on a grid": (box(6, 2), P2, InteriorPenalty()),
    "P2 mesh": (simplices(3, 2, 2, seed=1), P2, InteriorPenalty()),
    "P2 α = 8": (box(6, 2), P2, InteriorPenalty(8)),
    "Q2": (box(6, 2), Q2, InteriorPenalty()),
    "Q2 α = 16": (box(6, 2), Q2, InteriorPenalty(16)),
    "Q2 uneven": (Grid(x=np.linspace(0, 1, 7) ** 1.5, y=np.linspace(0, 2, 5)), Q2, InteriorPenalty()),
    "line Q2": (Grid(x=np.array([0, 0.1, 0.3, 0.35, 0.6, 0.9, 1.0])), Q2, InteriorPenalty()),
    "torus Q2": (periodic_box(6, 2), Q2, InteriorPenalty()),
    "torus P2": (periodic_box(6, 2), P2, InteriorPenalty()),
    "tetrahedra P2": (simplices(1, 3, 2, seed=1), P2, InteriorPenalty()),
    "cubes Q2": (box(2, 3), Q2, InteriorPenalty()),
    "Q2, mixed": (box(6, 2), Q2, Mixed()),
    "P1, mixed": (box(6, 2), P1, Mixed()),
    "torus H3": (periodic_box(6, 2), H3, None),
    "line H3": (Grid(x=np.array([0, 0.1, 0.3, 0.35, 0.6, 0.9, 1.0])), H3, None),
    "H3": (box(6, 2), H3, None),
}


def spectrum(geometry, element, treatment, boundary=None):
    """Eigenvalues of the symmetric B against M, ascending; and B."""
    B, M = (m.toarray() for m in matrices(geometry, element, treatment=treatment, boundary=boundary))
    assert_allclose(B, B.T, atol=1e-13 * np.abs(B).max())
    return scipy.linalg.eigvalsh(B, M), B


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_symmetric_and_positive_up_to_constants(name):
    values, B = spectrum(*FORMS[name])
    assert abs(values[0]) < 1e-12 * values[-1]
    assert values[1] > 1.0  # the lowest q⁴ on boxes of sides up to two is (π/2)⁴ = 6
    assert_allclose(B @ np.ones(len(B)), 0, atol=1e-12 * np.abs(B).max())


@pytest.mark.parametrize("name", ["P2 on a grid", "Q2", "Q2, mixed", "P1, mixed", "line Q2"])
def test_the_lowest_eigenvalue_is_that_of_a_cosine(name):
    geometry, element, treatment = FORMS[name]
    values, _ = spectrum(geometry, element, treatment)
    assert values[1] == pytest.approx(np.pi**4, rel=0.1)


@pytest.mark.parametrize(("element", "enough", "too_small"), [(P2, 5, 4), (Q2, 8, 4)], ids=["P2", "Q2"])
def test_a_penalty_that_is_too_small_makes_an_indefinite_form(element, enough, too_small):
    """α = 4 on right isosceles triangles is exactly enough inside, and too little with boundary facets."""
    assert spectrum(box(6, 2), element, InteriorPenalty(enough))[0][0] > -1e-6
    values, _ = spectrum(box(6, 2), element, InteriorPenalty(too_small))
    assert values[0] < -1e-3 * values[-1]


def test_on_right_triangles_four_is_just_enough_for_interior_facets():
    geometry = box(6, 2)
    enough, _ = spectrum(geometry, P2, InteriorPenalty(4, boundary=False))
    below, _ = spectrum(geometry, P2, InteriorPenalty(3, boundary=False))
    assert enough[0] > -1e-12 * enough[-1]
    assert below[0] < -1e-3 * below[-1]


@pytest.mark.parametrize(("element", "alpha"), [(P2, 8), (Q2, 16)], ids=["P2", "Q2"])
@pytest.mark.parametrize("boundary", [True, False])
def test_the_automatic_penalty_is_eight_on_right_triangles_and_sixteen_on_squares(element, alpha, boundary):
    automatic, _ = matrices(box(6, 2), element, treatment=InteriorPenalty(boundary=boundary))
    stated, _ = matrices(box(6, 2), element, treatment=InteriorPenalty(alpha, boundary=boundary))
    assert_allclose(automatic.toarray(), stated.toarray(), atol=1e-12 * abs(stated).max())


def test_the_literal_form_has_all_linear_fields_in_its_kernel():
    for element in (P2, Q2):
        geometry = box(6, 2)
        B, _ = matrices(geometry, element, treatment=LITERAL)
        for field in (np.ones(geometry.n_nodes), *geometry.points.T, geometry.points.prod(axis=1)):
            assert_allclose(B @ field, 0, atol=1e-12 * abs(B).max())


WRITTEN = (
    "cells(laplacian(test)*laplacian(c))"
    " + facets({a}*jump(grad(test))*jump(grad(c)) - avg(laplacian(c))*jump(grad(test))"
    " - jump(grad(c))*avg(laplacian(test)))"
)
EDGE = (
    " + boundary({a}*jump(grad(test))*jump(grad(c)) - laplacian(c)*dot(grad(test), normal)"
    " - dot(grad(c), normal)*laplacian(test))"
)


@pytest.mark.parametrize(("alpha", "text"), [(None, "penalty"), (8.0, "8/h")])
@pytest.mark.parametrize(
    ("geometry", "element"), [(box(4, 2), P2), (box(4, 2), Q2), (box(4, 1), Q2)], ids=["P2", "Q2", "line Q2"]
)
def test_the_form_written_out_is_the_built_in_one(geometry, element, alpha, text):
    for boundary, written in ((False, WRITTEN), (True, WRITTEN + EDGE)):
        built, _ = matrices(geometry, element, treatment=InteriorPenalty(alpha, boundary=boundary))
        by_hand, _ = matrices(geometry, element, text=written.format(a=text))
        assert_allclose(by_hand.toarray(), built.toarray(), atol=1e-13 * abs(built).max())


@pytest.mark.parametrize("boundary", [NoFlux(), ZeroNeumann(), Assembled()], ids=lambda c: type(c).__name__)
def test_the_laplacian_written_weakly_is_the_built_in_one(boundary):
    """Jumps of a continuous field vanish, so that the facet terms of symmetric interior penalty add nothing."""
    cells = "-cells(dot(grad(test), grad(c)))"
    facets = " + facets(dot(jump(test), avg(dx(c))*normal) - penalty*dot(jump(test), jump(c)))"
    edge = " + boundary(test*dot(grad(c), normal))" if isinstance(boundary, Assembled) else ""
    for element in (Q2, P2, Q1):
        built, _ = matrices(box(4, 2), element, text="laplacian(c)", boundary=boundary)
        for text in (cells + edge, cells + edge + facets):
            by_hand, _ = matrices(box(4, 2), element, text=text, boundary=boundary)
            assert_allclose(by_hand.toarray(), built.toarray(), atol=1e-11 * abs(built).max())


def test_stabilisation_by_jumps_written_as_text_vanishes_on_smooth_elements():
    """Σ_E ∫ h [∇v][∇c] is zero on C1 functions and on quadratics, and positive on others."""
    text = "facets(h*jump(grad(test))*jump(grad(c)))"
    smooth, _ = matrices(box(4, 2), H3, text=text)
    assert abs(smooth).max() < 1e-10
    geometry = box(4, 2)
    rough, _ = matrices(geometry, Q2, text=text)
    x, y = geometry.points.T
    assert_allclose(rough @ (x**2 + x * y - y), 0, atol=1e-12)
    assert np.linalg.eigvalsh(rough.toarray())[-1] > 0.1


@pytest.mark.parametrize("boundary", [Unknown(), NoFlux()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize(
    ("make", "element", "treatment", "sizes", "expected"),
    [
        (line, Q1, Mixed(), (32, 64), 2),
        (line, Q2, Mixed(), (16, 32), 4),
        (line, Q2, InteriorPenalty(), (16, 32), 2),
        (line, H3, None, (16, 32), 2),
        (square, Q1, Mixed(), (24, 48), 2),
        (square, P1, Mixed(), (24, 48), 2),
        (square, Q2, Mixed(), (12, 24), 4),
        (square, P2, InteriorPenalty(), (12, 24), 2),
        (square, H3, None, (12, 24), 2),
    ],
    ids=lambda v: getattr(v, "name", None) or getattr(v, "__name__", None),
)
def test_against_tests_that_are_flat_at_the_boundary_any_field_is_right(
    make, element, treatment, sizes, expected, boundary
):
    """∫ v ∇⁴c for a field that meets no condition, v ~ d³ at distance d from the boundary."""

    def error(n):
        geometry = make(n)
        B, M = matrices(geometry, element, treatment=treatment, boundary=boundary)
        x = geometry.points
        k = np.array([2.3, 1.7])[: x.shape[1]]
        c = np.sin(x @ k + 0.4)
        v = np.prod((x * (1 - x)) ** 3, axis=1) * np.cos(x[:, 0] + 0.3)
        return abs(v @ (B @ c) - (k @ k) ** 2 * (v @ (M @ c))) / abs((k @ k) ** 2 * (v @ (M @ c)))

    coarse, fine = (error(n) for n in sizes)
    assert np.log2(coarse / fine) > expected - 0.4


@pytest.mark.parametrize("name", ["P2 mesh", "Q2 uneven", "line Q2", "tetrahedra P2", "Q2, mixed", "torus H3"])
def test_the_matrix_scales_with_the_length(name):
    """x → L x: B → L^(dim − 4) B, penalty included."""
    geometry, element, treatment = FORMS[name]
    L = 37.0
    if isinstance(geometry, Grid):
        periods = {a: L * p for a, p in geometry.periods.items()}
        scaled = Grid(**{a: L * x for a, x in geometry.axes.items()}, periodic=periods)
    else:
        scaled = Mesh(L * geometry.points, geometry.cells, geometry.cell_type)
    one, _ = matrices(geometry, element, treatment=treatment)
    other, _ = matrices(scaled, element, treatment=treatment)
    factor = L ** (geometry.dim - 4)
    assert_allclose(other.toarray() / factor, one.toarray(), atol=1e-11 * abs(one).max())
