"""The bare linear algebra that any implementation must do, and the lagged iteration beside it.

    bare   one Cholesky factorisation Σ(θ) = L Lᵀ and one solve with K (d + 1) right-hand sides
    half   the same with half a solve, L⁻¹Z, which is all that ZᵀΣ⁻¹Z needs

which is what an iteration cannot do without: covariance, sums, update and all else come on top of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.infer import Fit, Lagged
from bvsi.likelihood import ResidualLikelihood, sensitivities
from bvsi.likelihood.covariance import SOLVE_COLUMNS
from bvsi.studies.benchmarks.performance.timing import best_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bare:
    """Seconds of a factorisation, and of a whole and of half a solve with all columns of [y, X]."""

    factoring: float
    solving: float
    half_solving: float

    @property
    def seconds(self) -> float:
        """Factorisation and solve."""
        return self.factoring + self.solving

    @property
    def half(self) -> float:
        """Factorisation and half a solve."""
        return self.factoring + self.half_solving


def bare(likelihood: ResidualLikelihood, theta: Array, repeats: int = 3) -> Bare:
    """On the matrix of the first block; columns all at once or a few at a time, whichever is quicker."""
    plan, residuals = likelihood.plans[0], likelihood.system.experiments[0]
    assert plan is not None
    values = plan.diagonal_block(0, *sensitivities(residuals, theta, 0))
    factoring, factor = best_of(repeats, lambda: plan.analysis.factor(values))
    columns = residuals.Z.reshape(len(residuals.Z), -1)
    cuts = range(SOLVE_COLUMNS, columns.shape[1], SOLVE_COLUMNS)
    slabs = [np.ascontiguousarray(slab) for slab in np.split(columns, cuts, axis=1)]

    def quickest(solve: Callable[[Array], Array]) -> float:
        at_once, _ = best_of(repeats, lambda: solve(columns))
        return min(at_once, best_of(repeats, lambda: [solve(slab) for slab in slabs])[0])

    return Bare(factoring, quickest(factor.solve), quickest(factor.whiten))


def lagged(likelihood: ResidualLikelihood, start: Array) -> tuple[float, float, Fit]:
    """Seconds of a whole lagged fit, those of one of its iterations on the average, and the fit.

    The start is given; all that the fit does beside its iterations counts as part of them.
    """
    begin = time.perf_counter()
    fit = Lagged().fit(likelihood, start=start)
    seconds = time.perf_counter() - begin
    return seconds, seconds / fit.status.iterations, fit
