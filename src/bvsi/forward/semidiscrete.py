"""The discovered equation in space: M u_t = Σ_i θ_i F_i(u, t), from the same library that identification uses.

With it the LU factors of matrices on the layout's pattern, which implicit steps in time need.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg

from bvsi.common.arrays import Array, Integers
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid, Mesh
from bvsi.errors import BvsiError, OperatorError
from bvsi.linalg import Pattern, nested_dissection
from bvsi.operators import Library, Unknown
from bvsi.operators.vocabulary import lag_of
from bvsi.residual import Layout, discretise_library, state_of
from bvsi.residual.discrete import State, evaluate, has_constant_jacobian, jacobian, reach_of
from bvsi.residual.stencils import lags_of
from bvsi.spaces import Galerkin, Reach

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator


@dataclass(frozen=True, eq=False)
class Discretised:
    """The operators on a space, before their coefficients are known: one serves many draws of these.

    Attributes
    ----------
    free
        Unknowns that move (those at prescribed boundary values do not), as columns of the stacked state.
    M
        (free × state), on the layout's pattern.
    constant
        For every operator that is linear in the state and constant in time its Jacobian on the layout's pattern (nnz,)
        and its value at zero (free,); None for the others.
    positive
        Fields that are not below zero; see :class:`~bvsi.residual.discrete.State`.
    """

    layout: Layout
    auxiliary: dict[str, Array]
    free: Integers
    M: Any
    operators: tuple[WeakOperator, ...]
    constant: tuple[tuple[Array, Array] | None, ...]
    positive: frozenset[str] = frozenset()

    @cached_property
    def lags(self) -> dict[str, tuple[str, float, bool]]:
        """Field, delay, and whether it is the rate, by the name of a field at an earlier time."""
        return lags_of(self.operators)

    @property
    def longest_lag(self) -> float:
        """The longest delay; zero without any."""
        return max((tau for _, tau, _ in self.lags.values()), default=0.0)

    @property
    def linear(self) -> bool:
        """Whether all operators are linear in the state and constant in time."""
        return all(known is not None for known in self.constant)

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
        return SemiDiscrete(self, self.layout.pattern.matrix(values), source, tuple(changing))

    def state(self, u: Array, t: float, past: Past | None = None) -> State:
        """The fields of a stacked state u at a time, with those at earlier times."""
        n, starts = self.layout.space.n_dofs, self.layout.column_start
        fields = {f: u[start : start + n, None] for f, start in starts.items()}
        before = {}
        for name, (field, tau, rate) in self.lags.items():
            assert past is not None
            before[name] = past.at(t - tau, rate=rate)[starts[field] : starts[field] + n, None]
        return State(np.array([t]), fields, self.auxiliary, before, positive=self.positive)


@dataclass(frozen=True, eq=False)
class SemiDiscrete:
    """M u_t = F(u, t), with F(u, t) = A u + f + Σ (what is not linear or changes in time).

    Attributes
    ----------
    A
        Constant part of the Jacobian (free × state), on the layout's pattern.
    source
        Constant part of F at u = 0 (free,).
    changing
        The other operators with their coefficients.
    past
        States up to now, where operators look back; steps are added by whoever makes them.
    """

    equation: Discretised
    A: Any
    source: Array
    changing: tuple[tuple[WeakOperator, float], ...]
    past: Past | None = None

    @property
    def longest_step(self) -> float:
        """The shortest delay: a longer step would look into itself."""
        return min((tau for _, tau, _ in self.equation.lags.values()), default=np.inf)

    def made(self, t: float, u: Array) -> None:
        """Say that a step led to u at t, for later ones that look back."""
        if self.past is not None:
            self.past.add(t, u)

    @property
    def linear(self) -> bool:
        """Whether F is linear in u with coefficients constant in time."""
        return not self.changing

    def F(self, u: Array, t: float) -> Array:
        """Σ_i θ_i F_i(u, t), (free,)."""
        total: Array = self.A @ u + self.source
        state = self.equation.state(u, t, self.past)
        for operator, theta in self.changing:
            add_value(total, operator, self.equation.layout, state, theta)
        return total

    def J(self, u: Array, t: float) -> Array:
        """∂F/∂u (free × state), as values on the layout's pattern (nnz,)."""
        values: Array = self.A.data.copy()
        if self.linear:
            return values
        state = self.equation.state(u, t, self.past)
        for operator, theta in self.changing:
            _add_jacobian(values, operator, self.equation.layout, state, theta)
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


class Past:
    """States up to now, with cubics through the four nearest between them.

    Parameters
    ----------
    times, states
        A record (S,) and (S, n); its last state is the one from which steps go on.
    """

    def __init__(self, times: Array, states: Array) -> None:
        self._times, self._states = [float(t) for t in times], list(states)

    def add(self, t: float, u: Array) -> None:
        """One state more; those that are not before it are forgotten, as of steps that were given up."""
        kept = bisect_left(self._times, t)
        del self._times[kept:], self._states[kept:]
        self._times.append(t)
        self._states.append(u.copy())

    def at(self, t: float, *, rate: bool = False) -> Array:
        """The state at a time, or its rate of change, (n,)."""
        width = min(4, len(self._times))
        first = min(max(bisect_left(self._times, t) - 2, 0), len(self._times) - width)
        offsets = np.array(self._times[first : first + width]) - t
        size = float(np.abs(offsets).max()) or 1.0
        wanted = np.zeros(width)
        wanted[int(rate)] = 1 / size if rate else 1.0
        weights = np.linalg.solve(np.vander(offsets / size, increasing=True).T, wanted)
        return np.asarray(weights @ np.stack(self._states[first : first + width]))


