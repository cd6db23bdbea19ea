"""The constrained update (eq:constrained_lagged_update), as a step from θ.

    s = argmin ½ sᵀHs − gᵀs   subject to   l ≤ A(θ + s) ≤ u

Equalities are solved for, θ = c + Tη, and leave H_η = TᵀHT; inequalities make it a quadratic program where the step
without them would violate one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.infer.constraints import LinearConstraints, project, solve_program
from bvsi.infer.posteriors import GaussianPosterior, NormalInverseGammaPosterior, TruncatedPosterior
from bvsi.infer.quadratic import factorise
from bvsi.linalg import ScaledCholesky

Array = NDArray[np.float64]
ClosedForm = GaussianPosterior | NormalInverseGammaPosterior | TruncatedPosterior

#: Standard deviations by which the data may be against a constraint before the status says so: 1 in 700 by chance.
CONTRADICTION = 3.0
# Relative ridge of a metric: operators that are alike are no obstacle to a projection.
_RIDGE = 1e-12
# Violation in standard deviations that is rounding.
_VIOLATED = 1e-9


@dataclass(frozen=True, eq=False)
class ConstrainedSolver:
    """Steps with the matrix H (d, d); make it with :func:`constrained`.

    Attributes
    ----------
    reduced
        Factor of H_η = TᵀHT.
    """

    H: Array
    constraints: LinearConstraints
    reduced: ScaledCholesky

    def free(self, theta: Array, g: Array) -> Array:
        """θ + s (d,) with the equalities only."""
        affine, _ = self.constraints.reduced
        eta = affine.eta(theta)
        return affine.theta(eta + self.reduced.solve(self._slope(theta, g)))

    def update(self, theta: Array, g: Array) -> Array:
        """θ + s (d,) with all constraints."""
        affine, inside = self.constraints.reduced
        free = self.free(theta, g)
        if not inside or inside.satisfied(affine.eta(free), tol=0.0):
            return free
        eta = affine.eta(theta)
        shift = inside.A @ eta
        moved = replace(inside, lower=inside.lower - shift, upper=inside.upper - shift)
        step = solve_program(affine.T.T @ self.H @ affine.T, self._slope(theta, g), moved).x
        return self.constraints.clipped(affine.theta(eta + step))

    def inverse(self) -> Array:
        """T H_η⁻¹ Tᵀ (d, d)."""
        T = self.constraints.reduced[0].T
        return np.asarray(T @ self.reduced.inverse() @ T.T)

    def _slope(self, theta: Array, g: Array) -> Array:
        """Tᵀ(g − H s_0) with the step s_0 that brings θ onto the equalities."""
        affine, _ = self.constraints.reduced
        return np.asarray(affine.T.T @ (g - self.H @ (affine.theta(affine.eta(theta)) - theta)))


def constrained(H: Array, constraints: LinearConstraints) -> ConstrainedSolver:
    """A solver; :class:`RankError` where the data do not determine all coefficients that are left."""
    affine, _ = constraints.reduced
    if not affine.free_names:
        raise BvsiError("constraints: they fix every coefficient, so that nothing is left to infer; relax one of them.")
    return ConstrainedSolver(H, constraints, factorise(affine.T.T @ H @ affine.T, affine.free_names))


def nearest(theta: Array, constraints: LinearConstraints, H: Array) -> Array:
    """The point of the allowed set that is nearest to θ in the metric of H; θ itself where it is allowed."""
    if not constraints or constraints.satisfied(theta, tol=0.0):
        return theta
    ridge = _RIDGE * np.diag(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    return project(theta, constraints, H + ridge)


def truncated(
    base: GaussianPosterior | NormalInverseGammaPosterior, constraints: LinearConstraints, mode: Array
) -> ClosedForm:
    """The posterior on the allowed set; the base itself where there are no inequalities."""
    return TruncatedPosterior(base, constraints, mode) if constraints.reduced[1] else base


def active_text(base: GaussianPosterior | NormalInverseGammaPosterior, constraints: LinearConstraints) -> str:
    """Which inequalities the estimate without them violates, and where the data contradict them; empty where none."""
    excess = constraints.excess(base.mean)
    sd = np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", constraints.A, base.covariance, constraints.A), 0.0))
    notes = []
    for i in np.flatnonzero((excess > _VIOLATED * sd) & ~constraints.equality):
        distance = excess[i] / sd[i] if sd[i] > 0 else np.inf
        doubt = ", which the data contradict" if distance > CONTRADICTION else ""
        notes.append(f"{constraints.texts[i]!r} by {distance:.2g} sd{doubt}")
    return f"Constraints hold that the estimate without them would violate: {'; '.join(notes)}." if notes else ""
