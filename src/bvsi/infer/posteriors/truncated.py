"""Closed-form posteriors restricted by linear constraints.

Draws of N(0, v I) within a polytope are made by rejection where that is cheap, and by Markov chains without rejection
elsewhere. The chains alternate two moves that leave the law as it is. Linear elliptical slice sampling (Gessner,
Kanjilal and Hennig, AISTATS 2020) turns around the origin by an angle that is uniform on all those allowed; it mixes
fast until the polytope lies many standard deviations away, where all allowed angles are small. Gibbs steps along the
edges and faces of the corner at hand take over there, and in layers that are thin against a standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.errors import BvsiError
from bvsi.infer.constraints import Affine, LinearConstraints, interior
from bvsi.infer.posteriors.closed_form import (
    CovarianceRoot,
    GaussianPosterior,
    HandOver,
    NormalInverseGammaPosterior,
    check_size,
    covariance_root,
    moved,
)
from bvsi.infer.posteriors.draws import ParticlePosterior

#: Probability of leaving the constraints below which they do not matter: 8 standard deviations of a normal law.
NEGLIGIBLE = 1e-15
#: Draws by which P(inside) is measured, and the share for which rejection is used.
TRIALS, ENOUGH_INSIDE = 100_000, 0.01
#: Draws that stand for the law in moments and intervals.
MOMENT_DRAWS = 20_000
#: Slack of constraints on several coefficients, in parts of their terms, so that the order of summation is the same.
ROUNDING = 8 * np.finfo(np.float64).eps
#: Chains side by side, their steps before the first draw is kept, and between two that are kept.
CHAINS, BURN_IN, THINNING = 1000, 100, 3
#: Sine of the angle between a face and the span of others below which it depends on them.
INDEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class TruncatedPosterior(HandOver):
    """The law of ``base`` given l ≤ Aθ ≤ u.

    Moments and intervals are those of the base where the inequalities are out of its reach, otherwise they are taken
    from 20,000 draws of one seed, always the same. Draws: θ = offset + T(μ + R z), z ~ N(0, I) within a polytope.

    Attributes
    ----------
    base
        The law under the equalities alone: with equalities its covariance is singular, T Σ_η Tᵀ of θ = offset + Tη.
    constraints
        On the same names.
    mode
        (d,) the most probable point within them.
    """

    base: GaussianPosterior | NormalInverseGammaPosterior
    constraints: LinearConstraints
    mode: Array

    def __post_init__(self) -> None:
        if self.constraints.names != self.names:
            raise BvsiError("constraints: their names are not those of the base; bind them to base.names.")
        mode = np.asarray(self.mode, dtype=np.float64)
        if mode.shape != self.base.mean.shape or not np.all(np.isfinite([mode, self.base.mean])):
            raise BvsiError(f"mode: {len(self.names)} finite coefficients are needed.")
        object.__setattr__(self, "mode", mode)
        if not self.constraints.satisfied(mode, 1e-6):
            raise BvsiError("mode: it does not satisfy the constraints; project it onto them first.")
        self._check_equalities()

    def moved(self, offset: Array) -> TruncatedPosterior:
        """The law of θ + offset, offset (d,)."""
        shift = self.constraints.A @ offset
        lower, upper = self.constraints.lower + shift, self.constraints.upper + shift
        constraints = replace(self.constraints, lower=lower, upper=upper)
        return replace(self, base=moved(self.base, offset), constraints=constraints, mode=self.mode + offset)

    @property
    def names(self) -> tuple[str, ...]:
        """Coefficient names."""
        return self.base.names

    @property
    def mean(self) -> Array:
        """E[θ] within the constraints (d,)."""
        return self._law.mean

    @property
    def covariance(self) -> Array:
        """Covariance within the constraints (d, d)."""
        return self._law.covariance

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Equal-tailed intervals of Φθ, (n, 2); those of θ never leave the constraints."""
        return self._law.linear_interval(Phi, level)

    def sample(self, size: int, rng: Rng) -> Array:
        """Draws (size, d), all of which satisfy the inequalities to the last bit."""
        if check_size(size) and self._share < ENOUGH_INSIDE:
            corner, start = (self._root.inverse @ (self._affine.eta(x) - self._centre) for x in (self.mode, self._deep))
            directions = face_directions(self._inside, corner, self._spread)
            z = draw_by_chains(self._inside, start, directions, self._variance_given, size, rng)
        else:
            z = draw_by_rejection(self._inside, self._unbounded, self._share, size, rng)
        return self._pulled_inside(self._affine.theta(self._centre + z @ self._root.R.T))

    def logpdf(self, theta: ArrayLike) -> float:
        """log p(θ) − log P(inside), −∞ outside; P is the share of 100,000 draws of the base.

        Refused where that share is below 1%.
        """
        value = np.asarray(theta, dtype=np.float64)
        density = self.base.logpdf(value)
        if not self.constraints.inside(value, 0.0):
            return -math.inf
        if self._share < ENOUGH_INSIDE:
            raise BvsiError(
                "logpdf: the constraints leave less than 1% of the base law, so that its constant is not known; use "
                "posterior.base.logpdf, which differs by that constant, or draws."
            )
        return density - math.log(self._share)

    @cached_property
    def _law(self) -> GaussianPosterior | NormalInverseGammaPosterior | ParticlePosterior:
        if self._share == 1:
            return self.base
        # Mean, covariance and intervals take no argument: one seed makes them functions of the law alone, the same at
        # every call. Whoever wants other draws has ``sample(size, rng)``.
        return ParticlePosterior(self.names, self.sample(MOMENT_DRAWS, np.random.default_rng(0)))

    @cached_property
    def _share(self) -> float:
        """P(inside): 1 where the inequalities are out of reach, else the share of draws, of one seed as moments are."""
        if self._outside_bound < NEGLIGIBLE:
            return 1.0
        return float(self._inside.contains(self._unbounded(TRIALS, np.random.default_rng(0))).mean())

    @property
    def _outside_bound(self) -> float:
        """Σ_i P(row i is violated) ≥ P(outside)."""
        if isinstance(self.base, NormalInverseGammaPosterior):
            return float(scipy.special.stdtr(2 * self.base.alpha, -self._inside.h / self._spread).sum())
        return float(scipy.special.ndtr(-self._inside.h).sum())

    def _unbounded(self, size: int, rng: Rng) -> Array:
        """z of the base law, (size, k)."""
        z = rng.standard_normal((size, self._root.R.shape[1]))
        if isinstance(self.base, NormalInverseGammaPosterior):
            z *= np.sqrt(self.base.beta / rng.gamma(self.base.alpha, size=size))[:, None]
        return z

    def _variance_given(self, z: Array, rng: Rng) -> Array:
        """v of z ~ N(0, v I): 1, or σ² | z ~ Inv-Gamma(α + k/2, β + ½ zᵀz)."""
        if isinstance(self.base, NormalInverseGammaPosterior):
            beta = self.base.beta + 0.5 * np.einsum("ni,ni->n", z, z)
            return np.asarray(beta / rng.gamma(self.base.alpha + 0.5 * z.shape[1], size=len(z)))
        return np.ones(len(z))

    @property
    def _spread(self) -> float:
        """Scale of each z: 1, or (β/α)^½ of its Student-t."""
        return (
            math.sqrt(self.base.beta / self.base.alpha) if isinstance(self.base, NormalInverseGammaPosterior) else 1.0
        )

    @property
    def _shape(self) -> Array:
        """Σ of z ~ N(0, v I), R Rᵀ = Σ."""
        return self.base.shape if isinstance(self.base, NormalInverseGammaPosterior) else self.base.covariance

    @cached_property
    def _affine(self) -> Affine:
        return self.constraints.affine()

    @cached_property
    def _centre(self) -> Array:
        """Mean of η under the base law."""
        return self._affine.eta(self.base.mean)

    @cached_property
    def _root(self) -> CovarianceRoot:
        return covariance_root(self._shape[np.ix_(self._affine.free, self._affine.free)])

    @cached_property
    def _inside(self) -> Polytope:
        """The inequalities for z."""
        rows = self.constraints.inequalities_in(self._affine)
        shift = rows.A @ self._centre
        return polytope(rows.A @ self._root.R, rows.lower - shift, rows.upper - shift)

    @cached_property
    def _deep(self) -> Array:
        """A point within all inequalities, near the mode."""
        sd = np.sqrt(np.diag(self._shape))
        return interior(self.mode, np.where(sd > 0, sd, 1.0), self.constraints)

    def _pulled_inside(self, theta: Array) -> Array:
        """θ (n, d), where rounding put it outside moved by as little as it takes towards a point inside."""
        part = np.finfo(np.float64).eps
        while len(outside := np.flatnonzero(~self.constraints.inside(theta, ROUNDING))) and part < 1:
            theta[outside] += part * (self._deep - theta[outside])
            part *= 4
        return theta

    def _check_equalities(self) -> None:
        """Refuse a base that does not know of the equalities: mean and covariance have to be those of offset + Tη."""
        affine, sd = self._affine, np.sqrt(np.diag(self._shape))
        implied = affine.T @ self._shape[np.ix_(affine.free, affine.free)] @ affine.T.T
        mean_off = np.abs(affine.theta(self._centre) - self.base.mean)
        if np.any(np.abs(implied - self._shape) > 1e-6 * np.outer(sd, sd)) or np.any(
            mean_off > 1e-6 * sd + 1e-9 * np.abs(self.base.mean)
        ):
            raise BvsiError("base: its law does not satisfy the equalities; condition it on them first.")


