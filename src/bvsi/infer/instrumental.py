"""Instrumental-variable estimate: consistent at any noise level, without error bars; a start for others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError, RankError
from bvsi.infer.priors import BoundPrior
from bvsi.infer.vsi import LeastSquares
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Instrumental:
    """A(θ_l) θ_{l+1} = c(θ_l) for a few weights, from the least-squares estimate.

    iterations: how often the weights are brought up to date, at most; tol: relative change that is small enough.
    """

    iterations: int = 4
    tol: float = 0.05

    def estimate(self, likelihood: ResidualLikelihood, prior: BoundPrior) -> Array | None:
        """θ (d,), or None where the instruments do not determine it."""
        try:
            theta = LeastSquares().fit(likelihood).theta
        except RankError:
            theta = prior.mean
        for _ in range(self.iterations):
            try:
                updated = self._update(likelihood, prior, theta)
            except (BvsiError, np.linalg.LinAlgError):
                return None
            if not np.all(np.isfinite(updated)):
                return None
            near = np.all(np.abs(updated - theta) <= self.tol * np.abs(updated))
            theta = updated
            if near:
                break
        return theta

    @staticmethod
    def _update(likelihood: ResidualLikelihood, prior: BoundPrior, theta: Array) -> Array:
        equations = likelihood.instrumental_equations(theta)
        A, c = equations.A + prior.precision, equations.c + prior.precision @ prior.mean
        row, column = np.linalg.norm(A, axis=1), np.linalg.norm(A, axis=0)
        if not (row.all() and column.all()):
            raise np.linalg.LinAlgError
        scale_row, scale_column = 1 / np.sqrt(row), 1 / np.sqrt(column)
        return np.asarray(scale_column * np.linalg.solve(scale_row[:, None] * A * scale_column, scale_row * c))
