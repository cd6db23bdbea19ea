"""What an estimator returns: value, status, diagnostics."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import position
from bvsi.errors import BvsiError
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.posteriors import (
    GaussianPosterior,
    Level,
    NormalInverseGammaPosterior,
    Posterior,
    TruncatedPosterior,
    student_of_level,
)
from bvsi.infer.posteriors.closed_form import covariance_root
from bvsi.infer.priors import BoundPrior, InverseGammaPrior
from bvsi.infer.quadratic import Quadratic, expanded, sandwich
from bvsi.likelihood import NormalEquations, ResidualLikelihood

#: χ²/n further from one than this factor is reported with the status, and calls for other starts: noise that is stated
#: too small or too large by more than 40%.
CHI2_FACTOR = 2.0
#: Standard deviations by which the data may be against a constraint before the status says so: 1 in 700 by chance.
CONTRADICTION = 3.0
#: Part of the signal in the time terms that the weights of a model have to see, so that it explains anything: true
#: models at 100% noise see 0.6 and more (KdV), those of Gray–Scott patterns that hardly move 0.046 to 0.11 (5 draws),
#: combinations of noise 0.01 (a boundary layer at 0.5%).
SEEN = 0.02
#: Odds of the selected model over all others together below which the selection is open: a probability of 4/5.
#: Such probabilities are frequencies, or larger: of 405 development runs of ``bvsi bench honesty`` with strong noise,
#: counts, few frames or a layer (seeds 910001, 90551117) those that were said to be wrong with 2, 5, 7, 16, 38 and 73%
#: on average, when all rivals were added up, were so in 0 of 108, 1 of 79, 1 of 78, 6 of 32, 4 of 26 and 19 of 39. Of
#: 1,640 others, those with counts left out (seeds 48120733, 51730264), 2 of 30 with 13 to 25%, none of 4 with 25 to
#: 33%, and 5 of 16 with 33 to 50%.
OPEN = 4.0
# Violation in standard deviations that is rounding.
_VIOLATED = 1e-9
_TINY = float(np.finfo(float).tiny)
_LARGEST = 700.0  # power of e that is a number

ClosedForm = GaussianPosterior | NormalInverseGammaPosterior


def open_margins(margins: Mapping[str, float], odds: float) -> dict[str, float]:
    """Margins of the operators that leave a selection open; none where it is decided. ::

        Σ_m r_m ≤ 1/odds,      r_m = exp(−½ m)

    r_m are the odds of another model over the selected one, which has the probability 1/(1 + Σ r). Operators with the
    same margin have it from the same model, which lacks them all, and which counts once. Where the sum is too large the
    least certain operators are named, as many as leave the others within the limit.
    """
    ordered = sorted(set(margins.values()))
    while odds > 1 and ordered and sum(math.exp(min(-0.5 * m, _LARGEST)) for m in ordered) > 1 / odds:
        ordered.pop(0)
    decided = set(ordered)
    return {name: margin for name, margin in margins.items() if margin not in decided}


def misfit_excess(chi2: float, n: int, *, sds: float = 6.0, least: float = 0.1) -> bool:
    """Whether χ²/n of n residuals is more than noise explains: beyond one by ``least`` and by ``sds`` deviations.

    The default is for messages: below a tenth a misfit hardly matters. Decisions inside a search take
    fewer standard deviations, since they cost an evaluation and not a false alarm.
    """
    return chi2 > 1 + max(least, sds * math.sqrt(2 / n))


class Reason(StrEnum):
    """Why an estimate needs attention. Code asks for these; the message of a status says the same to people."""

    #: The iteration used up its steps.
    LIMIT = "limit"
    #: No step lowers the misfit.
    STALLED = "stalled"
    #: Another estimate fits far better.
    PLATEAU = "plateau"
    #: Two different estimates fit about equally well.
    AMBIGUOUS = "ambiguous"
    #: Noise makes up so much of the operators that the curvature is not positive; there are no error bars.
    SWAMPED = "swamped"
    #: The posterior has no peak at the estimate in some direction.
    NOT_PEAKED = "not peaked"
    #: Draws do not yet stand for the posterior.
    SAMPLING = "sampling"
    #: χ²/n is far from one.
    MISFIT = "misfit"


@dataclass(frozen=True)
class Status:
    """How an iteration ended.

    Attributes
    ----------
    message
        Says what to do next.
    reasons
        The same for code, empty where nothing needs attention.
    starts
        Names of the starting points tried, in order.
    start
        The one that the estimate comes from.
    """

    converged: bool
    iterations: int
    message: str
    reasons: frozenset[Reason] = frozenset()
    starts: tuple[str, ...] = ()
    start: str = ""

    def noted(self, text: str, reason: Reason | None = None, *, failed: bool = False) -> Status:
        """With a further sentence in the message, and its reason; an empty text changes nothing.

        Parameters
        ----------
        failed
            The estimate does not count as converged.
        """
        if not text:
            return self
        reasons = self.reasons if reason is None else self.reasons | {reason}
        converged = self.converged and not failed
        # one status: what ended well but is not an estimate after all is not called converged first
        said = f"not {self.message}" if self.converged and failed else self.message
        return replace(self, converged=converged, message=f"{said} {text}", reasons=reasons)


@dataclass(frozen=True, eq=False)
class Step:
    """One iteration: θ before the update, the relative size of the update, and χ²/n there."""

    theta: Array
    change: float
    chi2: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients with their posterior and how they were found.

    Attributes
    ----------
    theta
        (d,), the mode where there are constraints.
    posterior
        None for plain least squares.
    chi2
        rᵀWr/n, one where model and noise are right.
    chi2_blocks
        The same by experiment and block.
    status
        How the iteration ended.
    history
        Its steps.
    method
        For people.
    equations
        Normal equations at the estimate.
    inverse
        (H + Σ_0⁻¹)⁻¹, from which leave-one-out changes follow.
    score_covariance
        Covariance of θ from the scores of the blocks.
    quadratic
        The misfit around the estimate, for sub-models without a new fit; both for estimators that have them.
    """

    names: tuple[str, ...]
    theta: Array
    posterior: Posterior | None
    chi2: float
    chi2_blocks: tuple[Array, ...]
    status: Status
    history: tuple[Step, ...]
    method: str
    equations: NormalEquations
    inverse: Array | None = None
    score_covariance: Array | None = None
    quadratic: Quadratic | None = None

    def coefficient(self, name: str) -> float:
        """Coefficient of an operator by name."""
        return float(self.theta[position(name, self.names)])

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        sd = np.full(len(self.theta), np.nan) if self.posterior is None else np.sqrt(self.posterior.variance)
        rows = [f"{self.method}: χ²/n = {self.chi2:.3g}; {self.status.message}"]
        for name, value, s in zip(self.names, self.theta, sd, strict=True):
            rows.append(f"  {name:<{width}}  {value: .6g}" + ("" if np.isnan(s) else f" ± {s:.2g}"))
        if len(self.status.starts) > 1:
            rows.append(f"starts tried: {', '.join(self.status.starts)}; kept: {self.status.start}")
        return "\n".join(rows)


