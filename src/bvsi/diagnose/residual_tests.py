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
# Groups of blocks whose shares of the misfit are compared.
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

    def __str__(self) -> str:
        return f"{self.name}: {self.statistic:.3g} (p = {self.p:.2g})"


MISFIT = "misfit"
UNEVEN = "uneven misfit in time"
STRUCTURE = ("residuals correlated in time", "residuals correlated in space")


@dataclass(frozen=True)
class ResidualTests:
    """The tests, and the degrees of freedom of the misfit: n − d, fewer where the weights leave correlations out."""

    tests: tuple[ResidualTest, ...]
    freedom: float


def residual_tests(fit: Fit, likelihood: ResidualLikelihood, *, noise_error: float, rng: Rng) -> ResidualTests:
    """Misfit χ²/(n − d), correlation of neighbours in w, and how evenly the misfit is spread over time.

    noise_error: relative standard error of the noise level.
    """
    columns = [_Columns.of(part, likelihood, fit.theta, rng) for part in likelihood.parts]
    q = np.sum([c.misfit for c in columns], axis=0)
    n = freedom = float(likelihood.system.n - likelihood.system.d)
    if not isinstance(likelihood.weighting, Stacked):
        n, freedom = float(q[1:].mean()), min(n, 2 * float(q[1:].mean() ** 2 / q[1:].var(ddof=1)))
    tests = [misfit_test(float(q[0]) / n, freedom, noise_error)] if likelihood.scale_known else []
    in_time, in_space = (np.mean([getattr(c, f) for c in columns], axis=0) for f in ("lag_time", "lag_space"))
    uneven = np.sum([c.uneven for c in columns], axis=0)
    values = zip((*STRUCTURE, UNEVEN), (in_time, in_space, uneven), strict=True)
    return ResidualTests((*tests, *(_against_draws(name, one) for name, one in values)), freedom)


def misfit_test(chi2: float, freedom: float, noise_error: float) -> ResidualTest:
    """χ²/n − 1 against (2/freedom + 4 noise_error²)^½; the cube root of χ² is nearly normal (Wilson and Hilferty)."""
    spread = np.sqrt(2.0 / freedom + 4.0 * noise_error**2)
    z = float((np.cbrt(chi2) - 1 + spread**2 / 9) / (spread / 3))
    return ResidualTest(MISFIT, chi2, z, float(2 * ndtr(-abs(z))))


def _against_draws(name: str, values: Array) -> ResidualTest:
    """The first value against the others, which are draws; one-sided, Student's t."""
    draws = values[1:]
    spread = float(draws.std(ddof=1)) * np.sqrt(1 + 1 / len(draws))
    z = float((values[0] - draws.mean()) / spread) if spread > 0 else 0.0
    return ResidualTest(name, float(values[0]), z, float(stdtr(len(draws) - 1, -z)))


@dataclass(frozen=True, eq=False)
class _Columns:
    """Statistics of one experiment, (1 + m,) each: the fit's own first, then those of m draws."""

    misfit: Array
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
        return _statistics(r - X @ c, w - WX @ c)


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


def _statistics(r: Array, w: Array) -> _Columns:
    """From residuals and weighted residuals (N, K, 1 + m), what the fit absorbs taken off."""
    by_block = np.einsum("nkm,nkm->km", r, w)
    q = by_block.sum(axis=0)
    squares = np.einsum("nkm,nkm->m", w, w)
    return _Columns(
        q,
        _unevenness(by_block / q),
        np.einsum("nkm,nkm->m", w[:, 1:], w[:, :-1]) / squares,
        np.einsum("nkm,nkm->m", w[1:], w[:-1]) / squares,
    )


def _unevenness(share: Array) -> Array:
    """(Σ_g (s_g − mean)²/variance)^½ over groups of blocks, s_g their shares of the misfit; (1 + m,)."""
    groups = np.array_split(share, min(_GROUPS, len(share)))
    s = np.stack([g.sum(axis=0) for g in groups])
    mean, variance = s[:, 1:].mean(axis=1, keepdims=True), s[:, 1:].var(axis=1, ddof=1, keepdims=True)
    return np.asarray(np.sqrt(np.sum((s - mean) ** 2 / np.maximum(variance, np.finfo(float).tiny), axis=0)))
