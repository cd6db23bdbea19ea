"""Which cell of a mesh a point lies in, and where in it.

    x = F_c(ξ) = Σ_i v_ci φ_i(ξ),    v_ci the vertices of cell c, φ_i linear (simplices) or linear per axis (boxes)

The faces of a hexahedron are not flat, so only inverting F_c tells on which side of one a point lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bvsi.errors import SpaceError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_MAX_NEWTON = 30
_CONVERGED = 1e-14
# How far outside a cell, in reference coordinates, a point may lie by rounding.
_SLACK = 1e-9


def locate(mesh: Any, points: Array) -> tuple[Integers, Array]:
    """Cell of each of ``points`` (n_p, dim), and reference coordinates ξ (dim, n_p); on a shared face either cell.

    Candidates are tried in the order of their centres' distance, and a cell does not reach further than the
    distance of its vertices: points that no cell in reach contains are refused.
    """
    vertices = mesh.p[:, mesh.t]
    extent = np.ptp(vertices, axis=1)
    unit = extent.mean(axis=1)  # makes cells that are long along one axis round
    centres = vertices.mean(axis=1)
    reach = np.linalg.norm((vertices - centres[:, None]) / unit[:, None, None], axis=0).max()
    slack = _SLACK + 8 * np.finfo(float).eps * np.abs(mesh.p).max() / extent.min()
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
        if hopeless.any():
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
