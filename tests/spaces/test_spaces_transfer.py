"""Maps from measured points to unknowns."""

import itertools

import numpy as np
import pytest
from geometries import AXES, UNIFORM, close, grid, mesh

from bvsi.data import Data, Grid
from bvsi.errors import SpaceError
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin, Interpolation, LocalL2Projection


def monomials(dim, degree, per_axis):
    every = itertools.product(range(degree + 1), repeat=dim)
    return [p for p in every if per_axis or sum(p) <= degree]


def at(points, power):
    return np.prod(points**power, axis=1)


def points_grid(names, n=4):
    """A target whose nodes lie inside the boxes of the sources."""
    ends = {"x": (0.05, 0.93), "y": (-0.41, 1.43), "z": (0.02, 1.13)}
    return Grid(**{name: np.linspace(*ends[name], n + i) for i, name in enumerate(names)})


SOURCES = [
    (grid("x"), Q1),
    (grid("x"), Q2),
    (grid("xy"), Q1),
    (grid("xy"), Q2),
    (grid("xy", UNIFORM), P1),
    (grid("xy", UNIFORM), P2),
    (grid("yx"), Q2),
    (grid("xyz"), Q2),
    (grid("xyz", UNIFORM), P2),
    *((mesh(name), None) for name in ("line", "line3", "triangle", "triangle6", "quad", "quad9")),
    *((mesh(name), None) for name in ("tetra", "tetra10", "hexahedron", "hexahedron27")),
]


def label(value):
    if value is None:
        return "own"
    return getattr(value, "cell_type", None) or getattr(value, "name", None) or "".join(value.names)


@pytest.mark.parametrize(("source", "element"), SOURCES, ids=label)
def test_interpolation_reproduces_polynomials_of_its_degree(source, element):
    target = points_grid(source.names)
    degree = element.degree if element else source.degree
    per_axis = element is not None and element.family == "Q"
    P = Interpolation(element).matrix(source, target, Q1)
    assert P.shape == (target.n_nodes, source.n_nodes)
    for power in monomials(source.dim, degree, per_axis):
        assert close(P @ at(source.points, power), at(target.points, power), 1e-9)


@pytest.mark.parametrize(("source", "element"), SOURCES, ids=label)
def test_interpolation_at_the_own_nodes_is_the_identity(source, element):
    P = Interpolation(element).matrix(source, source, Q1)
    assert close(P.toarray(), np.eye(source.n_nodes), 1e-9)


@pytest.mark.parametrize("element", [Q1, P1], ids=label)
def test_interpolation_goes_round_a_periodic_axis(element):
    """Between the last node and the first of the next period the interpolant joins their values."""
    source = Grid(x=np.arange(8) / 8, y=np.linspace(0, 1, 3), periodic={"x": 1.0})
    target = Grid(x=np.array([0.0, 0.875, 0.90625, 0.96875]), y=np.array([0.25, 0.5]))
    u = np.cos(2 * np.pi * source.points[:, 0])
    last, first = np.cos(2 * np.pi * 7 / 8), 1.0
    expected = {0.0: first, 0.875: last, 0.90625: 0.75 * last + 0.25 * first, 0.96875: 0.25 * last + 0.75 * first}
    values = Interpolation(element).matrix(source, target, Q1) @ u
    assert close(values, np.array([expected[x] for x in target.points[:, 0]]), 1e-12)


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=label)
def test_interpolation_brings_points_into_the_first_period(element):
    source = Grid(x=np.arange(8) / 8, y=np.linspace(0, 1, 3), periodic={"x": 1.0})
    rng = np.random.default_rng(0)
    u = rng.standard_normal(source.n_nodes)
    inside = Grid(x=np.array([0.1, 0.4, 0.95]), y=np.array([0.25, 0.5]))
    beyond = Grid(x=np.array([0.1, 0.4, 0.95]) + 3.0, y=np.array([0.25, 0.5]))
    here, there = (Interpolation(element).matrix(source, target, Q1) @ u for target in (inside, beyond))
    assert close(there, here, 1e-9)


FINE = {
    "x": Grid(x=np.linspace(0, 1, 41)),
    "xy": Grid(x=np.linspace(0, 1, 25), y=np.linspace(-0.5, 1.5, 31)),
    "xyz": Grid(x=np.linspace(0, 1, 15), y=np.linspace(-0.5, 1.5, 15), z=np.linspace(0, 1.2, 15)),
}
TARGETS = [
    (Grid(x=np.linspace(0, 1, 5)), Q1),
    (Grid(x=np.linspace(0, 1, 5)), Q2),
    (grid("xy"), Q1),
    (grid("xy", UNIFORM), Q2),
    (grid("xy", UNIFORM), P1),
    (grid("xy", UNIFORM), P2),
    (mesh("triangle"), P1),
    (mesh("triangle6"), P2),
    (mesh("quad"), Q1),
    (mesh("quad9"), Q2),
    (mesh("tetra"), P1),
    (mesh("hexahedron"), Q1),
    (mesh("tetra10"), P2),
]


