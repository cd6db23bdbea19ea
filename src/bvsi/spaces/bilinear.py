"""Matrices ∫ ∂^α v c ∂^β u over one measure, for one coefficient or for many.

E_αᵀ diag(w ∘ c) E_β on the pattern of all products of functions that meet at a point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bvsi.common.jets import Jet
from bvsi.linalg import Congruence, Pattern
from bvsi.spaces.measure import Measure

Array = NDArray[np.float64]

# Coefficients done side by side: their work rows should stay in the cache.
_SIDE_BY_SIDE = 32


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
        weighted = np.broadcast_to(c, (measure.n_points, m)) * measure.weights[:, None]
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
