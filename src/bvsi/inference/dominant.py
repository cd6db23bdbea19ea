"""A start for libraries in which noise swamps an operator: weights as if that operator ruled the residual.

    i*(e) = argmax_i ν_ei,     θ_i* = κ (n_e/n_ei*)^½,  all others 0;     θ = H(θ*)⁻¹ XᵀW(θ*)y

Least squares underrates an operator by the share ν of noise in it. Its weights, and those of all estimates that start
from it, then take noise that the operator makes for misfit, and the estimate stays on a plateau at nearly zero. With
the noisiest operator of every equation κ times as strong as balances the noise of the time derivative, the weights
are right wherever its noise rules, which is where they matter; how strong does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.inference.prior import BoundPrior
from bvsi.inference.solve import factorise
from bvsi.likelihood import ResidualLikelihood

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dominant:
    """One weighted least-squares estimate with the weights of the noisiest operators.

    factor: κ.
    """

    factor: float = 1e3

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor > 0):
            raise BvsiError(f"factor: a positive number is needed, such as 1e3; got {self.factor}.")

    def estimate(self, likelihood: ResidualLikelihood, prior: BoundPrior) -> Array:
        """θ (d,)."""
        theta = self.weights_at(likelihood)
        equations = likelihood.normal_equations(theta)
        solver = factorise(equations.H + prior.precision, likelihood.names)
        return theta + solver.solve(equations.g + prior.gradient(theta))

    def weights_at(self, likelihood: ResidualLikelihood) -> Array:
        """θ* (d,), with one operator per equation."""
        noise = likelihood.noise_share(np.random.default_rng(0))
        theta = np.zeros(likelihood.system.d)
        for y, X, share in zip(noise.y, noise.X, noise.share, strict=True):
            i = int(np.argmax(share))
            if share[i] > 0:
                theta[i] = self.factor * np.sqrt(y / X[i])
        return theta
