"""Quadratic model of the misfit: sub-models and leave-one-out changes by small dense algebra, without a new fit.

    Q(θ) ≈ Q(θ_e) − 2 gᵀ(θ−θ_e) + (θ−θ_e)ᵀ A (θ−θ_e),        A = H − σ²N

With only the operators s, and P = A_ss⁻¹,

    θ_s = P (g + A θ_e)_s           V_s = σ² P S_ss P

and the removal of operator i from there moves the others and raises the misfit by

    θ_j ← θ_j − P_ji θ_i / P_ii           ΔQ_i = θ_i² / P_ii
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError, RankError
from bvsi.infer import Fit
from bvsi.infer.fit import Curvature
from bvsi.infer.profile import curvature
from bvsi.infer.sandwich import sandwich
from bvsi.infer.solve import factorise
from bvsi.likelihood import NormalEquations, ResidualLikelihood

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """The misfit of one model around its minimum.

    theta: (d,) the minimiser; inverse: (d, d) P; q: the misfit there, of n residuals; scale_known: whether q has the
    scale of the noise. variance: (d,) the larger of those from the noise model and from the scores of the blocks,
    which also sees the blocks where the discretisation fails; NaN for plain least squares.
    """

    theta: Array
    inverse: Array
    variance: Array
    q: float
    n: int
    scale_known: bool

    @staticmethod
    def of(likelihood: ResidualLikelihood, fit: Fit) -> QuadraticModel:
        """The model at a fit."""
        assert fit.inverse is not None
        variance = np.full(len(fit.theta), np.nan) if fit.posterior is None else fit.posterior.variance
        if fit.score_covariance is not None:
            variance = np.maximum(variance, np.diag(fit.score_covariance))
        return QuadraticModel(
            fit.theta, fit.inverse, variance, fit.equations.q, fit.equations.n, likelihood.scale_known
        )

    @property
    def growth(self) -> Array:
        """ΔQ_i = θ_i²/P_ii for the removal of each operator, (d,)."""
        return np.asarray(self.theta**2 / np.diag(self.inverse))

    @property
    def misfit_change(self) -> Array:
        """Change of the misfit part of a score: ΔQ, or n log(1 + ΔQ/Q) where the noise level is estimated, (d,)."""
        return self.growth if self.scale_known else self.n * np.log1p(self.growth / self.q)

    def removal_step(self, i: int) -> Array:
        """Change of θ when operator i is removed, (d,): −P_:i θ_i/P_ii."""
        return np.asarray(-self.inverse[:, i] * self.theta[i] / self.inverse[i, i])


@dataclass(frozen=True, eq=False)
class Expansion:
    """The misfit of all operators around one θ_e, which need not be its minimum; flat prior.

    theta: (d,) θ_e; equations and curvature: there.
    """

    likelihood: ResidualLikelihood
    theta: Array
    equations: NormalEquations
    curvature: Curvature

    @staticmethod
    def of(likelihood: ResidualLikelihood, fit: Fit) -> Expansion:
        """Around a fit of all operators of the likelihood; nothing is evaluated."""
        if fit.curvature is None:
            raise BvsiError(f"criterion: {fit.method} estimates have no curvature; use Profile(), or Backward().")
        return Expansion(likelihood, fit.theta, fit.equations, fit.curvature)

    @staticmethod
    def around(likelihood: ResidualLikelihood, fit: Fit, whole: Curvature) -> Expansion:
        """Around the fit of a smaller model, the other coefficients zero: one evaluation of all operators.

        whole: at the estimate of all operators, for the scores of the blocks.
        """
        found = dict(zip(fit.names, fit.theta, strict=True))
        theta = np.array([found.get(name, 0.0) for name in likelihood.names])
        profile = likelihood.profile_equations(theta, rng=np.random.default_rng(0))  # the draw of every fit
        here = curvature(likelihood, profile)
        here = replace(here, S_blocks=carried_over(whole, here.S, likelihood.names))
        return Expansion(likelihood, theta, profile.equations, here)

    def scale(self, q: float) -> float:
        """σ² in units of the noise model where the misfit is q."""
        return self.likelihood.noise_scale(replace(self.equations, q_blocks=(np.array([q]),)))

    def submodel(self, names: Iterable[str]) -> QuadraticModel:
        """The model with only these operators; with H for A where noise makes up too much of the operators."""
        kept = tuple(names)
        s = np.array([self.likelihood.names.index(name) for name in kept])
        try:
            model = self._minimum(self.curvature.A, s, kept)
            if model.q > 0:
                return model
        except (RankError, np.linalg.LinAlgError):
            pass
        return self._minimum(self.equations.H, s, kept)

    def _minimum(self, A: Array, s: NDArray[np.int64], names: tuple[str, ...]) -> QuadraticModel:
        """θ_s, P, V_s and Q_s. Steps from θ_e, where the dropped coefficients go to zero, keep all digits."""
        inside = np.ix_(s, s)
        solver = factorise(A[inside], names)
        step = -self.theta
        step[s] = 0.0
        step[s] = solver.solve((self.equations.g - A @ step)[s])
        q = float(self.equations.q - 2 * self.equations.g @ step + step @ A @ step)
        scale = self.scale(q)
        P, S, S_blocks = solver.inverse(), self.curvature.S[inside], self.curvature.S_blocks[inside]
        variance = scale * np.maximum(np.diag(sandwich(P, S)), np.diag(sandwich(P, S_blocks)))
        return QuadraticModel(self.theta[s] + step[s], P, variance, q, self.equations.n, self.likelihood.scale_known)


def carried_over(whole: Curvature, S: Array, names: tuple[str, ...]) -> Array:
    """T S_blocks Tᵀ with T = L L_0⁻¹, S = L Lᵀ, S_0 = L_0 L_0ᵀ: what blocks show beyond the noise model, elsewhere.

    At the estimate of a smaller model the scores of an operator that is missing have a mean, which S from these scores
    takes for scatter: z² would stay below a third of the number of blocks, however much the operator is needed. At the
    estimate of all operators they have none. S itself where it is singular.
    """
    try:
        to, start = factorise(S, names), factorise(whole.S, names)
    except (RankError, np.linalg.LinAlgError):
        return S
    T = to.scale[:, None] * np.linalg.solve(start.L.T, to.L.T).T / start.scale
    carried = T @ whole.S_blocks @ T.T
    return np.asarray(0.5 * (carried + carried.T))
