"""Forward solves: orders in the step, conservation, boundary values, adaptive steps."""

import numpy as np
import pytest
import skfem

from bvsi.data import Data, Grid, Mesh
from bvsi.forward import ThetaScheme, simulate
from bvsi.forward.simulation import Stepper
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, ZeroNeumann
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

LINE = Grid(x=np.linspace(0, 1, 33))


def start(geometry, auxiliary=None, **fields):
    """Initial data: the same frame twice, since data need two times."""
    twice = {name: np.repeat(np.asarray(values, dtype=float)[None], 2, axis=0) for name, values in fields.items()}
    return Data(np.array([0.0, 1.0]), twice, geometry, auxiliary or {})


def orders(errors):
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize(("implicitness", "order"), [(1.0, 1), (0.5, 2)])
@pytest.mark.parametrize("boundary", [NoFlux(), ZeroNeumann(), Dirichlet()], ids=lambda b: type(b).__name__)
def test_heat_equation_against_the_decaying_mode(boundary, implicitness, order):
    """u = e^{−Dπ²t} cos πx (or sin πx with values prescribed)."""
    D, end = 0.1, 1.0
    x = LINE.points[:, 0]
    mode = np.sin(np.pi * x) if isinstance(boundary, Dirichlet) else np.cos(np.pi * x)
    library = Library({"u": ["laplacian(u)"]}, boundary=boundary)
    errors = []
    for n in (8, 16, 32):
        times = np.linspace(0, end, n + 1)
        scheme = ThetaScheme(implicitness)
        result = simulate(library, [D], start(LINE, u=mode), times, discretisation=Galerkin(Q2), scheme=scheme)
        exact = np.exp(-D * np.pi**2 * times)[:, None] * mode
        errors.append(np.abs(result.fields["u"] - exact)[-1].max())
    assert orders(errors) == pytest.approx(order, abs=0.15)


def test_spatial_error_has_the_order_of_the_element():
    D, times = 0.1, np.array([0.0, 0.5])
    errors = {}
    for element, order in ((Q1, 2), (Q2, 3.5)):
        errors[element] = []
        for n in (4, 8, 16):
            grid = Grid(x=np.linspace(0, 1, n + 1))
            mode = np.cos(np.pi * grid.points[:, 0])
            library = Library({"u": ["laplacian(u)"]}, boundary=NoFlux())
            options = {"discretisation": Galerkin(element), "scheme": ThetaScheme(0.5, substeps=400)}
            result = simulate(library, [D], start(grid, u=mode), times, **options)
            errors[element].append(np.abs(result.fields["u"][-1] - np.exp(-D * np.pi**2 * 0.5) * mode).max())
        assert np.all(orders(errors[element]) > order - 0.2), errors


def test_substeps_are_steps():
    library = Library({"u": ["laplacian(u)", "u*dx(u)"]}, boundary=Dirichlet())
    initial = start(LINE, u=np.sin(np.pi * LINE.points[:, 0]))
    fine = simulate(library, [0.1, -1.0], initial, np.linspace(0, 1, 21))
    coarse = simulate(library, [0.1, -1.0], initial, np.linspace(0, 1, 6), scheme=ThetaScheme(substeps=4))
    assert np.allclose(coarse.fields["u"], fine.fields["u"][::4], atol=1e-9)


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=lambda e: e.name)
def test_heat_equation_in_the_plane(element):
    grid = Grid(x=np.linspace(0, 1, 17), y=np.linspace(0, 1, 17))
    x, y = grid.points.T
    mode = np.cos(np.pi * x) * np.cos(np.pi * y)
    library = Library({"u": ["laplacian(u)"]}, boundary=NoFlux())
    times = np.linspace(0, 0.3, 16)
    options = {"discretisation": Galerkin(element), "scheme": ThetaScheme(0.5)}
    result = simulate(library, [0.2], start(grid, u=mode), times, **options)
    exact = np.exp(-0.4 * np.pi**2 * 0.3) * mode
    assert np.abs(result.fields["u"][-1] - exact).max() < (0.01 if element.degree == 1 else 0.001)


