"""Priors of the coefficients by operator name, and the prior of the noise level."""

from bvsi.infer.priors.density import BoundPrior, JointNormal, PriorDensity, PriorFactor
from bvsi.infer.priors.distributions import Distribution, Flat, HalfNormal, LogNormal, Normal, Uniform
from bvsi.infer.priors.prior import ColumnScale, GaussianPrior, InverseGammaPrior, Prior
from bvsi.infer.priors.shrinkage import Horseshoe, Laplace, StudentT
