"""The posterior as a function: log p(θ | data) = ℓ(θ) + log p(θ) + constant, on the set that constraints allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.objective import LogLikelihood
from bvsi.infer.priors import PriorDensity
from bvsi.likelihood import Term

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Target:
    """A log-density of θ with its gradient.

    log_likelihood: ℓ; prior: log p(θ); constraints: those that were stated, and the support of the prior.
    """

    names: tuple[str, ...]
    log_likelihood: LogLikelihood
    prior: PriorDensity
    constraints: LinearConstraints

    def __call__(self, theta: Array) -> Term:
        """ℓ(θ) + log p(θ) and its gradient (d,); for θ that constraints allow."""
        return self.log_likelihood(theta) + Term(float(self.prior.logpdf(theta)), self.prior.gradient(theta))

    def smooth(self, theta: Array) -> Term:
        """The same without the part of the prior that has corners."""
        prior = Term(float(self.prior.smooth_logpdf(theta)), self.prior.smooth_gradient(theta))
        return self.log_likelihood(theta) + prior
