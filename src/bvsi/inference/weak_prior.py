"""A weak prior whose scale follows the columns of X, so that units do not matter.

θ_i ~ N(0, 1/(w H_ii)),   H = XᵀWX   (in units of σ² where the noise level is unknown)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bvsi.errors import BvsiError
from bvsi.inference.prior import GaussianPrior
from bvsi.likelihood import ResidualLikelihood


def column_prior(likelihood: ResidualLikelihood, theta: ArrayLike, weight: float = 1e-10) -> GaussianPrior:
    """The prior with the weights W(θ) of a first estimate θ.

    weight: w, information of the prior relative to that of the data on an operator alone. Where operators are nearly
        alike the data know little of each, so that w has to be far below 1/n to be weak.
    """
    if not (np.isfinite(weight) and weight > 0):
        raise BvsiError(f"weight: a positive number is needed, such as 1e-10; got {weight}.")
    information = np.diag(likelihood.normal_equations(theta).H)
    pairs = zip(likelihood.names, information, strict=True)
    return GaussianPrior({name: (0.0, float(1 / (weight * h))) for name, h in pairs if h > 0})
