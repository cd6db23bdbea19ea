"""Forward solves with four derivatives: decaying cosines, conservation of mass and loss of free energy."""

import numpy as np
import pytest

from bvsi.data import Data, Grid
from bvsi.errors import OperatorError
from bvsi.forward import ThetaScheme, simulate
from bvsi.operators import Dirichlet, InteriorPenalty, Library, Mixed, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import BackwardEuler, assemble
from bvsi.spaces import H3, P2, Q1, Q2, Galerkin

RING = Grid(x=np.arange(32) / 32, periodic="x")
LINE = Grid(x=np.linspace(0, 1, 33))
SQUARE = Grid(x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 9))
SPACES = {
    "Q2, mixed": (LINE, Q2, Mixed(), 1e-4),
    "Q1, mixed": (LINE, Q1, Mixed(), 1e-4),
    "Q2, interior penalty": (LINE, Q2, InteriorPenalty(), 1e-2),
    "H3": (LINE, H3, None, 2e-3),
    "square H3": (SQUARE, H3, None, 5e-2),
    "periodic Q2, mixed": (RING, Q2, Mixed(), 1e-3),
    "periodic H3": (RING, H3, None, 2e-2),
    "square Q2, mixed": (SQUARE, Q2, Mixed(), 1e-2),
    "square P2, interior penalty": (SQUARE, P2, InteriorPenalty(), 0.1),
}


def started(geometry, c):
    return Data(np.array([0.0, 1.0]), {"c": np.stack([c, c])}, geometry)


@pytest.mark.parametrize("name", SPACES)
def test_a_cosine_decays_with_the_fourth_power_of_its_wave_number(name):
    """c = 1 + e^{−q⁴t} Π cos(q x) after one decay time; the bound is the error of q⁴ on the grid."""
    geometry, element, treatment, bound = SPACES[name]
    q = (2 if geometry.periods else 1) * np.pi
    rate = (geometry.dim * q**2) ** 2
    mode = np.cos(q * geometry.points).prod(axis=1)
    library = Library({"c": ["biharmonic(c)"]}, boundary=ZeroNeumann(), biharmonic=treatment)
    times = np.linspace(0, 1 / rate, 41)
    solved = simulate(
        library,
        [-1.0],
        started(geometry, 1 + mode),
        times,
        discretisation=Galerkin(element),
        scheme=ThetaScheme(0.5),
    )
    assert np.abs(solved.fields["c"][-1] - 1 - np.exp(-1) * mode).max() < bound


@pytest.mark.parametrize("name", SPACES)
def test_separation_conserves_mass_and_lowers_the_free_energy(name):
    """c_t = ∇²(c³ − c) − κ∇⁴c: ∫c stays, ∫ ¼(c² − 1)² + ½κ|∇c|² falls, and the residual is that of Newton's method."""
    geometry, element, treatment, _ = SPACES[name]
    kappa = 2e-2 if geometry is SQUARE else 2e-3  # interfaces as wide as two nodes are apart
    equation = {"c": ["laplacian(c**3)", "laplacian(c)", "biharmonic(c)"]}
    operators = Library(equation, boundary=ZeroNeumann(), biharmonic=treatment)
    theta = [1.0, -1.0, -kappa]
    q = (2 if geometry.periods else 1) * np.pi
    start = 0.1 + 0.3 * np.cos(q * geometry.points).prod(axis=1) + 0.2 * np.cos(2 * q * geometry.points[:, 0])
    times = 2e-3 * np.arange(11)
    solved = simulate(operators, theta, started(geometry, start), times, discretisation=Galerkin(element))
    space = Galerkin(element).build(geometry, 8)
    c = space.cells.trial.matrix((0,) * geometry.dim) @ solved.fields["c"].T
    mass = space.cells.weights @ c
    assert mass == pytest.approx(mass[0], rel=1e-9)
    units = np.eye(geometry.dim, dtype=int)
    slope = sum((space.cells.trial.matrix(tuple(map(int, u))) @ solved.fields["c"].T) ** 2 for u in units)
    energy = space.cells.weights @ (0.25 * (c**2 - 1) ** 2 + 0.5 * kappa * slope)
    assert np.all(np.diff(energy) < 0)
    (residuals,) = assemble(solved, operators, discretisation=Galerkin(element), stencil=BackwardEuler()).experiments
    assert np.abs(residuals.residual(np.array(theta))).max() < 1e-8 * np.abs(residuals.y).max()


def test_on_smooth_elements_the_decay_converges():
    """∇c·n = 0 is imposed, to second order."""

    def error(n):
        grid = Grid(x=np.linspace(0, 1, n + 1))
        mode = np.cos(np.pi * grid.points[:, 0])
        library = Library({"c": ["biharmonic(c)"]}, boundary=ZeroNeumann())
        times = np.linspace(0, np.pi**-4, 41)
        options = {"discretisation": Galerkin(H3), "scheme": ThetaScheme(0.5)}
        solved = simulate(library, [-1.0], started(grid, 1 + mode), times, **options)
        return np.abs(solved.fields["c"][-1] - 1 - np.exp(-1) * mode).max()

    coarse, fine = error(16), error(32)
    assert fine < 0.3 * coarse
    assert fine < 2e-3


@pytest.mark.parametrize("boundary", [NoFlux(), Dirichlet(), Unknown()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize(("element", "treatment"), [(Q1, Mixed()), (Q2, InteriorPenalty()), (H3, None)], ids=str)
def test_conditions_that_leave_slopes_open_are_refused_where_there_is_a_boundary(element, treatment, boundary):
    library = Library({"c": ["biharmonic(c)"]}, boundary=boundary, biharmonic=treatment)
    for geometry in (LINE, RING):
        initial = started(geometry, np.cos(2 * np.pi * geometry.points[:, 0]))
        options = {"times": [0.0, 1e-5], "discretisation": Galerkin(element)}
        if geometry.periods:
            simulate(library, [-1.0], initial, **options)
            continue
        with pytest.raises(OperatorError, match=r"'biharmonic\(c\)'.*ZeroNeumann\(\).*periodic"):
            simulate(library, [-1.0], initial, **options)


def test_four_derivatives_that_impose_nothing_are_refused():
    library = Library({"c": ["laplacian(laplacian(c))"]}, boundary=ZeroNeumann())
    with pytest.raises(OperatorError, match=r"with biharmonic\(\.\.\.\)"):
        simulate(library, [-1.0], started(LINE, LINE.points[:, 0]), [0.0, 1e-5], discretisation=Galerkin(H3))


def test_two_derivatives_on_smooth_elements_are_as_good_as_ever():
    """Heat with prescribed values: H3 puts both derivatives on v, which is right."""
    mode = np.sin(np.pi * LINE.points[:, 0])
    library = Library({"c": ["laplacian(c)"]}, boundary=Dirichlet())
    times = np.linspace(0, np.pi**-2, 41)
    options = {"discretisation": Galerkin(H3), "scheme": ThetaScheme(0.5)}
    solved = simulate(library, [1.0], started(LINE, mode), times, **options)
    assert np.abs(solved.fields["c"][-1] - np.exp(-1) * mode).max() < 1e-3
