"""How much of each operator is noise, equation by equation, and how rough that noise is.

    y-noise  n_e = E‖Σ_j a_kj M ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²,     share  ν_ei = n_ei/‖X_i‖²
    roughness  ρ_ei² = n_ei/E‖Σ_j b_kj J_i(û_j) ε̃_j‖²,     ε̃ = MᵀMε, as long as ε

summed over the rows of equation e and all blocks; ε is one draw of the noise, which is enough for sums this long. ε̃ is
ε averaged over neighbours, so that ρ is the larger the more derivatives an operator has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseShare:
    """y: noise in the time terms (E,); X: in the operators (E, d); smooth: same of ε̃ (E, d); size: ‖X_i‖² (E, d)."""

    y: Array
    X: Array
    smooth: Array
    size: Array

    @property
    def share(self) -> Array:
        """ν (E, d), zero where an operator does not stand in the equation."""
        return np.divide(self.X, self.size, out=np.zeros_like(self.X), where=self.size > 0)

    @property
    def roughness(self) -> Array:
        """ρ (E, d), zero where an operator has no noise."""
        return np.sqrt(np.divide(self.X, self.smooth, out=np.zeros_like(self.X), where=self.smooth > 0))


def noise_share(part: Part, rng: np.random.Generator) -> NoiseShare:
    """Sizes of noise of one experiment."""
    residuals, structure, plan = part.residuals, part.residuals.structure, part.covariance
    M = structure.pattern.matrix(structure.M)
    pairs = [_with_smoothed(plan.noise.sample(j, rng), M) for j in range(structure.n_times)]
    y = (structure.a @ np.stack([M @ pair[:, 0] for pair in pairs])).T
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T
    X, smooth = np.empty((2, len(equations), residuals.d))
    for i, J in enumerate(residuals.J):
        noise = np.stack([J.apply(j, pair) for j, pair in enumerate(pairs)])
        for total, column in ((X, 0), (smooth, 1)):
            total[:, i] = equations @ np.square(structure.b @ noise[:, :, column]).sum(axis=0)
    size = equations @ np.square(residuals.X).sum(axis=1)
    return NoiseShare(equations @ np.square(y).sum(axis=1), X, smooth, size)


def _with_smoothed(epsilon: Array, M: Any) -> Array:
    """ε and ε̃ side by side, (n_u, 2)."""
    smoothed = M.T @ (M @ epsilon)
    length = np.linalg.norm(smoothed)
    return np.stack([epsilon, smoothed * (np.linalg.norm(epsilon) / length if length else 0.0)], axis=1)
