"""What samplers start from: a Gaussian approximation, the target, and coordinates in which the one is near the other.

The approximation is a closed form with moment-matched priors (sec:hybrid_constraints), or any fit that is given. The
coordinates w have no bounds, and the approximation is near N(0, I) in them:

    θ = c + G v,      v = v(z) component by component,      z = m + L w
    v = z,   l + e^z,   u − e^z   or   l + (u − l)/(1 + e^{−z})

Equalities take dimensions away; every inequality row that is independent of the others is a component of v, so that no
step in w can violate it (:class:`Bounded`). A density of θ becomes one of w with the factor |det ∂v/∂w|.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.common.progress import Progress
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer.constraints import Affine, AnyConstraints, LinearConstraints, as_linear
from bvsi.infer.fit import Fit, Status, assessed
from bvsi.infer.lagged import AnyPrior, prior_density, with_support
from bvsi.infer.objective import LogLikelihood, Objective, calibrating, settled
from bvsi.infer.posteriors import Posterior
from bvsi.infer.priors import InverseGammaPrior, PriorDensity
from bvsi.likelihood import ResidualLikelihood, ValueGradient

#: Draws of the approximate posterior from which m and L are computed where there are inequalities. The error of m is
#: 1.6% of a standard deviation, which the sampler makes up for.
DRAWS = 4000
# Draws by which an approximation is checked to lie inside the constraints.
_TRIALS = 1000
# Beyond this z the map has no digits left; e^z would overflow.
_STEEPEST = 500.0
# Smallest singular value of rows of length one that still counts as independent.
_INDEPENDENT = 1e-6
# Relative violation of a bound that is rounding.
_ROUNDING = 1e-12
# Smallest eigenvalue of the correlations of a start.
_FLAT = 1e-13


@dataclass(frozen=True, eq=False)
class LogPosterior:
    """A log-density of θ with its gradient.

    Attributes
    ----------
    log_likelihood
        ℓ; it stays behind when the record travels, and the data there give another.
    prior
        Log p(θ).
    constraints
        Those that were stated, and the support of the prior.
    """

    names: tuple[str, ...]
    log_likelihood: LogLikelihood
    prior: PriorDensity
    constraints: LinearConstraints

    def __call__(self, theta: Array) -> ValueGradient:
        """ℓ(θ) + log p(θ) and its gradient (d,); for θ that constraints allow."""
        return self.log_likelihood(theta) + ValueGradient(float(self.prior.logpdf(theta)), self.prior.gradient(theta))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "log_likelihood": None}

    def smooth(self, theta: Array) -> ValueGradient:
        """The same without the part of the prior that has corners."""
        prior = ValueGradient(float(self.prior.smooth_logpdf(theta)), self.prior.smooth_gradient(theta))
        return self.log_likelihood(theta) + prior


Integers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Bounded:
    """Bounds of the components v.

    Attributes
    ----------
    lower, upper
        Bounds of v (n,), infinite where none is.
    """

    lower: Array
    upper: Array

    @cached_property
    def _cases(self) -> tuple[Integers, Integers, Integers]:
        """Positions with a lower bound only, an upper bound only, and both."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        return np.flatnonzero(low & ~high), np.flatnonzero(high & ~low), np.flatnonzero(low & high)

    @property
    def any(self) -> bool:
        """Whether there is a bound."""
        return any(len(case) for case in self._cases)

    def forward(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """v, ∂v/∂z, log |∂v/∂z| and its derivative, each (…, n), for z (…, n)."""
        v, slope, log, log_gradient = z.copy(), np.ones_like(z), np.zeros_like(z), np.zeros_like(z)
        for positions, bound, sign in zip(self._cases[:2], (self.lower, self.upper), (1.0, -1.0), strict=True):
            if len(positions):
                exponent = np.clip(z[..., positions], -_STEEPEST, _STEEPEST)
                power = sign * np.exp(exponent)
                v[..., positions] = bound[positions] + power
                slope[..., positions], log[..., positions], log_gradient[..., positions] = power, exponent, 1.0
        if len(both := self._cases[2]):
            exponent = np.clip(z[..., both], -_STEEPEST, _STEEPEST)
            width, share = self.upper[both] - self.lower[both], scipy.special.expit(exponent)
            v[..., both] = self.lower[both] + width * share
            slope[..., both] = width * share * (1 - share)
            halves = scipy.special.log_expit(exponent) + scipy.special.log_expit(-exponent)
            log[..., both] = np.log(width) + halves
            log_gradient[..., both] = 1 - 2 * share
        return v, slope, log, log_gradient

    def inverse(self, v: Array) -> Array:
        """z, for v (…, n) inside the bounds; what rounding puts on them is taken to be next to them."""
        z, tiny = v.copy(), np.finfo(float).tiny
        low, high, both = self._cases
        z[..., low] = np.log(np.maximum(v[..., low] - self.lower[low], tiny))
        z[..., high] = np.log(np.maximum(self.upper[high] - v[..., high], tiny))
        above = np.log(np.maximum(v[..., both] - self.lower[both], tiny))
        z[..., both] = above - np.log(np.maximum(self.upper[both] - v[..., both], tiny))
        return z


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The map from w (…, n) to θ (…, d).

    Attributes
    ----------
    offset
        c (d,).
    G
        (d, n).
    F
        (n, d) with v = F (θ − c).
    bounds
        Bounds of v.
    centre
        m (n,).
    L
        (n, n), lower triangular.
    constraints
        All of them, for rows that are not components of v.
    """

    offset: Array
    G: Array
    F: Array
    bounds: Bounded
    centre: Array
    L: Array
    constraints: LinearConstraints

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.centre)

    def theta(self, w: Array) -> Array:
        """θ of w (…, n); bounds of single coefficients hold to the last digit, where they are components of v."""
        v = self.bounds.forward(self.centre + w @ self.L.T)[0]
        theta = np.asarray(self.offset + v @ self.G.T)
        if not self.bounds.any:
            return theta
        clipped = self.constraints.clipped(theta)
        # a bound that is no component is violated by more than rounding: moved onto it, θ would get its own weight
        rounding = _ROUNDING * (np.abs(self.offset) + np.abs(v) @ np.abs(self.G).T)
        return np.where(np.abs(clipped - theta) <= rounding, clipped, theta)

    def w(self, theta: Array) -> Array:
        """w of θ (…, d), which has to lie inside the constraints."""
        z = self.bounds.inverse((theta - self.offset) @ self.F.T)
        return np.asarray(scipy.linalg.solve_triangular(self.L, (z - self.centre).T, lower=True).T)

    def pull_back(self, w: Array, density: ValueGradient) -> ValueGradient:
        """log-density of w (n,) with its gradient, from that of θ(w)."""
        _, slope, log, log_gradient = self.bounds.forward(self.centre + w @ self.L.T)
        gradient = self.L.T @ (slope * (self.G.T @ density.gradient) + log_gradient)
        return ValueGradient(density.value + float(log.sum()), gradient)

    def allows(self, theta: Array) -> Mask:
        """Whether θ (…, d) satisfies the rows that the coordinates do not take care of, too."""
        if not self.bounds.any:
            return np.ones(theta.shape[:-1], dtype=bool)
        return self.constraints.inside(theta, -_ROUNDING)


def coordinates(approximation: Posterior, constraints: LinearConstraints, rng: Rng) -> Coordinates:
    """Coordinates in which an approximate posterior, which respects the constraints, is near N(0, I)."""
    affine, inside = constraints.reduced
    if not inside:
        covariance = approximation.covariance[np.ix_(affine.free, affine.free)]
        centre, free = affine.eta(approximation.mean), np.full(len(affine.free), np.inf)
        return _assembled(affine, np.eye(len(free)), Bounded(-free, free), centre, covariance, constraints)
    draws = affine.eta(approximation.sample(DRAWS, rng))
    M, bounds = _components_of(inside, draws)
    z = bounds.inverse(draws @ M.T)
    covariance = np.cov(z.T, ddof=1).reshape(len(M), -1)
    return _assembled(affine, M, bounds, z.mean(axis=0), covariance, constraints)


def _assembled(
    affine: Affine, M: Array, bounds: Bounded, centre: Array, covariance: Array, constraints: LinearConstraints
) -> Coordinates:
    """Coordinates from v = M η and the moments of z."""
    select = np.eye(len(affine.names))[affine.free]
    scale = np.sqrt(np.diag(covariance))
    L = scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))
    return Coordinates(affine.offset, affine.T @ np.linalg.inv(M), M @ select, bounds, centre, L, constraints)


def _components_of(inside: LinearConstraints, draws: Array) -> tuple[Array, Bounded]:
    """M (n, n) with v = M η: independent inequality rows, the nearest first, and what is orthogonal to them."""
    scale = draws.std(axis=0)
    rows = inside.A * scale
    size = np.linalg.norm(rows, axis=1)
    slack = inside.slack(draws.mean(axis=0)) / size
    chosen: list[int] = []
    for i in np.argsort(slack, kind="stable"):
        unit = rows[[*chosen, i]] / size[[*chosen, i], None]
        if np.linalg.svd(unit, compute_uv=False)[-1] > _INDEPENDENT and len(unit) <= unit.shape[1]:
            chosen.append(int(i))
    rest = scipy.linalg.null_space(rows[chosen] / size[chosen, None]).T
    free = np.full(len(rest), np.inf)
    M = np.concatenate([rows[chosen], rest]) / scale
    return M, Bounded(np.concatenate([inside.lower[chosen], -free]), np.concatenate([inside.upper[chosen], free]))


@dataclass(frozen=True, eq=False)
class SamplingProblem:
    """A target in coordinates w (n,) of its own."""

    target: LogPosterior
    approximation: Posterior
    coordinates: Coordinates

    def density(self, w: Array) -> ValueGradient:
        """log-density of w with its gradient; −∞ where θ(w) is not allowed or its covariance cannot be factorised."""
        nowhere = ValueGradient(-np.inf, np.zeros_like(w))
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

    def start(self, size: int, rng: Rng) -> Array:
        """Draws of the approximation as w (size, n) (eq:hybrid_particle_initialization)."""
        return self.coordinates.w(self.approximation.sample(size, rng))


def make_target(
    likelihood: ResidualLikelihood,
    objective: Objective,
    prior: AnyPrior,
    constraints: AnyConstraints,
    noise_prior: InverseGammaPrior | None,
) -> LogPosterior:
    """The target for the data at hand; the support of the prior is among its constraints."""
    density = prior_density(prior, likelihood)
    bound = objective.bind(likelihood, noise_prior or InverseGammaPrior())
    names = likelihood.names
    return LogPosterior(names, bound, density, with_support(constraints, density, names) or as_linear(None, names))


def started(
    likelihood: ResidualLikelihood,
    objective: Objective,
    prior: AnyPrior,
    constraints: AnyConstraints,
    noise_prior: InverseGammaPrior | None,
    start: Fit | None,
    progress: Progress,
) -> tuple[LogPosterior, Posterior]:
    """The target, and the posterior to start from.

    By default that is the closed form which the objective names, with the Gaussian of the prior's moments; a fit that
    calibrates the objective is that form without prior and constraints, and is not made twice.
    """
    objective = settled(objective, likelihood)
    target = make_target(likelihood, objective, prior, constraints, noise_prior)
    if start is None:
        # with unknown noise a prior of the coefficients has no closed form, and the data have to do alone
        usable, allowed = prior if likelihood.scale_known else None, target.constraints
        start = None if usable is not None or allowed else calibrating(objective)
        if start is None:
            start = objective.approximation.fit(likelihood, prior=usable, constraints=allowed, progress=progress)
    return target, _usable(target, start)


def prepare(target: LogPosterior, approximation: Posterior, rng: Rng) -> SamplingProblem:
    """The target with coordinates from an approximation."""
    _check_inside(approximation, target.constraints, copy.deepcopy(rng))
    return SamplingProblem(target, approximation, coordinates(approximation, target.constraints, rng))


def _usable(target: LogPosterior, start: Fit) -> Posterior:
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


def _check_inside(approximation: Posterior, constraints: LinearConstraints, rng: Rng) -> None:
    """Refuse an approximation with draws where the target is zero: coordinates cannot be made from it."""
    outside = ~constraints.satisfied(approximation.sample(_TRIALS, rng))
    if outside.any():
        raise BvsiError(
            f"start: {outside.mean():.0%} of its draws violate the constraints or the support of the prior; fit it "
            "with the same constraints and prior, or leave it out."
        )


def sampled_fit(likelihood: ResidualLikelihood, posterior: Posterior, status: Status, method: str) -> Fit:
    """A fit from draws: the estimate is their mean."""
    equations = likelihood.normal_equations(posterior.mean)
    scale = likelihood.noise_scale(equations)
    return assessed(likelihood, posterior, posterior.mean, equations, scale, status=status, method=method)
