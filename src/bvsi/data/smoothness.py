"""Differences of data along their axes, and the smoothest values where some are missing.

û minimises Σ_a λ_a ‖D_a u‖²,  D_a: second differences along time, along an axis of the grid, or on the mesh's graph

Where known fields jump from one value to another: materials meet, sources begin.

Sums over nodes are integrals of smooth functions. Of a function that jumps they are off by half of a step or so, and
the nodes do not show by how much, so that test functions whose support holds a jump are left out. A field is of
materials where it has a few values only; a node is at a jump where a neighbour has another one. Jumps of other fields
are not looked for: on uneven nodes they cannot be distinguished from steep slopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.errors import DataError

if TYPE_CHECKING:
    from bvsi.data.data import Data

Geometry = Grid | Mesh

# Values of the frames that are handled together: bounds intermediate arrays to some 10 MB.
SLAB = 1_000_000
# Steps of conjugate gradients at most; the system is diagonally scaled, and usual gaps take some tens.
_STEPS = 200


def difference_filter(x: Array, order: int, period: float | None = None) -> Any:
    """Normalised divided differences c_k ∝ 1 / Π_{j≠k} (x_k − x_j) over ``order`` + 1 neighbouring nodes.

    They remove polynomials of degree < order. Sparse (m, n), rows with Σ c² = 1; m = n on a periodic axis,
    n − order otherwise.
    """
    if order == 0:
        return sparse.eye_array(x.size, format="csr")
    return difference_matrix(*difference_weights(x, order, period), x.size)


def difference_matrix(c: Array, index: Integers, n: int) -> Any:
    """Sparse (m, n) with weights c at nodes ``index``, both (m, K)."""
    rows = np.repeat(np.arange(len(c)), c.shape[1])
    return sparse.csr_array((c.ravel(), (rows, index.ravel())), shape=(len(c), n))


def difference_weights(x: Array, order: int, period: float | None) -> tuple[Array, Integers]:
    """Weights c and nodes of divided differences, both (m, order + 1)."""
    n = x.size
    rows = n if period is not None else n - order
    index = np.arange(rows)[:, None] + np.arange(order + 1)
    nodes = x[index] if period is None else x[index % n] + period * (index // n)
    gaps = (nodes[:, :, None] - nodes[:, None, :]) / ((nodes[:, -1] - nodes[:, 0]) / order)[:, None, None]
    gaps[:, np.arange(order + 1), np.arange(order + 1)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    return c, index % n


def graph_filter(mesh: Mesh) -> Any:
    """Node minus mean of its neighbours, u_i − Σ_j w_j u_j, with the smallest Σ w² that reproduces linear functions.

    w = A (AᵀA)⁻¹ e₀ for rows a_j = (1, x_j − x_i). Sparse (n, n), rows scaled to norm one; rows of nodes whose
    neighbours do not determine w are zero.
    """
    adjacency = adjacency_of(mesh)
    n, start = mesh.n_nodes, adjacency.indptr[:-1]
    i, j = np.repeat(np.arange(n), np.diff(adjacency.indptr)), adjacency.indices
    step = mesh.points[j] - mesh.points[i]
    h = np.sqrt(np.add.reduceat((step**2).sum(axis=1), start) / np.diff(adjacency.indptr))
    a = np.concatenate([np.ones((len(j), 1)), step / h[i, None]], axis=1)
    gram = np.add.reduceat(a[:, :, None] * a[:, None, :], start, axis=0)
    usable = np.linalg.eigvalsh(gram)[:, 0] > 1e-6
    gram[~usable] = np.eye(mesh.dim + 1)
    first = np.linalg.inv(gram)[:, 0]
    w = np.einsum("kd,kd->k", a, first[i]) * usable[i]
    norm = np.sqrt(1.0 + np.add.reduceat(w**2, start))
    off = sparse.csr_array((-w / norm[i], (i, j)), shape=(n, n))
    return (off + sparse.diags_array(usable / norm)).tocsr()


def along(K: Any, u: Array, axis: int) -> Array:
    """Apply a sparse matrix K (m, n) along one axis, of length n, of the array u; NaN spread as far as K reaches."""
    moved = np.moveaxis(u, axis, 0)
    out = K @ moved.reshape(moved.shape[0], -1)
    return np.moveaxis(out.reshape(-1, *moved.shape[1:]), 0, axis)


def shaped(values: Array, geometry: Geometry) -> Array:
    """Field with one axis per grid axis, (T, *shape); on a mesh as it is."""
    return values.reshape(-1, *geometry.shape) if isinstance(geometry, Grid) else values


def adjacency_of(mesh: Mesh) -> Any:
    """Ones where two different nodes share a cell, sparse (n, n)."""
    m, k = mesh.cells.shape
    incidence = sparse.csr_array((np.ones(m * k), (np.repeat(np.arange(m), k), mesh.cells.ravel())))
    pattern = (incidence.T @ incidence).tocoo()
    off = pattern.row != pattern.col
    return sparse.csr_array((np.ones(off.sum()), (pattern.row[off], pattern.col[off])), shape=pattern.shape)


@dataclass(frozen=True)
class PaddedRows:
    """PaddedRows of a sparse matrix with n rows: columns and values, (n, K); short rows end with column 0, value 0."""

    columns: Integers
    values: Array


def padded(A: Any) -> PaddedRows:
    """PaddedRows of a sparse matrix."""
    A = A.tocsr()
    counts = np.diff(A.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(A.nnz) - A.indptr[row]
    columns = np.zeros((len(counts), max(1, counts.max(initial=0))), dtype=np.int64)
    values = np.zeros(columns.shape)
    columns[row, place] = A.indices
    values[row, place] = A.data
    return PaddedRows(columns, values)


@dataclass(frozen=True)
class Roughness:
    """Roughness ‖D u‖² of data along one axis of n nodes.

    Attributes
    ----------
    D
        Second differences, on a mesh the graph filter, sparse (m, n).
    rough
        Rows of G = DᵀD.
    """

    D: Any
    rough: PaddedRows


def second_differences(geometry: Geometry, times: Array) -> list[Any]:
    """D of time first, then of the axes of the grid, or of the mesh as one axis; of one frame zero in time."""
    one = times.size == 1
    second = [sparse.csr_array((1, 1)) if one else difference_filter(times, min(2, times.size - 1))]
    if isinstance(geometry, Grid):
        for name, x in geometry.axes.items():
            second.append(difference_filter(x, min(2, x.size - 1), geometry.periods.get(name)))
    else:
        second.append(graph_filter(geometry))
    return second


def filled(values: Array, geometry: Geometry, times: Array) -> Array:
    """Values with NaN replaced by those that minimise Σ_a λ_a ‖D_a u‖², D_a second differences along time and space.

    A single gap is filled by cubic interpolation along the axes; λ_a is one over the mean of (D_a u)², so that the
    axis along which the data are smoother counts more. Far from any data the values of the nearest nodes are kept.

    Parameters
    ----------
    values
        (T, n_nodes), with NaN; a copy is returned.
    """
    u = shaped(np.array(values, order="C"), geometry)
    gaps = np.flatnonzero(np.isnan(u))
    if gaps.size == u.size:
        raise DataError("all values are missing (NaN); nothing to fill them from")
    fill(u, [Roughness(D, padded(D.T @ D)) for D in second_differences(geometry, times)], gaps)
    return u.reshape(values.shape)


def fill(u: Array, axes: Sequence[Roughness], gaps: Integers) -> None:
    """Minimise the roughness of u (T, *shape) over its NaN, at flat indices, starting from their nearest neighbours."""
    if gaps.size == 0:
        return
    from scipy.sparse.linalg import cg  # complete data do without

    nodes, h = _roughness_rows(u, axes, gaps)
    flat = u.ravel()
    _spread_into_gaps(flat, gaps, nodes)
    column = np.minimum(np.searchsorted(gaps, nodes), gaps.size - 1)
    row = np.broadcast_to(np.arange(gaps.size)[:, None], nodes.shape)
    inside = (gaps[column] == nodes) & (h != 0)
    H = sparse.csr_array((h[inside], (row[inside], column[inside])), shape=(gaps.size, gaps.size))
    diagonal = np.maximum(H.diagonal(), np.finfo(float).tiny)
    # The slope at the start, solved for the change: directions that nothing determines keep the nearest values.
    terms = h * flat[nodes]
    slope, rounding = terms.sum(axis=1), 1e-14 * float(np.linalg.norm(terms))
    change, _ = cg(H, -slope, rtol=1e-8, atol=rounding, maxiter=_STEPS, M=sparse.diags_array(1.0 / diagonal))
    flat[gaps] += change


def _roughness_rows(u: Array, axes: Sequence[Roughness], gaps: Integers) -> tuple[Integers, Array]:
    """PaddedRows of H = Σ_a λ_a G_a for the missing values: flat indices of the nodes and entries, (gaps, K)."""
    rough = np.array([_roughness(u, axis, number) for number, axis in enumerate(axes)])
    rough[rough < 0] = rough.max()
    # An axis without any roughness still leaves others a say; entries are one at most.
    rough = np.maximum(rough, 1e-6 * rough.max())
    weights = rough.min() / rough if rough.min() > 0 else np.ones(len(axes))
    nodes, entries = [], []
    for axis, here, stride, weight in zip(
        axes, np.unravel_index(gaps, u.shape), flat_strides(u.shape), weights, strict=True
    ):
        nodes.append(gaps[:, None] + (axis.rough.columns[here] - here[:, None]) * stride)
        entries.append(axis.rough.values[here] * weight)
    return np.concatenate(nodes, axis=1), np.concatenate(entries, axis=1)


def _roughness(u: Array, axis: Roughness, number: int) -> float:
    """Mean of (D u)² along an axis where no value is missing; −1 where one always is."""
    total, count = 0.0, 0
    for part in in_parts(axis.D, u, number):
        known = part[np.isfinite(part)]
        total, count = total + float(known @ known), count + known.size
    return total / count if count else -1.0


def _spread_into_gaps(flat: Array, gaps: Integers, nodes: Integers) -> None:
    """Fill NaN with the mean of the nodes next to them, layer by layer inwards.

    Parameters
    ----------
    flat
        (n,).
    """
    left = np.arange(gaps.size)
    while left.size:
        near = flat[nodes[left]]
        known = np.isfinite(near)
        reached = known.any(axis=1)
        if not reached.any():
            flat[gaps[left]] = np.nanmean(flat)
            break
        sums = np.where(known, near, 0.0).sum(axis=1)
        flat[gaps[left[reached]]] = sums[reached] / known.sum(axis=1)[reached]
        left = left[~reached]


def in_parts(K: Any, u: Array, axis: int) -> Iterator[Array]:
    """The array that a sparse matrix K makes of u (T, *shape) along one axis, some frames at a time."""
    step = frames_at_once(u)
    if axis == 0:
        yield from (along(K[start : start + step], u, 0) for start in range(0, K.shape[0], step))
    else:
        yield from (along(K, u[start : start + step], axis) for start in range(0, len(u), step))


def frames_at_once(u: Array) -> int:
    """Frames of u (T, *shape) that are handled together."""
    return max(4, SLAB // max(1, int(u[0].size)))


def flat_strides(shape: tuple[int, ...]) -> Integers:
    """Steps in the flat array along each axis."""
    return np.cumprod(np.array([1, *shape[:0:-1]], dtype=np.int64))[::-1]


# Values that a field of materials has at most, and nodes that each has at least on average; not measured.
_VALUES, _NODES = 10, 10
_SAMPLE = 200  # values that are looked at first


def jumps(data: Data, names: Iterable[str]) -> Mask | None:
    """Nodes at a jump of some of the known fields, (nodes,); None where there are none."""
    found = np.zeros(data.n_nodes, dtype=bool)
    for name in names:
        for values in np.atleast_2d(data.auxiliary[name]):
            found |= _at_jumps(values, data.geometry)
    return found if found.any() else None


def of_materials(values: Array) -> bool:
    """Whether values (nodes,) are a few only; the derivative of such a field is zero, but at jumps."""
    most = min(_VALUES, len(values) // _NODES)
    some = values[:: max(1, len(values) // _SAMPLE)]  # nearly always enough to decide, and quickly sorted
    return len(np.unique(some)) <= most and 1 < len(np.unique(values)) <= most


def _at_jumps(values: Array, geometry: Geometry) -> Mask:
    """Nodes at a jump of one field at one time, (nodes,)."""
    found = np.zeros(len(values), dtype=bool)
    if not of_materials(values):
        return found
    if not isinstance(geometry, Grid):
        near = adjacency_of(geometry).tocoo()
        found[near.row[values[near.row] != values[near.col]]] = True
        return found
    cube, found = values.reshape(geometry.shape), found.reshape(geometry.shape)
    for axis, name in enumerate(geometry.names):
        other = np.roll(cube, -1, axis) != cube
        if name not in geometry.periods:
            np.moveaxis(other, axis, 0)[-1] = False  # beyond the last node there is none
        found |= other | np.roll(other, 1, axis)
    return found.ravel()
