"""The check of a fit: tests of its residuals and noise, comparisons with other discretisations, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.check.comparison import Comparison, FailedComparison, bias_estimate, compare
from bvsi.check.evidence import Evidence, judge
from bvsi.check.noise_tests import noise_tests
from bvsi.check.residual_tests import ResidualTest, residual_tests
from bvsi.check.variations import Variation
from bvsi.check.verdict import Verdict, advice_for
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.infer import Fit
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]

# ratio² − 1: Richardson's rule for data with half the resolution and second order.
_FIRST_STEPS = 3.0


@dataclass(frozen=True, eq=False)
class Check:
    """What the check of a fit found.

    verdict, advice: in short, and what to do; reasons: the evidence for it, in words.
    chi2: misfit per residual; tests: of residuals and noise; comparisons: with other discretisations.
    bias: (d,) size of the discretisation bias of every coefficient; covariance_added: (d, d) diag(bias²), to be added
        to the posterior covariance.
    failed: discretisations that could not be fitted, and why.
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
    data: Sequence[Data] = (),
    filter_sigma: Mapping[str, float] | None = None,
    cycles: Mapping[str, float] | None = None,
) -> Check:
    """Check a fit against its noise model and other discretisations of the same data.

    fit, likelihood: of the selected operators; refits: the same operators with :func:`variations` of the data, or the
        error where one could not be fitted. Those that failed or did not converge are not compared, and named.
    noise_error: relative standard error of the noise level, 0 where it is known.
    rng: for draws of the noise.
    data: experiments, for tests of the noise by itself; without them these are left out.
    filter_sigma: noise level by field, measured without a fit; it tells a wrong level from a missing operator.
    cycles: highest frequency of the data in cycles per step, by axis and ``time``; half is the limit of the sampling.
    """
    if not (np.isfinite(noise_error) and noise_error >= 0):
        raise BvsiError(f"noise_error: a relative standard error is needed, such as 0.01; got {noise_error}.")
    levels = level_ratio(likelihood, filter_sigma)
    residual = residual_tests(fit, likelihood, noise_error=noise_error, rng=rng)
    tests = residual.tests + noise_tests(data, homoscedastic=_homoscedastic(likelihood))
    comparisons, failed = _compared(fit, refits, efficient=likelihood.weighting.exact)
    scale = fit.equations.q / fit.equations.n if likelihood.scale_known else 1.0
    evidence = Evidence(
        tests, comparisons, max(1.0, scale), levels, residual.freedom, residual.drawn, noise_error, dict(cycles or {})
    )
    verdict, reasons = judge(evidence)
    bias = bias_estimate(comparisons, len(fit.theta))
    for one in comparisons:
        # what is not resolved does not converge at the order of the quadrature yet
        if (verdict, one.poorer) in ((Verdict.TIME, "time"), (Verdict.SPACE, "space")):
            bias = np.maximum(bias, np.abs(one.difference) / _FIRST_STEPS)
    advice = advice_for(verdict, evidence.untried)
    return Check(verdict, advice, reasons, fit.chi2, tests, comparisons, bias, np.diag(bias**2), failed)


def _compared(
    fit: Fit, refits: Sequence[tuple[Variation, Fit | BvsiError]], *, efficient: bool
) -> tuple[tuple[Comparison, ...], tuple[FailedComparison, ...]]:
    """Refits that converged against the fit, and why others did not."""
    comparisons, failed = [], []
    for one, refit in refits:
        if isinstance(refit, BvsiError):
            failed.append(FailedComparison(one.name, one.kind, str(refit)))
        elif not refit.status.converged:
            failed.append(FailedComparison(one.name, one.kind, refit.status.message))
        else:
            comparisons.append(compare(fit, one, refit, efficient=efficient))
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
        by_field = stated.reshape(len(structure.fields), -1).mean(axis=1)
        ratios += [sigma[f] ** 2 / v for f, v in zip(structure.fields, by_field, strict=True) if f in sigma]
    return float(np.mean(ratios)) if ratios else None


def _homoscedastic(likelihood: ResidualLikelihood) -> bool:
    """Whether the noise model has one level per field."""
    for part in likelihood.parts:
        noise = part.covariance.noise
        if not noise.diagonal or len(noise.distinct) > 1:
            return False
        by_field = noise.distinct[0].reshape(len(part.residuals.structure.fields), -1)
        if np.any(np.ptp(by_field, axis=1) > 1e-9 * by_field.mean(axis=1)):
            return False
    return True
