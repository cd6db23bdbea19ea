"""Estimates of two discretisations: whether they differ by more than noise, and what that says about the bias.

    Δ = θ_v − θ,      Cov(Δ) ≈ |V_v − V| + φ V,      s = Δᵀ Cov(Δ)⁻¹ Δ ~ χ²_d

For two estimates of the same data of which one is efficient Cov(Δ) is the difference of their covariances (Hausman);
|·| takes absolute eigenvalues relative to V, φ is for what the two lack of efficiency. With a quadrature error that
falls as h^p, that of θ is Δ/(ratio^p − 1) (Richardson). Where the ratio of the errors is measured, s is that of this
bias, with V added: it asks whether the bias is beyond the error bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.special import gammaincc

from bvsi.check.variations import Kind, Variation
from bvsi.common.arrays import Array
from bvsi.errors import BvsiError
from bvsi.infer import Fit
from bvsi.infer.fit import OPEN, SEEN

# Probability below which only that is said.
_NEVER = 1e-99


def chance(p: float, digits: int = 1) -> str:
    """A p-value in words, ``p = 0.03``; never zero."""
    return f"p < {_NEVER:g}" if p < _NEVER else f"p = {p:.{digits}g}"


@dataclass(frozen=True)
class CheckLevels:
    """Thresholds of the check. Probabilities are p-values, frequencies are in cycles per step of the data.

    Values without a run named here were not measured one by one; ``docs/trust.md`` measures what they do together.

    Parameters
    ----------
    alarm
        p below which a test or a comparison with a better discretisation starts an alarm; there are about ten.
    alone
        The same for an operator outside the library, which has to be an alarm without any other sign.
    drawn
        The same for correlated residuals. With 1e-4, 4 of 1,640 right answers were alarmed by them alone (seeds
        48120733, 51730264): forty draws of a statistic say little of its far tail.
    why
        p below which a test gives the cause, once there is an alarm.
    noise
        p of tests of the noise by itself. These see what signal is left in the data too, and need strong evidence.
    surely
        p below which an estimate surely moves with fewer data or a lower element. Of 90 right answers on classic
        equations, coarse and fine, 2 had such a comparison, and a better discretisation spoke for both.
    perhaps
        p below which an estimate perhaps moves with a better discretisation.
    unresolved, suspect
        Highest frequencies beyond which data cannot be, or may not be, resolved; 0.5 is the limit.
    fast
        Highest frequency below which data are resolved, whatever else is wrong.
    far_below
        χ²/n below which the noise is overstated, whatever else there is.
    filter_error
        Relative error of noise levels that filters measure, at least.
    floor
        Part of the covariance of the fit that two estimates may differ by without either being efficient.
    noisy_move
        Standard deviations of a difference that noise may make, and that do not count as bias.
    first_steps
        ratio² − 1, Richardson's rule for half the resolution and second order, where data are not resolved.
    odds
        Odds of the selected model over all others together, below which it is not decided; with odds of one or less
        nothing is asked of other models.
    few, odds_of_few
        Counts per node on average below which odds are too sure of themselves, and the odds that are needed there: at 5
        counts six of 13 models that were said to be wrong with 13 to 31% were wrong (seeds 48120733, 51730264).
    seen
        Part of the signal in the time terms that the weights of a model have to see, so that it explains anything.
    bias, unexplained
        Effect of a bias, and share of y, that are trouble in data without noise.
    """

    alarm: float = 1e-3
    alone: float = 1e-4
    drawn: float = 1e-5
    why: float = 1e-2
    noise: float = 1e-5
    surely: float = 1e-6
    perhaps: float = 2e-2
    unresolved: float = 0.4
    suspect: float = 0.25
    fast: float = 0.15
    far_below: float = 0.5
    filter_error: float = 0.03
    floor: float = 0.15
    noisy_move: float = 2.5
    first_steps: float = 3.0
    odds: float = OPEN
    few: float = 10.0
    odds_of_few: float = 20.0
    seen: float = SEEN
    bias: float = 0.01
    unexplained: float = 1e-3


LEVELS = CheckLevels()


@dataclass(frozen=True, eq=False)
class Comparison:
    """An estimate with another discretisation.

    Attributes
    ----------
    theta, difference, z
        (d,).
    statistic
        Δᵀ Cov(Δ)⁻¹ Δ.
    p
        Its p-value.
    bias
        (d,) of the original estimate by Richardson's rule, from the part of Δ that noise does not explain.
    weight
        Largest bias in standard deviations of the original estimate.
    better, measured, whole
        As in :class:`Variation`.
    """

    name: str
    kind: Kind
    theta: Array
    difference: Array
    z: Array
    statistic: float
    p: float
    bias: Array
    weight: float
    better: tuple[Kind, ...]
    measured: bool = False
    whole: bool = False

    def scaled(self, scale: float) -> Comparison:
        """The same with error bars (d,) enlarged for a misfit: Cov(Δ) times ``scale``."""
        statistic = self.statistic / scale
        return replace(self, z=self.z / np.sqrt(scale), statistic=statistic, p=_p_value(statistic, len(self.z)))

    @property
    def summary(self) -> str:
        """In words."""
        return f"{self.name}: coefficients move by up to {np.abs(self.z).max():.2g} sd ({chance(self.p)})"

    def __str__(self) -> str:
        return self.summary


def poorer(one: Comparison) -> Kind | None:
    """In which of time and space it is poorer than the fit: fewer data, or a lower element; None where better."""
    if one.kind != "width":
        return one.kind
    return None if one.better else "space"


@dataclass(frozen=True)
class FailedComparison:
    """Another discretisation that could not be fitted.

    Attributes
    ----------
    reason
        Why, in words.
    """

    name: str
    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: failed, {self.reason}"


def compare(
    fit: Fit, variation: Variation, refit: Fit, *, efficient: bool = True, levels: CheckLevels = LEVELS
) -> Comparison:
    """How far another discretisation leads.

    Parameters
    ----------
    efficient
        Whether the weights use all that is known, so that covariances may be subtracted; else they are added, which
        overrates the noise in Δ.
    """
    if sorted(refit.names) != sorted(fit.names):
        raise BvsiError("refits: they need the operators of the fit, and no others.")
    order = [refit.names.index(name) for name in fit.names]
    V, V_other = covariance_of(fit), covariance_of(refit)[np.ix_(order, order)]
    covariance = difference_covariance(V, V_other, levels.floor) if efficient else V + V_other
    theta, sd = refit.theta[order], np.sqrt(np.diag(covariance))
    difference = theta - fit.theta
    tested, spread = difference, covariance
    if variation.measured:
        part = 1 / (variation.ratio**variation.order - 1.0)
        tested, spread = part * difference, part**2 * covariance + V
    size = np.sqrt(np.diag(spread))
    statistic = float((tested / size) @ np.linalg.solve(spread / np.outer(size, size), tested / size))
    bias = difference if variation.whole else richardson(difference, sd, variation.ratio, variation.order, levels)
    return Comparison(
        name=variation.name,
        kind=variation.kind,
        theta=theta,
        difference=difference,
        z=difference / sd,
        statistic=statistic,
        p=_p_value(statistic, len(sd)),
        bias=bias,
        weight=float(np.max(np.abs(bias) / np.sqrt(np.diag(V)))),
        better=variation.better,
        measured=variation.measured,
        whole=variation.whole,
    )


def _p_value(statistic: float, d: int) -> float:
    """P(χ²_d > statistic)."""
    return float(gammaincc(0.5 * d, 0.5 * statistic))


def covariance_of(fit: Fit) -> Array:
    """Posterior covariance (d, d); refused for fits without a posterior."""
    if fit.posterior is None:
        raise BvsiError("fit: a check needs error bars; use Profile() instead of plain least squares.")
    return fit.posterior.covariance


def difference_covariance(V: Array, V_other: Array, floor: float = LEVELS.floor) -> Array:
    """|V_v − V| + φ V, (d, d)."""
    scale = np.sqrt(np.diag(V))
    L = np.linalg.cholesky(V / np.outer(scale, scale))
    inner = scipy.linalg.solve_triangular(L, V_other / np.outer(scale, scale), lower=True)
    inner = scipy.linalg.solve_triangular(L, inner.T, lower=True)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    root = scale[:, None] * (L @ vectors)
    return np.asarray((root * (np.abs(values - 1.0) + floor)) @ root.T)


def richardson(difference: Array, sd: Array, ratio: float, order: float, levels: CheckLevels = LEVELS) -> Array:
    """sign(Δ) max(0, |Δ| − m sd) / (ratio^order − 1), (d,); m: how many sd noise may move θ."""
    moved = np.maximum(0.0, np.abs(difference) - levels.noisy_move * sd)
    return np.asarray(np.sign(difference) * moved / (ratio**order - 1.0))


def bias_estimate(comparisons: Sequence[Comparison], d: int, levels: CheckLevels = LEVELS) -> Array:
    """|bias| of θ by coefficient, (d,): Richardson's estimates in time and space added up.

    Neither is more than what a discretisation that is better in it moves θ, such as wider test functions, since the
    order of convergence is a lower bound. The whole is not less than what that moves θ for sure.
    """
    better = {kind: next((c for c in comparisons if kind in c.better), None) for kind in ("time", "space")}
    total = np.zeros(d)
    for one in comparisons:
        if one.kind != "width":
            bound = better[one.kind]
            total += np.abs(one.bias) if bound is None else np.minimum(np.abs(one.bias), np.abs(bound.difference))
    for one in (c for c in better.values() if c is not None):
        sd = np.abs(one.difference / np.where(one.z == 0, 1.0, one.z))
        total = np.maximum(total, np.abs(one.difference) - levels.noisy_move * sd)
    return total
