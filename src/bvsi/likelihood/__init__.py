"""Residual covariance, weightings, and the residual likelihood."""

from bvsi.likelihood.block import Block, Isotropic, Weighting
from bvsi.likelihood.covariance import CovariancePlan, plan_covariance, sensitivities
from bvsi.likelihood.equations import Density, InstrumentalEquations, NormalEquations, ProfileEquations, ValueGradient
from bvsi.likelihood.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.likelihood.stacked import Stacked, Tiles
