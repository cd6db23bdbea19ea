"""Spaces: polynomials are represented, differentiated and integrated exactly; the divergence theorem holds."""

import itertools
import math

import numpy as np
import pytest
from geometries import AXES, BOX, MIDDLE, UNIFORM, close, grid, mesh

from bvsi.data import CELL_TYPES, Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

GRIDS = {
    "1D": ("x", AXES, ""),
    "1D uniform": ("x", UNIFORM, ""),
    "1D periodic": ("x", AXES, "x"),
    "2D": ("xy", AXES, ""),
    "2D uniform": ("xy", UNIFORM, ""),
    "2D turned": ("yx", AXES, ""),
    "2D periodic": ("xy", AXES, "xy"),
    "2D half periodic": ("xy", AXES, "y"),
    "3D": ("xyz", AXES, ""),
    "3D periodic in z": ("xyz", AXES, "z"),
}
MESHES = {
    "line": (P1, Q1),
    "line3": (P2, Q2),
    "triangle": (P1,),
    "triangle6": (P2,),
    "quad": (Q1,),
    "quad9": (Q2,),
    "tetra": (P1,),
    "tetra10": (P2,),
    "hexahedron": (Q1,),
    "hexahedron27": (Q2,),
}
ON_GRIDS = [(name, element) for name in GRIDS for element in (Q1, Q2, P1, P2)]
ON_MESHES = [(name, element) for name, elements in MESHES.items() for element in elements]
QUADRATURE = 6


def label(value):
    return getattr(value, "name", value)


def space_of(name, element, shear=False):
    if name in GRIDS:
        names, axes, periodic = GRIDS[name]
        geometry = grid(names, MIDDLE if element == P2 and axes is AXES and len(names) > 1 else axes, periodic)
    else:
        geometry = mesh(name, shear=shear)
    return geometry, Galerkin(element).build(geometry, QUADRATURE)


def unit(axis, dim):
    return tuple(int(i == axis) for i in range(dim))


def powers(dim, degree, per_axis):
    every = itertools.product(range(degree + 1), repeat=dim)
    return [p for p in every if per_axis or sum(p) <= degree]


def monomial(points, power):
    return np.prod(points**power, axis=1)


def derivative(points, power, axis):
    lowered = tuple(max(p - (i == axis), 0) for i, p in enumerate(power))
    return power[axis] * monomial(points, lowered)


def away_from_the_seam(geometry, points):
    """Points in elements that do not reach over the end of a period, where a polynomial is not periodic."""
    keep = np.ones(len(points), dtype=bool)
    if isinstance(geometry, Grid):
        for axis, name in enumerate(geometry.names):
            if name in geometry.periods:
                keep &= points[:, axis] < geometry.axes[name][-2]
    return keep


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_partition_of_unity(name, element):
    geometry, space = space_of(name, element)
    one = np.ones(geometry.n_nodes)
    for measure in (space.cells, space.measure("boundary")):
        assert close(measure.trial.matrix((0,) * space.dim) @ one, np.ones(len(measure.weights)), 1e-12)
        for axis in range(space.dim):
            slope = measure.trial.matrix(unit(axis, space.dim)) @ one
            assert np.abs(slope).max(initial=0) < 1e-11


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_polynomials_and_their_derivatives_are_exact(name, element):
    geometry, space = space_of(name, element)
    per_axis = name in GRIDS and (element.family == "Q" or space.dim == 1)
    for measure in (space.cells, space.measure("boundary")):
        inside = away_from_the_seam(geometry, measure.points)
        if space.cells is measure:
            assert inside.any()
        for power in powers(space.dim, element.degree, per_axis):
            u = monomial(geometry.points, power)
            value = measure.trial.matrix((0,) * space.dim) @ u
            assert close(value[inside], monomial(measure.points, power)[inside], 1e-11)
            for axis in range(space.dim):
                slope = measure.trial.matrix(unit(axis, space.dim)) @ u
                assert close(slope[inside], derivative(measure.points, power, axis)[inside], 1e-10)


def extent(geometry, name):
    if isinstance(geometry, Grid):
        first = geometry.axes[name][0]
        return first, first + geometry.periods.get(name, geometry.axes[name][-1] - first)
    return BOX[name]


