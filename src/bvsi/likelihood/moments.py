"""Moment equations: least squares at fixed weights, with what noise adds to it taken off.

    [q gᵀ; g H] = ZᵀWZ,   Z = [y, X],      E[ZᵀWZ] = Z_0ᵀWZ_0 + B
    B = E[ζᵀWζ],   ζ = [Σ_j a_kj M ε_j, Σ_j b_kj J_i ε_j]

for noise-free Z_0, whatever the weights W, as long as they do not follow the noise. Solving (H − N) θ = g − c with
B = [. cᵀ; c N] is therefore unbiased: a safe ground on which to compare models that are far from the truth, where
regressors smoothed by their own residual would be smoothed by misfit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part
from bvsi.likelihood.stacked_products import SpaceTime
from bvsi.likelihood.weighting import Weights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MomentEquations:
    """Z ᵀWZ and B, both (1 + d, 1 + d), of n residuals."""

    gram: Array
    noise: Array
    n: int

    @staticmethod
    def total(parts: Sequence[MomentEquations]) -> MomentEquations:
        """Sum over experiments."""
        return MomentEquations(
            np.sum([p.gram for p in parts], axis=0), np.sum([p.noise for p in parts], axis=0), sum(p.n for p in parts)
        )


def moment_equations(
    part: Part, theta: Array, weights: Weights, *, rng: np.random.Generator, draws: int
) -> MomentEquations:
    """Moment equations of one experiment at fixed weights; B is the mean over draws of the noise."""
    products, d = SpaceTime(part, theta), part.residuals.d
    columns = [part.residuals.Z]
    for _ in range(draws):
        draw = products.draw(rng)
        columns += [products.time_terms(draw)[:, :, None], products.operators(draw)]
    stack = np.concatenate(columns, axis=2)
    WZ = weights(stack)
    grams = [
        np.einsum("nki,nkj->ij", stack[:, :, s : s + 1 + d], WZ[:, :, s : s + 1 + d])
        for s in range(0, (1 + draws) * (1 + d), 1 + d)
    ]
    return MomentEquations(grams[0], np.mean(grams[1:], axis=0), part.residuals.n)
