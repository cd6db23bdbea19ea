"""Estimators for a fixed list of operators, and the posteriors they return."""

from bvsi.inference.dominant import Dominant
from bvsi.inference.fit import Fit, Status, Step
from bvsi.inference.instrumental import Instrumental
from bvsi.inference.lagged import Lagged
from bvsi.inference.posterior import GaussianPosterior, NormalInverseGammaPosterior, Posterior
from bvsi.inference.prior import GaussianPrior, InverseGammaPrior
from bvsi.inference.profile import Profile
from bvsi.inference.vsi import Lasso, LeastSquares, Ridge
from bvsi.inference.weak_prior import column_prior

__all__ = [
    "Dominant",
    "Fit",
    "GaussianPosterior",
    "GaussianPrior",
    "Instrumental",
    "InverseGammaPrior",
    "Lagged",
    "Lasso",
    "LeastSquares",
    "NormalInverseGammaPosterior",
    "Posterior",
    "Profile",
    "Ridge",
    "Status",
    "Step",
    "column_prior",
]
