"""Elements on tensor-product grids, built axis by axis.

The basis on a grid is a product of one-dimensional bases (:mod:`bvsi.spaces.axis`), so its values at the tensor Gauss
points are Kronecker products of one-dimensional values. A Lagrange element of degree k joins k neighbouring cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import MultiIndex
from bvsi.data import Grid
from bvsi.spaces.axis import AxisBasis, AxisValues, axis_basis, into_first_period
from bvsi.spaces.element import Element, facet_size, penalty_constant
from bvsi.spaces.measure import Evaluation, Measure, derivatives


@dataclass(frozen=True, eq=False)
class Patch:
    """All combinations of points on the axes, in C order: the cells, or facets normal to one axis.

    Attributes
    ----------
    axes
        Basis at the points of each axis.
    weights
        Weights of these points.
    axis, sign
        Axis and sign of the facets' normal; sign zero for cells.
    behind
        On interior facets the basis of the normal's axis seen from the cells that the normal points into.
    """

    axes: tuple[AxisValues, ...]
    weights: tuple[Array, ...]
    axis: int = 0
    sign: float = 0.0
    behind: AxisValues | None = None

    def seen_from(self, side: int) -> tuple[AxisValues, ...]:
        """Basis on the axes, from the + or the − side."""
        if side > 0 or self.behind is None:
            return self.axes
        return (*self.axes[: self.axis], self.behind, *self.axes[self.axis + 1 :])

    def columns(self, side: int) -> Integers:
        """Functions at each point, (n_q, m): C-order numbers of the axes' functions."""
        axes = self.seen_from(side)
        return numbers([axis.columns for axis in axes], [axis.n for axis in axes])

    def entries(self, index: MultiIndex, side: int) -> Array:
        """Derivatives of these functions, (n_q, m)."""
        return kronecker([axis.by_order[m] for axis, m in zip(self.seen_from(side), index, strict=True)])

    @property
    def points(self) -> Array:
        """Coordinates, (n_q, dim)."""
        return tensor_points([axis.points for axis in self.axes])

    @property
    def normals(self) -> Array:
        """Unit normals of facets, (n_q, dim)."""
        normals = np.zeros_like(self.points)
        normals[:, self.axis] = self.sign
        return normals

    @property
    def sizes(self) -> Array:
        """h_E at each point of facets: from the widths along the other axes, in 1D the mean over both sides."""
        if len(self.axes) == 1:
            return np.asarray(0.5 * (self.axes[0].width + self.seen_from(-1)[0].width))
        widths = [np.ones_like(a.width) if k == self.axis else a.width for k, a in enumerate(self.axes)]
        return facet_size(_flat(widths), len(self.axes))


