"""Lagged-covariance inference (sec:lagged_covariance_inference).

The covariance is frozen at the current θ, the Gaussian (or normal-inverse-gamma) update taken, and so on:

    H = XᵀW(θ)X,  g = XᵀW(θ)r(θ);     θ ← θ + (H + Σ_0⁻¹)⁻¹ (g + Σ_0⁻¹(μ_0 − θ))

With constraints each update is the quadratic program eq:constrained_lagged_update. Where none is met, updates are
accelerated (:class:`Anderson`); the fixed point is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.infer.constraints import AnyConstraints
from bvsi.infer.fit import Fit, Reason, Status, Step, check_iteration, make_fit
from bvsi.infer.gaussian_prior import AnyPrior, bound, matched, replaced_text, with_support
from bvsi.infer.priors import InverseGammaPrior
from bvsi.infer.quadratic import constrained
from bvsi.infer.starts import PLATEAU, Starts, feasible, lagged_start, on_plateau, start_vector
from bvsi.likelihood import ResidualLikelihood

_TINY = np.finfo(float).tiny
# Relative change below which the iteration is accelerated: further away it is anything but linear. Not measured.
_NEAR = 0.5
# Differences that acceleration keeps, and the part of the largest singular value below which a direction is rounding.
# The usual choices; the fixed point does not depend on them.
_DEPTH, _CUT = 5, 1e-8


@dataclass(frozen=True)
class Lagged:
    """The paper's estimator: maximum likelihood without a prior, posterior mean with one.

    Parameters
    ----------
    tol
        Converged when no coefficient moves by more than tol (``|θ_i|`` + sd_i).
    max_iterations
        Updates before giving up.
    starts
        When a start other than least squares is tried.
    """

    tol: float = 1e-8
    max_iterations: int = 50
    starts: Starts = field(default=Starts(), repr=False)

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

        Parameters
        ----------
        likelihood
            System, noise and weighting.
        prior
            Prior of the coefficients; flat by default. With unknown noise its variances are in units of σ². One that is
            not Gaussian is replaced by the Gaussian of the same moments on its support.
        constraints
            Texts such as ``"laplacian(u) > 0"``, or :class:`Constraints`; they hold in every iteration.
        noise_prior
            Noise prior of σ², where the noise scale is unknown; by default p(σ²) ∝ 1/σ².
        start
            First θ; by default least squares, or :class:`Dominant` weights where these fit better.
        """
        density = matched(prior, likelihood)
        gaussian = bound(density, likelihood.d)
        allowed = with_support(constraints, density, likelihood.names)
        if start is None:
            theta, tried, kept = lagged_start(likelihood, gaussian, allowed, self.starts)
        else:
            theta, tried, kept = start_vector(likelihood, start), ("given",), "given"
        theta = feasible(likelihood, theta, allowed)
        history: list[Step] = []
        ahead = Anderson()
        status = Status(False, self.max_iterations, self._advice(), frozenset({Reason.LIMIT}))
        for iteration in range(1, self.max_iterations + 1):
            equations = likelihood.normal_equations(theta)
            solver = constrained(equations.H + gaussian.precision, allowed, likelihood.names)
            downhill = equations.g + gaussian.gradient(theta)
            centre = solver.free(theta, downhill)
            updated = solver.update(theta, downhill)
            step = updated - theta
            sd = np.sqrt(likelihood.noise_scale(equations) * np.diag(solver.inverse()))
            change = float(np.max(np.abs(step) / np.maximum(np.abs(updated) + sd, _TINY)))
            history.append(Step(theta, change, equations.q / equations.n))
            progress(iteration, None, f"lagged covariance, change {change:.1e}")
            # constraints bend the iteration where they are met, and far away it is anything but linear
            free = not (allowed and allowed.equality.any()) and np.array_equal(updated, centre)
            smooth = free and self.tol < change < _NEAR and iteration < self.max_iterations
            further = ahead.next(theta, updated, np.maximum(sd, _TINY)) if smooth else updated
            theta = further if not allowed or allowed.satisfied(further, tol=0.0) else updated
            if change <= self.tol:
                status = Status(True, iteration, f"converged (iterations: {iteration}).")
                break
        status = status.noted(replaced_text(density))
        moved = equations.moved(step)
        if (start is not None or moved.q > self.starts.chi2 * moved.n) and on_plateau(
            likelihood, gaussian, theta, moved.q, allowed, self.starts
        ):
            status = status.noted(PLATEAU, Reason.PLATEAU, failed=True)
        return make_fit(
            likelihood,
            theta,
            moved,
            gaussian,
            noise_prior,
            inverse=solver.inverse(),
            status=replace(status, starts=tried, start=kept),
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


class Anderson:
    """Anderson acceleration of a fixed-point iteration θ ← Φ(θ). ::

        θ_+ = θ + f − (ΔΘ + ΔF) γ,     γ = argmin ‖f − ΔF γ‖,     f = Φ(θ) − θ

    ΔΘ, ΔF: differences of the last θ and f, (d, m). The error of a linear Φ is gone after as many steps as it has
    directions in which it converges slowly, whatever its rate.

    A step that made ‖f‖ larger makes it forget what came before, and go to Φ(θ).
    """

    def __init__(self) -> None:
        self._steps: list[tuple[Array, Array]] = []

    def next(self, theta: Array, image: Array, sd: Array) -> Array:
        """θ_+ from θ and Φ(θ), lengths in units of sd (d,)."""
        f = image - theta
        if self._steps and np.linalg.norm(f / sd) > np.linalg.norm(self._steps[-1][1] / sd):
            self._steps.clear()
        self._steps = [*self._steps[-_DEPTH:], (theta, f)]
        if len(self._steps) < 2:
            return image
        dTheta, dF = (np.diff(np.stack(column, axis=1), axis=1) for column in zip(*self._steps, strict=True))
        gamma = np.linalg.lstsq(dF / sd[:, None], f / sd, rcond=_CUT)[0]
        return np.asarray(image - (dTheta + dF) @ gamma)
