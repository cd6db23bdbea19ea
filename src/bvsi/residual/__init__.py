"""Weak-form residuals: time stencils and the residual system."""

from bvsi.residual.assembly import assemble, discretise_library, state_of
from bvsi.residual.jacobians import Scaled, Sensitivity
from bvsi.residual.layout import Layout
from bvsi.residual.stencils import BDF2, BackwardEuler, CrankNicolson, EachFrame, Stencil, TemporalTests
from bvsi.residual.system import Residuals, ResidualSystem, Structure
