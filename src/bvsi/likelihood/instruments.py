"""Instrumental equations: regressors of other times stand in for those whose noise is in the residual.

    Z_k = X_{k−L} + X_{k+L},      A = Σ_k Z_kᵀ W_k X_k,      c = Σ_k Z_kᵀ W_k y_k,      A θ = c

L is the smallest shift at which two blocks share no data: the noise of Z_k is then independent of block k, so that
E[Z_kᵀW_k r_k(θ*)] = 0 and the solution is consistent whatever the noise level, if not efficient: a safe start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.likelihood.blocks import over_groups
from bvsi.likelihood.covariance import FactorisedGroup, Part
from bvsi.residual import Residuals, Structure

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InstrumentalEquations:
    """A (d, d), not symmetric, and c (d,)."""

    A: Array
    c: Array

    @staticmethod
    def total(parts: Sequence[InstrumentalEquations]) -> InstrumentalEquations:
        """Sum over parts."""
        return InstrumentalEquations(np.sum([e.A for e in parts], axis=0), np.sum([e.c for e in parts], axis=0))


def instrument_shift(structure: Structure) -> int:
    """Smallest L > 0 with which blocks k and k + L share no time."""
    return stencil_shift(structure.a, structure.b)


def stencil_shift(a: Any, b: Any) -> int:
    """The same from the stencil (K × T)."""
    used = sparse.csr_array(abs(a) + abs(b))
    used.sort_indices()
    first, last = used.indices[used.indptr[:-1]], used.indices[used.indptr[1:] - 1]
    shifts = (shift for shift in range(1, len(first)) if np.all(last[:-shift] < first[shift:]))
    return next(shifts, len(first))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Regressors around a part of an experiment: before (N, K_b, d) and after (N, K_a, d) its own blocks.

    shift: L of the whole experiment.
    """

    before: Array
    after: Array
    shift: int


def instrumental_equations(part: Part, theta: Array, around: Neighbours | None = None) -> InstrumentalEquations:
    """A and c of one experiment with W = W(θ); zero where the experiment is too short to have instruments.

    around: the rest of the experiment as far as it matters, where the part is not all of it.
    """
    residuals = part.residuals
    N, K, m = residuals.Z.shape
    shift = instrument_shift(residuals.structure) if around is None else around.shift

    def of_group(one: FactorisedGroup) -> Array:
        gram = np.zeros((m - 1, m))
        for blocks in one.group.slabs(2 * m):
            columns = np.concatenate([residuals.Z[:, blocks], _instruments(residuals, blocks, shift, around)], axis=2)
            white = one.factor.whiten(columns.reshape(N, -1)).reshape(-1, 2 * m - 1)
            gram += white[:, m:].T @ white[:, :m]
        return gram

    grams = over_groups(part, theta, of_group) if shift < K or around is not None else ()
    total = sum(grams, start=np.zeros((m - 1, m)))
    return InstrumentalEquations(total[:, 1:], total[:, 0])


def _instruments(residuals: Residuals, blocks: NDArray[np.int64], shift: int, around: Neighbours | None) -> Array:
    """X_{k−L} + X_{k+L}, those that exist, (N, blocks, d)."""
    K = residuals.structure.n_blocks
    total = np.zeros((len(residuals.Z), len(blocks), residuals.d))
    sources = [(0, residuals.X)]
    if around is not None:
        sources += [(-around.before.shape[1], around.before), (K, around.after)]
    for other in (blocks - shift, blocks + shift):
        for first, X in sources:
            there = (other >= first) & (other < first + X.shape[1])
            total[:, there] += X[:, other[there] - first]
    return total
