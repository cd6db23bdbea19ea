"""Operators on a space: F_i(u) tested against every test function, and its Jacobian.

    F_i(u) = Σ_terms E_αᵀ (w ∘ g(E_β u, x, t))        J_i(u) = Σ E_αᵀ diag(w ∘ ∂g/∂u_β) E_β

Both come from the one weak form of the operator; for constant Jacobians ``F(u) = J u + F(0)`` is used. Operators may
read recovered fields w = M_lumped⁻¹ R(u); the chain rule then gives J_w M_lumped⁻¹ J_R.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from bvsi.common.jets import Jet
from bvsi.errors import OperatorError
from bvsi.linalg import Pattern
from bvsi.operators import Vocabulary, WeakOperator
from bvsi.operators.vocabulary import FACET_SIZE, PENALTY, TIME
from bvsi.spaces import Measure, Reach, Space

Array = NDArray[np.float64]

_CHUNK_BYTES = 64 * 2**20
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class State:
    """Fields at the degrees of freedom of a space.

    times: (T,); fields: name → (n, T); auxiliary: name → (n, T), or (n, 1) where constant in time.
    recovered: name → (n, T), fields that one operator recovers from the others.
    variance: name → noise variance, (n, T) or anything that broadcasts to it, for operators without its bias.
    """

    times: Array
    fields: Mapping[str, Array]
    auxiliary: Mapping[str, Array]
    recovered: Mapping[str, Array] = field(default_factory=dict)
    variance: Mapping[str, Array] = field(default_factory=dict)

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
        return State(self.times[chunk], fields, auxiliary, recovered, variance)

    def nodal(self, name: str) -> Array:
        """Values of a field of any kind."""
        return next(kind[name] for kind in (self.fields, self.auxiliary, self.recovered) if name in kind)

    def varying(self) -> frozenset[str]:
        """Known quantities that change in time: the time itself and auxiliary fields given per time."""
        return frozenset({TIME.name, *(g for g, v in self.auxiliary.items() if v.shape[1] > 1)})


@dataclass(frozen=True, eq=False)
class NodalTerm:
    """V diag(c_j) on a nodal space: derivative of the test functions in V; factor c, (T, n), or (1, n) if constant."""

    test: Jet
    factor: Array


@dataclass(frozen=True, eq=False)
class DiscreteOperator:
    """F and J of one operator for all times of a state.

    F: (n_tests, T). J: field → values on the space's pattern of its reach, (nnz,) where constant in time, else
    (T, nnz), or of a nodal space the sparse matrices and diagonals that make them up.
    """

    F: Array
    J: Mapping[str, Array | tuple[NodalTerm, ...]]


class NotFiniteError(OperatorError):
    """An operator, or its derivative, is not a finite number on the state given."""


def streams(operator: WeakOperator, space: Space, state: State) -> bool:
    """Whether Jacobians are worked out anew for every time: nonlinear on elements, so that keeping all is too much."""
    return not space.nodal and not operator.recovered and not has_constant_jacobian(operator, state)


def discretise(operator: WeakOperator, space: Space, state: State, at: State | None = None) -> DiscreteOperator:
    """Evaluate an operator at all times of a state, and its Jacobian there, or at another state if given."""
    if space.nodal:
        return _discretised_at_nodes(operator, space, state, at or state)
    J = jacobian(operator, space, at or state)
    F = _values(operator, space, state, J)
    rounding = is_rounding(F, J, space.reach(reach_of(operator)), state)
    return DiscreteOperator(np.zeros_like(F) if rounding else F, J)


def reach_of(operator: WeakOperator) -> Reach:
    """How far the operator couples the unknowns."""
    if operator.recovered and operator.forms["facets"].terms:
        raise OperatorError(
            f"operator {operator.name!r}: recovered fields and facets(...) in one operator; make two operators of it."
        )
    if operator.recovered:
        return "recovered"
    return "facets" if operator.forms["facets"].terms else "cells"


def is_rounding(F: Array, J: Mapping[str, Array], pattern: Pattern, state: State) -> bool:
    """Whether F is what rounding leaves of zero, such as the derivative of a constant: ‖F‖ ≪ ‖|J||u|‖."""
    largest = np.abs(F).max()
    with np.errstate(over="ignore"):
        bound = sum(np.abs(values).max() * np.abs(state.fields[name]).max() for name, values in J.items())
    if not J or largest > 1e-9 * bound or np.isinf(bound):
        return False  # the usual case, decided without further products
    size = np.zeros(pattern.shape[0])
    for name, values in J.items():
        rows = np.atleast_2d(np.abs(values)).max(axis=0)
        size += pattern.matrix(rows) @ np.abs(state.fields[name]).max(axis=1)
    return bool(largest <= _ROUNDING * size.max())


def evaluate(operator: WeakOperator, space: Space, state: State) -> Array:
    """F(u) (n_tests, T), straight from the weak form."""
    return _values(operator, space, state, {})


def jacobian(operator: WeakOperator, space: Space, state: State) -> dict[str, Array]:
    """J(u) by field, on the pattern of its reach: (nnz,) where it does not change with time, else (T, nnz)."""
    constant = has_constant_jacobian(operator, state)
    times = state.at(slice(0, 1)) if constant else state
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        total = _jacobians(operator, space, times)
    for block in total.values():
        check_finite(operator, block, times)
    return {name: block[0] if constant else block for name, block in total.items()}


def nodal_jacobian(operator: WeakOperator, space: Space, state: State) -> dict[str, tuple[NodalTerm, ...]]:
    """J(u) by field on a nodal space, V diag(∂g/∂u) for every derivative of the test functions."""
    form, measure = operator.forms["cells"], space.measure("cells")
    times = state.at(slice(0, 1)) if has_constant_jacobian(operator, state) else state
    total: dict[tuple[str, Jet], Array] = {}
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        values = SymbolValues(operator.words, measure, times)
        for term, c in zip(form.jacobian, form.jacobian_kernel(values), strict=True):
            full = np.broadcast_to(c, (measure.n_points, times.n_times)).T
            key = (term.field, term.test)
            total[key] = total[key] + full if key in total else np.array(full)
    for factor in total.values():
        check_finite(operator, factor, times)
    fields = dict.fromkeys(field for field, _ in total)
    return {f: tuple(NodalTerm(t, c) for (g, t), c in total.items() if g == f) for f in fields}


def _discretised_at_nodes(operator: WeakOperator, space: Space, state: State, at: State) -> DiscreteOperator:
    """On a nodal space; what is left of zero by rounding is zero where the operator is linear."""
    F, J = _values(operator, space, state, {}), nodal_jacobian(operator, space, at)
    if J and has_constant_jacobian(operator, state):
        size = np.zeros(space.n_tests)
        for name, terms in J.items():
            largest = np.abs(state.fields[name]).max(axis=1)
            for term in terms:
                size += (space.tests_at_nodes(term.test).magnitude() @ (np.abs(term.factor[0]) * largest)[:, None])[
                    :, 0
                ]
        if np.abs(F).max() <= _ROUNDING * size.max():
            F = np.zeros_like(F)
    return DiscreteOperator(F, J)


def _jacobians(operator: WeakOperator, space: Space, times: State) -> dict[str, Array]:
    """J(u) by measured field at every time, (T, nnz)."""
    reach = reach_of(operator)
    if reach != "recovered":
        return _direct_jacobians(operator, space, times, reach)
    direct = _direct_jacobians(operator, space, _with_recovered(operator, space, times), "cells")
    total = {name: space.widened(block) for name, block in direct.items() if name not in operator.recovered}
    for name, inner in operator.recovered.items():
        if name not in direct:  # recovered for nothing: it cancels in the weak form
            continue
        for read, blocks in _direct_jacobians(inner, space, times, "cells").items():
            chained = np.stack([space.chained(o, i) for o, i in zip(direct[name], blocks, strict=True)])
            total[read] = total[read] + chained if read in total else chained
    return total


def _direct_jacobians(operator: WeakOperator, space: Space, times: State, reach: Reach) -> dict[str, Array]:
    """Derivative by every field that the weak form names, recovered ones too, at every time, (T, nnz)."""
    total: dict[str, Array] = {}
    for where, form in operator.forms.items():
        if not form.jacobian:
            continue
        measure = space.measure(where)
        for chunk in chunks(times.n_times, measure.n_points):
            values = SymbolValues(operator.words, measure, times.at(chunk))
            for term, c in zip(form.jacobian, form.jacobian_kernel(values), strict=True):
                block = total.setdefault(term.field, np.zeros((times.n_times, space.reach(reach).nnz)))
                full = np.broadcast_to(c, (c.shape[0] if c.ndim else 1, values.n_times))
                block[chunk] += space.bilinear(where, term.test, term.trial, full, reach)
    return total


def _with_recovered(operator: WeakOperator, space: Space, state: State) -> State:
    """The state with the fields that the operator recovers, w = M_lumped⁻¹ R(u)."""
    if not operator.recovered:
        return state
    lumped = space.lumped_mass[:, None]
    values = {w: _weak_values(inner, space, state) / lumped for w, inner in operator.recovered.items()}
    return replace(state, recovered=values)


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


def _values(operator: WeakOperator, space: Space, state: State, J: Mapping[str, Array]) -> Array:
    """F(u) (n_tests, T): J u + F(0) where J is given and constant, else from the weak form."""
    with np.errstate(all="ignore"):  # what is not finite is refused by name below
        linear = bool(J) and has_constant_jacobian(operator, state)
        total = _linear_values(operator, space, state, J) if linear else _weak_values(operator, space, state)
    check_finite(operator, total.T, state)
    return total


def _linear_values(operator: WeakOperator, space: Space, state: State, J: Mapping[str, Array]) -> Array:
    total = np.zeros((space.n_tests, state.n_times))
    for name, entries in J.items():
        total += space.reach(reach_of(operator)).matrix(entries) @ state.fields[name]
    return total + at_zero_state(operator, space, state) if operator.has_source else total


def _weak_values(operator: WeakOperator, space: Space, state: State) -> Array:
    total = np.zeros((space.n_tests, state.n_times))
    state = _with_recovered(operator, space, state)
    for where, form in operator.forms.items():
        if not form.terms:
            continue
        measure = space.measure(where)
        for chunk in chunks(state.n_times, measure.n_points):
            values = SymbolValues(operator.words, measure, state.at(chunk))
            unbiased = where == "cells" and space.nodal and bool(state.variance)
            kernel = operator.unbiased_kernel if unbiased else form.value_kernel
            for term, g in zip(form.terms, kernel(values), strict=True):
                full = np.broadcast_to(g, (measure.n_points, values.n_times))
                total[:, chunk] += space.functional(measure, term.test, full)
    return total


def at_zero_state(operator: WeakOperator, space: Space, state: State) -> Array:
    """F(0) (n_tests, T), of measured fields that vanish."""
    zero = {name: np.zeros((space.n_dofs, state.n_times)) for name in state.fields}
    return _weak_values(operator, space, State(state.times, zero, state.auxiliary))


def chunks(n_times: int, n_points: int) -> Iterator[slice]:
    """Times taken together so that an array of quadrature values stays small."""
    size = max(1, _CHUNK_BYTES // (8 * max(n_points, 1)))
    for start in range(0, n_times, size):
        yield slice(start, min(start + size, n_times))


class SymbolValues(Mapping[sp.Symbol, Array]):
    """Arrays of the symbols of a kernel at the points of a measure, made when first asked for."""

    def __init__(self, words: Vocabulary, measure: Measure, state: State) -> None:
        self._words = words
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

    def _make(self, symbol: sp.Symbol) -> Array:
        jet = self._words.decode(symbol)
        if jet is not None:
            name, derivative = jet
            values: Array = self._measure.trial.matrix(derivative) @ self._state.nodal(name)
            return values
        noisy = self._words.variance_of(symbol)
        if noisy is not None:
            return self._state.variance[noisy]
        if symbol == TIME:
            return self._state.times[None, :]
        if symbol in self._words.x:
            return self._measure.points[:, [self._words.x.index(symbol)]]
        if symbol in (FACET_SIZE, PENALTY):
            facet = self._measure.size if symbol == FACET_SIZE else self._measure.penalty
            assert facet is not None, "sizes stand in facet terms only"
            return facet[:, None]
        normals = self._measure.normals
        assert normals is not None, "normals stand in boundary terms only"
        return normals[:, [self._words.n.index(symbol)]]
