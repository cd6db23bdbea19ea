"""Estimators for a fixed list of operators."""

from bvsi.infer.dominant import Dominant
from bvsi.infer.fit import Fit, Reason, Status, Step
from bvsi.infer.instrumental import Instrumental
from bvsi.infer.lagged import Lagged
from bvsi.infer.maximum import Maximum
from bvsi.infer.nuts import NUTS
from bvsi.infer.objective import FrozenCovariance, Objective, ProfileDensity, ResidualDensity
from bvsi.infer.profile import Profile
from bvsi.infer.stein import MedianRBF
from bvsi.infer.svgd import SVGD
from bvsi.infer.vsi import Lasso, LeastSquares, Ridge
from bvsi.infer.weak_prior import column_prior

__all__ = [
    "NUTS",
    "SVGD",
    "Dominant",
    "Fit",
    "FrozenCovariance",
    "Instrumental",
    "Lagged",
    "Lasso",
    "LeastSquares",
    "Maximum",
    "MedianRBF",
    "Objective",
    "Profile",
    "ProfileDensity",
    "Reason",
    "ResidualDensity",
    "Ridge",
    "Status",
    "Step",
    "column_prior",
]
