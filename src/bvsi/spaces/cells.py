"""Cells of a scikit-fem mesh: basis functions at points, which cell holds a point, quadrature rules; and its facets.

    φ = φ̂(ξ)      ∇φ = F⁻ᵀ ∇̂φ̂      ∇²φ = F⁻ᵀ (∇̂²φ̂ − Σ_k ∂_kφ ∇̂²x_k) F⁻¹      F = ∂x/∂ξ
    x = F_c(ξ) = Σ_i v_ci φ_i(ξ),    v_ci the vertices of cell c, φ_i linear (simplices) or linear per axis (boxes)

On simplices ∇̂²x vanishes. The faces of a hexahedron are not flat, so only inverting F_c shows on which side of one a
point lies. Facets are on the boundary, between two cells, and in pairs on the ends of periodic axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import roots_jacobi
from skfem.quadrature import get_quadrature, get_quadrature_tet

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import MultiIndex
from bvsi.errors import SpaceError
from bvsi.spaces.element import SAME_PLACE, facet_size

# Steps of Newton's method. Not measured; it converges quadratically, so that degenerate cells alone take so many.
_MAX_NEWTON = 30
# Change of ξ that ends Newton's method: some roundings of numbers near one.
_CONVERGED = 1e-14
# scikit-fem's tables hold Keast's rules; those it files under 6, ..., 9 are exact to one degree less.
_FIRST_MISNAMED = 5
_LAST_TABULATED = 8  # degree of the highest rule that the tables hold


@dataclass(frozen=True, eq=False)
class Places:
    """Points ξ (dim, n_c, n_q) of the reference cell in ``cells`` (n_c,); n_c = 1 in ξ where all cells have the same.

    Attributes
    ----------
    mesh, element
        Mesh and element of scikit-fem; the element has degree at most two per variable.
    """

    mesh: Any
    element: Any
    cells: Integers
    xi: Array

    @property
    def per_cell(self) -> int:
        """Points in every cell, n_q."""
        return int(self.xi.shape[2])

    def derivative(self, index: MultiIndex) -> Array:
        """∂^index of the functions of the cells at the points, (n_c n_q, m)."""
        axes = [axis for axis, order in enumerate(index) for _ in range(order)]
        made = (self._value, self._slope, self._second)[len(axes)](*axes)
        shape = (len(self.cells), self.per_cell)
        functions = range(len(self.element.doflocs))
        return np.stack([np.broadcast_to(made(i), shape).ravel() for i in functions], axis=1)

    @cached_property
    def _inverse(self) -> Array:
        """∂ξ_i/∂x_a at [i, a], (dim, dim, n_c, n_q)."""
        return np.asarray(self.mesh.mapping().invDF(self.xi, tind=self.cells))

    def _value(self) -> Callable[[int], Array]:
        """φ_i by i."""
        return lambda i: np.asarray(self.element.lbasis(self.xi, i)[0])

    def _slope(self, a: int) -> Callable[[int], Array]:
        """∂_a φ_i by i."""

        def slope(i: int) -> Array:
            gradient = reference_gradient(self.element, self.xi, i)
            return np.asarray(sum(self._inverse[k, a] * gradient[k] for k in range(len(self.xi))))

        return slope

    def _second(self, a: int, b: int) -> Callable[[int], Array]:
        """∂_a ∂_b φ_i by i."""
        bend = () if self.mesh.affine else self._bend(a, b)

        def second(i: int) -> Array:
            hessian = self._pulled(reference_hessian(self.element, self.xi, i), a, b)
            return np.asarray(hessian - sum(self._slope(k)(i) * bent for k, bent in enumerate(bend)))

        return second

    def _bend(self, a: int, b: int) -> Array:
        """(F⁻ᵀ ∇̂²x_k F⁻¹)_ab for every k, (dim, n_c, n_q)."""
        vertex_functions = self.mesh.elem()
        bend = np.zeros((len(self.xi), len(self.cells), self.per_cell))
        for v, vertices in enumerate(self.mesh.t):
            pulled = self._pulled(reference_hessian(vertex_functions, self.xi, v), a, b)
            bend += self.mesh.p[:, vertices[self.cells], None] * pulled
        return bend

    def _pulled(self, hessian: Array, a: int, b: int) -> Array:
        """(F⁻ᵀ Ĥ F⁻¹)_ab."""
        pairs = np.ndindex(hessian.shape[:2])
        return np.asarray(sum(self._inverse[i, a] * hessian[i, j] * self._inverse[j, b] for i, j in pairs))


def reference_gradient(element: Any, xi: Array, i: int) -> Array:
    """∇̂φ̂_i, (dim, n_c, n_q)."""
    return np.broadcast_to(np.asarray(element.lbasis(xi, i)[1]), xi.shape)


def reference_hessian(element: Any, xi: Array, i: int) -> Array:
    """∂̂_a ∇̂φ̂_i(ξ) = ∇̂φ̂_i(ξ + e_a/2) − ∇̂φ̂_i(ξ − e_a/2), (dim, dim, n_c, n_q).

    Exact, since gradients of an element of degree two per variable are at most quadratic in it.
    """
    dim = len(xi)
    steps = 0.5 * np.eye(dim)[:, :, None, None]
    differences = [reference_gradient(element, xi + s, i) - reference_gradient(element, xi - s, i) for s in steps]
    return np.stack(differences)


def locate(mesh: Any, points: Array, outside: int | None = None) -> tuple[Integers, Array]:
    """Cell of each of ``points`` (n_p, dim), and reference coordinates ξ (dim, n_p); on a shared face either cell.

    Candidates are tried in the order of their centres' distance, and a cell does not reach further than the
    distance of its vertices: points that no cell in reach contains are refused, or have the cell ``outside``.
    """
    vertices = mesh.p[:, mesh.t]
    extent = np.ptp(vertices, axis=1)
    unit = extent.mean(axis=1)  # makes cells that are long along one axis round
    centres = vertices.mean(axis=1)
    reach = np.linalg.norm((vertices - centres[:, None]) / unit[:, None, None], axis=0).max()
    slack = SAME_PLACE + 8 * np.finfo(float).eps * np.abs(mesh.p).max() / extent.min()
    tree = cKDTree((centres / unit[:, None]).T)

    cell = np.zeros(len(points), dtype=np.int64)
    xi = np.zeros(points.T.shape)
    pending = np.arange(len(points))
    nearest = 1
    while pending.size:
        ranks = np.arange(nearest, min(2 * nearest, tree.n + 1))
        distance, candidates = tree.query(points[pending] / unit, k=ranks)
        chosen, place, miss = _best(mesh, candidates, points[pending])
        cell[pending], xi[:, pending] = chosen, place
        found = miss <= slack
        hopeless = ~found & ((distance[:, -1] > reach * (1 + slack)) | (ranks[-1] == tree.n))
        if hopeless.any() and outside is not None:
            cell[pending[hopeless]] = outside
            found |= hopeless
        elif hopeless.any():
            raise SpaceError(
                f"points: {hopeless.sum()} or more lie outside the mesh, such as "
                f"{tuple(points[pending[hopeless][0]].tolist())}; the space must cover what it is evaluated at."
            )
        pending = pending[~found]
        nearest *= 2
    return cell, xi


def _best(mesh: Any, candidates: Integers, points: Array) -> tuple[Integers, Array, Array]:
    """The candidate (n_p, m) that misses each point least; with ξ and the miss in reference coordinates."""
    n_p, m = candidates.shape
    xi, miss = _invert(mesh, candidates.ravel(), np.repeat(points, m, axis=0))
    best = np.arange(n_p) * m + miss.reshape(n_p, m).argmin(axis=1)
    return candidates.ravel()[best], xi[:, best], miss[best]


def _invert(mesh: Any, cells: Integers, points: Array) -> tuple[Array, Array]:
    """ξ in the reference cell with F_c(ξ) as near to x as Newton's method comes, and the miss |DF⁻¹(x − F_c(ξ))|.

    ξ ← Π(ξ + DF⁻¹(x − F_c(ξ))), Π the projection onto the reference cell, where F_c is invertible.
    """
    n, dim = points.shape
    inner = 0.5 if _is_box(mesh) else 1 / (dim + 1)
    xi = np.full((dim, n), inner)
    miss = np.full(n, np.inf)
    active = np.arange(n)
    for _ in range(_MAX_NEWTON):
        here = xi[:, active]
        F, DF = _map(mesh, cells[active], here)
        step = _solve(DF, points[active] - F).T
        xi[:, active] = _project(here + step, _is_box(mesh))
        miss[active] = np.abs(step).max(axis=0)
        active = active[np.abs(xi[:, active] - here).max(axis=0) > _CONVERGED]
        if not active.size:
            break
    return xi, miss


def _map(mesh: Any, cells: Integers, xi: Array) -> tuple[Array, Array]:
    """F_c(ξ) (n, dim) and DF_c(ξ) (n, dim, dim)."""
    element = mesh.elem()
    F = np.zeros(xi.T.shape)
    DF = np.zeros((xi.shape[1], len(xi), len(xi)))
    for i, vertex in enumerate(mesh.t):
        phi, slopes = element.lbasis(xi, i)
        v = mesh.p[:, vertex[cells]].T
        F += v * np.asarray(phi)[:, None]
        DF += v[:, :, None] * np.broadcast_to(slopes, xi.shape).T[:, None, :]
    return F, DF


def _solve(DF: Array, residual: Array) -> Array:
    """DF⁻¹ r for each point; cells that DF makes flat, as distorted ones may be in places, contain nothing."""
    flat = np.linalg.det(DF) == 0
    regular = np.where(flat[:, None, None], np.eye(DF.shape[1]), DF)
    return np.where(flat[:, None], np.inf, np.linalg.solve(regular, residual[:, :, None])[:, :, 0])


def _project(xi: Array, box: bool) -> Array:
    """Bring ξ (dim, n) into [0, 1]^dim, or into the simplex ξ ≥ 0, Σξ ≤ 1."""
    if box:
        return np.clip(xi, 0, 1)
    positive = np.maximum(xi, 0)
    return np.asarray(positive / np.maximum(positive.sum(axis=0), 1))


def _is_box(mesh: Any) -> bool:
    return bool(len(mesh.t) == 2 ** len(mesh.p))


def tetrahedron_rule(degree: int) -> tuple[Array, Array]:
    """Points (3, n_q) and weights (n_q,) on x, y, z ≥ 0, x + y + z ≤ 1, exact for polynomials of a degree."""
    if degree > _LAST_TABULATED:
        return _collapsed_rule(degree // 2 + 1)
    points, weights = get_quadrature_tet(degree if degree < _FIRST_MISNAMED else degree + 1)
    return np.asarray(points), np.asarray(weights)


def _collapsed_rule(n: int) -> tuple[Array, Array]:
    """∫ f = ∫∫∫ f(a, (1−a)b, (1−a)(1−b)c) (1−a)² (1−b) da db dc over the unit cube, exact to degree 2n − 1.

    The powers of 1 − a and 1 − b are the weights of Gauss–Jacobi rules, so n points per axis suffice.
    """
    (a, w_a), (b, w_b), (c, w_c) = (_jacobi_rule(n, power) for power in (2, 1, 0))
    a, b, c = np.meshgrid(a, b, c, indexing="ij")
    points = np.stack([a, (1 - a) * b, (1 - a) * (1 - b) * c])
    return points.reshape(3, -1), np.einsum("i,j,k->ijk", w_a, w_b, w_c).ravel()


def _jacobi_rule(n: int, power: int) -> tuple[Array, Array]:
    """∫₀¹ f(s) (1 − s)^power ds = Σ w f(s), exact to degree 2n − 1."""
    x, w = roots_jacobi(n, power, 0)
    return (1 + x) / 2, w / 2 ** (power + 1)


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
        if np.abs(gap / extent).max() > SAME_PLACE or len(np.unique(lower)) != len(lower):
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
