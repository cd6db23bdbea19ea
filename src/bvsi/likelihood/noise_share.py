"""How much of each operator is noise, equation by equation.

    y-noise  n_e = E‖Σ_j a_kj M ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²,     share  ν_ei = n_ei/‖X_i‖²

summed over the rows of equation e and all blocks; ε is one draw of the noise, which is enough for sums this long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseShare:
    """y: noise in the time terms (E,); X: noise in the operators (E, d); size: ‖X_i‖² (E, d)."""

    y: Array
    X: Array
    size: Array

    @property
    def share(self) -> Array:
        """ν (E, d), zero where an operator does not stand in the equation."""
        return np.divide(self.X, self.size, out=np.zeros_like(self.X), where=self.size > 0)


def noise_share(part: Part, rng: np.random.Generator) -> NoiseShare:
    """Sizes of noise of one experiment."""
    residuals, structure, plan = part.residuals, part.residuals.structure, part.covariance
    draws = [plan.noise.sample(j, rng) for j in range(structure.n_times)]
    M = structure.pattern.matrix(structure.M)
    y = (structure.a @ np.stack([M @ e for e in draws])).T
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T
    X = np.empty((len(equations), residuals.d))
    for i, J in enumerate(residuals.J):
        noise = structure.b @ np.stack([J.apply(j, e[:, None])[:, 0] for j, e in enumerate(draws)])
        X[:, i] = equations @ np.square(noise).sum(axis=0)
    size = equations @ np.square(residuals.X).sum(axis=1)
    return NoiseShare(equations @ np.square(y).sum(axis=1), X, size)
