"""Noise models, residual covariance, weightings, and the residual likelihood."""

from bvsi.likelihood.covariance import CovariancePlan, plan_covariance, sensitivities
from bvsi.likelihood.density import Density, Term
from bvsi.likelihood.instruments import InstrumentalEquations
from bvsi.likelihood.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.likelihood.noise import (
    IID,
    Covariance,
    Diagonal,
    Noise,
    PerField,
    PerTime,
    StateCovariance,
    UnknownScale,
)
from bvsi.likelihood.normal_equations import NormalEquations
from bvsi.likelihood.profile_equations import ProfileEquations
from bvsi.likelihood.stacked import Stacked
from bvsi.likelihood.weighting import Block, Isotropic, Weighting

__all__ = [
    "IID",
    "Block",
    "Covariance",
    "CovariancePlan",
    "Density",
    "Diagonal",
    "InstrumentalEquations",
    "Isotropic",
    "Noise",
    "NormalEquations",
    "PerField",
    "PerTime",
    "ProfileEquations",
    "ResidualLikelihood",
    "Stacked",
    "StateCovariance",
    "Term",
    "UnknownScale",
    "Weighting",
    "plan_covariance",
    "residual_likelihood",
    "sensitivities",
]
