"""Smooth test functions on any set of nodes: B-splines on a background grid, data through a reconstruction.

    ∫ ∂^α φ g(u, x) dx ≈ Σ_q w_q ∂^α φ(x_q) (R g(û))_q = B_α g(û),       B_α = E_α diag(w) R      (tests × nodes)

The functions are those whose support lies inside the domain, so that no boundary condition is used or needed. x_q, w_q:
quadrature of the cells between the nodes; R: local splines (:mod:`bvsi.spaces.reconstruction`). Integrands are
evaluated at the nodes, so that noise stays where it was measured, and Jacobians are B_α times a diagonal matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.common.jets import MultiIndex
from bvsi.errors import SpaceError
from bvsi.linalg import Kronecker, Pattern
from bvsi.spaces.bsplines import UniformSplines, tensor_splines
from bvsi.spaces.domain import Domain
from bvsi.spaces.nodal_derivatives import scattered_derivative
from bvsi.spaces.reconstruction import reconstruction

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Degree to which the quadrature of a cell is exact: integrands are splines times polynomials of degree 2 to 4, and
# their pieces are about as long as a cell.
_QUADRATURE = 6
# More where cells have nodes between their corners, and are two spacings wide: with 6 the order fell from 4 to 2.6.
_LARGER = 4
# Least volume of a node over the mean, where derivatives of the data are fitted; not measured.
_LEAST = 0.1


@dataclass(frozen=True, eq=False)
class BackgroundTests:
    """Splines on the bounding box of a domain, restricted to those inside.

    Attributes
    ----------
    axes
        Splines along each axis of the box.
    degree
        Degree of the reconstruction.
    reach
        Of the fits for derivatives of the data, in spacings, (dim,).
    """

    domain: Domain
    axes: tuple[UniformSplines, ...]
    degree: int
    reach: Array

    @staticmethod
    def by_gaps(domain: Domain, gaps: Array, spline_degree: int, degree: int, reach: Array) -> BackgroundTests:
        """Knots about ``gaps`` (dim,) apart."""
        low, high = domain.points.min(axis=0), domain.points.max(axis=0)
        axes = tuple(
            UniformSplines.by_gap(float(a), float(b - a), float(g), spline_degree, periodic=False)
            for a, b, g in zip(low, high, gaps, strict=True)
        )
        return BackgroundTests(domain, axes, degree, reach)

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
    def _numbers(self) -> Integers:
        """C-order numbers of these functions among all products of the axes' functions, (n_tests,)."""
        return np.asarray(np.ravel_multi_index(tuple(self.index.T), tuple(s.n for s in self.axes)), dtype=np.int64)

    @cached_property
    def _quadrature(self) -> tuple[Array, Array, sparse.csr_array]:
        """Points (n_q, dim), weights (n_q,), and R (n_q × n)."""
        places, weights = self.domain.quadrature(_QUADRATURE + _LARGER * (self.domain.nodes.degree == 2))
        R = reconstruction(self.domain, places, self.degree)
        return places.reshape(-1, self.domain.dim), weights.ravel(), R

    def matrix(self, index: MultiIndex) -> sparse.csr_array:
        """B_α (n_tests × n)."""
        for order, splines in zip(index, self.axes, strict=True):
            if order >= splines.degree:
                raise SpaceError(f"degree: {splines.degree} does not carry {order} derivatives; raise it.")
        points, weights, R = self._quadrature
        E = tensor_splines(self.axes, points, index)[:, self._numbers].T
        return sparse.csr_array(sparse.csr_array(E * weights) @ R)

    @cached_property
    def pattern(self) -> Pattern:
        """Nodes × tests that some B_α joins."""
        points, _, R = self._quadrature
        E = sparse.csr_array(tensor_splines(self.axes, points, (0,) * len(self.axes))[:, self._numbers].T)
        joined = sparse.coo_array(_ones(E) @ _ones(R))
        return Pattern.from_coo(joined.col.astype(np.int64), joined.row.astype(np.int64), joined.shape[::-1])[0]

    @cached_property
    def _volumes(self) -> Array:
        """Rᵀw: the part of the domain that each node stands for, (n,); that of few scattered nodes is not positive."""
        _, weights, R = self._quadrature
        volumes = np.asarray(R.T @ weights)
        return np.asarray(np.maximum(volumes, _LEAST * volumes.mean()))

    def derivative_at_nodes(self, index: MultiIndex) -> Kronecker:
        """D_index (n × n) as a product of one factor; D_0 is the identity."""
        if not any(index):
            return Kronecker((sparse.eye_array(len(self.domain.points), format="csr"),))
        return Kronecker.of([self._fitted(index)])

    def _fitted(self, index: MultiIndex) -> sparse.csr_array:
        if index not in self._fits:
            self._fits[index] = scattered_derivative(self.domain, self._volumes, index, self.reach)
        return self._fits[index]

    @cached_property
    def _fits(self) -> dict[MultiIndex, sparse.csr_array]:
        return {}

    def at_nodes(self, index: MultiIndex) -> Kronecker:
        """B_α as a product of one factor; of (α, γ) B_α D_γ at the nodes that B_0 sees.

        Beyond them, up to the reach of D_γ outside the support, 1e-3 to 1e-2 of the norm is left out.
        """
        dim = self.domain.dim
        if len(index) == dim:
            return Kronecker.of([self.matrix(index)])
        seen = _ones(self.matrix((0,) * dim))
        return Kronecker.of([(self.matrix(index[:dim]) @ self._fitted(index[dim:])).multiply(seen)])


def _ones(matrix: sparse.csr_array) -> sparse.csr_array:
    """One at every stored entry."""
    return sparse.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