def test_periodic_advection_moves_the_wave():
    """u_t = −c u_x needs no boundary condition on a periodic axis."""
    grid = Grid(x=np.arange(64) / 64, periodic={"x": 1.0})
    x = grid.points[:, 0]
    library = Library({"u": ["dx(u)"]})
    times = np.linspace(0, 1, 101)
    options = {"discretisation": Galerkin(Q2), "scheme": ThetaScheme(0.5)}
    result = simulate(library, [-1.0], start(grid, u=np.sin(2 * np.pi * x)), times, **options)
    assert np.abs(result.fields["u"][50] - np.sin(2 * np.pi * (x - 0.5))).max() < 3e-3
    assert np.abs(result.fields["u"][-1] - np.sin(2 * np.pi * x)).max() < 5e-3


@pytest.mark.parametrize(("implicitness", "order"), [(1.0, 1), (0.5, 2)])
def test_burgers_with_manufactured_solution(implicitness, order):
    """u = e^{−t} sin πx solves u_t = ν u_xx − u u_x + s; Newton's method, source and time in the operators."""
    nu = 0.05
    source = f"exp(-t)*sin(pi*x)*({nu}*pi**2 - 1) + pi*exp(-2*t)*sin(pi*x)*cos(pi*x)"
    library = Library({"u": ["laplacian(u)", "u*dx(u)", source]}, boundary=Dirichlet())
    x = LINE.points[:, 0]
    errors = []
    for n in (5, 10, 20):
        times = np.linspace(0, 1, n + 1)
        options = {"discretisation": Galerkin(Q2), "scheme": ThetaScheme(implicitness)}
        result = simulate(library, [nu, -1.0, 1.0], start(LINE, u=np.sin(np.pi * x)), times, **options)
        errors.append(np.abs(result.fields["u"][-1] - np.exp(-1) * np.sin(np.pi * x)).max())
    assert orders(errors) == pytest.approx(order, abs=0.3)


def test_allen_cahn_from_a_constant_is_the_ordinary_equation():
    """u_t = u − u³ has u = (1 + (u₀⁻² − 1) e^{−2t})^{−1/2}."""
    grid = Grid(x=np.linspace(0, 1, 5), y=np.linspace(0, 1, 5))
    library = Library({"u": ["laplacian(u)", "u", "u**3"]}, boundary=NoFlux())
    times = np.linspace(0, 3, 7)
    scheme = ThetaScheme(0.5, substeps=20)
    result = simulate(library, [0.01, 1.0, -1.0], start(grid, u=np.full(25, 0.1)), times, scheme=scheme)
    exact = (1 + (0.1**-2 - 1) * np.exp(-2 * times)) ** -0.5
    assert np.allclose(result.fields["u"], exact[:, None], atol=1e-4)
    assert np.ptp(result.fields["u"][-1]) < 1e-9


def test_allen_cahn_keeps_the_profile_of_a_resting_interface():
    """u = tanh(x/√(2ε)) is a rest state of u_t = ε u_xx + u − u³."""
    grid = Grid(x=np.linspace(-3, 3, 121))
    eps = 0.05
    rest = np.tanh(grid.points[:, 0] / np.sqrt(2 * eps))
    library = Library({"u": ["laplacian(u)", "u - u**3"]}, boundary=Dirichlet())
    result = simulate(library, [eps, 1.0], start(grid, u=rest), [0.0, 1.0, 5.0], discretisation=Galerkin(Q2))
    assert np.abs(result.fields["u"][-1] - rest).max() < 1e-3


def triangles(degree):
    made = skfem.MeshTri1.init_tensor(np.linspace(0, 1, 7), np.linspace(0, 1, 6))
    if degree == 1:
        return Mesh(made.p.T, made.t.T, "triangle")
    t = made.t.T
    middles = np.stack([0.5 * (made.p.T[t[:, a]] + made.p.T[t[:, b]]) for a, b in ((0, 1), (1, 2), (2, 0))], axis=1)
    places, inverse = np.unique(np.round(middles.reshape(-1, 2), 9), axis=0, return_inverse=True)
    cells = np.concatenate([t, inverse.reshape(len(t), 3) + made.p.shape[1]], axis=1)
    return Mesh(np.concatenate([made.p.T, places]), cells, "triangle6")


SQUARE = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 7))


