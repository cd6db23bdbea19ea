"""Whether the residuals of a fit are what the noise model makes of them.

    r = C ε,   ε ~ N(0, Σ_u),      w = W r,      r⊥ = r − X̃ (X̃ᵀWX̃)⁻¹ X̃ᵀ w

Every statistic is computed for the residuals of the fit and for draws of ε that go through the same C, W and
projection; mean and spread of the draws say how unusual it is. Nothing else is assumed about its distribution. What
W(θ̂) misses of W(θ) adds to the spread: the same residuals are weighted with draws of θ from the posterior.

The noise is tested by the data alone too, since high-pass filters leave nothing but noise: neighbours along every axis
are as alike as the model has it (:mod:`bvsi.noise.correlation`), and the noise of a model with one level does not grow
with the signal, and is even. Of incomplete data only filtered values count that no missing value enters; the variance
of the statistic is then at most the one that is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtr, stdtr

from bvsi.check.comparison import chance
from bvsi.common.arrays import Array, Rng
from bvsi.data import Data, Grid
from bvsi.errors import DataError
from bvsi.infer import Fit
from bvsi.infer.fit import around, theta_at_hand
from bvsi.likelihood import ResidualLikelihood
from bvsi.likelihood.covariance import Part
from bvsi.likelihood.products import SpaceTime
from bvsi.noise import Noise, SignalNoise, estimate_noise, estimate_signal_noise
from bvsi.noise.correlation import neighbour_correlation, shape_of, whiteness, widths_of
from bvsi.noise.level import observed
from bvsi.noise.measurement import stated_variance
from bvsi.noise.uneven import estimate_uneven
from bvsi.residual.blur import Blur

TestKind = Literal["misfit", "structure", "missing", "uneven", "white", "signal", "level"]

# Draws of the noise that a statistic is compared with, and of θ for other weights; not measured: the spread of 40 draws
# is known to 11%, and Student's t allows for that.
_DRAWS = 40
_WEIGHTS = 6  # each costs a factorisation
_FEW_WEIGHTS = 2  # where data are so many that the posterior is narrow, and a factorisation takes seconds
# Groups of blocks whose shares of the misfit are compared.
_GROUPS = 8
_SAME = 1e-9  # relative difference of variances that is rounding


@dataclass(frozen=True)
class ResidualTest:
    """One statistic, how many standard deviations it is from what noise gives, and how often noise gives as much.

    p is two-sided for the misfit and one-sided, large values being unusual, for the others; NaN for what the data
    do not allow to test.

    Attributes
    ----------
    kind
        What is tested: the misfit, its structure in space or time, an operator that explains it, how evenly it is
        spread, white noise, noise that grows with the signal, its level over times and nodes.
    """

    name: str
    statistic: float
    z: float
    p: float
    kind: TestKind

    def __str__(self) -> str:
        if np.isnan(self.p):
            return f"{self.name}: could not be tested, since data are few or rounded, or filters leave signal in them"
        return f"{self.name}: {self.statistic:.3g} ({chance(self.p, 2)})"


@dataclass(frozen=True)
class ResidualTests:
    """The tests, and the degrees of freedom of the misfit: n − d, fewer where the weights leave correlations out.

    Attributes
    ----------
    drawn
        Whether these come from draws, and have errors of their own.
    """

    tests: tuple[ResidualTest, ...]
    freedom: float
    drawn: bool


def residual_tests(
    fit: Fit, likelihood: ResidualLikelihood, *, noise_error: float, rng: Rng, absorbed: float = 0.0
) -> ResidualTests:
    """Misfit χ²/(n − d), correlation of neighbours in w, and how evenly the misfit is spread over time.

    Parameters
    ----------
    noise_error
        Relative standard error of the noise level.
    absorbed
        Degrees of freedom that what is held in the operators took, as unknown functions do.
    """
    number = _FEW_WEIGHTS if likelihood.costly else _WEIGHTS
    others = [] if fit.posterior is None else list(fit.posterior.sample(number, rng))
    weights = theta_at_hand(fit, likelihood)
    columns = [_Columns.of(part, likelihood, fit.theta, weights, others, rng) for part in likelihood.parts]
    q = np.sum([c.misfit for c in columns], axis=0)[: 1 + _DRAWS]
    n = freedom = max(1.0, float(likelihood.system.n - likelihood.system.d) - absorbed)
    drawn = not likelihood.weighting.exact
    if drawn:
        n = max(1.0, float(q[1:].mean()) - absorbed)
        freedom = min(freedom, 2 * n**2 / float(q[1:].var(ddof=1)))
    # a level that filters measured is known to their error, also where the fit refines it
    known = likelihood.scale_known or noise_error > 0
    tests = [misfit_test(float(q[0]) / n, freedom, noise_error, drawn=drawn)] if known else []
    in_time, in_space = (np.mean([getattr(c, f) for c in columns], axis=0) for f in ("lag_time", "lag_space"))
    across = "in space" if likelihood.parts[0].residuals.structure.coordinates.shape[1] else "between equations"
    uneven = np.sum([_unevenness(c.share) for c in columns], axis=0)
    # one block, or one row, has no neighbours, and frames of a steady problem are not neighbours
    blocks, rows = (max(part.residuals.y.shape[axis] for part in likelihood.parts) for axis in (1, 0))
    moving = blocks > 1 and likelihood.evolves
    tests += [_against_draws("residuals correlated in time", "structure", in_time)] if moving else []
    tests += [_against_draws(f"residuals correlated {across}", "structure", in_space)] if rows > 1 else []
    tests += [_against_draws("uneven misfit in time", "uneven", uneven)] if blocks > 1 else []
    return ResidualTests(tuple(tests), freedom, drawn)


def missing_operator(fit: Fit, likelihood: ResidualLikelihood, rng: Rng) -> list[ResidualTest]:
    """Whether an operator that is no candidate explains what the fit leaves: the largest score z_j of those outside it.

    p is that of the largest of so many (Bonferroni). Stand-ins may leave a misfit that is noise when it is summed over
    all residuals, and that one direction shows: Fisher's equation without ∂²u among the candidates was found with ∂²u²
    and ∂²u³ and a χ²/n of 1.09 (p = 0.1), where ∂²u has z = 9. Empty where the fit makes up all others.

    Parameters
    ----------
    likelihood
        Of the operators of the fit and others.
    """
    own = tuple(likelihood.names.index(name) for name in fit.names)
    squares = around(likelihood, fit, rng).score_tests(own)[0]
    best = int(np.argmax(squares))
    if not squares[best]:  # none that those of the fit do not make up
        return []
    z, name = float(np.sqrt(squares[best])), likelihood.names[best]
    p = min(1.0, 2 * float(ndtr(-z)) * (len(squares) - len(own)))
    return [ResidualTest(f"{name}, not in the library, explains residuals", z, z, p, "missing")]


def misfit_test(chi2: float, freedom: float, noise_error: float, *, drawn: bool = False) -> ResidualTest:
    """χ²/n − 1 against (2/freedom + 4 noise_error²)^½; the cube root of χ² is nearly normal (Wilson and Hilferty).

    Parameters
    ----------
    drawn
        Whether n and freedom come from the draws: then they have errors of their own, and z is Student's.
    """
    spread = np.sqrt(2.0 / freedom * (1 + drawn / _DRAWS) + 4.0 * noise_error**2)
    z = float((np.cbrt(chi2) - 1 + spread**2 / 9) / (spread / 3))
    p = stdtr(_DRAWS - 1, -abs(z)) if drawn else ndtr(-abs(z))
    return ResidualTest("misfit per degree of freedom", chi2, z, float(2 * p), "misfit")


def _against_draws(name: str, kind: TestKind, values: Array) -> ResidualTest:
    """The first value against draws, with the spread that other weights give it; one-sided, Student's t."""
    own, draws, reweighted = float(values[0]), values[1 : 1 + _DRAWS], values[1 + _DRAWS :]
    shift = float(np.mean((reweighted - own) ** 2)) if len(reweighted) else 0.0
    spread = np.sqrt(float(draws.var(ddof=1)) * (1 + 1 / _DRAWS) + shift)
    z = float((own - draws.mean()) / spread) if spread > 0 else 0.0
    return ResidualTest(name, own, z, float(stdtr(_DRAWS - 1, -z)), kind)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Statistics of one experiment, (1 + m + l,): the fit's own, those of m draws, the fit's with l other weights.

    Attributes
    ----------
    share
        Share of each block in the misfit, (K, 1 + m + l).
    """

    misfit: Array
    share: Array
    lag_time: Array
    lag_space: Array

    @staticmethod
    def of(
        part: Part, likelihood: ResidualLikelihood, theta: Array, near: Array, others: Sequence[Array], rng: Rng
    ) -> _Columns:
        """Draw, weight as at a θ near that of the fit, project, a few draws at a time; then weight as other θ would."""
        products = SpaceTime(part, near)
        weighting = likelihood.weighting
        weigh = weighting.weights(part, near)
        own = part.residuals.residual(theta)[:, :, None]
        w = weigh(own)
        X = part.residuals.X - products.operators(products.spread(w[:, :, 0]))
        WX = weigh(X)
        H = np.einsum("nki,nkj->ij", X, WX)
        found = [_statistics(own, w)]  # the fit has absorbed its share
        for r, w in weighting.draws(part, near, weigh, _DRAWS, rng):
            c = np.linalg.lstsq(H, np.einsum("nki,nkm->im", X, w), rcond=None)[0]
            found.append(_statistics(r - X @ c, w - WX @ c))
        if others:
            found.append(_statistics(own, weighting.reweighted(part, others, weigh, own[:, :, 0])))
        return _Columns(*(np.concatenate([getattr(one, f.name) for one in found], axis=-1) for f in fields(_Columns)))


def _statistics(r: Array, w: Array) -> _Columns:
    """From residuals and weighted residuals (N, K, m), what the fit absorbs taken off."""
    by_block = np.einsum("nkm,nkm->km", r, w)
    q = by_block.sum(axis=0)
    squares = np.einsum("nkm,nkm->m", w, w)
    return _Columns(
        q,
        by_block / q,
        np.einsum("nkm,nkm->m", w[:, 1:], w[:, :-1]) / squares,
        np.einsum("nkm,nkm->m", w[1:], w[:-1]) / squares,
    )


def _unevenness(share: Array) -> Array:
    """(Σ_g (s_g − mean)²/variance)^½ over groups of blocks, s_g their shares of the misfit; (1 + m,)."""
    groups = np.array_split(share, min(_GROUPS, len(share)))
    s = np.stack([g.sum(axis=0) for g in groups])
    draws = s[:, 1 : 1 + _DRAWS]
    mean, variance = draws.mean(axis=1, keepdims=True), draws.var(axis=1, ddof=1, keepdims=True)
    return np.asarray(np.sqrt(np.sum((s - mean) ** 2 / np.maximum(variance, np.finfo(float).tiny), axis=0)))


Growth: TypeAlias = Mapping[str, SignalNoise]
"""How noise grows with the signal, by field."""


def noise_tests(
    data: Sequence[Data], noise: Sequence[Noise], *, growth: Sequence[Growth | None] = ()
) -> tuple[ResidualTest, ...]:
    """Correlation of the noise along every axis, how it depends on the signal, how even it is; on grids only.

    Parameters
    ----------
    noise
        The model of each experiment.
    growth
        How the noise of each experiment grows with the signal, by field, where that was measured before. Where it was,
        uneven noise was looked for as well, and is in the model.
    """
    tests: list[ResidualTest] = []
    known = growth or [None] * len(data)
    for experiment, model, found in zip(data, noise, known, strict=False):
        if not isinstance(experiment.geometry, Grid):
            continue
        expected = neighbour_correlation(model, experiment)
        for name in experiment.fields:
            for one in whiteness(observed(experiment, name), experiment, expected):
                what = f"noise correlated along {one.axis} ({name})"
                if expected[one.axis] > 0:
                    what = f"noise correlated along {one.axis} otherwise than stated ({name})"
                tests.append(ResidualTest(what, one.correlation, one.z, one.p, "white"))
        if _has_one_level(model, experiment):
            try:
                tests += _of_one_level(experiment, Blur.of(experiment, widths_of(model)), found)
            except DataError:
                continue
    return tuple(tests)


def _has_one_level(noise: Noise, data: Data) -> bool:
    """Whether the model has one level per field, but for gaps and outliers."""
    variance = stated_variance(shape_of(noise), data)
    if variance is None:
        return False
    for name, v in variance.items():
        known = v if v.ndim < 2 or data.measured is None else v[data.measured[name]]
        if np.ptp(known) > _SAME * np.mean(known):
            return False
    return True


def _of_one_level(data: Data, blur: Blur | None, growth: Growth | None) -> list[ResidualTest]:
    """Whether noise of one level grows with the signal, or is uneven."""
    found = estimate_signal_noise(data, blur=blur) if growth is None else growth
    tests = [
        ResidualTest(f"noise grows with the signal ({name})", max(one.c, one.b**0.5), np.nan, one.p_value, "signal")
        for name, one in found.items()
    ]
    if growth is None:
        level = estimate_noise(data, blur=blur)
        grown = {name: one.of(data)[name] for name, one in found.items() if one.significant}
        for name, own in estimate_uneven(data, level, grown, blur=blur).items():
            p = own.p_value if own.where else 1.0
            tests.append(ResidualTest(f"noise is uneven ({name})", own.spread, np.nan, p, "level"))
    return tests
