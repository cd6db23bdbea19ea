"""Outliers and missing values: what a value should be, judging by its neighbours in space and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import cg

from bvsi.data._arrays import Floats, frozen, read_only
from bvsi.data.data import Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.noise_level import NoiseLevel, along, difference_filter, field_noise, graph_filter
from bvsi.errors import DataError

_ORDINARY = 4.5  # |z| up to here is noise
_SWEEPS = 8
_SWEEPS_FOR_NOISE = 3  # later ones change the noise no more
_NEIGHBOURHOOD = 2.0  # the prediction may miss by this times what it misses at a typical neighbour
_NOISY = 2.0  # sd by which it may miss there, and axes contradict each other, by noise alone
_RULED = 3.0  # sd of value minus prediction, in units of the noise, that noise alone hardly reaches
_ROUNDING = 1e-5  # of the range of the values: numerical solutions miss smooth functions by as much
_ENTRIES = 20_000_000  # numbers held at a time when neighbours are compared
_STEPS = 2000
_STRAIGHT = 1e-3  # a prediction with less bend than this is cubic

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Outliers:
    """Values that their neighbours do not support, for each field, arrays (T, n_nodes).

    weights: 1 for ordinary values, less for outliers, 0 for missing ones.
    replaced: the values, drawn towards their prediction as far as the weight lacks.
    count: number of outliers.
    """

    weights: Mapping[str, Floats]
    replaced: Mapping[str, Floats]
    count: Mapping[str, int]


@dataclass(frozen=True)
class _Near:
    """For each of n nodes the K entries of an array that tell about it, and how much of its residual they contain.

    index: places of the entries, (n, K).
    share: what to take off each entry per unit of the residual of the node, (n, K).
    used: which places count, (n, K).
    """

    index: Integers
    share: Floats
    used: Flags


@dataclass(frozen=True)
class _Axis:
    """Roughness ‖D u‖² of data along one axis of n nodes, and the prediction of a node that minimises it.

    D: second differences, on a mesh the graph filter, sparse (m, n).
    G: DᵀD, sparse (n, n).
    P: prediction of each node by the others, û_i = Σ_j P_ij u_j with P_ij = −G_ij / G_ii, sparse (n, n).
    spread: Σ_j P_ij², (n,); infinite where there is no prediction.
    bend: |Σ_k D_ki| / G_ii, (n,): by how much the prediction misses where D u is one everywhere nearby.
    neighbours: residuals of the nodes that node i helps to predict.
    differences: entries of D u around node i.
    A: mean over a node and its neighbours, sparse (n, n).
    """

    D: Any
    G: Any
    P: Any
    spread: Floats
    bend: Floats
    neighbours: _Near
    differences: _Near
    A: Any


def find_outliers(data: Data, *, level: NoiseLevel | None = None, nu: float = 4.0) -> Outliers:
    """Weights w = min(1, (ν + z₀²) / (ν + z²)), z₀ = 4.5, of Student's t; z = (value − prediction) / sd.

    Each axis predicts a value as the one that makes the sum of squared second differences smallest, which is
    cubic interpolation of two neighbours on either side. The predictions are averaged with weights 1/q,
    q = σ² Σ P² + e², where e is twice what the same prediction misses at the neighbours (lower median, the value itself
    left out) beyond noise: at a front this is much, and nothing is flagged. sd² = σ² + 1 / Σ 1/q, the second part
    times χ²/4 of the axes where they disagree by more than 2 sd. In fronts, where signal rules sd, a value
    between its neighbours along every axis is ordinary. Outliers are left out of the predictions, and of σ, and the
    search is repeated until they stay the same. Axes of fewer than five nodes predict nothing.

    data: the data.
    level: noise of the fields; measured by :func:`~bvsi.data.estimate_noise` when left out.
    nu: degrees of freedom ν > 0; the smaller, the less weight have outliers.
    """
    if not (np.isfinite(nu) and nu > 0):
        raise DataError(f"nu is {nu!r}; give positive degrees of freedom, such as 4")
    lacking = [name for name in data.names if level is not None and name not in level.sigma]
    if lacking:
        raise DataError(f"level has no noise of field {lacking[0]!r}; use estimate_noise on the same data")
    sigmas = {name: None if level is None else level.sigma[name] for name in data.names}
    found = {
        n: outlier_weights(u, data.geometry, data.times, sigmas[n], nu)
        for n, u in ((n, data.observed(n)) for n in data.fields)
    }
    return Outliers(
        weights=read_only({name: frozen(w) for name, (w, _) in found.items()}),
        replaced=read_only({name: frozen(u) for name, (_, u) in found.items()}),
        count=read_only({name: int(np.sum((w > 0) & (w < 1))) for name, (w, _) in found.items()}),
    )


def outlier_weights(
    values: Floats, geometry: Geometry, times: Floats, sigma: float | None = None, nu: float = 4.0
) -> tuple[Floats, Floats]:
    """Weights and replaced values of one field, as in :func:`find_outliers`; NaN are missing and get weight 0.

    values: (T, n_nodes).
    sigma: noise; measured when None.
    """
    axes, shape = _axes(geometry, times), _shape(values, geometry)
    u = values.reshape(shape)
    missing = np.isnan(u)
    if missing.all():
        raise DataError("all values are missing (NaN); leave the field out")
    floor = _ROUNDING * float(np.nanmax(u) - np.nanmin(u))
    noise = 0.0 if sigma is None else sigma
    flagged = np.zeros(shape, dtype=bool)
    for sweep in range(_SWEEPS):
        kept = np.where(flagged, np.nan, u)
        if sigma is None and sweep < _SWEEPS_FOR_NOISE:
            noise = field_noise(kept.reshape(values.shape), geometry, times)
        clean = _filled(kept, axes)
        total = float(np.hypot(noise, floor))
        prediction, sd = _predict(clean, axes, total)
        # In a front, where signal rules the error of the predictions, only values beyond their neighbours are odd.
        usual = missing | ((sd > _RULED * total) & _between(u, clean, axes, _NOISY * total))
        z = np.divide(u - prediction, sd, out=np.zeros(shape), where=~usual & (sd > 0))
        before, flagged = flagged, np.abs(z) > _ORDINARY
        if np.array_equal(before, flagged):
            break
    weights = np.minimum(1.0, (nu + _ORDINARY**2) / (nu + z**2))
    replaced = np.where(missing, clean, np.where(flagged, weights * u + (1.0 - weights) * prediction, u))
    return np.where(missing, 0.0, weights).reshape(values.shape), replaced.reshape(values.shape)


def filled(values: Floats, geometry: Geometry, times: Floats) -> Floats:
    """Values with NaN replaced by those that minimise Σ_a λ_a ‖D_a u‖², D_a second differences along time and space.

    A single gap is filled by cubic interpolation along the axes; λ_a is one over the mean of (D_a u)², so that the
    axis along which the data are smoother counts more. Far from any data the values of the nearest nodes are kept.

    values: (T, n_nodes), with NaN; a copy is returned.
    """
    u = values.reshape(_shape(values, geometry))
    return _filled(u, _axes(geometry, times)).reshape(values.shape)


def _shape(values: Floats, geometry: Geometry) -> tuple[int, ...]:
    """Shape with one axis per grid axis: (T, *shape), on a mesh (T, n_nodes)."""
    return (len(values), *geometry.shape) if isinstance(geometry, Grid) else values.shape


def _axes(geometry: Geometry, times: Floats) -> list[_Axis]:
    """Time first, then the axes of the grid, or the mesh as one axis."""
    second = [difference_filter(times, min(2, times.size - 1))]
    if isinstance(geometry, Grid):
        for name, x in geometry.axes.items():
            second.append(difference_filter(x, min(2, x.size - 1), geometry.periods.get(name)))
    else:
        second.append(graph_filter(geometry))
    return [_axis(D) for D in second]


def _axis(D: Any) -> _Axis:
    """Prediction that follows from the differences D."""
    G = (D.T @ D).tocsr()
    g = G.diagonal()
    # A prediction uses up to three differences: with fewer none is left to tell how good it is.
    known = (g > 1e-12) & (D.shape[0] >= 3)
    inverse = np.where(known, 1.0 / np.where(known, g, 1.0), 0.0)
    P = (sparse.diags_array(-inverse) @ (G - sparse.diags_array(g))).tocsr()
    P.eliminate_zeros()
    near = sparse.csr_array(G != 0, dtype=np.float64)
    return _Axis(
        D=D,
        G=G,
        P=P,
        spread=np.where(known, P.power(2).sum(axis=1), np.inf),
        bend=np.abs(D.sum(axis=0)) * inverse,
        neighbours=_near(-P.T, P.T),
        differences=_near(D.T, near @ D.T),
        A=(sparse.diags_array(1.0 / np.maximum(near.sum(axis=1), 1.0)) @ near).tocsr(),
    )


def _near(share: Any, pattern: Any) -> _Near:
    """Entries that a sparse pattern (n, m) names for each node, with their share, sparse (n, m)."""
    marks = sparse.csr_array(pattern != 0, dtype=np.float64)
    index, used = _padded(marks)
    rows = np.broadcast_to(np.arange(marks.shape[0])[:, None], index.shape)
    return _Near(index, np.where(used != 0, _entries(share, rows, index), 0.0), used != 0)


def _entries(A: Any, rows: Integers, columns: Integers) -> Floats:
    """Entries of a sparse matrix at some places, zero where it has none."""
    values = A.tocsr()[rows.ravel(), columns.ravel()]
    return np.asarray(values.todense() if sparse.issparse(values) else values).reshape(rows.shape)


def _predict(u: Floats, axes: list[_Axis], sigma: float) -> tuple[Floats, Floats]:
    """Prediction of every value by its neighbours and the sd of (value − prediction), both as u."""
    predictions = np.stack([along(axis.P, u, number) for number, axis in enumerate(axes)])
    weights = np.stack([1.0 / _squared_error(u, axes, number, sigma) for number in range(u.ndim)])
    precision = weights.sum(axis=0)
    known = precision > 0
    precision = np.where(known, precision, 1.0)
    prediction = np.where(known, (weights * predictions).sum(axis=0) / precision, u)
    # Axes that contradict each other beyond their errors do not know better than their disagreement.
    contradiction = (weights * (predictions - prediction) ** 2).sum(axis=0) / max(1, u.ndim - 1)
    return prediction, np.sqrt(sigma**2 + np.maximum(1.0, contradiction / _NOISY**2) / precision)


def _between(values: Floats, u: Floats, axes: list[_Axis], margin: float) -> Flags:
    """Whether values lie between their neighbours in u along every axis, up to a margin, as in all fronts.

    At the end of an axis a front may just have come or gone, so that another axis is enough.
    """
    everywhere, anywhere = np.ones(u.shape, dtype=bool), np.zeros(u.shape, dtype=bool)
    for number, axis in enumerate(axes):
        v, w = np.moveaxis(u, number, 0), np.moveaxis(values, number, 0)
        index, used = axis.neighbours.index, axis.neighbours.used
        column = (-1, *(1,) * (v.ndim - 1))
        above, below = np.zeros(v.shape, dtype=bool), np.zeros(v.shape, dtype=bool)
        for k in range(index.shape[1]):
            there, known = v[index[:, k]], used[:, k].reshape(column)
            above |= known & (there >= w - margin)
            below |= known & (there <= w + margin)
        end = (2 * used.sum(axis=1) <= used.shape[1]).reshape(column)
        everywhere &= np.moveaxis(above & below | end, 0, number)
        anywhere |= np.moveaxis(above & below, 0, number)
    return everywhere & anywhere


def _squared_error(u: Floats, axes: list[_Axis], number: int, sigma: float) -> Floats:
    """q = σ² Σ P² + e² of the prediction along one axis, as u; e² is averaged over the neighbours on other axes.

    Without the average e is small by accident where the residual changes sign.
    """
    axis = axes[number]
    residual = u - along(axis.P, u, number)
    missed = _typical(residual, residual, axis.neighbours, number) ** 2
    if np.any(axis.bend > _STRAIGHT):
        bend = axis.bend.reshape(-1, *(1,) * (u.ndim - 1 - number))
        missed += (bend * _typical(along(axis.D, u, number), residual, axis.differences, number)) ** 2
    for other in range(u.ndim):
        if other != number:
            missed = along(axes[other].A, missed, other)
    spread = axis.spread.reshape(-1, *(1,) * (u.ndim - 1 - number))
    excess = np.maximum(_NEIGHBOURHOOD**2 * missed - _NOISY**2 * (1.0 + spread) * sigma**2, 0.0)
    return np.maximum(sigma**2 * spread + excess, np.finfo(float).tiny)


def _typical(values: Floats, residual: Floats, near: _Near, number: int) -> Floats:
    """Lower median over k near node i of |v_k − share_ik r_i|: what v would be were node i as predicted; as residual.

    Without the correction an outlier would excuse itself, as it spoils the prediction of its neighbours.

    values: v, along axis ``number`` as long as ``near`` says.
    residual: value minus prediction, r.
    """
    middle = np.maximum(near.used.sum(axis=1) - 1, 0) // 2
    r = np.moveaxis(residual, number, 0)
    flat_r = r.reshape(r.shape[0], -1)
    flat_v = np.moveaxis(values, number, 0).reshape(values.shape[number], -1)
    out = np.empty_like(flat_r)
    width = max(1, _ENTRIES // max(1, near.index.size))
    for start in range(0, flat_r.shape[1], width):
        part = slice(start, start + width)
        corrected = np.abs(flat_v[:, part][near.index] - near.share[:, :, None] * flat_r[:, None, part])
        corrected = np.sort(np.where(near.used[:, :, None], corrected, np.inf), axis=1)
        out[:, part] = np.take_along_axis(corrected, middle[:, None, None], axis=1)[:, 0]
    out[~near.used.any(axis=1)] = 0.0
    return np.moveaxis(out.reshape(r.shape), 0, number)


def _padded(A: Any) -> tuple[Integers, Floats]:
    """Columns and values of the rows of a sparse matrix, (n, K); short rows end with column 0, value 0."""
    A = A.tocsr()
    counts = np.diff(A.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(A.nnz) - A.indptr[row]
    columns = np.zeros((len(counts), max(1, counts.max(initial=0))), dtype=np.int64)
    values = np.zeros(columns.shape)
    columns[row, place] = A.indices
    values[row, place] = A.data
    return columns, values


def _filled(u: Floats, axes: list[_Axis]) -> Floats:
    """Minimise the roughness over the missing values of u, (T, *shape), starting from their nearest neighbours."""
    gaps = np.flatnonzero(np.isnan(u))
    if gaps.size == u.size:
        raise DataError("all values are missing (NaN); nothing to fill them from")
    if gaps.size == 0:
        return np.array(u)
    nodes, h = _roughness_rows(u, axes, gaps)
    start = _spread_into_gaps(u.ravel(), gaps, nodes)
    place = np.full(u.size, -1)
    place[gaps] = np.arange(gaps.size)
    row, column = np.broadcast_to(np.arange(gaps.size)[:, None], nodes.shape), place[nodes]
    inside = (column >= 0) & (h != 0)
    H = sparse.csr_array((h[inside], (row[inside], column[inside])), shape=(gaps.size, gaps.size))
    diagonal = np.maximum(H.diagonal(), np.finfo(float).tiny)
    # The slope at the start, solved for the change: directions that nothing determines keep the nearest values.
    terms = h * start[nodes]
    slope, rounding = terms.sum(axis=1), 1e-14 * float(np.linalg.norm(terms))
    change, _ = cg(H, -slope, rtol=1e-8, atol=rounding, maxiter=_STEPS, M=sparse.diags_array(1.0 / diagonal))
    start[gaps] += change
    return start.reshape(u.shape)


def _roughness_rows(u: Floats, axes: list[_Axis], gaps: Integers) -> tuple[Integers, Floats]:
    """Rows of H = Σ_a λ_a G_a for the missing values: flat indices of the nodes and entries, (gaps, K)."""
    strides = np.array(u.strides if u.flags.c_contiguous else np.empty(u.shape).strides) // u.itemsize
    index = np.unravel_index(gaps, u.shape)
    nodes, entries = [], []
    squares = [along(axis.D, u, number) ** 2 for number, axis in enumerate(axes)]
    rough = np.array([np.mean(s[np.isfinite(s)]) if np.isfinite(s).any() else -1.0 for s in squares])
    rough[rough < 0] = rough.max()
    # An axis without any roughness still leaves others a say; entries are one at most.
    rough = np.maximum(rough, 1e-6 * rough.max())
    weights = rough.min() / rough if rough.min() > 0 else np.ones(len(axes))
    for number, axis in enumerate(axes):
        columns, values = _padded(axis.G)
        here = index[number]
        nodes.append(gaps[:, None] + (columns[here] - here[:, None]) * strides[number])
        entries.append(values[here] * weights[number])
    return np.concatenate(nodes, axis=1), np.concatenate(entries, axis=1)


def _spread_into_gaps(flat: Floats, gaps: Integers, nodes: Integers) -> Floats:
    """Copy whose gaps hold the mean of the nodes next to them, layer by layer inwards; (n,) from (n,)."""
    out = np.array(flat)
    left = np.arange(gaps.size)
    while left.size:
        near = out[nodes[left]]
        known = np.isfinite(near)
        reached = known.any(axis=1)
        if not reached.any():
            out[gaps[left]] = np.nanmean(flat)
            break
        sums = np.where(known, near, 0.0).sum(axis=1)
        out[gaps[left[reached]]] = sums[reached] / known.sum(axis=1)[reached]
        left = left[~reached]
    return out
