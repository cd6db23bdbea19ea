"""Uniform B-splines along one axis: smooth test functions with compact support, and their derivatives.

    φ_i(x) = B((x − x_0)/g − i),      supp φ_i = [x_0 + i g, x_0 + (i + p + 1) g]

B is the cardinal B-spline of degree p, with p − 1 continuous derivatives. On an interval of m pieces of length g the
functions whose support lies inside are i = 0 … m − p − 1; on a periodic axis there are m, all alike. These vanish at
the ends with p − 1 derivatives. With knots repeated at the ends there are more functions, narrower towards an end, of
which the k-th vanishes there as x^k: those with k ≥ v serve where v derivatives are integrated by parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.common.jets import MultiIndex
from bvsi.errors import SpaceError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Degree of polynomials through neighbouring points: as high as that of the default splines in time.
LOCAL = 5
# Functions to a node of an axis, at most, where they reach its ends; with one to each Σ is singular. Not measured.
FILLED = 0.6


@dataclass(frozen=True)
class UniformSplines:
    """B-splines of a degree on ``pieces`` pieces of the axis [start, start + length].

    Parameters
    ----------
    periodic
        Whether the axis closes, start + length being start again.
    vanishing
        v: functions vanish at the ends as x^v, or faster; by default all as x^p.
    """

    start: float
    length: float
    pieces: int
    degree: int
    periodic: bool = False
    vanishing: int | None = None

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise SpaceError(f"degree: {self.degree} is too low; test functions need degree 1 at least.")
        if self.n < 1 or self.pieces < (self.degree + 1 if self.vanishing is None else 1):
            raise SpaceError(
                f"splines of degree {self.degree} are {self.degree + 1} pieces wide, and the axis has {self.pieces}; "
                "use narrower test functions (a smaller gap), a lower degree, or more data."
            )

    @staticmethod
    def by_gap(
        start: float,
        length: float,
        gap: float,
        degree: int,
        *,
        periodic: bool,
        nodes: int = 0,
        vanishing: int | None = None,
    ) -> UniformSplines:
        """Pieces as near to ``gap`` as fill the axis evenly; at least as many as one function needs.

        Parameters
        ----------
        nodes
            Nodes of the axis, which functions that reach its ends have to be fewer than.
        """
        if vanishing is None or periodic:
            return UniformSplines(start, length, max(round(length / gap), degree + 1), degree, periodic)
        pieces = min(round(length / gap), most_pieces(nodes, degree, vanishing))
        fewest = max(1, 2 * vanishing - degree + 1)
        return UniformSplines(start, length, max(pieces, fewest), degree, periodic, vanishing)

    @property
    def gap(self) -> float:
        """Length g of a piece."""
        return self.length / self.pieces

    @property
    def n(self) -> int:
        """Number of functions."""
        return self.pieces if self.periodic else self.pieces + self.degree - 2 * self._first

    @property
    def _first(self) -> int:
        """v, the first function that is there, counted from the one that is 1 at the end of the axis."""
        return self.degree if self.vanishing is None or self.periodic else self.vanishing

    @property
    def at_ends(self) -> NDArray[np.bool_]:
        """Functions that do not vanish at an end with all derivatives, (n,)."""
        number, more = np.arange(self.n), self.degree - self._first
        return (number < more) | (number >= self.n - more)

    @property
    def supports(self) -> tuple[Array, Array]:
        """Where each support begins and ends, (n,) each; on a periodic axis some end in the next period."""
        begin = np.arange(self.n) + (0 if self.periodic else self._first - self.degree)
        end = begin + self.degree + 1
        if not self.periodic:
            begin, end = np.maximum(begin, 0), np.minimum(end, self.pieces)
        return np.asarray(self.start + begin * self.gap), np.asarray(self.start + end * self.gap)

    @property
    def centres(self) -> Array:
        """Middle of every support, (n,); on a periodic axis within its first period."""
        begin, end = self.supports
        middle = 0.5 * (begin + end) - self.start
        return np.asarray(self.start + (middle % self.length if self.periodic else middle), dtype=np.float64)

    def functions(self, points: ArrayLike) -> Integers:
        """Functions that may be non-zero at each point, (points, p + 1); −1 where there is none."""
        index = self._piece(points)[:, None] - np.arange(self.degree, -1, -1)
        if self.periodic:
            return index % self.pieces
        index += self.degree - self._first
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
        if self._first < self.degree:
            near = np.flatnonzero((piece < self.degree) | (piece >= self.pieces - self.degree))
            values[near] = self._towards_ends(piece[near], local[near], order)
        return np.where(self.functions(points) >= 0, values, 0.0)

    def _towards_ends(self, piece: Integers, local: Array, order: int) -> Array:
        """The same with knots repeated at the ends, in the first and the last p pieces."""
        from scipy.interpolate import BSpline

        p, m = self.degree, min(self.pieces, 3 * self.degree)  # as many pieces as both ends need
        knots = np.concatenate([np.zeros(p), np.arange(m + 1.0), np.full(p, float(m))])
        own = np.where(piece < p, piece, piece - self.pieces + m)
        every = BSpline(knots, np.eye(m + p), p)
        at = np.minimum(own + np.clip(local, 0.0, 1.0), np.nextafter(float(m), 0.0))
        found = (every.derivative(order) if order else every)(at)
        return np.asarray(np.take_along_axis(found, own[:, None] + np.arange(p + 1), axis=1) / self.gap**order)

    def _piece(self, points: ArrayLike) -> Integers:
        piece = np.floor((np.asarray(points, dtype=float) - self.start) / self.gap).astype(np.int64)
        return np.clip(piece, 0, self.pieces - 1)


def most_pieces(nodes: int, degree: int, vanishing: int) -> int:
    """Pieces of an axis with so many nodes for functions that reach its ends, at most."""
    return max(1, int(FILLED * nodes) - degree + 2 * vanishing)


def spline_matrix(splines: UniformSplines, points: Array, order: int = 0) -> Any:
    """∂^order φ at points, sparse (n × points), zeros left out."""
    functions, values = splines.functions(points), splines.values(points, order)
    there = (functions >= 0) & (values != 0)
    at = np.broadcast_to(np.arange(len(points))[:, None], values.shape)
    return sparse.csr_array((values[there], (functions[there], at[there])), shape=(splines.n, len(points)))


def with_ends(inner: Any, splines: UniformSplines, nodes: Array, order: int = 0) -> Any:
    """S (n × nodes) with ∫ φ_i^(order) g dx ≈ Σ_j S_ij g(x_j), given that of the functions that vanish at the ends.

    For the others the rule is exact for polynomials g of degree 5, however few nodes a piece has.
    """
    own = splines.at_ends
    if not own.any():
        return inner
    points, weights = between(splines, nodes)
    near = nearest(points, nodes, min(LOCAL + 1, len(nodes)))
    E = local_map(near, lagrange(points, nodes[near]), len(nodes))
    outer = spline_matrix(splines, points, order) @ sparse.diags_array(weights) @ E
    return sparse.csr_array(sparse.diags_array(1.0 - own) @ inner + sparse.diags_array(1.0 * own) @ outer)


def between(splines: UniformSplines, nodes: Array) -> tuple[Array, Array]:
    """Gauss points between nodes and knots, and their weights."""
    cuts = np.unique(np.concatenate([nodes, splines.start + np.arange(splines.pieces + 1) * splines.gap]))
    cuts = cuts[np.append(True, np.diff(cuts) > 1e-12 * splines.length)]
    xi, weights = np.polynomial.legendre.leggauss(LOCAL + 1)
    widths = np.diff(cuts)[:, None]
    return (cuts[:-1, None] + widths * (xi + 1) / 2).ravel(), (widths * weights / 2).ravel()


def nearest(points: Array, nodes: Array, count: int) -> Integers:
    """Numbers of the nodes around each point, (points, count)."""
    first = np.clip(np.searchsorted(nodes, points) - count // 2, 0, len(nodes) - count)
    return np.asarray(first[:, None] + np.arange(count))


def local_map(near: Integers, values: Array, n: int) -> Any:
    """The map from n nodes to points with these weights of their neighbours, (points, count) each, sparse."""
    rows = np.repeat(np.arange(len(near)), near.shape[1])
    return sparse.csr_array((values.ravel(), (rows, near.ravel())), shape=(len(near), n))


def lagrange(points: Array, nodes: Array) -> Array:
    """ℓ_m(x) = Π_{n ≠ m} (x − x_n)/(x_m − x_n) at points (N,) for nodes (N, q + 1) of each, (N, q + 1)."""
    q = nodes.shape[1]
    values = [
        np.prod([(points - nodes[:, n]) / (nodes[:, m] - nodes[:, n]) for n in range(q) if n != m], axis=0)
        for m in range(q)
    ]
    return np.stack(values, axis=1)


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
