"""Covariances of residuals where noise is blurred: against draws of such noise, and against the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from bvsi.data import Data, Grid
from bvsi.errors import NoiseError
from bvsi.likelihood import Stacked, residual_likelihood
from bvsi.likelihood.products import SpaceTime
from bvsi.noise import IID, Blurred, Covariance
from bvsi.operators import Library
from bvsi.residual import TemporalTests, assemble
from bvsi.residual.blur import Blur, correlation
from bvsi.spaces import SplineTests

N, T = 64, 41
GRID = Grid(x=np.arange(N) / N, periodic="x")
TIMES = np.linspace(0, 1, T)
U = 1 + np.sin(2 * np.pi * (GRID.axes["x"] - 0.4 * TIMES[:, None]))
LIBRARY = Library({"u": ["laplacian(u)", "u*dx(u)"]})
THETA = np.array([0.02, -1.0])
WIDTHS = {"x": 1.5 / N, "time": 1.2 / (T - 1)}


def likelihood(noise, blur=(), values=U):
    data = Data.from_arrays({"u": values}, times=TIMES, geometry=GRID)
    system = assemble(
        data, LIBRARY, discretisation=SplineTests(4.0), stencil=TemporalTests(5, 3.0), variance={"u": 0.0}, blur=blur
    )
    return residual_likelihood(system, noise, Stacked())


def covariance(made) -> np.ndarray:
    """Σ as an array, (N K, N K)."""
    part = made.parts[0]
    n, k = part.residuals.structure.n_rows, part.residuals.structure.n_blocks
    unit = np.eye(n * k).reshape(n, k, n * k)
    return SpaceTime(part, THETA).covariance(unit).reshape(n * k, n * k)


def relative(one: np.ndarray, other: np.ndarray) -> float:
    """Largest eigenvalue of (Σ₁ − Σ₂) in units of Σ₂."""
    L = np.linalg.cholesky(other)
    inner = np.linalg.solve(L, np.linalg.solve(L, one - other).T)
    return float(np.abs(np.linalg.eigvalsh(0.5 * (inner + inner.T))).max())


def test_the_covariance_in_space_is_that_of_the_stated_matrix():
    gap = np.abs((np.arange(N)[:, None] - np.arange(N) + N // 2) % N - N // 2)
    matrix = 0.01 * (correlation(1.0, gap) + 1e-5 * np.eye(N))
    blurred = likelihood(Blurred(IID(0.1), {"x": 1.0 / N}), [{"x": 1.0 / N}])
    full, white = covariance(likelihood(Covariance(sparse.csr_array(matrix)))), covariance(likelihood(IID(0.1)))
    assert relative(covariance(blurred), full) < 0.12
    assert relative(white, full) > 0.6  # so that the bound above says something


def test_the_covariance_is_that_of_draws():
    """χ²/n of what noise blurred in space and time does to residuals is one; with the covariance of white noise not."""
    blur = Blur.of(Data.from_arrays({"u": U}, times=TIMES, geometry=GRID), WIDTHS)
    model = likelihood(Blurred(IID(0.01), WIDTHS), [WIDTHS])
    sigma, white = covariance(model), covariance(likelihood(IID(0.01)))
    (r0,) = model.system.residual(THETA)
    squares = []
    for seed in range(20):
        xi = np.random.default_rng(seed).standard_normal((N, T))
        (r,) = likelihood(IID(0.01), values=U + 0.01 * blur.everywhere(xi, slice(None)).T).system.residual(THETA)
        off = (r - r0).ravel()
        squares.append([off @ np.linalg.solve(S, off) / off.size for S in (sigma, white)])
    right, wrong = np.mean(squares, axis=0)
    assert right == pytest.approx(1, abs=0.06)  # 20 draws of 190 residuals: 0.023
    assert wrong > 2


def test_without_kernels_nothing_changes():
    one, other = likelihood(IID(0.1)), likelihood(Blurred(IID(0.1), {"x": 1e-9}), [{"x": 1e-9}])
    np.testing.assert_allclose(covariance(other), covariance(one), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(other.system.experiments[0].Z, one.system.experiments[0].Z, rtol=1e-9, atol=1e-14)


def test_elements_refuse_kernels():
    data = Data.from_arrays({"u": U}, times=TIMES, geometry=GRID)
    with pytest.raises(NoiseError, match="Blurred needs SplineTests"):
        residual_likelihood(assemble(data, LIBRARY), Blurred(IID(0.1), WIDTHS))
