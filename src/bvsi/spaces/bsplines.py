"""Uniform B-splines along one axis: smooth test functions with compact support, and their derivatives.

    φ_i(x) = B((x − x_0)/g − i),      supp φ_i = [x_0 + i g, x_0 + (i + p + 1) g]

B is the cardinal B-spline of degree p, with p − 1 continuous derivatives. On an interval of m pieces of length g the
functions whose support lies inside are i = 0 … m − p − 1; on a periodic axis there are m, all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.common.jets import MultiIndex
from bvsi.errors import SpaceError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class UniformSplines:
    """B-splines of a degree on ``pieces`` pieces of the axis [start, start + length].

    Parameters
    ----------
    periodic
        Whether the axis closes, start + length being start again.
    """

    start: float
    length: float
    pieces: int
    degree: int
    periodic: bool = False

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise SpaceError(f"degree: {self.degree} is too low; test functions need degree 1 at least.")
        if self.pieces < self.degree + 1:
            raise SpaceError(
                f"splines of degree {self.degree} are {self.degree + 1} pieces wide, and the axis has {self.pieces}; "
                "use narrower test functions (a smaller gap), a lower degree, or more data."
            )

    @staticmethod
    def by_gap(start: float, length: float, gap: float, degree: int, *, periodic: bool) -> UniformSplines:
        """Pieces as near to ``gap`` as fill the axis evenly; at least as many as one function needs."""
        return UniformSplines(start, length, max(round(length / gap), degree + 1), degree, periodic)

    @property
    def gap(self) -> float:
        """Length g of a piece."""
        return self.length / self.pieces

    @property
    def n(self) -> int:
        """Number of functions."""
        return self.pieces if self.periodic else self.pieces - self.degree

    @property
    def centres(self) -> Array:
        """Middle of every support, (n,); on a periodic axis within its first period."""
        middle = (np.arange(self.n) + 0.5 * (self.degree + 1)) * self.gap
        return np.asarray(self.start + (middle % self.length if self.periodic else middle), dtype=np.float64)

    def functions(self, points: ArrayLike) -> Integers:
        """Functions that may be non-zero at each point, (points, p + 1); −1 where there is none."""
        index = self._piece(points)[:, None] - np.arange(self.degree, -1, -1)
        if self.periodic:
            return index % self.pieces
        return np.where((index >= 0) & (index < self.n), index, -1)

    def values(self, points: ArrayLike, order: int = 0) -> Array:
        """∂^order φ of these functions at the points, (points, p + 1), zero where there is none."""
        from scipy.interpolate import BSpline  # imports most of SciPy

        piece = self._piece(points)
        local = (np.asarray(points, dtype=float) - self.start) / self.gap - piece
        spline = BSpline.basis_element(np.arange(self.degree + 2.0), extrapolate=False)
        if order > self.degree:
            return np.zeros((len(piece), self.degree + 1))
        argument = np.clip(local[:, None], 0.0, 1.0) + np.arange(self.degree, -1, -1)
        values = np.nan_to_num(spline.derivative(order)(argument) if order else spline(argument)) / self.gap**order
        return np.where(self.functions(points) >= 0, values, 0.0)

    def _piece(self, points: ArrayLike) -> Integers:
        piece = np.floor((np.asarray(points, dtype=float) - self.start) / self.gap).astype(np.int64)
        return np.clip(piece, 0, self.pieces - 1)


def tensor_splines(axes: Sequence[UniformSplines], points: Array, index: MultiIndex) -> sparse.csr_array:
    """∂^index of products of the axes' functions at scattered points (n, dim), (n × Π n_a), in C order."""
    n = len(points)
    functions, values = np.zeros((n, 1), dtype=np.int64), np.ones((n, 1))
    for splines, x, order in zip(axes, points.T, index, strict=True):
        more = splines.functions(x)[:, None]
        both = np.where((functions[:, :, None] >= 0) & (more >= 0), functions[:, :, None] * splines.n + more, -1)
        functions = both.reshape(n, -1)
        values = (values[:, :, None] * splines.values(x, order)[:, None]).reshape(n, -1)
    there = functions >= 0
    start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    shape = (n, int(np.prod([splines.n for splines in axes])))
    return sparse.csr_array((values[there], functions[there], start), shape=shape)
