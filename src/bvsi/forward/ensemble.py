"""Many simulations of one equation: discretised once, with splines on grids and elements of second order on meshes.

Elements of second order go through the nodes of first-order cells, with more nodes in the middles of edges, faces and
cells:

    u(x_i) = u_i at the nodes of the data,      u(m_e) = (R u)_e at the middles

R: the local splines of :mod:`bvsi.spaces.reconstruction`. From 300 sensors whose cells are as wide as the bumps of the
field, linear elements were off by 3.3% of it, with noise of 2%, and the forecast of a right equation was called wrong;
these are off by 0.4%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Integers
from bvsi.common.progress import Progress, silent
from bvsi.data import CELL_TYPES, Data, Grid, Mesh
from bvsi.errors import OperatorError, SpaceError
from bvsi.forward.rosenbrock import Prescribed, Rosenbrock, RosenbrockStepper
from bvsi.forward.semidiscrete import (
    Discretised,
    Past,
    StepStructure,
    check_closed,
    check_evolves,
    check_fourth_order,
    discretised,
    evolve,
)
from bvsi.forward.series import SeriesSimulator
from bvsi.forward.splines import CUBIC, Splines, spline_operators, spline_tests
from bvsi.operators import Library
from bvsi.residual import Layout, discretise_library
from bvsi.spaces import Galerkin
from bvsi.spaces.domain import Domain
from bvsi.spaces.reconstruction import reconstruction
from bvsi.spaces.spline_tests import USUAL_RECONSTRUCTION

Fields = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Simulator:
    """Solves u_t = Σ_i θ_i F_i(u) for any coefficients and any initial state.

    Attributes
    ----------
    equation
        The operators on their space.
    unknowns
        Maps between nodal values and coefficients; None where they are the same.
    fixed
        Unknowns, as columns of the state, that no equation moves.
    prescribed
        Whether these are given in time.
    """

    equation: Discretised
    unknowns: Splines | Middles | None
    fixed: Integers
    prescribed: bool

    @cached_property
    def structure(self) -> StepStructure:
        """Of the matrices that are factored."""
        return StepStructure(self.equation.layout, self.equation.free)

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that are simulated."""
        return self.equation.layout.fields

    @property
    def moving(self) -> Mapping[str, NDArray[np.bool_]]:
        """By field, which nodes move (n,); the others have the values that are prescribed."""
        mask = np.ones(self.equation.M.shape[1], dtype=bool)
        mask[self.fixed] = False
        by_field = mask.reshape(len(self.fields), -1)
        nodes = self.unknowns.nodal(by_field) if isinstance(self.unknowns, Middles) else by_field
        return dict(zip(self.fields, nodes, strict=True))

    @property
    def longest_lag(self) -> float:
        """The longest delay; zero without any."""
        return self.equation.longest_lag

    @property
    def step_cost(self) -> float:
        """Work of one step, in steps with a small matrix: 1 + nnz^1.2 / 57,000, with the fill of planar grids.

        Where the matrix is constant its factors are used again, and 0.15 of that remains (not measured closely).
        """
        share = 0.15 if self.equation.linear else 1.0
        return 1.0 + math.pow(self.equation.layout.pattern.nnz, 1.2) / 57_000 * share

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
        before: tuple[Array, Fields] | None = None,
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
        before
            The same up to times[0], where operators look back.
        """
        known = None
        if self.needs_boundary:
            if boundary is None:
                raise OperatorError("simulate: boundary values in time are needed where no condition is declared.")
            known = Prescribed.of(self.fixed, boundary[0], self._state(boundary[1]))
        system = self.equation.system(theta).merged()
        if self.equation.lags:
            if before is None:
                raise OperatorError("simulate: lag(...) needs the fields before the first time.")
            system = replace(system, past=Past(before[0], self._state(before[1])))
        stepper = RosenbrockStepper(system, scheme or Rosenbrock(), self.structure, known, progress)
        states = self.nodal(evolve(stepper, self._state(initial), times))
        return dict(zip(self.fields, np.split(states, len(self.fields), axis=1), strict=True)), stepper.steps

    def _state(self, values: Fields) -> Array:
        return self.degrees(np.concatenate([values[f] for f in self.fields], axis=-1))

    def degrees(self, values: Array) -> Array:
        """Degrees of freedom of nodal values, of all fields one after the other, (…, fields · n)."""
        return values if self.unknowns is None else self._by_field(self.unknowns.coefficients, values)

    def nodal(self, degrees: Array) -> Array:
        """Nodal values of degrees of freedom, of all fields one after the other."""
        return degrees if self.unknowns is None else self._by_field(self.unknowns.nodal, degrees)

    def _by_field(self, change: Callable[[Array], Array], values: Array) -> Array:
        parts = np.split(values, len(self.fields), axis=-1)
        return np.concatenate([change(np.ascontiguousarray(part)) for part in parts], axis=-1)


def simulator(
    data: Data,
    library: Library,
    *,
    prescribe: bool = False,
    positive: Collection[str] = (),
    degree: int = CUBIC,
    tangents: bool = False,
) -> Simulator | SeriesSimulator:
    """Discretise the equations on the geometry of the data; known fields are those of the data.

    Parameters
    ----------
    prescribe
        Whether boundary values are given when it runs, where the library declares no condition or ``Dirichlet()``, and
        slopes as well with more than two derivatives. Without, ``Dirichlet()`` keeps the initial boundary values, and
        what is not declared is refused.
    positive
        Fields that are not below zero: operators that are not linear take zero in place of what interpolation puts
        below, so that diffusion c ∇·(u∇u) never runs backwards.
    degree
        Of the splines on grids.
    tangents
        Whether derivatives are solved for: series then stand on a space of one node, as those with delays do.
    """
    check_evolves(library)
    if tangents and library.longest_lag:
        raise OperatorError(
            "lag(...) looks back in time, and forward solves have no derivatives of that; what discover found "
            "is compared with forward solves by forecast(...)."
        )
    if not data.geometry.names and not tangents and not library.longest_lag:
        return SeriesSimulator.of(data, library)
    unknowns: Splines | Middles | None
    if isinstance(data.geometry, Grid):
        unknowns = splines = Splines.on(data.geometry, degree)
        operators = spline_operators(library, data)
        layout = Layout(library, operators, splines.space(), spline_tests(library, operators, splines))
        known = {name: splines.coefficients(values) for name, values in data.auxiliary.items()}
        at_unknowns = Data(data.times, data.fields, data.geometry, known)
    else:
        unknowns, at_unknowns = _elements(data, library)
        operators, space = discretise_library(at_unknowns, library, Galerkin())
        layout = Layout(library, operators, space)
    if not prescribe:
        check_closed(library, layout.equations, bounded=bool(len(layout.space.boundary_tests)))
        if len(layout.space.boundary_tests):
            check_fourth_order(operators, library)
    equation = replace(discretised(at_unknowns, operators, layout), positive=frozenset(positive))
    every = np.arange(len(layout.fields) * layout.space.n_dofs)
    return Simulator(equation, unknowns, np.setdiff1d(every, equation.free), prescribe)


def _elements(data: Data, library: Library) -> tuple[Middles | None, Data]:
    """Middles of the cells where they help, and the first frame at all unknowns.

    Known fields may jump, which splines through the nodes do not follow, and ∇⁴ has a better form on linear elements.
    """
    assert isinstance(data.geometry, Mesh)
    middles = None if data.auxiliary or library.has_biharmonic else Middles.of(data.geometry)
    if middles is None:
        return None, data
    first = {name: middles.coefficients(values[:1]) for name, values in data.fields.items()}
    return middles, Data(data.times[:1], first, middles.mesh)


_SECOND = {"line": "line3", "triangle": "triangle6", "quad": "quad9", "tetra": "tetra10", "hexahedron": "hexahedron27"}
# Nodes with those in the middles beyond which elements stay what they are: factors of 20,000 take about a second.
_MOST = 20_000


@dataclass(frozen=True, eq=False)
class Middles:
    """Values at the nodes of a mesh, and at the middles of its cells.

    Attributes
    ----------
    mesh
        Cells of second order; its first nodes are those of the data.
    R
        (middles × nodes).
    """

    mesh: Mesh
    R: Any

    @staticmethod
    def of(mesh: Mesh) -> Middles | None:
        """None where the cells have middles, where they are too many, or the nodes too few for a polynomial."""
        name = _SECOND.get(mesh.cell_type)
        if name is None:
            return None
        groups = _Groups.of(mesh, name)
        if mesh.n_nodes + len(groups.cells) > _MOST:
            return None
        try:
            R = reconstruction(Domain(mesh), groups.cells, groups.places[:, None], USUAL_RECONSTRUCTION)
        except SpaceError:
            return None
        cells = np.concatenate([mesh.cells, mesh.n_nodes + groups.numbers], axis=1)
        return Middles(Mesh(np.concatenate([mesh.points, groups.places]), cells, name), R)

    @cached_property
    def _n(self) -> int:
        return int(self.R.shape[1])

    def coefficients(self, values: Array) -> Array:
        """Values at nodes and middles from those at the nodes, (…, n)."""
        flat = values.reshape(-1, self._n)
        return np.concatenate([values, (self.R @ flat.T).T.reshape(*values.shape[:-1], -1)], axis=-1)

    def nodal(self, degrees: Array) -> Array:
        """Values at the nodes of the data."""
        return degrees[..., : self._n]


@dataclass(frozen=True, eq=False)
class _Groups:
    """Middles of vertex groups: their places, a cell of each, and their numbers by cell (m, middles)."""

    places: Array
    cells: Integers
    numbers: Integers

    @staticmethod
    def of(mesh: Mesh, name: str) -> _Groups:
        kind = CELL_TYPES[name]
        every = [np.sort(mesh.cells[:, list(group)], axis=1) for group in kind.middles]
        width = max(own.shape[1] for own in every)
        # groups of fewer vertices are filled up, so that one sort finds those that cells share
        keys = [np.pad(own, ((0, 0), (0, width - own.shape[1])), constant_values=-1) for own in every]
        stacked = np.stack(keys, axis=1)
        _, first, numbers = np.unique(stacked.reshape(-1, width), axis=0, return_index=True, return_inverse=True)
        places = kind.middle_points(mesh.points[mesh.cells]).reshape(-1, mesh.dim)[first]
        return _Groups(places, first // len(kind.middles), numbers.reshape(stacked.shape[:2]))
