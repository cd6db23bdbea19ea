"""Jacobians of nonlinear operators on elements, computed when they are asked for; none is kept.

    J_i(û_j) = Σ_terms E_αᵀ diag(w ∘ c_i(û_j)) E_β           c_i = ∂g_i/∂u_β at the quadrature points

All operators of a time are done in one pass: fields are evaluated at the points once, Σ_i θ_i c_i is summed there, and
one matrix is made for every pair of derivatives (α, β), whatever the number of operators. Products J_i V go through the
points, E_αᵀ (w ∘ c_i ∘ E_β V), and inner products ⟨G, J_i⟩ through Σ_q w c_i (E_α G E_βᵀ)_qq, without matrices of J_i.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bvsi.common.arrays import Array
from bvsi.common.naming import Jet, Where
from bvsi.linalg import Pattern
from bvsi.residual.discrete import State, check_finite, integrands, reach_of
from bvsi.residual.jacobians import JacobianKind, Sums, over_blocks
from bvsi.residual.layout import Layout
from bvsi.spaces import Reach

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator
    from bvsi.operators.weak import JacobianTerm


class Site(NamedTuple):
    """Where a coefficient acts: equation and reach of its operator, derivatives of test and field."""

    equation: str
    reach: Reach
    test: Jet
    trial: Jet
    field: str


@dataclass(frozen=True, eq=False)
class WeakJacobians:
    """J_i(û_j) of some operators of one experiment; operators are numbered as they stand here.

    Attributes
    ----------
    state
        Fields at which they are linearised.
    """

    layout: Layout
    operators: tuple[WeakOperator, ...]
    state: State

    @property
    def pattern(self) -> Pattern:
        """Pattern (N × n_u) of the residual's Jacobian."""
        return self.layout.pattern

    def number(self, operator: WeakOperator) -> int:
        """Number of the operator with this weak form and equation."""
        wanted = (operator.key, operator.equation)
        return next(i for i, one in enumerate(self.operators) if (one.key, one.equation) == wanted)

    def check(self) -> None:
        """Refuse operators whose derivative is not finite somewhere."""
        for _, times, terms in self._coefficients(range(len(self.operators)), self.state):
            state = self.state.at(times)
            for i, _, c in terms:
                check_finite(self.operators[i], np.broadcast_to(c, (c.shape[0], state.n_times)).T, state)

    def values(self, weights: Mapping[int, float], time: int) -> Array:
        """Σ_i w_i J_i(û_time) on the pattern, (nnz,)."""
        layout, total = self.layout, np.zeros(self.pattern.nnz)
        for where, _, sums in self._combined(weights, self._at(time)):
            trials: dict[tuple[str, Reach, Jet, str], dict[Jet, Array]] = {}
            n = len(layout.space.measure(where).weights)
            for site, c in sums.items():
                key = (site.equation, site.reach, site.test, site.field)
                trials.setdefault(key, {})[site.trial] = np.broadcast_to(c[:, 0], n)
            for (equation, reach, test, field), coefficients in trials.items():
                values = layout.space.bilinear_sum(where, test, coefficients, reach)
                total[layout.slots[equation, field, reach].index] += layout.restrict(equation, values, reach)
        return total

    def apply(self, chosen: Sequence[int], time: int, V: Array) -> Array:
        """J_i(û_time) V of the chosen operators for V (n_u, m), (N, m, chosen)."""
        m, place = V.shape[1], {i: n for n, i in enumerate(chosen)}
        out = np.zeros((self.pattern.shape[0], m, len(chosen)))
        for where, _, terms in self._coefficients(chosen, self._at(time)):
            evaluated = _Evaluated(self.layout, where, V)
            tested: dict[tuple[str, Jet], dict[int, Array]] = {}
            for i, site, c in terms:
                sums, g = tested.setdefault((site.equation, site.test), {}), c * evaluated(site)
                sums[i] = sums[i] + g if i in sums else g
            for (equation, test), sums in tested.items():
                F = self._tested(equation, where, test, np.concatenate(list(sums.values()), axis=1))
                for n, i in enumerate(sums):
                    out[self.layout.rows(equation), :, place[i]] += F[:, n * m : (n + 1) * m]
        return out

    def everywhere(self, weights: Mapping[int, float], V: Array) -> Array:
        """Σ_i w_i J_i(û_j) V_j at all times, for V (n_u, T), (N, T)."""
        out = np.zeros((self.pattern.shape[0], V.shape[1]))
        for where, times, sums in self._combined(weights, self.state):
            evaluated = _Evaluated(self.layout, where, V[:, times])
            for site, c in sums.items():
                F = self._tested(site.equation, where, site.test, c * evaluated(site))
                out[self.layout.rows(site.equation), times] += F
        return out

    def transposed_everywhere(self, weights: Mapping[int, float], W: Array) -> Array:
        """Σ_i w_i J_i(û_j)ᵀ W_j at all times, for W (N, T, m), (n_u, T, m)."""
        layout, space = self.layout, self.layout.space
        out = np.zeros((self.pattern.shape[1], *W.shape[1:]))
        for where, times, sums in self._combined(weights, self.state):
            measure = space.measure(where)
            for site, c in sums.items():
                full = np.zeros((space.n_tests, times.stop - times.start, W.shape[2]))
                full[layout.tests[site.equation]] = W[layout.rows(site.equation), times]
                tested = measure.test.matrix(site.test) @ full.reshape(len(full), -1)
                factor = np.repeat(measure.weights[:, None] * c, W.shape[2], axis=1)
                start = layout.column_start[site.field]
                moved = measure.trial.matrix(site.trial).T @ (factor * tested)
                out[start : start + space.n_dofs, times] += moved.reshape(-1, *full.shape[1:])
        return out

    def inner(self, chosen: Sequence[int], G: Array, time: int) -> Array:
        """⟨G, J_i(û_time)⟩ of the chosen operators, for values G (nnz,) on the pattern, (chosen,)."""
        out, place = np.zeros(len(chosen)), {i: n for n, i in enumerate(chosen)}
        for where, _, terms in self._coefficients(chosen, self._at(time)):
            seen: dict[Site, Array] = {}
            for i, site, c in terms:
                if site not in seen:
                    seen[site] = self._at_points(where, site, G)
                out[place[i]] += float(np.sum(np.broadcast_to(c, (len(seen[site]), 1))[:, 0] * seen[site]))
        return out

    def _at(self, time: int) -> State:
        return self.state.at(slice(time, time + 1))

    def _at_points(self, where: Where, site: Site, G: Array) -> Array:
        """w (E_α G E_βᵀ)_qq at the points of the measure, (n_q,)."""
        entries = G[self.layout.slots[site.equation, site.field, site.reach].index]
        wide = self.layout.widen(site.equation, entries, site.reach)
        return self.layout.space.bilinear_adjoint(where, site.test, site.trial, wide, site.reach)

    def _tested(self, equation: str, where: Where, test: Jet, g: Array) -> Array:
        """E_testᵀ (w ∘ g) in the rows of the equation, for g (n_q, m)."""
        space = self.layout.space
        return space.functional(space.measure(where), test, g)[self.layout.tests[equation]]

    def _combined(self, weights: Mapping[int, float], state: State) -> Iterator[tuple[Where, slice, dict[Site, Array]]]:
        """Σ_i w_i c_i by site, (n_q or 1, times), for every measure and chunk of times."""
        for where, times, terms in self._coefficients(list(weights), state):
            total: dict[Site, Array] = {}
            for i, site, c in terms:
                more = weights[i] * c
                total[site] = total[site] + more if site in total else more
            n = times.stop - times.start
            yield where, times, {site: np.broadcast_to(c, (c.shape[0], n)) for site, c in total.items()}

    def _coefficients(
        self, chosen: Sequence[int], state: State
    ) -> Iterator[tuple[Where, slice, Iterator[tuple[int, Site, Array]]]]:
        """Number, site and coefficient c_i of the chosen operators, for every measure and chunk of times.

        Each weak form is evaluated once; operators that differ by their equation only share it.
        """
        forms: dict[object, list[int]] = {}
        for i in chosen:
            forms.setdefault(self.operators[i].key, []).append(i)
        groups = list(forms.values())
        distinct = [self.operators[group[0]] for group in groups]
        for where, times, terms in integrands(distinct, self.layout.space, state, derivative=True):
            yield where, times, ((i, self._site(i, term), c) for n, term, c in terms for i in groups[n])

    def _site(self, i: int, term: JacobianTerm) -> Site:
        operator = self.operators[i]
        return Site(operator.equation, reach_of(operator), term.test, term.trial, term.field)


