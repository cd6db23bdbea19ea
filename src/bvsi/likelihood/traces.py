"""Exact traces from the selected inverse of the residual covariance.

    ∂ log det Σ_k / ∂θ_i = tr(W_k ∂Σ_k/∂θ_i),      ∂Σ_k/∂θ_i = −Σ_j b_kj (J_i Σ_u C_kjᵀ + C_kj Σ_u J_iᵀ)

    tr(W_k C_kj Σ_u J_iᵀ) = ⟨G_kj, J_i⟩,      G_kj = W_k C_kj Σ_u on the pattern of J_i: one product for all operators

Only the entries of W on the pattern of Σ enter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.blocks import over_groups
from bvsi.likelihood.covariance import FactorisedGroup, Part

Array = NDArray[np.float64]


def logdet_gradient(part: Part, theta: Array) -> Array:
    """Gradient of Σ_k log det Σ_k(θ) with respect to θ, (d,)."""
    plan, residuals = part.covariance, part.residuals

    def of_group(one: FactorisedGroup) -> Array:
        inside = one.b != 0
        times, CS = one.times[inside], plan.sensitivities_times_noise(one.times[inside], one.C[inside])
        # tr(W A) for A = C Σ_u J_iᵀ, which stands twice in ∂Σ: W is symmetric
        G = one.b[inside, None] * plan.product.gradient(one.factor.selected_inverse(), CS)
        traces = [sum(float(g @ J.values(int(j))) for g, j in zip(G, times, strict=True)) for J in residuals.J]
        return -2.0 * len(one.group.blocks) * np.array(traces)

    return sum(over_groups(part, theta, of_group), start=np.zeros(len(theta)))
