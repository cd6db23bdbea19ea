"""Many simulations of one equation: discretised once, with splines on grids and elements on meshes.

C2 cubic splines on grids: the space for accurate forward solves, of equations with up to four derivatives.

    u(x) = Σ_j c_j B_j(x),      u(x_i) = u_i at every node: c = B⁻¹ u along each axis, B_ij = B_j(x_i)

The knots are the nodes; on an axis that is not periodic the second and the last but one are left out (not-a-knot), so
that there are as many splines as nodes. Waves of wave number k have an error (kh)⁶ with two derivatives and (kh)⁴ with
four, where the elements of :mod:`bvsi.spaces` have (kh)² to (kh)⁴.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from scipy.interpolate import BSpline

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid, Mesh
from bvsi.data.smoothness import along
from bvsi.errors import OperatorError, SpaceError
from bvsi.forward.rosenbrock import Prescribed, Rosenbrock, RosenbrockStepper
from bvsi.forward.semidiscrete import Discretised, StepStructure, check_closed, check_fourth_order, discretised, evolve
from bvsi.operators import Library, Vocabulary
from bvsi.residual import Layout, discretise_library
from bvsi.spaces import Galerkin, Measure, Space
from bvsi.spaces.axis import AxisBasis
from bvsi.spaces.element import facet_size
from bvsi.spaces.tensor import boundary_nodes, boundary_of, cells_of, tensor_points

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator


_DEGREE = 3  # the lowest with two continuous derivatives, which four derivatives need
# Exact for the mass matrix; products of smooth fields are far better resolved than their degree tells.
_QUADRATURE_POINTS = 4
# Safety and trace constant of linear second derivatives, as of H3.
_PENALTY = 2 * 4.0 * 0.5


def spline_operators(library: Library, data: Data) -> tuple[WeakOperator, ...]:
    """Weak forms with one derivative on each side where that is enough, as it is with up to two; else with two."""
    words = Vocabulary.of(data)
    many = library.has_biharmonic or library.obstacle(words, trial_order=1, test_order=1)
    order = 2 if many else 1
    return library.weak(words, trial_order=order, test_order=order)


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

    @staticmethod
    def on(geometry: Grid | Mesh) -> Splines:
        """The splines whose knots are the nodes."""
        if not isinstance(geometry, Grid):
            raise SpaceError("splines: need a grid; use elements on a mesh.")
        return Splines(geometry, tuple(_axis(geometry, name) for name in geometry.names))

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
            rows = np.repeat(np.arange(len(points)), there.columns.shape[1])
            E = sparse.csr_array(
                (there.by_order[0].ravel(), (rows, there.columns.ravel())), shape=(len(points), there.n)
            )
            cube = along(E, cube, axis)
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
            np.roll(self.grid.axes[n], 1) if n in self.grid.periods else self.grid.axes[n] for n in self.grid.names
        ]
        points = tensor_points(places)
        name = f"cubic splines on {self.grid.summary}"
        cells = cells_of(self.grid, self._bases, _QUADRATURE_POINTS)
        return Space(name, points, points, boundary_nodes(self.grid), cells, self._boundary, _no_facets)

    def _boundary(self) -> Measure:
        """Faces at both ends of every axis that is not periodic."""
        return boundary_of(self.grid, self._bases, _QUADRATURE_POINTS, _PENALTY * self._around())

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


def _axis(grid: Grid, name: str) -> SplineAxis:
    x, period = grid.axes[name], grid.periods.get(name)
    n = len(x)
    if n < _DEGREE + 2:
        raise SpaceError(f"splines: axis {name!r} has {n} nodes; {_DEGREE + 2} are needed.")
    if period is None:
        knots = np.concatenate([np.repeat(x[0], 4), x[2:-2], np.repeat(x[-1], 4)])
        breaks = np.concatenate([x[:1], x[2:-2], x[-1:]])
    else:
        knots = np.concatenate([x[-_DEGREE:] - period, x, x[: _DEGREE + 1] + period])
        breaks = np.append(x, x[0] + period)
    ends = np.stack([breaks[:-1], breaks[1:]], axis=1)
    columns = np.arange(len(ends))[:, None] + np.arange(_DEGREE + 1)
    basis = AxisBasis(ends, columns % n, _pieces(knots, ends), n, period is not None)
    values = sparse.coo_array(BSpline.design_matrix(x, knots, _DEGREE))
    B = sparse.csr_array((values.data, (values.row, values.col % n)), shape=(n, n))
    return SplineAxis(basis, B)


def _pieces(knots: Array, ends: Array) -> Array:
    """Coefficients (n_el, 4, 4) of the four splines of every cell in powers of s, from their values at four points."""
    s = (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1)
    points = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * s
    values = BSpline.design_matrix(points.ravel(), knots, _DEGREE).data.reshape(len(ends), len(s), -1)
    return np.asarray(np.linalg.inv(np.vander(s, increasing=True)) @ values)


Fields = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Simulator:
    """Solves u_t = Σ_i θ_i F_i(u) for any coefficients and any initial state.

    Attributes
    ----------
    equation
        The operators on their space.
    splines
        Maps between nodal values and coefficients, None on meshes.
    fixed
        Unknowns, as columns of the state, that no equation moves.
    prescribed
        Whether these are given in time.
    """

    equation: Discretised
    splines: Splines | None
    fixed: Integers
    prescribed: bool

    @cached_property
    def _structure(self) -> StepStructure:
        return StepStructure(self.equation.layout, self.equation.free)

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that are simulated."""
        return self.equation.layout.fields

    @property
    def moving(self) -> Mapping[str, Mask]:
        """By field, which nodes move (n,); the others have the values that are prescribed."""
        mask = np.ones(len(self.fields) * self.equation.space.n_dofs, dtype=bool)
        mask[self.fixed] = False
        return dict(zip(self.fields, mask.reshape(len(self.fields), -1), strict=True))

    @property
    def step_cost(self) -> float:
        """Work of one step, in steps with a small matrix: 1 + nnz^1.2 / 57,000, with the fill of planar grids.

        Where the matrix is constant its factors are used again, and 0.15 of that remains (not measured closely).
        """
        changing = any(known is None for known in self.equation.constant)
        return 1.0 + math.pow(self.equation.layout.pattern.nnz, 1.2) / 57_000 * (1.0 if changing else 0.15)

    @property
    def needs_boundary(self) -> bool:
        """Whether values on the boundary have to be given in time."""
        return self.prescribed and len(self.fixed) > 0

    def run(
        self,
        theta: Array,
        initial: Fields,
        times: Array,
        *,
        scheme: Rosenbrock | None = None,
        boundary: tuple[Array, Fields] | None = None,
        progress: Progress = silent,
    ) -> tuple[dict[str, Array], int]:
        """Nodal values (T, n) by field at the times, and the number of steps.

        Parameters
        ----------
        theta
            Coefficients in the order of the library.
        initial
            Nodal values (n,) by field at times[0].
        boundary
            Times (S,) and nodal values (S, n) by field, which give the unknowns that are prescribed.
        """
        known = None
        if self.needs_boundary:
            if boundary is None:
                raise OperatorError("simulate: boundary values in time are needed where no condition is declared.")
            known = Prescribed.of(self.fixed, boundary[0], self._state(boundary[1]))
        system = self.equation.system(theta).merged()
        stepper = RosenbrockStepper(system, scheme or Rosenbrock(), self._structure, known)
        states = evolve(stepper, self._state(initial), times, progress)
        n = self.equation.space.n_dofs
        return {f: self._nodal(states[:, i * n : (i + 1) * n]) for i, f in enumerate(self.fields)}, stepper.steps

    def _state(self, values: Fields) -> Array:
        """Degrees of freedom of all fields one after the other, (..., fields · n)."""
        parts = [self.splines.coefficients(values[f]) if self.splines else values[f] for f in self.fields]
        return np.concatenate(parts, axis=-1)

    def _nodal(self, degrees: Array) -> Array:
        return self.splines.nodal(degrees) if self.splines else degrees


