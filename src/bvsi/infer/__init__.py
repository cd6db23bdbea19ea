"""Estimators for a fixed list of operators."""

from bvsi.infer.fit import Fit, Reason, Status, Step
from bvsi.infer.lagged import Lagged, column_prior
from bvsi.infer.maximum import Maximum
from bvsi.infer.nuts import NUTS
from bvsi.infer.objective import FrozenCovariance, Objective, ProfileDensity, ResidualDensity
from bvsi.infer.profile import Profile
from bvsi.infer.starts import Starts
from bvsi.infer.svgd import SVGD, MedianRBF
from bvsi.infer.vsi import Lasso, LeastSquares, Ridge
