"""How much of each operator is noise, equation by equation, and how rough that noise is.

    y-noise  n_e = E‖Σ_j a_kj M ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²,     share  ν_ei = n_ei/‖X_i‖²
    roughness  ρ_ei² = n_ei/E‖Σ_j b_kj J_i(û_j) ε̃_j‖²,     ε̃ = MᵀMε field by field, each as long as ε

summed over the residuals of equation e that are used; ε is one draw of the noise, enough for sums this long. ε̃ is ε
averaged over neighbours, so that ρ is the larger the more derivatives an operator has. The M of ε̃ is the block
of the first equation and its own field, for every field: one without an equation has none itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part
from bvsi.residual import Structure

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
    average = _average(structure, M)
    pairs = [_with_smoothed(plan.noise.sample(j, rng), average) for j in range(structure.n_times)]
    y = structure.only_active((structure.a @ np.stack([M @ pair[:, 0] for pair in pairs])).T)
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T
    X, smooth = np.empty((2, len(equations), residuals.d))
    for i, J in enumerate(residuals.J):
        noise = np.stack([J.apply(j, pair) for j, pair in enumerate(pairs)])
        for total, column in ((X, 0), (smooth, 1)):
            tested = structure.only_active((structure.b @ noise[:, :, column]).T)
            total[:, i] = equations @ np.square(tested).sum(axis=1)
    size = equations @ np.square(residuals.X).sum(axis=1)
    return NoiseShare(equations @ np.square(y).sum(axis=1), X, smooth, size)


def _average(structure: Structure, M: Any) -> Any:
    """MᵀM of one field, (n_dofs, n_dofs), with the tests of the first equation."""
    first = structure.fields.index(structure.equations[0]) * structure.n_dofs
    own = M[np.flatnonzero(structure.equation_of_row == 0)][:, first : first + structure.n_dofs]
    return own.T @ own


def _with_smoothed(epsilon: Array, average: Any) -> Array:
    """ε and ε̃ side by side, (n_u, 2)."""
    fields = epsilon.reshape(-1, average.shape[0])
    smoothed = (average @ fields.T).T
    length, wanted = (np.linalg.norm(values, axis=1, keepdims=True) for values in (smoothed, fields))
    smoothed = smoothed * np.divide(wanted, length, out=np.zeros_like(length), where=length > 0)
    return np.stack([epsilon, smoothed.ravel()], axis=1)
