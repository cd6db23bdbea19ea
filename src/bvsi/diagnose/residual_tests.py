"""Whether the residuals of a fit are what the noise model makes of them.

    r = C ε,   ε ~ N(0, Σ_u),      w = W r,      r⊥ = r − X̃ (X̃ᵀWX̃)⁻¹ X̃ᵀ w

Every statistic is worked out for the residuals of the fit and for draws of ε that go through the same C, W and
projection; mean and spread of the draws say how unusual it is. Nothing else is assumed about its distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from bvsi.inference import Fit
from bvsi.likelihood import ResidualLikelihood, Stacked
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.stacked import Whole
from bvsi.likelihood.stacked_products import SpaceTime

Array = NDArray[np.float64]
Rng = np.random.Generator

_DRAWS = 40
# Modes in time and along every axis that count as smooth, and groups of blocks whose misfit is compared.
_MODES = 3
_GROUPS = 8


@dataclass(frozen=True)
class ResidualTest:
    """One statistic, how many standard deviations it is from what noise gives, and how often noise gives as much.

    p is two-sided for the misfit and one-sided, large values being unusual, for the others.
    """

    name: str
    statistic: float
    z: float
    p: float


MISFIT = "misfit"
STRUCTURE = ("smooth in space and time", "uneven in time", "correlated in time", "correlated in space")
SHAPE = ("skewness", "excess kurtosis")


def residual_tests(fit: Fit, likelihood: ResidualLikelihood, *, noise_error: float, rng: Rng) -> tuple[ResidualTest, ...]:
    """Misfit χ²/n, structure of the weighted residuals, and normality of the whitened data residuals.

    noise_error: relative standard error of the noise level.
    """
    theta = fit.theta
    columns = [_Columns.of(part, likelihood, theta, rng) for part in likelihood.parts]
    n = likelihood.system.n - likelihood.system.d
    q = np.sum([c.misfit for c in columns], axis=0)
    tests = [_misfit(float(q[0]) / n, n, noise_error)] if likelihood.scale_known else []
    smooth, uneven = np.sum([c.smooth for c in columns], axis=0), np.sum([c.uneven for c in columns], axis=0)
    in_time, in_space = (np.mean([getattr(c, f) for c in columns], axis=0) for f in ("lag_time", "lag_space"))
    tests += [
        _against_draws(name, values) for name, values in zip(STRUCTURE, (smooth, uneven, in_time, in_space), strict=True)
    ]
    return tuple(tests)


def _misfit(chi2: float, n: int, noise_error: float) -> ResidualTest:
    """χ²/n − 1 against (2/n + 4 noise_error²)^½; the cube root of χ² is nearly normal (Wilson and Hilferty)."""
    spread = np.sqrt(2.0 / n + 4.0 * noise_error**2)
    z = float((np.cbrt(chi2) - 1 + spread**2 / 9) / (spread / 3))
    return ResidualTest(MISFIT, chi2, z, float(2 * ndtr(-abs(z))))


def _against_draws(name: str, values: Array) -> ResidualTest:
    """The first value against the others, which are draws; one-sided, Student's t."""
    draws = np.sign(values[1:]) * np.sqrt(np.abs(values[1:]))  # squares of normals are less skew this way
    own = np.sign(values[0]) * np.sqrt(np.abs(values[0]))
    m = len(draws)
    spread = float(draws.std(ddof=1)) * np.sqrt(1 + 1 / m)
    z = float((own - draws.mean()) / spread) if spread > 0 else 0.0
    return ResidualTest(name, float(values[0]), z, float(stdtr(m - 1, -z)))


