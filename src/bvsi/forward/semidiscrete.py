"""The discovered equation in space: M u_t = Σ_i θ_i F_i(u, t), from the same library that identification uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.operators import Library, Unknown, WeakOperator
from bvsi.residual import Layout, discretise_library, state_of
from bvsi.residual.discrete import State, evaluate, has_constant_jacobian, jacobian, reach_of
from bvsi.spaces import Galerkin, Space

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SemiDiscrete:
    """M u_t = F(u, t), with F(u, t) = A u + f + Σ (what is not linear or changes in time).

    free: unknowns that move (those at prescribed boundary values do not), as columns of the stacked state.
    M: (free × state); A: constant part of the Jacobian (free × state), both on the layout's pattern.
    source: constant part of F at u = 0 (free,).
    changing: the other operators with their coefficients.
    """

    space: Space
    layout: Layout
    auxiliary: dict[str, Array]
    free: NDArray[np.int64]
    M: Any
    A: Any
    source: Array
    changing: tuple[tuple[WeakOperator, float], ...]

    @property
    def linear(self) -> bool:
        """Whether F is linear in u with coefficients constant in time."""
        return not self.changing

    @property
    def coordinates(self) -> Array:
        """Places of the free unknowns, (free, dim)."""
        return self.space.dof_points[self.free % self.space.n_dofs]

    def F(self, u: Array, t: float) -> Array:
        """Σ_i θ_i F_i(u, t), (free,)."""
        total: Array = self.A @ u + self.source
        state = self._state(u, t)
        for operator, theta in self.changing:
            rows = self.layout.rows(operator.equation)
            total[rows] += theta * evaluate(operator, self.space, state)[self.layout.tests[operator.equation], 0]
        return total

    def J(self, u: Array, t: float) -> Array:
        """∂F/∂u (free × state), as values on the layout's pattern (nnz,)."""
        values: Array = self.A.data.copy()
        if self.linear:
            return values
        state = self._state(u, t)
        for operator, theta in self.changing:
            reach = reach_of(operator)
            for field, block in jacobian(operator, self.space, state).items():
                slots = self.layout.slots[operator.equation, field, reach]
                values[slots] += theta * self.layout.restrict(operator.equation, block.reshape(-1), reach)
        return values

    def _state(self, u: Array, t: float) -> State:
        fields = {f: u[start : start + self.space.n_dofs, None] for f, start in self.layout.column_start.items()}
        return State(np.array([t]), fields, self.auxiliary)


def semidiscrete(initial: Data, library: Library, theta: Array, discretisation: Galerkin) -> SemiDiscrete:
    """Discretise the equations in space on the geometry of ``initial``."""
    if discretisation.on is not None:
        raise OperatorError("simulate: give the initial state on the grid or mesh of the simulation itself.")
    operators, space = discretise_library(initial, library, discretisation)
    if len(space.boundary_tests):
        _check_fourth_order(operators, library)
    layout = Layout(library, operators, space)
    _check(initial, library, layout)
    constants = {name: values[:, None] for name, values in initial.auxiliary.items()}
    state = State(initial.times[:1], {f: v[:, :1] for f, v in state_of(initial, space).fields.items()}, constants)
    values = np.zeros(layout.pattern.nnz)
    source = np.zeros(layout.pattern.shape[0])
    changing = []
    for operator, coefficient in zip(operators, theta, strict=True):
        if not has_constant_jacobian(operator, state) or operator.uses(operator.terms, frozenset({"t"})):
            changing.append((operator, float(coefficient)))
            continue
        reach = reach_of(operator)
        for field, block in jacobian(operator, space, state).items():
            slots = layout.slots[operator.equation, field, reach]
            values[slots] += coefficient * layout.restrict(operator.equation, block, reach)
        if operator.has_source:
            zero = State(state.times, {f: 0 * v for f, v in state.fields.items()}, constants)
            tests = layout.tests[operator.equation]
            source[layout.rows(operator.equation)] += coefficient * evaluate(operator, space, zero)[tests, 0]
    free = np.concatenate([layout.column_start[e] + layout.tests[e] for e in layout.equations])
    M, A = layout.pattern.matrix(layout.mass()), layout.pattern.matrix(values)
    return SemiDiscrete(space, layout, constants, free, M, A, source, tuple(changing))


def _check_fourth_order(operators: tuple[WeakOperator, ...], library: Library) -> None:
    """Refuse operators with boundary terms that neither vanish nor are imposed: the solution would go astray."""
    for operator in operators:
        if library.keeps_inside(operator):
            raise OperatorError(
                f"simulate: operator {operator.name!r} has more derivatives than its boundary condition settles; write "
                "it with biharmonic(...) and declare ZeroNeumann() for all fields, which then is imposed, or make the "
                "axes periodic."
            )


def _check(initial: Data, library: Library, layout: Layout) -> None:
    lacking = [f for f in layout.fields if f not in layout.equations]
    if lacking:
        raise OperatorError(
            f"simulate: field {lacking[0]!r} is read but has no equation; give it one, or make it an auxiliary field."
        )
    open_ended = [e for e in layout.equations if isinstance(library.condition(e), Unknown)]
    if open_ended and len(layout.space.boundary_tests):
        raise OperatorError(
            f"simulate: the boundary condition of {open_ended[0]!r} is unknown; declare it in the library, "
            "boundary=NoFlux(), ZeroNeumann() or Dirichlet() (which keeps the initial boundary values)."
        )
    if not any(len(tests) for tests in layout.tests.values()):
        raise OperatorError(
            "simulate: all nodes are on the boundary, where Dirichlet() prescribes the values, so that nothing moves; "
            "use a finer grid or mesh."
        )
    moving = [name for name, values in initial.auxiliary.items() if values.ndim > 1]
    if moving:
        raise OperatorError(f"simulate: auxiliary field {moving[0]!r} changes in time; only constant ones can be used.")
