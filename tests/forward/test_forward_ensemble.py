"""Splines in space and RODAS in time: order, exact solutions with up to four derivatives, prescribed boundaries."""

import numpy as np
import pytest
import skfem

from bvsi.data import Data, Grid, Mesh
from bvsi.errors import BvsiError, OperatorError
from bvsi.forward.ensemble import Middles, simulator
from bvsi.forward.rosenbrock import Rosenbrock
from bvsi.forward.splines import Splines
from bvsi.operators import Dirichlet, Library, NoFlux, Unknown, ZeroNeumann

RING = Grid(x=np.linspace(0, 2 * np.pi, 48, endpoint=False), periodic={"x": 2 * np.pi})
LINE = Grid(x=np.linspace(0, 2, 41))


def started(geometry, auxiliary=None, **fields):
    return Data(np.array([0.0, 1.0]), {f: np.stack([u, u]) for f, u in fields.items()}, geometry, auxiliary or {})


def solved(library, theta, geometry, start, times, *, scheme=None, boundary=None):
    made = simulator(started(geometry, u=start), library, prescribe=boundary is not None)
    given = None if boundary is None else (boundary[0], {"u": boundary[1]})
    fields, steps = made.run(np.array(theta), {"u": start}, np.asarray(times), scheme=scheme, boundary=given)
    return fields["u"], steps


@pytest.mark.parametrize(
    ("texts", "theta", "exact"),
    [
        (["u", "u**2"], [1.0, -1.0], lambda t: 1 / (1 + 4 * np.exp(-t))),
        (["u*cos(t)"], [1.0], lambda t: 0.2 * np.exp(np.sin(t))),
    ],
    ids=["logistic", "depends on time"],
)
def test_the_scheme_is_of_fourth_order(texts, theta, exact):
    def error(n):
        times = np.linspace(0, 4, n + 1)
        u, steps = solved(Library({"u": texts}), theta, RING, np.full(48, 0.2), times, scheme=Rosenbrock(tol=1.0))
        assert steps == n
        return np.abs(u[:, 0] - exact(times)).max()

    assert 13 < error(16) / error(32) < 20


def test_halved_steps_keep_the_tolerance():
    library = Library({"u": ["u", "u**2"]})
    u, steps = solved(library, [20.0, -20.0], RING, np.full(48, 1e-3), [0.0, 1.0], scheme=Rosenbrock(tol=1e-6))
    assert u[-1, 0] == pytest.approx(1 / (1 + 999 * np.exp(-20)), rel=1e-5)
    assert steps > 8


@pytest.mark.parametrize("grid", [RING, LINE, Grid(x=LINE.axes["x"] ** 2, y=np.linspace(0, 1, 7))], ids=repr)
def test_splines_go_through_the_nodes_and_reproduce_cubics(grid):
    splines, x = Splines.on(grid), grid.points[:, 0]
    u = np.sin(x) if grid.periods else x**3 - x**2
    c = splines.coefficients(u)
    assert splines.nodal(c) == pytest.approx(u, abs=1e-12)
    cells = splines.space().cells
    between = cells.trial.matrix((0,) * grid.dim) @ c
    bound = 2e-6 if grid.periods else 1e-11
    exact = np.sin(cells.points[:, 0]) if grid.periods else cells.points[:, 0] ** 3 - cells.points[:, 0] ** 2
    assert np.abs(between - exact).max() < bound


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("dx(u)", 1j),
        ("dx(dx(u))", -1.0),
        ("dx(dx(dx(u)))", -1j),
        ("dx(dx(dx(dx(u))))", 1.0),
        ("biharmonic(u)", 1.0),
    ],
)
def test_a_wave_turns_and_decays_as_its_symbol_says(text, symbol):
    """u = Re e^{ikx + θ s(k) t}; 24 nodes per wave."""
    k, x = 2, RING.axes["x"]
    order = {"biharmonic(u)": 4}.get(text, text.count("dx"))
    theta = {1: 1.0, 2: 1.0, 3: 1.0, 4: -1.0}[order]
    times = np.linspace(0, 1 / k**order, 9)
    u, _ = solved(Library({"u": [text]}), [theta], RING, np.cos(k * x), times, scheme=Rosenbrock(1e-7))
    exact = np.real(np.exp(1j * k * x + theta * symbol * k**order * times[-1]))
    assert np.abs(u[-1] - exact).max() < 2e-4


