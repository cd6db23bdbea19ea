"""Facets of a scikit-fem mesh: on the boundary, between two cells, and in pairs on the ends of periodic axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from skfem.quadrature import get_quadrature

from bvsi.errors import SpaceError
from bvsi.spaces.element import facet_size

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# How far, in extents of the mesh, facets on the two ends of a period may lie apart by rounding.
_SLACK = 1e-9
# Degree of the quadrature for |E| and |K|: exact for cells with flat facets.
_DEGREE = 4


@dataclass(frozen=True, eq=False)
class Facets:
    """Facets of a mesh whose axes of the given periods, by number, close upon themselves."""

    mesh: Any
    periods: Mapping[int, float]

    @cached_property
    def boundary(self) -> Integers:
        """Facets on the boundary, without those at the ends of periodic axes."""
        ends = [facets for axis in self.periods for facets in self._ends(axis)]
        return np.setdiff1d(self.mesh.boundary_facets(), np.concatenate([np.zeros(0, np.int64), *ends]))

    @cached_property
    def seams(self) -> tuple[Integers, Integers, Integers]:
        """Facets on the upper ends of periodic axes, those at the same places on the lower ends, and the axes."""
        found = [(np.zeros(0, np.int64),) * 3]
        extent = np.ptp(self.mesh.p, axis=1)
        centres = self.mesh.p[:, self.mesh.facets].mean(axis=1).T / extent
        for axis in self.periods:
            low, high = self._ends(axis)
            elsewhere = np.arange(len(extent)) != axis
            _, partner = cKDTree(centres[low] * elsewhere).query(centres[high] * elsewhere)
            found.append((high, low[partner], np.full(len(high), axis)))
        upper, lower, axes = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return upper, lower, axes

    @cached_property
    def interior(self) -> tuple[Integers, Integers, Integers]:
        """Facets between two cells, the same seen from the − cell, and the + and − cells (2, n).

        A facet and its partner differ on the seams of periodic axes only, which come last.
        """
        inner = np.flatnonzero(self.mesh.f2t[1] >= 0)
        upper, lower, _ = self.seams
        cells = np.concatenate([self.mesh.f2t[:, inner], self.mesh.f2t[0, [upper, lower]]], axis=1)
        return np.append(inner, upper), np.append(inner, lower), cells.astype(np.int64)

    @cached_property
    def sizes(self) -> Array:
        """h_E of every facet: |E|^(1/(dim − 1)), in one dimension the mean length of the adjoining cells."""
        dim = self.mesh.dim()
        if dim > 1:
            return facet_size(self._areas, dim)
        sizes: Array = self._volumes[self.mesh.f2t[0]]
        facets, partners, cells = self.interior
        sizes[facets] = sizes[partners] = self._volumes[cells].mean(axis=0)
        return sizes

    @cached_property
    def around(self) -> Array:
        """Σ_{E ⊂ ∂K} h_E |E|/|K| for every cell."""
        return np.asarray((self.sizes * self._areas)[self.mesh.t2f].sum(axis=0) / self._volumes)

    def reference_points(self, rule_points: Array, facets: Integers, cells: Integers) -> Array:
        """Where in the cells the points of a rule on facets lie, (dim, n, n_q)."""
        mapping = self.mesh.mapping()
        return np.asarray(mapping.invF(mapping.G(rule_points, find=facets), tind=cells))

    def check_partners(self, rule_points: Array) -> None:
        """Refuse periodic axes whose ends have facets, or points on them, at different places."""
        upper, lower, axes = self.seams
        if not len(upper):
            return
        mapping = self.mesh.mapping()
        gap = mapping.G(rule_points, find=upper) - mapping.G(rule_points, find=lower)
        gap[axes, np.arange(len(axes))] -= np.array([self.periods[axis] for axis in axes])[:, None]
        extent = np.ptp(self.mesh.p, axis=1)[:, None, None]
        if np.abs(gap / extent).max() > _SLACK or len(np.unique(lower)) != len(lower):
            raise SpaceError(
                "the cells on the two ends of a periodic axis do not meet: their facets lie at different places; make "
                "the mesh periodic, or use a Q element on the grid."
            )

    def _ends(self, axis: int) -> tuple[Integers, Integers]:
        """Boundary facets at the lower and the upper end of an axis."""
        facets = self.mesh.boundary_facets()
        places = self.mesh.p[axis][self.mesh.facets[:, facets]]
        # Vertices are copies of the coordinates of the axis, so that they can be compared exactly.
        low, high = self.mesh.p[axis].min(), self.mesh.p[axis].max()
        return facets[(places == low).all(axis=0)], facets[(places == high).all(axis=0)]

    @cached_property
    def _areas(self) -> Array:
        """|E|, one in one dimension."""
        points, weights = get_quadrature(self.mesh.brefdom, _DEGREE)
        return np.asarray(np.abs(self.mesh.mapping().detDG(points)) @ weights)

    @cached_property
    def _volumes(self) -> Array:
        """|K|."""
        points, weights = get_quadrature(self.mesh.elem.refdom, _DEGREE)
        return np.asarray(np.abs(self.mesh.mapping().detDF(points)) @ weights)
