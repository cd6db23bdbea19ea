"""A weak prior whose scale follows the columns of X, so that units do not matter.

θ_i ~ N(0, 1/(w H_ii)),   H = XᵀWX   (in units of σ² where the noise level is unknown)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bvsi.infer.priors import ColumnScale, GaussianPrior
from bvsi.likelihood import ResidualLikelihood


def column_prior(likelihood: ResidualLikelihood, theta: ArrayLike, weight: float = 1e-10) -> GaussianPrior:
    """The prior with the weights W(θ) of a first estimate θ.

    weight: w, information of the prior relative to that of the data on an operator alone. Where operators are nearly
        alike the data know little of each, so that w has to be far below 1/n to be weak.
    """
    scale, information = ColumnScale(weight), np.diag(likelihood.normal_equations(theta).H)
    laws = zip(likelihood.names, map(scale.law, information.tolist()), strict=True)
    return GaussianPrior({name: (0.0, law.variance) for name, law in laws if np.isfinite(law.variance)})