@pytest.mark.parametrize("boundary", [Unknown(), Dirichlet()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize(
    ("text", "theta", "symbol"),
    [("dx(dx(u))", 0.5, -1.0), ("dx(dx(dx(u)))", 0.1, -1j), ("dx(dx(dx(dx(u))))", -0.1, 1.0)],
)
def test_values_on_the_boundary_can_be_given_in_time(text, theta, symbol, boundary):
    """The same waves on an interval that cuts them anywhere; slopes are given too where the operator needs them."""
    k, x = 3, LINE.axes["x"]
    times = np.linspace(0, 0.4, 17)
    rate = theta * symbol * k ** text.count("dx")
    exact = np.real(np.exp(1j * (k * x + 0.7) + rate * times[:, None]))
    library = Library({"u": [text]}, boundary=boundary)
    u, _ = solved(library, [theta], LINE, exact[0], times, boundary=(times, exact))
    assert np.abs(u - exact).max() < 1e-3


@pytest.mark.parametrize("text", ["laplacian(u)", "biharmonic(u)"])
def test_a_mirrored_cosine_decays(text):
    q, order = np.pi / 2, 2 if text == "laplacian(u)" else 4
    theta = 1.0 if order == 2 else -1.0
    times = np.linspace(0, 1 / q**order, 5)
    start = np.cos(q * LINE.axes["x"])
    u, _ = solved(Library({"u": [text]}, boundary=ZeroNeumann()), [theta], LINE, start, times)
    assert np.abs(u[-1] - np.exp(-1) * start).max() < 1e-3


def test_mass_is_conserved_in_two_dimensions_without_flux():
    grid = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 11))
    library = Library({"u": ["laplacian(u)", "div(u**2*grad(x))", "laplacian(u**3)"]}, boundary=NoFlux())
    start = np.exp(-8 * ((grid.points - 0.4) ** 2).sum(axis=1))
    made = simulator(started(grid, u=start), library)
    fields, _ = made.run(np.array([0.1, 0.3, 0.05]), {"u": start}, np.linspace(0, 0.5, 4))
    splines = Splines.on(grid)
    space = splines.space()
    mass = space.lumped_mass @ splines.coefficients(fields["u"]).T
    assert mass == pytest.approx(mass[0], rel=1e-8)
    assert not np.allclose(fields["u"][-1], start, atol=0.05)


def test_known_fields_enter_by_their_nodal_values():
    """u_t = k u with k(x) = sin x at the nodes: u = e^{kt} there, up to the projection of products."""
    x = RING.axes["x"]
    made = simulator(started(RING, {"k": np.sin(x)}, u=np.ones(48)), Library({"u": ["k*u"]}))
    fields, _ = made.run(np.array([1.0]), {"u": np.ones(48)}, np.array([0.0, 0.5]))
    assert fields["u"][-1] == pytest.approx(np.exp(0.5 * np.sin(x)), rel=1e-4)


def test_blow_up_ends_with_a_reason():
    with pytest.raises(BvsiError, match="stable"):
        solved(Library({"u": ["u**2"]}), [1.0], RING, np.ones(48), [0.0, 2.0], scheme=Rosenbrock(1e-4, max_steps=300))


def test_what_cannot_be_simulated_is_refused():
    start = started(LINE, u=LINE.axes["x"])
    with pytest.raises(OperatorError, match="unknown"):
        simulator(start, Library({"u": ["laplacian(u)"]}))
    with pytest.raises(OperatorError, match=r"biharmonic"):
        simulator(start, Library({"u": ["dx(dx(dx(u)))"]}, boundary=NoFlux()))
    with pytest.raises(OperatorError, match="time_order"):
        simulator(start, Library({"u": ["laplacian(u)"]}, boundary=NoFlux(), time_order=2))
    made = simulator(start, Library({"u": ["laplacian(u)"]}), prescribe=True)
    with pytest.raises(OperatorError, match="boundary values"):
        made.run(np.array([1.0]), {"u": LINE.axes["x"]}, np.array([0.0, 1.0]))
    for wrong in ({"tol": 0.0}, {"tol": np.nan}, {"max_steps": 0}):
        with pytest.raises(BvsiError, match=next(iter(wrong))):
            Rosenbrock(**wrong)


def moved(mesh):
    """A mesh of scikit-fem with its inner nodes moved by up to an eighth of a cell."""
    points = mesh.p.T.copy()
    inner = np.setdiff1d(np.arange(len(points)), mesh.boundary_nodes())
    points[inner] += np.random.default_rng(1).uniform(-1, 1, (inner.size, mesh.dim())) * mesh.param() / 8
    return points, mesh.t.T.astype(np.int64)


@pytest.mark.parametrize(
    "mesh",
    [
        Mesh(*moved(skfem.MeshLine(np.linspace(0, 1, 9))), "line"),
        Mesh(*moved(skfem.MeshTri().refined(3)), "triangle"),
        Mesh(*moved(skfem.MeshQuad().refined(3)), "quad"),
        Mesh(*moved(skfem.MeshTet().refined(2)), "tetra"),
    ],
    ids=lambda mesh: mesh.cell_type,
)
def test_middles_of_cells_have_the_values_of_cubics(mesh):
    made = Middles.of(mesh)
    cubic = lambda x: 1 + (x @ np.arange(1, 1 + mesh.dim)) ** 3  # noqa: E731
    assert made.coefficients(cubic(mesh.points)) == pytest.approx(cubic(made.mesh.points), rel=1e-6)
    assert made.nodal(made.coefficients(mesh.points.T)) == pytest.approx(mesh.points.T)
    assert Middles.of(made.mesh) is None  # it has them already


def test_on_triangles_the_error_is_of_third_order():
    """u = exp(−2q²t) sin(qx) sin(qy), its values on the boundary given in time; linear elements are of second order."""
    errors, times, q = [], np.linspace(0, 0.02, 9), 5.0
    for refined in (3, 4):
        mesh = Mesh(*moved(skfem.MeshTri().refined(refined)), "triangle")
        exact = np.exp(-2 * q**2 * times)[:, None] * np.sin(q * mesh.points[:, 0]) * np.sin(q * mesh.points[:, 1])
        library = Library({"u": ["laplacian(u)"]}, boundary=Unknown())
        u, _ = solved(library, [1.0], mesh, exact[0], times, boundary=(times, exact), scheme=Rosenbrock(1e-6))
        errors.append(np.abs(u - exact).max())
    assert errors[1] < 5e-4
    assert errors[0] / errors[1] > 2**2.7
