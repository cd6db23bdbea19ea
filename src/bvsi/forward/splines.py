"""Smooth splines on grids: the space for accurate forward solves, of equations with up to four derivatives.

    u(x) = Σ_j c_j B_j(x),      u(x_i) = u_i at every node: c = B⁻¹ u along each axis, B_ij = B_j(x_i)

The knots are the nodes; on an axis that is not periodic the second and the last but one are left out (not-a-knot; of
degree 5 two at either end), so that there are as many splines as nodes. Waves of wave number k have an error (kh)⁶ with
two derivatives and (kh)⁴ with four, where the elements of :mod:`bvsi.spaces` have (kh)² to (kh)⁴; of degree 5 (kh)¹⁰
and (kh)⁸.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from scipy.interpolate import BSpline

from bvsi.common.arrays import Array, Integers
from bvsi.data import Data, Grid, Mesh
from bvsi.data.smoothness import along
from bvsi.errors import SpaceError
from bvsi.operators import Library, Vocabulary
from bvsi.spaces import Measure, Space
from bvsi.spaces.axis import AxisBasis, local_map
from bvsi.spaces.element import facet_size
from bvsi.spaces.tensor import boundary_nodes, boundary_of, cells_of, tensor_points

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

CUBIC = 3  # the lowest degree with two continuous derivatives, which four derivatives need
# Safety and trace constant of linear second derivatives, as of H3.
_PENALTY = 2 * 4.0 * 0.5


def spline_operators(library: Library, data: Data) -> tuple[WeakOperator, ...]:
    """Weak forms with one derivative on each side where that is enough, as it is with up to two; else with two."""
    order = spline_order(library, data)
    return library.weak(Vocabulary.of(data), trial_order=order, test_order=order)


def spline_order(library: Library, data: Data) -> int:
    """Derivatives on each side of the weak forms."""
    return 2 if library.has_biharmonic or library.obstacle(Vocabulary.of(data), trial_order=1, test_order=1) else 1


def spline_tests(library: Library, operators: tuple[WeakOperator, ...], splines: Splines) -> dict[str, Integers]:
    """Test functions by equation: all, or those that vanish on the boundary, with more than two derivatives flatly.

    The first and last function of an axis carry the value on the boundary, the next ones its slope.
    Where they are not all, values on the boundary, and slopes, are left to be prescribed.
    """
    tests = {}
    for equation in dict.fromkeys(operator.equation for operator in operators):
        steep = any(o.equation == equation and library.keeps_inside(o) for o in operators)
        layers = 2 if steep else 1 if library.condition(equation).tests_vanish else 0
        tests[equation] = np.setdiff1d(np.arange(splines.grid.n_nodes), boundary_nodes(splines.grid, layers))
    return tests


@dataclass(frozen=True)
class SplineAxis:
    """Splines of one axis, and the matrix B of their values at its nodes."""

    basis: AxisBasis
    B: Any

    @cached_property
    def solve(self) -> Callable[[Array], Array]:
        """u ↦ B⁻¹ u for u (n, m)."""
        solve: Callable[[Array], Array] = scipy.sparse.linalg.splu(sparse.csc_array(self.B)).solve
        return solve


@dataclass(frozen=True, eq=False)
class Splines:
    """The tensor-product splines of a grid."""

    grid: Grid
    axes: tuple[SplineAxis, ...]
    degree: int

    @staticmethod
    def on(geometry: Grid | Mesh, degree: int = CUBIC) -> Splines:
        """The splines whose knots are the nodes, of an odd degree."""
        if not isinstance(geometry, Grid):
            raise SpaceError("splines: need a grid; use elements on a mesh.")
        return Splines(geometry, tuple(_axis(geometry, name, degree) for name in geometry.names), degree)

    def coefficients(self, values: Array) -> Array:
        """Coefficients of nodal values (..., n_nodes)."""
        return self._along_axes(values, [axis.solve for axis in self.axes])

    def nodal(self, coefficients: Array) -> Array:
        """Nodal values of coefficients (..., n_nodes)."""
        return self._along_axes(coefficients, [axis.B.__matmul__ for axis in self.axes])

    def at(self, coefficients: Array, target: Grid) -> Array:
        """Values of coefficients (n_nodes,) at the nodes of another grid with the same axes."""
        cube = coefficients.reshape(self.grid.shape)
        for axis, (name, one) in enumerate(zip(self.grid.names, self.axes, strict=True)):
            points = target.axes[name]
            there = one.basis.at(one.basis.locate(points), points)
            cube = along(local_map(there.columns, there.by_order[0], there.n), cube, axis)
        return np.asarray(cube.reshape(-1))

    def _along_axes(self, values: Array, maps: list[Callable[[Array], Array]]) -> Array:
        cube = values.reshape(-1, *self.grid.shape)
        for axis, apply in enumerate(maps, start=1):
            moved = np.moveaxis(cube, axis, 0)
            out = np.asarray(apply(np.ascontiguousarray(moved.reshape(moved.shape[0], -1))))
            cube = np.moveaxis(out.reshape(moved.shape), 0, axis)
        return np.ascontiguousarray(cube.reshape(values.shape))

    def space(self) -> Space:
        """Degrees of freedom are the coefficients, in the order of the nodes."""
        places = [
            np.roll(self.grid.axes[n], self.degree // 2) if n in self.grid.periods else self.grid.axes[n]
            for n in self.grid.names
        ]
        points = tensor_points(places)
        name = f"splines of degree {self.degree} on {self.grid.summary}"
        cells = cells_of(self.grid, self._bases, self._points)
        return Space(name, points, points, boundary_nodes(self.grid), cells, self._boundary, _no_facets)

    def _boundary(self) -> Measure:
        """Faces at both ends of every axis that is not periodic."""
        return boundary_of(self.grid, self._bases, self._points, _PENALTY * self._around())

    @property
    def _points(self) -> int:
        """Of quadrature, by cell and axis.

        Exact for the mass matrix; products of smooth fields are far better resolved than their degree suggests.
        """
        return self.degree + 1

    @property
    def _bases(self) -> list[AxisBasis]:
        return [axis.basis for axis in self.axes]

    def _around(self) -> float:
        """max_K Σ_{E ⊂ ∂K} h_E |E|/|K|, as in :mod:`bvsi.spaces.element`."""
        bases = self._bases
        if not bases:
            return 0.0
        if len(bases) == 1:
            return float((bases[0].joint_sizes.sum(axis=1) / bases[0].widths).max())
        widest = [float(basis.widths.max()) for basis in bases]
        others = [np.prod([w for k, w in enumerate(widest) if k != axis]) for axis in range(len(bases))]
        sizes = facet_size(np.array(others), len(bases))
        return float(sum(2 * h / basis.widths.min() for h, basis in zip(sizes, bases, strict=True)))


def _no_facets() -> Measure:
    raise SpaceError("facets(...): splines are smooth, there is nothing on facets between cells; leave such terms out.")


def _axis(grid: Grid, name: str, degree: int) -> SplineAxis:
    x, period = grid.axes[name], grid.periods.get(name)
    n, out = len(x), (degree + 1) // 2
    if n < degree + 2:
        raise SpaceError(f"splines: axis {name!r} has {n} nodes; {degree + 2} are needed.")
    if period is None:
        knots = np.concatenate([np.repeat(x[0], degree + 1), x[out:-out], np.repeat(x[-1], degree + 1)])
        breaks = np.concatenate([x[:1], x[out:-out], x[-1:]])
    else:
        knots = np.concatenate([x[-degree:] - period, x, x[: degree + 1] + period])
        breaks = np.append(x, x[0] + period)
    ends = np.stack([breaks[:-1], breaks[1:]], axis=1)
    columns = np.arange(len(ends))[:, None] + np.arange(degree + 1)
    basis = AxisBasis(ends, columns % n, _pieces(knots, ends, degree), n, period is not None)
    values = sparse.coo_array(BSpline.design_matrix(x, knots, degree))
    B = sparse.csr_array((values.data, (values.row, values.col % n)), shape=(n, n))
    return SplineAxis(basis, B)


def _pieces(knots: Array, ends: Array, degree: int) -> Array:
    """Coefficients (n_el, p + 1, p + 1) of the splines of every cell in powers of s, from their values at points."""
    s = (np.arange(degree + 1) + 0.5) / (degree + 1)
    points = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * s
    values = BSpline.design_matrix(points.ravel(), knots, degree).data.reshape(len(ends), len(s), -1)
    return np.asarray(np.linalg.inv(np.vander(s, increasing=True)) @ values)
