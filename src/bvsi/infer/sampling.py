"""What samplers start from: a Gaussian approximation, the target, and coordinates in which the one is near the other.

The approximation is a closed form with moment-matched priors (sec:hybrid_constraints), or any fit that is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints
from bvsi.infer.coordinates import Coordinates, coordinates
from bvsi.infer.fit import Fit, Status, assessed
from bvsi.infer.gaussian_prior import AnyPrior, prior_density, with_support
from bvsi.infer.objective import Objective
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import InverseGammaPrior
from bvsi.infer.target import Target
from bvsi.likelihood import ResidualLikelihood, Term

Array = NDArray[np.float64]

_TRIALS = 1000
# Smallest eigenvalue of the correlations of a start.
_FLAT = 1e-13


@dataclass(frozen=True, eq=False)
class Problem:
    """A target in coordinates w (n,) of its own."""

    likelihood: ResidualLikelihood
    target: Target
    approximation: Posterior
    coordinates: Coordinates

    def density(self, w: Array) -> Term:
        """log-density of w with its gradient; −∞ where θ(w) is not allowed or its covariance cannot be factorised."""
        nowhere = Term(-np.inf, np.zeros_like(w))
        theta = self.coordinates.theta(w)
        if not np.all(np.isfinite(theta)) or not self.coordinates.allows(theta):
            return nowhere
        try:
            term = self.coordinates.pull_back(w, self.target(theta))
        except NotPositiveDefiniteError:
            return nowhere
        return term if np.isfinite(term.value) and np.all(np.isfinite(term.gradient)) else nowhere

    def kept_inside(self, w: Array, moved: Array) -> Array:
        """Where each of w (P, n) moves to; those that would leave the constraints stay."""
        inside = self.coordinates.allows(self.coordinates.theta(moved))
        return np.where(inside[:, None], moved, w)

    def start(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of the approximation as w (size, n) (eq:hybrid_particle_initialization)."""
        return self.coordinates.w(self.approximation.sample(size, rng))


def make_target(
    likelihood: ResidualLikelihood,
    objective: Objective,
    prior: AnyPrior,
    constraints: AnyConstraints,
    noise_prior: InverseGammaPrior | None,
) -> Target:
    """The target for the data at hand; the support of the prior is among its constraints."""
    density = prior_density(prior, likelihood)
    bound = objective.bind(likelihood, noise_prior or InverseGammaPrior())
    return Target(likelihood.names, bound, density, with_support(constraints, density))


def closed_form_start(
    likelihood: ResidualLikelihood, objective: Objective, target: Target, prior: AnyPrior, progress: Progress
) -> Fit:
    """The closed form that the objective names, with the Gaussian of the prior's moments, under its constraints."""
    # with unknown noise a prior of the coefficients has no closed form, and the data have to do alone
    usable = prior if likelihood.scale_known else None
    return objective.approximation.fit(likelihood, prior=usable, constraints=target.constraints, progress=progress)


def prepare(
    likelihood: ResidualLikelihood,
    objective: Objective,
    *,
    prior: AnyPrior,
    constraints: AnyConstraints,
    noise_prior: InverseGammaPrior | None,
    start: Fit | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Problem:
    """The target with coordinates from a fit; by default the closed form of the objective."""
    target = make_target(likelihood, objective, prior, constraints, noise_prior)
    start = closed_form_start(likelihood, objective, target, prior, progress) if start is None else start
    approximation = usable_start(target, start)
    _check_inside(approximation, target.constraints)
    return Problem(likelihood, target, approximation, coordinates(approximation, target.constraints, rng))


def usable_start(target: Target, start: Fit) -> Posterior:
    """The posterior of a fit to start from, which has to spread in all directions that the target has."""
    if not isinstance(start, Fit) or start.posterior is None or start.names != target.names:
        raise BvsiError("start: a fit of the same operators with a posterior is needed, such as Lagged().fit(...).")
    free = target.constraints.reduced[0].free
    covariance = start.posterior.covariance[np.ix_(free, free)]
    scale = np.sqrt(np.diag(covariance))
    if not scale.all() or np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= _FLAT:
        raise BvsiError(
            "start: its posterior has no spread in directions that the constraints leave free; fit it with the same "
            "constraints, or leave it out."
        )
    return start.posterior


def _check_inside(approximation: Posterior, constraints: LinearConstraints) -> None:
    """Refuse an approximation with draws where the target is zero: coordinates cannot be made from it."""
    outside = ~constraints.satisfied(approximation.sample(_TRIALS, np.random.default_rng(0)))
    if outside.any():
        raise BvsiError(
            f"start: {outside.mean():.0%} of its draws violate the constraints or the support of the prior; fit it "
            "with the same constraints and prior, or leave it out."
        )


def sampled_fit(problem: Problem, posterior: Posterior, status: Status, method: str) -> Fit:
    """A fit from draws: the estimate is their mean."""
    likelihood = problem.likelihood
    equations = likelihood.normal_equations(posterior.mean)
    scale = likelihood.noise_scale(equations)
    return assessed(likelihood, posterior, posterior.mean, equations, scale, status=status, method=method)
