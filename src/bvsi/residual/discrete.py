"""Operators on a space: F_i(u) tested against every test function, its Jacobian, and the columns X_i.

    F_i(u) = Σ_terms E_αᵀ (w ∘ g(E_β u, x, t))      J_i(u) = Σ E_αᵀ diag(w ∘ ∂g/∂u_β) E_β      X_ki = Σ_j b_kj F_i(û_j)

All come from the one weak form of the operator, in one loop over the points of quadrature (:func:`integrands`). For
constant Jacobians ``F(u) = J u + F(0)`` is used. Operators may read recovered fields w = M_lumped⁻¹ R(u); the chain
rule then gives J_w M_lumped⁻¹ J_R.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import MEASURES, Jet, MultiIndex, Sided, Where
from bvsi.data._arrays import release
from bvsi.data.smoothness import of_materials
from bvsi.errors import OperatorError
from bvsi.operators import Vocabulary
from bvsi.operators.vocabulary import FACET_SIZE, PENALTY, TIME, lag_of
from bvsi.spaces import Measure, Reach, Space

if TYPE_CHECKING:
    import sympy as sp

    from bvsi.operators.operator import KernelKind, WeakOperator
    from bvsi.operators.weak import JacobianTerm


# Bytes of one array of values at the points of quadrature; bounds what a pass over the times takes. Not measured.
CHUNK_BYTES = 64 * 2**20
# Bytes of sums of integrands over times that are kept at once; not measured.
_SUMS = 256 * 2**20
# With fewer that fit, values are tested in space before they are summed over times: one pass for all operators.
_FEW_SUMS = 4
# F below this part of Σ |J| |u| is what rounding leaves of zero: some hundred times the unit roundoff.
_ROUNDING = 1e-13
# F above this part of max |J| max |u| is not rounding, which saves the exact products.
_CLEARLY = 1e-9
# Bytes of the Jacobians of nonlinear operators up to which they are kept: they are then computed once instead of for
# every θ. Beyond, memory matters more.
KEEP_BYTES = 2e8

#: J of one operator: field, derivative of the test functions, and entries with one row for all times or one for each.
#: On elements the derivative is None and the entries are on the space's pattern of the operator's reach, (1 or T, nnz).
#: On nodal spaces they are the diagonals behind the test functions at the nodes, (1 or T, n).
Blocks: TypeAlias = tuple[tuple[str, Jet | None, Array], ...]


@dataclass(frozen=True, eq=False)
class State:
    """Fields at the degrees of freedom of a space.

    Attributes
    ----------
    times
        (T,).
    fields
        Name → (n, T).
    auxiliary
        Name → (n, T), or (n, 1) where constant in time.
    recovered
        Name → (n, T), fields that one operator recovers from the others.
    variance
        Name → noise variance, (n, T) or anything that broadcasts to it, for operators without its bias.
    positive
        Fields that are not below zero: where interpolation makes them so, integrands have zero in their place.
    """

    times: Array
    fields: Mapping[str, Array]
    auxiliary: Mapping[str, Array]
    recovered: Mapping[str, Array] = field(default_factory=dict)
    variance: Mapping[str, Array] = field(default_factory=dict)
    positive: frozenset[str] = frozenset()

    @property
    def n_times(self) -> int:
        """Number of times T."""
        return len(self.times)

    def at(self, chunk: slice) -> State:
        """Some of the times."""
        auxiliary = {g: v[:, chunk] if v.shape[1] > 1 else v for g, v in self.auxiliary.items()}
        fields = {f: v[:, chunk] for f, v in self.fields.items()}
        recovered = {w: v[:, chunk] for w, v in self.recovered.items()}
        variance = {f: v[:, chunk] if v.shape[1] > 1 else v for f, v in self.variance.items()}
        return State(self.times[chunk], fields, auxiliary, recovered, variance, self.positive)

    def nodal(self, name: str) -> Array:
        """Values of a field of any kind."""
        return next(kind[name] for kind in (self.fields, self.auxiliary, self.recovered) if name in kind)

    def varying(self) -> frozenset[str]:
        """Known quantities that change in time: the time itself and auxiliary fields given per time."""
        return frozenset({TIME, *(g for g, v in self.auxiliary.items() if v.shape[1] > 1)})


@dataclass(frozen=True, eq=False)
class Column:
    """One operator: X (n_tests, K), and J; None where it is streamed."""

    X: Array
    J: Blocks | None


class NotFiniteError(OperatorError):
    """An operator, or its derivative, is not a finite number on the state given."""


def columns(
    operators: Sequence[WeakOperator], space: Space, states: tuple[State, State], b: Any, few: Space | None = None
) -> dict[object, Column]:
    """Columns by the operators' keys, each weak form once.

    Parameters
    ----------
    states
        Where to evaluate, and where to linearise.
    b
        Stencil (K × T), sparse.
    few
        The space of the state at which operators are linearised, where that has fewer nodes.
    """
    state, at = states
    own = space if few is None else few
    distinct = {operator.key: operator for operator in operators}
    constant = [o for o in distinct.values() if has_constant_jacobian(o, state)]
    linear = [] if space.nodal else constant
    found: dict[object, Column] = {}
    for operator, column in zip(linear, _linear_columns(linear, space, state, b), strict=True):
        found[operator.key] = column
    streamed = streamed_operators(list(distinct.values()), space, state)
    for operator, F in zip(streamed, _streamed_values(streamed, space, state), strict=True):
        found[operator.key] = Column(_summed(b, F), None)
    kept = [operator for key, operator in distinct.items() if key not in found]
    J = jacobians(kept, own, at)
    if space.nodal:
        if any(operator.forms["facets"].terms for operator in kept):
            space.measure("facets")  # refuses: there are none
        near = state if few is None else at  # where J is
        for operator, block, X in zip(kept, J, _nodal_sums(kept, space, state, b), strict=True):
            zero = operator in constant and _is_rounding(X / _weight(b), block, operator, own, near)
            found[operator.key] = Column(np.zeros_like(X) if zero else X, block)
        return found
    for operator, block in zip(kept, J, strict=True):
        F = _cleaned(evaluate(operator, space, state), block, operator, space, state)
        found[operator.key] = Column(_summed(b, F), block)
    return found


def _nodal_sums(operators: Sequence[WeakOperator], space: Space, state: State, b: Any) -> Iterator[Array]:
    """X_ki = Σ_α E_α (w ∘ Σ_j b_kj g_α(û_j)) on nodal spaces, some operators at a time, to bound memory."""
    most = _SUMS // (8 * len(space.measure("cells").weights) * b.shape[0])
    if most < _FEW_SUMS:
        yield from _tested_sums(operators, space, state, b)
        return
    batch: list[WeakOperator] = []
    for operator in operators:
        batch.append(operator)
        if len({term.integrand for one in batch for term in one.forms["cells"].terms}) >= most:
            yield from _batch_sums(batch, space, state, b)
            batch = []
    yield from _batch_sums(batch, space, state, b) if batch else []


def _batch_sums(operators: Sequence[WeakOperator], space: Space, state: State, b: Any) -> list[Array]:
    """X_ki = Σ_α E_α (w ∘ Σ_j b_kj g_α(û_j)) for some operators: sums over times first, one for ∂_x g and ∂_y g."""
    owner: dict[object, tuple[int, Jet]] = {}
    for i, operator in enumerate(operators):
        for term in operator.forms["cells"].terms:
            owner.setdefault(term.integrand, (i, term.test))
    used, measure = sorted({i for i, _ in owner.values()}), space.measure("cells")
    sums = {g: np.zeros((len(measure.weights), b.shape[0])) for g in owner}
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        for _, times, terms in integrands([operators[i] for i in used], space, state):
            shape = (len(measure.weights), times.stop - times.start)
            for position, term, g in terms:
                if owner[term.integrand] == (used[position], term.test):
                    sums[term.integrand] += _summed(b[:, times], np.broadcast_to(g, shape))
        found = [np.zeros((space.n_tests, b.shape[0])) for _ in operators]
        for X, operator in zip(found, operators, strict=True):
            for term in operator.forms["cells"].terms:
                X += space.functional(measure, term.test, sums[term.integrand])
    for X, operator in zip(found, operators, strict=True):
        if not np.isfinite(X).all():
            evaluate(operator, space, state)  # the error names the time
    return found


def _tested_sums(operators: Sequence[WeakOperator], space: Space, state: State, b: Any) -> list[Array]:
    """X_ki = Σ_j b_kj Σ_α E_α (w ∘ g_α(û_j)): sums over nodes first, in one pass over the data, for very many nodes."""
    found, measure = [np.zeros((space.n_tests, b.shape[0])) for _ in operators], space.measure("cells")
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        for _, times, terms in integrands(operators, space, state):
            tested: dict[object, Array] = {}
            for i, term, g in terms:
                key = (term.integrand, term.test)
                if key not in tested:
                    tested[key] = _summed(b[:, times], space.functional(measure, term.test, g))
                found[i] += tested[key]
    for X, operator in zip(found, operators, strict=True):
        if not np.isfinite(X).all():
            evaluate(operator, space, state)  # the error names the time
    return found


def _linear_columns(operators: Sequence[WeakOperator], space: Space, state: State, b: Any) -> Iterator[Column]:
    """J Σ_j b_kj û_j + Σ_j b_kj F(0) of operators with one Jacobian for all times."""
    sums = {name: _summed(b, values) for name, values in state.fields.items()} if operators else {}
    for operator, J in zip(operators, jacobians(operators, space, state), strict=True):
        X = np.zeros((space.n_tests, b.shape[0]))
        with np.errstate(all="ignore"):  # what is not finite is refused by name below
            for name, _, entries in J:
                X += space.reach(reach_of(operator)).matrix(entries[0]) @ sums[name]
            if operator.has_source:
                zero = State(state.times, {name: 0 * u for name, u in state.fields.items()}, state.auxiliary)
                X += _summed(b, _integrated([operator], space, _with_recovered(operator, space, zero))[0])
        if not np.isfinite(X).all():
            evaluate(operator, space, state)  # the error names the time
        yield Column(np.zeros_like(X) if _is_rounding(X / _weight(b), J, operator, space, state) else X, J)


def _weight(b: Any) -> float:
    """max_k Σ_j |b_kj|, which may be as small as a time step."""
    return max(float(abs(b).sum(axis=1).max()), np.finfo(float).tiny)


def _streamed_values(operators: Sequence[WeakOperator], space: Space, state: State) -> Iterator[Array]:
    """F of operators whose Jacobians are not kept; J at the time of the largest fields decides what is rounding."""
    if not operators:  # most often, and data may be many
        return
    sizes = np.max([np.abs(values).max(axis=0) for values in state.fields.values()], axis=0)
    largest = state.at(slice(int(sizes.argmax()), int(sizes.argmax()) + 1))
    values = _integrated(operators, space, state)
    for operator, F in zip(operators, values, strict=True):
        check_finite(operator, F.T, state)
    for operator, F, J in zip(operators, values, jacobians(operators, space, largest), strict=True):
        yield _cleaned(F, J, operator, space, state)


def streamed_operators(operators: Sequence[WeakOperator], space: Space, state: State) -> list[WeakOperator]:
    """Those of the operators whose Jacobians are not kept: none where all of them together are small."""
    nonlinear = [o for o in operators if not (space.nodal or o.recovered or has_constant_jacobian(o, state))]
    size = sum(8.0 * state.n_times * len(o.reads) * space.reach(reach_of(o)).nnz for o in nonlinear)
    return nonlinear if size > KEEP_BYTES else []


def _summed(b: Any, values: Array) -> Array:
    """Σ_j b_kj v_j for v (n, T), (n, K)."""
    return np.ascontiguousarray((b @ values.T).T)


def _cleaned(F: Array, J: Blocks, operator: WeakOperator, space: Space, state: State) -> Array:
    """F, or zeros where it is rounding only."""
    return np.zeros_like(F) if _is_rounding(F, J, operator, space, state) else F


def _is_rounding(F: Array, J: Blocks, operator: WeakOperator, space: Space, state: State) -> bool:
    """Whether F is what rounding leaves of zero, such as the derivative of a constant: ‖F‖ ≪ ‖|J||u|‖."""
    largest, total = np.abs(F).max(), np.zeros(space.n_tests)
    with np.errstate(over="ignore"):
        bound = sum(np.abs(entries).max() * np.abs(state.nodal(name)).max() for name, _, entries in J)
    if not J or np.isinf(bound) or (not space.nodal and largest > _CLEARLY * bound):
        return False  # the usual case, decided without further products
    for name, test, entries in J:
        J_size, u_size = np.abs(entries).max(axis=0), np.abs(state.nodal(name)).max(axis=1)
        if test is None:
            total += space.reach(reach_of(operator)).matrix(J_size) @ u_size
        else:
            total += (space.tests_at_nodes(test).magnitude() @ (J_size * u_size)[:, None])[:, 0]
    return bool(largest <= _ROUNDING * total.max())


def evaluate(operator: WeakOperator, space: Space, state: State) -> Array:
    """F(u) (n_tests, T), straight from the weak form."""
    (F,) = _integrated([operator], space, _with_recovered(operator, space, state))
    check_finite(operator, F.T, state)
    return F


def _integrated(operators: Sequence[WeakOperator], space: Space, state: State) -> list[Array]:
    """F(u) (n_tests, T) of several operators, on a state that has what they recover."""
    total = [np.zeros((space.n_tests, state.n_times)) for _ in operators]
    with np.errstate(all="ignore"):  # callers refuse by name what is not finite
        for where, times, terms in integrands(operators, space, state):
            measure = space.measure(where)
            shape = (len(measure.weights), times.stop - times.start)
            for i, term, g in terms:
                total[i][:, times] += space.functional(measure, term.test, np.broadcast_to(g, shape))
    return total


def jacobian(operator: WeakOperator, space: Space, state: State) -> dict[str, Array]:
    """J(u) by field on elements, on the pattern of its reach: (1, nnz) where it does not change with time, else
    (T, nnz).
    """
    return {name: entries for name, _, entries in jacobians([operator], space, state)[0]}


def jacobians(operators: Sequence[WeakOperator], space: Space, state: State) -> list[Blocks]:
    """J(u) of several operators; matrices between the same derivatives are made side by side."""
    found: list[Blocks] = [()] * len(operators)
    for constant in (True, False):
        times = state.at(slice(0, 1)) if constant else state
        mine = [i for i, o in enumerate(operators) if has_constant_jacobian(o, state) == constant]
        direct = [i for i in mine if not operators[i].recovered]
        make = _nodal_jacobians if space.nodal else _direct_jacobians
        with np.errstate(all="ignore"):  # what is not finite is refused by name below
            for i, J in zip(direct, make([operators[i] for i in direct], space, times), strict=True):
                found[i] = J
            for i in set(mine) - set(direct):
                found[i] = _chained_jacobian(operators[i], space, times)
        for i in mine:
            for _, _, entries in found[i]:
                check_finite(operators[i], entries, times)
    return found


def _nodal_jacobians(operators: Sequence[WeakOperator], space: Space, state: State) -> list[Blocks]:
    """V diag(∂g/∂u) for every derivative of the test functions; that of ∂_x g and of ∂_y g is one array."""
    recipes = [_recipes(operator, space) for operator in operators]
    owner: dict[object, tuple[int, object]] = {}
    for i, own in enumerate(recipes):
        for place, recipe in own.items():
            owner.setdefault(recipe, (i, place))
    used = sorted({i for i, _ in owner.values()})
    made: dict[object, Array] = {}
    for _, times, terms in integrands([operators[i] for i in used], space, state, derivative=True):
        for position, term, c in terms:
            for test, diagonal in _by_parts(term, c, space):
                i, place = used[position], (term.field, test)
                if owner[recipes[i][place]] == (i, place):
                    shape = (state.n_times, space.n_dofs)
                    made.setdefault(recipes[i][place], np.zeros(shape))[times] += diagonal.T
    return [tuple((*place, made[recipe]) for place, recipe in own.items() if recipe in made) for own in recipes]


def _recipes(operator: WeakOperator, space: Space) -> dict[tuple[str, Jet], object]:
    """What adds up to the diagonal behind each derivative of the test functions, by field and derivative."""
    found: dict[tuple[str, Jet], tuple[object, ...]] = {}
    for term in operator.forms["cells"].jacobian:
        for test, _, moved in _shares(term, space):
            place = (term.field, test)
            found[place] = (*found.get(place, ()), (term.coefficient, term.trial, moved))
    return dict(found)


def _shares(term: JacobianTerm, space: Space) -> Iterator[tuple[MultiIndex, int, MultiIndex]]:
    """Tests and sign of ∫ ∂^α v ∂^γ(…), and γ, for all γ ≤ β, where ∂^α stands on the test function and ∂^β on δu."""
    assert not isinstance(term.trial, Sided)
    assert not isinstance(term.test, Sided)
    for moved in product(*(range(m + 1) for m in term.trial)):
        test, sign = space.by_parts(term.test, moved) if any(term.trial) else (term.test, 1)
        yield test, sign, moved


def _by_parts(term: JacobianTerm, c: Array, space: Space) -> Iterator[tuple[Jet, Array]]:
    """∫ ∂^α v c ∂^β δu = Σ_γ (−1)^|β−γ| (β over γ) ∫ ∂^α v ∂^γ(∂^(β−γ)c δu), as derivatives of v and their diagonals.

    For D_β in place of ∂^β that holds as far as D_β is right for waves as short as those in v c. V diag(c) D_β itself
    would not be a matrix of test functions at the nodes times a diagonal one, and its covariance thirty times the work.
    """
    assert not isinstance(term.trial, Sided)
    for test, sign, moved in _shares(term, space):
        left = tuple(b - m for b, m in zip(term.trial, moved, strict=True))
        if any(left) and len(c) == 1:
            continue  # the same at all nodes
        factor = sign * (-1) ** sum(left) * math.prod(map(math.comb, term.trial, moved))
        yield test, factor * (space.derivative_at_nodes(left) @ c if any(left) else c)


def _direct_jacobians(
    operators: Sequence[WeakOperator], space: Space, state: State, reach: Reach | None = None
) -> list[Blocks]:
    """Derivatives by every field that the weak forms name, recovered ones too, at every time, (T, nnz).

    Parameters
    ----------
    reach
        Reach of the pattern; by default that of each operator.
    """
    found: list[dict[str, Array]] = [{} for _ in operators]
    for where, times, terms in integrands(operators, space, state, derivative=True):
        shape = (len(space.measure(where).weights), times.stop - times.start)
        sites: dict[tuple[Jet, Jet, Reach], list[tuple[int, str, Array]]] = {}
        for i, term, c in terms:
            site = (term.test, term.trial, reach or reach_of(operators[i]))
            sites.setdefault(site, []).append((i, term.field, np.broadcast_to(c, shape)))
        for (test, trial, own), uses in sites.items():
            c = uses[0][2] if len(uses) == 1 else np.concatenate([c for _, _, c in uses], axis=1)
            values = space.bilinear(where, test, trial, c, own).reshape(len(uses), shape[1], -1)
            for (i, name, _), entries in zip(uses, values, strict=True):
                found[i].setdefault(name, np.zeros((state.n_times, entries.shape[1])))[times] += entries
    return [tuple((name, None, entries) for name, entries in J.items()) for J in found]


def _chained_jacobian(operator: WeakOperator, space: Space, state: State) -> Blocks:
    """J_u + J_w M_lumped⁻¹ J_R of an operator that reads recovered fields w, at every time, (T, nnz)."""
    reach_of(operator)
    (found,) = _direct_jacobians([operator], space, _with_recovered(operator, space, state), "cells")
    direct = {name: entries for name, _, entries in found}
    total = {name: space.widened(entries) for name, entries in direct.items() if name not in operator.recovered}
    for name, inner in operator.recovered.items():
        if name not in direct:  # recovered for nothing: it cancels in the weak form
            continue
        for read, _, blocks in _direct_jacobians([inner], space, state, "cells")[0]:
            chained = np.stack([space.chained(o, i) for o, i in zip(direct[name], blocks, strict=True)])
            total[read] = total[read] + chained if read in total else chained
    return tuple((name, None, entries) for name, entries in total.items())


def _with_recovered(operator: WeakOperator, space: Space, state: State) -> State:
    """The state with the fields that the operator recovers, w = M_lumped⁻¹ R(u)."""
    if not operator.recovered:
        return state
    lumped = space.lumped_mass[:, None]
    values = {w: _integrated([inner], space, state)[0] / lumped for w, inner in operator.recovered.items()}
    return replace(state, recovered=values)


def reach_of(operator: WeakOperator) -> Reach:
    """How far the operator couples the unknowns."""
    if operator.recovered and operator.forms["facets"].terms:
        raise OperatorError(
            f"operator {operator.name!r}: recovered fields and facets(...) in one operator; make two operators of it."
        )
    if operator.recovered:
        return "recovered"
    return "facets" if operator.forms["facets"].terms else "cells"


def has_constant_jacobian(operator: WeakOperator, state: State) -> bool:
    """Whether one Jacobian serves all times: linear in the state, and free of anything that varies in time."""
    return operator.state_linear and not operator.uses(operator.jacobian, state.varying())


def check_finite(operator: WeakOperator, values: Array, state: State) -> None:
    """Refuse values (T, ...) that are not finite, naming the operator and the first time."""
    finite = np.isfinite(values).reshape(state.n_times, -1).all(axis=1)
    if not finite.all():
        raise NotFiniteError(
            f"operator {operator.name!r}: it or its derivative is not finite at t = {state.times[finite.argmin()]:g}, "
            "since the fields leave its domain or are too large; write it so that it is defined there, change the unit "
            "of the fields, or leave it out."
        )


def integrands(
    operators: Sequence[WeakOperator], space: Space, state: State, *, derivative: bool = False
) -> Iterator[tuple[Where, slice, Iterator[tuple[int, Any, Array]]]]:
    """Kernels of weak forms at the points of quadrature: the one loop over measures, times and operators.

    For each measure and chunk of times an iterator over operators: position in ``operators``, term of the weak form,
    and its integrand (n_q or 1, times or 1). Fields at the points are evaluated once for all operators.

    Parameters
    ----------
    derivative
        Coefficients of the Jacobian instead of integrands.
    """
    for where in MEASURES:
        forms = [(i, o, o.forms[where]) for i, o in enumerate(operators)]
        used = [(i, o) for i, o, form in forms if (form.jacobian if derivative else form.terms)]
        if not used or not len(space.measure(where).weights):
            continue
        measure = space.measure(where)
        size = max(1, CHUNK_BYTES // (8 * max(len(measure.weights), 1)))
        for start in range(0, state.n_times, size):
            times = slice(start, min(start + size, state.n_times))
            values = SymbolValues(used[0][1].words, space, measure, state.at(times))
            noisy = where == "cells" and space.nodal and bool(state.variance)
            yield where, times, _kernels(used, where, values, "jacobian" if derivative else "values", noisy=noisy)
            for u in state.fields.values():
                release(u)


def _kernels(
    used: Sequence[tuple[int, WeakOperator]], where: Where, values: SymbolValues, kind: KernelKind, *, noisy: bool
) -> Iterator[tuple[int, Any, Array]]:
    for i, operator in used:
        form = operator.forms[where]
        with np.errstate(all="ignore"):  # what is not finite is refused by name
            arrays = operator.kernel(where, kind, noisy=noisy)(values)
        terms: Sequence[Any] = form.jacobian if kind == "jacobian" else form.terms
        for term, c in zip(terms, arrays, strict=True):
            shaped = c if c.ndim == 2 else c.reshape(1, 1)
            above = values.above(term.field, term.trial) if kind == "jacobian" else None
            yield i, term, shaped if above is None else shaped * above


class SymbolValues(Mapping["sp.Symbol", Array]):
    """Arrays of the symbols of a kernel at the points of a measure, made when first asked for."""

    def __init__(self, words: Vocabulary, space: Space, measure: Measure, state: State) -> None:
        self._words = words
        self._space = space
        self._measure = measure
        self._state = state
        self._made: dict[sp.Symbol, Array] = {}
        self.n_times = state.n_times

    def __getitem__(self, symbol: sp.Symbol) -> Array:
        if symbol not in self._made:
            self._made[symbol] = self._make(symbol)
        return self._made[symbol]

    def __iter__(self) -> Iterator[sp.Symbol]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def above(self, name: str, derivative: Jet) -> Array | None:
        """∂max(u, 0)/∂u at the points; None of other fields, and of derivatives."""
        if name not in self._state.positive or derivative != self._words.zero:
            return None
        return np.asarray(self._measure.trial.matrix(derivative) @ self._state.nodal(name) > 0, dtype=float)

    def _make(self, symbol: sp.Symbol) -> Array:
        jet = self._words.decode(symbol)
        if jet is not None:
            name, derivative = jet
            if self._space.nodal and not isinstance(derivative, Sided):
                nodal = self._state.nodal(name)
                if not any(derivative):
                    return nodal
                if name in self._state.auxiliary and all(map(of_materials, nodal.T)):
                    return np.zeros_like(nodal)  # nodes at jumps are not used
                return self._space.derivative_at_nodes(derivative) @ nodal
            values: Array = self._measure.trial.matrix(derivative) @ self._state.nodal(name)
            below = name in self._state.positive and derivative == self._words.zero
            return np.maximum(values, 0.0) if below else values
        noisy = self._words.covariance_of(symbol)
        if noisy is not None:
            name, a, b = noisy
            variance = self._state.variance[name]
            return self._space.derivative_covariance(a, b, variance) if any((*a, *b)) else variance
        if symbol.name == TIME:
            return self._state.times[None, :]
        if symbol in self._words.x:
            return self._measure.points[:, [self._words.x.index(symbol)]]
        if symbol.name in (FACET_SIZE, PENALTY):
            facet = self._measure.size if symbol.name == FACET_SIZE else self._measure.penalty
            assert facet is not None, "sizes stand in facet terms only"
            return facet[:, None]
        normals = self._measure.normals
        assert normals is not None, "normals stand in boundary terms only"
        return normals[:, [self._words.n.index(symbol)]]


def with_lags(state: State, L: dict[str, Any]) -> State:
    """The state with fields at earlier times, and the variance of their noise, Σ_j L_lj² Var(û_j)."""
    fields, variance = dict(state.recovered), dict(state.variance)
    for name, matrix in L.items():
        lag = lag_of(name)
        assert lag is not None
        fields[name] = np.ascontiguousarray((matrix @ state.fields[lag[0]].T).T)
        if lag[0] in variance:
            own = variance[lag[0]]
            everywhere = np.broadcast_to(own, (own.shape[0], state.n_times))
            variance[name] = np.ascontiguousarray((matrix.multiply(matrix) @ everywhere.T).T)
    return replace(state, recovered=fields, variance=variance)
