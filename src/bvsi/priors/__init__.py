"""Priors of the coefficients by operator name, and the prior of the noise level."""

from bvsi.priors.bound import BoundPrior
from bvsi.priors.density import Factor, PriorDensity
from bvsi.priors.distribution import Distribution
from bvsi.priors.distributions import Flat, HalfNormal, LogNormal, Normal, Uniform
from bvsi.priors.gaussian import GaussianPrior, bind_prior
from bvsi.priors.inverse_gamma import InverseGammaPrior
from bvsi.priors.joint import JointNormal
from bvsi.priors.prior import ColumnScale, Prior
from bvsi.priors.shrinkage import Horseshoe, Laplace, StudentT

__all__ = [
    "BoundPrior",
    "ColumnScale",
    "Distribution",
    "Factor",
    "Flat",
    "GaussianPrior",
    "HalfNormal",
    "Horseshoe",
    "InverseGammaPrior",
    "JointNormal",
    "Laplace",
    "LogNormal",
    "Normal",
    "Prior",
    "PriorDensity",
    "StudentT",
    "Uniform",
    "bind_prior",
]
