"""Noise that is blurred along time and the axes of a uniform grid: white noise seen by blurred test functions.

    ε = k ∗ ξ,  ξ white,      Cov(ε(x), ε(x + h)) = σ² exp(−h²/4w²)  along every axis
    C ε = Σ_x V(x) c(x) (k ∗ ξ)(x) ≈ Σ_x (k ∗ V)(x) c(x) ξ(x)

k is the symmetric kernel with k ∗ k = exp(−h²/4w²): a Gaussian of standard deviation w, as a camera or a filter has it,
sampled at the nodes. The covariance of the residuals is that of white noise behind the test functions k ∗ V in space
and (a k, b k) in time. Where the coefficient c of an operator varies, what is left out is w² c' V' in place of c V: the
kernel is narrower than test functions and signal. y and X come from the test functions themselves. Ends of bounded axes
do not matter, since test functions vanish there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.common.naming import MultiIndex
from bvsi.data import Data, Grid
from bvsi.linalg import Kronecker, Pattern
from bvsi.linalg.kronecker import along_axes
from bvsi.residual.stencils import evenly_spaced
from bvsi.spaces import Space, is_uniform
from bvsi.spaces.measure import Evaluation

# Kernels narrower than this many steps are none: neighbours have a correlation of 0.002.
_NARROWEST = 0.2
# Part of the largest weight at which a kernel ends; the variance beyond is 1e-5 of all. Not measured. Differences of
# high order see the end of a kernel before they see the noise: for them it is cut later.
_TAIL, _LONG_TAIL = 1e-2, 1e-7
_PERIOD = 512  # steps in which kernels are computed; twenty times the widest


def correlation(width: float, steps: NDArray[Any]) -> Array:
    """exp(−h²/4w²) at distances h; one at zero where w is zero."""
    if width < _NARROWEST:
        return np.where(np.asarray(steps) == 0, 1.0, 0.0)
    return np.asarray(np.exp(-(np.asarray(steps, dtype=float) ** 2) / (4 * width**2)))


def spectral_density(width: float, cycles: NDArray[Any]) -> Array:
    """Σ_h exp(−h²/4w²) cos(2πfh), one for white noise, at frequencies f in cycles per step."""
    h = np.arange(1, 1 + int(np.ceil(12 * max(width, 1.0))))
    return np.asarray(1.0 + 2.0 * np.cos(2 * np.pi * np.outer(cycles, h)) @ correlation(width, h))


def kernel(width: float, tail: float = _TAIL) -> Array:
    """k with k ∗ k = exp(−h²/4w²) at steps −m … m, Σ k² = 1, for a width in steps; it ends at a part of its maximum."""
    if width < _NARROWEST:
        return np.ones(1)
    density = spectral_density(width, np.asarray(np.fft.fftfreq(_PERIOD), dtype=float))
    k = np.fft.ifft(np.sqrt(np.maximum(density, 0.0))).real
    m = int(np.flatnonzero(np.abs(k[: _PERIOD // 2]) > tail * k[0]).max())
    weights = np.concatenate([k[m:0:-1], k[: m + 1]])
    return np.asarray(weights / np.sqrt(weights @ weights))


def _matrix(n: int, width: float, *, periodic: bool, tail: float = _TAIL) -> Any:
    """k along an axis of n points, sparse (n, n)."""
    weights = kernel(width, tail)
    m = min(len(weights) // 2, (n - 1) // 2)
    weights = weights[len(weights) // 2 - m : len(weights) // 2 + m + 1]
    rows, shifts = np.arange(n)[:, None], np.arange(-m, m + 1)
    columns = rows + shifts
    there = np.broadcast_to(True, columns.shape) if periodic else (columns >= 0) & (columns < n)
    values = np.broadcast_to(weights, columns.shape)[there]
    index = (np.broadcast_to(rows, columns.shape)[there], columns[there] % n)
    return sparse.csr_array((values, index), shape=(n, n))


@dataclass(frozen=True, eq=False)
class Blur:
    """The kernels of one experiment.

    Attributes
    ----------
    time
        k along time, sparse (T, T).
    axes
        The same along the axes of the grid.
    widths
        Widths by axis, ``time`` among them, in steps.
    """

    time: Any
    axes: tuple[Any, ...]
    widths: Mapping[str, float]

    @staticmethod
    def of(data: Data, widths: Mapping[str, float]) -> Blur | None:
        """From widths in units of the coordinates; None where there is no uniform grid, or no width.

        Parameters
        ----------
        widths
            By axis, ``time`` among them; axes left out are not blurred.
        """
        grid, times = data.geometry, data.times
        if not any(widths.values()) or not isinstance(grid, Grid) or not grid.dim or not is_uniform(grid):
            return None
        if len(times) < 2 or not evenly_spaced(times):
            return None
        points = {"time": times, **grid.axes}
        steps = {name: widths.get(name, 0.0) / float(np.median(np.diff(x))) for name, x in points.items()}
        made = {name: _matrix(len(x), steps[name], periodic=name in grid.periods) for name, x in points.items()}
        return Blur(made.pop("time"), tuple(made.values()), steps)

    def kernels_of(self, grid: Grid) -> tuple[Any, ...]:
        """k along the axes with long tails, sparse (n, n), for derivatives of the noise."""
        axes = zip(grid.names, grid.shape, strict=True)
        return tuple(_matrix(n, self.widths[a], periodic=a in grid.periods, tail=_LONG_TAIL) for a, n in axes)

    def long_tailed(self, factor: float) -> list[Any]:
        """Kernels that are wider by a factor along time and every axis, as if none were periodic."""
        kernels = zip((self.time, *self.axes), self.widths.values(), strict=True)
        return [_matrix(k.shape[0], factor * w, periodic=False, tail=_LONG_TAIL) for k, w in kernels]

    def stencil(self, a: Any, b: Any) -> tuple[Any, Any]:
        """a k and b k, sparse (K × T)."""
        return sparse.csr_array(a @ self.time), sparse.csr_array(b @ self.time)

    def space(self, space: Space) -> Space:
        """The same space with blurred test functions, for sensitivities only."""
        at_nodes = cache(partial(_blurred, space, self.axes))

        def pattern() -> Pattern:
            factors = [sparse.csr_array(A) for A in at_nodes((0,) * space.dim).factors]
            product = factors[0]
            for A in factors[1:]:
                product = sparse.kron(product, A, format="csr")
            return Pattern.from_matrix(sparse.csr_array(product.T))

        shape = (space.n_dofs, space.n_tests)
        tests = Evaluation(Pattern.deferred(shape, pattern), space.cells.test.offered, space.cells.test.make)
        cells = replace(space.cells, test=tests)
        return replace(space, cells=cells, nodal_tests=at_nodes, made_by=partial(self.space, space))

    def everywhere(self, values: Array, times: slice | NDArray[np.int64]) -> Array:
        """k ∗ ξ for values (n, T) at some times, (n, K)."""
        blurred = along_axes(self.axes, values, 1, values.shape[1]).reshape(values.shape)
        return np.asarray((self.time[times] @ blurred.T).T)


def _blurred(space: Space, axes: tuple[Any, ...], index: MultiIndex) -> Kronecker:
    """Test functions at the nodes, blurred along every axis."""
    product = space.tests_at_nodes(index)
    return Kronecker.of([sparse.csr_array(A) @ k for A, k in zip(product.factors, axes, strict=True)])
