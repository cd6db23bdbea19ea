"""Operator selection: criteria, one search over the models, and the path taken."""

from bvsi.select.by_fits import Backward, Exhaustive, Forward
from bvsi.select.by_quadratic import BestSubset, Sweep
from bvsi.select.criterion import Criterion, ExactBIC, ExtendedBIC, FStatistic, ProfileBIC, ResidualBIC, Wald
from bvsi.select.path import SelectionPath, Visited
