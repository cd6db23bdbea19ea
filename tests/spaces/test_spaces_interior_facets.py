"""Facets between cells: their total size, jumps across them, periodic seams, the automatic penalty."""

import numpy as np
import pytest
import skfem
from geometries import AXES, MIDDLE, UNIFORM, close, grid, mesh, quad_mesh_of
from measures import GRIDS, MESHES, derivative, geometry_of, gradient, label, measures_of, normal_jump, unit

from bvsi.common.jets import Sided
from bvsi.data import Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces.cells import Facets
from bvsi.spaces.element import H3, P1, P2, Q1, Q2
from bvsi.spaces.finite_element import FiniteElements

CASES = [(name, element) for name in GRIDS for element in (Q1, Q2, P1, P2, H3)] + list(MESHES.items())


def length(geometry, name):
    x = geometry.axes[name]
    return geometry.periods.get(name, x[-1] - x[0])


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2, H3], ids=label)
@pytest.mark.parametrize("name", GRIDS)
def test_facets_normal_to_an_axis_have_the_known_total_size(name, element):
    geometry = geometry_of(name, element)
    facets = measures_of(geometry, element)[2]
    for axis, axis_name in enumerate(geometry.names):
        nodes = len(geometry.axes[axis_name])
        join = element.degree if element in (Q2, P2) else 1
        joints = nodes // join if axis_name in geometry.periods else (nodes - 1) // join - 1
        area = np.prod([length(geometry, other) for other in geometry.names if other != axis_name])
        here = np.abs(facets.normals[:, axis]) > 1 - 1e-12
        assert facets.weights[here].sum() == pytest.approx(joints * area)
    assert close(np.linalg.norm(facets.normals, axis=1), np.ones(len(facets.weights)), 1e-12)
    if element.family == "P" and geometry.dim == 2:
        x, y = (
            np.append(v, v[0] + geometry.periods[n]) if n in geometry.periods else v for n, v in geometry.axes.items()
        )
        diagonals = np.hypot(*np.meshgrid(np.diff(x[:: element.degree]), np.diff(y[:: element.degree])))
        oblique = np.abs(facets.normals).max(axis=1) < 1 - 1e-12
        assert facets.weights[oblique].sum() == pytest.approx(diagonals.sum())


@pytest.mark.parametrize(("name", "element"), CASES, ids=label)
def test_values_agree_from_both_sides(name, element):
    geometry = geometry_of(name, element)
    facets = measures_of(geometry, element)[2]
    u = np.random.default_rng(2).standard_normal(geometry.n_nodes)
    zero = (0,) * geometry.dim
    plus, minus = (facets.trial.matrix(Sided(zero, side)) @ u for side in (1, -1))
    assert close(plus, minus, 1e-11)
    assert facets.trial is facets.test
    assert np.abs(plus).max() > 0.1


@pytest.mark.parametrize(("name", "element"), CASES, ids=label)
def test_divergence_theorem_cell_by_cell(name, element):
    """∫ Δu = ∮ ∂u/∂n + Σ_E ∫ (∂u⁺/∂n − ∂u⁻/∂n) for every function of the space."""
    geometry = geometry_of(name, element)
    curved = name in ("quad", "quad9", "hexahedron", "hexahedron27")  # rational integrands
    cells, boundary, facets = measures_of(geometry, element, 12 if curved else 4)
    u = np.random.default_rng(3).standard_normal(geometry.n_nodes)
    dim = geometry.dim
    inside = sum(cells.weights @ (cells.trial.matrix(tuple(2 * i for i in unit(a, dim))) @ u) for a in range(dim))
    outer = boundary.weights @ np.sum(gradient(boundary, u) * boundary.normals, axis=1)
    jumps = facets.weights @ normal_jump(facets, u)
    assert inside == pytest.approx(outer + jumps, abs=1e-6 if curved else 1e-9)


