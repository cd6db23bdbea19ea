"""y, X and M: against an assembly with scikit-fem's forms, under slicing, permutation and change of units."""

import numpy as np
import pytest
import skfem
from residual_cases import box, permuted, simplices
from skfem.helpers import dot, grad

from bvsi.data import Data, Grid
from bvsi.errors import BvsiError, OperatorError
from bvsi.infer import LeastSquares
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, Unknown
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

TIMES = np.array([0.0, 0.2, 0.5, 0.6])


def smooth(points, t, shift=0.0):
    """A field with all derivatives, different at every time."""
    phase = points @ np.array([2.0, 1.3, 0.7])[: points.shape[1]] + shift
    return np.sin(phase + t) + 0.3 * np.cos(2 * phase * (1 + t)) + 1.5


def data_on(geometry, times=TIMES, names=("u",)):
    fields = {name: np.array([smooth(geometry.points, t, i) for t in times]) for i, name in enumerate(names)}
    return Data(times, fields, geometry)


@pytest.mark.parametrize(("element", "degree"), [(P1, 1), (P2, 2)], ids=["P1", "P2"])
@pytest.mark.parametrize("boundary", [NoFlux(), Assembled(), Unknown()], ids=lambda b: type(b).__name__)
def test_system_against_forms_of_scikit_fem(element, degree, boundary):
    """u_t = θ₁ ∇²u + θ₂ ∇·(u∇x²) + θ₃ u u_x + θ₄ u², assembled with BilinearForm and LinearForm."""
    mesh = simplices(3, 2, degree)
    data = data_on(mesh)
    library = Library({"u": ["laplacian(u)", "div(u*grad(x**2))", "u*dx(u)", "u**2"]}, boundary=boundary)
    (residuals,) = assemble(data, library).experiments

    made = skfem.MeshTri1.init_tensor(*[np.linspace(0, 1, 4)] * 2)
    skfem_element = {1: skfem.ElementTriP1, 2: skfem.ElementTriP2}[degree]()
    basis = skfem.Basis(made, skfem_element, intorder=8)
    facets = skfem.FacetBasis(made, skfem_element, intorder=8)
    node = np.array([np.linalg.norm(mesh.points - place, axis=1).argmin() for place in basis.doflocs.T])

    M = skfem.asm(skfem.BilinearForm(lambda u, v, w: u * v), basis)
    K = skfem.asm(skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))), basis)
    drift = skfem.asm(skfem.BilinearForm(lambda u, v, w: 2 * w.x[0] * u * grad(v)[0]), basis)
    normal_flux = skfem.asm(skfem.BilinearForm(lambda u, v, w: dot(grad(u), w.n) * v), facets)
    normal_drift = skfem.asm(skfem.BilinearForm(lambda u, v, w: 2 * w.x[0] * w.n[0] * u * v), facets)
    advection = skfem.LinearForm(lambda v, w: w["u"] * w["u"].grad[0] * v)
    square = skfem.LinearForm(lambda v, w: w["u"] ** 2 * v)
    if not isinstance(boundary, Assembled):
        normal_flux, normal_drift = 0 * normal_flux, 0 * normal_drift

    X = np.zeros((mesh.n_nodes, len(TIMES) - 1, 4))
    y = np.zeros((mesh.n_nodes, len(TIMES) - 1))
    dofs = data.fields["u"][:, node]
    for k in range(1, len(TIMES)):
        u = dofs[k]
        here = basis.interpolate(u)
        y[node, k - 1] = M @ (u - dofs[k - 1]) / (TIMES[k] - TIMES[k - 1])
        X[node, k - 1, 0] = (normal_flux - K) @ u
        X[node, k - 1, 1] = (normal_drift - drift) @ u
        X[node, k - 1, 2] = skfem.asm(advection, basis, u=here)
        X[node, k - 1, 3] = skfem.asm(square, basis, u=here)
    kept = np.arange(mesh.n_nodes)
    if isinstance(boundary, Unknown):
        kept = np.flatnonzero(np.all((mesh.points > 1e-9) & (mesh.points < 1 - 1e-9), axis=1))
    assert np.allclose(residuals.y, y[kept], atol=1e-12)
    assert np.allclose(residuals.X, X[kept], atol=1e-12)
    dense = np.zeros((mesh.n_nodes, mesh.n_nodes))
    dense[np.ix_(node, node)] = M.toarray()
    s = residuals.structure
    assert np.allclose(s.pattern.matrix(s.M).toarray(), dense[kept], atol=1e-14)
    assert np.allclose(s.coordinates, mesh.points[kept])


