"""Meshes through scattered points, and through some of the nodes of a mesh.

Delaunay simplices whose circumscribed ball is large lie where nothing was measured: outside, or in a hole. The ball
is empty; with n points at random in a volume V a ball of volume x V/n is empty with probability exp(−x).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.special import gamma

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.data.mesh import CELL_TYPES, Mesh
from bvsi.errors import DataError

# Volume of an empty ball, in volumes per point, from which on it is a hole, by dimension. At 18 one of 10⁶ simplices
# through random points is taken for one, exp(−x) times a polynomial of x. In 3D that would take a fifth of the hull of
# 300 points away, where simplices are flat, and their balls large.
_HOLE = {2: 18.0, 3: 80.0}
# Volume of a simplex over (longest edge)^dim below which it is flat: three points on a line up to rounding.
_FLAT = 1e-9
# Places and cells that are compared at a time, to bound memory; not measured.
_PAIRS = 1_000_000
# The volume per point and the simplices that count depend on each other; two rounds settle it in the tests.
_ROUNDS = 3


def mesh_through(points: ArrayLike, domain: ArrayLike | Mesh | None = None) -> tuple[Mesh, Mask]:
    """Simplices through scattered points, and which of the points have one.

    Parameters
    ----------
    points
        Places of sensors, (n, 2) or (n, 3).
    domain
        Where the equation holds: corners of a polygon in order (k, 2), or a mesh of triangles or tetrahedra. Simplices
        with their middle outside are left out. By default simplices across large gaps are.

    Returns
    -------
    tuple of Mesh and NDArray
        The mesh, and whether a point is one of its nodes, (n,); fields are taken at these, ``values[:, used]``.
    """
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] not in _HOLE:
        raise DataError(f"points: positions (n, 2) or (n, 3) are needed; got shape {points.shape}")
    cells, volume, ball = _delaunay(points)
    dim = points.shape[1]
    if domain is not None:
        kept = _inside(points[cells].mean(axis=1), domain)
        if not kept.any():
            raise DataError(f"domain: no mesh through the {len(points)} positions has a cell inside")
    else:
        kept = np.ones(len(cells), dtype=bool)
        for _ in range(_ROUNDS):
            kept = ball < _HOLE[dim] * volume[kept].sum() / np.unique(cells[kept]).size
            if not kept.any():
                raise DataError(f"the {len(points)} positions lie so far apart that no mesh joins them; give a mesh")
    cells = cells[kept]
    used = np.zeros(len(points), dtype=bool)
    used[cells] = True
    number = np.cumsum(used) - 1
    return Mesh(points[used], number[cells], "triangle" if dim == 2 else "tetra"), used


def _delaunay(points: Array) -> tuple[Integers, Array, Array]:
    """Simplices that are not flat (m, dim + 1), their volumes and those of the balls around them, (m,)."""
    from scipy.spatial import Delaunay, QhullError  # imports most of SciPy

    dim = points.shape[1]
    try:
        cells = np.asarray(Delaunay(points).simplices, dtype=np.int64)
    except (QhullError, ValueError) as error:
        raise DataError(
            f"the {len(points)} positions in {dim}D span no mesh (too few, or all on one line or plane); "
            "leave out the coordinate that does not vary"
        ) from error
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    size = np.abs(np.linalg.det(edges))  # dim! times the volume
    solid = size > _FLAT * np.linalg.norm(edges, axis=2).max(axis=1) ** dim
    cells, edges, volume = cells[solid], edges[solid], size[solid] / gamma(dim + 1)
    centre = np.linalg.solve(2 * edges, np.sum(edges**2, axis=2)[..., None])[..., 0]  # equally far from all corners
    return cells, volume, np.pi ** (dim / 2) / gamma(dim / 2 + 1) * np.sum(centre**2, axis=1) ** (dim / 2)


def _inside(places: Array, domain: ArrayLike | Mesh) -> Mask:
    """Whether places (n, dim) lie in a polygon, or in a cell of a mesh."""
    if isinstance(domain, Mesh):
        return _in_cells(places, domain)
    corners = np.asarray(domain, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise DataError(f"domain: three corners (x, y) of a polygon, or more, are needed; got shape {corners.shape}")
    if places.shape[1] != 2:
        raise DataError("domain: a polygon has no inside in 3D; give a mesh of tetrahedra")
    x, y = places.T
    crossed = np.zeros(len(places), dtype=bool)
    for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        spans = (y1 > y) != (y2 > y)
        crossed ^= spans & (x - x1 < (x2 - x1) * (y - y1) / np.where(spans, y2 - y1, 1.0))
    return crossed


def _in_cells(places: Array, mesh: Mesh) -> Mask:
    """Whether places (n, dim) lie in a simplex of a mesh: all barycentric coordinates are positive there."""
    dim = mesh.dim
    if mesh.vertices_per_cell != dim + 1 or places.shape[1] != dim:
        raise DataError(f"domain: a mesh of triangles or tetrahedra in {places.shape[1]}D is needed")
    corners = mesh.points[mesh.cells[:, : dim + 1]]
    inverse = np.linalg.inv(corners[:, 1:] - corners[:, :1])
    found = np.zeros(len(places), dtype=bool)
    step = max(1, _PAIRS // len(corners))
    for start in range(0, len(places), step):
        some = slice(start, start + step)
        b = np.einsum("nmd,mde->nme", places[some, None] - corners[:, 0], inverse)
        found[some] = np.any((b.min(axis=2) >= -_FLAT) & (b.sum(axis=2) <= 1 + _FLAT), axis=1)
    return found


def count_holes(mesh: Mesh) -> int:
    """Holes of a mesh of triangles: its parts less its Euler characteristic; in other dimensions none are counted."""
    if mesh.cell_type != "triangle":
        return 0
    pairs = np.sort(np.concatenate([mesh.cells[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))]), axis=1)
    edges = np.unique(pairs, axis=0)
    n = mesh.n_nodes
    graph = sparse.coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    parts = int(connected_components(graph, directed=False)[0])
    return parts - (n - len(edges) + len(mesh.cells))


def coarser(mesh: Mesh) -> tuple[Mesh, Mask] | None:
    """A mesh through some of the nodes of a mesh, and which, (n,).

    Of second-order cells these are the corners; else no two of them share a cell, and every other node shares one with
    one of them. None where too few are left.
    """
    kept = np.zeros(mesh.n_nodes, dtype=bool)
    if mesh.degree == 2:
        corners = mesh.cells[:, : mesh.vertices_per_cell]
        kept[corners] = True
        shape = next(name for name, cell in CELL_TYPES.items() if cell.vertices == CELL_TYPES[mesh.cell_type].vertices)
        return Mesh(mesh.points[kept], (np.cumsum(kept) - 1)[corners], shape), kept
    free = np.ones(mesh.n_nodes, dtype=bool)
    start, owners = _cells_of(mesh)
    for node in range(mesh.n_nodes):
        if free[node]:
            kept[node] = True
            free[mesh.cells[owners[start[node] : start[node + 1]]]] = False
    if mesh.dim == 1:
        order = np.flatnonzero(kept)[np.argsort(mesh.points[kept, 0])]
        number = np.cumsum(kept) - 1
        return Mesh(mesh.points[kept], np.stack([number[order[:-1]], number[order[1:]]], axis=1), "line"), kept
    try:
        coarse, used = mesh_through(mesh.points[kept])
    except DataError:
        return None
    kept[np.flatnonzero(kept)[~used]] = False
    return coarse, kept


def _cells_of(mesh: Mesh) -> tuple[Integers, Integers]:
    """Cells around each node: starts (n + 1,) into the list of cells."""
    nodes = mesh.cells.ravel()
    order = np.argsort(nodes, kind="stable")
    start = np.searchsorted(nodes[order], np.arange(mesh.n_nodes + 1))
    return start, order // mesh.cells.shape[1]