class _Evaluated:
    """E_β V at the points of a measure, each made once; V (n_u, m)."""

    def __init__(self, layout: Layout, where: Where, V: Array) -> None:
        self.layout, self.trial, self.V = layout, layout.space.measure(where).trial, V
        self.made: dict[tuple[Jet, str], Array] = {}

    def __call__(self, site: Site) -> Array:
        key = (site.trial, site.field)
        if key not in self.made:
            start = self.layout.column_start[site.field]
            self.made[key] = self.trial.matrix(site.trial) @ self.V[start : start + self.layout.space.n_dofs]
        return self.made[key]


@dataclass(frozen=True, eq=False)
class Streamed(JacobianKind):
    """Σ_i w_i J_i(û_j) on the whole pattern, made by a source when it is asked for.

    Attributes
    ----------
    weights
        Number → w_i.
    """

    source: WeakJacobians
    weights: Mapping[int, float]
    constant = False

    @property
    def key(self) -> Hashable:
        """Operators of one source add up to one pass."""
        return Streamed, self.source

    def streamed(self) -> tuple[WeakJacobians, Mapping[int, float]]:
        """Source and weights."""
        return self.source, self.weights

    def times(self, scale: float) -> Streamed:
        """scale · Σ_i w_i J_i."""
        return replace(self, weights={i: scale * w for i, w in self.weights.items()})

    def plus(self, other: Streamed) -> Streamed:
        """The sum."""
        keys = [*self.weights, *(i for i in other.weights if i not in self.weights)]
        return replace(self, weights={i: self.weights.get(i, 0.0) + other.weights.get(i, 0.0) for i in keys})

    def add_values(self, out: Array, scale: float, time: int) -> None:
        """scale · Σ_i w_i J_i(û_time)."""
        out += scale * self.source.values(self.weights, time)

    def inner(self, G: Array, time: int) -> float:
        """⟨G, Σ_i w_i J_i(û_time)⟩."""
        return float(self.source.inner(list(self.weights), G, time) @ [*self.weights.values()])

    def add_applied(self, out: Array, time: int, V: Array) -> None:
        """Σ_i w_i J_i(û_time) V."""
        out += self.source.apply(list(self.weights), time, V) @ np.array([*self.weights.values()])

    def add_summed(self, out: Array, b: Any, V: Array, made: Sums) -> None:  # noqa: ARG002
        """Σ_i w_i J_i(û_j) V_j, and their sums."""
        out += (b @ self.source.everywhere(self.weights, V).T).T

    def add_summed_transposed(self, out: Array, b: Any, W: Array) -> None:
        """Σ_i w_i J_i(û_j)ᵀ Σ_k b_kj W_k."""
        out += self.source.transposed_everywhere(self.weights, over_blocks(W, b))
