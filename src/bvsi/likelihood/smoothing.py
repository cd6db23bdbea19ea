"""Smoothed states: the data less what the residuals tell of their noise.

    ε̂ = Σ_u Cᵀ W r (stacked),      ε̂_j = mean over blocks k with time j of Σ_u,j C_kjᵀ W_k r_k (block)

û − ε̂ satisfies the equation to first order. Nonlinear operators can be linearised there, see
``assemble(linearise_at=...)``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part
from bvsi.likelihood.likelihood import ResidualLikelihood
from bvsi.likelihood.stacked_products import SpaceTime
from bvsi.likelihood.weighting import Weighting, Weights

Array = NDArray[np.float64]

# Residuals of draws that are weighted at a time: 8 MB each.
_AT_ONCE = 1_000_000


def weighted_draws(
    products: SpaceTime, weights: Weights, n: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """C ε and W C ε for n draws of the noise, (N, K, m) each, a few draws at a time."""
    structure = products.structure
    together = max(1, _AT_ONCE // max(1, structure.n_rows * structure.n_blocks))
    for start in range(0, n, together):
        count = min(together, n - start)
        r = np.stack([products.sensitivity(products.draw(rng)) for _ in range(count)], axis=2)
        yield r, weights(r)


def noise_estimates(likelihood: ResidualLikelihood, theta: Array) -> tuple[dict[str, Array], ...]:
    """ε̂ by field, (T, n_dofs) each, for every experiment."""
    return tuple(_noise_estimate(part, likelihood.weighting, theta) for part in likelihood.parts)


def _noise_estimate(part: Part, weighting: Weighting, theta: Array) -> dict[str, Array]:
    structure = part.residuals.structure
    r = part.residuals.residual(theta)
    estimate = SpaceTime(part, theta).spread(weighting.weights(part, theta)(r[:, :, None])[:, :, 0])
    estimate = estimate / weighting.estimates(structure)
    by_field = estimate.reshape(len(structure.fields), structure.n_dofs, structure.n_times)
    return {field: values.T for field, values in zip(structure.fields, by_field, strict=True)}