@dataclass(frozen=True, eq=False)
class _Columns:
    """Statistics of one experiment, (1 + m,) each: the fit's own first, then those of m draws."""

    misfit: Array
    smooth: Array
    uneven: Array
    lag_time: Array
    lag_space: Array

    @staticmethod
    def of(part: Part, likelihood: ResidualLikelihood, theta: Array, rng: Rng) -> _Columns:
        """Draw, weight, project."""
        products = SpaceTime(part, theta)
        own = part.residuals.residual(theta)
        draws = [products.sensitivity(products.draw(rng)) for _ in range(_DRAWS)]
        r = np.stack([own, *draws], axis=2)
        weigh = _weighter(part, likelihood, theta)
        w = weigh(r)
        X = part.residuals.X - products.operators(products.spread(w[:, :, 0]))
        WX = weigh(X)
        H = np.einsum("nki,nkj->ij", X, WX)
        c = np.linalg.lstsq(H, np.einsum("nki,nkm->im", X, w), rcond=None)[0]
        return _statistics(part, r - X @ c, w - WX @ c)


def _weighter(part: Part, likelihood: ResidualLikelihood, theta: Array) -> Callable[[Array], Array]:
    """Z ↦ W Z for Z (N, K, m), with the weights of the likelihood."""
    if isinstance(likelihood.weighting, Stacked):
        return Whole.of(part, theta).weighted
    groups = [part.factorised(theta, group) for group in part.covariance.groups(part.residuals)]

    def weighted(Z: Array) -> Array:
        out = np.empty_like(Z)
        for one in groups:
            columns = Z[:, one.group.blocks]
            out[:, one.group.blocks] = one.factor.solve(columns.reshape(len(Z), -1)).reshape(columns.shape)
        return out

    return weighted


def _statistics(part: Part, r: Array, w: Array) -> _Columns:
    """From residuals and weighted residuals (N, K, 1 + m), what the fit absorbs taken off."""
    by_block = np.einsum("nkm,nkm->km", r, w)
    q = by_block.sum(axis=0)
    squares = np.einsum("nkm,nkm->m", w, w)
    return _Columns(
        q,
        _smooth_energy(part, w) / q,
        _unevenness(by_block / q),
        np.einsum("nkm,nkm->m", w[:, 1:], w[:, :-1]) / squares,
        np.einsum("nkm,nkm->m", w[1:], w[:-1]) / squares,
    )


def _smooth_energy(part: Part, w: Array) -> Array:
    """Σ_a c_a²/Var(c_a) over modes c_a = Σ w cos … cos, the lowest in time and along every axis; (1 + m,)."""
    structure = part.residuals.structure
    places = structure.coordinates
    unit = (places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), np.finfo(float).tiny)
    space = np.ones((len(places), 1))
    for axis in unit.T:
        space = (space[:, :, None] * _cosines(axis)[:, None, :]).reshape(len(places), -1)
    time = _cosines(np.linspace(0, 1, w.shape[1]))
    own = [np.einsum("nkm,na,kb->abm", w[rows], space[rows], time, optimize=True) for rows in _equations(part)]
    c = np.concatenate([one.reshape(-1, w.shape[2]) for one in own])
    variance = np.mean(c[:, 1:] ** 2, axis=1, keepdims=True)
    return np.asarray(np.sum(c**2 / np.maximum(variance, np.finfo(float).tiny), axis=0))


def _equations(part: Part) -> list[NDArray[np.bool_]]:
    """Rows of each equation."""
    structure = part.residuals.structure
    return [structure.equation_of_row == e for e in range(len(structure.equations))]


def _cosines(x: Array) -> Array:
    """cos(π a x), a = 0 … , (n, modes)."""
    return np.cos(np.pi * x[:, None] * np.arange(_MODES))


def _unevenness(share: Array) -> Array:
    """Σ_g (s_g − mean)²/variance over groups of blocks, from each block's share of the misfit (K, 1 + m); (1 + m,)."""
    groups = np.array_split(share, min(_GROUPS, len(share)))
    s = np.stack([g.sum(axis=0) for g in groups])
    mean, variance = s[:, 1:].mean(axis=1, keepdims=True), s[:, 1:].var(axis=1, ddof=1, keepdims=True)
    return np.asarray(np.sum((s - mean) ** 2 / np.maximum(variance, np.finfo(float).tiny), axis=0))
