"""Bytes that the residuals of one experiment take, and their assembly, from patterns alone: no numbers are worked out.

    Z (N, K, 1 + d)      J_i: (nnz,) where linear on elements, (T, n) per term on splines, none where it is streamed

How many arrays exist side by side is counted in :mod:`bvsi.residual`; the constants here say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bvsi.common.jets import MEASURES, Jet
from bvsi.data import Data
from bvsi.operators import WeakOperator
from bvsi.residual.columns import streamed_operators
from bvsi.residual.discrete import State, has_constant_jacobian, reach_of
from bvsi.spaces import Space

NUMBER = 8
"""Bytes of a number."""

MAKING = 60
"""Bytes per entry of a pattern that its making takes on top of it."""

# Bytes per entry of a pattern with its transpose, rows and slots.
_PATTERN = 70
# Bytes per entry of basis functions at points: pattern, rows, transpose, 32-bit copies; and for each derivative.
_BASIS, _DERIVATIVE = 48, 8
# Bytes of quadrature values of one symbol that are made at a time, and such arrays besides the symbols.
_CHUNK, _TEMPORARIES = 64 * 2**20, 4


@dataclass(frozen=True)
class Shape:
    """N, K, T and n_u of one experiment; tests, unknowns: of one field; entries: of the pattern of the Jacobians."""

    rows: int
    blocks: int
    times: int
    state: int
    tests: int
    unknowns: int
    entries: float

    @property
    def residuals(self) -> int:
        """N K."""
        return self.rows * self.blocks


@dataclass(frozen=True)
class AssemblySizes:
    """Bytes by part.

    Z; states (fields at the unknowns); jacobians; pattern; points (basis functions at quadrature points).
    columns: X of all operators before they go into Z; work: patterns while they are made, fields and kernels at the
        points for one chunk of times.
    streamed: whether some Jacobian is worked out anew for every time, so that states and points stay.
    constant: whether all Jacobians are the same at all times; terms: sparse matrices in Σ_i θ_i J_i of a nodal space.
    """

    Z: float
    states: float
    jacobians: float
    pattern: float
    points: float
    columns: float
    work: float
    streamed: bool
    constant: bool
    terms: int


def assembly_sizes(shape: Shape, data: Data, operators: Sequence[WeakOperator], space: Space | None) -> AssemblySizes:
    """Of one experiment; space: None for spline tests."""
    state = _without_values(data)
    distinct = list({o.monic()[0].key: o for o in operators}.values())
    constant = [has_constant_jacobian(o, state) for o in distinct]
    streamed: list[WeakOperator] = []
    if space is None:
        jacobians = sum(_nodal(o, shape, linear) for o, linear in zip(distinct, constant, strict=True))
        points, work = 0.0, _chunk(shape.unknowns, shape.times, len({f for o in distinct for f in o.reads}))
    else:
        streamed = streamed_operators(distinct, space, state)
        jacobians = sum(_on_elements(o, space, state) for o in distinct if o not in streamed)
        points, work = _at_points(distinct, space, state)
    return AssemblySizes(
        Z=float(NUMBER * shape.residuals * (1 + len(operators))),
        states=float(NUMBER * shape.state * shape.times),
        jacobians=jacobians,
        pattern=_PATTERN * shape.entries,
        points=points,
        columns=float(NUMBER * shape.tests * (shape.blocks * len(distinct) + 2 * shape.times)),
        work=work + MAKING * shape.entries,
        streamed=bool(streamed),
        constant=all(constant),
        terms=len(_nodal_terms(distinct)),
    )


def _without_values(data: Data) -> State:
    """A state that knows what varies in time, and nothing else."""
    known = {name: np.zeros((1, 1 if np.ndim(v) < 2 else len(v))) for name, v in data.auxiliary.items()}
    return State(data.times, {}, known)


def _nodal_terms(operators: Sequence[WeakOperator]) -> set[tuple[str, Jet]]:
    """Fields and derivatives of test functions over the cells: one sparse matrix each."""
    return {(t.field, t.test) for o in operators for t in o.forms["cells"].jacobian}


def _nodal(operator: WeakOperator, shape: Shape, constant: bool) -> float:
    """Bytes of J_i on spline tests: one factor at the nodes for each derivative of the tests."""
    terms = len(_nodal_terms([operator]))
    return float(NUMBER * terms * shape.unknowns * (1 if constant else shape.times))


def _on_elements(operator: WeakOperator, space: Space, state: State) -> float:
    """Bytes of J_i with the columns of its entries; at all times where it is not linear."""
    rows = 1 if has_constant_jacobian(operator, state) else state.n_times
    return float(NUMBER * len(operator.reads) * space.reach(reach_of(operator)).nnz * (rows + 1))


def _at_points(operators: Sequence[WeakOperator], space: Space, state: State) -> tuple[float, float]:
    """Bytes of basis functions at the points, and of the fields and kernels of one chunk of times there."""
    basis, work = 0.0, 0.0
    for where in MEASURES:
        forms = [(o, o.forms[where]) for o in operators if o.forms[where].terms or o.forms[where].jacobian]
        if not forms:
            continue
        measure = space.measure(where)
        trials = {(t.field, t.trial) for _, form in forms for t in form.jacobian}
        tests = {t.test for _, form in forms for t in form.terms}
        for pattern, count in ((measure.test.pattern, len(tests)), (measure.trial.pattern, len(trials))):
            basis += pattern.nnz * (_BASIS + _DERIVATIVE * count)
        linear = all(has_constant_jacobian(o, state) for o, _ in forms)
        # linear operators are one column each, made side by side
        work = max(work, _chunk(measure.n_points, len(forms) if linear else state.n_times, len(trials)))
    return basis, work


def _chunk(points: int, columns: int, symbols: int) -> float:
    """Bytes of fields and kernels at the points, a chunk at a time."""
    return float(min(_CHUNK, NUMBER * points * columns) * (symbols + _TEMPORARIES))
