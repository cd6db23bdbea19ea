"""The prior of the coefficients in forward solves, given the equalities that they satisfy. ::

    θ = c + T η,     p(η) = √|TᵀΛT| (2π)^(−n/2) exp(−½ (θ − μ)ᵀ Λ (θ − μ)),     μ = argmin_η (θ − m)ᵀ Λ (θ − m)

is N(m, Λ⁻¹) given the equalities. Λ has Normals, JointNormals, and N(0, s²) where nothing is stated. A stated law p_i
of one coefficient that is not Gaussian stands in the place of its part: it enters by −2 log p_i, its slope, and its
curvature where that is positive; corners are rounded. No equality may tie such a coefficient: the constant of p(η)
would not be known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bvsi.common.arrays import Array
from bvsi.errors import InfeasibleError
from bvsi.infer.constraints import LinearConstraints, project
from bvsi.infer.priors import (
    ColumnScale,
    Distribution,
    Flat,
    GaussianPrior,
    Horseshoe,
    JointNormal,
    Normal,
    Prior,
    PriorDensity,
)
from bvsi.infer.priors.distributions import LOG_2PI, RealLine
from bvsi.refine.instrument import RefineError

# Part of a standard deviation, or of the way to the end of a law, over which its slope is differenced.
_SHORT = 1e-4
_ROUND = 0.01  # part of the scale of a corner over which it is rounded
# Standard deviations up to which an estimate is at a corner, and b in these up to which that counts: of 25 posteriors
# of one coefficient, compared with integration, the others were off by 0.01 sd in mean and in sd at most.
_CORNER = (2.0, 3.0)


@dataclass(frozen=True)
class Rounded(RealLine):
    """A law with a corner at k, rounded: p(k + r) with r = √((θ − k)² + ε²), so that log p changes by ε/b at most.

    ε is a part of the scale b of the corner, by default a hundredth: densities change by less than 1%.
    """

    law: Distribution
    part: float = _ROUND

    def __str__(self) -> str:
        return str(self.law)

    def logpdf(self, x: Array) -> Array:
        """log p(k + r)."""
        return self.law.logpdf(self._at(x))

    def gradient(self, x: Array) -> Array:
        """∂ log p(k + r)/∂x."""
        there = self._at(x)
        return np.asarray(self.law.gradient(there) * (x - self.corner) / (there - self.corner))

    @property
    def corner(self) -> float:
        """k."""
        assert self.law.kink is not None
        return self.law.kink

    def _at(self, x: Array) -> Array:
        return np.asarray(self.corner + np.hypot(x - self.corner, self.part * self.law.kink_scale))


@dataclass(frozen=True, eq=False)
class CoefficientPrior:
    """p(η) of d coefficients θ = c + T η with n free ones.

    Attributes
    ----------
    mean
        m (d,), without the equalities.
    precision
        Λ (d, d), without the equalities; that of a Gaussian like it where a law is stated that is not Gaussian.
    equalities
        Rows l = A θ.
    laws
        Stated laws that are not Gaussian, by position.
    """

    mean: Array
    precision: Array
    equalities: LinearConstraints
    laws: Mapping[int, Distribution | Rounded] = field(default_factory=dict)

    @staticmethod
    def of(density: PriorDensity, usual: Array, limits: LinearConstraints) -> CoefficientPrior:
        """From stated laws, N(0, s²) with the usual s (d,) where a law is flat, and constraints."""
        stated = density.gaussian
        flat = np.diag(stated.precision) == 0
        precision = stated.precision + np.diag(np.where(flat, usual, np.inf) ** -2.0)
        rows = LinearConstraints(limits.names, *limits.rows.take(limits.equality))
        return CoefficientPrior(np.where(flat, 0.0, stated.mean), precision, rows, _laws(density))

    @property
    def T(self) -> Array:
        """(d, n)."""
        return self.equalities.affine().T

    @property
    def free(self) -> int:
        """n."""
        return len(self.equalities.affine().free)

    @cached_property
    def centre(self) -> Array:
        """μ (d,), the mean given the equalities."""
        return project(self.mean, self.equalities, self.precision)

    @cached_property
    def scale(self) -> Array:
        """Standard deviations (d,) given the equalities; zero of coefficients that these fix."""
        return np.asarray(np.sqrt(np.diag(inverse_along(self.precision, self.T)[0])))

    @cached_property
    def log_size(self) -> float:
        """½ log|TᵀΛT|."""
        return 0.5 * inverse_along(self.precision, self.T)[1]

    def exponent(self, theta: Array) -> float:
        """−2 (log p(η) − ½ log|TᵀΛT| + ½ n log 2π), which is (θ − μ)ᵀ Λ (θ − μ) for Gaussians."""
        x = theta - self.centre
        value = float(x @ self._gaussian @ x)
        for i, law in self.laws.items():
            with np.errstate(divide="ignore"):
                value += -2 * float(law.logpdf(theta[i])) + math.log(self.precision[i, i]) - LOG_2PI
        return value

    def pull(self, theta: Array) -> Array:
        """∇ log p, (d,): Λ (μ − θ) for Gaussians."""
        slope = self._gaussian @ (self.centre - theta)
        for i, law in self.laws.items():
            slope[i] = law.gradient(theta[i])
        return np.asarray(slope)

    def information(self, theta: Array) -> Array:
        """−∇∇ log p, (d, d): Λ for Gaussians; zero where a density is not log-concave."""
        found = self._gaussian.copy()
        for i, law in self.laws.items():
            reach = _SHORT * self.precision[i, i] ** -0.5
            ends = np.clip([theta[i] - reach, theta[i] + reach], law.lower, law.upper)
            if theta[i] > law.lower:  # no further than a small part of the way to where it is zero
                ends[0] = max(ends[0], theta[i] - _SHORT * (theta[i] - law.lower))
            found[i, i] = max(0.0, -float(np.diff(law.gradient(ends))[0] / (ends[1] - ends[0])))
        return found

    @property
    def blunt(self) -> CoefficientPrior:
        """With ε = 2b/π, for posteriors: with it the Gaussian at a corner has its area.

        At the maximum of exp(−|θ − k|/b), with area 2b, the curvature is 1/(bε), and √(2πbε) = 2b.
        """
        laws = {i: replace(law, part=2 / math.pi) if isinstance(law, Rounded) else law for i, law in self.laws.items()}
        return replace(self, laws=laws)

    def corners(self, theta: Array, variance: Array) -> list[int]:
        """Coefficients at a corner of their law that is as narrow as what the data say: no Gaussian is near that. ::

            |θ̂_i − k| < 2 σ,     b < 3 σ,     1/σ² = 1/σ_i² − (curvature of the law)

        Parameters
        ----------
        variance
            σ_i² (d,) of the posterior.
        """
        found, own = list[int](), np.diag(self.blunt.information(theta))
        for i, law in self.laws.items():
            if isinstance(law, Rounded) and variance[i] > 0:
                sd = max(1 / variance[i] - own[i], np.finfo(float).tiny) ** -0.5
                near, narrow = _CORNER
                if abs(theta[i] - law.corner) < near * sd and law.law.kink_scale < narrow * sd:
                    found.append(i)
        return found

    def without(self, theta: Array, S: Array) -> Array:
        """log p(û | model without operator i) − log p(û | model), (d,), of a posterior N(θ̂, S⁻¹). ::

            log N(0; θ̂_i, σ_i²) − log p(θ_i = 0) + log E[p_0(θ') / p(θ' | θ_i = 0)]

        That is the density of the coefficient at zero (Savage and Dickey). The last term is the mean over the posterior
        given θ_i = 0 of what is left, θ': the prior p_0 of a model without the operator does not know of θ_i, where a
        JointNormal correlates both (Verdinelli and Wasserman). What the equalities tie to θ_i is zero with it. The sum
        is infinite where the prior has no density at zero, of which nothing follows, and −∞ where θ_i cannot be zero.
        """
        variance = np.diag(inverse_along(S, self.T)[0])
        correlated = np.count_nonzero(self.precision) > len(theta)
        found = np.full(len(theta), -np.inf)
        for i in np.flatnonzero(variance > 0):
            law = self.laws.get(int(i), Normal(float(self.centre[i]), float(self.scale[i]) ** 2))
            with np.errstate(divide="ignore"):
                prior = float(law.logpdf(np.array(0.0)))
            found[i] = -0.5 * (theta[i] ** 2 / variance[i] + math.log(variance[i]) + LOG_2PI) - prior
            if correlated and np.isfinite(prior):
                found[i] += self._forgotten(int(i), theta, S)
        return found

    def _forgotten(self, i: int, theta: Array, S: Array) -> float:
        """log E[p_0(θ') / p(θ' | θ_i = 0)]; −∞ where θ_i cannot be zero."""
        zero = np.where(np.arange(len(theta)) == i, 0.0, np.inf)
        try:
            affine = self.equalities.with_bounds(-zero, zero, ("",) * len(zero)).affine()
        except InfeasibleError:
            return -np.inf
        left = np.flatnonzero(affine.T.any(axis=1) | (affine.offset != 0))
        own = np.ix_(left, left)
        alone = np.zeros_like(S)
        alone[own] = np.linalg.inv(np.linalg.inv(self.precision)[own])

        def part(M: Array, m: Array) -> tuple[Array, Array]:
            """P and h of exp(−½ (θ − m)ᵀ M (θ − m)) ∝ exp(−½ ηᵀPη + hᵀη)."""
            return affine.T.T @ M @ affine.T, affine.T.T @ M @ (m - affine.offset)

        laws = [part(S, theta), part(alone, self.mean), part(self.precision, self.mean)]
        (P, h), (P0, h0), (P1, h1) = laws
        values = [_log_integral(*law) for law in ((P + P0 - P1, h + h0 - h1), *laws)]
        return values[0] - values[1] - values[2] + values[3]

    @cached_property
    def _gaussian(self) -> Array:
        """Λ without the coefficients that have other laws."""
        found = self.precision.copy()
        found[list(self.laws), list(self.laws)] = 0.0
        return found


def inverse_along(M: Array, T: Array) -> tuple[Array, float]:
    """T (TᵀMT)⁻¹ Tᵀ (d, d), and log|TᵀMT|."""
    P = T.T @ M @ T
    found = T @ np.linalg.inv(0.5 * (P + P.T)) @ T.T
    return 0.5 * (found + found.T), float(np.linalg.slogdet(P)[1])


def _log_integral(P: Array, h: Array) -> float:
    """log ∫ exp(−½ ηᵀPη + hᵀη) dη − ½ n log 2π; −∞ where there is no such integral."""
    sign, logdet = np.linalg.slogdet(P)
    return float(0.5 * (h @ np.linalg.solve(P, h) - logdet)) if sign > 0 else -np.inf


def stated_laws(
    prior: Prior | GaussianPrior | None, names: tuple[str, ...], limits: LinearConstraints | None = None
) -> PriorDensity:
    """The density of a prior by name; flat for operators that it does not name, which have the usual one.

    Refused where forward solves cannot use a law, or where an equality ties a coefficient whose law is not Gaussian.
    """
    whole = prior.prior if isinstance(prior, GaussianPrior) else prior or Prior({}, Flat())
    bound = (replace(whole, default=Flat()) if isinstance(whole.default, ColumnScale) else whole).bind(names)
    for factor in bound.factors:
        if isinstance(factor.law, Horseshoe):
            raise RefineError(
                f"prior of {names[factor.positions[0]]!r}: forward solves need a density without a spike, and "
                f"{factor.law} has one; state Laplace or StudentT."
            )
    for i, law in _laws(bound).items():
        tying = () if limits is None else limits.rows.take(limits.equality & (limits.A[:, i] != 0)).texts
        if tying:
            raise RefineError(
                f"prior of {names[i]!r}: {tying[0]!r} is an equality, and forward solves need a Gaussian for what it "
                f"ties, not {law}; state a Normal, and bounds as constraints."
            )
    return bound


def _laws(density: PriorDensity) -> dict[int, Distribution | Rounded]:
    """Those that are neither Gaussian nor flat, by position."""
    return {
        int(i): factor.law if factor.law.kink is None else Rounded(factor.law)
        for factor in density.factors
        if not isinstance(factor.law, JointNormal | Normal | Flat)
        for i in factor.positions
    }
