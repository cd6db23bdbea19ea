"""Lagged-covariance inference (sec:lagged_covariance_inference).

The covariance is frozen at the current θ, the Gaussian (or normal-inverse-gamma) update taken, and so on:

    H = XᵀW(θ)X,  g = XᵀW(θ)r(θ);     θ ← θ + (H + Σ_0⁻¹)⁻¹ (g + Σ_0⁻¹(μ_0 − θ))

With constraints each update is the quadratic program eq:constrained_lagged_update. Where none is met, updates are
accelerated (:class:`Anderson`); the fixed point is the same.

These updates take any prior as the Gaussian of the same mean and variance, or quartiles where there is no variance
(sec:hybrid_constraints), and its support as constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, RankError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.fit import CHI2_FACTOR, Fit, Reason, Status, Step, check_iteration, make_fit
from bvsi.infer.priors import (
    BoundPrior,
    ColumnScale,
    Flat,
    GaussianPrior,
    InverseGammaPrior,
    JointNormal,
    Normal,
    Prior,
    PriorDensity,
    PriorFactor,
)
from bvsi.infer.quadratic import constrained
from bvsi.infer.starts import PLATEAU, feasible, lagged_start, on_plateau, start_vector
from bvsi.infer.vsi import LeastSquares
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
            First θ; by default least squares, or ``dominant`` weights where these fit better.
        """
        density = matched(prior, likelihood)
        gaussian = bound(density, likelihood.d)
        allowed = with_support(constraints, density, likelihood.names)
        if start is None:
            theta, tried, kept = lagged_start(likelihood, gaussian, allowed)
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
        doubtful = start is not None or moved.q > CHI2_FACTOR * moved.n
        if doubtful and on_plateau(likelihood, gaussian, theta, moved.q, allowed):
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


AnyPrior = GaussianPrior | Prior | None


def prior_density(prior: AnyPrior, likelihood: ResidualLikelihood, *, in_units: bool = False) -> PriorDensity:
    """The prior for the operators of a likelihood; None is flat.

    Operators that take the default :class:`ColumnScale` get the information of the data at the least-squares estimate.

    Parameters
    ----------
    in_units
        Of σ², where that is unknown, as closed forms want it; otherwise of the coefficients themselves.
    """
    names = likelihood.names
    if prior is None:
        return PriorDensity(names, (PriorFactor(np.arange(len(names)), Flat()),), names)
    if isinstance(prior, GaussianPrior):
        return prior.prior.bind(names)
    if not isinstance(prior, Prior):
        raise BvsiError(f"prior: Prior({{...}}) or GaussianPrior({{...}}) is needed, not {prior!r}.")
    return prior.bind(names, _information(likelihood, in_units) if prior.needs_information(names) else None)


def matched(prior: AnyPrior, likelihood: ResidualLikelihood) -> PriorDensity | None:
    """The prior for a closed-form update, None where it is flat; refused where its units do not fit the noise."""
    if prior is None:
        return None
    in_units = isinstance(prior, Prior) and (prior.terms or not isinstance(prior.default, ColumnScale | Flat))
    if in_units and not likelihood.scale_known:
        raise BvsiError(
            "prior: with unknown noise, closed-form updates take a prior in units of σ²; use GaussianPrior for that, "
            "state the noise, or use Maximum(), SVGD() or NUTS(), whose priors are of the coefficients themselves."
        )
    return prior_density(prior, likelihood, in_units=True)


def bound(density: PriorDensity | None, d: int) -> BoundPrior:
    """The Gaussian that stands for a prior of d coefficients."""
    return BoundPrior(np.zeros(d), np.zeros((d, d))) if density is None else density.gaussian


def replaced_text(density: PriorDensity | None) -> str:
    """Which priors a closed form replaces by Gaussians; empty where all are Gaussian or flat."""
    if density is None:
        return ""
    other = [
        name
        for factor in density.factors
        if not isinstance(factor.law, Normal | JointNormal | Flat)
        for name in (density.names[i] for i in factor.positions)
    ]
    if not other:
        return ""
    listed = ", ".join(map(repr, other))
    return f"Gaussians stand for the priors of {listed}; Maximum(), SVGD() and NUTS() take these as they are."


def with_support(
    constraints: AnyConstraints, prior: PriorDensity | None, names: tuple[str, ...]
) -> LinearConstraints | None:
    """The constraints together with the support of the prior; None where there are none."""
    if prior is None or not (np.isfinite(prior.lower).any() or np.isfinite(prior.upper).any()):
        return None if constraints is None else as_linear(constraints, names)
    linear = as_linear(constraints, names)
    return linear.with_bounds(prior.lower, prior.upper, [f"support of the prior of {name!r}" for name in prior.names])


def _information(likelihood: ResidualLikelihood, in_units: bool) -> Array:
    try:
        theta = LeastSquares().fit(likelihood).theta
    except RankError:
        theta = np.zeros(likelihood.system.d)
    equations = likelihood.normal_equations(theta)
    return np.asarray(np.diag(equations.H) / (1.0 if in_units else likelihood.noise_scale(equations)))


def column_prior(likelihood: ResidualLikelihood, theta: ArrayLike, weight: float = 1e-10) -> GaussianPrior:
    """The prior with the weights W(θ) of a first estimate θ.

    Parameters
    ----------
    weight
        w, information of the prior relative to that of the data on an operator alone. Where operators are nearly alike
        the data know little of each, so that w has to be far below 1/n to be weak.
    """
    scale, information = ColumnScale(weight), np.diag(likelihood.normal_equations(theta).H)
    laws = zip(likelihood.names, map(scale.law, information.tolist()), strict=True)
    return GaussianPrior({name: (0.0, law.variance) for name, law in laws if np.isfinite(law.variance)})
