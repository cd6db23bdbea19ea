"""Coordinates without bounds, in which a posterior is near a standard normal one.

    θ = c + G v,      v = v(z) component by component,      z = m + L w

Equalities take dimensions away; every inequality row that is independent of the others is a component of v, so that no
step in w can violate it (:mod:`bvsi.infer.bounded`). A density of θ becomes one of w with the factor |det ∂v/∂w|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bvsi.infer.bounded import Bounded
from bvsi.infer.constraints import Affine, LinearConstraints
from bvsi.infer.posteriors import Posterior
from bvsi.likelihood import Term

Array = NDArray[np.float64]

DRAWS = 4000
"""Draws of the approximate posterior from which m and L are worked out where there are inequalities."""

_INDEPENDENT = 1e-6
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The map from w (…, n) to θ (…, d).

    offset: c (d,); G: (d, n); F: (n, d) with v = F (θ − c); bounds: of v.
    centre: m (n,); L: (n, n), lower triangular. constraints: all of them, for rows that are not components of v.
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
        v, _ = self.bounds.forward(self.centre + w @ self.L.T)
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

    def pull_back(self, w: Array, density: Term) -> Term:
        """log-density of w (n,) with its gradient, from that of θ(w)."""
        _, slope = self.bounds.forward(self.centre + w @ self.L.T)
        gradient = self.L.T @ (slope.value * (self.G.T @ density.gradient) + slope.log_gradient)
        return Term(density.value + float(slope.log.sum()), gradient)

    def allows(self, theta: Array) -> NDArray[np.bool_]:
        """Whether θ (…, d) satisfies the rows that the coordinates do not take care of, too."""
        if not self.bounds.any:
            return np.ones(theta.shape[:-1], dtype=bool)
        return self.constraints.inside(theta, -_ROUNDING)


def coordinates(approximation: Posterior, constraints: LinearConstraints, rng: np.random.Generator) -> Coordinates:
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
