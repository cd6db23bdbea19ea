"""Discrete spaces: Lagrange elements on grids and meshes, and maps from measured points to unknowns."""

from bvsi.spaces.element import H3, P1, P2, Q1, Q2, Element, Hermite, Lagrange
from bvsi.spaces.galerkin import Galerkin, Interpolation, LocalL2Projection, Transfer
from bvsi.spaces.measure import Evaluation, Measure
from bvsi.spaces.space import Reach, Space
from bvsi.spaces.spline_tests import SplineTests, is_uniform
