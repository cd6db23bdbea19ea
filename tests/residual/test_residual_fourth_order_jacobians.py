"""J is the derivative of F for facets, recovered fields, C1 elements and the whole free-energy dictionary."""

import numpy as np
import pytest
import scipy.sparse as sparse
from fourth_order import jacobian_error, periodic_box, prepared, random_data
from numpy.testing import assert_allclose
from residual_cases import box, simplices

from bvsi.data import Data, Grid
from bvsi.errors import OperatorError, SpaceError
from bvsi.operators import Dirichlet, InteriorPenalty, Library, Mixed, NoFlux, Unknown, ZeroNeumann, free_energy_library
from bvsi.residual import CrankNicolson, assemble, discretise_library, state_of
from bvsi.residual.discrete import columns, evaluate, jacobian, reach_of
from bvsi.spaces import H3, P1, P2, Q1, Q2, Galerkin

UNEVEN = Grid(x=np.array([0.0, 0.2, 0.5, 0.7, 1.0]))
SPACES = {
    "P2 triangles on a grid, interior penalty": (box(4, 2), P2, InteriorPenalty()),
    "P2 literal interior penalty": (box(4, 2), P2, InteriorPenalty(8.0, boundary=False)),
    "triangle6, interior penalty": (simplices(2, 2, 2, seed=1), P2, InteriorPenalty()),
    "Q2, interior penalty": (box(4, 2), Q2, InteriorPenalty()),
    "Q2 periodic, interior penalty": (periodic_box(4, 2), Q2, InteriorPenalty()),
    "Q2 on the line, interior penalty": (UNEVEN, Q2, InteriorPenalty()),
    "Q2, mixed": (box(4, 2), Q2, Mixed()),
    "Q1, mixed": (box(3, 2), Q1, Mixed()),
    "P1, mixed": (simplices(2, 2, 1, seed=1), P1, Mixed()),
    "H3": (box(4, 2), H3, None),
    "H3 on the line": (UNEVEN, H3, None),
    "H3 periodic": (periodic_box(5, 2), H3, None),
}


def discretise(operator, space, state):
    """F at all times, as the column of a stencil that takes every time for itself, and J."""
    return columns([operator], space, (state, state), sparse.eye_array(state.n_times, format="csr"))[operator.key]


@pytest.mark.parametrize(
    "where",
    [
        "P2 triangles on a grid, interior penalty",
        "triangle6, interior penalty",
        "Q2, interior penalty",
        "Q2, mixed",
        "P1, mixed",
        "H3",
    ],
)
def test_every_jacobian_of_the_free_energy_is_the_derivative(where):
    geometry, element, treatment = SPACES[where]
    data = random_data(geometry, ("c1", "c2"))
    operators, space = discretise_library(data, free_energy_library(biharmonic=treatment), Galerkin(element))
    assert len(operators) == 30
    state = state_of(data, space)
    errors = {o.name: jacobian_error(o, space, state) for o in operators}
    assert max(errors.values()) < 1e-6, max(errors, key=errors.get)


@pytest.mark.parametrize("where", SPACES)
def test_linear_operators_are_evaluated_by_their_matrix(where):
    geometry, element, treatment = SPACES[where]
    operator, space, state = prepared("biharmonic(c)", geometry, element, treatment=treatment)
    discrete = discretise(operator, space, state)
    straight = evaluate(operator, space, state)
    ((_, _, J),) = discrete.J
    assert len(J) == 1
    assert_allclose(discrete.X, straight, atol=1e-11 * np.abs(straight).max())


