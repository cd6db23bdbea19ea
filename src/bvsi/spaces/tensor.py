"""Q elements on tensor-product grids, built axis by axis.

The basis on a grid is a product of one-dimensional Lagrange bases, so its values at the tensor Gauss points are
Kronecker products of one-dimensional values. An element of degree k joins k neighbouring cells: its nodes are the
given ones, equidistant or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Grid
from bvsi.errors import SpaceError
from bvsi.spaces.measure import Evaluation, Measure, MultiIndex
from bvsi.spaces.periodic import into_first_period

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AxisBasis:
    """One-dimensional Lagrange basis of a grid axis.

    nodes: coordinates of the nodes of each element (n_el, k+1), periodic ones continued past the end.
    columns: node numbers (n_el, k+1), wrapped around on a periodic axis.
    n: number of nodes of the axis.
    """

    nodes: Array
    columns: NDArray[np.int64]
    n: int

    def at(self, elements: NDArray[np.int64], points: Array) -> AxisValues:
        """Values and first derivatives at one point in each of the given elements."""
        values, slopes = _lagrange(self.nodes[elements], points)
        return AxisValues(points, self.columns[elements], (values, slopes), self.n)

    def gauss(self, n_points: int) -> tuple[AxisValues, Array]:
        """Basis at the Gauss points of all elements, and the weights."""
        xi, w = np.polynomial.legendre.leggauss(n_points)
        left, right = self.nodes[:, 0], self.nodes[:, -1]
        half = 0.5 * (right - left)
        points = (0.5 * (left + right)[:, None] + half[:, None] * xi).ravel()
        elements = np.repeat(np.arange(len(self.nodes)), n_points)
        return self.at(elements, points), (half[:, None] * w).ravel()

    def locate(self, points: Array) -> NDArray[np.int64]:
        """Element of each point."""
        edges = np.append(self.nodes[:, 0], self.nodes[-1, -1])
        slack = 1e-9 * (edges[-1] - edges[0])
        if points.size and (points.min() < edges[0] - slack or points.max() > edges[-1] + slack):
            raise SpaceError(f"points outside the grid axis [{edges[0]:g}, {edges[-1]:g}] cannot be interpolated.")
        return np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(self.nodes) - 1)


@dataclass(frozen=True, eq=False)
class AxisValues:
    """One-dimensional basis at points: ``by_order[m]`` (n_p, k+1) are m-th derivatives of functions ``columns``."""

    points: Array
    columns: NDArray[np.int64]
    by_order: tuple[Array, Array]
    n: int


def axis_basis(grid: Grid, axis: str, degree: int) -> AxisBasis:
    """Lagrange basis of one axis; refuses a number of nodes that does not make whole elements."""
    x = grid.axes[axis]
    n = len(x)
    period = grid.periods.get(axis)
    cells = n if period is not None else n - 1
    if cells % degree or cells < (2 * degree if period is not None else degree):
        parity = "an even" if period is not None else "an odd"
        raise SpaceError(
            f"Q{degree} joins {degree} cells to one element, so axis {axis!r} needs {parity} number of nodes; it has "
            f"{n}. Leave out one node at the end, or use Q1."
        )
    index = np.arange(0, cells, degree)[:, None] + np.arange(degree + 1)
    extended = x if period is None else np.append(x, x[: degree + 1] + period)
    return AxisBasis(extended[index], index % n, n)


def cell_measure(grid: Grid, degree: int, quadrature: int) -> Measure:
    """Tensor Gauss quadrature over the cells, exact to degree ``quadrature`` per axis."""
    rules = [axis_basis(grid, name, degree).gauss(quadrature // 2 + 1) for name in grid.names]
    return _tensor_measure([values for values, _ in rules], [w for _, w in rules], None)


def boundary_measure(grid: Grid, degree: int, quadrature: int) -> Measure:
    """Quadrature over the faces at both ends of every axis that is not periodic."""
    bases = {name: axis_basis(grid, name, degree) for name in grid.names}
    gauss = {name: bases[name].gauss(quadrature // 2 + 1) for name in grid.names}
    faces = []
    for axis, name in enumerate(grid.names):
        if name in grid.periods:
            continue
        for element, sign in ((0, -1.0), (len(bases[name].nodes) - 1, 1.0)):
            end = bases[name].nodes[element, 0 if sign < 0 else -1]
            here = bases[name].at(np.array([element]), np.array([end]))
            values = [here if other == name else gauss[other][0] for other in grid.names]
            weights = [np.ones(1) if other == name else gauss[other][1] for other in grid.names]
            normal = np.zeros(grid.dim)
            normal[axis] = sign
            faces.append(_tensor_measure(values, weights, normal))
    return _stack(faces, grid)


def boundary_nodes(grid: Grid) -> NDArray[np.int64]:
    """Nodes on the ends of the axes that are not periodic."""
    on_boundary = np.zeros(grid.shape, dtype=bool)
    for axis, name in enumerate(grid.names):
        if name not in grid.periods:
            ends: list[slice | list[int]] = [slice(None)] * grid.dim
            ends[axis] = [0, -1]
            on_boundary[tuple(ends)] = True
    return np.flatnonzero(on_boundary)


def evaluate_at(grid: Grid, degree: int, points: Array) -> tuple[Evaluation, NDArray[np.int64]]:
    """Basis values at scattered points (n_p, dim), and the element that each point lies in."""
    points = into_first_period(grid, points)
    columns = np.zeros((len(points), 1), dtype=np.int64)
    values = np.ones((len(points), 1))
    element = np.zeros(len(points), dtype=np.int64)
    for axis, name in enumerate(grid.names):
        basis = axis_basis(grid, name, degree)
        found = basis.locate(points[:, axis])
        local = basis.at(found, points[:, axis])
        element = element * len(basis.nodes) + found
        columns = (columns[:, :, None] * basis.n + local.columns[:, None, :]).reshape(len(points), -1)
        values = (values[:, :, None] * local.by_order[0][:, None, :]).reshape(len(points), -1)
    return Evaluation.from_local(grid.n_nodes, columns, {(0,) * grid.dim: values}), element


def _lagrange(nodes: Array, points: Array) -> tuple[Array, Array]:
    """Lagrange polynomials through ``nodes`` (n_p, k+1) and their slopes at ``points`` (n_p,).

    ℓ_a(x) = Π_{b≠a} (x − x_b)/(x_a − x_b);  ℓ_a′(x) = Σ_{c≠a} 1/(x_a − x_c) Π_{b≠a,c} (x − x_b)/(x_a − x_b)
    """
    m = nodes.shape[1]
    factor = (points[:, None] - nodes)[:, None, :]
    gap = nodes[:, :, None] - nodes[:, None, :] + np.eye(m)
    ratio = np.where(np.eye(m, dtype=bool), 1.0, factor / gap)
    values = ratio.prod(axis=2)
    slopes = np.zeros_like(values)
    for c in range(m):
        others = np.where(np.arange(m) == c, 1.0, ratio).prod(axis=2) / gap[:, :, c]
        slopes += np.where(np.arange(m) == c, 0.0, others)
    return values, slopes


def _tensor_measure(axes: list[AxisValues], weights: list[Array], normal: Array | None) -> Measure:
    """Kronecker products of the axes, points in C order."""
    dim = len(axes)
    columns = _outer([axis.columns for axis in axes], combine_columns=[axis.n for axis in axes])
    values: dict[MultiIndex, Array] = {}
    for index in ((0,) * dim, *(tuple(int(i == a) for i in range(dim)) for a in range(dim))):
        values[index] = _outer([axis.by_order[order] for axis, order in zip(axes, index, strict=True)])
    n = int(np.prod([axis.n for axis in axes]))
    evaluation = Evaluation.from_local(n, columns.astype(np.int64), values)
    points = np.stack([g.ravel() for g in np.meshgrid(*(a.points for a in axes), indexing="ij")], axis=1)
    w = _outer([weight[:, None] for weight in weights])[:, 0]
    normals = None if normal is None else np.broadcast_to(normal, points.shape)
    return Measure(w, points, normals, evaluation, evaluation)


def _outer(factors: list[Array] | list[NDArray[np.int64]], combine_columns: list[int] | None = None) -> Array:
    """Rows and columns of all combinations: products of values, or C-order numbers of column indices."""
    result = np.asarray(factors[0])
    for position, factor in enumerate(factors[1:], start=1):
        left, right = result[:, None, :, None], np.asarray(factor)[None, :, None, :]
        both = left * right if combine_columns is None else left * combine_columns[position] + right
        result = both.reshape(result.shape[0] * factor.shape[0], -1)
    return np.asarray(result)


def _stack(faces: list[Measure], grid: Grid) -> Measure:
    """Put measures one after the other."""
    zero = (0,) * grid.dim
    indices = [zero, *(tuple(int(i == a) for i in range(grid.dim)) for a in range(grid.dim))]
    if not faces:
        empty = Evaluation.from_local(grid.n_nodes, np.zeros((0, 1), np.int64), {i: np.zeros((0, 1)) for i in indices})
        return Measure(np.zeros(0), np.zeros((0, grid.dim)), np.zeros((0, grid.dim)), empty, empty)
    m = faces[0].trial.pattern.indptr[1]
    columns = np.concatenate([f.trial.pattern.indices.reshape(-1, m) for f in faces])
    values = {i: np.concatenate([f.trial.values[i].reshape(-1, m) for f in faces]) for i in indices}
    evaluation = Evaluation.from_local(grid.n_nodes, columns, values)
    normals = np.concatenate([f.normals for f in faces if f.normals is not None])
    return Measure(
        np.concatenate([f.weights for f in faces]),
        np.concatenate([f.points for f in faces]),
        normals,
        evaluation,
        evaluation,
    )