@pytest.mark.parametrize(("name", "element"), [c for c in CASES if "periodic" not in c[0]], ids=label)
def test_smooth_polynomials_have_no_jump(name, element):
    geometry = geometry_of(name, element)
    facets = measures_of(geometry, element)[2]
    degree = min(element.degree, 2)
    power = (degree,) + (0,) * (geometry.dim - 1)
    u = derivative(geometry.points, power, (0,) * geometry.dim) + geometry.points @ np.arange(1.0, geometry.dim + 1)
    assert np.abs(normal_jump(facets, u)).max() < 1e-10


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=label)
@pytest.mark.parametrize("name", ["1D", "2D", "3D", "2D half periodic", "3D periodic in z"])
def test_a_kink_jumps_by_its_slopes(name, element):
    """|x − c| has ∂u⁺/∂n − ∂u⁻/∂n = −2 whichever side is +."""
    geometry = geometry_of(name, element)
    facets = measures_of(geometry, element)[2]
    kink = geometry.axes["x"][2]
    jump = normal_jump(facets, np.abs(geometry.points[:, 0] - kink))
    here = (np.abs(facets.points[:, 0] - kink) < 1e-12) & (np.abs(facets.normals[:, 0]) > 1 - 1e-12)
    assert here.any()
    assert close(jump, np.where(here, -2.0, 0.0), 1e-10)


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=label)
@pytest.mark.parametrize("name", ["1D periodic", "2D periodic"])
def test_a_kink_on_the_seam(name, element):
    """min(x − x₀, x₀ + L − x) has slope +1 behind the seam and −1 before it."""
    geometry = geometry_of(name, element)
    facets = measures_of(geometry, element)[2]
    first, period = geometry.axes["x"][0], geometry.periods["x"]
    seam = (np.abs(facets.points[:, 0] - first - period) < 1e-12) & (np.abs(facets.normals[:, 0]) > 1 - 1e-12)
    assert seam.any()
    assert close(facets.normals[seam], np.tile(np.eye(geometry.dim)[0], (seam.sum(), 1)), 1e-12)
    x = geometry.points[:, 0] - first
    jump = normal_jump(facets, np.where(x < 1e-12, 0, np.minimum(x, period - x)))
    assert close(jump[seam], np.full(seam.sum(), -2.0), 1e-10)


def alpha(measure):
    product = measure.penalty * measure.size
    assert np.ptp(product) < 1e-9 * product.max()
    return product[0]


@pytest.mark.parametrize("periodic", ["", "x", "xy"])
@pytest.mark.parametrize(("element", "expected"), [(P1, 8), (P2, 8), (Q1, 16), (Q2, 16), (H3, 16)], ids=label)
def test_automatic_penalty_on_squares_and_halved_squares(element, expected, periodic):
    h = 0.25
    axes = {name: h * np.arange(8 if name in periodic else 9) for name in "xy"}
    geometry = Grid(periodic=tuple(periodic), **axes)
    join = element.degree if element in (P2, Q2) else 1
    for measure in measures_of(geometry, element)[1:]:
        if not len(measure.weights):
            continue
        assert alpha(measure) == pytest.approx(expected)
        straight = np.abs(measure.normals).max(axis=1) > 1 - 1e-12
        assert close(measure.size[straight], np.full(straight.sum(), join * h), 1e-12)
        assert close(measure.size[~straight], np.full((~straight).sum(), np.sqrt(2) * join * h), 1e-12)


def test_automatic_penalty_on_meshes_in_one_and_three_dimensions():
    axis = np.linspace(0, 1, 5)
    line, cube = Grid(x=axis), Grid(x=axis, y=axis, z=axis)
    for element in (Q1, Q2):
        for geometry, expected in ((line, 2), (cube, 24), (Grid(x=axis, y=axis), 16)):
            for made in (geometry, quad_mesh_of(geometry, element.degree)):
                for measure in measures_of(made, element)[1:]:
                    assert alpha(measure) == pytest.approx(expected)
    assert alpha(measures_of(line, H3)[2]) == pytest.approx(8)
    assert measures_of(line, Q1)[0].penalty is None


@pytest.mark.parametrize("periodic", [False, True])
def test_one_dimensional_sizes_are_means_of_the_adjoining_elements(periodic):
    geometry = grid("x", AXES, "x" if periodic else "")
    x = geometry.axes["x"]
    steps = np.diff(np.append(x, x[0] + geometry.periods["x"]) if periodic else x)
    if periodic:
        expected = upper = 0.5 * (steps + np.roll(steps, -1))
        lower = np.roll(upper, 1)
    else:
        expected = 0.5 * (steps[1:] + steps[:-1])
        upper, lower = np.append(expected, steps[-1]), np.append(steps[0], expected)
    for element in (Q1, P1):  # tensor, scikit-fem
        _, boundary, facets = measures_of(geometry, element)
        assert close(facets.size[np.argsort(facets.points[:, 0])], expected, 1e-12)
        assert alpha(facets) == pytest.approx(((upper + lower) / steps).max())
        if not periodic:
            assert close(np.sort(boundary.size), np.sort(steps[[0, -1]]), 1e-12)