@pytest.mark.parametrize("condition", [ZeroNeumann(), NoFlux(), Unknown(), Dirichlet()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("where", ["P2 triangles on a grid, interior penalty", "Q2, mixed", "H3"])
def test_under_every_condition_the_jacobian_is_the_derivative(where, condition):
    geometry, element, treatment = SPACES[where]
    names = ("c",) if isinstance(condition, ZeroNeumann) and element == H3 else ("c", "d")
    text = f"biharmonic({'*'.join(names)}*c)"
    case = prepared(text, geometry, element, treatment=treatment, boundary=condition, fields=names)
    assert case[0].reads == names
    assert jacobian_error(*case) < 1e-6


def test_third_derivatives_in_a_flux_that_is_not_known_to_vanish_are_refused():
    """∇(∇²(c² d))·n = 0 follows from no condition on c alone."""
    with pytest.raises(OperatorError, match=r"'laplacian\(laplacian\(c\*\*2\*d\)\)'.*three derivatives"):
        prepared("laplacian(laplacian(c**2*d))", box(4, 2), H3, fields=("c", "d"))


@pytest.mark.parametrize(
    "text",
    [
        "c*recover(laplacian(c))",
        "div(c*grad(recover(laplacian(c))))",
        "recover(laplacian(c))**2 + dx(c)",
        "d*recover(c*laplacian(d)) + recover(dx(c))*recover(dx(d))",
        "laplacian(recover(c**3 - c) - recover(laplacian(c)))",
        "1/(1 + recover(dx(c)*d)**2)",
        "recover(laplacian(c)) - recover(laplacian(c))*x",
    ],
)
@pytest.mark.parametrize(
    ("geometry", "element", "condition"),
    [
        (UNEVEN, Q2, Unknown()),
        (box(4, 2), Q2, ZeroNeumann()),
        (simplices(2, 2, 1, seed=1), P1, NoFlux()),
        (periodic_box(4, 2), Q1, Unknown()),
    ],
    ids=["line Q2", "Q2", "P1", "periodic Q1"],
)
def test_recovered_fields_obey_the_chain_rule(geometry, element, condition, text):
    operator, space, state = prepared(text, geometry, element, boundary=condition, fields=("c", "d"))
    assert reach_of(operator) == "recovered"
    assert set(jacobian(operator, space, state)) == set(operator.reads)
    assert jacobian_error(operator, space, state) < 1e-6


@pytest.mark.parametrize(("geometry", "element"), [(box(4, 2), Q2), (box(3, 2), Q1), (UNEVEN, Q2)], ids=str)
def test_the_mixed_matrix_is_stiffness_by_lumped_mass_by_stiffness(geometry, element):
    operator, space, state = prepared("biharmonic(c)", geometry, element, treatment=Mixed())
    B = space.reach("recovered").matrix(jacobian(operator, space, state)["c"][0]).toarray()
    laplacian, same, state = prepared("laplacian(c)", geometry, element)
    K = -same.pattern.matrix(jacobian(laplacian, same, state)["c"][0]).toarray()
    assert_allclose(B, K @ np.diag(1 / space.lumped_mass) @ K, atol=1e-12 * np.abs(B).max())


def test_second_degree_on_triangles_refuses_to_be_lumped_and_says_what_else():
    for text, treatment in (("biharmonic(c)", Mixed()), ("c*recover(laplacian(c))", None)):
        operator, space, state = prepared(text, box(4, 2), P2, treatment=treatment)
        with pytest.raises(SpaceError, match=r"lumped.*InteriorPenalty\(\).*P1 or Q1"):
            discretise(operator, space, state)


def test_recovered_fields_and_facets_in_one_operator_are_refused():
    text = "laplacian(recover(laplacian(c))) + facets(jump(grad(test))*jump(grad(c)))"
    with pytest.raises(OperatorError, match="two operators"):
        discretise(*prepared(text, box(4, 2), Q2))


@pytest.mark.parametrize("element", [P1, Q1], ids=lambda e: e.name)
def test_second_derivatives_of_first_degree_elements_are_refused(element):
    with pytest.raises(OperatorError, match="second derivatives vanish"):
        prepared("biharmonic(c)", box(4, 2), element, treatment=InteriorPenalty())


@pytest.mark.parametrize(
    ("element", "name"), [(P2, "interior penalty"), (Q2, "mixed"), (Q1, "mixed"), (P1, "mixed")], ids=str
)
def test_the_treatment_by_default_is_the_first_that_the_element_allows(element, name):
    operator, _, _ = prepared("biharmonic(c)", box(4, 2), element)
    assert bool(operator.recovered) is (name == "mixed")
    assert bool(operator.forms["facets"].terms) is (name == "interior penalty")


def test_elements_with_four_derivatives_need_no_treatment():
    data = random_data(box(4, 2))
    for treatment in (None, Mixed(), InteriorPenalty()):
        library = Library({"c": ["biharmonic(c)"]}, boundary=ZeroNeumann(), biharmonic=treatment)
        (operator,), _ = discretise_library(data, library, Galerkin(H3))
        assert reach_of(operator) == "cells"


# with nodes enough for test functions away from the boundary
LARGER = {
    "Q2, mixed": (box(6, 2), Q2, Mixed()),
    "Q2, interior penalty": (box(6, 2), Q2, InteriorPenalty()),
    "P1, mixed": (simplices(5, 2, 1, seed=1), P1, Mixed()),
    "H3": (box(8, 2), H3, None),
}
TWO = {"c": ["biharmonic(c)", "laplacian(c**2*d)", "recover(laplacian(d))*c"], "d": ["biharmonic(d)", "c*d"]}


@pytest.mark.parametrize(
    ("name", "boundary", "fine"),
    [
        ("Q2, mixed", {"c": Dirichlet(), "d": NoFlux()}, False),
        ("Q2, mixed", ZeroNeumann(), True),
        ("Q2, interior penalty", Unknown(), False),
        ("Q2, interior penalty", {"c": NoFlux(), "d": ZeroNeumann()}, True),
        ("P1, mixed", Unknown(), True),
        ("H3", Unknown(), False),
        ("H3", NoFlux(), True),
    ],
    ids=str,
)
def test_the_sensitivity_of_the_whole_residual_is_its_derivative(name, boundary, fine):
    """dr_k = Σ_j (a_kj M − b_kj Σ_i θ_i J_i(û_j)) P dd_j, whichever reaches the operators have."""
    geometry, element, treatment = LARGER[name]
    measured = box(9, 2) if fine else geometry
    times, rng = np.array([0.0, 0.3, 0.4]), np.random.default_rng(5)
    library = Library(TWO, boundary=boundary, biharmonic=treatment)
    theta = rng.standard_normal(len(library))
    base, direction = ({f: rng.standard_normal((3, measured.n_nodes)) for f in ("c", "d")} for _ in range(2))
    discretisation = Galerkin(element, on=geometry) if fine else Galerkin(element)

    def system(h):
        data = Data(times, {f: base[f] + h * direction[f] for f in base}, measured)
        return assemble(data, library, discretisation=discretisation, stencil=CrankNicolson())

    difference = (system(1e-4).residual(theta)[0] - system(-1e-4).residual(theta)[0]) / 2e-4
    (residuals,) = system(0.0).experiments
    s = residuals.structure
    moved = np.concatenate([direction[f].T if s.transfer is None else s.transfer @ direction[f].T for f in s.fields])
    expected = (s.a @ (s.pattern.matrix(s.M) @ moved).T).T
    applied = [s.pattern.matrix(residuals.jacobian(theta, j)) @ moved[:, j] for j in range(3)]
    expected = expected - (s.b @ np.stack(applied)).T
    assert_allclose(expected, difference, atol=1e-6 * np.abs(difference).max())


def test_definitions_stand_inside_the_biharmonic():
    data = random_data(box(4, 2))
    for element, treatment in ((Q2, Mixed()), (P2, InteriorPenalty()), (H3, None)):
        options = {"boundary": ZeroNeumann(), "biharmonic": treatment}
        defined = Library({"c": ["biharmonic(diff(phi, c))"]}, definitions={"phi": "c**3 - c"}, **options)
        plain = Library({"c": ["biharmonic(3*c**2 - 1)"]}, **options)
        one, two = (
            assemble(data, made, discretisation=Galerkin(element)).experiments[0].X for made in (defined, plain)
        )
        assert_allclose(one, two, atol=1e-10 * np.abs(two).max())