def history(data: Data, t: float, longest: float) -> slice:
    """Frames up to t, where a simulation with delays begins; refused where the record does not reach so far back.

    Parameters
    ----------
    longest
        The longest delay.
    """
    near = np.flatnonzero(np.abs(data.times - t) <= 1e-9 * max(np.ptp(data.times), longest))
    if not len(near) or t - longest < data.times[0] - 1e-9 * longest:
        raise OperatorError(
            f"lag: times begin at {t:g}; with a delay of {longest:g} they have to begin at a frame of the record from "
            f"t = {data.times[0] + longest:g} on, so that the fields are known for as long before."
        )
    return slice(0, int(near[0]) + 1)


def semidiscrete(initial: Data, library: Library, theta: Array, discretisation: Galerkin) -> SemiDiscrete:
    """Discretise the equations in space on the geometry of ``initial``."""
    if library.unsimulated:
        raise OperatorError(f"simulate: {library.unsimulated}")
    if discretisation.on is not None:
        raise OperatorError("simulate: give the initial state on the grid or mesh of the simulation itself.")
    operators, space = discretise_library(initial, library, discretisation)
    if len(space.boundary_tests):
        check_fourth_order(operators, library)
    layout = Layout(library, operators, space)
    check_closed(library, layout.equations, bounded=bool(len(space.boundary_tests)))
    return discretised(initial, operators, layout).system(theta)


def discretised(initial: Data, operators: tuple[WeakOperator, ...], layout: Layout) -> Discretised:
    """The operators on a space; ``initial`` holds fields and known fields at its degrees of freedom."""
    check_moving(initial, layout)
    constants = {name: values[:, None] for name, values in initial.auxiliary.items()}
    state = State(
        initial.times[:1], {f: v[:, :1] for f, v in state_of(initial, layout.space).fields.items()}, constants
    )
    constant = tuple(_constant_part(operator, layout, state) for operator in operators)
    free = np.concatenate([layout.column_start[e] + layout.tests[e] for e in layout.equations])
    return Discretised(layout, constants, free, layout.pattern.matrix(layout.mass()), operators, constant)


def _constant_part(operator: WeakOperator, layout: Layout, state: State) -> tuple[Array, Array] | None:
    """Jacobian on the layout's pattern, and value at zero, of an operator that has one of each for all times."""
    if operator.lags or not has_constant_jacobian(operator, state) or operator.uses(operator.terms, frozenset({"t"})):
        return None
    values = np.zeros(layout.pattern.nnz)
    source = np.zeros(layout.pattern.shape[0])
    _add_jacobian(values, operator, layout, state, 1.0)
    if operator.has_source:
        zero = State(state.times, {f: 0 * v for f, v in state.fields.items()}, state.auxiliary)
        add_value(source, operator, layout, zero, 1.0)
    return values, source


def add_value(total: Array, operator: WeakOperator, layout: Layout, state: State, theta: float) -> None:
    """Add θ F(u) of an operator at one time to the total (free,)."""
    tests = layout.tests[operator.equation]
    total[layout.rows(operator.equation)] += theta * evaluate(operator, layout.space, state)[tests, 0]


def _add_jacobian(values: Array, operator: WeakOperator, layout: Layout, state: State, theta: float) -> None:
    """Add θ J(u) of an operator at one time to values (nnz,) on the layout's pattern."""
    reach = reach_of(operator)
    for field, block in jacobian(operator, layout.space, state).items():
        if lag_of(field) is not None:  # known by now
            continue
        slots = layout.slots[operator.equation, field, reach].index
        values[slots] += theta * layout.restrict(operator.equation, block[0], reach)


def check_fourth_order(operators: tuple[WeakOperator, ...], library: Library) -> None:
    """Refuse operators with boundary terms that neither vanish nor are imposed: the solution would go astray."""
    for operator in operators:
        if library.keeps_inside(operator):
            raise OperatorError(
                f"simulate: operator {operator.name!r} has more derivatives than its boundary condition settles; write "
                "it with biharmonic(...) and declare ZeroNeumann() for all fields, which then is imposed, or make the "
                "axes periodic."
            )


def check_solvable(data: Data, library: Library, on: Grid | Mesh) -> None:
    """Refuse what cannot be solved there whichever operators are in the equations; nothing is discretised for it."""
    check_evolves(library)
    check_closed(library, library.equations, bounded=isinstance(on, Mesh) or len(on.periods) < len(on.names))
    _check_known(data)


