"""Residual covariance, weightings, and the residual likelihood."""

from bvsi.likelihood.covariance import CovariancePlan, plan_covariance, sensitivities
from bvsi.likelihood.density import Density, Term
from bvsi.likelihood.instruments import InstrumentalEquations
from bvsi.likelihood.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.likelihood.normal_equations import NormalEquations
from bvsi.likelihood.profile_equations import ProfileEquations
from bvsi.likelihood.stacked import Stacked
from bvsi.likelihood.weighting import Block, Isotropic, Weighting

__all__ = [
    "Block",
    "CovariancePlan",
    "Density",
    "InstrumentalEquations",
    "Isotropic",
    "NormalEquations",
    "ProfileEquations",
    "ResidualLikelihood",
    "Stacked",
    "Term",
    "Weighting",
    "plan_covariance",
    "residual_likelihood",
    "sensitivities",
]
