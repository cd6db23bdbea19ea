"""Weak-form residuals: time stencils and the residual system."""

from bvsi.residual.assembly import Layout, assemble, discretise_library, state_of
from bvsi.residual.stencils import BDF2, BackwardEuler, CrankNicolson, Stencil
from bvsi.residual.system import Residuals, ResidualSystem, Sensitivity, Structure

__all__ = [
    "BDF2",
    "BackwardEuler",
    "CrankNicolson",
    "Layout",
    "ResidualSystem",
    "Residuals",
    "Sensitivity",
    "Stencil",
    "Structure",
    "assemble",
    "discretise_library",
    "state_of",
]
