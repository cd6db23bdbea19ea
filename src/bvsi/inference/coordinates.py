"""Coordinates without bounds, in which a posterior is near a standard normal one.

    θ = c + G v,      v_i = z_i,   l + e^{z_i},   u − e^{z_i}   or   l + (u − l)/(1 + e^{−z_i}),      z = m + L w

Equalities take dimensions away; every inequality row that is independent of the others is a component of v, so that no
step in w can violate it. A density of θ becomes one of w with the factor |det ∂v/∂w|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray

from bvsi.constraints import Affine, LinearConstraints
from bvsi.likelihood import Term
from bvsi.posteriors import Posterior

Array = NDArray[np.float64]

DRAWS = 4000
"""Draws of the approximate posterior from which m and L are worked out where there are inequalities."""

_INDEPENDENT = 1e-6
_STEEPEST = 500.0


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The map from w (…, n) to θ (…, d).

    offset: c (d,); G: (d, n); F: (n, d) with v = F (θ − c); lower, upper: bounds of v (n,), infinite where none is.
    centre: m (n,); L: (n, n), lower triangular. constraints: all of them, for rows that are not components of v.
    """

    offset: Array
    G: Array
    F: Array
    lower: Array
    upper: Array
    centre: Array
    L: Array
    constraints: LinearConstraints

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.centre)

    def theta(self, w: Array) -> Array:
        """θ of w (…, n); bounds of single coefficients hold to the last digit."""
        v, _, _ = self._components(self.centre + w @ self.L.T)
        return self.constraints.clipped(self.offset + v @ self.G.T)

    def w(self, theta: Array) -> Array:
        """w of θ (…, d), which has to lie inside the constraints."""
        z = _unbounded((theta - self.offset) @ self.F.T, self.lower, self.upper)
        return np.asarray(scipy.linalg.solve_triangular(self.L, (z - self.centre).T, lower=True).T)

    def pull_back(self, w: Array, density: Term) -> Term:
        """log-density of w (n,) with its gradient, from that of θ(w)."""
        _, slope, (log_slope, log_slope_gradient) = self._components(self.centre + w @ self.L.T)
        gradient = self.L.T @ (slope * (self.G.T @ density.gradient) + log_slope_gradient)
        return Term(density.value + float(log_slope.sum()), gradient)

    def allows(self, theta: Array) -> NDArray[np.bool_]:
        """Whether θ (…, d) satisfies the rows that the coordinates do not take care of, too."""
        return np.asarray(self.constraints.satisfied(theta))

    def _components(self, z: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        """v, ∂v/∂z, and log |∂v/∂z| with its derivative, each (…, n)."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        z = np.where(low | high, np.clip(z, -_STEEPEST, _STEEPEST), z)
        power = np.exp(np.where(low ^ high, z, 0.0))
        share = scipy.special.expit(z)
        width = np.where(low & high, self.upper - self.lower, 1.0)
        cases = [low & high, low, high]
        base_low, base_high = np.where(low, self.lower, 0.0), np.where(high, self.upper, 0.0)
        v = np.select(cases, [base_low + width * share, base_low + power, base_high - power], z)
        slope = np.select(cases, [width * share * (1 - share), power, -power], np.ones_like(z))
        two_sided = np.log(width) + scipy.special.log_expit(z) + scipy.special.log_expit(-z)
        log_slope = np.select(cases, [two_sided, z, z], np.zeros_like(z))
        log_slope_gradient = np.select(cases, [1 - 2 * share, np.ones_like(z), np.ones_like(z)], np.zeros_like(z))
        return v, slope, (log_slope, log_slope_gradient)


def coordinates(approximation: Posterior, constraints: LinearConstraints, rng: np.random.Generator) -> Coordinates:
    """Coordinates in which an approximate posterior, which respects the constraints, is near N(0, I)."""
    affine, inside = constraints.reduced
    if not inside:
        covariance = approximation.covariance[np.ix_(affine.free, affine.free)]
        centre, free = affine.eta(approximation.mean), np.full(len(affine.free), np.inf)
        return _assembled(affine, np.eye(len(free)), -free, free, centre, covariance, constraints)
    draws = affine.eta(approximation.sample(DRAWS, rng))
    M, lower, upper = _components_of(inside, draws)
    z = _unbounded(draws @ M.T, lower, upper)
    return _assembled(affine, M, lower, upper, z.mean(axis=0), np.cov(z.T, ddof=1).reshape(len(M), -1), constraints)


def _assembled(
    affine: Affine,
    M: Array,
    lower: Array,
    upper: Array,
    centre: Array,
    covariance: Array,
    constraints: LinearConstraints,
) -> Coordinates:
    """Coordinates from v = M η and the moments of z."""
    select = np.eye(len(affine.names))[affine.free]
    scale = np.sqrt(np.diag(covariance))
    L = scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))
    return Coordinates(affine.offset, affine.T @ np.linalg.inv(M), M @ select, lower, upper, centre, L, constraints)


def _components_of(inside: LinearConstraints, draws: Array) -> tuple[Array, Array, Array]:
    """M (n, n) with v = M η: independent inequality rows, the nearest first, and what is orthogonal to them."""
    scale = draws.std(axis=0)
    rows = inside.A * scale
    size = np.linalg.norm(rows, axis=1)
    value = draws.mean(axis=0) @ inside.A.T
    slack = np.minimum(value - inside.lower, inside.upper - value) / size
    chosen: list[int] = []
    for i in np.argsort(slack, kind="stable"):
        unit = rows[[*chosen, i]] / size[[*chosen, i], None]
        if np.linalg.svd(unit, compute_uv=False)[-1] > _INDEPENDENT and len(unit) <= unit.shape[1]:
            chosen.append(int(i))
    rest = scipy.linalg.null_space(rows[chosen] / size[chosen, None]).T
    free = np.full(len(rest), np.inf)
    M = np.concatenate([rows[chosen], rest]) / scale
    return M, np.concatenate([inside.lower[chosen], -free]), np.concatenate([inside.upper[chosen], free])


def _unbounded(v: Array, lower: Array, upper: Array) -> Array:
    """z of v (…, n)."""
    low, high = np.isfinite(lower), np.isfinite(upper)
    tiny = np.finfo(float).tiny
    above = np.maximum(np.where(low, v - np.where(low, lower, 0.0), 1.0), tiny)
    below = np.maximum(np.where(high, np.where(high, upper, 0.0) - v, 1.0), tiny)
    return np.select([low & high, low, high], [np.log(above) - np.log(below), np.log(above), np.log(below)], v)
