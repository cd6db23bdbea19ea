"""Priors of the coefficients by operator name, and the prior of the noise level."""

from bvsi.infer.priors.bound import BoundPrior
from bvsi.infer.priors.density import Factor, PriorDensity
from bvsi.infer.priors.distribution import Distribution
from bvsi.infer.priors.distributions import Flat, HalfNormal, LogNormal, Normal, Uniform
from bvsi.infer.priors.gaussian import GaussianPrior, bind_prior
from bvsi.infer.priors.inverse_gamma import InverseGammaPrior
from bvsi.infer.priors.joint import JointNormal
from bvsi.infer.priors.prior import ColumnScale, Prior
from bvsi.infer.priors.shrinkage import Horseshoe, Laplace, StudentT

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