ONE = ["laplacian(u)", "u*dx(u)", "u", "u**2", "dx(u)"]


@pytest.mark.parametrize("boundary", [NoFlux(), Dirichlet()], ids=lambda b: type(b).__name__)
def test_subset_is_slicing(boundary):
    data = data_on(box(5, 2))
    library = Library({"u": ONE}, boundary=boundary)
    whole = assemble(data, library)
    names = ["u**2", "laplacian(u)"]
    (part,) = whole.subset(names).experiments
    (fresh,) = assemble(data, Library({"u": names}, boundary=boundary)).experiments
    assert whole.subset(names).names == tuple(names)
    assert np.array_equal(part.X, fresh.X)
    assert np.array_equal(part.y, fresh.y)
    assert np.array_equal(part.structure.M, fresh.structure.M)
    theta = np.array([0.3, -2.0])
    for j in range(len(TIMES)):
        assert np.allclose(part.jacobian(theta, j), fresh.jacobian(theta, j), atol=1e-13)
    assert LeastSquares().fit(whole.subset(names)).theta == pytest.approx(
        LeastSquares().fit(assemble(data, library.subset(names))).theta[::-1]
    )


def test_subset_of_two_fields_is_slicing():
    data = data_on(box(4, 2), names=("u", "w"))
    library = Library({"w": ["laplacian(w)", "u*w", "u"], "u": ["laplacian(u)", "w", "u**2"]}, boundary=NoFlux())
    names = ["w: u*w", "w: u", "u: w"]
    whole = assemble(data, library)
    (part,), (fresh,) = whole.subset(names).experiments, assemble(data, library.subset(names)).experiments
    assert np.allclose(part.X, fresh.X, atol=1e-14)
    assert np.allclose(part.y, fresh.y, atol=1e-14)
    theta = np.array([0.3, -2.0, 0.7])
    for j in range(len(TIMES)):
        ours, theirs = (r.structure.pattern.matrix(r.jacobian(theta, j)).toarray() for r in (part, fresh))
        assert np.allclose(ours, theirs, atol=1e-13)


def test_subset_refuses_unknown_and_repeated_names():
    system = assemble(data_on(box(3, 2)), Library({"u": ONE}))
    with pytest.raises(OperatorError, match="laplacian"):
        system.subset(["laplacian(w)"])
    with pytest.raises(OperatorError, match=r"twice|once"):
        system.subset(["u", " u "])
    with pytest.raises(OperatorError, match="5 finite numbers"):
        system.residual([1.0, 2.0])


def test_the_residual_is_y_minus_x_theta():
    system = assemble(data_on(box(4, 2)), Library({"u": ONE}))
    theta = np.arange(5.0)
    (r,), (e,) = system.residual(theta), system.experiments
    assert np.allclose(r, e.y - e.X @ theta)
    assert system.n == r.size


def test_several_experiments_add_their_normal_equations():
    library = Library({"u": ONE}, boundary=NoFlux())
    parts = [
        data_on(box(6, 2)),
        data_on(Grid(x=np.linspace(0.5, 2, 5), y=np.linspace(-1, 0, 7)), TIMES * 2),
        data_on(Grid(x=np.linspace(0, 1, 4), y=np.linspace(0, 3, 4)), np.array([0.0, 0.1])),
    ]
    together = assemble(parts, library)
    single = [assemble(data, library).experiments[0] for data in parts]
    assert len(together.experiments) == 3
    for one, other in zip(together.experiments, single, strict=True):
        assert np.array_equal(one.X, other.X)
        assert np.array_equal(one.y, other.y)
    H = sum(np.einsum("nki,nkj->ij", e.X, e.X) for e in single)
    g = sum(np.einsum("nki,nk->i", e.X, e.y) for e in single)
    assert LeastSquares().fit(together).theta == pytest.approx(np.linalg.solve(H, g), rel=1e-7)


