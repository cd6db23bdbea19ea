"""Stacked weighting: the inverse of the whole residual covariance, all blocks of it.

    W = Σ(θ)⁻¹,   ε̂ = Σ_u Cᵀ W r,   X̃_i = X_i − J_i ε̂,   H = X̃ᵀWX̃,   g = X̃ᵀWr,   q = rᵀWr

Nothing is left out, so that Cov(g) = H: error bars are H⁻¹, up to what noise leaves in X̃ (N, see
:mod:`bvsi.likelihood.profile_equations`). û − ε̂ are the smoothed states, those that satisfy the equation to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import CovariancePlan, Part, plan_covariance
from bvsi.likelihood.density import Density, Term
from bvsi.likelihood.moments import MomentEquations
from bvsi.likelihood.noise import Noise
from bvsi.likelihood.normal_equations import NormalEquations
from bvsi.likelihood.profile_equations import ProfileEquations
from bvsi.likelihood.stacked_covariance import StackedCovariance, space_time_coordinates
from bvsi.linalg import Analysis, Backend, Factor, analyse
from bvsi.residual import Sensitivity, Structure
from bvsi.residual.system import residual_weights

Array = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class StackedPlan(CovariancePlan):
    """A covariance plan with the whole covariance of the experiment.

    backend: Cholesky engine.
    """

    backend: Backend | None = None

    @cached_property
    def stacked(self) -> StackedCovariance:
        """Where the entries of Σ stand."""
        return StackedCovariance.of(self)

    @cached_property
    def stacked_analysis(self) -> Analysis:
        """Symbolic Cholesky of Σ."""
        return analyse(
            self.stacked.pattern, coordinates=space_time_coordinates(self.structure), backend=self.backend
        )


@dataclass(frozen=True)
class Stacked:
    """W = Σ(θ)⁻¹ with all blocks: exact to first order in the noise, and efficient.

    It trusts the discretisation over the whole time span; where that is poor, Block() is more forgiving.

    backend: Cholesky engine; by default the fastest available.
    """

    backend: Backend | None = None
    uses_noise: ClassVar[bool] = True

    def plan(self, structure: Structure, noise: Noise) -> StackedPlan:
        """Patterns, products and symbolic factorisation."""
        one = plan_covariance(structure, noise, self.backend)
        return StackedPlan(
            one.structure, one.noise, one.product, one.analysis, one.smear, one.spread, backend=self.backend
        )

    def normal_equations(self, part: Part, theta: Array) -> NormalEquations:
        """XᵀWX, XᵀWr and rᵀWr."""
        whole = _Whole(part, theta)
        return whole.equations(np.concatenate([whole.r[:, :, None], part.residuals.X], axis=2))

    def profile_equations(self, part: Part, theta: Array, *, smoothing: float, rng: Rng | None) -> ProfileEquations:
        """Smoothed regressors; S is H, since nothing is left out of the weights."""
        whole = _Whole(part, theta)
        Z = np.concatenate([whole.r[:, :, None], part.residuals.X], axis=2)
        if smoothing:
            Z[:, :, 1:] -= smoothing * whole.operators_on(whole.noise_estimate(whole.r))
        equations = whole.equations(Z)
        if rng is None:
            return ProfileEquations(equations, (), None, None)
        draw = whole.drawn(rng)
        xi = whole.operators_on(draw - whole.noise_estimate(whole.sensitivity_on(draw)))
        return ProfileEquations(equations, (), equations.H, whole.gram(xi))

    def moment_equations(self, part: Part, theta: Array, *, rng: Rng, draws: int) -> MomentEquations:
        """Normal equations at fixed weights, and what noise adds to them, from draws of it."""
        whole = _Whole(part, theta)
        d = part.residuals.d
        columns = [part.residuals.Z]
        for _ in range(draws):
            draw = whole.drawn(rng)
            columns += [whole.time_terms_on(draw)[:, :, None], whole.operators_on(draw)]
        stack = np.concatenate(columns, axis=2)
        WZ = whole.weighted(stack)
        grams = [
            np.einsum("nki,nkj->ij", stack[:, :, s : s + 1 + d], WZ[:, :, s : s + 1 + d])
            for s in range(0, (1 + draws) * (1 + d), 1 + d)
        ]
        return MomentEquations(grams[0], np.mean(grams[1:], axis=0), part.residuals.n)

    def density(self, part: Part, theta: Array, *, gradient: bool, logdet: bool, change: bool) -> Density:
        """Misfit and log-determinant; the gradient of the misfit only."""
        if change:
            raise BvsiError("jacobian: not available with Stacked() weighting yet.")
        if gradient and logdet:
            raise BvsiError("the log-determinant of Stacked() weighting has no gradient; use Profile().")
        profile = self.profile_equations(part, theta, smoothing=1.0, rng=None).equations
        zero = Term(0.0, np.zeros(len(theta)))
        return Density(Term(profile.q, -2.0 * profile.g), Term(profile.logdet if logdet else 0.0, zero.gradient), zero, profile.n)


class _Whole:
    """Σ(θ) of one experiment, factorised, and the products that the equations need; arrays are (N, K, …), (n_u, T)."""

    def __init__(self, part: Part, theta: Array) -> None:
        plan = part.covariance
        assert isinstance(plan, StackedPlan)
        self.plan, self.residuals = plan, part.residuals
        structure = part.residuals.structure
        self.a, self.b = structure.a, structure.b
        self.M = structure.pattern.matrix(structure.M)
        self.G: Sensitivity = part.residuals.jacobians(theta)
        self.r = part.residuals.Z @ residual_weights(theta)
        label = f"residual covariance of {part.label}"
        self.factor: Factor = plan.stacked_analysis.factor(plan.stacked.values(part.residuals, theta), label=label)

    def weighted(self, Z: Array) -> Array:
        """W Z, for Z (N, K, m)."""
        N, K, m = Z.shape
        columns = np.ascontiguousarray(Z.transpose(1, 0, 2)).reshape(K * N, m)
        return self.factor.solve(columns).reshape(K, N, m).transpose(1, 0, 2)

    def gram(self, Z: Array) -> Array:
        """ZᵀWZ, for Z (N, K, m)."""
        return np.asarray(np.einsum("nki,nkj->ij", Z, self.weighted(Z)))

    def equations(self, Z: Array) -> NormalEquations:
        """Normal equations of Z = [r, X], (N, K, 1 + d)."""
        WZ = self.weighted(Z)
        gram = np.einsum("nki,nkj->ij", Z, WZ)
        gram = 0.5 * (gram + gram.T)
        q = np.einsum("nk,nk->k", Z[:, :, 0], WZ[:, :, 0])
        return NormalEquations(gram[1:, 1:], gram[1:, 0], (q,), self.factor.logdet(), Z.shape[0] * Z.shape[1])

    def noise_estimate(self, r: Array) -> Array:
        """ε̂ = Σ_u Cᵀ W r, (n_u, T)."""
        Wr = self.weighted(r[:, :, None])[:, :, 0]
        spread = self.M.T @ (Wr @ self.a) - self.G.transposed_everywhere(Wr @ self.b)
        return self.plan.noise_everywhere(spread)

    def drawn(self, rng: Rng) -> Array:
        """One draw of the noise, (n_u, T)."""
        return np.stack([self.plan.noise.sample(j, rng) for j in range(self.a.shape[1])], axis=1)

    def time_terms_on(self, e: Array) -> Array:
        """Σ_j a_kj M e_j, (N, K)."""
        return np.asarray((self.a @ (self.M @ e).T).T)

    def sensitivity_on(self, e: Array) -> Array:
        """C e = Σ_j (a_kj M − b_kj G_j) e_j, (N, K)."""
        return self.time_terms_on(e) - np.asarray((self.b @ self.G.everywhere(e).T).T)

    def operators_on(self, e: Array) -> Array:
        """Σ_j b_kj J_i(û_j) e_j, (N, K, d)."""
        return np.stack([(self.b @ J.everywhere(e).T).T for J in self.residuals.J], axis=2)