@pytest.mark.parametrize("element", [Q1, Q2], ids=label)
@pytest.mark.parametrize("names", ["x", "xy", "xyz"])
def test_tensor_and_finite_elements_have_the_same_facets(names, element):
    geometry = grid(names, MIDDLE)
    same = quad_mesh_of(geometry, element.degree)
    u = np.random.default_rng(4).standard_normal(geometry.n_nodes)
    for number in (1, 2):
        ours, theirs = measures_of(geometry, element)[number], measures_of(same, element)[number]
        for of in (lambda m: m.weights.sum(), lambda m: m.weights @ m.penalty, lambda m: m.weights @ m.points):
            assert of(ours) == pytest.approx(of(theirs))
    energy = [m.weights @ (m.penalty * normal_jump(m, u) ** 2) for m in (ours, theirs)]
    assert energy[0] == pytest.approx(energy[1], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("element", [Q1, P2, H3], ids=label)
def test_the_penalty_does_not_depend_on_the_unit_of_length(element, scale):
    def made(unit_of_length):
        axes = {name: MIDDLE[name] * unit_of_length for name in "xy"}
        axes["x"] = np.append(axes["x"], 1.15 * unit_of_length)
        return measures_of(Grid(periodic={"x": 1.3 * unit_of_length}, **axes), element)[2]

    one, other = made(1.0), made(scale)
    assert alpha(other) == pytest.approx(alpha(one))
    assert other.weights.sum() == pytest.approx(one.weights.sum() * scale)


@pytest.mark.parametrize(("name", "element"), [("2D", P2), ("2D", Q2), ("triangle6", P2), ("quad9", Q2), ("3D", P2)])
def test_the_automatic_penalty_makes_the_biharmonic_form_coercive(name, element):
    """|u|² − 2 Σ_E ∫ {∂²u/∂n²}[∂u/∂n] + Σ_E α/h_E ∫ [∂u/∂n]² has no negative eigenvalue, over interior facets."""
    geometry = geometry_of(name, element)
    cells, _, facets = measures_of(geometry, element, 6)
    dim = geometry.dim

    def normal(side, order):
        axes = range(dim)
        if order == 1:
            return sum(
                facets.normals[:, a, None] * facets.trial.matrix(Sided(unit(a, dim), side)).toarray() for a in axes
            )
        pairs = [(a, b, tuple(np.add(unit(a, dim), unit(b, dim)).tolist())) for a in axes for b in axes]
        n = facets.normals
        return sum((n[:, a] * n[:, b])[:, None] * facets.trial.matrix(Sided(i, side)).toarray() for a, b, i in pairs)

    hessian = 0
    for a in range(dim):
        for b in range(dim):
            E = cells.trial.matrix(tuple(np.add(unit(a, dim), unit(b, dim)).tolist())).toarray()
            hessian = hessian + E.T @ (cells.weights[:, None] * E)
    jump, mean = normal(1, 1) - normal(-1, 1), 0.5 * (normal(1, 2) + normal(-1, 2))
    mixed = mean.T @ (facets.weights[:, None] * jump)
    form = hessian - mixed - mixed.T + jump.T @ ((facets.weights * facets.penalty)[:, None] * jump)
    values = np.linalg.eigvalsh(form)
    assert values[0] > -1e-9 * values[-1]
    assert np.count_nonzero(values < 1e-9 * values[-1]) == dim + 1  # linear functions


def test_a_mesh_of_one_cell_has_no_interior():
    facets = FiniteElements(Mesh(np.array([[0.0, 0], [1, 0], [0, 1]]), np.array([[0, 1, 2]]), "triangle"), P1).interior(
        2
    )
    assert len(facets.weights) == 0
    assert facets.trial.matrix(Sided((1, 0), 1)).shape == (0, 3)


def test_ends_of_a_period_that_do_not_meet_are_refused():
    unlike = mesh("triangle", distort=0)
    made = skfem.MeshTri1(unlike.points.T.copy(), unlike.cells.T.copy())
    right = made.p[0] == made.p[0].max()
    moved = made.p.copy()
    moved[1, right & (np.abs(made.p[1] - 0.5) < 0.1)] += 0.1
    facets = Facets(skfem.MeshTri1(moved, made.t), {0: 1.0})
    with pytest.raises(SpaceError, match="periodic"):
        facets.check_partners(np.array([[0.2, 0.8]]))
    Facets(made, {0: 1.0}).check_partners(np.array([[0.5]]))


def test_uniform_grid_of_two_elements_around_a_period():
    geometry = Grid(x=UNIFORM["x"][:4], periodic={"x": 1.0})
    facets = measures_of(geometry, Q2)[2]
    assert len(facets.weights) == 2
    u = np.random.default_rng(5).standard_normal(4)
    zero = [facets.trial.matrix(Sided((0,), side)) @ u for side in (1, -1)]
    assert close(zero[0], u[[2, 0]], 1e-12)
    assert close(zero[1], u[[2, 0]], 1e-12)
