"""Matrices of the spaces against references assembled in another way."""

import numpy as np
import pytest
import skfem
from geometries import AXES, MESHES, MIDDLE, SECOND, UNIFORM, close, grid, mesh, quad_mesh_of
from skfem.helpers import dot, grad

from bvsi.data import CELL_TYPES, Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin, Lagrange
from bvsi.spaces.finite_element import FiniteElements
from bvsi.spaces.galerkin import _space


def dense(space, **how):
    return space.pattern.matrix(space.bilinear(c=np.ones((1, 1)), **how)[0]).toarray()


def unit(axis, dim):
    return tuple(int(i == axis) for i in range(dim))


def mass(space):
    return space.pattern.matrix(space.mass).toarray()


def stiffness(space):
    units = [unit(axis, space.dim) for axis in range(space.dim)]
    return sum(dense(space, where="cells", test=u, trial=u) for u in units)


def boundary_mass(space):
    zero = (0,) * space.dim
    return dense(space, where="boundary", test=zero, trial=zero)


def line_mass(nodes, degree, period):
    """∫ ℓ_i ℓ_j on one axis, from polynomial coefficients."""
    n = len(nodes)
    extended = nodes if period is None else np.append(nodes, nodes[0] + period)
    M = np.zeros((n, n))
    for start in range(0, len(extended) - 1, degree):
        local = extended[start : start + degree + 1]
        columns = np.arange(start, start + degree + 1) % n
        shift = local[0]
        basis = [np.polynomial.Polynomial.fit(local - shift, e, degree, domain=[]) for e in np.eye(degree + 1)]
        for i, p in zip(columns, basis, strict=True):
            for j, q in zip(columns, basis, strict=True):
                antiderivative = (p * q).integ()
                M[i, j] += antiderivative(local[-1] - shift) - antiderivative(0.0)
    return M


@pytest.mark.parametrize("element", [Q1, Q2], ids=lambda e: e.name)
@pytest.mark.parametrize(
    ("names", "axes", "periodic"),
    [("x", AXES, ""), ("x", AXES, "x"), ("xy", UNIFORM, ""), ("yx", AXES, "y"), ("xyz", AXES, "z")],
)
def test_mass_matrix_of_a_grid_is_the_product_of_its_axes(names, axes, periodic, element):
    geometry = grid(names, axes, periodic)
    expected = np.ones((1, 1))
    for name in geometry.names:
        expected = np.kron(expected, line_mass(geometry.axes[name], element.degree, geometry.periods.get(name)))
    space = Galerkin(element).build(geometry, 2 * element.degree)
    assert close(mass(space), expected, 1e-13)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("names", ["x", "xy", "yx", "xyz"])
def test_tensor_path_equals_the_finite_element_path(names, degree):
    """Q on a grid, by Kronecker products and by scikit-fem on the same cells; Q2 needs nodes in the middle there."""
    axes = AXES if degree == 1 else MIDDLE
    geometry = grid(names, axes)
    same = quad_mesh_of(geometry, degree)
    if names == "yx":  # a mesh is always in x, y
        same = Mesh(same.points[:, ::-1], same.cells, same.cell_type)
    tensor = Galerkin(Lagrange("Q", degree)).build(geometry, 5)
    general = _space(same, Lagrange("Q", degree), 5, None)
    assert isinstance(FiniteElements(same, Lagrange("Q", degree)).node_of_dof, np.ndarray)
    assert close(mass(tensor), mass(general), 1e-12)
    assert close(stiffness(tensor), stiffness(general), 1e-10)
    assert close(boundary_mass(tensor), boundary_mass(general), 1e-12)
    assert tensor.boundary_tests.tolist() == general.boundary_tests.tolist()
    zero = (0,) * tensor.dim
    order = [same.names.index(name) for name in geometry.names]
    for axis in range(tensor.dim):
        ours = dense(tensor, where="cells", test=unit(axis, tensor.dim), trial=zero)
        theirs = dense(general, where="cells", test=unit(order[axis], tensor.dim), trial=zero)
        assert close(ours, theirs, 1e-11)


ELEMENTS = {
    "line": skfem.ElementLineP1,
    "line3": skfem.ElementLineP2,
    "triangle": skfem.ElementTriP1,
    "triangle6": skfem.ElementTriP2,
    "quad": skfem.ElementQuad1,
    "quad9": skfem.ElementQuad2,
    "tetra": skfem.ElementTetP1,
    "tetra10": skfem.ElementTetP2,
    "hexahedron": skfem.ElementHex1,
    "hexahedron27": skfem.ElementHex2,
}


