"""What neighbours in space and time predict for a value, and by how much they may miss; at some places of a field only.

    û_i = Σ_j P_ij u_j,  P_ij = −G_ij / G_ii,  G = DᵀD        r_i = u_i − û_i        q_i = σ² Σ_j P_ij² + e_i²

per axis, D second differences. Residuals r are computed for a few frames at a time; errors q, which need many residuals
each, only where a residual is too large for noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers, Mask
from bvsi.data._arrays import release
from bvsi.data.data import Geometry
from bvsi.data.smoothness import PaddedRows, Roughness, along, flat_strides, frames_at_once, padded, second_differences

_NEIGHBOURHOOD = 2.0  # the prediction may miss by this times what it misses at a typical neighbour
_NOISY = 2.0  # sd by which it may miss there, and axes contradict each other, by noise alone
_STRAIGHT = 1e-3  # a prediction with less bend than this is cubic
_ENTRIES = 200_000  # residuals gathered at a time
_CROWDED = 1.5  # relative cost of gathering one residual at a scattered place instead of in a batch
_ROUNDED = 1e-9  # by which bounds are widened, so that rounding loses no candidate


@dataclass(frozen=True)
class Near:
    """For each of n nodes the K entries of an array that say something about it, and how much of its residual they
    contain.

    Attributes
    ----------
    index
        Places of the entries, (n, K).
    share
        What to take off each entry per unit of the residual of the node, (n, K).
    used
        Which places count, (n, K).
    """

    index: Integers
    share: Array
    used: Mask


@dataclass(frozen=True)
class Predictor(Roughness):
    """Roughness ‖D u‖² of data along one axis of n nodes, and the prediction of a node that minimises it.

    Attributes
    ----------
    D
        Second differences, on a mesh the graph filter, sparse (m, n).
    P
        Prediction of each node by the others, û_i = Σ_j P_ij u_j with P_ij = −G_ij / G_ii, sparse (n, n).
    second, rough
        Rows of D, and of G = DᵀD.
    spread
        Σ_j P_ij², (n,); infinite where there is no prediction.
    bend
        |Σ_k D_ki| / G_ii, (n,): by how much the prediction misses where D u is one everywhere nearby.
    neighbours
        Residuals of the nodes that node i helps to predict.
    differences
        Entries of D u around node i.
    A, average
        Mean over a node and its neighbours, sparse (n, n), and its rows.
    """

    P: Any
    second: PaddedRows
    spread: Array
    bend: Array
    neighbours: Near
    differences: Near
    A: Any
    average: PaddedRows


@dataclass(frozen=True)
class Predicted:
    """Predictions of some values by all axes together.

    Attributes
    ----------
    index
        Flat indices of the values, (c,), increasing.
    prediction
        (c,).
    sd
        Standard deviation of value minus prediction, (c,).
    """

    index: Integers
    prediction: Array
    sd: Array


@dataclass(frozen=True)
class _Window:
    """Residuals of some frames, and places in them.

    Attributes
    ----------
    first
        Number of the first frame.
    u
        All values, (T, *shape).
    residuals
        Residuals by axis, (frames, *shape).
    """

    first: int
    u: Array
    residuals: list[Array]


def axes_of(geometry: Geometry, times: Array) -> list[Predictor]:
    """Time first, then the axes of the grid, or the mesh as one axis."""
    return [_axis(D) for D in second_differences(geometry, times)]


def _axis(D: Any) -> Predictor:
    """Prediction that follows from the differences D."""
    G = (D.T @ D).tocsr()
    g = G.diagonal()
    # A prediction uses up to three differences: with fewer none is left to show how good it is.
    known = (g > 1e-12) & (D.shape[0] >= 3)
    inverse = np.where(known, 1.0 / np.where(known, g, 1.0), 0.0)
    P = (sparse.diags_array(-inverse) @ (G - sparse.diags_array(g))).tocsr()
    P.eliminate_zeros()
    near = sparse.csr_array(G != 0, dtype=np.float64)
    A = (sparse.diags_array(1.0 / np.maximum(near.sum(axis=1), 1.0)) @ near).tocsr()
    return Predictor(
        D=D,
        P=P,
        second=padded(D),
        rough=padded(G),
        spread=np.where(known, P.power(2).sum(axis=1), np.inf),
        bend=np.abs(D.sum(axis=0)) * inverse,
        neighbours=_near(-P.T, P.T),
        differences=_near(D.T, near @ D.T),
        A=A,
        average=padded(A),
    )


def _near(share: Any, pattern: Any) -> Near:
    """Entries that a sparse pattern (n, m) names for each node, with their share, sparse (n, m)."""
    marks = padded(sparse.csr_array(pattern != 0, dtype=np.float64))
    used = marks.values != 0
    rows = np.broadcast_to(np.arange(len(used))[:, None], used.shape)
    entries = share.tocsr()[rows.ravel(), marks.columns.ravel()]
    dense = np.asarray(entries.todense() if sparse.issparse(entries) else entries).reshape(used.shape)
    return Near(marks.columns, np.where(used, dense, 0.0), used)


def odd_values(u: Array, axes: list[Predictor], sigma: float, z: float, always: Integers) -> Predicted:
    """Predictions where the value, or one of ``always``, may be off by more than z sd; others are off by less.

    The prediction is a mean of those by the axes, and sd² ≥ σ² (1 + 1 / Σ_a 1/s_a), s_a = Σ P²: where no axis is off by
    z times that, the mean is not.

    Parameters
    ----------
    u
        Complete values, (T, *shape), contiguous.
    sigma
        Noise.
    always
        Flat indices, increasing.
    """
    largest = sum(float(np.max(1.0 / axis.spread, initial=0.0)) for axis in axes)
    limit = (1.0 - _ROUNDED) * z * sigma * float(np.sqrt(1.0 + 1.0 / largest)) if largest > 0 else np.inf
    step = frames_at_once(u)
    parts = []
    for start in range(0, len(u), step):
        parts.append(_odd_in(u, axes, sigma, limit, always, start, min(start + step, len(u))))
        release(u)
    return Predicted(
        np.concatenate([p.index for p in parts]),
        np.concatenate([p.prediction for p in parts]),
        np.concatenate([p.sd for p in parts]),
    )


def _odd_in(
    u: Array, axes: list[Predictor], sigma: float, limit: float, always: Integers, start: int, stop: int
) -> Predicted:
    """Predictions in some frames where an axis is off by more than the limit, and at ``always``."""
    near = axes[0].neighbours  # of the frames: how many away the residuals are that are looked at
    halo = int(np.abs(near.index - np.arange(len(u))[:, None]).max(initial=0, where=near.used))
    nodes = u[0].size
    first, last = max(0, start - halo), min(stop + halo, len(u))
    some = u[first:last]
    predicted = (along(axis.P, some, n) if n else along(axis.P[first:last], u, 0) for n, axis in enumerate(axes))
    residuals = [np.subtract(some, p, out=np.empty_like(some)) for p in predicted]
    odd = np.zeros(u[start:stop].shape, dtype=bool)
    for r in residuals:
        odd |= np.abs(r[start - first : stop - first]) > limit
    low, high = np.searchsorted(always, (start * nodes, stop * nodes))
    odd.ravel()[always[low:high] - start * nodes] = True
    return _predicted(_Window(first, u, residuals), axes, sigma, np.flatnonzero(odd) + start * nodes)


def _predicted(window: _Window, axes: list[Predictor], sigma: float, index: Integers) -> Predicted:
    """Predictions at flat indices (c,), all in frames whose neighbours are in the window."""
    u = window.u
    at = list(np.unravel_index(index, u.shape))
    here, own = index - window.first * u[0].size, u.ravel()[index]
    predictions = np.stack([own - r.ravel()[here] for r in window.residuals])
    missed = [_missed(window, axes, number, at, here) for number in range(u.ndim)]
    weights = np.stack([1.0 / _squared_error(a, e, i, sigma) for a, e, i in zip(axes, missed, at, strict=True)])
    precision = weights.sum(axis=0)
    known = precision > 0
    precision = np.where(known, precision, 1.0)
    prediction = np.where(known, (weights * predictions).sum(axis=0) / precision, own)
    # Axes that contradict each other beyond their errors do not know better than their disagreement.
    contradiction = (weights * (predictions - prediction) ** 2).sum(axis=0) / max(1, u.ndim - 1)
    sd = np.sqrt(sigma**2 + np.maximum(1.0, contradiction / _NOISY**2) / precision)
    return Predicted(index, prediction, sd)


def _squared_error(axis: Predictor, missed: Array, node: Integers, sigma: float) -> Array:
    """q = σ² Σ P² + e² of the prediction along one axis, (c,); e² is what the square missed, (c,), is beyond noise."""
    spread = axis.spread[node]
    excess = np.maximum(_NEIGHBOURHOOD**2 * missed - _NOISY**2 * (1.0 + spread) * sigma**2, 0.0)
    return np.asarray(np.maximum(sigma**2 * spread + excess, np.finfo(float).tiny))


def _missed(window: _Window, axes: list[Predictor], number: int, at: list[Integers], here: Integers) -> Array:
    """Square that predictions along one axis typically miss, averaged over the neighbours on other axes, (c,).

    Without the average it is small by accident where the residual changes sign.

    Parameters
    ----------
    at
        Indices along the axes, (c,) each.
    here
        Flat indices in the window, (c,).
    """
    axis = axes[number]
    lines = int(np.prod([a.average.columns.shape[1] for a in axes])) // axis.average.columns.shape[1]
    if _CROWDED * lines * here.size > window.residuals[number].size:
        return np.asarray(_missed_everywhere(window, axes, number).ravel()[here])
    step = max(1, _ENTRIES // (lines * axis.neighbours.index.shape[1]))
    missed = np.empty(here.size)
    for start in range(0, here.size, step):
        part = slice(start, start + step)
        shift, weight = _lines(axes, number, [i[part] for i in at], window.u.shape)
        square = _missed_at(window, axis, number, at[number][part], here[part, None] + shift)
        missed[part] = np.einsum("cl,cl->c", weight, square)
    return missed


def _missed_at(window: _Window, axis: Predictor, number: int, node: Integers, lines: Integers) -> Array:
    """Square that predictions typically miss at flat indices in the window (c, L), nodes (c,) of the axis; (c, L)."""
    residual, stride = window.residuals[number].ravel(), flat_strides(window.u.shape)[number]
    own = residual[lines]
    near = _shifts(axis.neighbours.index[node] - node[:, None], axis.neighbours.used[node], stride)
    missed = _typical(residual[lines + near], own, axis.neighbours, node) ** 2
    bent = np.flatnonzero(axis.bend[node] > _STRAIGHT)
    if bent.size:
        missed[bent] += _missed_by_bend(window, axis, number, node[bent], lines[bent], own[bent])
    return missed


def _missed_everywhere(window: _Window, axes: list[Predictor], number: int) -> Array:
    """The mean of :func:`_missed` in the whole window, (frames, *shape); wrong in frames whose neighbours it lacks."""
    axis, residual = axes[number], window.residuals[number]
    first = window.first if number == 0 else 0
    own = np.moveaxis(residual, number, 0).reshape(residual.shape[number], -1)
    node = np.arange(first, first + len(own))
    near = np.clip(axis.neighbours.index[node].T - first, 0, len(own) - 1)
    bent = np.flatnonzero(axis.bend[node] > _STRAIGHT)
    places = np.moveaxis(np.arange(residual.size).reshape(residual.shape), number, 0).reshape(own.shape)
    missed = np.empty(own.shape)
    step = max(1, _ENTRIES // near.size)
    for start in range(0, own.shape[1], step):
        part = slice(start, start + step)
        missed[:, part] = _typical(own[:, part][near], own[:, part], axis.neighbours, node) ** 2
        if bent.size:
            missed[bent, part] += _missed_by_bend(window, axis, number, node[bent], places[bent, part], own[bent, part])
    mean = np.moveaxis(missed.reshape(np.moveaxis(residual, number, 0).shape), 0, number)
    frames = slice(window.first, window.first + len(residual))
    for other, a in enumerate(axes):
        if other != number:
            mean = along(a.A[frames, frames] if other == 0 else a.A, mean, other)
    return mean


def _missed_by_bend(
    window: _Window, axis: Predictor, number: int, node: Integers, lines: Integers, own: Array
) -> Array:
    """What second differences add where predictions are not cubic.

    Parameters
    ----------
    lines
        Flat indices in the window, all (c, L).
    """
    everywhere, stride = lines + window.first * window.u[0].size, flat_strides(window.u.shape)[number]
    differences = _differences(window.u.ravel(), everywhere, axis, node, stride)
    return np.asarray((axis.bend[node, None] * _typical(differences, own, axis.differences, node)) ** 2)


def _lines(axes: list[Predictor], number: int, at: list[Integers], shape: tuple[int, ...]) -> tuple[Integers, Array]:
    """Flat steps from c nodes to the neighbours on all axes but one, and their weights in the mean, both (c, L)."""
    c, strides = at[0].size, flat_strides(shape)
    shift, weight = np.zeros((c, 1), dtype=np.int64), np.ones((c, 1))
    for other, i in enumerate(at):
        if other != number:
            mean = axes[other].average
            w = mean.values[i]
            step = _shifts(mean.columns[i] - i[:, None], w != 0, strides[other])
            shift = (shift[:, :, None] + step[:, :, 0].T[:, None, :]).reshape(c, -1)
            weight = (weight[:, :, None] * w[:, None, :]).reshape(c, -1)
    return shift, weight


def _shifts(steps: Integers, used: Mask, stride: np.int64) -> Integers:
    """Flat steps (K, c, 1) from steps along an axis (c, K), zero where there are none."""
    return np.where(used, steps * stride, 0).T[:, :, None]


def _differences(u: Array, lines: Integers, axis: Predictor, node: Integers, stride: np.int64) -> Array:
    """Entries of D u around nodes (c,), (K, c, L), on the lines through flat indices (c, L)."""
    rows = axis.differences.index[node].T
    columns, values = axis.second.columns[rows], axis.second.values[rows]
    out = np.zeros((len(rows), *lines.shape))
    for k in range(columns.shape[2]):
        step = np.where(values[:, :, k] != 0, (columns[:, :, k] - node) * stride, 0)
        out += values[:, :, k, None] * u[lines + step[:, :, None]]
    return out


def _typical(values: Array, residual: Array, near: Near, node: Integers) -> Array:
    """Lower median over k near node i of |v_k − share_ik r_i|: what v would be were node i as predicted; (c, L).

    Without the correction an outlier would excuse itself, as it spoils the prediction of its neighbours.

    Parameters
    ----------
    values
        v, (K, c, L).
    residual
        Value minus prediction, r, (c, L).
    node
        i, (c,).
    """
    used = near.used[node].T
    off = near.share[node].T[:, :, None] * residual
    np.abs(np.subtract(values, off, out=off), out=off)
    if not used.all():
        off[~used] = np.inf
    middle = np.maximum(used.sum(axis=0) - 1, 0) // 2
    if middle.max(initial=0) > 1 or len(off) < 2:
        off.sort(axis=0)
        typical = np.take_along_axis(off, middle[None, :, None], axis=0)[0]
    else:
        typical = _second_smallest(off)
        typical[middle == 0] = off[:, middle == 0].min(axis=0)
    typical[~used.any(axis=0)] = 0.0
    return np.asarray(typical)


def _second_smallest(values: Array) -> Array:
    """Along the first axis, (K, ...) with K ≥ 2."""
    smallest, second = np.minimum(values[0], values[1]), np.maximum(values[0], values[1])
    for v in values[2:]:
        np.minimum(second, np.maximum(smallest, v), out=second)
        np.minimum(smallest, v, out=smallest)
    return np.asarray(second)