#: z (n, k) without the constraints.
Draw = Callable[[int, Rng], Array]
#: v (n,) given z (n, k), for laws in which v is random too.
NewVariance = Callable[[Array, Rng], Array]


@dataclass(frozen=True, eq=False)
class Polytope:
    """{z : G z ≤ h}; G (m, k) with rows of length one, h (m,)."""

    G: Array
    h: Array

    def contains(self, z: Array) -> Mask:
        """Which rows of z (n, k) lie inside."""
        return np.asarray((z @ self.G.T <= self.h).all(axis=1))


def polytope(B: Array, lower: Array, upper: Array) -> Polytope:
    """{z : lower ≤ B z ≤ upper} without the rows that hold for all z."""
    G, h = np.concatenate([B, -B]), np.concatenate([upper, -lower])
    length = np.linalg.norm(G, axis=1)
    used = np.isfinite(h) & (length > 0)
    return Polytope(G[used] / length[used, None], h[used] / length[used])


def draw_by_rejection(inside: Polytope, unbounded: Draw, share: float, size: int, rng: Rng) -> Array:
    """Draws (size, k) of ``unbounded`` that lie inside, about a given share of them."""
    kept, missing = [unbounded(0, rng)], size
    while missing > 0:
        z = unbounded(math.ceil(1.1 * missing / share) + 10, rng)
        kept.append(z[inside.contains(z)][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def draw_by_chains(
    inside: Polytope, start: Array, directions: Array, new_variance: NewVariance, size: int, rng: Rng
) -> Array:
    """Draws (size, k), from up to ``CHAINS`` chains.

    Parameters
    ----------
    start
        (k,) inside.
    directions
        (k, k) of the Gibbs steps, see :func:`face_directions`.
    """
    chains = min(size, CHAINS)
    z = np.tile(start, (chains, 1))
    kept: list[Array] = []
    for step in range(BURN_IN + THINNING * -(-size // max(chains, 1))):
        variance = new_variance(z, rng)
        z = ellipse_step(inside, z, variance, rng)
        for u in directions.T:
            z = line_step(inside, z, u, variance, rng)
        if step >= BURN_IN and (step - BURN_IN) % THINNING == THINNING - 1:
            kept.append(z)
    return np.concatenate([np.empty((0, len(start))), *kept])[:size]


def ellipse_step(inside: Polytope, z: Array, variance: Array, rng: Rng) -> Array:
    """z cos t + ν sin t with ν ~ N(0, v I) and t uniform on the angles that stay inside.

    Row i, r cos(t − φ) ≤ h with r e^{iφ} = g·z + i g·ν, forbids |t − φ| < arccos(h/r) where r > h.
    """
    nu = np.sqrt(variance)[:, None] * rng.standard_normal(z.shape)
    along, across = z @ inside.G.T, nu @ inside.G.T
    radius = np.hypot(along, across)
    phi = np.arctan2(across, along) % (2 * np.pi)
    # where z is outside by rounding it is taken to be on the face, so that t = 0 is always allowed
    limit = np.maximum(inside.h, along)
    half = np.arccos(np.divide(limit, radius, out=np.ones_like(radius), where=radius > np.abs(limit)))
    t = _uniform_outside(np.maximum(phi - half, 0.0), np.minimum(phi + half, 2 * np.pi), rng)[:, None]
    return np.asarray(z * np.cos(t) + nu * np.sin(t))


def _uniform_outside(start: Array, end: Array, rng: Rng) -> Array:
    """Uniform angles (n,) in [0, 2π] outside m arcs, start and end (n, m)."""
    n = len(start)
    order = np.argsort(start, axis=1)
    start, end = np.take_along_axis(start, order, axis=1), np.take_along_axis(end, order, axis=1)
    gap_start = np.concatenate([np.zeros((n, 1)), np.maximum.accumulate(end, axis=1)], axis=1)
    gap_end = np.concatenate([start, np.full((n, 1), 2 * np.pi)], axis=1)
    lengths = np.maximum(gap_end - gap_start, 0.0)
    covered = np.cumsum(lengths, axis=1)
    target = rng.random(n) * covered[:, -1]
    which = np.minimum((covered <= target[:, None]).sum(axis=1), lengths.shape[1] - 1)[:, None]
    before = np.take_along_axis(covered - lengths, which, axis=1)
    return np.asarray((np.take_along_axis(gap_start, which, axis=1) + target[:, None] - before)[:, 0])


def line_step(inside: Polytope, z: Array, u: Array, variance: Array, rng: Rng) -> Array:
    """z + s u with s from its law given all else, N(−u·z, v) on the piece of the line inside; u (k,) has length 1."""
    rate = inside.G @ u
    slack = np.maximum(inside.h - z @ inside.G.T, 0.0)
    high = np.min(slack[:, rate > 0] / rate[rate > 0], axis=1, initial=np.inf)
    low = np.max(slack[:, rate < 0] / rate[rate < 0], axis=1, initial=-np.inf)
    sd, centre = np.sqrt(variance), -z @ u
    s = centre + sd * truncated_normal((low - centre) / sd, (high - centre) / sd, rng)
    return np.asarray(z + np.clip(s, low, high)[:, None] * u)


def truncated_normal(low: Array, high: Array, rng: Rng) -> Array:
    """Unit normal numbers between low and high (n,), by inversion of log Φ, which is exact far into the tails."""
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    log_high = scipy.special.log_ndtr(high)
    ratio = np.exp(scipy.special.log_ndtr(low) - log_high)
    u = rng.random(len(low))
    x = np.clip(scipy.special.ndtri_exp(log_high + np.log(u + (1 - u) * ratio)), low, high)
    return np.asarray(np.where(flipped, -x, x))


def face_directions(inside: Polytope, corner: Array, spread: float) -> Array:
    """Directions (k, k) of length one: those that leave one of the near faces, and those that stay parallel to all.

    The columns of G_a⁺ change the distance from one of the faces a alone, the null space of G_a from none. Faces count
    as near up to one standard deviation; the nearest that are independent are taken.
    """
    slack = np.maximum(inside.h - inside.G @ corner, 0.0) / spread
    weight = 1 / (slack[slack < 1] + 1e-6)
    near = inside.G[slack < 1]
    if not len(near):
        return np.eye(len(corner))
    R, pivots = scipy.linalg.qr(near.T * weight, mode="r", pivoting=True)
    apart = np.abs(np.diag(R)) / weight[pivots[: min(R.shape)]]
    faces = near[pivots[: len(apart)][apart > INDEPENDENT]]
    edges = np.linalg.pinv(faces)
    return np.concatenate([edges / np.linalg.norm(edges, axis=0), scipy.linalg.null_space(faces)], axis=1)
