"""Draws of N(0, v I) within a polytope: rejection where that is cheap, Markov chains without rejection elsewhere.

The chains alternate two moves that leave the law as it is. Linear elliptical slice sampling (Gessner, Kanjilal and
Hennig, AISTATS 2020) turns around the origin by an angle that is uniform on all those allowed; it mixes fast until the
polytope lies many standard deviations away, where all allowed angles are small. Gibbs steps along the edges and faces
of the corner at hand take over there, and in layers that are thin against a standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray

Array = NDArray[np.float64]

CHAINS, BURN_IN, THINNING = 1000, 100, 3
"""Chains side by side, their steps before the first draw is kept, and between two that are kept."""
INDEPENDENT = 1e-6
"""Sine of the angle between a face and the span of others below which it depends on them."""

Draw = Callable[[int, np.random.Generator], Array]
"""z (n, k) without the constraints."""
NewVariance = Callable[[Array, np.random.Generator], Array]
"""v (n,) given z (n, k), for laws in which v is random too."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """{z : G z ≤ h}; G (m, k) with rows of length one, h (m,)."""

    G: Array
    h: Array

    def contains(self, z: Array) -> NDArray[np.bool_]:
        """Which rows of z (n, k) lie inside."""
        return np.asarray((z @ self.G.T <= self.h).all(axis=1))


def polytope(B: Array, lower: Array, upper: Array) -> Polytope:
    """{z : lower ≤ B z ≤ upper} without the rows that hold for all z."""
    G, h = np.concatenate([B, -B]), np.concatenate([upper, -lower])
    length = np.linalg.norm(G, axis=1)
    used = np.isfinite(h) & (length > 0)
    return Polytope(G[used] / length[used, None], h[used] / length[used])


def draw_by_rejection(inside: Polytope, unbounded: Draw, share: float, size: int, rng: np.random.Generator) -> Array:
    """Draws (size, k) of ``unbounded`` that lie inside, about a given share of them."""
    kept, missing = [unbounded(0, rng)], size
    while missing > 0:
        z = unbounded(math.ceil(1.1 * missing / share) + 10, rng)
        kept.append(z[inside.contains(z)][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def draw_by_chains(
    inside: Polytope,
    start: Array,
    directions: Array,
    new_variance: NewVariance,
    size: int,
    rng: np.random.Generator,
) -> Array:
    """Draws (size, k), from up to ``CHAINS`` chains.

    start: (k,) inside; directions: (k, k) of the Gibbs steps, see :func:`face_directions`.
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


def ellipse_step(inside: Polytope, z: Array, variance: Array, rng: np.random.Generator) -> Array:
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


def _uniform_outside(start: Array, end: Array, rng: np.random.Generator) -> Array:
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


def line_step(inside: Polytope, z: Array, u: Array, variance: Array, rng: np.random.Generator) -> Array:
    """z + s u with s from its law given all else, N(−u·z, v) on the piece of the line inside; u (k,) has length 1."""
    rate = inside.G @ u
    slack = np.maximum(inside.h - z @ inside.G.T, 0.0)
    high = np.min(slack[:, rate > 0] / rate[rate > 0], axis=1, initial=np.inf)
    low = np.max(slack[:, rate < 0] / rate[rate < 0], axis=1, initial=-np.inf)
    sd, centre = np.sqrt(variance), -z @ u
    s = centre + sd * truncated_normal((low - centre) / sd, (high - centre) / sd, rng)
    return np.asarray(z + np.clip(s, low, high)[:, None] * u)


def truncated_normal(low: Array, high: Array, rng: np.random.Generator) -> Array:
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
