"""Quadrature with the basis functions evaluated at its points.

    E_β (n_q × n):  (E_β)_qj = ∂^β φ_j(x_q),  |β| ≤ 2          weights w (n_q,)

Fields and derivatives at the points are ``E_β u``; functionals are ``E_αᵀ (w ∘ g)``; matrices are
``E_αᵀ diag(w ∘ c) E_β``, on the pattern of all products of functions that meet at a point. All E_β of a measure share
one sparsity pattern; each is made when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import Jet, MultiIndex, Sided
from bvsi.errors import SpaceError
from bvsi.linalg import Congruence, Pattern

# Highest order of the derivatives that a measure offers: C1 elements have no more.
_ORDER = 2
# Coefficients done side by side, so that their work rows stay in the cache; not measured, rows of 256 bytes.
_SIDE_BY_SIDE = 32


def derivatives(dim: int) -> tuple[MultiIndex, ...]:
    """All multi-indices β with |β| ≤ 2."""
    return tuple(index for index in product(range(_ORDER + 1), repeat=dim) if sum(index) <= _ORDER)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Basis functions and their derivatives at points.

    Attributes
    ----------
    pattern
        (n_q × n), the same for every derivative.
    offered
        Multi-indices β; on interior facets Sided(β, ±1).
    make
        β → entries of E_β (nnz,), asked for once; ``made`` keeps them as matrices, ``turned`` their transposes.
    """

    pattern: Pattern
    offered: tuple[Jet, ...]
    make: Callable[[Any], Array]
    made: dict[Jet, Any] = field(default_factory=dict, init=False)
    turned: dict[Jet, Any] = field(default_factory=dict, init=False)

    @staticmethod
    def from_local(
        n: int, columns: Integers, offered: tuple[MultiIndex, ...], make: Callable[[MultiIndex], Array]
    ) -> Evaluation:
        """Build from rows of equal length: functions ``columns`` (n_q, m), whose derivatives β are make(β) (n_q, m)."""
        n_q, m = columns.shape
        order = np.argsort(columns, axis=1, kind="stable")
        indices = np.take_along_axis(columns, order, axis=1).ravel()
        pattern = Pattern((n_q, n), np.arange(0, n_q * m + 1, m, dtype=np.int64), indices.astype(np.int64))
        order = order.astype(np.min_scalar_type(m))  # kept for derivatives asked for later

        def entries(index: MultiIndex) -> Array:
            return np.take_along_axis(make(index), order, axis=1).ravel()

        return Evaluation(pattern, offered, entries)

    @staticmethod
    def from_sides(
        n: int,
        columns: tuple[Integers, Integers],
        offered: tuple[MultiIndex, ...],
        make: Callable[[MultiIndex, int], Array],
    ) -> Evaluation:
        """Build from both sides of facets: rows are unions of ``columns`` (n_q, m) of + and −.

        Parameters
        ----------
        make
            Derivatives β seen from side ±1, (n_q, m); entries of functions of the other side only are zero.
        """
        rows = np.concatenate([np.repeat(np.arange(len(side)), side.shape[1]) for side in columns])
        pattern, slots = Pattern.from_coo(rows, np.concatenate([c.ravel() for c in columns]), (len(columns[0]), n))
        place = {1: slots[: columns[0].size], -1: slots[columns[0].size :]}

        def entries(key: Sided) -> Array:
            values = np.zeros(pattern.nnz)
            values[place[key.side]] = make(*key).ravel()
            return values

        return Evaluation(pattern, tuple(Sided(i, side) for i in offered for side in (1, -1)), entries)

    def matrix(self, index: Jet) -> Any:
        """E_index as a sparse matrix; a derivative that the element does not carry is refused."""
        if index not in self.offered:
            raise SpaceError(f"the element has no derivative {index}; use an element of higher order.")
        if index not in self.made:
            self.made[index] = self.pattern.matrix(self.make(index))
        return self.made[index]

    def transposed(self, index: Jet) -> Any:
        """E_indexᵀ, of the same entries; made once, since solves in time ask for it at every step."""
        if index not in self.turned:
            self.turned[index] = self.matrix(index).T
        return self.turned[index]

    def entries(self, index: Jet) -> Array:
        """Entries of E_index."""
        entries: Array = self.matrix(index).data
        return entries


@dataclass(frozen=True, eq=False)
class Measure:
    """Integration over cells, boundary facets or interior facets.

    Attributes
    ----------
    weights
        (n_q,).
    points
        (n_q, dim).
    normals
        Unit normals (n_q, dim), outward on the boundary, from the + to the − cell on interior facets, else None.
    trial, test
        The fields' and the test functions' basis at the points; on interior facets keyed by Sided.
    size, penalty
        h_E and α/h_E at the points of facets (n_q,), see :mod:`bvsi.spaces.element`; None on cells.
    """

    weights: Array
    points: Array
    normals: Array | None
    trial: Evaluation
    test: Evaluation
    size: Array | None = None
    penalty: Array | None = None


@dataclass(frozen=True, eq=False)
class Bilinear:
    """Matrices over one measure."""

    measure: Measure

    @cached_property
    def _congruence(self) -> Congruence:
        return Congruence.plan(self.measure.test.pattern, self.measure.trial.pattern)

    @property
    def pattern(self) -> Pattern:
        """Pattern (n_test × n) of every matrix."""
        return self._congruence.out

    def values(self, test: Jet, trial: Jet, c: Array) -> Array:
        """Entries for coefficients c (n_q, m) or anything that broadcasts to it; returns (m, nnz)."""
        measure, m = self.measure, c.shape[1]
        ends = measure.test.entries(test), measure.trial.entries(trial)
        weighted = np.broadcast_to(c, (len(measure.weights), m)) * measure.weights[:, None]
        parts = [weighted[:, s : s + _SIDE_BY_SIDE] for s in range(0, m, _SIDE_BY_SIDE)]
        return np.concatenate([self._congruence.values(*ends, part) for part in parts])

    def summed(self, test: Jet, trials: Mapping[Jet, Array]) -> Array:
        """Σ_β E_testᵀ diag(w ∘ c_β) E_β for coefficients c_β (n_q,) by derivative β, in one product, (nnz,)."""
        measure = self.measure
        points = measure.trial.pattern.rows
        right = np.zeros(measure.trial.pattern.nnz)
        for trial, c in trials.items():
            right += c[points] * measure.trial.entries(trial)
        return np.asarray(self._congruence.values(measure.test.entries(test), right, measure.weights[:, None])[0])

    def adjoint(self, test: Jet, trial: Jet, G: Array) -> Array:
        """w_q (E_α G E_βᵀ)_qq for values G (nnz,), (n_q,): ⟨G, E_αᵀ diag(w ∘ c) E_β⟩ is its inner product with c."""
        measure = self.measure
        ends = measure.test.entries(test), measure.trial.entries(trial)
        return np.asarray(measure.weights * self._congruence.adjoint(*ends, G))
