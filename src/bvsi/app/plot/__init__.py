"""Figures: one function each, drawing on the Axes it is given."""

from bvsi.app.plot.ablation import ablation
from bvsi.app.plot.accessor import DiscoveryPlots
from bvsi.app.plot.coefficients import coefficient_errors, coefficient_intervals
from bvsi.app.plot.concentration import concentration_map
from bvsi.app.plot.covariance import covariance_matrix
from bvsi.app.plot.discovery_benchmark import discovery_benchmark
from bvsi.app.plot.forecast import forecast_errors
from bvsi.app.plot.frames import frame_pictures
from bvsi.app.plot.maps import contour_map, scalar_map
from bvsi.app.plot.pairs import posterior_pairs
from bvsi.app.plot.posteriors import posterior_comparison
from bvsi.app.plot.ranks import rank_histogram
from bvsi.app.plot.selection import selection_path

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
