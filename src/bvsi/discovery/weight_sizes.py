"""Bytes that the weights W = Σ(θ)⁻¹ of one experiment take, and fits with them, from symbolic analysis alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bvsi.discovery.assembly_sizes import MAKING, NUMBER, AssemblySizes
from bvsi.likelihood.covariance import SOLVE_COLUMNS, CovariancePlan
from bvsi.likelihood.stacked import StackedPlan
from bvsi.linalg import Pattern, analyse, usable_cores
from bvsi.linalg.supernodal_backend import SupernodalAnalysis
from bvsi.residual import Residuals, Structure

# Entries of a covariance up to which it is analysed; beyond, the size of its factor is an estimate.
MOST_ANALYSED = 4_000_000
# Bytes per entry of a covariance: its pattern and symbolic analysis, and its values while they are made.
_ANALYSED, _VALUES = 80, 28
# Arrays side by side of: a slab of right-hand sides, all residuals, all states, sensitivities of a block.
_SLABS, _RESIDUALS, _STATES, _SENSITIVITIES = 6, 5, 6, 4
# Numbers of an intermediate array of covariances from products of axes.
_TENSOR_CHUNK = 8_000_000
# Draws of noise in moment equations.
_DRAWS = 4
# Entries of a Cholesky factor per row in the plane, times log N: a rough figure of nested dissection.
_FILL = 1.0


@dataclass(frozen=True)
class WeightSizes:
    """Bytes by part; those of a fit are transient.

    pattern: of the covariance, with analysis; factor: one Cholesky factor with its work space; groups: how many differ.
    threads: factors that exist at a time; values: covariance while it is made; solves: right-hand sides and solutions.
    smoothed: regressors, states and scores. exact: whether the factor was analysed, not estimated.
    """

    pattern: float = 0.0
    factor: float = 0.0
    groups: int = 0
    threads: int = 1
    values: float = 0.0
    solves: float = 0.0
    smoothed: float = 0.0
    exact: bool = True


def weight_sizes(plan: CovariancePlan | None, structure: Structure, sizes: AssemblySizes, d: int) -> WeightSizes:
    """For a plan whose structure has no values yet."""
    if plan is None:
        return WeightSizes(solves=_RESIDUALS * sizes.Z / (1 + d))
    if isinstance(plan, StackedPlan):
        return _stacked(plan, structure, sizes, d)
    return _block(plan, structure, sizes, d)


def _block(plan: CovariancePlan, structure: Structure, sizes: AssemblySizes, d: int) -> WeightSizes:
    """One factor per thread; V of all times where they share a covariance, else of those under way."""
    N, K, T, n_u = structure.n_rows, structure.n_blocks, structure.n_times, structure.n_state
    groups = len(plan.groups(Residuals(structure, np.zeros((0, 0, 1)), ()))) if sizes.constant else K
    threads = min(groups, usable_cores())
    factor, exact = _factor(plan.pattern, structure)
    reach = int(np.diff(structure.a.indptr).max(initial=1)) + 1
    under_way = T if groups < K else min(T, reach * (2 * threads + 2))
    values = 2 * NUMBER * plan.pattern.nnz + _SENSITIVITIES * NUMBER * reach * structure.pattern.nnz
    columns = max(SOLVE_COLUMNS, 1 + 2 * d)
    return WeightSizes(
        pattern=_ANALYSED * float(plan.pattern.nnz),
        factor=factor,
        groups=groups,
        threads=threads,
        values=float(threads * values),
        solves=float(threads * _SLABS * NUMBER * N * columns),
        smoothed=float(NUMBER * n_u * d * under_way),
        exact=exact,
    )


def _stacked(plan: StackedPlan, structure: Structure, sizes: AssemblySizes, d: int) -> WeightSizes:
    """One factor of all residuals; conjugate gradients where that would be too large."""
    n, nnz = structure.n_rows * structure.n_blocks, float(plan.stacked.nnz)
    exact = plan.dense or nnz <= MOST_ANALYSED
    filled = 0.5 * NUMBER * len(plan.stacked.k) * float(structure.n_rows) ** 2  # as if blocks of Σ filled up
    factor = plan.factor_memory if exact else min(filled, 0.5 * NUMBER * float(n) ** 2)
    direct = plan.direct if exact else factor <= plan.max_memory
    moments = (1 + _DRAWS) * (1 + d)
    tensor = min(2.0 * NUMBER * _TENSOR_CHUNK, 4.0 * NUMBER * nnz) if plan.stacked.tensor is not None else 0.0
    combined = 2.0 * sizes.terms * sizes.states
    return WeightSizes(
        pattern=0.0 if plan.dense or not direct else _ANALYSED * nnz,
        factor=factor if direct else 0.0,
        groups=1,
        values=(_VALUES if direct else 0) * nnz + tensor,
        solves=float(_RESIDUALS * NUMBER * n * moments),
        smoothed=float(_STATES * sizes.states + combined + 3 * sizes.Z),
        exact=exact,
    )


def _factor(pattern: Pattern, structure: Structure) -> tuple[float, bool]:
    """Bytes of a Cholesky factor with its work space, and whether they were analysed."""
    if pattern.nnz <= MOST_ANALYSED:
        analysis = analyse(pattern, coordinates=structure.coordinates)
        if isinstance(analysis, SupernodalAnalysis):
            return NUMBER * float(analysis.symbolic.value_start[-1] + analysis.symbolic.stack_size), True
    return _FILL * NUMBER * pattern.nnz * max(1.0, math.log(pattern.shape[0])), False


def making(weights: WeightSizes) -> float:
    """Bytes that the making of the pattern takes on top of it."""
    return weights.pattern * MAKING / _ANALYSED
