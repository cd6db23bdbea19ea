"""A start for libraries in which noise swamps an operator: weights as if that operator ruled the residual.

    i*(e) = argmax {ρ_ei : ν_ei > 0.1},     θ_i* = κ (n_e/n_ei*)^½,  all others 0;     θ = H(θ*)⁻¹ XᵀW(θ*)y

ν is the share of noise in an operator and ρ its roughness (:mod:`bvsi.likelihood.noise_share`), which tells the one
with the most derivatives. Least squares underrates an operator by the share of noise in it. Its weights, and those of
all estimates that start from it, then take noise that the operator makes for misfit, and the estimate stays on a
plateau at nearly zero. With the roughest operator of every equation κ times as strong as balances the noise of the time
derivative, the weights are right wherever its noise rules, which is where they matter; how strong does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError, NotPositiveDefiniteError, RankError
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.fit import CHI2_FACTOR
from bvsi.infer.priors import BoundPrior
from bvsi.infer.quadratic import factorise
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]


# Factors between one strength and the next, how many there are, and the gain in Q that calls for another.
_STRONGER = 100.0
_STRENGTHS = 4
_WORTH_IT = 0.95
_RIDGE = 1e-8

# Share of noise from which on an operator counts as noisy.
_MUCH = 0.1


# Standard deviations of χ²/n above one that count as misfit, and the part of Q to which another estimate has to get.
_MISFIT = 5.0
_CLEARLY_LOWER = 0.9

PILOT = 10
"""Blocks of each experiment that are enough for a rough estimate."""

PLATEAU = (
    "This is a plateau, where noise is taken for misfit: another estimate fits far better. Do not trust this one; "
    "leave the start out, or use Profile()."
)


@dataclass(frozen=True)
class Dominant:
    """Weighted least squares with the weights of the noisiest operators, made stronger while that lowers the misfit.

    factor: κ to begin with.
    """

    factor: float = 1e4

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor > 0):
            raise BvsiError(f"factor: a positive number is needed, such as 1e4; got {self.factor}.")

    @property
    def stronger(self) -> Dominant:
        """With a κ to begin with that is larger by one strength."""
        return Dominant(_STRONGER * self.factor)

    def estimate(
        self, likelihood: ResidualLikelihood, prior: BoundPrior, rng: np.random.Generator | None = None
    ) -> Array:
        """θ (d,); rng: as for :meth:`balance`."""
        balance = self.balance(likelihood, rng)
        best, lowest = self._weighted(likelihood, prior, self.factor * balance)
        for power in range(1, _STRENGTHS):
            if likelihood.scale_known and lowest < CHI2_FACTOR:
                break
            try:
                theta, chi2 = self._weighted(likelihood, prior, self.factor * _STRONGER**power * balance)
            except (RankError, NotPositiveDefiniteError):
                break
            if chi2 > _WORTH_IT * lowest:
                break
            best, lowest = theta, chi2
        return best

    def balance(self, likelihood: ResidualLikelihood, rng: np.random.Generator | None = None) -> Array:
        """θ* (d,) for κ = 1, with one operator per equation: of those with much noise the one of the roughest.

        rng: for the draw of noise (default: seed 0).
        """
        noise = likelihood.noise_share(np.random.default_rng(0) if rng is None else rng)
        theta = np.zeros(likelihood.system.d)
        for y, X, share, rough in zip(noise.y, noise.X, noise.share, noise.roughness, strict=True):
            i = int(np.argmax(np.where(share > min(_MUCH, share.max() / 2), rough, 0.0)))
            if X[i] > 0:
                theta[i] = np.sqrt(y / X[i])
        return theta

    @staticmethod
    def _weighted(likelihood: ResidualLikelihood, prior: BoundPrior, theta: Array) -> tuple[Array, float]:
        """Estimate with the weights at θ, and the misfit Q/n with its own weights."""
        equations = likelihood.normal_equations(theta)
        # A little ridge: what these weights hardly determine would otherwise be rounding of the large θ*.
        ridge = _RIDGE * np.diag(np.diag(equations.H))
        solver = factorise(equations.H + prior.precision + ridge, likelihood.names)
        estimate = theta + solver.solve(equations.g + prior.gradient(theta) - ridge @ theta)
        own = likelihood.normal_equations(estimate)
        return estimate, own.q / own.n


def on_plateau(
    likelihood: ResidualLikelihood, prior: BoundPrior, estimate: Array, q: float, constraints: LinearConstraints
) -> bool:
    """Whether an estimate with the misfit q = rᵀWr is stuck: q/n > 1 + 5(2/n)^½, and Dominant() reaches below 0.9 q.

    Under constraints its estimate counts only where they allow it: they may well cost misfit. Some of the blocks are
    enough to see that.
    """
    n = likelihood.n
    if not likelihood.scale_known or q <= n * (1 + _MISFIT * np.sqrt(2 / n)):
        return False
    try:
        if (few := likelihood.pilot(PILOT)) is not None:
            likelihood, q = few, few.normal_equations(estimate).q
        theta = Dominant().estimate(likelihood, prior)
        if not constraints.satisfied(theta):
            return False
        return bool(likelihood.normal_equations(theta).q < _CLEARLY_LOWER * q)
    except (RankError, NotPositiveDefiniteError):
        return False
