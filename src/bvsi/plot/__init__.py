"""Figures: one function each, drawing on the Axes it is given."""

from bvsi.plot.ablation import ablation
from bvsi.plot.coefficients import coefficient_errors
from bvsi.plot.concentration import concentration_map
from bvsi.plot.covariance import covariance_matrix
from bvsi.plot.discovery_benchmark import discovery_benchmark
from bvsi.plot.maps import contour_map, scalar_map
from bvsi.plot.posteriors import posterior_comparison
from bvsi.plot.ranks import rank_histogram
from bvsi.plot.selection import selection_path

__all__ = [
    "ablation",
    "coefficient_errors",
    "concentration_map",
    "contour_map",
    "covariance_matrix",
    "discovery_benchmark",
    "posterior_comparison",
    "rank_histogram",
    "scalar_map",
    "selection_path",
]
