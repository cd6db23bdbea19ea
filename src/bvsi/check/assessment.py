"""The check of a fit: tests of its residuals and noise, comparisons with other discretisations, and a verdict.

Of a discovery the same operators are fitted again on coarser samplings and with other test functions.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from bvsi.check.comparison import LEVELS, CheckLevels, Comparison, FailedComparison, bias_estimate, compare, poorer
from bvsi.check.residual_tests import Growth, ResidualTest, missing_operator, noise_tests, residual_tests
from bvsi.check.variations import Kind, Variation, variations, with_plain_operators
from bvsi.check.verdict import Clean, Evidence, Verdict, advice_for, judge
from bvsi.check.well_posed import grows_without_bound
from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError, DataError, NotPositiveDefiniteError, OperatorError, RankError, SpaceError
from bvsi.infer import Fit, Profile
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors import Posterior, TruncatedPosterior, widened
from bvsi.infer.quadratic import factorise, sandwich
from bvsi.likelihood import ResidualLikelihood
from bvsi.noise.correlation import gain_of_counts
from bvsi.noise.measurement import Measurement, cycles_of
from bvsi.operators import Library
from bvsi.residual.thinning import THINNING
from bvsi.residual.widths import FEW_FRAMES, cycles_between_frames
from bvsi.setup import Setup

# A hundredth of a standard deviation is near enough to compare estimates.
_ROUGHLY = Profile(tol=1e-2, max_iterations=10)
# Where data are so many that an evaluation takes seconds, the first step that is no longer than this many standard
# deviations is the last one, and what is left is of second order: on KS 512 × 160 (5% noise, seed 0) estimates of
# refits that move by 1.4 to 1.8 sd are then off by at most 0.0015 sd, and p-values by 2%.
_MORE_ROUGHLY = Profile(tol=2.0, max_iterations=10)

_POSSIBLE = (RankError, NotPositiveDefiniteError, DataError, SpaceError, OperatorError)
"""Errors that fewer data or another element may raise. Any other error is a fault of ours and is not caught."""

_MISFITS = (Verdict.OPERATOR, Verdict.NOISE)
"""Verdicts beside which error bars come from the residuals as they are, not from the noise."""
# Stretches of the record whose estimates are compared; not measured: the scatter of eight is known to a quarter.
_STRETCHES = 8
# Standard deviations that the bias of data without noise counts as: it is the largest move that another discretisation
# makes, and in 224 draws (``bvsi bench honesty``, seeds 440001 to 440004, the last two with half the nodes and a third
# of the frames) no error was above 1.1 of it.
_BOUND = 1.96
# Factor of the information by which a prior has to add to it before it counts; iterations leave less than a hundredth.
_KNOWN = 1.05
_INCLUDED = "error bars have the model error included: the scatter of the estimate over time, or χ²/n if that is larger"


@dataclass(frozen=True, eq=False)
class Check:
    """What the check of a fit found.

    Attributes
    ----------
    verdict, advice
        In short, and what to do.
    reasons
        The evidence for it, in words.
    chi2
        Misfit per residual.
    tests
        Tests of residuals and noise.
    comparisons
        Comparisons with other discretisations.
    bias
        (d,) size of the discretisation bias of every coefficient.
    covariance_added
        (d, d) diagonal, to be added to the posterior covariance: bias², which in data without noise is half of a 95%
        interval, and where noise does not explain the misfit what the scatter of the estimate over time has beyond the
        posterior.
    failed
        Discretisations that could not be fitted, and why.
    """

    verdict: Verdict
    advice: str
    reasons: tuple[str, ...]
    chi2: float
    tests: tuple[ResidualTest, ...]
    comparisons: tuple[Comparison, ...]
    bias: Array
    covariance_added: Array
    failed: tuple[FailedComparison, ...] = ()

    def moved(self, T: Array) -> Check:
        """The same for coefficients T θ, T (m, d), where θ are those that were checked."""
        added = T @ self.covariance_added @ T.T
        return replace(self, bias=np.abs(T) @ self.bias, covariance_added=added)

    def __str__(self) -> str:
        rows = [f"check: {self.verdict}, χ²/n = {self.chi2:.3g}. {self.advice}"]
        rows += [f"  because {reason}" for reason in self.reasons]
        rows += [f"  {test}" for test in self.tests]
        return "\n".join([*rows, *(f"  {comparison}" for comparison in (*self.comparisons, *self.failed))])


def check(
    fit: Fit,
    likelihood: ResidualLikelihood,
    refits: Sequence[tuple[Variation, Fit | BvsiError]],
    *,
    noise_error: float,
    rng: np.random.Generator,
    missing: Sequence[ResidualTest] = (),
    data: Sequence[Data] = (),
    growth: Sequence[Growth | None] = (),
    filter_sigma: Mapping[str, float] | None = None,
    cycles: Mapping[str, float] | None = None,
    margins: Mapping[str, float] = MappingProxyType({}),
    seen: float = 1.0,
    grows: bool = False,
    noise_free: bool = False,
    left_open: tuple[str, ...] = (),
    absorbed: float = 0.0,
    shown: Array | None = None,
    frames: int | None = None,
    levels: CheckLevels = LEVELS,
) -> Check:
    """Check a fit against its noise model and other discretisations of the same data.

    Parameters
    ----------
    fit, likelihood
        Fit and likelihood of the selected operators.
    refits
        The same operators with :func:`variations` of the data, or the error where one could not be fitted. Those that
        failed or did not converge are not compared, and named.
    noise_error
        Relative standard error of the noise level, 0 where it is known.
    rng
        For draws of the noise.
    missing
        Tests of operators that are no candidates.
    data
        Experiments, for tests of the noise by itself; without them these are left out.
    growth
        How their noise grows with the signal, where that is known.
    filter_sigma
        Noise level by field, measured without a fit; it distinguishes a wrong level from a missing operator.
    cycles
        Highest frequency of the data in cycles per step, by axis and ``time``; half is the limit of the sampling.
    margins, seen, grows, frames
        As in :class:`~bvsi.check.verdict.Evidence`.
    noise_free
        Whether the data have no noise to speak of. What filters take for it is then rounding and what is left of the
        signal; tests against it mean nothing.
    left_open
        What the data leave open of parameters inside operators, in words.
    absorbed
        Degrees of freedom that functions took, which are held at their estimates.
    shown
        (d,) variances of the posterior that the covariance is added to; by default that of the fit.
    levels
        Thresholds.
    """
    if not (np.isfinite(noise_error) and noise_error >= 0):
        raise BvsiError(f"noise_error: a relative standard error is needed, such as 0.01; got {noise_error}.")
    ratio = level_ratio(likelihood, filter_sigma)
    residual = residual_tests(fit, likelihood, noise_error=noise_error, rng=rng, absorbed=absorbed)
    whole = noise_tests(data, likelihood.noise, growth=growth)
    tests = (*residual.tests, *missing, *whole)
    comparisons, failed = _compared(fit, refits, efficient=likelihood.weighting.exact, levels=levels)
    scale = fit.equations.q / fit.equations.n if likelihood.scale_known else 1.0
    clean, bias = None, bias_estimate(comparisons, len(fit.theta), levels)
    if noise_free:
        moved = {c.kind: np.abs(c.difference) / (1.0 if c.better else levels.first_steps) for c in comparisons}
        bias, size_of = np.max([bias, *moved.values()], axis=0), _sizes(likelihood)
        effects = {kind: float(np.max(size * size_of)) for kind, size in moved.items()}
        clean = Clean(unexplained(likelihood, fit.theta), effects)
    evidence = Evidence(
        tests,
        comparisons,
        max(1.0, scale),
        ratio,
        residual.freedom,
        residual.drawn,
        noise_error,
        dict(cycles or {}),
        levels,
        _axes(likelihood),
        fit.names,
        margins,
        seen,
        grows,
        clean,
        left_open,
        frames,
    )
    verdict, reasons = judge(evidence)
    for one in comparisons:
        # what is not resolved does not converge at the order of the quadrature yet
        if (verdict, poorer(one)) in ((Verdict.TIME, "time"), (Verdict.SPACE, "space")):
            bias = np.maximum(bias, np.abs(one.difference) / levels.first_steps)
    excess = 0 * bias
    if verdict in _MISFITS and fit.posterior is not None and not noise_free:
        excess = _excess(fit.posterior.variance, np.maximum(model_error(fit, likelihood), evidence.scale), shown)
        reasons += (_INCLUDED,)
    size = bias / _BOUND if noise_free else bias
    advice, added = advice_for(verdict, evidence), np.diag(size**2 + excess)
    return Check(verdict, advice, reasons, fit.chi2, tests, comparisons, bias, added, failed)


def _excess(variance: Array, factor: Array, shown: Array | None) -> Array:
    """What a posterior lacks, (d,), where errors are larger than those of the noise: 1/(1/(f v) + 1/v_s − 1/v) − v_s.

    Parameters
    ----------
    variance, factor
        v (d,) of the fit, by the noise alone, and f by how much it is larger.
    shown
        v_s (d,) of the posterior; below v where a prior knows more, above where it has some of f in it.
    """
    own = variance if shown is None else shown
    there = (own > 0) & (variance > 0)  # not where an equality fixes the coefficient
    own, v = np.where(there, own, 1.0), np.where(there, variance, 1.0)
    known = np.where(own < v / _KNOWN, 1 / own - 1 / v, 0.0)
    return np.where(there, np.maximum(1 / (1 / (factor * v) + known) - own, 0.0), 0.0)


def model_error(fit: Fit, likelihood: ResidualLikelihood) -> Array:
    """How much larger the variance of each coefficient is by the scatter of estimates over time, (d,), at least one. ::

        θ' = θ + H⁻¹ Σ_g s_g,   H = Σ_g H_g,   S = G/(G − 1) Σ_g s_g s_gᵀ,   diag(H⁻¹ S H⁻¹) / diag(H⁻¹)

    s_g and H_g are score, at θ', and Gauss–Newton matrix of the g-th of G stretches of the record, each with weights of
    its own: what is between them is left out, so that nothing but a misfit makes them alike.
    """
    stretches = [np.array_split(np.arange(len(rows)), _STRETCHES) for rows in likelihood.block_rows]
    if min(len(k) for one in stretches for k in one) == 0 or likelihood.system.n < _STRETCHES * likelihood.d:
        return np.ones(len(fit.theta))
    parts = [likelihood.some_blocks(chosen) for chosen in zip(*stretches, strict=True)]
    try:
        found = [part.profile_equations(fit.theta).equations for part in parts]
        inverse = factorise(np.sum([one.H for one in found], axis=0), fit.names).inverse()
    except (RankError, NotPositiveDefiniteError):  # too little is in a stretch
        return np.ones(len(fit.theta))
    step = inverse @ np.sum([one.g for one in found], axis=0)
    s = np.array([one.g - one.H @ step for one in found])
    S = _STRETCHES / (_STRETCHES - 1) * s.T @ s
    return np.maximum(np.diag(sandwich(inverse, S)) / np.diag(inverse), 1.0)


def _axes(likelihood: ResidualLikelihood) -> tuple[Kind, ...]:
    """What could be sampled too coarsely: time where there is a time derivative, space where there is any."""
    space = likelihood.parts[0].residuals.structure.coordinates.shape[1] > 0
    there: dict[Kind, bool] = {"time": likelihood.evolves, "space": space}
    return tuple(kind for kind, any_ in there.items() if any_)


def _compared(
    fit: Fit, refits: Sequence[tuple[Variation, Fit | BvsiError]], *, efficient: bool, levels: CheckLevels
) -> tuple[tuple[Comparison, ...], tuple[FailedComparison, ...]]:
    """Refits that converged against the fit, and why others did not."""
    comparisons, failed = [], []
    for one, refit in refits:
        if isinstance(refit, BvsiError):
            failed.append(FailedComparison(one.name, one.kind, str(refit)))
        elif not refit.status.converged:
            failed.append(FailedComparison(one.name, one.kind, refit.status.message))
        else:
            comparisons.append(compare(fit, one, refit, efficient=efficient, levels=levels))
    return tuple(comparisons), tuple(failed)


def level_ratio(likelihood: ResidualLikelihood, sigma: Mapping[str, float] | None) -> float | None:
    """Variance that filters measure relative to the stated one, mean over fields; None where either is not known."""
    if not sigma or not likelihood.scale_known:
        return None
    ratios = []
    for part in likelihood.parts:
        structure, noise = part.residuals.structure, part.covariance.noise
        if not noise.diagonal or structure.transfer is not None:
            return None
        stated = np.mean([noise.distinct[label] for label in noise.label], axis=0)
        stated /= structure.thinned.share if structure.thinned else 1.0
        by_field = stated.reshape(len(structure.fields), -1).mean(axis=1)
        ratios += [sigma[f] ** 2 / v for f, v in zip(structure.fields, by_field, strict=True) if f in sigma]
    return float(np.mean(ratios)) if ratios else None


def _for_counts(levels: CheckLevels, measured: Sequence[Measurement]) -> CheckLevels:
    """The thresholds, with larger odds where counts per node are few, and scores less normal than they are taken."""
    gains = [(m.data.fields[f], gain) for m in measured for f, gain in gain_of_counts(m.noise).items()]
    few = any(float(np.mean(np.abs(u))) < levels.few * gain for u, gain in gains)
    return replace(levels, odds=max(levels.odds, levels.odds_of_few)) if few and levels.odds > 1 else levels


def seen_signal(fit: Fit, likelihood: ResidualLikelihood, rng: np.random.Generator) -> float:
    """Signal in the time terms with the weights of the fit, over that with the weights of no operator at all.

    On some tiles where there are many: a ratio of sums over many residuals is about the same there.
    """
    if not likelihood.evolves:
        return 1.0
    scale, some = likelihood.noise_scale(fit.equations), likelihood
    if likelihood.weighting.couples_blocks:
        some = likelihood.some_tiles() or likelihood
    own, whole = (some.time_signal(t, copy.deepcopy(rng), scale) for t in (fit.theta, 0 * fit.theta))
    return own / whole if whole > 0 else 1.0


def unexplained(likelihood: ResidualLikelihood, theta: Array) -> float:
    """Σ r² / Σ y²."""
    y = sum(float(np.sum(np.square(part.residuals.y))) for part in likelihood.parts)
    r = sum(float(np.sum(np.square(part.residuals.residual(theta)))) for part in likelihood.parts)
    return r / y if y > 0 else 0.0


def _sizes(likelihood: ResidualLikelihood) -> Array:
    """‖X_i‖/‖y‖, (d,)."""
    Z = np.sum([np.sum(np.square(part.residuals.Z), axis=(0, 1)) for part in likelihood.parts], axis=0)
    return np.sqrt(Z[1:] / Z[0]) if Z[0] > 0 else np.ones(len(Z) - 1)


def check_discovery(
    fit: Fit | None,
    setup: Setup,
    likelihood: ResidualLikelihood,
    theta: Array,
    measured: Sequence[Measurement],
    rng: np.random.Generator,
    progress: Progress = silent,
    *,
    rounds: int = 0,
    held: bool = False,
    margins: Mapping[str, float] = MappingProxyType({}),
    seen: float | None = None,
    left_open: tuple[str, ...] = (),
    absorbed: float = 0.0,
    shown: Array | None = None,
    levels: CheckLevels = LEVELS,
) -> Check | None:
    """Refit with every variation that the data allow, and judge.

    Parameters
    ----------
    fit, likelihood
        Fit and likelihood of the selected operators, without constraints: these would hide what moves. Where there is
        no such fit it is made, from theta (d,); None where the data do not determine it.
    setup
        Setup of the fit.
    measured
        What is known of the noise of every experiment.
    rng
        For draws of the noise.
    rounds
        How often operators of the fit were linearised again, and those of refits are.
    held
        Whether constraints hold the fit after all; refits, which are free, are then not compared with it.
    margins, seen
        Those of the selection; margins by operator.
    left_open
        What the data leave open of parameters inside operators, in words.
    absorbed
        Degrees of freedom that functions took, which are held at their estimates.
    shown
        As in :func:`check`.
    levels
        Thresholds.
    """
    try:
        fit = Profile().fit(likelihood, start=theta) if fit is None else fit
    except (RankError, NotPositiveDefiniteError):
        return None
    tried = () if held else variations(setup)
    refits = []
    for number, variation in enumerate(tried):
        progress(number + 1, len(tried), f"checking with {variation.name}")
        refits.append((variation, _refit(variation.setup, fit, rounds, costly=likelihood.costly)))
    clean = all(m.noise_free for m in measured)
    known, missing = setup.library.subset(fit.names), list[ResidualTest]()
    # with exact weights scores have a known covariance; where an evaluation takes seconds the misfit says enough
    if not (held or clean or likelihood.costly) and likelihood.weighting.exact:
        try:
            more = with_plain_operators(setup, fit.names)
            missing += [] if more is None else missing_operator(fit, more.likelihood(), rng)
        except _POSSIBLE:  # such an operator may be more than test functions carry
            pass
    return check(
        fit,
        likelihood,
        refits,
        missing=missing,
        noise_error=max(m.error for m in measured),
        rng=rng,
        data=[m.observed for m in measured],  # interpolated values are not white noise
        growth=[m.growth for m in measured],
        filter_sigma=measured[0].filtered if len(measured) == 1 else None,
        cycles=_frequencies(measured, steady=setup.library.steady),
        margins=margins,
        seen=1.0 if clean else seen_signal(fit, likelihood, rng) if seen is None else seen,
        grows=not setup.library.steady and grows_without_bound(known, fit.theta, setup.data[0]),
        noise_free=clean,
        left_open=left_open,
        absorbed=absorbed,
        shown=shown,
        frames=_frames(measured, setup.library) if not absorbed else None,
        levels=_for_counts(levels, measured),
    )


def _frames(measured: Sequence[Measurement], library: Library) -> int | None:
    """Those of the shortest experiment; None where forward solves do not take the equation."""
    refused = library.unsimulated or library.time_order != 1 or library.longest_lag
    return None if refused else min(m.data.n_times for m in measured)


def _frequencies(measured: Sequence[Measurement], *, steady: bool) -> dict[str, float] | None:
    """Highest frequency by axis, in cycles per step; None where data are not on grids.

    In time, where frames are few, no more than that of differences between them and half a step of the spectrum: of
    seven frames a window leaves three frequencies, and the last one, 3/7, is that of travelling waves which turn by
    0.21 to 0.25 (``bvsi bench honesty``, seed 61902).
    """
    found, frames = cycles_of(measured, steady=steady), min(m.data.n_times for m in measured)
    if found is None or steady or frames >= FEW_FRAMES:
        return found
    between = cycles_between_frames([m.data for m in measured], [m.sigma for m in measured])
    return {**found, "time": min(found["time"], between + 0.5 / frames)}


def with_bias(posterior: Posterior, judged: Check, constraints: LinearConstraints | None) -> Posterior:
    """The posterior with T diag(bias_η²) Tᵀ on top of its covariance, where equalities make θ = c + T η.

    What equalities tie together moves together, and what they fix does not move.
    """
    added = judged.covariance_added
    if constraints:
        ties = constraints.affine()
        added = ties.T @ added[np.ix_(ties.free, ties.free)] @ ties.T.T
    if isinstance(posterior, TruncatedPosterior):
        return replace(posterior, base=widened(posterior.base, added))
    law: Posterior = widened(posterior, added)
    return law


def _refit(setup: Setup, fit: Fit, rounds: int, *, costly: bool) -> Fit | BvsiError:
    """The same operators on other data or test functions; the error where that cannot be fitted.

    Parameters
    ----------
    costly
        Whether data are so many that covariances are thinned wherever they can be, and one evaluation is to do.
    """
    estimator, thin = (_MORE_ROUGHLY, replace(THINNING, values=0.0)) if costly else (_ROUGHLY, THINNING)
    try:
        likelihood = setup.relinearised(setup.likelihood(fit.names, thin=thin), fit.theta, rounds)
        return estimator.fit(likelihood, start=fit.theta)
    except _POSSIBLE as error:
        return error
