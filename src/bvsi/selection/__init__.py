"""Operator selection: criteria, elimination, search, and the path taken."""

from bvsi.selection.backward import Backward
from bvsi.selection.best_subset import BestSubset
from bvsi.selection.criterion import Criterion, ExactBIC, FStatistic, ProfileBIC, ResidualBIC, Wald
from bvsi.selection.path import SelectionPath, Visited
from bvsi.selection.search import Exhaustive, Forward
from bvsi.selection.sweep import Sweep

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
