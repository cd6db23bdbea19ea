"""Values between nodes: local polynomials, fitted around each corner of a mesh and blended.

    (R g)(x) = Σ_v λ_v(x) p_v(x),      p_v = argmin_p Σ_j ω_vj (p(x_j) − g_j)²,      deg p ≤ degree

v: corners of the cell that holds x; λ_v: their linear or multilinear shape functions, which sum to one; x_j: the nodes
nearest to v along the edges of the mesh, so that no polynomial reaches across a hole. R is a sparse matrix (points ×
nodes) that is exact on polynomials of the degree.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.errors import SpaceError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Nodes per coefficient of a local polynomial: with fewer some neighbourhoods do not determine it.
_SHARE = 2.0
# Nodes per coefficient beyond which a neighbourhood is given up.
_MOST = 12.0
# Width of the Gaussian weight, in units of the radius of the neighbourhood.
_WIDTH = 0.7
# Smallest over largest singular value below which a neighbourhood does not determine its polynomial.
_SINGULAR = 1e-4


def exponents(dim: int, degree: int) -> Integers:
    """Exponents of all monomials up to a degree, (m, dim)."""
    return np.array([e for e in product(range(degree + 1), repeat=dim) if sum(e) <= degree], dtype=np.int64)


def monomials(offsets: Array, powers: Integers) -> Array:
    """Monomials at offsets (…, dim), (…, m)."""
    return np.asarray(np.prod(offsets[..., None, :] ** powers, axis=-1))


def _edges(n: int, cells: Integers) -> sparse.csr_array:
    """Nodes that share a cell, (n × n), itself among them."""
    per_cell = cells.shape[1]
    rows, columns = np.repeat(cells, per_cell, axis=1).ravel(), np.tile(cells, per_cell).ravel()
    edges = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    edges.data[:] = 1.0
    return edges


def neighbours(points: Array, edges: sparse.csr_array, at: Integers, count: int) -> Integers:
    """The ``count`` nodes nearest to each node ``at`` (n,), along the edges, itself first, (n, count)."""
    reach = edges[at]
    while (sizes := np.diff(reach.indptr)).min() < count:
        wider = reach @ edges
        wider.data[:] = 1.0
        if wider.nnz == reach.nnz:
            raise SpaceError(f"a part of the domain has {sizes.min()} nodes; its polynomials need {count}.")
        reach = wider
    owner = np.repeat(np.arange(len(at)), sizes)
    distance = np.linalg.norm(points[reach.indices] - points[at[owner]], axis=1)
    order = np.lexsort((distance, owner))
    return np.asarray(reach.indices[order][reach.indptr[:-1, None] + np.arange(count)], dtype=np.int64)


def local_fits(points: Array, cells: Integers, at: Integers, powers: Integers) -> tuple[Integers, Array, Array]:
    """Polynomials around nodes ``at`` (n,).

    Returns neighbours (n, k), maps of their values to coefficients (n, m, k), and units of length (n,). At corners
    of the domain neighbours lie on one side, so that more of them are needed; others have zeros there.
    """
    edges = _edges(len(points), cells)
    count = int(np.ceil(_SHARE * len(powers))) + 1
    left, parts = np.arange(len(at)), []
    while left.size:
        if count > max(_MOST * len(powers), 1):
            raise SpaceError("some nodes lie so that they determine no polynomial; use a lower degree.")
        near = neighbours(points, edges, at[left], count)
        maps, size, good = _fitted(points, near, at[left], powers)
        parts.append((left[good], near[good], maps[good], size[good]))
        left, count = left[~good], int(1.5 * count)
    k = max(near.shape[1] for own, near, _, _ in parts if own.size)
    neighbour, fits, unit = np.zeros((len(at), k), np.int64), np.zeros((len(at), len(powers), k)), np.ones(len(at))
    for own, near, maps, size in parts:
        neighbour[own, : near.shape[1]], fits[own, :, : near.shape[1]], unit[own] = near, maps, size
    return neighbour, fits, unit


def _fitted(points: Array, near: Integers, at: Integers, powers: Integers) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Maps (n, m, k), units of length (n,), and whether the neighbours determine the polynomial."""
    offsets = points[near] - points[at][:, None]
    size = np.linalg.norm(offsets, axis=2).max(axis=1)
    offsets = offsets / size[:, None, None]
    weight = np.exp(-0.5 * np.sum(offsets**2, axis=2) / _WIDTH**2)
    u, values, v = np.linalg.svd(monomials(offsets, powers) * weight[..., None], full_matrices=False)
    good = values[:, -1] > _SINGULAR * values[:, 0]
    inverse = np.swapaxes(v, 1, 2) / np.where(good[:, None], values, 1.0)[:, None, :] @ np.swapaxes(u, 1, 2)
    return inverse * weight[:, None, :], size, good


def reconstruction(
    points: Array,
    cells: Integers,
    corners: int,
    shapes: Array,
    places: Array,
    degree: int,
    derivative: tuple[int, ...] | None = None,
) -> sparse.csr_array:
    """R (m·q × n), or its derivative, at q places in each of m cells.

    Parameters
    ----------
    points
        Nodes (n, dim).
    cells
        Nodes of each cell (m, …), its corners first, ``corners`` of them.
    shapes
        λ at the places (q, corners).
    places
        Coordinates (m, q, dim).
    """
    dim = points.shape[1]
    powers = exponents(dim, degree)
    used = np.unique(cells[:, :corners])
    near, fits, size = local_fits(points, cells, used, powers)
    number = np.empty(len(points), dtype=np.int64)
    number[used] = np.arange(len(used))
    own = number[cells[:, :corners]]  # (m, corners)
    m, q = places.shape[:2]
    total = np.zeros((m, q, corners, near.shape[1]))
    for c in range(corners):
        v = own[:, c]
        offset = (places - points[used[v]][:, None]) / size[v][:, None, None]
        values, unit = _derived(offset, powers, derivative), size[v]
        if derivative is not None:
            values = values / unit[:, None, None] ** sum(derivative)
        total[:, :, c] = shapes[None, :, c, None] * np.einsum("mqa,mak->mqk", values, fits[v])
    rows = np.broadcast_to(np.arange(m * q).reshape(m, q, 1, 1), total.shape)
    columns = np.broadcast_to(near[own][:, None], total.shape)
    return sparse.csr_array((total.ravel(), (rows.ravel(), columns.ravel())), shape=(m * q, len(points)))


def _derived(offsets: Array, powers: Integers, derivative: tuple[int, ...] | None) -> Array:
    """Monomials, or a derivative of them, at offsets (…, dim)."""
    if derivative is None:
        return monomials(offsets, powers)
    left = powers - np.array(derivative)
    factor = np.array(
        [np.prod([np.prod(np.arange(p, p - d, -1)) for p, d in zip(row, derivative, strict=True)]) for row in powers],
        dtype=float,
    )
    return np.where((left >= 0).all(axis=1), factor, 0.0) * monomials(offsets, np.maximum(left, 0))