@pytest.mark.parametrize("implicitness", [1.0, 0.5])
@pytest.mark.parametrize(
    ("geometry", "element"),
    [(SQUARE, Q1), (SQUARE, Q2), (SQUARE, P1), (triangles(1), None), (triangles(2), None)],
    ids=["Q1", "Q2", "P1 on a grid", "P1", "P2"],
)
def test_no_flux_conserves_mass(geometry, element, implicitness):
    texts = ["laplacian(u)", "div(u*grad(x**2 + x*y))", "laplacian(u**3)", "div(k*u*grad(u))"]
    library = Library({"u": texts}, boundary=NoFlux())
    x, y = geometry.points.T
    initial = start(geometry, {"k": 1 + x}, u=1 + 0.5 * np.cos(3 * x) * np.sin(2 * y))
    options = {"discretisation": Galerkin(element), "scheme": ThetaScheme(implicitness)}
    result = simulate(library, [0.1, 0.7, 0.05, 0.1], initial, np.linspace(0, 0.4, 6), **options)
    space = Galerkin(element).build(geometry, 4)
    mass = space.pattern.matrix(space.mass).sum(axis=0) @ result.fields["u"].T
    assert mass == pytest.approx(np.full(6, mass[0]), rel=1e-9)
    assert np.abs(result.fields["u"][-1] - result.fields["u"][0]).max() > 0.05


@pytest.mark.parametrize("element", [Q1, Q2], ids=lambda e: e.name)
def test_dirichlet_keeps_the_boundary_values(element):
    x, y = SQUARE.points.T
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "x"]}, boundary=Dirichlet())
    initial = start(SQUARE, u=np.exp(x) * np.cos(3 * y))
    result = simulate(library, [0.2, -1.0, 3.0], initial, np.linspace(0, 1, 5), discretisation=Galerkin(element))
    edge = np.any((SQUARE.points < 1e-12) | (SQUARE.points > 1 - 1e-12), axis=1)
    u = result.fields["u"]
    assert np.array_equal(u[:, edge], np.repeat(initial.fields["u"][:1, edge], 5, axis=0))
    assert np.abs(u[-1, ~edge] - u[0, ~edge]).max() > 0.1


def test_dirichlet_reaches_the_linear_steady_state():
    x = LINE.points[:, 0]
    library = Library({"u": ["laplacian(u)"]}, boundary=Dirichlet())
    result = simulate(library, [1.0], start(LINE, u=2 - 5 * x + np.sin(3 * np.pi * x)), [0.0, 10.0, 1000.0])
    assert np.allclose(result.fields["u"][-1], 2 - 5 * x, atol=1e-5)


def test_assembled_boundary_lets_the_drift_out():
    """u_t = −∇·(u e_x) with all boundary terms: mass leaves through x = 1 at the rate u(1)."""
    library = Library({"u": ["div(u*grad(x))"]}, boundary=Assembled())
    x = LINE.points[:, 0]
    times = np.linspace(0, 0.2, 81)
    result = simulate(library, [-1.0], start(LINE, u=1 + 0 * x), times, scheme=ThetaScheme(0.5))
    # u = 1 is at rest where the inflow u(0) and the outflow u(1) are those of the data themselves
    assert np.allclose(result.fields["u"], 1.0, atol=1e-9)


@pytest.mark.parametrize("tol", [4e-3, 1e-4])
@pytest.mark.parametrize("implicitness", [0.5, 1.0])
def test_adaptive_steps_meet_the_tolerance(tol, implicitness):
    """The error grows by at most tol · max|u| per output interval, by the documented meaning of tol."""
    if implicitness == 1.0 and tol < 1e-3:
        pytest.skip("first order takes too many steps")
    grid = Grid(x=np.linspace(0, 1, 3))
    library = Library({"u": ["u", "u**3"]}, boundary=NoFlux())
    times = np.array([0.0, 1.0, 3.0])
    scheme = ThetaScheme(implicitness, tol=tol)
    result = simulate(library, [1.0, -1.0], start(grid, u=np.full(3, 0.1)), times, scheme=scheme)
    exact = (1 + (0.1**-2 - 1) * np.exp(-2 * times)) ** -0.5
    u = result.fields["u"][:, 0]
    assert abs(u[1] - exact[1]) < 2 * tol * u[1]
    # from u(1) on the solution contracts, so errors of the first interval do not grow
    assert abs(u[2] - exact[2]) < 3 * tol * u[2]


