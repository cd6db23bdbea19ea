"""Jacobians of nonlinear operators on elements, worked out when they are asked for; none is kept.

    J_i(û_j) = Σ_terms E_αᵀ diag(w ∘ c_i(û_j)) E_β           c_i = ∂g_i/∂u_β at the quadrature points

All operators of a time are done in one pass: fields are evaluated at the points once, Σ_i θ_i c_i is summed there, and
one matrix is made for every pair of derivatives (α, β), whatever the number of operators. Products J_i V go through the
points, E_αᵀ (w ∘ c_i ∘ E_β V), and inner products ⟨G, J_i⟩ through Σ_q w c_i (E_α G E_βᵀ)_qq, without matrices of J_i.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvsi.common.jets import MEASURES, Jet, Where
from bvsi.linalg import Pattern
from bvsi.operators import WeakOperator
from bvsi.operators.linearise import JacobianTerm
from bvsi.residual.discrete import State, SymbolValues, check_finite, chunks, reach_of
from bvsi.residual.layout import Layout
from bvsi.spaces import Reach

Array = NDArray[np.float64]


class Site(NamedTuple):
    """Where a coefficient acts: equation and reach of its operator, measure, derivatives of test and field."""

    equation: str
    reach: Reach
    where: Where
    test: Jet
    trial: Jet
    field: str


@dataclass(frozen=True, eq=False)
class WeakJacobians:
    """J_i(û_j) of some operators of one experiment; operators are numbered as they stand here.

    state: fields at which they are linearised.
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
        for chunk in self._chunks():
            state = self.state.at(chunk)
            for i, terms in self._coefficients(range(len(self.operators)), state):
                for _, c in terms:
                    check_finite(self.operators[i], np.broadcast_to(c, (c.shape[0], state.n_times)).T, state)

    def values(self, weights: Mapping[int, float], time: int) -> Array:
        """Σ_i w_i J_i(û_time) on the pattern, (nnz,)."""
        layout, total = self.layout, np.zeros(self.pattern.nnz)
        trials: dict[tuple[str, Reach, Where, Jet, str], dict[Jet, Array]] = {}
        for site, c in self._combined(weights, self.state.at(slice(time, time + 1))).items():
            key = (site.equation, site.reach, site.where, site.test, site.field)
            trials.setdefault(key, {})[site.trial] = np.broadcast_to(c[:, 0], layout.space.measure(site.where).n_points)
        for (equation, reach, where, test, field), coefficients in trials.items():
            values = layout.space.bilinear_sum(where, test, coefficients, reach)
            total[layout.slots[equation, field, reach]] += layout.restrict(equation, values, reach)
        return total

    def apply(self, chosen: Sequence[int], time: int, V: Array) -> Array:
        """J_i(û_time) V of the chosen operators for V (n_u, m), (N, m, chosen)."""
        state, m = self.state.at(slice(time, time + 1)), V.shape[1]
        evaluated, place = _Evaluated(self.layout, V), {i: n for n, i in enumerate(chosen)}
        out = np.zeros((self.pattern.shape[0], m, len(chosen)))
        tested: dict[tuple[str, Where, Jet], list[tuple[int, Array]]] = {}
        for i, terms in self._coefficients(chosen, state):
            sums: dict[tuple[str, Where, Jet], Array] = {}
            for site, c in terms:
                key = (site.equation, site.where, site.test)
                g = c * evaluated(site)
                sums[key] = sums[key] + g if key in sums else g
            for key, g in sums.items():
                tested.setdefault(key, []).append((place[i], g))
        for (equation, where, test), columns in tested.items():
            stack = np.concatenate([g for _, g in columns], axis=1)
            F = self._tested(equation, where, test, stack).reshape(-1, len(columns), m)
            for n, (position, _) in enumerate(columns):
                out[self.layout.rows(equation), :, position] += F[:, n]
        return out

    def everywhere(self, weights: Mapping[int, float], V: Array) -> Array:
        """Σ_i w_i J_i(û_j) V_j at all times, for V (n_u, T), (N, T)."""
        out = np.zeros((self.pattern.shape[0], V.shape[1]))
        for chunk in self._chunks():
            evaluated = _Evaluated(self.layout, V[:, chunk])
            for site, c in self._combined(weights, self.state.at(chunk)).items():
                out[self.layout.rows(site.equation), chunk] += self._tested(
                    site.equation, site.where, site.test, c * evaluated(site)
                )
        return out

    def transposed_everywhere(self, weights: Mapping[int, float], W: Array) -> Array:
        """Σ_i w_i J_i(û_j)ᵀ W_j at all times, for W (N, T), (n_u, T)."""
        layout, space = self.layout, self.layout.space
        out = np.zeros((self.pattern.shape[1], W.shape[1]))
        for chunk in self._chunks():
            for site, c in self._combined(weights, self.state.at(chunk)).items():
                measure = space.measure(site.where)
                full = np.zeros((space.n_tests, W[:, chunk].shape[1]))
                full[layout.tests[site.equation]] = W[layout.rows(site.equation), chunk]
                at_points = measure.weights[:, None] * c * (measure.test.matrix(site.test) @ full)
                start = layout.column_start[site.field]
                out[start : start + space.n_dofs, chunk] += measure.trial.matrix(site.trial).T @ at_points
        return out

    def inner(self, chosen: Sequence[int], G: Array, time: int) -> Array:
        """⟨G, J_i(û_time)⟩ of the chosen operators, for values G (nnz,) on the pattern, (chosen,)."""
        state, seen = self.state.at(slice(time, time + 1)), dict[Site, Array]()
        out, place = np.zeros(len(chosen)), {i: n for n, i in enumerate(chosen)}
        for i, terms in self._coefficients(chosen, state):
            for site, c in terms:
                if site not in seen:
                    seen[site] = self._at_points(site, G)
                out[place[i]] += float(np.sum(np.broadcast_to(c, (len(seen[site]), 1))[:, 0] * seen[site]))
        return out

    def _at_points(self, site: Site, G: Array) -> Array:
        """w (E_α G E_βᵀ)_qq at the points of the measure, (n_q,)."""
        entries = G[self.layout.slots[site.equation, site.field, site.reach]]
        wide = self.layout.widen(site.equation, entries, site.reach)
        return self.layout.space.bilinear_adjoint(site.where, site.test, site.trial, wide, site.reach)

    def _tested(self, equation: str, where: Where, test: Jet, g: Array) -> Array:
        """E_testᵀ (w ∘ g) in the rows of the equation, for g (n_q, m)."""
        space = self.layout.space
        return space.functional(space.measure(where), test, g)[self.layout.tests[equation]]

    def _combined(self, weights: Mapping[int, float], state: State) -> dict[Site, Array]:
        """Σ_i w_i c_i by site, (n_q, T)."""
        total: dict[Site, Array] = {}
        for i, terms in self._coefficients(list(weights), state):
            for site, c in terms:
                more = weights[i] * c
                total[site] = total[site] + more if site in total else more
        return {site: np.broadcast_to(c, (c.shape[0], state.n_times)) for site, c in total.items()}

    def _coefficients(self, chosen: Sequence[int], state: State) -> Iterator[tuple[int, list[tuple[Site, Array]]]]:
        """Number and coefficients of the chosen operators; fields at the points are evaluated once.

        Operators that differ by their equation only come one after the other and share their coefficients.
        """
        space, values = self.layout.space, dict[Where, SymbolValues]()
        last: object = None
        arrays: list[tuple[Where, JacobianTerm, Array]] = []
        for i in sorted(chosen, key=lambda i: self._kind[i]):
            operator = self.operators[i]
            if self._kind[i] != last:
                last, arrays = self._kind[i], []
                for where, form in operator.forms.items():
                    if form.jacobian:
                        at = values.setdefault(where, SymbolValues(operator.words, space.measure(where), state))
                        with np.errstate(all="ignore"):  # what is not finite is refused by name, see check
                            coefficients = form.jacobian_kernel(at)
                        found = zip(form.jacobian, coefficients, strict=True)
                        arrays += [(where, term, c if c.ndim == 2 else c.reshape(1, 1)) for term, c in found]
            equation, reach = operator.equation, reach_of(operator)
            yield i, [(Site(equation, reach, where, t.test, t.trial, t.field), c) for where, t, c in arrays]

    @cached_property
    def _kind(self) -> list[int]:
        """A number for each operator, the same for those with the same weak form."""
        known: dict[object, int] = {}
        return [known.setdefault(operator.key, len(known)) for operator in self.operators]

    def _chunks(self) -> Iterator[slice]:
        used = [where for where in MEASURES if any(o.forms[where].jacobian for o in self.operators)]
        points = max((self.layout.space.measure(where).n_points for where in used), default=1)
        return chunks(self.state.n_times, points)


class _Evaluated:
    """E_β V at the points, each made once; V (n_u, m)."""

    def __init__(self, layout: Layout, V: Array) -> None:
        self.layout, self.V = layout, V
        self.made: dict[tuple[Where, Jet, str], Array] = {}

    def __call__(self, site: Site) -> Array:
        key = (site.where, site.trial, site.field)
        if key not in self.made:
            space, start = self.layout.space, self.layout.column_start[site.field]
            own = self.V[start : start + space.n_dofs]
            self.made[key] = space.measure(site.where).trial.matrix(site.trial) @ own
        return self.made[key]
