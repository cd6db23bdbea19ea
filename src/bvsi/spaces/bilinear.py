"""Matrices ∫ ∂^α v c ∂^β u over one measure, for one coefficient or for those of many times.

E_αᵀ diag(w ∘ c) E_β on the pattern of all products of functions that meet at a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.jets import Jet
from bvsi.linalg import Pattern, Product
from bvsi.spaces.measure import Measure

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Products of two functions at a point that are worth keeping as a matrix from coefficients to entries.
_MAX_KEPT = 6_000_000


@dataclass(frozen=True, eq=False)
class Bilinear:
    """Matrices over one measure."""

    measure: Measure
    _maps: dict[tuple[Jet, Jet], Any] = field(default_factory=dict)

    @cached_property
    def _product(self) -> Product:
        return Product.plan(self.measure.test.pattern.transpose[0], self.measure.trial.pattern.transpose[0])

    @property
    def pattern(self) -> Pattern:
        """Pattern (n_test × n) of every matrix."""
        return self._product.out

    def values(self, test: Jet, trial: Jet, c: Array) -> Array:
        """Entries for coefficients c (n_q, T) or anything that broadcasts to it; returns (T, nnz)."""
        T = c.shape[1]
        full = np.broadcast_to(c, (self.measure.n_points, T))
        if T > 1 and self._kept:
            return np.ascontiguousarray((self._map(test, trial) @ full).T)
        return np.stack([self._one(test, trial, full[:, j]) for j in range(T)])

    def _one(self, test: Jet, trial: Jet, c: Array) -> Array:
        measure = self.measure
        weights = measure.weights * c
        pattern, order = measure.test.pattern.transpose
        left = measure.test.entries(test)[order] * weights[pattern.indices]
        right = measure.trial.entries(trial)[measure.trial.pattern.transpose[1]]
        return self._product.values(left, right)

    @property
    def _kept(self) -> bool:
        return int(self._pair_counts.sum()) <= _MAX_KEPT

    @cached_property
    def _pair_counts(self) -> Integers:
        """Pairs of functions that meet at each point, (n_q,)."""
        return np.diff(self.measure.test.pattern.indptr) * np.diff(self.measure.trial.pattern.indptr)

    @cached_property
    def _pairs(self) -> _Pairs:
        return _Pairs.of(self.measure.test.pattern, self.measure.trial.pattern, self.pattern)

    def _map(self, test: Jet, trial: Jet) -> Any:
        """Sparse matrix (nnz × n_q) from coefficients at the points to entries."""
        if (test, trial) not in self._maps:
            p, measure = self._pairs, self.measure
            entries = measure.test.entries(test)[p.left] * measure.trial.entries(trial)[p.right]
            entries *= measure.weights[p.points]
            shape = (self.pattern.nnz, measure.n_points)
            self._maps[test, trial] = sparse.csr_array((entries, p.points, p.indptr), shape=shape)
        return self._maps[test, trial]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of functions that meet at a point, sorted by the entry that they contribute to.

    left, right: slots in the patterns of test and trial; points: where; indptr: first pair of each entry.
    """

    left: Integers
    right: Integers
    points: Integers
    indptr: Integers

    @staticmethod
    def of(test: Pattern, trial: Pattern, out: Pattern) -> _Pairs:
        n_test, n_trial = np.diff(test.indptr), np.diff(trial.indptr)
        counts = n_test * n_trial
        points = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        left = test.indptr[points] + within // n_trial[points]
        right = trial.indptr[points] + within % n_trial[points]
        slots = out.locate(test.indices[left], trial.indices[right])
        order = np.argsort(slots, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(slots, minlength=out.nnz))])
        small = np.int32 if len(order) < 2**31 else np.int64
        return _Pairs(left[order], right[order], points[order].astype(small), indptr.astype(small))