@pytest.mark.parametrize(("dim", "degree", "n"), [(2, 1, 6), (2, 2, 3), (3, 1, 3), (3, 2, 2)])
def test_node_numbers_do_not_matter(dim, degree, n):
    mesh = simplices(n, dim, degree)
    data = data_on(mesh)
    number = np.random.default_rng(dim).permutation(mesh.n_nodes)
    values = np.empty_like(data.fields["u"])
    values[:, number] = data.fields["u"]
    renamed = Data(TIMES, {"u": values}, permuted(mesh, number))
    library = Library({"u": ONE}, boundary=NoFlux())
    ours, theirs = (LeastSquares().fit(assemble(d, library)).theta for d in (data, renamed))
    assert theirs == pytest.approx(ours, rel=1e-9)


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=lambda e: e.name)
def test_axis_order_does_not_matter(element):
    grid, turned = box(6, 2), box(6, 2, "yx")
    data = data_on(grid)
    values = data.grid_field("u").transpose(0, 2, 1).reshape(len(TIMES), -1)
    library = Library({"u": [*ONE, "dy(u)", "div(u*grad(x*y**2))"]}, boundary=Assembled())
    thetas = []
    for each in (data, Data(TIMES, {"u": values}, turned)):
        system = assemble(each, library, discretisation=Galerkin(element), stencil=CrankNicolson())
        thetas.append(LeastSquares().fit(system).theta)
    if element.family == "P":  # the diagonals of the triangles are mirrored at x = y, onto themselves
        assert thetas[1] == pytest.approx(thetas[0], rel=1e-6)
    else:
        assert thetas[1] == pytest.approx(thetas[0], rel=1e-9)