def theta_at_hand(fit: Fit, likelihood: ResidualLikelihood) -> Array:
    """θ; where data are many the last one evaluated, from where a short step led to it: factors are there."""
    evaluated = likelihood.costly and fit.status.converged and fit.quadratic is not None
    return fit.history[-1].theta if evaluated else fit.theta


def around(likelihood: ResidualLikelihood, fit: Fit, rng: Rng, *, spread: bool = False) -> Quadratic:
    """The misfit of all operators around the fit of some of them, the other coefficients zero: one evaluation.

    Parameters
    ----------
    spread
        Whether S, and with it error bars, are needed.
    """
    found = dict(zip(fit.names, theta_at_hand(fit, likelihood), strict=True))
    theta = np.array([found.get(name, 0.0) for name in likelihood.names])
    return expanded(likelihood, theta, likelihood.profile_equations(theta, rng=copy.deepcopy(rng), spread=spread))


def check_iteration(tol: float, **limit: int) -> None:
    """Refuse settings with which an iteration cannot end well; ``limit`` is its largest number of rounds, by name."""
    if not (np.isfinite(tol) and tol > 0):
        raise BvsiError(f"tol: a positive number is needed, such as 1e-8; got {tol}.")
    for name, rounds in limit.items():
        if rounds < 1:
            raise BvsiError(f"{name}: at least 1 is needed; got {rounds}.")


def make_fit(
    likelihood: ResidualLikelihood,
    theta: Array,
    equations: NormalEquations,
    prior: BoundPrior,
    noise_prior: InverseGammaPrior | None,
    *,
    inverse: Array,
    quadratic: Quadratic | None = None,
    status: Status,
    history: tuple[Step, ...],
    method: str,
    constraints: LinearConstraints | None,
    centre: Array | None = None,
) -> Fit:
    """Fit with a Gaussian posterior, or a normal-inverse-gamma one where the noise scale is unknown. ::

        α = α_0 + ½ (n − f),     β = β_0 + ½ (Q + (θ − μ_0)ᵀ Σ_0⁻¹ (θ − μ_0)),     f = d − rank Σ_0⁻¹

    The f coefficients that have no prior take a degree of freedom each; a prior in units of σ² gives it back.

    Parameters
    ----------
    equations
        Equations at θ.
    noise_prior
        Of σ²; where the scale is known, of σ² in units of the noise as it was measured: priors of θ stay as they are.
    inverse
        A⁻¹, which is the covariance of θ, in units of σ² where that is unknown.
    quadratic
        The misfit around θ with S, with which the covariance is A⁻¹ S A⁻¹.
    centre
        (d,) the estimate without inequalities; the posterior around it is truncated by them.
    """
    centre = theta if centre is None else centre
    covariance, scores = inverse, None
    if quadratic is not None:
        assert quadratic.S is not None
        assert quadratic.S_blocks is not None
        covariance, scores = (sandwich(inverse, S) for S in (quadratic.S, quadratic.S_blocks))
    base: ClosedForm
    base, scale = GaussianPosterior(likelihood.names, centre, covariance), 1.0
    if not likelihood.scale_known:
        given = noise_prior or InverseGammaPrior()
        # β of eq:NIG_posterior_parameters with the square completed, which avoids its cancellation
        beta = given.beta + 0.5 * (equations.moved(centre - theta).q + prior.distance(centre))
        whole = given.alpha + 0.5 * equations.n
        alpha, scale = whole - 0.5 * _without_prior(inverse, prior), beta / whole
        base = NormalInverseGammaPosterior(likelihood.names, centre, covariance, alpha, beta)
        mean = base.noise_variance if alpha > 1 else np.inf  # a point without error bars, as searches pass them
        scores = None if scores is None else mean * scores
    elif noise_prior is not None and np.any(inverse):
        base = _refined(likelihood, theta, equations, prior, noise_prior, inverse, quadratic)
    posterior: Posterior = base
    if constraints:
        status, posterior = status.noted(active_text(base, constraints)), truncated(base, constraints, theta)
    fit = assessed(likelihood, posterior, theta, equations, scale, status=status, history=history, method=method)
    return replace(fit, inverse=inverse, score_covariance=scores, quadratic=quadratic)


