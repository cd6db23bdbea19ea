"""All residuals of an experiment as functions of all its states: products with C, Cᵀ and Σ_u, without their matrices.

    (C e)_k = Σ_j (a_kj M − b_kj G_j) e_j,      (Cᵀ w)_j = Σ_k (a_kj Mᵀ − b_kj G_jᵀ) w_k,      G_j = Σ_i θ_i J_i(û_j)

Residuals are arrays (N, K), states (n_u, T). Residuals that are not used have zero rows in C and a one on the diagonal
of Σ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part
from bvsi.linalg.kronecker import dense_if_full
from bvsi.residual import Sensitivity

Array = NDArray[np.float64]


class SpaceTime:
    """C(θ) and Σ_u of one experiment.

    part: its residuals and plan; G: Σ_i θ_i J_i; M: mass matrix.
    """

    def __init__(self, part: Part, theta: Array) -> None:
        structure = part.residuals.structure
        self.plan, self.residuals, self.structure = part.covariance, part.residuals, structure
        self.a, self.b = (dense_if_full(stencil) for stencil in (structure.a, structure.b))
        self.M = structure.mass
        self.G: Sensitivity = part.residuals.jacobians(theta)

    def time_terms(self, e: Array) -> Array:
        """Σ_j a_kj M e_j, (N, K)."""
        return self.structure.only_active(self.M.summed(self.a, e))

    def sensitivity(self, e: Array) -> Array:
        """C e, (N, K)."""
        return self.structure.only_active(self.time_terms(e) - self.G.summed(self.b, e))

    def spread(self, w: Array) -> Array:
        """Σ_u Cᵀ w, (n_u, T): the noise that goes with weighted residuals w = W r."""
        w = self.structure.only_active(np.array(w))
        transposed = self.M.summed_transposed(self.a, w) - self.G.summed_transposed(self.b, w)
        return self.plan.noise_everywhere(transposed)

    def covariance(self, w: Array) -> Array:
        """Σ w = C Σ_u Cᵀ w for w (N, K, m)."""
        out = np.stack([self.sensitivity(self.spread(w[:, :, m])) for m in range(w.shape[2])], axis=2)
        if self.structure.active is not None:
            out[~self.structure.active] = w[~self.structure.active]
        return out

    def operators(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_j, (N, K, d)."""
        terms = np.stack([J.summed(self.b, e) for J in self.residuals.J], axis=2)
        return self.structure.only_active(terms)

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw of the noise, (n_u, T)."""
        return np.stack(self.plan.noise.draws(rng)).T