@pytest.mark.parametrize("stencil", [BackwardEuler(), CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("element", [Q1, Q2, P1], ids=lambda e: e.name)
@pytest.mark.parametrize(
    ("L", "T", "U"), [(1e-6, 1, 1), (1, 1e5, 1), (1, 1, 1e-8), (2e3, 7e-4, 30), (1e-9, 1e-12, 1e9)]
)
def test_coefficients_scale_with_the_units(L, T, U, element, stencil):
    """x′ = L x, t′ = T t, u′ = U u: each coefficient gets the unit of its operator, to rounding."""
    grid = Grid(x=np.linspace(0, 1, 7), y=np.arange(6) / 6, periodic={"y": 1.0})
    scaled = Grid(x=L * grid.axes["x"], y=L * grid.axes["y"], periodic={"y": L * 1.0})
    values = np.array([np.sin(2 * np.pi * grid.points[:, 1] + t) * np.exp(grid.points[:, 0] * (1 + t)) for t in TIMES])
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u", "u**2", "dy(u)", "x*u"]}, boundary=Assembled())
    units = np.array([L**2 / T, L / (T * U), 1 / T, 1 / (T * U), L / T, 1 / (T * L)])
    options = {"discretisation": Galerkin(element), "stencil": stencil}
    plain = LeastSquares().fit(assemble(Data(TIMES, {"u": values}, grid), library, **options)).theta
    other = LeastSquares().fit(assemble(Data(T * TIMES, {"u": U * values}, scaled), library, **options)).theta
    assert other / units == pytest.approx(plain, rel=1e-7)


def test_known_fields_constant_in_time_may_be_given_either_way():
    grid = box(5, 2)
    k = 1 + grid.points[:, 0] ** 2
    u = data_on(grid).fields["u"]
    library = Library({"u": ["div(k*grad(u))", "k*u**2", "k"]}, boundary=NoFlux())
    static = assemble(Data(TIMES, {"u": u}, grid, {"k": k}), library).experiments[0]
    moving = assemble(Data(TIMES, {"u": u}, grid, {"k": np.repeat(k[None], len(TIMES), axis=0)}), library).experiments[
        0
    ]
    assert np.allclose(static.X, moving.X, atol=1e-13)


def test_the_same_operator_in_two_equations_has_the_same_columns():
    data = data_on(box(4, 2), names=("u", "w"))
    library = Library({"u": ["u*w", "u"], "w": ["u*w", "w"]}, boundary=NoFlux())
    (residuals,) = assemble(data, library).experiments
    rows = residuals.structure.equation_of_row
    assert np.array_equal(residuals.X[rows == 0, :, 0], residuals.X[rows == 1, :, 2])
    assert not residuals.X[rows == 1, :, 0].any()
    assert not residuals.X[rows == 0, :, 2].any()


def test_default_quadrature_is_exact_for_polynomial_operators():
    data = data_on(box(4, 2))
    library = Library({"u": ["laplacian(u**3)", "x**2*u**2", "u*dx(u)"]}, boundary=Assembled())
    for element in (Q1, Q2, P1, P2):
        usual, more = (
            assemble(data, library, discretisation=Galerkin(element), quadrature=q).experiments[0].X for q in (None, 14)
        )
        assert np.allclose(usual, more, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("text", ["u**4", "u**7", "u**8*dx(u)", "exp(u)*u**6", "sin(x*y*z)*u**5"])
@pytest.mark.parametrize("degree", [1, 2])
def test_high_powers_can_be_assembled_on_tetrahedra(text, degree):
    data = data_on(simplices(1, 3, degree))
    (residuals,) = assemble(data, Library({"u": [text]}, boundary=NoFlux())).experiments
    assert np.all(np.isfinite(residuals.X))


def test_default_quadrature_is_exact_on_tetrahedra():
    data = data_on(simplices(2, 3, 2, seed=0))
    library = Library({"u": ["u**2", "u*dx(u)", "x**2*u"]}, boundary=NoFlux())
    (residuals,) = assemble(data, library).experiments
    points, weights = tetrahedron_rule(8)
    corners = data.geometry.points[data.geometry.cells[:, :4]]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    L = np.concatenate([1 - points.sum(axis=1, keepdims=True), points], axis=1)
    edges = [(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)]
    phi = np.concatenate([L * (2 * L - 1), *[4 * L[:, [a]] * L[:, [b]] for a, b in edges]], axis=1)
    x = np.einsum("qi,cid->cqd", L, corners)[:, :, 0]
    for k in range(1, len(TIMES)):
        u = np.einsum("qi,ci->cq", phi, data.fields["u"][k][data.geometry.cells])
        for column, integrand in ((0, u**2), (2, x**2 * u)):
            local = np.einsum("q,qi,cq,c->ci", weights, phi, integrand, volume)
            expected = np.zeros(data.n_nodes)
            np.add.at(expected, data.geometry.cells, local)
            assert np.allclose(residuals.X[:, k - 1, column], expected, atol=1e-12)


def tetrahedron_rule(n):
    """Gauss rule on the cube, collapsed onto the reference tetrahedron; exact to degree 2n − 3."""
    xi, w = np.polynomial.legendre.leggauss(n)
    a, b, c = np.meshgrid(*[(xi + 1) / 2] * 3, indexing="ij")
    weights = np.einsum("i,j,k->ijk", w / 2, w / 2, w / 2) * (1 - a) ** 2 * (1 - b)
    return np.stack([a, (1 - a) * b, (1 - a) * (1 - b) * c], axis=-1).reshape(-1, 3), weights.ravel()


@pytest.mark.parametrize(("text", "scale"), [("log(u - 10)", 1), ("sqrt(u - 10)", 1), ("exp(u)", 1e4), ("u**20", 1e30)])
def test_operators_that_are_not_finite_on_the_data_are_refused_by_name(text, scale):
    grid = box(4, 2)
    data = Data(TIMES, {"u": scale * np.array([smooth(grid.points, t) for t in TIMES])}, grid)
    with pytest.raises(BvsiError) as caught:
        LeastSquares().fit(assemble(data, Library({"u": [text, "u"]}, boundary=NoFlux())))
    assert text in str(caught.value)


def test_names_that_the_data_lack_are_refused():
    data = data_on(box(3, 2))
    with pytest.raises(OperatorError, match="'w'"):
        assemble(data, Library({"w": ["w"]}))
    with pytest.raises(OperatorError, match="'k'"):
        assemble(data, Library({"u": ["k*u"]}))
    with pytest.raises(OperatorError, match="z"):
        assemble(data, Library({"u": ["dz(u)"]}))


def test_progress_is_reported_for_every_operator():
    seen = []
    assemble(data_on(box(3, 2)), Library({"u": ONE}), progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(i + 1, 5) for i in range(5)]
