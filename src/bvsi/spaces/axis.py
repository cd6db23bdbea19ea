"""One-dimensional bases of a grid axis, as polynomials on the pieces of the axis.

φ_j(x) = Σ_p c_epj s^p,    s = (x − x_e)/h_e ∈ [0, 1] in element e = [x_e, x_e + h_e]

Uniform B-splines are smooth test functions with compact support:

    φ_i(x) = B((x − x_0)/g − i),      supp φ_i = [x_0 + i g, x_0 + (i + p + 1) g]

B is the cardinal B-spline of degree p, with p − 1 continuous derivatives. On an interval of m pieces of length g the
functions whose support lies inside are i = 0 … m − p − 1; on a periodic axis there are m, all alike. These vanish at
the ends with p − 1 derivatives. With knots repeated at the ends there are more functions, narrower towards an end, of
which the k-th vanishes there as x^k: those with k ≥ v serve where v derivatives are integrated by parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import perm
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import MultiIndex
from bvsi.data import Grid
from bvsi.errors import SpaceError
from bvsi.spaces.element import SAME_PLACE, Element, Hermite

# Degree of polynomials through neighbouring points: as high as that of the default splines in time.
LOCAL = 5
# Functions to a node of an axis, at most, where they reach its ends; with one to each Σ is singular. Not measured.
FILLED = 0.6
# Nodes that the slopes at both ends of a cell need.
_STENCIL = 4


@dataclass(frozen=True, eq=False)
class AxisValues:
    """One-dimensional basis at points: ``by_order[m]`` (n_p, k) are m-th derivatives of functions ``columns``.

    Attributes
    ----------
    width
        Length of the element of each point, (n_p,).
    n
        Number of nodes of the axis.
    """

    points: Array
    columns: Integers
    by_order: tuple[Array, Array, Array]
    width: Array
    n: int


@dataclass(frozen=True, eq=False)
class AxisBasis:
    """Piecewise polynomial basis of a grid axis.

    Attributes
    ----------
    ends
        Ends of each element (n_el, 2), of the last one on a periodic axis past the last node.
    columns
        Functions that do not vanish in an element (n_el, k), as node numbers, wrapped around on a periodic axis.
    pieces
        Their coefficients c (n_el, degree + 1, k).
    n
        Number of nodes of the axis.
    periodic
        Whether its ends meet.
    """

    ends: Array
    columns: Integers
    pieces: Array
    n: int
    periodic: bool

    @property
    def widths(self) -> Array:
        """Lengths of the elements."""
        return np.asarray(self.ends[:, 1] - self.ends[:, 0])

    @property
    def neighbours(self) -> tuple[Integers, Integers]:
        """Elements before and behind each joint of two, the seam of a periodic axis last."""
        before = np.arange(len(self.ends) - (not self.periodic))
        return before, (before + 1) % len(self.ends)

    @property
    def joint_sizes(self) -> Array:
        """h_E of one dimension at both ends of each element, (n_el, 2): mean length of the adjoining elements."""
        sizes = np.stack([self.widths, self.widths], axis=1)
        before, behind = self.neighbours
        sizes[before, 1] = sizes[behind, 0] = 0.5 * (self.widths[before] + self.widths[behind])
        return sizes

    def at(self, elements: Integers, points: Array) -> AxisValues:
        """Values, first and second derivatives at one point in each of the given elements."""
        width = self.widths[elements]
        s = (points - self.ends[elements, 0]) / width
        pieces = self.pieces[elements]
        by_order = (polynomial(pieces, s, width, 0), polynomial(pieces, s, width, 1), polynomial(pieces, s, width, 2))
        return AxisValues(points, self.columns[elements], by_order, width, self.n)

    def gauss(self, n_points: int) -> tuple[AxisValues, Array]:
        """Basis at the Gauss points of all elements, and the weights."""
        xi, w = np.polynomial.legendre.leggauss(n_points)
        half = 0.5 * self.widths
        points = (self.ends.mean(axis=1)[:, None] + half[:, None] * xi).ravel()
        elements = np.repeat(np.arange(len(self.ends)), n_points)
        return self.at(elements, points), (half[:, None] * w).ravel()

    def locate(self, points: Array) -> Integers:
        """Element of each point."""
        edges = np.append(self.ends[:, 0], self.ends[-1, 1])
        slack = SAME_PLACE * (edges[-1] - edges[0])
        if points.size and (points.min() < edges[0] - slack or points.max() > edges[-1] + slack):
            raise SpaceError(f"points outside the grid axis [{edges[0]:g}, {edges[-1]:g}] cannot be interpolated.")
        return np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(self.ends) - 1)


def axis_basis(grid: Grid, axis: str, element: Element) -> AxisBasis:
    """Basis of one axis; refuses a number of nodes that the element does not fit."""
    return _hermite(grid, axis) if isinstance(element, Hermite) else _lagrange(grid, axis, element.degree)


def into_first_period(grid: Grid, points: Array) -> Array:
    """x ← x₀ + (x − x₀) mod L on the axes of period L that begin at x₀; points (n_p, dim)."""
    wrapped = points.copy()
    for axis, name in enumerate(grid.names):
        if name in grid.periods:
            first = grid.axes[name][0]
            wrapped[:, axis] = first + np.mod(points[:, axis] - first, grid.periods[name])
    return wrapped


def polynomial(pieces: Array, s: Array, width: Array, order: int) -> Array:
    """d^m/dx^m Σ_p c_p s^p = h^−m Σ_{p≥m} p!/(p−m)! c_p s^(p−m), by Horner's rule.

    Parameters
    ----------
    pieces
        (n_p, degree + 1, k).
    s, width
        (n_p,).

    Returns
    -------
    Array
        (n_p, k).
    """
    result = np.zeros_like(pieces[:, 0])
    for power in range(pieces.shape[1] - 1, order - 1, -1):
        result = result * s[:, None] + perm(power, order) * pieces[:, power]
    return np.asarray(result / width[:, None] ** order)


def lagrange_pieces(nodes: Array) -> Array:
    """Coefficients in s of ℓ_a(s) = Π_{b≠a} (s − s_b)/(s_a − s_b), s from 0 to 1 over the nodes (n_el, k).

    Returns (n_el, k, k), powers before functions.
    """
    n_el, k = nodes.shape
    s = (nodes - nodes[:, :1]) / (nodes[:, -1:] - nodes[:, :1])
    pieces = np.zeros((n_el, k, k))
    pieces[:, 0] = 1.0
    for a in range(k):
        for b in (b for b in range(k) if b != a):
            times_s = np.roll(pieces[:, :, a], 1, axis=1)  # the highest power is still zero
            gap = (s[:, a] - s[:, b])[:, None]
            pieces[:, :, a] = (times_s - s[:, b, None] * pieces[:, :, a]) / gap
    return pieces


def _lagrange(grid: Grid, axis: str, degree: int) -> AxisBasis:
    """Elements of ``degree`` neighbouring cells each: their nodes are the given ones, equidistant or not."""
    n, periodic = len(grid.axes[axis]), axis in grid.periods
    cells = n if periodic else n - 1
    if cells % degree or cells < (2 * degree if periodic else degree):
        parity = "an even" if periodic else "an odd"
        raise SpaceError(
            f"Q{degree} joins {degree} cells to one element, so axis {axis!r} needs {parity} number of nodes; it has "
            f"{n}. Leave out one node at the end, or use Q1."
        )
    index = np.arange(0, cells, degree)[:, None] + np.arange(degree + 1)
    nodes = _coordinates(grid, axis, index)
    return AxisBasis(nodes[:, [0, -1]], index % n, lagrange_pieces(nodes), n, periodic)


def _hermite(grid: Grid, axis: str) -> AxisBasis:
    """Cubics u(s) = u₀ + h d₀ s + (3(u₁ − u₀) − h(2d₀ + d₁)) s² + (2(u₀ − u₁) + h(d₀ + d₁)) s³ on every cell.

    Values u₀, u₁ and slopes d₀, d₁ at the ends of a cell are combinations of the values at the four nodes around it.
    """
    n, periodic = len(grid.axes[axis]), axis in grid.periods
    if n < _STENCIL:
        raise SpaceError(
            f"H3 takes its slopes from {_STENCIL} nodes around a cell, axis {axis!r} has {n}; measure at more nodes "
            "along it, or use Q1."
        )
    cell = np.arange(n if periodic else n - 1)
    start = cell - 1 if periodic else np.clip(cell - 1, 0, n - _STENCIL)
    (u0, d0), (u1, d1) = (_value_and_slope(grid, axis, cell + end, start) for end in (0, 1))
    ends = _coordinates(grid, axis, cell[:, None] + np.arange(2))
    h = (ends[:, 1] - ends[:, 0])[:, None]
    pieces = [u0, h * d0, 3 * (u1 - u0) - h * (2 * d0 + d1), 2 * (u0 - u1) + h * (d0 + d1)]
    return AxisBasis(ends, (start[:, None] + np.arange(_STENCIL)) % n, np.stack(pieces, axis=1), n, periodic)


def _value_and_slope(grid: Grid, axis: str, node: Integers, start: Integers) -> tuple[Array, Array]:
    """Weights (n_el, 4) of the nodes from ``start`` on in the value at a node and in the slope of its quadratic."""
    first = node - 1 if axis in grid.periods else np.clip(node - 1, 0, len(grid.axes[axis]) - 3)
    three = _coordinates(grid, axis, first[:, None] + np.arange(3))
    width = three[:, 2] - three[:, 0]
    s = (_coordinates(grid, axis, node) - three[:, 0]) / width
    row = np.arange(len(node))
    value, slope = np.zeros((len(node), _STENCIL)), np.zeros((len(node), _STENCIL))
    value[row, node - start] = 1.0
    slope[row[:, None], (first - start)[:, None] + np.arange(3)] = polynomial(lagrange_pieces(three), s, width, 1)
    return value, slope


def _coordinates(grid: Grid, axis: str, index: Integers) -> Array:
    """Coordinates of nodes, continued beyond both ends of a periodic axis."""
    x = grid.axes[axis]
    turns, node = np.divmod(index, len(x))
    return np.asarray(x[node] + turns * grid.periods.get(axis, 0.0))


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
