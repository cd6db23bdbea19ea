"""Smoothed states: the data less what the residuals tell of their noise.

    ε̂ = Σ_u Cᵀ W r (stacked),      ε̂_j = mean over blocks k with time j of Σ_u,j C_kjᵀ W_k r_k (block)

û − ε̂ satisfies the equation to first order. Nonlinear operators can be linearised there, see
``assemble(linearise_at=...)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import NotPositiveDefiniteError
from bvsi.likelihood.blocks import streamed_solver
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.likelihood import ResidualLikelihood
from bvsi.likelihood.stacked import Stacked, Whole
from bvsi.likelihood.stacked_iterative import conjugate_gradients
from bvsi.likelihood.stacked_products import SpaceTime
from bvsi.likelihood.weighting import Weighting

Array = NDArray[np.float64]

# Relative error of weights that only have to be near enough, and the steps for which they are worth while.
_ROUGH = 1e-4
_STEPS = 20


def weighter(part: Part, weighting: Weighting, theta: Array) -> Callable[[Array], Array]:
    """Z ↦ W Z for Z (N, K, m), with the weights at θ."""
    if isinstance(weighting, Stacked):
        return Whole.of(part, theta).weighted
    return streamed_solver(part, theta)


def reweighted(part: Part, weighting: Weighting, near: Callable[[Array], Array], theta: Array, Z: Array) -> Array:
    """W(θ) Z for Z (N, K, m), near weights that are at hand; of stacked weighting to some digits, without a factor.

    near: Z ↦ W Z with the weights of a θ close by, which make conjugate gradients converge in a few steps.
    """
    if not isinstance(weighting, Stacked):
        return weighter(part, weighting, theta)(Z)
    product, label = SpaceTime(part, theta).covariance, f"residual covariance of {part.label}"
    try:
        return conjugate_gradients(product, near, Z, label=label, tol=_ROUGH, max_iterations=_STEPS)
    except NotPositiveDefiniteError:
        return weighter(part, weighting, theta)(Z)


def noise_estimates(likelihood: ResidualLikelihood, theta: Array) -> tuple[dict[str, Array], ...]:
    """ε̂ by field, (T, n_dofs) each, for every experiment."""
    return tuple(_noise_estimate(part, likelihood.weighting, theta) for part in likelihood.parts)


def _noise_estimate(part: Part, weighting: Weighting, theta: Array) -> dict[str, Array]:
    structure = part.residuals.structure
    r = part.residuals.residual(theta)
    estimate = SpaceTime(part, theta).spread(weighter(part, weighting, theta)(r[:, :, None])[:, :, 0])
    if not isinstance(weighting, Stacked):
        used = abs(structure.a) + abs(structure.b)
        estimate = estimate / np.maximum(np.bincount(used.indices, minlength=structure.n_times), 1)
    by_field = estimate.reshape(len(structure.fields), structure.n_dofs, structure.n_times)
    return {field: values.T for field, values in zip(structure.fields, by_field, strict=True)}