def exact_integral(geometry, power, names):
    total = 1.0
    for p, name in zip(power, names, strict=True):
        a, b = extent(geometry, name)
        total *= (b ** (p + 1) - a ** (p + 1)) / (p + 1)
    return total


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_polynomials_are_integrated_exactly(name, element):
    geometry, space = space_of(name, element)
    # the map of a quadrilateral or hexahedron has a determinant of degree one or two per axis
    degree = QUADRATURE - (0 if name in GRIDS else 2)
    for power in powers(space.dim, degree, per_axis=False):
        integral = space.cells.weights @ monomial(space.cells.points, power)
        assert integral == pytest.approx(exact_integral(geometry, power, geometry.names), rel=1e-11, abs=1e-12)


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_boundary_integrals_are_exact_face_by_face(name, element):
    geometry, space = space_of(name, element)
    boundary = space.measure("boundary")
    assert close(np.linalg.norm(boundary.normals, axis=1), np.ones(len(boundary.weights)), 1e-12)
    for axis, axis_name in enumerate(geometry.names):
        periodic = isinstance(geometry, Grid) and axis_name in geometry.periods
        for end, sign in zip(extent(geometry, axis_name), (-1.0, 1.0), strict=True):
            face = np.isclose(boundary.normals[:, axis], sign)
            if periodic:
                assert not face.any()
                continue
            assert close(boundary.points[face, axis], np.full(face.sum(), end), 1e-12)
            rest = [n for n in geometry.names if n != axis_name]
            power = (2,) * len(rest)
            others = [i for i in range(space.dim) if i != axis]
            integral = boundary.weights[face] @ monomial(boundary.points[face][:, others], power)
            assert integral == pytest.approx(exact_integral(geometry, power, rest), rel=1e-11)


@pytest.mark.parametrize("shear", [False, True], ids=["straight", "oblique"])
@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_divergence_theorem(name, element, shear):
    """∫ ∂_i f dx = ∮ f n_i dS for every function f of the space."""
    if shear and name in GRIDS:
        pytest.skip("a grid is not oblique")
    geometry, space = space_of(name, element, shear)
    f = np.random.default_rng(3).standard_normal((geometry.n_nodes, 2))
    zero = (0,) * space.dim
    for axis in range(space.dim):
        volume = space.cells.weights @ (space.cells.trial.matrix(unit(axis, space.dim)) @ f)
        on_boundary = space.measure("boundary").trial.matrix(zero) @ f
        surface = (space.measure("boundary").weights * space.measure("boundary").normals[:, axis]) @ on_boundary
        assert volume == pytest.approx(surface, abs=1e-11)


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_boundary_nodes_are_those_on_the_boundary(name, element):
    geometry, space = space_of(name, element)
    expected = np.zeros(geometry.n_nodes, dtype=bool)
    for axis, axis_name in enumerate(geometry.names):
        if not (isinstance(geometry, Grid) and axis_name in geometry.periods):
            for end in extent(geometry, axis_name):
                expected |= np.isclose(geometry.points[:, axis], end)
    assert space.boundary_tests.tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize(("name", "element"), ON_GRIDS + ON_MESHES, ids=label)
def test_nodes_and_test_functions_are_those_of_the_data(name, element):
    geometry, space = space_of(name, element)
    assert space.n_dofs == space.n_tests == geometry.n_nodes
    assert np.array_equal(space.dof_points, geometry.points)
    assert element.name in space.name


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=label)
def test_spaces_do_not_depend_on_the_unit_of_length(element, scale):
    def made(unit_of_length):
        axes = {name: MIDDLE[name] * unit_of_length for name in "xy"}
        axes["x"] = np.append(axes["x"], 1.15 * unit_of_length)
        geometry = Grid(periodic={"x": 1.3 * unit_of_length}, **axes)
        return Galerkin(element).build(geometry, 4)

    one, other = made(1.0), made(scale)
    assert other.boundary_tests.tolist() == one.boundary_tests.tolist()
    assert other.cells.weights.sum() == pytest.approx(one.cells.weights.sum() * scale**2)
    assert other.measure("boundary").weights.sum() == pytest.approx(one.measure("boundary").weights.sum() * scale)
    assert close(other.mass / scale**2, one.mass, 1e-9)


def test_p2_on_a_grid_needs_nodes_in_the_middle():
    with pytest.raises(SpaceError, match="P2") as caught:
        Galerkin(P2).build(grid("xy", AXES), 4)
    assert "middle" in str(caught.value)


@pytest.mark.parametrize("degree", range(1, 17))
@pytest.mark.parametrize("cell_type", ["line", "triangle", "quad", "tetra", "hexahedron"])
def test_quadrature_is_exact_to_the_degree_asked_for(cell_type, degree):
    """All monomials of that degree on one reference cell: ∫ x^p is Π p_i!/(|p| + dim)! or Π 1/(p_i + 1)."""
    cell = CELL_TYPES[cell_type]
    geometry = Mesh(np.array(cell.vertices, dtype=float), np.arange(len(cell.vertices))[None], cell_type)
    cells = Galerkin().build(geometry, degree).cells
    for power in powers(cell.dim, degree, per_axis=False):
        if cell.simplex:
            exact = np.prod([math.factorial(p) for p in power], dtype=float) / math.factorial(sum(power) + cell.dim)
        else:
            exact = 1 / np.prod([p + 1.0 for p in power])
        assert cells.weights @ monomial(cells.points, power) == pytest.approx(exact, rel=1e-12)
