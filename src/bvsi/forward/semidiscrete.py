"""The discovered equation in space: M u_t = Σ_i θ_i F_i(u, t), from the same library that identification uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.operators import Library, Unknown
from bvsi.residual import Layout, discretise_library, state_of
from bvsi.residual.discrete import State, evaluate, has_constant_jacobian, jacobian, reach_of
from bvsi.spaces import Galerkin, Reach, Space

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator

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
                slots = self.layout.slots[operator.equation, field, reach].index
                values[slots] += theta * self.layout.restrict(operator.equation, block[0], reach)
        return values

    def merged(self) -> SemiDiscrete:
        """The same with the changing operators of each equation added up to one: fewer integrals, one kernel."""
        groups: dict[tuple[str, Reach], list[tuple[WeakOperator, float]]] = {}
        for operator, theta in self.changing:
            groups.setdefault((operator.equation, reach_of(operator)), []).append((operator, theta))
        changing: list[tuple[WeakOperator, float]] = []
        for (_, reach), group in groups.items():
            changing += group if reach == "recovered" else [(group[0][0].summed(group), 1.0)]
        return replace(self, changing=tuple(changing))

    def _state(self, u: Array, t: float) -> State:
        fields = {f: u[start : start + self.space.n_dofs, None] for f, start in self.layout.column_start.items()}
        return State(np.array([t]), fields, self.auxiliary)


@dataclass(frozen=True, eq=False)
class Discretised:
    """The operators on a space, before their coefficients are known: one serves many draws of these.

    constant: for every operator that is linear in the state and constant in time its Jacobian on the layout's pattern
        (nnz,) and its value at zero (free,); None for the others.
    """

    space: Space
    layout: Layout
    auxiliary: dict[str, Array]
    free: NDArray[np.int64]
    M: Any
    operators: tuple[WeakOperator, ...]
    constant: tuple[tuple[Array, Array] | None, ...]

    def system(self, theta: Array) -> SemiDiscrete:
        """M u_t = Σ_i θ_i F_i(u, t)."""
        values = np.zeros(self.layout.pattern.nnz)
        source = np.zeros(self.layout.pattern.shape[0])
        changing = []
        for operator, coefficient, known in zip(self.operators, theta, self.constant, strict=True):
            if known is None:
                changing.append((operator, float(coefficient)))
            else:
                values += coefficient * known[0]
                source += coefficient * known[1]
        A = self.layout.pattern.matrix(values)
        return SemiDiscrete(self.space, self.layout, self.auxiliary, self.free, self.M, A, source, tuple(changing))


def semidiscrete(initial: Data, library: Library, theta: Array, discretisation: Galerkin) -> SemiDiscrete:
    """Discretise the equations in space on the geometry of ``initial``."""
    if discretisation.on is not None:
        raise OperatorError("simulate: give the initial state on the grid or mesh of the simulation itself.")
    operators, space = discretise_library(initial, library, discretisation)
    if len(space.boundary_tests):
        check_fourth_order(operators, library)
    layout = Layout(library, operators, space)
    check_closed(library, layout)
    return discretised(initial, operators, layout).system(theta)


def discretised(initial: Data, operators: tuple[WeakOperator, ...], layout: Layout) -> Discretised:
    """The operators on a space; ``initial`` holds fields and known fields at its degrees of freedom."""
    check_moving(initial, layout)
    space = layout.space
    constants = {name: values[:, None] for name, values in initial.auxiliary.items()}
    state = State(initial.times[:1], {f: v[:, :1] for f, v in state_of(initial, space).fields.items()}, constants)
    constant = tuple(_constant_part(operator, layout, state) for operator in operators)
    free = np.concatenate([layout.column_start[e] + layout.tests[e] for e in layout.equations])
    M = layout.pattern.matrix(layout.mass())
    return Discretised(space, layout, constants, free, M, operators, constant)


def _constant_part(operator: WeakOperator, layout: Layout, state: State) -> tuple[Array, Array] | None:
    """Jacobian on the layout's pattern, and value at zero, of an operator that has one of each for all times."""
    if not has_constant_jacobian(operator, state) or operator.uses(operator.terms, frozenset({"t"})):
        return None
    values = np.zeros(layout.pattern.nnz)
    source = np.zeros(layout.pattern.shape[0])
    reach = reach_of(operator)
    for field, block in jacobian(operator, layout.space, state).items():
        slots = layout.slots[operator.equation, field, reach].index
        values[slots] += layout.restrict(operator.equation, block[0], reach)
    if operator.has_source:
        zero = State(state.times, {f: 0 * v for f, v in state.fields.items()}, state.auxiliary)
        tests = layout.tests[operator.equation]
        source[layout.rows(operator.equation)] += evaluate(operator, layout.space, zero)[tests, 0]
    return values, source


def check_fourth_order(operators: tuple[WeakOperator, ...], library: Library) -> None:
    """Refuse operators with boundary terms that neither vanish nor are imposed: the solution would go astray."""
    for operator in operators:
        if library.keeps_inside(operator):
            raise OperatorError(
                f"simulate: operator {operator.name!r} has more derivatives than its boundary condition settles; write "
                "it with biharmonic(...) and declare ZeroNeumann() for all fields, which then is imposed, or make the "
                "axes periodic."
            )


def check_closed(library: Library, layout: Layout) -> None:
    """Refuse equations whose boundary values nothing tells."""
    open_ended = [e for e in layout.equations if isinstance(library.condition(e), Unknown)]
    if open_ended and len(layout.space.boundary_tests):
        raise OperatorError(
            f"simulate: the boundary condition of {open_ended[0]!r} is unknown; declare it in the library, "
            "boundary=NoFlux(), ZeroNeumann() or Dirichlet() (which keeps the initial boundary values)."
        )


def check_moving(initial: Data, layout: Layout) -> None:
    """Refuse fields without an equation, states that cannot move, and known fields that do."""
    lacking = [f for f in layout.fields if f not in layout.equations]
    if lacking:
        raise OperatorError(
            f"simulate: field {lacking[0]!r} is read but has no equation; give it one, or make it an auxiliary field."
        )
    if not any(len(tests) for tests in layout.tests.values()):
        raise OperatorError(
            "simulate: all nodes are on the boundary, where Dirichlet() prescribes the values, so that nothing moves; "
            "use a finer grid or mesh."
        )
    moving = [name for name, values in initial.auxiliary.items() if values.ndim > 1]
    if moving:
        raise OperatorError(f"simulate: auxiliary field {moving[0]!r} changes in time; only constant ones can be used.")