def test_tighter_tolerance_gives_smaller_error():
    grid = Grid(x=np.linspace(0, 1, 129))  # its error in space, 3e-10, is below those in time
    library = Library({"u": ["laplacian(u)"]}, boundary=NoFlux())
    mode = np.cos(np.pi * grid.points[:, 0])
    errors = []
    for tol in (1e-2, 1e-4, 1e-6):
        options = {"discretisation": Galerkin(Q2), "scheme": ThetaScheme(0.5, tol=tol)}
        result = simulate(library, [1.0], start(grid, u=mode), [0.0, 0.5], **options)
        errors.append(np.abs(result.fields["u"][-1] - np.exp(-(np.pi**2) * 0.5) * mode).max())
    assert errors[1] < 0.2 * errors[0]
    assert errors[2] < 0.2 * errors[1]


def test_adaptive_steps_are_small_where_the_solution_is_fast(monkeypatch):
    """A narrow peak decays fast at first and slowly later: steps shrink at once and grow afterwards."""
    taken = []
    newton = Stepper._newton

    def recorded(self, u, t, h):
        taken.append((t, h))
        return newton(self, u, t, h)

    monkeypatch.setattr(Stepper, "_newton", recorded)
    library = Library({"u": ["laplacian(u)"]}, boundary=NoFlux())
    peak = np.exp(-(((LINE.points[:, 0] - 0.5) / 0.05) ** 2))
    times = np.linspace(0, 1, 11)
    simulate(library, [1.0], start(LINE, u=peak), times, scheme=ThetaScheme(1.0, tol=1e-3))
    early = min(h for t, h in taken if t < 0.1)
    late = min(h for t, h in taken if t > 0.8)
    assert early < 0.1 * late


def test_rotation_of_two_fields_in_any_order_of_the_equations():
    """u_t = ω w, w_t = −ω u: the equations stand in the other order than the fields of the data."""
    grid = Grid(x=np.linspace(0, 1, 4), y=np.linspace(0, 1, 3))
    library = Library({"w": ["u", "laplacian(w)"], "u": ["w", "laplacian(u)"]}, boundary=NoFlux())
    theta = {"w: u": -2.0, "u: w": 2.0}
    times = np.linspace(0, 1, 201)
    initial = start(grid, u=np.ones(12), w=np.zeros(12))
    result = simulate(library, theta, initial, times, scheme=ThetaScheme(0.5))
    assert result.names == ("u", "w")
    assert np.allclose(result.fields["u"], np.cos(2 * times)[:, None], atol=1e-4)
    assert np.allclose(result.fields["w"], -np.sin(2 * times)[:, None], atol=1e-4)


def test_two_fields_with_different_boundary_conditions():
    x = LINE.points[:, 0]
    library = Library({"u": ["laplacian(u)"], "w": ["laplacian(w)"]}, boundary={"u": Dirichlet(), "w": NoFlux()})
    initial = start(LINE, u=np.sin(np.pi * x), w=np.cos(np.pi * x))
    times = np.linspace(0, 0.5, 41)
    options = {"discretisation": Galerkin(Q2), "scheme": ThetaScheme(0.5)}
    result = simulate(library, [0.3, 0.1], initial, times, **options)
    assert np.allclose(result.fields["u"][-1], np.exp(-0.3 * np.pi**2 / 2) * np.sin(np.pi * x), atol=1e-3)
    assert np.allclose(result.fields["w"][-1], np.exp(-0.1 * np.pi**2 / 2) * np.cos(np.pi * x), atol=1e-3)


def test_the_result_does_not_depend_on_the_units():
    """x′ = L x, t′ = T t, u′ = U u with coefficients to match."""
    L, T, U = 1e-6, 1e3, 1e-7
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u**2"]}, boundary=NoFlux())
    theta = np.array([0.05, -0.5, 0.3])
    u = 1 + np.cos(np.pi * LINE.points[:, 0])
    times = np.linspace(0, 0.5, 5)
    plain = simulate(library, theta, start(LINE, u=u), times)
    scaled_theta = theta * np.array([L**2 / T, L / (T * U), 1 / (T * U)])
    scaled = simulate(library, scaled_theta, start(Grid(x=L * LINE.axes["x"]), u=U * u), T * times)
    assert np.allclose(scaled.fields["u"] / U, plain.fields["u"], rtol=1e-8)
