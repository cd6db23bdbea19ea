"""Criteria for operator selection, and their closed forms for what a removal does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError
from bvsi.infer import Fit, Lagged, LeastSquares, Profile
from bvsi.infer.quadratic import Minimum, Quadratic
from bvsi.likelihood import ResidualLikelihood


class Criterion(Protocol):
    """What selection minimises."""

    @property
    def name(self) -> str:
        """For tables and figures."""

    @property
    def absolute(self) -> bool:
        """Whether a model has a score of its own, or only the change by a removal has one."""

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Estimate a model with its own covariance."""

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """Score of a fitted model, lower is better; 0 for criteria that are not absolute."""

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """Predicted change of the score for the removal of each operator, (d,), in closed form."""


class QuadraticCriterion(Criterion, Protocol):
    """A criterion for elimination on a quadratic misfit."""

    def change(self, model: Minimum) -> Array:
        """Predicted change of the score for the removal of each operator, (d,)."""


class SubsetCriterion(Protocol):
    """A criterion that scores models of any size by their misfit alone."""

    @property
    def name(self) -> str:
        """For tables and figures."""

    def values(self, Q: Array, k: int, quadratic: Quadratic) -> Array:
        """Scores of models of k operators with the misfits Q, among all operators of a quadratic misfit."""


@dataclass(frozen=True)
class Wald:
    """z_i² − log n: remove the operator that the data support least, while z² < log n.

    z_i = θ_i/sd_i with the larger of two variances: that of the noise model, and that of the scores of the blocks,
    which also sees the blocks where the discretisation fails.
    """

    estimator: Profile = Profile()  # noqa: RUF009 (frozen)
    name: ClassVar[str] = "Wald z² − log n"
    absolute: ClassVar[bool] = False

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Profile estimate."""
        return _from_start(self.estimator, likelihood, start)

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """Zero: only differences count."""
        del likelihood, fit
        return 0.0

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """z² − log n."""
        return self.change(minimum_of(likelihood, fit))

    def change(self, model: Minimum) -> Array:
        """θ_i²/V_ii − log n."""
        return np.asarray(model.theta**2 / model.variance - math.log(model.n))


@dataclass(frozen=True)
class ProfileBIC:
    """Q(θ̂) + d log n with the profile estimate; n log(Q/n) + d log n where the noise level is unknown."""

    estimator: Profile = Profile()  # noqa: RUF009 (frozen)
    name: ClassVar[str] = "profile BIC"
    absolute: ClassVar[bool] = True

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Profile estimate."""
        return _from_start(self.estimator, likelihood, start)

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """Q + d log n."""
        q, n = fit.equations.q, fit.equations.n
        misfit = q if likelihood.scale_known else n * math.log(q / n)
        return misfit + len(fit.theta) * math.log(n)

    def values(self, Q: Array, k: int, quadratic: Quadratic) -> Array:
        """Q + k log n, or n log(Q/n) + k log n."""
        n = quadratic.n
        return (Q if quadratic.scale_known else n * np.log(Q / n)) + k * math.log(n)

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """ΔQ_i − log n."""
        return self.change(minimum_of(likelihood, fit))

    def change(self, model: Minimum) -> Array:
        """ΔQ_i − log n, or n log(1 + ΔQ_i/Q) − log n."""
        return np.asarray(model.misfit_change - math.log(model.n))


@dataclass(frozen=True)
class ExtendedBIC:
    """m(Q) + k (log n + 2 log d) for k of d operators.

    m(Q) = Q up to n. Beyond n the noise is taken to be larger than stated and its variance is profiled out:
    m(Q) = n (1 + log(Q/n)). Each operator costs log n (BIC) plus 2 log d for the search among d candidates.
    """

    name: ClassVar[str] = "extended BIC"

    def values(self, Q: Array, k: int, quadratic: Quadratic) -> Array:
        """m(Q) + k (log n + 2 log d)."""
        n, d = quadratic.n, len(quadratic.names)
        beyond = n * (1 + np.log(np.maximum(Q, np.finfo(float).tiny) / n))
        misfit = np.where(n >= Q, Q, beyond) if quadratic.scale_known else beyond
        return np.asarray(misfit + k * (math.log(n) + 2 * math.log(d)))