@pytest.mark.parametrize("cell_type", ELEMENTS)
def test_mesh_matrices_equal_those_of_scikit_fem(cell_type):
    geometry = mesh(cell_type, shear=True)
    base = SECOND.get(cell_type, cell_type)
    corners = geometry.cells[:, : geometry.vertices_per_cell]
    if base == "hexahedron":
        corners = corners[:, hexahedron_vertices()]
    vertices, t = np.unique(corners, return_inverse=True)
    other = MESHES[base](geometry.points[vertices].T.copy(), t.reshape(corners.shape).T.copy())
    basis = skfem.Basis(other, ELEMENTS[cell_type](), intorder=6)
    place = np.linalg.norm(basis.doflocs.T[:, None] - geometry.points[None], axis=2)
    node = place.argmin(axis=1)
    assert place.min(axis=1).max() < 1e-9
    M = skfem.asm(skfem.BilinearForm(lambda u, v, w: u * v), basis).toarray()
    K = skfem.asm(skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))), basis).toarray()
    space = Galerkin().build(geometry, 6)
    assert close(mass(space)[np.ix_(node, node)], M, 1e-12)
    assert close(stiffness(space)[np.ix_(node, node)], K, 1e-10)


def hexahedron_vertices():
    """Positions in meshio's hexahedron of scikit-fem's vertices, from the reference coordinates of both."""
    place = {vertex: i for i, vertex in enumerate(CELL_TYPES["hexahedron"].vertices)}
    return [place[tuple(int(c) for c in vertex)] for vertex in skfem.refdom.RefHex.p.T]


@pytest.mark.parametrize("element", [P1, P2], ids=lambda e: e.name)
@pytest.mark.parametrize("names", ["xy", "xyz"])
def test_simplices_on_a_grid_know_constants_and_nothing_else(names, element):
    """K 1 = 0 and M > 0, periodic or not."""
    for periodic in ("", names[0], names):
        space = Galerkin(element).build(grid(names, MIDDLE, periodic), 4)
        assert np.abs(stiffness(space).sum(axis=1)).max() < 1e-10
        assert np.linalg.eigvalsh(mass(space))[0] > 0


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=lambda e: e.name)
def test_periodic_grid_is_invariant_under_shifts(element):
    """On a uniform periodic grid a shift by an element maps matrices to themselves."""
    h = 0.25
    n = 8
    geometry = Grid(x=h * np.arange(n), y=h * np.arange(n), periodic=("x", "y"))
    space = Galerkin(element).build(geometry, 4)
    shifted = np.roll(np.arange(n * n).reshape(n, n), element.degree, axis=0).ravel()
    for matrix in (mass(space), stiffness(space)):
        assert close(matrix[np.ix_(shifted, shifted)], matrix, 1e-12)
    assert not len(space.boundary_tests)
    assert len(space.measure("boundary").weights) == 0


def test_natural_elements():
    assert Galerkin().element_for(grid("xy")) == Q1
    for cell_type, element in {"triangle": P1, "triangle6": P2, "quad9": Q2, "tetra10": P2, "line": Q1}.items():
        assert Galerkin().element_for(mesh(cell_type)) == element


@pytest.mark.parametrize(("family", "degree"), [("R", 1), ("P", 3), ("Q", 0), ("Q", 3)])
def test_unknown_elements_are_refused(family, degree):
    with pytest.raises(SpaceError, match="P1, P2, Q1, Q2"):
        Lagrange(family, degree)


@pytest.mark.parametrize("element", [Q2, P2], ids=lambda e: e.name)
@pytest.mark.parametrize(("names", "periodic"), [("x", ""), ("xy", ""), ("x", "x"), ("xy", "y")])
def test_second_degree_needs_pairs_of_cells(names, periodic, element):
    good = grid(names, AXES, periodic)
    name = good.names[-1]
    axes = {n: a[:-1] if n == name else a for n, a in good.axes.items()}
    bad = type(good)(periodic=dict(good.periods), **axes)
    with pytest.raises(SpaceError, match=rf"'{name}'.*(odd|even) number") as caught:
        Galerkin(element).build(bad, 4)
    assert "leave out one node" in str(caught.value).lower()
    assert "1" in str(caught.value)


@pytest.mark.parametrize(
    ("cell_type", "element", "fitting"),
    [
        ("triangle", Q1, "P1"),
        ("triangle6", Q2, "P2"),
        ("tetra", Q1, "P1"),
        ("quad", P1, "Q1"),
        ("quad9", P2, "Q2"),
        ("hexahedron", P1, "Q1"),
    ],
)
def test_an_element_of_another_shape_is_refused(cell_type, element, fitting):
    with pytest.raises(SpaceError, match=f"{element.name}.*{fitting}"):
        Galerkin(element).build(mesh(cell_type), 4)


@pytest.mark.parametrize(
    ("cell_type", "element"), [("triangle", P2), ("triangle6", P1), ("quad", Q2), ("quad9", Q1), ("tetra10", P1)]
)
def test_an_element_of_another_degree_is_refused_with_advice(cell_type, element):
    with pytest.raises(SpaceError, match=r"degrees of freedom at the measured nodes.*transfer"):
        Galerkin(element).build(mesh(cell_type), 4)


def test_the_element_has_no_third_derivative():
    space = Galerkin(Q1).build(grid("xy"), 2)
    with pytest.raises(SpaceError, match="derivative"):
        space.cells.trial.matrix((3, 0))
