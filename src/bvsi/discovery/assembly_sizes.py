"""Bytes that the residuals of one experiment take, and their assembly, from patterns alone: no numbers are worked out.

    Z (N, K, 1 + d)      J_i: (nnz,) where linear on elements, (T, n) per term on splines, none where it is streamed

How many arrays exist side by side is counted in :mod:`bvsi.residual`; the constants here say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bvsi.data import Data
from bvsi.jets import MEASURES
from bvsi.operators import WeakOperator
from bvsi.residual import Structure
from bvsi.residual.discrete import State, has_constant_jacobian, reach_of, streams
from bvsi.residual.layout import Layout
from bvsi.spaces import Space

NUMBER = 8
"""Bytes of a number."""

# Bytes per entry of a pattern with its transpose, rows and slots; and while it is made.
PATTERN, MAKING = 70, 60
# Bytes per entry of basis functions at points: pattern, rows, transpose, 32-bit copies; and for each derivative.
_BASIS, _DERIVATIVE = 48, 8
# Bytes of quadrature values of one symbol that are made at a time, and such arrays besides the symbols.
_CHUNK, _TEMPORARIES = 64 * 2**20, 4


@dataclass(frozen=True, eq=False)
class AssemblySizes:
    """Bytes by part.

    Z, states (fields at the unknowns, n_u T), jacobians, pattern, points (basis functions at quadrature points).
    columns: X of all operators before they go into Z; work: fields and kernels at the points, of one chunk of times.
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


def assembly_sizes(
    data: Data, operators: Sequence[WeakOperator], space: Space, layout: Layout, structure: Structure
) -> AssemblySizes:
    """Of one experiment."""
    state = _shape_of_state(data)
    distinct = list({o.monic()[0].key: o for o in operators}.values())
    T, d = structure.n_times, len(operators)
    points, work = _at_points(distinct, space, T, state)
    return AssemblySizes(
        Z=NUMBER * structure.n_rows * structure.n_blocks * (1 + d),
        states=NUMBER * structure.n_state * T,
        jacobians=sum(_jacobian(o, space, state) for o in distinct),
        pattern=PATTERN * float(layout.pattern.nnz),
        points=points,
        columns=NUMBER * space.n_tests * (structure.n_blocks * len(distinct) + 2 * T),
        work=work + MAKING * float(layout.pattern.nnz),
        streamed=any(streams(o, space, state) for o in distinct),
        constant=all(has_constant_jacobian(o, state) for o in distinct),
        terms=len({(t.field, t.test) for o in distinct for t in o.jacobian}),
    )


def _shape_of_state(data: Data) -> State:
    """A state without values, which knows what varies in time."""
    known = {name: np.zeros((1, 1 if np.ndim(v) < 2 else len(v))) for name, v in data.auxiliary.items()}
    return State(data.times, {}, known)


def _jacobian(operator: WeakOperator, space: Space, state: State) -> float:
    """Bytes of J_i as it is kept."""
    constant = has_constant_jacobian(operator, state)
    rows = 1 if constant else state.n_times
    if space.nodal:
        return float(NUMBER * rows * space.n_dofs * len({(t.field, t.test) for t in operator.jacobian}))
    if streams(operator, space, state):
        return 0.0
    entries = len(operator.reads) * space.reach(reach_of(operator)).nnz
    return float(NUMBER * entries * (rows + 1))  # and the columns of its entries


def _at_points(operators: Sequence[WeakOperator], space: Space, T: int, state: State) -> tuple[float, float]:
    """Bytes of basis functions at the points, and of the fields and kernels of one chunk of times there."""
    basis, work = 0.0, 0.0
    for where in MEASURES:
        forms = [(o, o.forms[where]) for o in operators if o.forms[where].terms or o.forms[where].jacobian]
        if not forms or (space.nodal and where != "cells"):
            continue
        measure = space.measure(where)
        trials = {(t.field, t.trial) for _, f in forms for t in f.jacobian}
        if not space.nodal:
            tests = {t.test for _, f in forms for t in f.terms}
            both = ((measure.test.pattern, len(tests)), (measure.trial.pattern, len({jet for _, jet in trials})))
            basis += sum(pattern.nnz * (_BASIS + _DERIVATIVE * count) for pattern, count in both)
        nonlinear = space.nodal or any(not has_constant_jacobian(o, state) for o, _ in forms)
        chunk = min(_CHUNK, NUMBER * measure.n_points * (T if nonlinear else len(operators)))
        work = max(work, chunk * (len(trials) + _TEMPORARIES))
    return basis, work
