"""Noise that grows with the signal, measured from the data: the scale of what filters leave, by size of the signal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.special import fdtrc

from bvsi.data._arrays import Floats
from bvsi.data.data import Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.smoothness import SLAB, adjacency_of, along, shaped
from bvsi.noise.level import (
    MAD,
    MAD_VARIANCE,
    MOST,
    NoiseLevel,
    cleanest_filters,
    in_space,
    inflation,
    median_of,
    observed,
    times_last,
)

_BIN, _MOST_BINS = 60, 40  # independent values per bin of signal strength, and the number of bins
_ALPHA = 0.01  # p-value below which noise is taken to grow with the signal: one false alarm in a hundred fields


@dataclass(frozen=True)
class SignalNoise:
    """Noise whose variance grows with the signal: Var(ε) = a² + b² u².

    Attributes
    ----------
    a
        Standard deviation where u = 0.
    b
        Relative noise where u is large.
    significant
        Whether b > 0 at the level of 1%.
    p_value
        Probability of as strong an increase where b = 0.
    """

    a: float
    b: float
    significant: bool
    p_value: float


def estimate_signal_noise(data: Data, level: NoiseLevel | None = None) -> dict[str, SignalNoise]:
    """Fit Var(ε) = a² + b² u² to every field, and test b > 0.

    E f² = a² + b² s with s = Σ c² u², for data f after a filter with weights c; u² is taken from
    :func:`smoothed`. The values f are put in bins of equal count by s; the squared robust scale v of a bin
    has about a gamma distribution of mean a² + b² s. Its likelihood is maximised over a² ≥ 0, b² ≥ 0, and the
    likelihood ratio to b = 0 is tested, divided by the scatter of the bins where this is larger than expected.

    Of more than a million values every s-th time is used.

    Parameters
    ----------
    level
        Level of the same data, or of the same with outliers, by :func:`estimate_noise`; it saves to look for the filter
        that leaves the least signal.
    """
    result = {}
    for name in data.fields:
        u = shaped(observed(data, name), data.geometry)
        found = "" if level is None else level.cleanest.get(name, "")
        filters = cleanest_filters(u, data.geometry, data.times, name, found)
        matrices, stride = [k.K for k in filters], max(1, u.size // MOST)
        f = in_space(matrices[1:], times_last(along(matrices[0][::stride], u, 0))).ravel()
        result[name] = _fit(f, _strength(u, data.geometry, matrices, stride), inflation(filters))
    return result


def _strength(u: Floats, geometry: Geometry, matrices: list[Any], stride: int) -> Floats:
    """s = Σ c² u² of the smoothed signal under a filter, at every s-th time, flat, times last.

    Parameters
    ----------
    u
        (T, *shape).
    """
    in_time, *others = [K.power(2) for K in matrices]
    in_time, passes = in_time[::stride], _passes(u.shape, geometry)
    out = np.empty((in_time.shape[0], int(np.prod([K.shape[0] for K in others]))))
    step = max(1, SLAB // max(1, int(u[0].size)) // stride)
    for start in range(0, len(out), step):
        rows = in_time[start : start + step]
        first, last = int(rows.indices.min()), int(rows.indices.max()) + 1
        signal = np.square(_smoothed_frames(u, passes, slice(first, last)))
        part = along(rows[:, first:last], signal, 0)
        out[start : start + step] = np.moveaxis(in_space(others, times_last(part)), -1, 0).reshape(len(part), -1)
    return out.T.ravel()


def smoothed(values: Floats, geometry: Geometry) -> Floats:
    """Local low-pass of one field (T, n_nodes): binomial weights 1, 4, 6, 4, 1 along time and every grid axis.

    On meshes: node and neighbours with equal weights. At ends the weights that remain are scaled to the sum one. NaN
    count as missing, and are filled where a value is near.
    """
    u = shaped(values, geometry)
    passes, out = _passes(u.shape, geometry), np.empty(u.shape)
    step = max(1, SLAB // max(1, int(u[0].size)))
    for start in range(0, len(u), step):
        out[start : start + step] = _smoothed_frames(u, passes, slice(start, start + step))
    return out.reshape(values.shape)


def _passes(shape: tuple[int, ...], geometry: Geometry) -> list[Any]:
    """Low-pass along time and space, sparse (n, n) each, rows of sum one."""
    periodic = (False, *(n in geometry.periods for n in geometry.names)) if isinstance(geometry, Grid) else (False,)
    passes = [_binomial(n, wraps) for n, wraps in zip(shape, periodic, strict=False)]
    if isinstance(geometry, Mesh):
        passes.append(adjacency_of(geometry) + sparse.eye_array(geometry.n_nodes, format="csr"))
    return [(sparse.diags_array(1.0 / K.sum(axis=1)) @ K).tocsr() for K in passes]


def _smoothed_frames(u: Floats, passes: list[Any], frames: slice) -> Floats:
    """Low-pass of some frames of u (T, *shape); weights are shared among the values that are there."""
    in_time = passes[0][frames]
    first, last = int(in_time.indices.min()), int(in_time.indices.max()) + 1
    near, matrices = u[first:last], [in_time[:, first:last], *passes[1:]]
    present = np.isfinite(near)
    if present.all():
        return _apply(matrices, near)
    weight, total = _apply(matrices, present.astype(np.float64)), _apply(matrices, np.where(present, near, 0.0))
    return np.asarray(np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0))


def _apply(matrices: list[Any], u: Floats) -> Floats:
    """Apply one matrix along each axis."""
    return reduce(lambda v, axis: along(matrices[axis], v, axis), range(len(matrices)), u)


def _binomial(n: int, wraps: bool) -> Any:
    """Weights 1, 4, 6, 4, 1 along an axis, sparse (n, n); two passes of 1, 2, 1."""
    ends = (1.0, 1.0) if wraps else (0.0, 0.0)
    offsets, values = [-1, 0, 1, 1 - n, n - 1], [1.0, 2.0, 1.0, *ends]
    if n < 3:
        offsets, values = [-1, 0, 1], [1.0, 2.0, 1.0]
    once = sparse.diags_array(values, offsets=offsets, shape=(n, n)).tocsr()
    return once @ once


def _fit(f: Floats, s: Floats, inflated: float) -> SignalNoise:
    """a, b and the test of b > 0 from filtered values f and the signal s = Σ c² u² under the filter, both (m,)."""
    known = np.isfinite(f) & np.isfinite(s)
    f, s = f[known], s[known]
    # Independent values that the filtered ones are worth decide how many bins there can be.
    n_bins = int(np.clip(f.size * MAD_VARIANCE / inflated / _BIN, 3, _MOST_BINS))
    bins = np.array_split(np.argsort(s, kind="stable"), n_bins)
    v = np.array([(median_of(np.abs(f[k])) / MAD) ** 2 for k in bins])
    mean_s = np.array([s[k].mean() for k in bins])
    shape = f.size / n_bins / (4.0 * inflated)  # Var(log v) = 4 Var(log median), gamma: 1 / shape
    if not np.any(v > 0) or np.ptp(mean_s) <= 1e-12 * mean_s.max():
        return SignalNoise(float(np.sqrt(v.mean())), 0.0, False, 1.0)
    v = np.maximum(v, 1e-12 * v.max())
    variance = _gamma_fit(v, mean_s)
    deviance = _deviance(v, variance[0] + variance[1] * mean_s, shape)
    gain = _deviance(v, np.full_like(v, v.mean()), shape) - deviance
    scatter = max(1.0, deviance / (n_bins - 2))
    p_value = 0.5 * float(fdtrc(1, n_bins - 2, gain / scatter)) if gain > 0 else 1.0
    a, b = np.sqrt(variance)
    return SignalNoise(float(a), float(b), p_value < _ALPHA, p_value)


def _gamma_fit(v: Floats, s: Floats) -> Floats:
    """(a², b²) ≥ 0 of the largest gamma likelihood of v, mean μ = a² + b² s: scoring with weights 1/μ²."""
    best = np.array([v.mean(), 0.0])
    for _ in range(50):
        mu = np.maximum(best[0] + best[1] * s, 1e-12 * v.max())
        new = _positive_least_squares(v / mu, np.stack([1.0 / mu, s / mu], axis=1))
        if np.allclose(new, best, rtol=1e-10, atol=0.0):
            break
        best = new
    return best


def _positive_least_squares(y: Floats, X: Floats) -> Floats:
    """Least squares y ≈ X θ with two coefficients θ ≥ 0: if one is negative the other is fitted alone."""
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    if np.all(theta >= 0):
        return np.asarray(theta)
    alone = np.maximum(X.T @ y / (X**2).sum(axis=0), 0.0)
    misfit = ((y[:, None] - X * alone) ** 2).sum(axis=0)
    keep = int(np.argmin(misfit))
    return np.where(np.arange(2) == keep, alone, 0.0)


def _deviance(v: Floats, mu: Floats, shape: float) -> float:
    """Twice the lack of gamma log-likelihood, 2 k Σ (v/μ − 1 − log v/μ)."""
    mu = np.maximum(mu, 1e-12 * v.max())
    return float(2.0 * shape * np.sum(v / mu - 1.0 - np.log(v / mu)))
