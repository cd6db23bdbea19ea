"""Lagged-covariance inference (sec:lagged_covariance_inference).

The covariance is frozen at the current θ, the Gaussian (or normal-inverse-gamma) update taken, and so on:

    H = XᵀW(θ)X,  g = XᵀW(θ)r(θ);     θ ← θ + (H + Σ_0⁻¹)⁻¹ (g + Σ_0⁻¹(μ_0 − θ))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import RankError
from bvsi.inference.fit import Fit, Status, Step
from bvsi.inference.posterior import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.inference.prior import BoundPrior, GaussianPrior, InverseGammaPrior, bind_prior
from bvsi.inference.solve import ScaledSolver, factorise
from bvsi.inference.vsi import LeastSquares
from bvsi.likelihood import NormalEquations, ResidualLikelihood
from bvsi.progress import Progress, silent

Array = NDArray[np.float64]

CHI2_FACTOR = 2.0
"""χ²/n further from one than this factor is reported with the status."""


@dataclass(frozen=True)
class Lagged:
    """The paper's estimator: maximum likelihood without a prior, posterior mean with one.

    tol: converged when no coefficient moves by more than tol (|θ_i| + sd_i).
    max_iterations: updates before giving up.
    """

    tol: float = 1e-8
    max_iterations: int = 50

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: GaussianPrior | None = None,
        noise_prior: InverseGammaPrior | None = None,
        start: ArrayLike | Mapping[str, float] | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Iterate to a fixed point.

        likelihood: system, noise and weighting.
        prior: of the coefficients; flat by default. With unknown noise its variances are in units of σ².
        noise_prior: of σ², where the noise scale is unknown; by default p(σ²) ∝ 1/σ².
        start: first θ; by default the least-squares estimate.
        """
        bound = bind_prior(prior, likelihood.names)
        theta = _start(likelihood, bound, start)
        history: list[Step] = []
        status = Status(False, self.max_iterations, self._advice())
        for iteration in range(1, self.max_iterations + 1):
            equations = likelihood.normal_equations(theta)
            solver = factorise(equations.H + bound.precision, likelihood.names)
            step = solver.solve(equations.g + bound.gradient(theta))
            sd = np.sqrt(_scale(likelihood, equations) * np.diag(solver.inverse()))
            change = float(np.max(np.abs(step) / (np.abs(theta + step) + sd)))
            history.append(Step(theta, change, equations.q / equations.n))
            theta = theta + step
            progress(iteration, None, f"lagged covariance, change {change:.1e}")
            if change <= self.tol:
                status = Status(True, iteration, f"converged in {iteration} iterations.")
                break
        return _finish(likelihood, bound, noise_prior, theta, step, equations, solver, status, history)

    def _advice(self) -> str:
        return (
            f"not converged in {self.max_iterations} iterations: do not use these error bars. Raise max_iterations, "
            "give a better start, remove operators that are nearly alike, or state a prior."
        )


def _misfit(chi2: float) -> str:
    reason = (
        "the noise is larger than stated, an operator is missing, the discretisation is too coarse, or the estimate is "
        "caught by errors in variables"
        if chi2 > 1
        else "the noise is smaller than stated"
    )
    return f"But χ²/n = {chi2:.3g} is far from one: {reason}; do not trust the error bars."


def _start(likelihood: ResidualLikelihood, prior: BoundPrior, start: ArrayLike | Mapping[str, float] | None) -> Array:
    system = likelihood.system
    if isinstance(start, Mapping):
        theta = np.zeros(system.d)
        for name, value in start.items():
            theta[system.index(name)] = value
        return system.vector(theta)
    if start is not None:
        return system.vector(start)
    try:
        return LeastSquares().fit(system).theta
    except RankError:
        if not prior.precision.any():
            raise
        return prior.mean  # the prior settles what the data leave open


def _scale(likelihood: ResidualLikelihood, equations: NormalEquations) -> float:
    """σ² to multiply (XᵀWX)⁻¹ with: one where the noise is known."""
    return 1.0 if likelihood.scale_known else equations.q / equations.n


def _finish(
    likelihood: ResidualLikelihood,
    prior: BoundPrior,
    noise_prior: InverseGammaPrior | None,
    theta: Array,
    step: Array,
    equations: NormalEquations,
    solver: ScaledSolver,
    status: Status,
    history: list[Step],
) -> Fit:
    """Posterior at the fixed point, with the covariance of the last iteration."""
    q = equations.moved(step)
    posterior: GaussianPosterior | NormalInverseGammaPosterior
    if likelihood.scale_known:
        posterior = GaussianPosterior(likelihood.names, theta, solver.inverse())
        scale = 1.0
    else:
        given = noise_prior or InverseGammaPrior()
        # β of eq:NIG_posterior_parameters with the square completed, which avoids its cancellation
        alpha = given.alpha + 0.5 * equations.n
        beta = given.beta + 0.5 * (q + prior.distance(theta))
        posterior = NormalInverseGammaPosterior(likelihood.names, theta, solver.inverse(), alpha, beta)
        scale = posterior.noise_variance
    blocks = tuple(
        values / e.structure.n_rows / scale
        for values, e in zip(equations.q_blocks, likelihood.system.experiments, strict=True)
    )
    chi2 = q / equations.n / scale
    if not 1 / CHI2_FACTOR < chi2 < CHI2_FACTOR:
        status = replace(status, message=f"{status.message} {_misfit(chi2)}")
    return Fit(likelihood.names, theta, posterior, chi2, blocks, status, tuple(history), "lagged covariance")
