"""Second derivatives: exact for the polynomials of the element, on all geometries, made when asked for."""

import numpy as np
import pytest
from geometries import close, grid, mesh, quad_mesh_of
from measures import GRIDS, MESHES, away_from_the_seam, derivative, geometry_of, label, measures_of, powers, unit

from bvsi.common.naming import Sided
from bvsi.data import Grid
from bvsi.errors import SpaceError
from bvsi.spaces.cells import Places, locate
from bvsi.spaces.element import H3, P1, P2, Q1, Q2
from bvsi.spaces.finite_element import FiniteElements
from bvsi.spaces.measure import derivatives

CASES = [(name, element) for name in GRIDS for element in (Q1, Q2, P1, P2)] + list(MESHES.items())


@pytest.mark.parametrize(("name", "element"), CASES, ids=label)
def test_all_derivatives_of_polynomials_are_exact(name, element):
    geometry = geometry_of(name, element)
    per_axis = name in GRIDS and element.family == "Q"
    cells, boundary, facets = measures_of(geometry, element)
    for power in powers(geometry.dim, element.degree, per_axis):
        u = derivative(geometry.points, power, (0,) * geometry.dim)
        for index in derivatives(geometry.dim):
            for measure, key in (
                (cells, index),
                (boundary, index),
                (facets, Sided(index, 1)),
                (facets, Sided(index, -1)),
            ):
                keep = away_from_the_seam(geometry, measure.points, element)
                assert keep.any() or measure is boundary
                value = measure.trial.matrix(key) @ u
                assert close(value[keep], derivative(measure.points, power, index)[keep], 1e-8)


def test_a_bilinear_function_has_a_mixed_derivative():
    geometry = grid("xy")
    cells = measures_of(geometry, Q1)[0]
    x, y = geometry.points.T
    assert close(cells.trial.matrix((1, 1)) @ (x * y), np.ones(len(cells.weights)), 1e-11)
    assert not np.any(cells.trial.entries((2, 0)))


def test_second_derivatives_of_linear_functions_vanish_on_simplices():
    for made in (mesh("triangle"), mesh("tetra")):
        for measure in measures_of(made, P1)[:2]:
            for index in derivatives(made.dim):
                if sum(index) == 2:
                    assert np.abs(measure.trial.entries(index)).max() < 1e-10


@pytest.mark.parametrize("cell_type", ["quad", "quad9", "hexahedron", "hexahedron27"])
def test_second_derivatives_are_the_derivatives_of_the_first_on_cells_that_are_not_affine(cell_type):
    """Against differences of the gradient along x, at places located anew in the cells."""
    made, element = mesh(cell_type, distort=0.1), MESHES[cell_type]
    elements = FiniteElements(made, element)
    rng = np.random.default_rng(1)
    cells = np.arange(elements.mesh.nelements)
    xi = rng.uniform(0.3, 0.7, (made.dim, len(cells), 1))
    here = Places(elements.mesh, elements.skfem_element, cells, xi)
    points = elements.mesh.mapping().F(xi, tind=cells)[:, :, 0].T
    step = 1e-5
    for a in range(made.dim):
        slopes = []
        for sign in (1, -1):
            found, place = locate(elements.mesh, points + sign * step * np.eye(made.dim)[a])
            assert np.array_equal(found, cells)
            moved = Places(elements.mesh, elements.skfem_element, cells, place[:, :, None])
            slopes.append([moved.derivative(unit(b, made.dim)) for b in range(made.dim)])
        for b in range(made.dim):
            index = tuple(np.add(unit(a, made.dim), unit(b, made.dim)).tolist())
            numerical = (slopes[0][b] - slopes[1][b]) / (2 * step)
            assert close(here.derivative(index), numerical, 1e-5 * np.abs(numerical).max() + 1e-5)


@pytest.mark.parametrize("element", [Q1, Q2], ids=label)
@pytest.mark.parametrize("names", ["x", "xy", "xyz"])
def test_tensor_and_finite_elements_have_the_same_second_derivatives(names, element):
    uniform = {name: np.linspace(0, 1 + k, 5) for k, name in enumerate(names)}
    geometry = Grid(**uniform)
    same = quad_mesh_of(geometry, element.degree)
    u = np.random.default_rng(0).standard_normal(geometry.n_nodes)
    pairs = list(zip(measures_of(geometry, element, 6), measures_of(same, element, 6), strict=True))
    for index in derivatives(geometry.dim):
        for (ours, theirs), sides in zip(pairs, ([None], [None], [1, -1]), strict=True):
            keys = [index if side is None else Sided(index, side) for side in sides]
            squares = [m.weights @ sum((m.trial.matrix(key) @ u) ** 2 for key in keys) for m in (ours, theirs)]
            assert squares[0] == pytest.approx(squares[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("geometry", [grid("xy"), mesh("triangle6"), mesh("quad9")], ids=["grid", "triangles", "quads"])
def test_derivatives_are_made_when_asked_for_and_kept(geometry):
    element = Q2 if isinstance(geometry, Grid) or geometry.cell_type == "quad9" else P2
    for measure in measures_of(geometry, element)[:2]:
        assert set(measure.trial.offered) == set(derivatives(2))
        assert len(measure.trial.offered) == 6
        assert not measure.trial.made
        first = measure.trial.entries((2, 0))
        assert set(measure.trial.made) == {(2, 0)}
        assert measure.trial.entries((2, 0)) is first


@pytest.mark.parametrize("element", [Q1, Q2, P2, H3], ids=label)
def test_third_derivatives_do_not_exist(element):
    geometry = geometry_of("2D", element)
    cells, boundary, facets = measures_of(geometry, element)
    for measure in (cells, boundary):
        for index in ((3, 0), (2, 1), (0, 0, 0)):
            with pytest.raises(SpaceError, match="derivative"):
                measure.trial.matrix(index)
        with pytest.raises(SpaceError, match="derivative"):
            measure.trial.matrix(Sided((1, 0), 1))
    for key in (Sided((3, 0), 1), Sided((1, 0), 0), (1, 0)):
        with pytest.raises(SpaceError, match="derivative"):
            facets.trial.matrix(key)