def simulator(data: Data, library: Library, *, prescribe: bool = False) -> Simulator:
    """Discretise the equations on the geometry of the data; known fields are those of the data.

    Parameters
    ----------
    prescribe
        Whether boundary values are given when it runs, where the library declares no condition or ``Dirichlet()``, and
        slopes as well with more than two derivatives. Without, ``Dirichlet()`` keeps the initial boundary values, and
        what is not declared is refused.
    """
    if library.unsimulated:
        raise OperatorError(f"simulate: {library.unsimulated}")
    if library.time_order != 1:
        raise OperatorError(
            f"simulate: time_order is {library.time_order}; only equations of first order in time can be simulated."
        )
    splines = Splines.on(data.geometry) if isinstance(data.geometry, Grid) else None
    if splines is None:
        operators, space = discretise_library(data, library, Galerkin())
        layout, at_unknowns = Layout(library, operators, space), data
    else:
        operators = spline_operators(library, data)
        layout = Layout(library, operators, splines.space(), spline_tests(library, operators, splines))
        known = {name: splines.coefficients(values) for name, values in data.auxiliary.items()}
        at_unknowns = Data(data.times, data.fields, data.geometry, known)
    if not prescribe:
        check_closed(library, layout)
        if len(layout.space.boundary_tests):
            check_fourth_order(operators, library)
    equation = discretised(at_unknowns, operators, layout)
    every = np.arange(len(layout.fields) * layout.space.n_dofs)
    return Simulator(equation, splines, np.setdiff1d(every, equation.free), prescribe)