def _without_prior(inverse: Array, prior: BoundPrior) -> int:
    """Directions that constraints leave free and that a prior says nothing of: rank Σ − rank Σ^½ Σ_0⁻¹ Σ^½."""
    R = covariance_root(inverse).R
    rows = R[np.diag(prior.precision) > 0]
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return int(R.shape[1] - np.linalg.matrix_rank(unit))


def _refined(
    likelihood: ResidualLikelihood,
    theta: Array,
    equations: NormalEquations,
    prior: BoundPrior,
    given: InverseGammaPrior,
    inverse: Array,
    quadratic: Quadratic | None,
) -> NormalInverseGammaPosterior:
    """The posterior where the noise has the measured size times σ, and priors do not depend on σ."""
    R = covariance_root(inverse).R
    held = R.T @ prior.precision @ R
    S = np.eye(R.shape[1]) - held
    if quadratic is not None:
        assert quadratic.S is not None
        S = R.T @ (quadratic.S - prior.precision) @ R
    slopes = equations.g, prior.gradient(theta)
    level = Level(given.alpha + 0.5 * equations.n, given.beta + 0.5 * equations.q)
    return student_of_level(likelihood.names, theta, R, held, slopes, level, S)


def assessed(
    likelihood: ResidualLikelihood,
    posterior: Posterior,
    theta: Array,
    equations: NormalEquations,
    scale: float,
    *,
    status: Status,
    history: tuple[Step, ...] = (),
    method: str,
) -> Fit:
    """A fit with its misfit, from a posterior; ``scale`` is σ² in units of the noise model."""
    blocks = misfit_by_block(likelihood, equations, scale)
    chi2 = equations.q / equations.n / scale
    if not 1 / CHI2_FACTOR < chi2 < CHI2_FACTOR:
        status = status.noted(_misfit(chi2), Reason.MISFIT)
    return Fit(likelihood.names, theta, posterior, chi2, blocks, status, history, method, equations)


def misfit_by_block(
    likelihood: ResidualLikelihood, equations: NormalEquations, scale: float = 1.0
) -> tuple[Array, ...]:
    """χ²/n of each block of each experiment, (K,); zero where missing values leave no residual."""
    pairs = zip(equations.q_blocks, likelihood.block_rows, strict=True)
    return tuple(np.asarray(q / np.maximum(n, 1) / scale) for q, n in pairs)


def _misfit(chi2: float) -> str:
    reason = (
        "the noise is larger than stated, an operator is missing, the discretisation is too coarse, or the estimate is "
        "caught by errors in variables"
        if chi2 > 1
        else "the noise is smaller than stated"
    )
    return f"But χ²/n is far from one: {reason}; do not trust the error bars."


def truncated(base: ClosedForm, constraints: LinearConstraints | None, mode: Array) -> ClosedForm | TruncatedPosterior:
    """The posterior on the allowed set; the base itself where there are no inequalities."""
    return TruncatedPosterior(base, constraints, mode) if constraints and constraints.reduced[1] else base


def active_text(base: ClosedForm, constraints: LinearConstraints) -> str:
    """Which inequalities the estimate without them violates, and where the data contradict them; empty where none."""
    excess = constraints.excess(base.mean)
    sd = np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", constraints.A, base.covariance, constraints.A), 0.0))
    notes = []
    for i in np.flatnonzero((excess > _VIOLATED * sd) & ~constraints.equality):
        distance = excess[i] / sd[i] if sd[i] > 0 else np.inf
        doubt = ", which the data contradict" if distance > CONTRADICTION else ""
        notes.append(f"{constraints.texts[i]!r} by {distance:.2g} sd{doubt}")
    return f"Constraints hold that the estimate without them would violate: {'; '.join(notes)}." if notes else ""