def check_evolves(library: Library) -> None:
    """Refuse equations that are not u_t = …."""
    if library.unsimulated:
        raise OperatorError(f"simulate: {library.unsimulated}")
    if library.time_order != 1:
        raise OperatorError(
            f"simulate: time_order is {library.time_order}; only equations of first order in time can be simulated."
        )


def check_closed(library: Library, equations: Iterable[str], *, bounded: bool) -> None:
    """Refuse equations whose boundary values are not known."""
    open_ended = [e for e in equations if isinstance(library.condition(e), Unknown)]
    if open_ended and bounded:
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
    _check_known(initial)


def _check_known(data: Data) -> None:
    """Refuse known fields that change in time."""
    moving = [name for name, values in data.auxiliary.items() if values.ndim > 1]
    if moving:
        raise OperatorError(f"simulate: auxiliary field {moving[0]!r} changes in time; only constant ones can be used.")


# An interval is halved at most so often: steps of 6·10⁻⁸ of it mean that the equation has no solution.
MAX_HALVINGS = 24
# A residual below this part of the terms that cancel in it is rounding: 500 times the precision of double.
_ROUNDING = 1e-13
# Factors that are kept where the system is linear: adaptive steps go back and forth between two or three sizes.
_CACHED_FACTORS = 4
SINGULAR = "its matrix M/h − ϑJ is singular, as it is where h is a growth time of the model."


class StepFailedError(BvsiError):
    """A step that has to be made smaller; the message says why."""


@dataclass(frozen=True, eq=False)
class StepFactor:
    """LU factors of B − C, whose rows and columns are permuted by ``order``.

    Attributes
    ----------
    magnitude
        |B| + |C|, permuted; entries of B − C carry rounding errors of this size.
    """

    lu: Any
    order: Integers
    magnitude: Any

    def solve(self, b: Array) -> Array:
        """(B − C)⁻¹ b."""
        x = np.empty_like(b)
        x[self.order] = self.lu.solve(b[self.order])
        return x

    def is_rounding(self, b: Array, x: Array) -> bool:
        """Whether (B − C) x = b holds by cancellation only: |b| ≪ (|B| + |C|) |x| in every row."""
        return bool(np.all(np.abs(b[self.order]) <= _ROUNDING * (self.magnitude @ np.abs(x[self.order]))))


class StepStructure:
    """Where the entries of a matrix on the layout's pattern stand in the permuted one that is factored.

    Parameters
    ----------
    free
        Columns of the unknowns.
    """

    def __init__(self, layout: Layout, free: Integers) -> None:
        pattern, space = layout.pattern, layout.space
        slots = pattern.matrix(np.arange(1, pattern.nnz + 1))[:, free]
        # Dissection by the places of the unknowns keeps the fill low; it is good for symmetric patterns.
        self.order = nested_dissection(Pattern.from_matrix(slots + slots.T), space.dof_points[free % space.n_dofs])
        self._permuted = sparse.csc_array(slots[self.order][:, self.order])
        self._slots = self._permuted.data - 1

    def factor(self, B: Array, C: Array) -> StepFactor:
        """Factors of B − C, both values on the pattern (nnz,)."""
        try:
            lu = scipy.sparse.linalg.splu(
                self._matrix(B - C), permc_spec="NATURAL", diag_pivot_thresh=1e-3, options={"SymmetricMode": True}
            )
        except RuntimeError:  # SuperLU's word for a matrix that is exactly singular
            raise StepFailedError(SINGULAR) from None
        return StepFactor(lu, self.order, self._matrix(np.abs(B) + np.abs(C)))

    def _matrix(self, values: Array) -> Any:
        like = self._permuted
        return sparse.csc_array((values[self._slots], like.indices, like.indptr), shape=like.shape)


class StepFactors:
    """Factors by step size; those of a linear system are kept, since equal steps share them."""

    def __init__(self, structure: StepStructure, linear: bool) -> None:
        self._structure, self._linear = structure, linear
        self._kept: OrderedDict[float, StepFactor] = OrderedDict()

    def at(self, h: float, parts: Callable[[], tuple[Array, Array]]) -> StepFactor:
        """Factors of B − C for a step h.

        Parameters
        ----------
        parts
            Makes B and C on the pattern.
        """
        if h in self._kept:
            self._kept.move_to_end(h)
            return self._kept[h]
        factor = self._structure.factor(*parts())
        if self._linear:
            self._kept[h] = factor
            if len(self._kept) > _CACHED_FACTORS:
                self._kept.popitem(last=False)
        return factor


class Advancing(Protocol):
    """What goes from one output time to the next."""

    def advance(self, u: Array, t: float, interval: float) -> Array:
        """State at t + interval."""


def evolve(stepper: Advancing, u: Array, times: Array, progress: Progress = silent) -> Array:
    """States at the times (T, n), from u at the first."""
    frames = [u]
    for k, (start, interval) in enumerate(zip(times[:-1], np.diff(times), strict=True)):
        frames.append(stepper.advance(frames[-1], float(start), float(interval)))
        progress(k + 1, len(times) - 1, "simulating")
    return np.stack(frames)
