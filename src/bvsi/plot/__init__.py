"""Figures: one function each, drawing on the Axes it is given."""

from bvsi.plot.coefficients import coefficient_errors
from bvsi.plot.maps import contour_map, scalar_map
from bvsi.plot.style import BLUE, GREY, ORANGE

__all__ = ["BLUE", "GREY", "ORANGE", "coefficient_errors", "contour_map", "scalar_map"]