def cell_measure(grid: Grid, element: Element, quadrature: int) -> Measure:
    """Tensor Gauss quadrature over the cells, exact to degree ``quadrature`` per axis."""
    return cells_of(grid, _bases(grid, element), quadrature // 2 + 1)


def cells_of(grid: Grid, bases: Sequence[AxisBasis], points: int) -> Measure:
    """Tensor Gauss quadrature with so many points over the cells of every axis."""
    rules = [basis.gauss(points) for basis in bases]
    patch = Patch(tuple(values for values, _ in rules), tuple(w for _, w in rules))
    evaluation = _evaluation([patch], grid)
    return Measure(_flat(patch.weights), patch.points, None, evaluation, evaluation)


def boundary_measure(grid: Grid, element: Element, quadrature: int) -> Measure:
    """Quadrature over the faces at both ends of every axis that is not periodic."""
    bases = _bases(grid, element)
    return boundary_of(grid, bases, quadrature // 2 + 1, _penalty(element, bases))


def boundary_of(grid: Grid, bases: Sequence[AxisBasis], points: int, alpha: float) -> Measure:
    """The same for any basis, with so many points per cell and the constant α of the penalty."""

    def faces(basis: AxisBasis) -> list[tuple[float, AxisValues, AxisValues | None]]:
        if basis.periodic:
            return []
        last = len(basis.ends) - 1
        ends = ((-1.0, [0], basis.ends[:1, 0]), (1.0, [last], basis.ends[-1:, 1]))
        return [(sign, basis.at(np.array(e), x), None) for sign, e, x in ends]

    return _facet_measure(grid, bases, points, alpha, faces)


def interior_measure(grid: Grid, element: Element, quadrature: int) -> Measure:
    """Quadrature over the facets between neighbouring elements, across the seam of a periodic axis too.

    The + cell lies before, the − cell behind the facet along its axis; points on a seam are those of the upper end.
    """

    def faces(basis: AxisBasis) -> list[tuple[float, AxisValues, AxisValues | None]]:
        before, behind = basis.neighbours
        here, there = basis.at(before, basis.ends[before, 1]), basis.at(behind, basis.ends[behind, 0])
        return [(1.0, here, there)]

    bases = _bases(grid, element)
    return _facet_measure(grid, bases, quadrature // 2 + 1, _penalty(element, bases), faces)


def boundary_nodes(grid: Grid, layers: int = 1) -> Integers:
    """Nodes on the ends of the axes that are not periodic, or in so many layers there."""
    on_boundary = np.zeros(grid.shape, dtype=bool)
    for axis, name in enumerate(grid.names):
        if name not in grid.periods:
            ends: list[slice | list[int]] = [slice(None)] * grid.dim
            ends[axis] = [*range(layers), *range(-layers, 0)]
            on_boundary[tuple(ends)] = True
    return np.flatnonzero(on_boundary)


def evaluate_at(grid: Grid, element: Element, points: Array) -> tuple[Evaluation, Integers]:
    """Basis values at scattered points (n_p, dim), and the element that each point lies in."""
    points = into_first_period(grid, points)
    columns = np.zeros((len(points), 1), dtype=np.int64)
    values = np.ones((len(points), 1))
    cell = np.zeros(len(points), dtype=np.int64)
    for axis, name in enumerate(grid.names):
        basis = axis_basis(grid, name, element)
        found = basis.locate(points[:, axis])
        local = basis.at(found, points[:, axis])
        cell = cell * len(basis.ends) + found
        columns = (columns[:, :, None] * basis.n + local.columns[:, None, :]).reshape(len(points), -1)
        values = (values[:, :, None] * local.by_order[0][:, None, :]).reshape(len(points), -1)
    return Evaluation.from_local(grid.n_nodes, columns, ((0,) * grid.dim,), lambda _: values), cell


def _facet_measure(
    grid: Grid,
    bases: Sequence[AxisBasis],
    points: int,
    alpha: float,
    faces: Callable[[AxisBasis], list[tuple[float, AxisValues, AxisValues | None]]],
) -> Measure:
    """Quadrature over facets, given the faces on each axis: sign of the normal, basis on its + and its − side."""
    gauss = [basis.gauss(points) for basis in bases]
    patches = []
    for axis, basis in enumerate(bases):
        for sign, here, behind in faces(basis):
            values = [here if k == axis else rule[0] for k, rule in enumerate(gauss)]
            weights = [np.ones(len(here.points)) if k == axis else rule[1] for k, rule in enumerate(gauss)]
            patches.append(Patch(tuple(values), tuple(weights), axis, sign, behind))
    evaluation = _evaluation(patches, grid)
    places = np.concatenate([np.zeros((0, grid.dim)), *(patch.points for patch in patches)])
    sizes = np.concatenate([np.zeros(0), *(patch.sizes for patch in patches)])
    normals = np.concatenate([np.zeros((0, grid.dim)), *(patch.normals for patch in patches)])
    total = np.concatenate([np.zeros(0), *(_flat(patch.weights) for patch in patches)])
    return Measure(total, places, normals, evaluation, evaluation, sizes, alpha / sizes)


def _bases(grid: Grid, element: Element) -> list[AxisBasis]:
    return [axis_basis(grid, name, element) for name in grid.names]


def _penalty(element: Element, bases: Sequence[AxisBasis]) -> float:
    return penalty_constant(element, len(bases), _around(bases))


def _around(bases: Sequence[AxisBasis]) -> Array:
    """Σ_{E ⊂ ∂K} h_E |E|/|K| for every element; a box has two facets normal to axis a, with |E|/|K| = 1/w_a."""
    if len(bases) == 1:
        return np.asarray(bases[0].joint_sizes.sum(axis=1) / bases[0].widths)
    total = np.zeros(1)
    for axis in range(len(bases)):
        widths = [np.ones_like(b.widths) if k == axis else b.widths for k, b in enumerate(bases)]
        across = [b.widths if k == axis else np.ones_like(b.widths) for k, b in enumerate(bases)]
        total = total + 2 * facet_size(_flat(widths), len(bases)) / _flat(across)
    return total


def _evaluation(patches: list[Patch], grid: Grid) -> Evaluation:
    """Basis at the points of patches one after the other; two-sided if the patches are."""
    offered = derivatives(grid.dim)

    def columns(side: int) -> Integers:
        return np.concatenate([patch.columns(side) for patch in patches])

    def make(index: MultiIndex, side: int = 1) -> Array:
        return np.concatenate([patch.entries(index, side) for patch in patches])

    if not patches:
        return Evaluation.from_local(grid.n_nodes, np.zeros((0, 1), np.int64), offered, lambda _: np.zeros((0, 1)))
    if patches[0].behind is not None:
        return Evaluation.from_sides(grid.n_nodes, (columns(1), columns(-1)), offered, make)
    return Evaluation.from_local(grid.n_nodes, columns(1), offered, make)


def tensor_points(axes: Sequence[Array]) -> Array:
    """All combinations of one coordinate of each axis, in C order, (n, dim); one point without axes."""
    if not axes:
        return np.zeros((1, 0))
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)


def _flat(factors: Sequence[Array]) -> Array:
    """All products of one entry of each factor, in C order."""
    return kronecker([factor[:, None] for factor in factors])[:, 0]


def kronecker(factors: Sequence[Array]) -> Array:
    """Kronecker product of matrices (n_a, m_a): rows and columns of all combinations, in C order; 1 of none."""
    result = np.ones((1, 1))
    for factor in factors:
        result = _pairs(result[:, None, :, None] * factor[None, :, None, :])
    return result


def numbers(functions: Sequence[Integers], sizes: Sequence[int]) -> Integers:
    """C-order numbers of all combinations of the axes' functions, (n_q, m)."""
    result = np.zeros((1, 1), dtype=np.int64)
    for more, size in zip(functions, sizes, strict=True):
        result = _pairs(result[:, None, :, None] * size + more[None, :, None, :])
    return result


def _pairs(both: NDArray[Any]) -> NDArray[Any]:
    """Join the pairs of rows and of columns, (n_a, n_b, m_a, m_b) to (n_a n_b, m_a m_b)."""
    n_a, n_b, m_a, m_b = both.shape
    return both.reshape(n_a * n_b, m_a * m_b)
