"""Smooth test functions on any set of nodes: B-splines on a background grid, data through a reconstruction.

    ∫ ∂^α φ g(u, x) dx ≈ Σ_q w_q ∂^α φ(x_q) (R g(û))_q = B_α g(û),       B_α = (A_1 ⊗ … ⊗ A_d) R      (tests × nodes)

The functions are those whose support lies inside the domain, so that no boundary condition is used or needed. x_q, w_q:
Gauss points between the knots, a product of axes as the functions are, A_a[i, q] = w_q φ_i^(α_a)(x_q); R: local splines
(:mod:`bvsi.spaces.reconstruction`). Integrands are evaluated at the nodes, so that noise stays where it was measured,
and Jacobians are B_α times a diagonal matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import numpy as np
import scipy.sparse as sparse
from numpy.polynomial.legendre import leggauss

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import MultiIndex, Weighted
from bvsi.errors import SpaceError
from bvsi.linalg import Kronecker, Pattern
from bvsi.spaces.axis import UniformSplines, spline_matrix
from bvsi.spaces.domain import Domain
from bvsi.spaces.nodal_derivatives import scattered_derivative
from bvsi.spaces.reconstruction import reconstruction

# Spacings between the ends of a box, by dimension. The bias of data without noise is 0.12 standard deviations from 300
# sensors, and 0.35 from 150; with the quadrature of cells, which knots cut, it was 0.3 to 0.7 and 0.9 to 1.3. On 1331
# nodes of tetrahedra it is 0.08, and 0.03 with 1.0, which has eight times as many points.
_BOX = {1: 1.0, 2: 1.0, 3: 1.6}
# Gauss points in a box along an axis: two were off by 2e-3 on hexahedra (tests/spaces/test_background.py). With known
# factors, whose slopes are as narrow as a box: three made k(x) from 150 sensors wrong by up to 5 standard deviations,
# with 54 in Q of the truth, six with 5 and twelve with 5 (seed 2121021, draw 18, data without noise).
_GAUSS, _GAUSS_WEIGHTED = 3, 6
# Degree to which cells are integrated for the volumes of nodes.
_QUADRATURE = 3
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
    stretch
        By axis, places and where they go, (n,) each, or None: coordinates in which the reconstruction is smooth.
    """

    domain: Domain
    axes: tuple[UniformSplines, ...]
    degree: int
    reach: Array
    stretch: tuple[tuple[Array, Array] | None, ...] = ()

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
    def _boxes(self) -> tuple[list[Array], list[Integers]]:
        """Ends of boxes along each axis (m + 1,), and the piece between two knots in which each lies (m,).

        A piece has as many boxes as nodes lie along it, so that one neighbourhood of nodes serves a box.
        """
        corners = self.domain.points[self.domain.corners]
        middle, extent = corners.mean(axis=1), np.ptp(corners, axis=1)
        widest = _BOX[self.domain.dim] * self.domain.spacing * extent / np.median(extent, axis=0)
        ends, owners = [], []
        for a, s in enumerate(self.axes):
            piece = np.clip((middle[:, a] - s.start) // s.gap, 0, s.pieces - 1)
            cells = [widest[piece == i, a] for i in range(s.pieces)]
            counts = [round(s.gap / float(np.median(own))) if own.size else 1 for own in cells]
            parts = [np.arange(i, i + 1, 1 / max(1, m))[: max(1, m)] for i, m in enumerate(counts)]
            ends.append(s.start + s.gap * np.append(np.concatenate(parts), s.pieces))
            owners.append(np.repeat(np.arange(s.pieces), [len(part) for part in parts]))
        return ends, owners

    def _points(self, gauss: int) -> tuple[list[Array], list[Array]]:
        """Gauss points, so many in a box, and weights along each axis, box by box."""
        xi, w = leggauss(gauss)
        half = [0.5 * np.diff(ends)[:, None] for ends in self._boxes[0]]
        points = [(ends[:-1, None] + h * (1 + xi)).ravel() for ends, h in zip(self._boxes[0], half, strict=True)]
        return points, [(h * w).ravel() for h in half]

    @cached_property
    def _reconstruction(self) -> sparse.csr_array:
        return self._reconstructed(_GAUSS)

    def _reconstructed(self, gauss: int) -> sparse.csr_array:
        """R (all products of the axes' points × n), with empty rows where no function lives."""
        dim, points = self.domain.dim, self._points(gauss)[0]
        lives = np.zeros([s.pieces for s in self.axes], dtype=bool)
        for offset in product(*(range(s.degree + 1) for s in self.axes)):
            lives[tuple((self.index + np.array(offset)).T)] = True
        boxes = np.argwhere(lives[np.ix_(*self._boxes[1])])
        inner = np.indices((gauss,) * dim).reshape(dim, -1)
        along = [gauss * box[:, None] + own for box, own in zip(boxes.T, inner, strict=True)]  # (m, q) by axis
        places = np.stack([x[own] for x, own in zip(points, along, strict=True)], axis=2)
        cells, nodes = self.domain.cells_at(places.mean(axis=1)), self._stretched(self.domain.points)
        R = reconstruction(self.domain, cells, self._stretched(places), self.degree, nodes)
        numbers = np.ravel_multi_index(tuple(along), tuple(map(len, points))).ravel()
        sizes = np.zeros(int(np.prod([len(x) for x in points])) + 1, dtype=np.int64)
        sizes[numbers + 1] = np.diff(R.indptr)
        R = R[np.argsort(numbers)]
        return sparse.csr_array((R.data, R.indices, np.cumsum(sizes)), shape=(len(sizes) - 1, R.shape[1]))

    def _stretched(self, points: Array) -> Array:
        """Points (…, dim) in coordinates in which the reconstruction is smooth."""
        if not any(self.stretch):
            return points
        axes = zip(np.moveaxis(points, -1, 0), self.stretch, strict=True)
        return np.stack([x if to is None else np.interp(x, *to) for x, to in axes], axis=-1)

    def matrix(self, index: MultiIndex) -> sparse.csr_array:
        """B_α (n_tests × n)."""
        for order, splines in zip(index, self.axes, strict=True):
            if order >= splines.degree:
                raise SpaceError(f"degree: {splines.degree} does not carry {order} derivatives; raise it.")
        if isinstance(index, Weighted):
            return self._weighted(index)
        B, before, after = self._reconstruction, self._reconstruction.shape[0], 1
        for axis in reversed(range(self.domain.dim)):
            A = self._along(axis, index[axis], _GAUSS)
            before //= A.shape[1]
            B = sparse.kron(sparse.eye_array(before), sparse.kron(A, sparse.eye_array(after)), format="csr") @ B
            after *= A.shape[0]
        return sparse.csr_array(B[self._numbers])

    def _weighted(self, index: Weighted) -> sparse.csr_array:
        """B_α with a known factor, from the points where it is not zero."""
        points, R, products = self._finer
        if tuple(index) not in products:
            axes = [self._along(axis, order, _GAUSS_WEIGHTED) for axis, order in enumerate(index)]
            whole = reduce(lambda a, b: sparse.kron(a, b, format="csr"), axes)
            products[tuple(index)] = sparse.csc_array(whole[self._numbers])
        weight = index.weight(points)
        there = np.flatnonzero(weight)
        return sparse.csr_array(products[tuple(index)][:, there] @ (sparse.diags_array(weight[there]) @ R[there]))

    @cached_property
    def _finer(self) -> tuple[Array, sparse.csr_array, dict[MultiIndex, sparse.csc_array]]:
        """Points for known factors, R there, and tests × points by derivative, made as they are asked for."""
        points = np.stack([x.ravel() for x in np.meshgrid(*self._points(_GAUSS_WEIGHTED)[0], indexing="ij")], axis=1)
        return points, self._reconstructed(_GAUSS_WEIGHTED), {}

    def _along(self, axis: int, order: int, gauss: int) -> sparse.csr_array:
        """A_a (functions × points of an axis)."""
        points, weights = self._points(gauss)
        functions = spline_matrix(self.axes[axis], points[axis], order)
        return sparse.csr_array(functions @ sparse.diags_array(weights[axis]))

    @cached_property
    def pattern(self) -> Pattern:
        """Nodes × tests that some B_α joins, the same for all."""
        joined = self.matrix((0,) * self.domain.dim).tocoo()
        return Pattern.from_coo(joined.col.astype(np.int64), joined.row.astype(np.int64), joined.shape[::-1])[0]

    @cached_property
    def _volumes(self) -> Array:
        """Rᵀw: the part of the domain that each node stands for, (n,); that of few scattered nodes is not positive."""
        places, weights = self.domain.quadrature(_QUADRATURE)
        R = reconstruction(self.domain, np.arange(len(places)), places, self.degree)
        volumes = np.asarray(R.T @ weights.ravel())
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
