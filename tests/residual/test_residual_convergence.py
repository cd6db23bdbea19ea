"""Manufactured solutions: the estimate of the coefficients converges with the element's order.

u is a polynomial in t that the time stencil differentiates exactly, so that all error is that of the element:

    u_t = D ∇²u + a u + b u_x + f,   f known
"""

import numpy as np
import pytest
from residual_cases import box, simplices

from bvsi.data import Data
from bvsi.infer import LeastSquares
from bvsi.operators import Library
from bvsi.residual import BDF2, BackwardEuler, CrankNicolson, assemble
from bvsi.spaces import P1, P2, Q1, Q2, Galerkin

D, A, B = 0.7, -1.3, 0.9
TIMES = np.array([0.0, 0.3, 0.5, 1.0])
LIBRARY = Library({"u": ["laplacian(u)", "u", "dx(u)", "f"]})
TRUTH = np.array([D, A, B, 1.0])
WAVES = [np.array([1.0, 1.9, 0.7]), np.array([2.3, -0.8, 1.1]), np.array([-1.4, 1.2, 1.6])]


def manufactured(geometry, powers):
    """u = Σ_p t^p sin(k_p·x + p) and the source that makes it a solution."""
    x = geometry.points
    u, f = (np.zeros((len(TIMES), len(x))) for _ in range(2))
    for p in range(powers + 1):
        k = WAVES[p][: x.shape[1]] * (2.0 if x.shape[1] == 1 else 1.0)
        phase = x @ k + p
        s, c = np.sin(phase), np.cos(phase)
        for j, t in enumerate(TIMES):
            u[j] += t**p * s
            f[j] += p * t ** max(p - 1, 0) * s - t**p * (-D * (k @ k) * s + A * s + B * k[0] * c)
    return Data(TIMES, {"u": u}, geometry, {"f": f})


def system_on(geometry, element, stencil, powers):
    return assemble(manufactured(geometry, powers), LIBRARY, discretisation=Galerkin(element), stencil=stencil)


def least_squares_error(geometry, element, stencil=None, powers=1):
    system = system_on(geometry, element, stencil or BackwardEuler(), powers)
    return np.linalg.norm(LeastSquares().fit(system).theta - TRUTH)


def weak_error(geometry, element, stencil=None, powers=1):
    """Error of the estimate from few smooth test functions v: Σ v_i r_i = 0.

    Least squares weighs every single test function, so that it sees the truncation error of the interpolant, which is
    second order for all elements; against smooth v the error of the element remains.
    """
    (e,) = system_on(geometry, element, stencil or BackwardEuler(), powers).experiments
    x = e.structure.coordinates
    bump = np.prod(x * (1 - x), axis=1)
    V = np.stack([bump * np.cos(x @ np.array(k[: x.shape[1]]) + i) for i, k in enumerate(TEST_WAVES)])
    X = np.einsum("vn,nki->vki", V, e.X).reshape(-1, 4)
    y = np.einsum("vn,nk->vk", V, e.y).reshape(-1)
    return np.linalg.norm(np.linalg.lstsq(X, y)[0] - TRUTH)


TEST_WAVES = [(0, 0, 0), (3, 0, 1), (0, 3, 0), (3, -2, 1), (-2, 4, 2), (5, 1, -2)]
CASES = {
    "1D Q1": (lambda n: box(n, 1), Q1, (16, 32)),
    "1D Q2": (lambda n: box(n, 1), Q2, (16, 32)),
    "2D Q1": (lambda n: box(n, 2), Q1, (12, 24)),
    "2D Q2": (lambda n: box(n, 2), Q2, (12, 24)),
    "2D P1 on a grid": (lambda n: box(n, 2), P1, (12, 24)),
    "2D P2 on a grid": (lambda n: box(n, 2), P2, (12, 24)),
    "2D P1": (lambda n: simplices(n, 2, 1, seed=0), P1, (12, 24)),
    "2D P2": (lambda n: simplices(n, 2, 2, seed=0), P2, (6, 12)),
    "3D Q1": (lambda n: box(n, 3), Q1, (8, 16)),
    "3D Q2": (lambda n: box(n, 3), Q2, (8, 16)),
    "3D P1": (lambda n: simplices(n, 3, 1, seed=0), P1, (6, 12)),
    "3D P2": (lambda n: simplices(n, 3, 2, seed=0), P2, (4, 8)),
}


