"""What full inference maximises or samples: a log-likelihood of θ with its exact gradient.

    profile              ℓ(θ) = −½ q(θ), calibrated                                       (the default)
    residual density     ℓ(θ) = −½ q(θ) − ½ log det Σ(θ)  [+ Σ_k log |det C_kk(θ)|]      (the paper's, biased)
    frozen covariance    ℓ(θ) = −½ q(θ) with W = W(θ_0): a quadratic function

with q = rᵀW(θ)r. Where the noise scale is unknown it is integrated out: with σ² ~ Inv-Gamma(α, β),

    −½ q   becomes   −(α + n/2) log(β + q/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError, RankError
from bvsi.infer.fit import Fit
from bvsi.infer.lagged import Lagged
from bvsi.infer.priors import InverseGammaPrior
from bvsi.infer.profile import Profile
from bvsi.likelihood import ResidualLikelihood, ValueGradient

#: θ (d,) ↦ ℓ(θ) up to a constant, and its gradient.
LogLikelihood = Callable[[Array], ValueGradient]


class Objective(Protocol):
    """A choice of ℓ."""

    def bind(self, likelihood: ResidualLikelihood, noise_prior: InverseGammaPrior) -> LogLikelihood:
        """ℓ for the data at hand."""

    @property
    def approximation(self) -> Lagged | Profile:
        """The closed-form estimator whose posterior is near that of ℓ."""


@dataclass(frozen=True)
class ResidualDensity:
    """ℓ = log p(r_θ | θ), the paper's full objective (eq:theta_dependent_negative_log_likelihood).

    Parameters
    ----------
    jacobian
        With the factor ``|det ∂r/∂û|`` that makes it a density of the data. Without it the log-determinant
        rewards models with small residual covariance.
    """

    jacobian: bool = False

    @property
    def approximation(self) -> Lagged | Profile:
        """``Lagged()``, whose bias it shares; with the Jacobian, which takes that away, ``Profile()``."""
        return Profile() if self.jacobian else Lagged()

    def bind(self, likelihood: ResidualLikelihood, noise_prior: InverseGammaPrior) -> LogLikelihood:
        """One factorisation and one selected inverse per distinct covariance and call."""

        def log_likelihood(theta: Array) -> ValueGradient:
            density = likelihood.density(theta, gradient=True, change=self.jacobian)
            misfit = _misfit(likelihood, density.q, density.n, noise_prior)
            return misfit + density.logdet * -0.5 + density.change

        return log_likelihood


@dataclass(frozen=True, eq=False)
class ProfileDensity:
    """ℓ(θ) = −½ Q(θ̂ + B(θ − θ̂)), the objective of :class:`Profile`, unbiased by noise in the operators.

    Parameters
    ----------
    calibrated
        With BᵀAB = A S⁻¹ A, so that the curvature at θ̂ is the inverse of the sandwich covariance and error bars of
        samples have the right size. Without, B = I: their size is that of the weights, which leave out the correlation
        between blocks.
    fit
        θ̂, A and S for the calibration: of :class:`Profile`, without prior and constraints; by default it is made.
    """

    fit: Fit | None = field(default=None, repr=False)
    calibrated: bool = True

    @property
    def approximation(self) -> Lagged | Profile:
        """The estimator of the same objective."""
        return Profile()

    def bind(self, likelihood: ResidualLikelihood, noise_prior: InverseGammaPrior) -> LogLikelihood:
        """One factorisation per distinct covariance and call."""
        centre, B = self._calibration(likelihood)

        def log_likelihood(theta: Array) -> ValueGradient:
            density = likelihood.density(centre + B @ (theta - centre), gradient=True, logdet=False)
            misfit = _misfit(likelihood, density.q, density.n, noise_prior)
            return ValueGradient(misfit.value, B.T @ misfit.gradient)

        return log_likelihood

    def settled(self, likelihood: ResidualLikelihood) -> ProfileDensity:
        """The same with its fit made."""
        return self if self.fit is not None or not self.calibrated else replace(self, fit=self._made(likelihood))

    def _calibration(self, likelihood: ResidualLikelihood) -> tuple[Array, Array]:
        """θ̂ and B, with A B symmetric, which no change of units or order affects; zero and I without calibration."""
        if not self.calibrated:
            return np.zeros(likelihood.system.d), np.eye(likelihood.system.d)
        fit = self._made(likelihood) if self.fit is None else self.fit
        quadratic = fit.quadratic
        if quadratic is None or fit.names != likelihood.names or quadratic.precision is not None:
            raise BvsiError("fit: a fit of Profile() to the same operators is needed, without a prior.")
        assert quadratic.S is not None
        try:
            R = np.linalg.cholesky(quadratic.A).T
            K = np.linalg.cholesky(quadratic.S)
        except np.linalg.LinAlgError:
            raise BvsiError(
                "ProfileDensity: noise swamps the operators, so that it cannot be calibrated; use fewer of them, or "
                "ProfileDensity(calibrated=False)."
            ) from None
        # B = R⁻¹ (R S⁻¹ Rᵀ)^½ R, with the singular values of K⁻¹Rᵀ for the root
        _, root, V = np.linalg.svd(np.linalg.solve(K, R.T))
        return fit.theta, np.linalg.solve(R, (V.T * root) @ V @ R)

    @staticmethod
    def _made(likelihood: ResidualLikelihood) -> Fit:
        try:
            return Profile().fit(likelihood)
        except RankError as error:
            raise BvsiError(
                "ProfileDensity: the data alone do not determine all coefficients, so it cannot be calibrated; use "
                f"ProfileDensity(calibrated=False) or ResidualDensity(). {error}"
            ) from None


@dataclass(frozen=True, eq=False)
class FrozenCovariance:
    """ℓ with the weights W(θ_0) of one θ_0: quadratic, as in each lagged update.

    Attributes
    ----------
    theta
        θ_0 (d,).
    """

    theta: Array

    @property
    def approximation(self) -> Lagged | Profile:
        """``Lagged()``."""
        return Lagged()

    def bind(self, likelihood: ResidualLikelihood, noise_prior: InverseGammaPrior) -> LogLikelihood:
        """The normal equations at θ_0, once."""
        equations = likelihood.normal_equations(self.theta)
        centre = likelihood.system.vector(self.theta)

        def log_likelihood(theta: Array) -> ValueGradient:
            step = theta - centre
            slope = equations.H @ step - equations.g
            q = ValueGradient(float(equations.q + step @ (slope - equations.g)), 2.0 * slope)
            return _misfit(likelihood, q, equations.n, noise_prior)

        return log_likelihood


def settled(objective: Objective, likelihood: ResidualLikelihood) -> Objective:
    """The same objective with the fit that it is calibrated by, so that it can be bound many times for little."""
    return objective.settled(likelihood) if isinstance(objective, ProfileDensity) else objective


def calibrating(objective: Objective) -> Fit | None:
    """The fit that an objective is calibrated by; None where there is none."""
    return objective.fit if isinstance(objective, ProfileDensity) and objective.calibrated else None


def check_objective(objective: object) -> None:
    """Refuse what is not an objective, such as a class or a text."""
    if isinstance(objective, type) or not hasattr(objective, "bind"):
        raise BvsiError(f"objective: an instance such as ProfileDensity() is needed, not {objective!r}.")


def _misfit(likelihood: ResidualLikelihood, q: ValueGradient, n: int, noise_prior: InverseGammaPrior) -> ValueGradient:
    """−½ q, or with unknown scale −(α + n/2) log(β + q/2)."""
    if likelihood.scale_known:
        return q * -0.5
    power, rate = noise_prior.alpha + 0.5 * n, noise_prior.beta + 0.5 * q.value
    if rate <= 0:
        raise BvsiError("the model fits the data exactly, so that the noise cannot be estimated; state its size.")
    return ValueGradient(-power * math.log(rate), (-0.5 * power / rate) * q.gradient)
