"""Figures: one function each, drawing on the Axes it is given."""

from bvsi.plot.ablation import ablation
from bvsi.plot.accessor import DiscoveryPlots
from bvsi.plot.coefficients import coefficient_errors, coefficient_intervals
from bvsi.plot.concentration import concentration_map
from bvsi.plot.covariance import covariance_matrix
from bvsi.plot.discovery_benchmark import discovery_benchmark
from bvsi.plot.forecast import forecast_errors
from bvsi.plot.frames import frame_pictures
from bvsi.plot.maps import contour_map, scalar_map
from bvsi.plot.pairs import posterior_pairs
from bvsi.plot.posteriors import posterior_comparison
from bvsi.plot.ranks import rank_histogram
from bvsi.plot.selection import selection_path

__all__ = [
    "DiscoveryPlots",
    "ablation",
    "coefficient_errors",
    "coefficient_intervals",
    "concentration_map",
    "contour_map",
    "covariance_matrix",
    "discovery_benchmark",
    "forecast_errors",
    "frame_pictures",
    "posterior_comparison",
    "posterior_pairs",
    "rank_histogram",
    "scalar_map",
    "selection_path",
]