@pytest.mark.parametrize("name", CASES)
def test_weak_estimate_converges_with_the_order_of_the_element(name):
    make, element, sizes = CASES[name]
    errors = [weak_error(make(n), element) for n in sizes]
    order = np.log2(errors[0] / errors[1])
    assert order > (1.8 if element.degree == 1 else 2.8), errors


@pytest.mark.parametrize("name", [name for name, (_, element, _) in CASES.items() if element.degree == 1])
def test_least_squares_converges_with_second_order(name):
    make, element, sizes = CASES[name]
    errors = [least_squares_error(make(n), element) for n in sizes]
    assert np.log2(errors[0] / errors[1]) > 1.8, errors


@pytest.mark.parametrize(("dim", "n"), [(1, 32), (2, 24), (3, 12)])
def test_second_degree_is_more_accurate_on_the_same_nodes(dim, n):
    grid = box(n, dim)
    assert least_squares_error(grid, Q2) < 0.5 * least_squares_error(grid, Q1)


@pytest.mark.parametrize("stencil", [CrankNicolson(), BDF2()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("element", [Q1, Q2], ids=lambda e: e.name)
def test_quadratics_in_time_are_exact_for_second_order_stencils(stencil, element):
    errors = [weak_error(box(n, 1), element, stencil, 2) for n in (16, 32)]
    assert np.log2(errors[0] / errors[1]) > (1.8 if element == Q1 else 2.8), errors


def test_backward_euler_is_not_exact_for_quadratics():
    errors = [weak_error(box(n, 1), Q2, BackwardEuler(), 2) for n in (16, 32)]
    assert errors[1] > 0.5 * errors[0]


@pytest.mark.parametrize(("element", "degree"), [(Q1, 1), (Q2, 2)], ids=["Q1", "Q2"])
def test_polynomials_of_the_space_give_the_coefficients_to_rounding(element, degree):
    """u in the space, linear in t: the weak form has no error at all."""
    grid = box(6, 2)
    x, y = grid.points.T
    times = np.array([0.0, 0.5, 2.0])
    c = np.array([0.5, -1.5, 2.0])
    g0, g1 = x**degree * y, 1 + x
    u = np.array([g0 + t * g1 for t in times])
    u_x = np.array([degree * x ** (degree - 1) * y + t for t in times])
    u_y = np.array([x**degree for _ in times])
    f = g1 - c[0] * x * u_x - c[1] * u_y - c[2] * u
    data = Data(times, {"u": u}, grid, {"f": f})
    library = Library({"u": ["x*dx(u)", "dy(u)", "u", "f"]})
    fit = LeastSquares().fit(assemble(data, library, discretisation=Galerkin(element)))
    assert fit.theta == pytest.approx([*c, 1.0], rel=1e-8)


@pytest.mark.parametrize("name", ["1D Q1", "1D Q2", "2D Q1", "2D P1", "2D P2", "3D Q1"])
def test_residual_of_the_true_coefficients_goes_to_zero(name):
    """Each residual, per mass of its test function, is the local defect of the equation."""
    make, element, (coarse, fine) = CASES[name]
    sizes = []
    for n in (coarse, fine):
        system = assemble(manufactured(make(n), 1), LIBRARY, discretisation=Galerkin(element))
        (e,) = system.experiments
        weight = np.abs(e.structure.pattern.matrix(e.structure.M)).sum(axis=1)
        defect = e.residual(TRUTH) / weight[:, None]
        sizes.append(np.sqrt(np.mean(defect**2)))
    assert np.log2(sizes[0] / sizes[1]) > (1.7 if element.degree == 1 else 1.8), sizes
