"""Lagged-covariance inference (sec:lagged_covariance_inference).

The covariance is frozen at the current θ, the Gaussian (or normal-inverse-gamma) update taken, and so on:

    H = XᵀW(θ)X,  g = XᵀW(θ)r(θ);     θ ← θ + (H + Σ_0⁻¹)⁻¹ (g + Σ_0⁻¹(μ_0 − θ))

With constraints each update is the quadratic program eq:constrained_lagged_update. Where none is met, updates are
accelerated (:mod:`bvsi.infer.anderson`); the fixed point is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.common.progress import Progress, silent
from bvsi.errors import NotPositiveDefiniteError, RankError
from bvsi.infer.anderson import Anderson
from bvsi.infer.constrained import constrained, nearest
from bvsi.infer.constraints import AnyConstraints, LinearConstraints
from bvsi.infer.dominant import PILOT, PLATEAU, Dominant, on_plateau
from bvsi.infer.fit import CHI2_FACTOR, Fit, Reason, Status, Step, check_iteration, make_fit
from bvsi.infer.gaussian_prior import AnyPrior, matched, replaced_text, with_support
from bvsi.infer.priors import BoundPrior, InverseGammaPrior
from bvsi.infer.vsi import LeastSquares
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]
_TINY = np.finfo(float).tiny
# Relative changes below which the iteration is accelerated.
_NEAR = 0.5


@dataclass(frozen=True)
class Lagged:
    """The paper's estimator: maximum likelihood without a prior, posterior mean with one.

    tol: converged when no coefficient moves by more than tol (|θ_i| + sd_i).
    max_iterations: updates before giving up.
    """

    tol: float = 1e-8
    max_iterations: int = 50

    def __post_init__(self) -> None:
        check_iteration(self.tol, max_iterations=self.max_iterations)

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: AnyPrior = None,
        constraints: AnyConstraints = None,
        noise_prior: InverseGammaPrior | None = None,
        start: ArrayLike | Mapping[str, float] | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Iterate to a fixed point.

        likelihood: system, noise and weighting.
        prior: of the coefficients; flat by default. With unknown noise its variances are in units of σ². One that is
            not Gaussian is replaced by the Gaussian of the same moments on its support.
        constraints: texts such as ``"laplacian(u) > 0"``, or :class:`Constraints`; they hold in every iteration.
        noise_prior: of σ², where the noise scale is unknown; by default p(σ²) ∝ 1/σ².
        start: first θ; by default least squares, or :class:`Dominant` weights where these fit better.
        """
        density = matched(prior, likelihood)
        bound, allowed = density.gaussian, with_support(constraints, density)
        theta = _default_start(likelihood, bound, allowed) if start is None else start_vector(likelihood, start)
        theta = feasible(likelihood, theta, allowed)
        history: list[Step] = []
        ahead = Anderson()
        status = Status(False, self.max_iterations, self._advice(), frozenset({Reason.LIMIT}))
        for iteration in range(1, self.max_iterations + 1):
            equations = likelihood.normal_equations(theta)
            solver = constrained(equations.H + bound.precision, allowed)
            downhill = equations.g + bound.gradient(theta)
            centre = solver.free(theta, downhill)
            updated = solver.update(theta, downhill)
            step = updated - theta
            sd = np.sqrt(likelihood.noise_scale(equations) * np.diag(solver.inverse()))
            change = float(np.max(np.abs(step) / np.maximum(np.abs(updated) + sd, _TINY)))
            history.append(Step(theta, change, equations.q / equations.n))
            progress(iteration, None, f"lagged covariance, change {change:.1e}")
            # constraints bend the iteration where they are met, and far away it is anything but linear
            free = not allowed.equality.any() and np.array_equal(updated, centre)
            smooth = free and self.tol < change < _NEAR and iteration < self.max_iterations
            further = ahead.next(theta, updated, np.maximum(sd, _TINY)) if smooth else updated
            theta = further if allowed.satisfied(further, tol=0.0) else updated
            if change <= self.tol:
                status = Status(True, iteration, f"converged (iterations: {iteration}).")
                break
        status = status.noted(replaced_text(density))
        moved = equations.moved(step)
        if (start is not None or moved.q > CHI2_FACTOR * moved.n) and on_plateau(
            likelihood, bound, theta, moved.q, allowed
        ):
            status = status.noted(PLATEAU, Reason.PLATEAU, failed=True)
        return make_fit(
            likelihood,
            theta,
            moved,
            bound,
            noise_prior,
            covariance=solver.inverse(),
            inverse=solver.inverse(),
            status=status,
            history=tuple(history),
            method="lagged covariance",
            constraints=allowed,
            centre=centre,
        )

    def _advice(self) -> str:
        return (
            f"not converged in {self.max_iterations} iterations: do not use these error bars. Raise max_iterations, "
            "give a better start, remove operators that are nearly alike, or state a prior."
        )


def start_vector(likelihood: ResidualLikelihood, start: ArrayLike | Mapping[str, float]) -> Array:
    """First θ as a vector (d,); a mapping by name leaves the others at zero."""
    system = likelihood.system
    if not isinstance(start, Mapping):
        return system.vector(start)
    theta: list[object] = [0.0] * system.d
    for name, value in start.items():
        theta[system.index(name)] = value
    return system.vector(np.array(theta))


def feasible(likelihood: ResidualLikelihood, theta: Array, constraints: LinearConstraints) -> Array:
    """θ where it is allowed, else the nearest allowed one in the metric XᵀW(θ)X."""
    if not constraints or constraints.satisfied(theta, tol=0.0):
        return theta
    return nearest(theta, constraints, likelihood.normal_equations(theta).H)


def _default_start(likelihood: ResidualLikelihood, prior: BoundPrior, constraints: LinearConstraints) -> Array:
    """Least squares; where its misfit is large, or of unknown scale, the dominant weights if they fit better.

    Where noise swamps an operator, least squares is the edge of a plateau from which the iteration does not come back.
    """
    try:
        theta = LeastSquares().fit(likelihood).theta
    except RankError:
        if not (prior.precision.any() or constraints.equality.any()):
            raise
        return prior.mean  # prior or equalities settle what the data leave open
    if not likelihood.weighting.uses_noise:
        return theta
    few = likelihood.pilot(PILOT) or likelihood  # some of the blocks are enough to choose a start
    equations = few.normal_equations(theta)
    if likelihood.scale_known and equations.q < CHI2_FACTOR * equations.n:
        return theta
    try:
        other = Dominant().estimate(few, prior)
    except (RankError, NotPositiveDefiniteError):
        return theta
    return other if few.normal_equations(other).q < equations.q else theta
