"""Data and library to residual system: y, X, M and sensitivities on one sparsity pattern per experiment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, as_experiments
from bvsi.linalg import Pattern
from bvsi.operators import Library, Vocabulary, WeakOperator
from bvsi.progress import Progress, silent
from bvsi.residual.discrete import DiscreteOperator, State, discretise
from bvsi.residual.stencils import BackwardEuler, Stencil
from bvsi.residual.system import Residuals, ResidualSystem, Sensitivity, Structure
from bvsi.spaces import Galerkin, Space

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_QUADRATURE = 16


def assemble(
    data: Data | Sequence[Data],
    library: Library,
    *,
    discretisation: Galerkin | None = None,
    stencil: Stencil | None = None,
    quadrature: int | None = None,
    progress: Progress = silent,
) -> ResidualSystem:
    """Residual system of one or several experiments.

        y_k = Σ_j a_kj M û_j,   X_ki = Σ_j b_kj F_i(û_j),   J_i(û_j) = ∂F_i/∂u

    data: one experiment, or several of the same physics on grids and times of their own.
    library: candidate operators and boundary conditions.
    discretisation: element and mesh; by default Q1 on grids, the mesh's own degree on meshes.
    stencil: time stencil; by default backward Euler.
    quadrature: degree to which integrals are exact; by default that of the highest integrand.
    """
    discretisation = discretisation or Galerkin()
    stencil = stencil or BackwardEuler()
    experiments = as_experiments(data)
    parts, spaces = [], []
    for number, experiment in enumerate(experiments):
        operators, space = discretise_library(experiment, library, discretisation, quadrature)
        label = f"experiment {number + 1} of {len(experiments)}"
        parts.append(_residuals(experiment, library, operators, space, stencil, progress, label))
        spaces.append(space)
    described = f"{spaces[0].name}, {type(stencil).__name__}"
    return ResidualSystem(library.names, tuple(parts), described)


def discretise_library(
    data: Data, library: Library, discretisation: Galerkin, quadrature: int | None = None
) -> tuple[tuple[WeakOperator, ...], Space]:
    """Weak operators for the names of the data, and the space that integrates them."""
    words = Vocabulary(data.geometry.names, data.names, tuple(data.auxiliary))
    element = discretisation.element_for(data.geometry)
    operators = library.weak(words, trial_order=element.trial_order, test_order=element.test_order)
    if quadrature is None:
        needed = max(2 * element.degree, *(operator.degree(element.degree) for operator in operators))
        quadrature = min(needed, MAX_QUADRATURE)
    return operators, discretisation.build(data.geometry, quadrature)


def state_of(data: Data, space: Space) -> State:
    """Fields of an experiment at the degrees of freedom of a space, u = P d."""

    def nodal(values: Array) -> Array:
        columns = np.atleast_2d(values).T
        return np.ascontiguousarray(columns if space.transfer is None else space.transfer @ columns)

    fields = {name: nodal(values) for name, values in data.fields.items()}
    return State(data.times, fields, {name: nodal(values) for name, values in data.auxiliary.items()})


class Layout:
    """Where equations and fields stand in the stacked system.

    Rows: for each equation its test functions (those on the boundary left out where they have to vanish).
    Columns: for each field all unknowns. Blocks (equation, field) exist where an operator, or M, needs them.
    """

    def __init__(self, library: Library, operators: tuple[WeakOperator, ...], space: Space) -> None:
        self.space = space
        used = {operator.equation for operator in operators}
        self.equations = tuple(e for e in library.equations if e in used)
        read = {field for operator in operators for field in operator.reads}
        self.fields = tuple(f for f in operators[0].words.fields if f in read or f in self.equations)
        self.tests = {e: _tests(library, e, space) for e in self.equations}
        self.row_start = _starts([len(self.tests[e]) for e in self.equations])
        self.column_start = {f: i * space.n_dofs for i, f in enumerate(self.fields)}
        self._restricted = {e: space.pattern.restrict_rows(self.tests[e]) for e in self.equations}
        pairs = {(e, e) for e in self.equations} | {(o.equation, f) for o in operators for f in o.reads}
        self.pattern, self.slots = self._build([(e, f) for e in self.equations for f in self.fields if (e, f) in pairs])

    def rows(self, equation: str) -> slice:
        """Rows of an equation."""
        position = self.equations.index(equation)
        return slice(self.row_start[position], self.row_start[position + 1])

    def mass(self) -> Array:
        """Mass matrix M of all equations on the pattern, (nnz,)."""
        M = np.zeros(self.pattern.nnz)
        for equation in self.equations:
            M[self.slots[equation, equation]] = self.restrict(equation, self.space.mass)
        return M

    def restrict(self, equation: str, values: Array) -> Array:
        """Values on the space's pattern → those in the rows of the equation."""
        return values[..., self._restricted[equation][1]]

    def _build(self, pairs: list[tuple[str, str]]) -> tuple[Pattern, dict[tuple[str, str], Integers]]:
        rows, columns, lengths = [], [], []
        for equation, field in pairs:
            pattern = self._restricted[equation][0]
            rows.append(pattern.rows + self.rows(equation).start)
            columns.append(pattern.indices + self.column_start[field])
            lengths.append(pattern.nnz)
        shape = (int(self.row_start[-1]), len(self.fields) * self.space.n_dofs)
        pattern, positions = Pattern.from_coo(np.concatenate(rows), np.concatenate(columns), shape)
        return pattern, dict(zip(pairs, np.split(positions, np.cumsum(lengths)[:-1]), strict=True))


