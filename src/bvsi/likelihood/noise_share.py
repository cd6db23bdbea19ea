"""How much of each operator is noise, equation by equation, and how rough that noise is.

    y-noise  n_e = E‖Σ_j a_kj M ε_j‖²,     X-noise  n_ei = E‖Σ_j b_kj J_i(û_j) ε_j‖²,     share  ν_ei = n_ei/‖X_i‖²
    roughness  ρ_ei² = n_ei/E‖Σ_j b_kj J_i(û_j) ε̃_j‖²,     ε̃ = MᵀMε field by field, each as long as ε

summed over the residuals of equation e that are used; ε is one draw of the noise, enough for sums this long. ε̃ is ε
averaged over neighbours, so that ρ is the larger the more derivatives an operator has. The M of ε̃ is the block
of the first equation and its own field, for every field: one without an equation has none itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    @staticmethod
    def total(parts: Sequence[NoiseShare]) -> NoiseShare:
        """Sum over parts."""
        fields = ("y", "X", "smooth", "size")
        return NoiseShare(*(np.sum([getattr(part, field) for part in parts], axis=0) for field in fields))

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
    residuals, structure = part.residuals, part.residuals.structure
    draw = np.stack(part.covariance.noise.draws(rng)).T
    smoothed = _smoothed(draw, structure)
    equations = np.eye(len(structure.equations))[structure.equation_of_row].T

    def sizes(tested: Array) -> Array:
        return np.asarray(equations @ np.square(structure.only_active(tested)).sum(axis=1))

    y = sizes(structure.mass.summed(structure.a, draw))
    X, smooth = (np.stack([sizes(J.summed(structure.b, e)) for J in residuals.J], axis=1) for e in (draw, smoothed))
    return NoiseShare(y, X, smooth, equations @ np.square(residuals.X).sum(axis=1))


def _smoothed(epsilon: Array, structure: Structure) -> Array:
    """ε̃ for ε (n_u, T): MᵀMε field by field, each as long as ε, with the tests of the first equation."""
    T = epsilon.shape[1]
    fields = epsilon.reshape(len(structure.fields), structure.n_dofs, T)
    first = structure.fields.index(structure.equations[0]) * structure.n_dofs
    rows = structure.equation_of_row == 0
    out = np.empty_like(fields)
    for field, own in zip(out, fields, strict=True):
        alone = np.zeros_like(epsilon)
        alone[first : first + structure.n_dofs] = own
        tested = structure.mass.everywhere(alone) * rows[:, None]
        averaged = structure.mass.transposed_everywhere(tested)[first : first + structure.n_dofs]
        length, wanted = (np.linalg.norm(values, axis=0) for values in (averaged, own))
        field[:] = averaged * np.divide(wanted, length, out=np.zeros(T), where=length > 0)
    return out.reshape(epsilon.shape)
