"""The inverse crime as a consistency test: what ``simulate`` solves is what ``assemble`` writes down."""

import numpy as np
import pytest
import skfem

from bvsi.data import Data, Grid, Mesh
from bvsi.forward import ThetaScheme, simulate
from bvsi.infer import LeastSquares
from bvsi.operators import Assembled, Dirichlet, Library, NoFlux, Unknown, ZeroNeumann
from bvsi.residual import BackwardEuler, CrankNicolson, assemble
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

GRID = Grid(x=np.linspace(0, 1, 11), y=np.linspace(0, 1, 9))
PERIODIC = Grid(x=np.arange(10) / 10, y=np.arange(8) / 8, periodic=("x", "y"))
SCHEMES = [(ThetaScheme(1.0), BackwardEuler()), (ThetaScheme(0.5), CrankNicolson())]
TIMES = np.array([0.0, 0.05, 0.1, 0.2, 0.25, 0.4])


def mesh():
    made = skfem.MeshTri1.init_tensor(np.linspace(0, 1, 9), np.linspace(0, 1, 8))
    return Mesh(made.p.T, made.t.T, "triangle")


def start(geometry, auxiliary=None, names=("u",)):
    x, y = geometry.points.T
    wave = {
        "u": 1 + 0.5 * np.cos(2 * np.pi * x) * np.sin(2 * np.pi * y) + 0.3 * np.sin(4 * np.pi * x),
        "w": 0.8 + 0.4 * np.sin(2 * np.pi * (x + y)) - 0.2 * np.cos(4 * np.pi * y),
    }
    fields = {name: np.repeat(wave[name][None], 2, axis=0) for name in names}
    return Data(np.array([0.0, 1.0]), fields, geometry, auxiliary or {})


def identified(library, theta, initial, scheme, stencil, element=None):
    discretisation = Galerkin(element)
    data = simulate(library, theta, initial, TIMES, discretisation=discretisation, scheme=scheme)
    return LeastSquares().fit(assemble(data, library, discretisation=discretisation, stencil=stencil)).theta


LINEAR = {"laplacian(u)": 0.02, "dx(u)": -0.5, "u": -0.3, "div(u*grad(x**2))": 0.2}
NONLINEAR = {"laplacian(u)": 0.02, "u*dx(u)": -0.6, "u": 0.9, "u**3": -0.8, "div(u*grad(u))": 0.03}
CONDITIONS = [NoFlux(), Dirichlet(), ZeroNeumann(), Assembled()]


@pytest.mark.parametrize(("scheme", "stencil"), SCHEMES, ids=["BE", "CN"])
@pytest.mark.parametrize("terms", [LINEAR, NONLINEAR], ids=["linear", "nonlinear"])
@pytest.mark.parametrize("boundary", CONDITIONS, ids=lambda b: type(b).__name__)
def test_one_field_on_a_grid(boundary, terms, scheme, stencil):
    library = Library({"u": list(terms)}, boundary=boundary)
    theta = list(terms.values())
    assert identified(library, theta, start(GRID), scheme, stencil) == pytest.approx(theta, rel=1e-6)


@pytest.mark.parametrize("terms", [LINEAR, NONLINEAR], ids=["linear", "nonlinear"])
@pytest.mark.parametrize(
    ("geometry", "element"), [(GRID, P1), (PERIODIC, Q1), (PERIODIC, Q2), (PERIODIC, P2), (mesh(), P1)], ids=str
)
def test_one_field_elsewhere(geometry, element, terms):
    boundary = Unknown() if geometry is PERIODIC else NoFlux()
    library = Library({"u": list(terms)}, boundary=boundary)
    theta = list(terms.values())
    found = identified(library, theta, start(geometry), ThetaScheme(0.5), CrankNicolson(), element)
    assert found == pytest.approx(theta, rel=1e-6)


def test_identification_without_the_boundary_condition():
    """Data of a simulation with no flux also satisfy the equations tested in the interior only."""
    theta = list(NONLINEAR.values())
    data = simulate(Library({"u": list(NONLINEAR)}, boundary=NoFlux()), theta, start(GRID), TIMES)
    fit = LeastSquares().fit(assemble(data, Library({"u": list(NONLINEAR)}, boundary=Unknown())))
    assert fit.theta == pytest.approx(theta, rel=1e-6)


TWO = {
    "w": {"laplacian(w)": 0.03, "u**2*w": -0.7, "u": 0.5},
    "u": {"laplacian(u)": 0.01, "u**2*w": 0.7, "u": -1.1, "1": 0.2},
}


@pytest.mark.parametrize(("scheme", "stencil"), SCHEMES, ids=["BE", "CN"])
@pytest.mark.parametrize("boundary", [NoFlux(), {"u": Dirichlet(), "w": NoFlux()}], ids=["no flux", "mixed"])
@pytest.mark.parametrize("element", [Q1, P1], ids=lambda e: e.name)
def test_two_fields(boundary, scheme, stencil, element):
    library = Library({field: list(terms) for field, terms in TWO.items()}, boundary=boundary)
    theta = [value for terms in TWO.values() for value in terms.values()]
    found = identified(library, theta, start(GRID, names=("u", "w")), scheme, stencil, element)
    assert found == pytest.approx(theta, rel=1e-6)


def test_known_field_and_explicit_time():
    terms = {"div(k*grad(u))": 0.05, "t*u": -0.4, "sin(3*t)*x": 0.6, "k": 0.1}
    library = Library({"u": list(terms)}, boundary=NoFlux())
    theta = list(terms.values())
    initial = start(GRID, {"k": 1 + GRID.points[:, 0] * GRID.points[:, 1]})
    for scheme, stencil in SCHEMES:
        assert identified(library, theta, initial, scheme, stencil) == pytest.approx(theta, rel=1e-6)


def test_explicit_time_counts_from_the_times_given():
    """Times that do not begin at zero: t in the operators is the time of the data."""
    terms = {"laplacian(u)": 0.05, "t*u": -0.4}
    library = Library({"u": list(terms)}, boundary=NoFlux())
    times = 3.0 + TIMES
    first = start(GRID)
    initial = Data(np.array([3.0, 4.0]), dict(first.fields), GRID)
    data = simulate(library, terms, initial, times)
    assert LeastSquares().fit(assemble(data, library)).theta == pytest.approx(list(terms.values()), rel=1e-6)
