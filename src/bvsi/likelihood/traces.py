"""Exact traces from the selected inverse of the residual covariance.

    ∂ log det Σ_k / ∂θ_i = tr(W_k ∂Σ_k/∂θ_i),      ∂Σ_k/∂θ_i = −Σ_j b_kj (J_i Σ_u C_kjᵀ + C_kj Σ_u J_iᵀ)

Only the entries of W on the pattern of Σ enter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part, sensitivities, stencil_row

Array = NDArray[np.float64]


def logdet_gradient(part: Part, theta: Array) -> Array:
    """Gradient of Σ_k log det Σ_k(θ) with respect to θ, (d,)."""
    plan, residuals = part.covariance, part.residuals
    gradient = np.zeros(len(theta))
    for group, factor in part.factors(theta):
        W = factor.selected_inverse()
        k = int(group.blocks[0])
        times, C = sensitivities(residuals, theta, k)
        b = stencil_row(residuals.structure, k)[2]
        CS = np.stack([plan.sensitivity_times_noise(c, int(j)) for c, j in zip(C, times, strict=True)])
        for i, sensitivity in enumerate(residuals.J):
            J = np.stack([sensitivity.values(int(j)) for j in times])
            # tr(W A) for A = C Σ_u J_iᵀ, which stands twice in ∂Σ: W is symmetric
            gradient[i] -= 2 * len(group.blocks) * float(W @ plan.product.values(b[:, None] * CS, J))
    return gradient
