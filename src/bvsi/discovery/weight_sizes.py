"""Bytes that the weights W = Σ(θ)⁻¹ of one experiment take, and a fit with them, from symbolic analysis alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bvsi.discovery.assembly_sizes import MAKING, NUMBER, AssemblySizes, Shape
from bvsi.likelihood.covariance import SOLVE_COLUMNS, CovariancePlan
from bvsi.likelihood.stacked import StackedPlan
from bvsi.linalg import Pattern, analyse, usable_cores
from bvsi.linalg.supernodal_backend import SupernodalAnalysis
from bvsi.residual import Residuals, Structure

MOST_ANALYSED = 4_000_000
"""Entries of a pattern up to which it is made and analysed; beyond, the size of a factor is an estimate."""

# Bytes per entry of a covariance: its pattern and symbolic analysis; its values while they are made; and if dense.
_ANALYSED, _VALUES, _DENSE_VALUES = 80, 28, 12
# Arrays side by side of: a slab of right-hand sides, all residuals, all states, sensitivities of a block.
_SLABS, _RESIDUALS, _STATES, _SENSITIVITIES = 6, 5, 6, 4
# The second of them with conjugate gradients.
_GRADIENTS = 12
# Numbers of an intermediate array of covariances from products of axes.
_TENSOR_CHUNK = 8_000_000
# Draws of noise in moment equations.
_DRAWS = 4


@dataclass(frozen=True)
class WeightSizes:
    """Bytes by part; those of a fit are transient.

    pattern: of the covariance, with analysis; factor: one Cholesky factor with its work space; groups: how many differ.
    threads: factors that exist at a time; values: covariance while it is made; solves: right-hand sides and solutions.
    smoothed: regressors, states and scores. exact: whether the factor was analysed, not estimated.
    """

    pattern: float = 0.0
    factor: float = 0.0
    groups: int = 1
    threads: int = 1
    values: float = 0.0
    solves: float = 0.0
    smoothed: float = 0.0
    exact: bool = True

    @property
    def making(self) -> float:
        """Bytes that the making of the pattern takes on top of it."""
        return self.pattern * MAKING / _ANALYSED


def weight_sizes(
    plan: CovariancePlan | None,
    structure: Structure,
    shape: Shape,
    sizes: AssemblySizes,
    d: int,
    *,
    analysed: bool = True,
) -> WeightSizes:
    """For a plan whose structure has no values; analysed: whether it has patterns."""
    if plan is None:
        return WeightSizes(solves=float(_RESIDUALS * NUMBER * shape.residuals))
    if not isinstance(plan, StackedPlan):
        return _block(plan, structure, shape, sizes, d)
    nnz = float(plan.stacked.nnz)
    if plan.dense or (analysed and nnz <= MOST_ANALYSED):
        return _stacked(shape, sizes, d, nnz, plan.factor_memory if plan.direct else 0.0, dense=plan.dense)
    filled = 0.5 * NUMBER * len(plan.stacked.k) * float(shape.rows) ** 2  # as if blocks of Σ filled up
    factor = min(filled, 0.5 * NUMBER * float(shape.residuals) ** 2, plan.max_memory)
    return _stacked(shape, sizes, d, nnz, factor, dense=False, exact=False)


def _stacked(
    shape: Shape, sizes: AssemblySizes, d: int, nnz: float, factor: float, *, dense: bool, exact: bool = True
) -> WeightSizes:
    """One factor of all residuals; none where conjugate gradients do without."""
    tensor = min(2.0 * NUMBER * _TENSOR_CHUNK, 4.0 * NUMBER * nnz)
    values = (_DENSE_VALUES if dense else _VALUES) * nnz + tensor
    arrays = _RESIDUALS if factor else _GRADIENTS
    return WeightSizes(
        pattern=0.0 if dense or not factor else _ANALYSED * nnz,
        factor=factor,
        values=values if factor else 0.0,
        solves=float(arrays * NUMBER * shape.residuals * (1 + _DRAWS) * (1 + d)),
        smoothed=(_STATES + 2 * sizes.terms) * sizes.states + 3 * sizes.Z,
        exact=exact,
    )


def _block(plan: CovariancePlan, structure: Structure, shape: Shape, sizes: AssemblySizes, d: int) -> WeightSizes:
    """One factor per thread; scores of all times where they share a covariance, else of those under way."""
    groups = len(plan.groups(Residuals(structure, np.zeros((0, 0, 1)), ()))) if sizes.constant else shape.blocks
    threads = min(groups, usable_cores())
    reach = int(np.diff(structure.a.indptr).max(initial=1)) + 1
    under_way = shape.times if groups < shape.blocks else min(shape.times, reach * (2 * threads + 2))
    values = 2 * NUMBER * plan.pattern.nnz + _SENSITIVITIES * NUMBER * reach * structure.pattern.nnz
    factor, exact = _factor(plan.pattern, structure)
    return WeightSizes(
        pattern=_ANALYSED * float(plan.pattern.nnz),
        factor=factor,
        groups=groups,
        threads=threads,
        values=float(threads * values),
        solves=float(threads * _SLABS * NUMBER * shape.rows * max(SOLVE_COLUMNS, 1 + 2 * d)),
        smoothed=float(NUMBER * shape.state * d * under_way),
        exact=exact,
    )


def _factor(pattern: Pattern, structure: Structure) -> tuple[float, bool]:
    """Bytes of a Cholesky factor with its work space, and whether they were analysed.

    The estimate is that of nested dissection in the plane: log N times the entries of Σ.
    """
    if pattern.nnz <= MOST_ANALYSED:
        analysis = analyse(pattern, coordinates=structure.coordinates)
        if isinstance(analysis, SupernodalAnalysis):
            return NUMBER * float(analysis.symbolic.value_start[-1] + analysis.symbolic.stack_size), True
    return NUMBER * pattern.nnz * max(1.0, math.log(pattern.shape[0])), False
