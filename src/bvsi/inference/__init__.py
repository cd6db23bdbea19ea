"""Estimators for a fixed list of operators."""

from bvsi.inference.dominant import Dominant
from bvsi.inference.fit import Fit, Status, Step
from bvsi.inference.instrumental import Instrumental
from bvsi.inference.lagged import Lagged
from bvsi.inference.maximum import Maximum
from bvsi.inference.nuts import NUTS
from bvsi.inference.objective import FrozenCovariance, Objective, ProfileDensity, ResidualDensity
from bvsi.inference.profile import SWAMPED, Profile
from bvsi.inference.stein import MedianRBF
from bvsi.inference.svgd import SVGD
from bvsi.inference.vsi import Lasso, LeastSquares, Ridge
from bvsi.inference.weak_prior import column_prior

__all__ = [
    "NUTS",
    "SVGD",
    "SWAMPED",
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
    "ResidualDensity",
    "Ridge",
    "Status",
    "Step",
    "column_prior",
]
