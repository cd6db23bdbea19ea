"""Operator selection: criteria, elimination, search, and the path taken."""

from bvsi.select.backward import Backward
from bvsi.select.best_subset import BestSubset
from bvsi.select.criterion import Criterion, ExactBIC, FStatistic, ProfileBIC, ResidualBIC, Wald
from bvsi.select.path import SelectionPath, Visited
from bvsi.select.search import Exhaustive, Forward
from bvsi.select.sweep import Sweep

__all__ = [
    "Backward",
    "BestSubset",
    "Criterion",
    "ExactBIC",
    "Exhaustive",
    "FStatistic",
    "Forward",
    "ProfileBIC",
    "ResidualBIC",
    "SelectionPath",
    "Sweep",
    "Visited",
    "Wald",
]