def _tests(library: Library, equation: str, space: Space) -> Integers:
    if not library.condition(equation).tests_vanish:
        return np.arange(space.n_tests)
    return np.setdiff1d(np.arange(space.n_tests), space.boundary_tests)


def _starts(lengths: list[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _residuals(
    data: Data,
    library: Library,
    operators: tuple[WeakOperator, ...],
    space: Space,
    stencil: Stencil,
    progress: Progress,
    label: str,
) -> Residuals:
    layout = Layout(library, operators, space)
    state = state_of(data, space)
    a, b = stencil.matrices(data.times)
    structure = _structure(layout, data, a, b)
    N, K = structure.n_rows, structure.n_blocks
    Z = np.zeros((N, K, 1 + len(operators)))
    for equation in layout.equations:
        mass = space.pattern.matrix(space.mass) @ state.fields[equation]
        Z[layout.rows(equation), :, 0] = (a @ mass[layout.tests[equation]].T).T
    J = []
    made: dict[object, DiscreteOperator] = {}  # the same weak form in two equations is assembled once
    for i, operator in enumerate(operators):
        if operator.key not in made:
            made[operator.key] = discretise(operator, space, state)
        discrete = made[operator.key]
        Z[layout.rows(operator.equation), :, 1 + i] = (b @ discrete.F[layout.tests[operator.equation]].T).T
        J.append(_sensitivity(operator, discrete, layout))
        progress(i + 1, len(operators), f"assembling {label}")
    return Residuals(structure, Z, tuple(J))


def _structure(layout: Layout, data: Data, a: object, b: object) -> Structure:
    space = layout.space
    tests = [layout.tests[e] for e in layout.equations]
    return Structure(
        pattern=layout.pattern,
        M=layout.mass(),
        a=a,
        b=b,
        coordinates=np.concatenate([space.test_points[t] for t in tests]),
        equations=layout.equations,
        equation_of_row=np.repeat(np.arange(len(tests)), [len(t) for t in tests]),
        fields=layout.fields,
        n_dofs=space.n_dofs,
        times=data.times,
        transfer=space.transfer,
    )


def _sensitivity(operator: WeakOperator, discrete: DiscreteOperator, layout: Layout) -> Sensitivity:
    return Sensitivity(
        layout.pattern,
        tuple(
            (layout.slots[operator.equation, field], layout.restrict(operator.equation, values))
            for field, values in discrete.J.items()
        ),
    )