@dataclass(frozen=True)
class ResidualBIC:
    """−2 log p(r_θ̂ | θ̂) + d log n at the lagged estimate: eq:residual_bic, literally.

    It rewards models with a small residual covariance and so keeps operators that are not there; for comparison.
    """

    name: ClassVar[str] = "residual BIC (paper)"
    absolute: ClassVar[bool] = True

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Lagged-covariance maximum likelihood."""
        return Lagged().fit(likelihood, start=start)

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """−2 log p + d log n."""
        return -2 * likelihood.log_density(fit.theta) + len(fit.theta) * math.log(likelihood.n)

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """ΔQ_i + (∂ log det Σ/∂θ) · δθ_i − log n, the log-determinant to first order by exact traces."""
        return _first_order(minimum_of(likelihood, fit), likelihood.logdet_gradient(fit.theta))


@dataclass(frozen=True)
class ExactBIC:
    """−2 log p(û | θ̂) + d log n with the density of the data, at the profile estimate; stacked weighting only. ::

        −2 log p(û | θ) = q + log det Σ − 2 Σ_k log |det C_kk| + n log 2π

    the states before the first block integrated out. Unlike :class:`ResidualBIC` it does not reward a small residual
    covariance. The estimate is the maximum of p but for its two determinants, which nearly cancel.
    """

    estimator: Profile = Profile()  # noqa: RUF009 (frozen)
    name: ClassVar[str] = "exact BIC"
    absolute: ClassVar[bool] = True

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Profile estimate."""
        _check_exact(likelihood)
        return _from_start(self.estimator, likelihood, start)

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """−2 log p + d log n."""
        _check_exact(likelihood)
        change = likelihood.density(fit.theta, logdet=False, change=True).change.value
        return -2 * (likelihood.log_density(fit.theta) + change) + len(fit.theta) * math.log(likelihood.n)

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """ΔQ_i + ∂(log det Σ − 2 Σ_k log ``|det C_kk|``)/∂θ · δθ_i − log n, the determinants to first order."""
        _check_exact(likelihood)
        density = likelihood.density(fit.theta, gradient=True, change=True)
        slope = density.logdet.gradient - 2 * density.change.gradient
        return _first_order(minimum_of(likelihood, fit), slope)


@dataclass(frozen=True)
class FStatistic:
    """Relative growth of the residual norm, (ℓ_{−i} − ℓ)/ℓ, against a threshold: classical VSI (Wang et al.)."""

    threshold: float = 0.01
    name: ClassVar[str] = "F-statistic"
    absolute: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise BvsiError(f"threshold: a positive number is needed, such as 0.01; got {self.threshold}.")

    def fit(self, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
        """Least squares."""
        del start
        return LeastSquares().fit(likelihood)

    def score(self, likelihood: ResidualLikelihood, fit: Fit) -> float:
        """Zero: only differences count."""
        del likelihood, fit
        return 0.0

    def removal(self, likelihood: ResidualLikelihood, fit: Fit) -> Array:
        """Growth − threshold."""
        model = minimum_of(likelihood, fit)
        return np.asarray(model.growth / model.q - self.threshold)


def minimum_of(likelihood: ResidualLikelihood, fit: Fit) -> Minimum:
    """The minimum of the misfit at a fit, with the larger of its two variances; NaN for plain least squares."""
    assert fit.inverse is not None
    variance = np.full(len(fit.theta), np.nan) if fit.posterior is None else fit.posterior.variance
    if fit.score_covariance is not None:
        variance = np.maximum(variance, np.diag(fit.score_covariance))
    return Minimum(fit.theta, fit.inverse, variance, fit.equations.q, fit.equations.n, likelihood.scale_known)


def check_criterion(criterion: object, patience: int) -> None:
    """Refuse a class in place of an instance, and a negative patience."""
    if isinstance(criterion, type) or not hasattr(criterion, "removal"):
        raise BvsiError(f"criterion: an instance such as Wald() is needed, not {criterion!r}.")
    if patience < 0:
        raise BvsiError(f"patience: must not be negative; got {patience}.")


def _first_order(model: Minimum, slope: Array) -> Array:
    """ΔQ_i + slope · δθ_i − log n, (d,): the misfit by its quadratic model, the rest of the score to first order."""
    moves = np.stack([model.removal_step(i) for i in range(len(model.theta))])
    return np.asarray(model.misfit_change + moves @ slope - math.log(model.n))


def _check_exact(likelihood: ResidualLikelihood) -> None:
    """Refuse where log p(û | θ) is not known."""
    if not likelihood.weighting.exact:
        raise BvsiError(
            f"criterion: ExactBIC() needs Stacked() weighting, since {likelihood.weighting!r} leaves out correlations "
            "and so has no density of the data; use ProfileBIC() or Wald()."
        )
    try:
        likelihood.check_change_of_variables()
    except BvsiError as error:
        raise BvsiError(f"criterion: ExactBIC() has no density here, use ProfileBIC() or Wald(). {error}") from None


def _from_start(estimator: Profile, likelihood: ResidualLikelihood, start: Array | None) -> Fit:
    """Fit from a start; where that does not converge, from the estimator's own."""
    if start is not None:
        fit = estimator.fit(likelihood, start=start)
        if fit.status.converged:
            return fit
    return estimator.fit(likelihood)
