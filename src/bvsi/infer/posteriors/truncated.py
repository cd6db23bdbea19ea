"""Closed-form posteriors restricted by linear constraints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import BvsiError
from bvsi.infer.constraints import Affine, LinearConstraints, interior
from bvsi.infer.posteriors.closed_form import GaussianPosterior, NormalInverseGammaPosterior
from bvsi.infer.posteriors.covariance_root import CovarianceRoot, covariance_root
from bvsi.infer.posteriors.draws import ParticlePosterior
from bvsi.infer.posteriors.handover import HandOver
from bvsi.infer.posteriors.polytope import Polytope, draw_by_chains, draw_by_rejection, face_directions, polytope
from bvsi.infer.posteriors.posterior import check_size

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-15
"""Probability of leaving the constraints below which they do not matter: 8 standard deviations of a normal law."""
TRIALS, ENOUGH_INSIDE = 100_000, 0.01
"""Draws by which P(inside) is measured, and the share for which rejection is used."""
MOMENT_DRAWS = 20_000
"""Draws that stand for the law in moments and intervals."""
ROUNDING = 8 * np.finfo(np.float64).eps
"""Slack of constraints on several coefficients, in parts of their terms, so that the order of summation is the same."""


@dataclass(frozen=True, eq=False)
class TruncatedPosterior(HandOver):
    """The law of ``base`` given l ≤ Aθ ≤ u.

    base: the law under the equalities alone: with equalities its covariance is singular, T Σ_η Tᵀ of θ = offset + Tη.
    constraints: on the same names; mode: (d,) the most probable point within them.

    Moments and intervals are those of the base where the inequalities are out of its reach, otherwise they are taken
    from 20,000 draws, always the same. Draws: θ = offset + T(μ + R z), z ~ N(0, I) within a polytope.
    """

    base: GaussianPosterior | NormalInverseGammaPosterior
    constraints: LinearConstraints
    mode: Array

    def __post_init__(self) -> None:
        if self.constraints.names != self.names:
            raise BvsiError("constraints: their names are not those of the base; bind them to base.names.")
        mode = np.asarray(self.mode, dtype=np.float64)
        if mode.shape != self.base.mean.shape or not np.all(np.isfinite(mode)):
            raise BvsiError(f"mode: {len(self.names)} finite coefficients are needed.")
        object.__setattr__(self, "mode", mode)
        if not self.constraints.satisfied(mode, 1e-6):
            raise BvsiError("mode: it does not satisfy the constraints; project it onto them first.")
        self._check_equalities()

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

    @property
    def variance(self) -> Array:
        """Marginal variances (d,)."""
        return self._law.variance

    def interval(self, level: float = 0.95) -> Array:
        """Equal-tailed intervals (d, 2); they never leave the constraints."""
        return self._law.interval(level)

    def linear_interval(self, Phi: Array, level: float = 0.95) -> Array:
        """Equal-tailed intervals of Φθ, (n, 2)."""
        return self._law.linear_interval(Phi, level)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
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
        return ParticlePosterior(self.names, self.sample(MOMENT_DRAWS, np.random.default_rng(0)))

    @cached_property
    def _share(self) -> float:
        """P(inside): 1 where the inequalities are out of reach, else the share of draws."""
        if self._outside_bound < NEGLIGIBLE:
            return 1.0
        return float(self._inside.contains(self._unbounded(TRIALS, np.random.default_rng(0))).mean())

    @property
    def _outside_bound(self) -> float:
        """Σ_i P(row i is violated) ≥ P(outside)."""
        if isinstance(self.base, NormalInverseGammaPosterior):
            return float(scipy.special.stdtr(2 * self.base.alpha, -self._inside.h / self._spread).sum())
        return float(scipy.special.ndtr(-self._inside.h).sum())

    def _unbounded(self, size: int, rng: np.random.Generator) -> Array:
        """z of the base law, (size, k)."""
        z = rng.standard_normal((size, self._root.rank))
        if isinstance(self.base, NormalInverseGammaPosterior):
            z *= np.sqrt(self.base.beta / rng.gamma(self.base.alpha, size=size))[:, None]
        return z

    def _variance_given(self, z: Array, rng: np.random.Generator) -> Array:
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