@pytest.mark.parametrize(("target", "element"), TARGETS, ids=label)
def test_local_projection_reproduces_every_function_of_the_space(target, element):
    source = FINE["".join(target.names)]
    u = np.random.default_rng(1).standard_normal((target.n_nodes, 3))
    measured = Interpolation(element).matrix(target, source, Q1) @ u
    P = LocalL2Projection().matrix(source, target, element)
    assert P.shape == (target.n_nodes, source.n_nodes)
    assert close(P @ measured, u, 1e-8)


@pytest.mark.parametrize(("target", "element"), TARGETS, ids=label)
def test_local_projection_averages_noise(target, element):
    """Var (P ε)_i = Σ_j P_ij² for independent noise of variance one; interpolation keeps about all of it."""
    source = FINE["".join(target.names)]
    projected = (LocalL2Projection().matrix(source, target, element).power(2)).sum(axis=1)
    interpolated = (Interpolation().matrix(source, target, element).power(2)).sum(axis=1)
    assert projected.mean() < 0.6 * interpolated.mean()


def test_local_projection_is_sparse_and_local():
    source, target = FINE["xy"], grid("xy")
    P = LocalL2Projection().matrix(source, target, Q1).tocoo()
    spacing = np.array([np.diff(AXES["x"]).max(), np.diff(AXES["y"]).max()])
    distance = np.abs(target.points[P.row] - source.points[P.col])
    assert np.all(distance <= spacing + 1e-12)


@pytest.mark.parametrize("element", [Q1, Q2, P1, P2], ids=label)
def test_local_projection_on_a_periodic_grid(element):
    source = Grid(x=np.arange(64) / 64, y=np.linspace(0, 1, 41), periodic={"x": 1.0})
    target = Grid(x=np.arange(8) / 8, y=np.linspace(0, 1, 5), periodic={"x": 1.0})
    u = np.random.default_rng(1).standard_normal(target.n_nodes)
    measured = Interpolation(element).matrix(target, source, Q1) @ u
    assert close(LocalL2Projection().matrix(source, target, element) @ measured, u, 1e-8)


@pytest.mark.parametrize(("target", "element"), TARGETS, ids=label)
def test_too_few_points_are_refused_with_advice(target, element):
    few = Grid(**{name: np.linspace(0.1, 0.9, 3) for name in target.names})
    with pytest.raises(SpaceError, match=r"too few data points.*coarser mesh.*Interpolation"):
        LocalL2Projection().matrix(few, target, element)


@pytest.mark.parametrize(("source", "element"), SOURCES, ids=label)
@pytest.mark.parametrize("shift", [0.2, -0.2, 30.0])
def test_points_outside_are_refused(source, element, shift):
    inside = points_grid(source.names)
    target = Grid(**{name: values + shift for name, values in inside.axes.items()})
    with pytest.raises(SpaceError, match="outside"):
        Interpolation(element).matrix(source, target, Q1)


@pytest.mark.parametrize(("target", "element"), TARGETS[:8], ids=label)
def test_data_outside_the_space_are_refused(target, element):
    source = FINE["".join(target.names)]
    wider = Grid(**{name: values * 1.5 - 0.1 for name, values in source.axes.items()})
    with pytest.raises(SpaceError, match="outside"):
        LocalL2Projection().matrix(wider, target, element)


def test_galerkin_builds_the_map_with_the_space():
    source, target = FINE["xy"], grid("xy", UNIFORM)
    space = Galerkin(Q2, on=target, transfer=LocalL2Projection()).build(source, 4)
    assert space.n_dofs == target.n_nodes
    assert space.transfer.shape == (target.n_nodes, source.n_nodes)
    plain = Galerkin(Q2, on=target).build(source, 4)
    assert abs(plain.transfer - Interpolation().matrix(source, target, Q2)).max() == 0
    assert Galerkin(Q2).build(target, 4).transfer is None


def test_galerkin_refuses_a_map_without_a_target():
    with pytest.raises(SpaceError, match="on="):
        Galerkin(Q1, transfer=Interpolation())


def test_galerkin_refuses_other_coordinates():
    with pytest.raises(SpaceError, match="coordinates"):
        Galerkin(Q1, on=grid("x")).build(grid("xy"), 2)


def test_residuals_of_transferred_data_are_those_of_the_data_on_the_target():
    """The map goes through the whole assembly: u = P d."""
    source, target = FINE["xy"], mesh("triangle6")
    times = np.linspace(0, 1, 4)
    u = np.random.default_rng(0).standard_normal((4, source.n_nodes))
    library = Library({"u": ["laplacian(u)", "u*dx(u)", "u**2"]}, boundary=NoFlux())
    data = Data(times, {"u": u}, source)
    P = LocalL2Projection().matrix(source, target, P2)
    direct = assemble(Data(times, {"u": (P @ u.T).T}, target), library).experiments[0]
    through = assemble(data, library, discretisation=Galerkin(P2, on=target, transfer=LocalL2Projection()))
    (through,) = through.experiments
    assert close(through.y, direct.y, 1e-11)
    assert close(through.X, direct.X, 1e-9)
    assert abs(through.structure.transfer - P).max() < 1e-13
