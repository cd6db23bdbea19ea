"""Instrumental equations: regressors of other times stand in for those whose noise is in the residual.

    Z_k = X_{k−L} + X_{k+L},      A = Σ_k Z_kᵀ W_k X_k,      c = Σ_k Z_kᵀ W_k y_k,      A θ = c

L is the smallest shift at which two blocks share no data: the noise of Z_k is then independent of block k, so that
E[Z_kᵀW_k r_k(θ*)] = 0 and the solution is consistent whatever the noise level, if not efficient: a safe start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.blocks import over_groups
from bvsi.likelihood.covariance import FactorisedGroup, Part, stencil_row
from bvsi.residual import Residuals, Structure

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InstrumentalEquations:
    """A (d, d), not symmetric, and c (d,)."""

    A: Array
    c: Array


def instrument_shift(structure: Structure) -> int:
    """Smallest L > 0 with which blocks k and k + L share no time."""
    supports = [stencil_row(structure, k)[0] for k in range(structure.n_blocks)]
    for shift in range(1, structure.n_blocks):
        if all(supports[k][-1] < supports[k + shift][0] for k in range(structure.n_blocks - shift)):
            return shift
    return structure.n_blocks


def instrumental_equations(part: Part, theta: Array) -> InstrumentalEquations:
    """A and c of one experiment with W = W(θ); zero where the experiment is too short to have instruments."""
    residuals = part.residuals
    N, K, m = residuals.Z.shape
    shift = instrument_shift(residuals.structure)

    def of_group(one: FactorisedGroup) -> Array:
        gram = np.zeros((m - 1, m))
        for blocks in one.group.slabs(2 * m):
            columns = np.concatenate([residuals.Z[:, blocks], _instruments(residuals, blocks, shift)], axis=2)
            white = one.factor.whiten(columns.reshape(N, -1)).reshape(-1, 2 * m - 1)
            gram += white[:, m:].T @ white[:, :m]
        return gram

    grams = over_groups(part, theta, of_group) if shift < K else ()
    total = sum(grams, start=np.zeros((m - 1, m)))
    return InstrumentalEquations(total[:, 1:], total[:, 0])


def _instruments(residuals: Residuals, blocks: NDArray[np.int64], shift: int) -> Array:
    """X_{k−L} + X_{k+L}, those that exist, (N, blocks, d)."""
    K = residuals.structure.n_blocks
    total = np.zeros((len(residuals.Z), len(blocks), residuals.d))
    for other in (blocks - shift, blocks + shift):
        there = (other >= 0) & (other < K)
        total[:, there] += residuals.X[:, other[there]]
    return total
