"""X and J of all operators of one experiment, in one pass each for those that are streamed and those that are linear.

    X_ki = Σ_j b_kj F_i(û_j)

Fields at the points are evaluated once for all operators, and matrices between the same derivatives are made side by
side. Of linear operators X comes from J and Σ_j b_kj û_j, which are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.common.jets import MEASURES, Jet, Where
from bvsi.operators import WeakOperator
from bvsi.residual.discrete import (
    NodalTerm,
    State,
    SymbolValues,
    at_zero_state,
    check_finite,
    chunks,
    discretise,
    evaluate,
    has_constant_jacobian,
    is_rounding,
    jacobian,
    reach_of,
    streams,
)
from bvsi.spaces import Space

Array = NDArray[np.float64]

KEEP_BYTES = 2e8
"""Jacobians of nonlinear operators that take less are kept: they are then worked out once instead of for every θ."""

# Operators smaller than this part of what goes into them are looked at more closely.
_SUSPICIOUS = 1e-7


@dataclass(frozen=True, eq=False)
class Column:
    """One operator: X (n_tests, K), and J by field as :func:`discretise` gives it; None where it is streamed."""

    X: Array
    J: Mapping[str, Array | tuple[NodalTerm, ...]] | None


def columns(
    operators: Sequence[WeakOperator], space: Space, states: tuple[State, State], b: Any
) -> dict[object, Column]:
    """Columns by the operators' keys, each weak form once; states: where to evaluate, and where to linearise.

    b: stencil (K × T), sparse.
    """
    state, at = states
    distinct = {operator.key: operator for operator in operators}
    streamed = streamed_operators(list(distinct.values()), space, state)
    linear = [o for o in distinct.values() if _linear(o, space, state)]
    found: dict[object, Column] = {}
    for operator, F in zip(streamed, evaluate_together(streamed, space, state), strict=True):
        found[operator.key] = Column(_summed(b, F), None)
    sums = {name: _summed(b, values) for name, values in state.fields.items()} if linear else {}
    for operator, J in zip(linear, constant_jacobians(linear, space, state), strict=True):
        found[operator.key] = Column(linear_values(operator, J, space, state, b, sums), J)
    for key, operator in distinct.items():
        if key not in found:
            discrete = discretise(operator, space, state, at)
            found[key] = Column(_summed(b, discrete.F), discrete.J)
    return found


def streamed_operators(operators: Sequence[WeakOperator], space: Space, state: State) -> list[WeakOperator]:
    """Those of the operators whose Jacobians are not kept: none where all of them together are small."""
    nonlinear = [o for o in operators if streams(o, space, state)]
    size = sum(8.0 * state.n_times * len(o.reads) * space.reach(reach_of(o)).nnz for o in nonlinear)
    return nonlinear if size > KEEP_BYTES else []


def _linear(operator: WeakOperator, space: Space, state: State) -> bool:
    """Whether its one matrix comes straight from its weak form on elements."""
    return not space.nodal and not operator.recovered and has_constant_jacobian(operator, state)


def _summed(b: Any, values: Array) -> Array:
    """Σ_j b_kj v_j for v (n, T), (n, K)."""
    return np.ascontiguousarray((b @ values.T).T)


def constant_jacobians(operators: Sequence[WeakOperator], space: Space, state: State) -> list[dict[str, Array]]:
    """J by field, (nnz,) on the pattern of its reach, of operators that are linear and the same at all times.

    None of them reads recovered fields. Coefficients that stand between the same derivatives make their matrices side
    by side.
    """
    one = state.at(slice(0, 1))
    sites: dict[tuple[Where, Jet, Jet], list[tuple[int, str, Array]]] = {}
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        for where in MEASURES:
            values: SymbolValues | None = None
            for i, operator in enumerate(operators):
                form = operator.forms[where]
                if form.jacobian:
                    if values is None:
                        values = SymbolValues(operator.words, space.measure(where), one)
                    for term, c in zip(form.jacobian, form.jacobian_kernel(values), strict=True):
                        sites.setdefault((where, term.test, term.trial), []).append((i, term.field, c))
        return _side_by_side(operators, space, sites, one)


def _side_by_side(
    operators: Sequence[WeakOperator],
    space: Space,
    sites: Mapping[tuple[Where, Jet, Jet], Sequence[tuple[int, str, Array]]],
    state: State,
) -> list[dict[str, Array]]:
    """Matrices from the coefficients (operator, field, c) at each site."""
    found: list[dict[str, Array]] = [{} for _ in operators]
    for (where, test, trial), uses in sites.items():
        points = space.measure(where).n_points
        c = np.concatenate([np.broadcast_to(c, (points, 1)) for _, _, c in uses], axis=1)
        for reach in {reach_of(operators[i]) for i, _, _ in uses}:
            mine = [n for n, (i, _, _) in enumerate(uses) if reach_of(operators[i]) == reach]
            for n, values in zip(mine, space.bilinear(where, test, trial, c[:, mine], reach), strict=True):
                i, field, _ = uses[n]
                found[i][field] = found[i][field] + values if field in found[i] else values
    for operator, J in zip(operators, found, strict=True):
        for values in J.values():
            check_finite(operator, values[None], state)
    return found


def linear_values(
    operator: WeakOperator, J: Mapping[str, Array], space: Space, state: State, b: Any, sums: Mapping[str, Array]
) -> Array:
    """J Σ_j b_kj û_j + Σ_j b_kj F(0), (n_tests, K), of an operator with one Jacobian for all times.

    sums: Σ_j b_kj û_j by field, (n, K). What is rounding only is zero.
    """
    pattern = space.reach(reach_of(operator))
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        X = np.zeros((space.n_tests, b.shape[0]))
        for field, entries in J.items():
            X += pattern.matrix(entries) @ sums[field]
        if operator.has_source:
            X += _summed(b, at_zero_state(operator, space, state))
    if not np.isfinite(X).all():
        check_finite(operator, evaluate(operator, space, state).T, state)
    weight = max(float(abs(b).sum(axis=1).max()), np.finfo(float).tiny)  # b may be as small as a time step
    return np.zeros_like(X) if is_rounding(X / weight, J, pattern, state) else X


def evaluate_together(operators: Sequence[WeakOperator], space: Space, state: State) -> list[Array]:
    """F(u) (n_tests, T) of several operators in one pass: fields at the points are evaluated once for all.

    None of them reads recovered fields. What is rounding only is zero.
    """
    total = [np.zeros((space.n_tests, state.n_times)) for _ in operators]
    for where in MEASURES:
        used = [(F, o.forms[where]) for F, o in zip(total, operators, strict=True) if o.forms[where].terms]
        if not used:
            continue
        measure = space.measure(where)
        for chunk in chunks(state.n_times, measure.n_points):
            values = SymbolValues(operators[0].words, measure, state.at(chunk))
            for F, form in used:
                with np.errstate(all="ignore"):  # what is not finite is refused by name below
                    for term, g in zip(form.terms, form.value_kernel(values), strict=True):
                        full = np.broadcast_to(g, (measure.n_points, values.n_times))
                        F[:, chunk] += space.functional(measure, term.test, full)
    for F, operator in zip(total, operators, strict=True):
        check_finite(operator, F.T, state)
        if _rounding_only(operator, space, state, F):
            F[:] = 0.0
    return total


def _rounding_only(operator: WeakOperator, space: Space, state: State, F: Array) -> bool:
    """Whether F is rounding, judged by the Jacobian at the time of the largest fields; made only where F is small."""
    sizes = np.max([np.abs(values).max(axis=0) for values in state.fields.values()], axis=0)
    one = state.at(slice(int(sizes.argmax()), int(sizes.argmax()) + 1))
    with np.errstate(all="ignore"):
        if not np.abs(F).max() <= _SUSPICIOUS * _size_bound(operator, space, one):
            return False
    return is_rounding(F, jacobian(operator, space, one), space.reach(reach_of(operator)), state)


def _size_bound(operator: WeakOperator, space: Space, state: State) -> float:
    """Σ_terms max|w c| max|E_α| max|E_β| max|u|: the size of one contribution to J u."""
    total = 0.0
    for where, form in operator.forms.items():
        if form.jacobian:
            measure = space.measure(where)
            values = SymbolValues(operator.words, measure, state)
            for term, c in zip(form.jacobian, form.jacobian_kernel(values), strict=True):
                ends = measure.test.entries(term.test), measure.trial.entries(term.trial), state.fields[term.field]
                weighted = measure.weights[:, None] * np.abs(c)
                total += float(weighted.max(initial=0.0) * np.prod([np.abs(end).max(initial=0.0) for end in ends]))
    return total
