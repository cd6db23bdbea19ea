"""Smooth test functions on any set of nodes: B-splines on a background grid, data through a reconstruction.

    ∫ ∂^α φ g(u, x) dx ≈ Σ_q w_q ∂^α φ(x_q) (R g(û))_q = B_α g(û),       B_α = E_α diag(w) R      (tests × nodes)

The functions are those whose support lies inside the domain, so that no boundary condition is used or needed. x_q, w_q:
quadrature of the cells between the nodes; R: local polynomials (:mod:`bvsi.spaces.reconstruction`). Integrands are
evaluated at the nodes, so that noise stays where it was measured, and Jacobians are B_α times a diagonal matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.jets import MultiIndex
from bvsi.errors import SpaceError
from bvsi.linalg import Kronecker, Pattern
from bvsi.spaces.bsplines import UniformSplines
from bvsi.spaces.domain import Domain
from bvsi.spaces.reconstruction import reconstruction

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Degree to which the quadrature of a cell is exact: integrands are splines times polynomials of degree 2 to 4, and
# their pieces are about as long as a cell.
_QUADRATURE = 6
# More where cells have nodes between their corners, and are two spacings wide: with 6 the order fell from 4 to 2.6.
_LARGER = 4


@dataclass(frozen=True, eq=False)
class BackgroundTests:
    """Splines on the bounding box of a domain, restricted to those inside.

    Attributes
    ----------
    axes
        Splines along each axis of the box.
    degree
        Degree of the reconstruction.
    """

    domain: Domain
    axes: tuple[UniformSplines, ...]
    degree: int

    @staticmethod
    def by_gaps(domain: Domain, gaps: Array, spline_degree: int, degree: int) -> BackgroundTests:
        """Knots about ``gaps`` (dim,) apart."""
        low, high = domain.points.min(axis=0), domain.points.max(axis=0)
        axes = tuple(
            UniformSplines.by_gap(float(a), float(b - a), float(g), spline_degree, periodic=False)
            for a, b, g in zip(low, high, gaps, strict=True)
        )
        return BackgroundTests(domain, axes, degree)

    @cached_property
    def index(self) -> Integers:
        """Numbers along each axis of the functions whose support lies inside the domain, (n_tests, dim)."""
        grids = np.meshgrid(*(np.arange(s.n) for s in self.axes), indexing="ij")
        index = np.stack([g.ravel() for g in grids], axis=1)
        gap, start = np.array([s.gap for s in self.axes]), np.array([s.start for s in self.axes])
        low = start + index * gap
        inside = self.domain.holds(low, low + (np.array([s.degree for s in self.axes]) + 1) * gap)
        return np.asarray(index[inside], dtype=np.int64)

    @property
    def centres(self) -> Array:
        """Middles of the supports, (n_tests, dim)."""
        return np.stack([s.centres[i] for s, i in zip(self.axes, self.index.T, strict=True)], axis=1)

    @cached_property
    def _quadrature(self) -> tuple[Array, Array, sparse.csr_array]:
        """Points (n_q, dim), weights (n_q,), and R (n_q × n)."""
        second_order = self.domain.cells.shape[1] > self.domain.corners
        shapes, places, weights = self.domain.quadrature(_QUADRATURE + _LARGER * second_order)
        R = reconstruction(self.domain.points, self.domain.cells, self.domain.corners, shapes, places, self.degree)
        return places.reshape(-1, self.domain.dim), weights.ravel(), R

    @cached_property
    def _functions(self) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """Functions and points of the entries of E, and which of the products of the axes' functions they are."""
        points = self._quadrature[0]
        shape = tuple(s.n for s in self.axes)
        number = np.full(int(np.prod(shape)), -1, dtype=np.int64)
        number[np.ravel_multi_index(tuple(self.index.T), shape)] = np.arange(len(self.index))
        flat = self.axes[0].functions(points[:, 0])
        for axis, splines in enumerate(self.axes[1:], start=1):
            more = splines.functions(points[:, axis])
            both = np.where(
                (flat[:, :, None] >= 0) & (more[:, None] >= 0), flat[:, :, None] * splines.n + more[:, None], -1
            )
            flat = both.reshape(len(points), -1)
        own = np.where(flat >= 0, number[flat], -1)
        there = own >= 0
        rows = np.broadcast_to(np.arange(len(points))[:, None], own.shape)
        return own[there], np.asarray(rows[there], dtype=np.int64), there

    def matrix(self, index: MultiIndex) -> sparse.csr_array:
        """B_α (n_tests × n)."""
        points, weights, R = self._quadrature
        for order, splines in zip(index, self.axes, strict=True):
            if order >= splines.degree:
                raise SpaceError(f"degree: {splines.degree} does not carry {order} derivatives; raise it.")
        functions, rows, there = self._functions
        values = np.ones((len(points), 1))
        for axis, (splines, order) in enumerate(zip(self.axes, index, strict=True)):
            values = (values[:, :, None] * splines.values(points[:, axis], order)[:, None]).reshape(len(points), -1)
        entries = (values * weights[:, None])[there]
        E = sparse.csr_array((entries, (functions, rows)), shape=(len(self.index), len(points)))
        return sparse.csr_array(E @ R)

    @cached_property
    def pattern(self) -> Pattern:
        """Nodes × tests that some B_α joins."""
        functions, rows, _ = self._functions
        R = self._quadrature[2]
        E = sparse.csr_array((np.ones(len(rows)), (functions, rows)), shape=(len(self.index), R.shape[0]))
        there = sparse.csr_array((np.ones(R.nnz), R.indices, R.indptr), shape=R.shape)
        joined = sparse.coo_array(E @ there)
        return Pattern.from_coo(joined.col.astype(np.int64), joined.row.astype(np.int64), joined.shape[::-1])[0]

    def at_nodes(self) -> Callable[[MultiIndex], Kronecker]:
        """B_α as a product of one factor."""
        made: dict[MultiIndex, Kronecker] = {}

        def make(index: MultiIndex) -> Kronecker:
            if index not in made:
                made[index] = Kronecker.of([self.matrix(index)])
            return made[index]

        return make
