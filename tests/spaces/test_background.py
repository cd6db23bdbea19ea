"""Test functions on any set of nodes: the reconstruction is exact on polynomials, and integrals converge."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import skfem
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline
from scipy.spatial import Delaunay

from bvsi import Library, Method, discover
from bvsi.common.naming import Weighted
from bvsi.data import Data, Grid, Mesh
from bvsi.errors import SpaceError
from bvsi.noise import add_noise
from bvsi.residual.background_widths import resolved_gap
from bvsi.spaces import SplineTests
from bvsi.spaces.background import BackgroundTests
from bvsi.spaces.domain import Domain
from bvsi.spaces.reconstruction import exponents, reconstruction

KINDS = ["line", "uneven", "triangle", "triangle6", "quad", "uneven2", "quad9", "scattered", "tetra", "hexahedron"]


def jiggled(mesh: skfem.Mesh, size: float, seed: int = 0) -> skfem.Mesh:
    """Inner nodes moved by a part of a cell."""
    rng = np.random.default_rng(seed)
    p = np.array(mesh.p)
    inner = np.setdiff1d(np.arange(p.shape[1]), mesh.boundary_nodes())
    p[:, inner] += size * rng.uniform(-0.25, 0.25, (p.shape[0], inner.size))
    return type(mesh)(p, mesh.t)


def second_order(mesh: skfem.Mesh, kind: str) -> Mesh:
    """All nodes of second-order cells: corners, middles of edges, and of quadrilaterals the centres."""
    if kind == "triangle6":
        basis = skfem.Basis(mesh, skfem.ElementTriP2())
        order = [0, 1, 2, 3, 4, 5]
    else:
        basis = skfem.Basis(mesh, skfem.ElementQuad2())
        order = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    cells = basis.element_dofs.T[:, order]
    if kind == "triangle6":  # scikit-fem: edges 01, 12, 02; meshio: 01, 12, 20
        return Mesh(basis.doflocs.T, cells, kind)
    return Mesh(basis.doflocs.T, cells, kind)


def geometry(kind: str, n: int) -> Grid | Mesh:
    axis = np.linspace(0, 1, n + 1)
    uneven = axis + 0.3 / n * np.sin(7 * axis) * axis * (1 - axis)
    if kind == "uneven":
        return Grid(x=uneven)
    if kind == "uneven2":
        return Grid(x=uneven, y=axis**1.2)
    if kind == "line":
        return Mesh(uneven[:, None], np.stack([np.arange(n), np.arange(1, n + 1)], axis=1), "line")
    if kind == "scattered":
        rng = np.random.default_rng(n)
        edge = [(a, b) for a in axis for b in (0.0, 1.0)] + [(b, a) for a in axis[1:-1] for b in (0.0, 1.0)]
        inner = [(a, b) for a in axis[1:-1] for b in axis[1:-1]]
        points = np.array(edge + inner)
        points[len(edge) :] += rng.uniform(-0.35, 0.35, (len(inner), 2)) / n
        return Mesh(points, Delaunay(points).simplices.astype(np.int64), "triangle")
    if kind.startswith("triangle"):
        mesh = jiggled(skfem.MeshTri.init_tensor(axis, axis), 1 / n)
        return second_order(mesh, kind) if kind == "triangle6" else Mesh(mesh.p.T, mesh.t.T, kind)
    if kind.startswith("quad"):
        mesh = jiggled(skfem.MeshQuad.init_tensor(axis, axis), 1 / n)
        return second_order(mesh, kind) if kind == "quad9" else Mesh(mesh.p.T, mesh.t.T, kind)
    if kind == "tetra":
        mesh = jiggled(skfem.MeshTet.init_tensor(axis, axis, axis), 1 / n)
        return Mesh(mesh.p.T, mesh.t.T, "tetra")
    vertices = np.array(list(product(axis, repeat=3)))
    cells = Domain.of(Grid(x=axis, y=axis, z=axis)).nodes.cells
    return Mesh(vertices, cells, "hexahedron")


def at_quadrature(domain: Domain, degree: int):
    places, _ = domain.quadrature(4)
    R = reconstruction(domain, np.arange(len(places)), places, degree)
    return R, places.reshape(-1, domain.dim)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_polynomials_are_reconstructed_exactly(kind: str, degree: int) -> None:
    domain = Domain.of(geometry(kind, 5 if kind in ("tetra", "hexahedron") else 10))
    R, places = at_quadrature(domain, degree)
    for power in exponents(domain.dim, degree):
        assert_allclose(R @ np.prod(domain.points**power, axis=1), np.prod(places**power, axis=1), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_fill_the_domain(kind: str) -> None:
    domain = Domain.of(geometry(kind, 5))
    assert domain.quadrature(2)[1].sum() == pytest.approx(1.0)
    assert np.prod(domain.spacing) == pytest.approx(1.0 / len(domain.points))


@pytest.mark.parametrize(("kind", "degree", "sizes"), [
    ("uneven", 2, (16, 32, 64)), ("triangle", 2, (12, 24, 48)), ("quad", 2, (12, 24, 48)), ("uneven2", 2, (12, 24, 48)),
    ("quad9", 2, (8, 16, 32)), ("scattered", 2, (12, 24, 48)), ("hexahedron", 2, (6, 12)), ("tetra", 3, (5, 10)),
    ("uneven", 4, (16, 32, 64)), ("triangle", 4, (12, 24, 48)), ("triangle6", 4, (8, 16, 32)),
    ("quad9", 4, (8, 16, 32)), ("scattered", 4, (12, 24, 48)), ("tetra", 4, (5, 10)),
])  # fmt: skip
def test_integrals_converge(kind: str, degree: int, sizes: tuple[int, ...]) -> None:
    """∫ ∂^α φ u for a wave u and one fixed function φ: at least the order of the polynomials."""
    errors = []
    for n in sizes:
        domain = Domain.of(geometry(kind, n))
        k = np.arange(1.0, domain.dim + 1)
        tests = BackgroundTests.by_gaps(domain, np.full(domain.dim, 1 / 7), 6, degree, np.full(domain.dim, 4.0))
        index = (2,) + (0,) * (domain.dim - 1)
        found = tests.matrix(index) @ np.sin(domain.points @ k + 0.3)
        wanted = -(k[0] ** 2) * _moment(tests, k)
        errors.append(np.abs(found - wanted).max() / np.abs(wanted).max())
    # from the first to the last, since quadrature across knots makes single steps uneven
    order = np.log(errors[0] / errors[-1]) / np.log(sizes[-1] / sizes[0])
    assert errors[-1] < 1e-6 or order > degree, (errors, order)


def _moment(tests: BackgroundTests, k: np.ndarray) -> np.ndarray:
    """∫ φ sin(k·x + 0.3), exactly: the transform of a B-spline is a power of sinc."""
    damping = np.prod(
        [s.gap * np.sinc(q * s.gap / (2 * np.pi)) ** (s.degree + 1) for s, q in zip(tests.axes, k, strict=True)]
    )
    return np.asarray(damping * np.sin(tests.centres @ k + 0.3))


def hole(n: int = 30) -> Mesh:
    """A square with a square hole in it."""
    axis = np.linspace(0, 1, n + 1)
    mesh = skfem.MeshTri.init_tensor(axis, axis)
    centres = mesh.p[:, mesh.t].mean(axis=1)
    kept = mesh.restrict(np.flatnonzero(np.abs(centres - 0.5).max(axis=0) > 0.1))
    return Mesh(kept.p.T, kept.t.T, "triangle")


def test_supports_lie_inside() -> None:
    tests = BackgroundTests.by_gaps(Domain.of(hole()), np.full(2, 0.04), 4, 2, np.full(2, 4.0))
    low = np.array([s.start for s in tests.axes]) + tests.index * 0.04
    high = low + 5 * 0.04
    apart = (high <= 0.4 + 1e-9) | (low >= 0.6 - 1e-9)
    assert apart.any(axis=1).all()
    everywhere = np.array(list(product(*(range(s.n) for s in tests.axes))))
    all_low = np.array([s.start for s in tests.axes]) + everywhere * np.array([s.gap for s in tests.axes])
    free = ((all_low + 5 * 0.04 <= 0.4 + 1e-9) | (all_low >= 0.6 - 1e-9)).any(axis=1)
    assert len(tests.index) == free.sum()


def test_polynomials_do_not_reach_across_a_hole() -> None:
    """Values on the far side of a slit change nothing on this side."""
    n = 21
    axis = np.linspace(0, 1, n)
    mesh = skfem.MeshTri.init_tensor(axis, axis)
    centres = mesh.p[:, mesh.t].mean(axis=1)
    parts = [mesh.restrict(np.flatnonzero(side)) for side in (centres[0] < 0.5, centres[0] > 0.5)]
    points = np.concatenate([part.p.T for part in parts])
    cells = np.concatenate([parts[0].t.T, parts[1].t.T + parts[0].p.shape[1]])
    R, places = at_quadrature(Domain.of(Mesh(points, cells, "triangle")), 3)
    u = np.r_[np.zeros(parts[0].p.shape[1]), np.ones(parts[1].p.shape[1])]
    assert_allclose(R @ u, places[:, 0] > 0.5, atol=1e-10)


def test_values_are_smooth_in_stretched_coordinates() -> None:
    # u = ξ² + ξ y has a kink where ξ(x) has one
    places, to = np.array([0.0, 0.43, 1.0]), np.array([0.0, 0.25, 1.0])
    nodes = geometry("scattered", 10)
    tests = SplineTests(gap=1.6, degree=4, stretch={"x": (places, to)})._background(nodes)
    xi, y = np.interp(nodes.points[:, 0], places, to), nodes.points[:, 1]
    x_q, y_q = np.meshgrid(*tests._points(3)[0], indexing="ij")
    found, seen = tests._reconstruction @ (xi**2 + xi * y), np.diff(tests._reconstruction.indptr) > 0
    at = np.interp(x_q.ravel(), places, to)
    assert_allclose(found[seen], (at**2 + at * y_q.ravel())[seen], atol=1e-9)


def test_known_factors_that_are_narrow_are_integrated() -> None:
    # ∫∫ φ' s' for a spline s with the knots one spacing apart, against a rule with many points
    nodes = geometry("scattered", 10)
    tests = SplineTests(gap=1.6, degree=4)._background(nodes)
    slope = BSpline.basis_element(np.arange(5) * 0.09 + 0.29, extrapolate=False).derivative()
    index = Weighted((1, 0), lambda points: np.nan_to_num(slope(points[:, 0])))
    found = tests.matrix(index) @ np.ones(len(nodes.points))
    x, y = (np.linspace(0, 1, 20_001), np.linspace(0, 1, 2_001))
    parts = []
    for s, line, order in zip(tests.axes, (x, y), (1, 0), strict=True):
        values = np.zeros((len(line), s.n + 1))  # the last for points that meet fewer functions
        np.put_along_axis(values, s.functions(line), s.values(line, order), axis=1)
        factor = np.nan_to_num(slope(line)) if order else np.ones(len(line))
        parts.append(values[:, : s.n].T @ factor * (line[1] - line[0]))
    wanted = np.array([parts[0][i] * parts[1][j] for i, j in tests.index])
    assert_allclose(found, wanted, atol=0.01 * np.abs(wanted).max())


def test_too_few_nodes_are_refused() -> None:
    mesh = Mesh(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), np.array([[0, 1, 2], [1, 3, 2]]), "triangle")
    with pytest.raises(SpaceError, match="polynomials need"):
        at_quadrature(Domain.of(mesh), 4)


@pytest.mark.parametrize("n", [400, 900])
@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_resolution_is_a_property_of_the_field(n: int, sigma: float) -> None:
    """Of waves with one wavelength the gap is about 0.38 of it, whatever the nodes and the noise."""
    rng = np.random.default_rng(n)
    points = rng.uniform(0, 1, (n, 2))
    domain = Domain.of(Mesh(points, Delaunay(points).simplices.astype(np.int64), "triangle"))
    angles, phases = rng.uniform(0, 2 * np.pi, (2, 20, 6))
    waves = [
        np.cos(2 * np.pi * 3 * (points @ [np.cos(a), np.sin(a)]) + p)
        for a, p in zip(angles.ravel(), phases.ravel(), strict=True)
    ]
    values = np.reshape(waves, (20, 6, n)).sum(axis=1)
    values = values + sigma * rng.standard_normal(values.shape)
    gap = resolved_gap(domain, values, sigma)
    assert gap > 1.4
    assert 0.33 < gap * np.sqrt(np.prod(domain.spacing)) * 3 < 0.45


def drifting(points: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Waves that solve u_t = 0.02 ∇²u − 0.5 u_x + 0.3 u on all of space."""
    rng = np.random.default_rng(4)
    k, phase = rng.normal(0, 8, (14, 2)), rng.uniform(0, 2 * np.pi, 14)
    x = points[None] - np.array([0.5, 0.0]) * t[:, None, None]
    waves = np.exp(-0.02 * np.sum(k**2, axis=1) * t[:, None])[:, None] * np.cos(x @ k.T + phase)
    return np.exp(0.3 * t)[:, None] * waves.sum(axis=2)


@pytest.mark.parametrize("kind", ["hole", "uneven2", "scattered", "quad9"])
def test_equations_are_found_on_any_geometry(kind: str) -> None:
    place = hole(20) if kind == "hole" else geometry(kind, 8 if kind == "quad9" else 16)
    t = np.linspace(0, 0.5, 25)
    clean = Data(t, {"u": drifting(place.points, t)}, place, {})
    data = add_noise(clean, 0.02, np.random.default_rng(1))
    library = Library({"u": ["laplacian(u)", "dx(u)", "dy(u)", "u", "u**2", "dx(u**2)"]})
    found = discover(data, library, method=Method(tests=SplineTests()))
    truth = {"laplacian(u)": 0.02, "dx(u)": -0.5, "u": 0.3}
    assert set(found.names) == set(truth), found
    z = [(found.coefficient(name) - value) / found.sd[found.names.index(name)] for name, value in truth.items()]
    assert np.abs(z).max() < 4
    assert found.verdict == "consistent"
