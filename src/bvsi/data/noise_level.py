"""Noise of the data, measured from the data: what high-pass filters leave is noise, not signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.special import fdtrc

from bvsi.data._arrays import Floats, read_only
from bvsi.data.data import Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.errors import DataError

_ORDERS = (0, 1, 2, 3, 4, 6, 8)
_GRAPH_POWERS = (0, 1, 2, 3)
_MAD = 0.6744897501960817  # median of |ε|, ε standard normal
# n · Var(log MAD) of n independent normals, and the share of it that the correlation ρ of two values enters as ρ²;
# the rest enters with ρ⁴ and higher powers.
_MAD_VARIANCE, _MAD_SQUARE_SHARE = 1.3605, 0.3675
_FEWEST = 30  # fewer filtered values do not give a scale
_MOST = 1_000_000  # more filtered values than these only cost time
_ROWS_FOR_CORRELATION = 2000
_WITHIN = 2.0  # sampling errors within which two estimates are taken to agree
_BIN, _MOST_BINS = 60, 40  # independent values per bin of signal strength, and the number of bins
_ALPHA = 0.01


@dataclass(frozen=True)
class NoiseLevel:
    """Standard deviation σ of the noise of each field.

    sigma: σ by field. Of noise-free data it is what the filters leave of the signal; of a constant field 0.
    relative_error: standard error of σ, divided by σ, by field.
    filters: the filter used, in words, by field.
    """

    sigma: Mapping[str, float]
    relative_error: Mapping[str, float]
    filters: Mapping[str, str]


@dataclass(frozen=True)
class SignalNoise:
    """Noise whose variance grows with the signal: Var(ε) = a² + b² u².

    a: standard deviation where u = 0.
    b: relative noise where u is large.
    significant: whether b > 0 at the level of 1%.
    p_value: probability of as strong an increase where b = 0.
    """

    a: float
    b: float
    significant: bool
    p_value: float


@dataclass(frozen=True)
class AxisFilter:
    """High-pass filter along one axis: a sparse matrix K, (m, n), whose rows c have Σ c = 0 and Σ c² = 1.

    name: in words; empty for the identity.
    K: the matrix.
    squares, fourths: Σ_j ρ_ij² and Σ_j ρ_ij⁴ of the correlations ρ = K Kᵀ, mean over the rows i.
    """

    name: str
    K: Any
    squares: float
    fourths: float


@dataclass(frozen=True)
class _Estimate:
    """Robust scale of the data after one filter, and its relative standard error."""

    sigma: float
    error: float
    filters: tuple[AxisFilter, ...]

    @property
    def name(self) -> str:
        """The filter in words."""
        return " × ".join(f.name for f in self.filters if f.name)


def estimate_noise(data: Data) -> NoiseLevel:
    """Noise of every field: σ = median|f| / 0.6745, f the data after a filter that removes the signal.

    f = (D_t^q ⊗ D_x^p ⊗ …) û with normalised differences, Σ c = 0 and Σ c² = 1, so that white noise keeps its
    variance and signal only adds to it. The smallest σ over orders p, q (0 … 8) has the least signal but is too
    small by chance and has a large error. Therefore of all filters that agree with it within twice the larger
    standard error, the one with the smallest error is used. On meshes p counts passes of the graph filter
    (node minus the mean of its neighbours that reproduces linear functions).

    The noise is taken to be independent from value to value.

    data: at least about 40 values that vary in time or space.
    """
    banks = _filter_banks(data.geometry, data.times)
    chosen = {name: _choose(_estimates(_shaped(u, data.geometry), banks), name) for name, u in _observed(data).items()}
    return NoiseLevel(
        sigma=read_only({name: e.sigma for name, e in chosen.items()}),
        relative_error=read_only({name: e.error for name, e in chosen.items()}),
        filters=read_only({name: e.name for name, e in chosen.items()}),
    )


def _observed(data: Data) -> dict[str, Floats]:
    return {name: data.observed(name) for name in data.fields}


def field_noise(values: Floats, geometry: Geometry, times: Floats, name: str = "u") -> float:
    """σ of one field as in :func:`estimate_noise`; NaN are missing values.

    values: (T, n_nodes).
    name: of the field, for messages.
    """
    return _choose(_estimates(_shaped(values, geometry), _filter_banks(geometry, times)), name).sigma


def estimate_signal_noise(data: Data) -> dict[str, SignalNoise]:
    """Fit Var(ε) = a² + b² u² to every field, and test b > 0.

    E f² = a² + b² s with s = Σ c² u², for data f after a filter with weights c; u² is taken from
    :func:`smoothed_signal`. The values f are put in bins of equal count by s; the squared robust scale v of a bin
    has about a gamma distribution of mean a² + b² s. Its likelihood is maximised over a² ≥ 0, b² ≥ 0, and the
    likelihood ratio to b = 0 is tested, divided by the scatter of the bins where this is larger than expected.
    """
    banks = _filter_banks(data.geometry, data.times)
    smooth = smoothed_signal(data)
    result = {}
    for name, u in _observed(data).items():
        estimates = _estimates(_shaped(u, data.geometry), banks)
        _choose(estimates, name)
        cleanest = min(estimates, key=_upper)
        f = _apply([k.K for k in cleanest.filters], _shaped(u, data.geometry)).ravel()
        s = _apply([k.K.power(2) for k in cleanest.filters], _shaped(smooth[name] ** 2, data.geometry)).ravel()
        result[name] = _fit_signal_noise(f, s, _inflation(cleanest.filters))
    return result


def smoothed_signal(data: Data) -> dict[str, Floats]:
    """Local low-pass of every field, (T, n_nodes): binomial weights 1, 4, 6, 4, 1 along time and every grid axis.

    On meshes: node and neighbours with equal weights. At ends the weights that remain are scaled to the sum one.
    """
    return {name: smoothed(u, data.geometry) for name, u in _observed(data).items()}


def smoothed(values: Floats, geometry: Geometry) -> Floats:
    """Low-pass of one field as in :func:`smoothed_signal`; NaN count as missing, and are filled where a value is near.

    values: (T, n_nodes).
    """
    u = _shaped(values, geometry)
    periodic = (False, *(n in geometry.periods for n in geometry.names)) if isinstance(geometry, Grid) else (False,)
    passes = [_binomial(n, wraps) for n, wraps in zip(u.shape, periodic, strict=False)]
    if isinstance(geometry, Mesh):
        passes.append(_adjacency(geometry) + sparse.eye_array(geometry.n_nodes, format="csr"))
    present = np.isfinite(u)
    weight = _apply(passes, present.astype(np.float64))
    total = _apply(passes, np.where(present, u, 0.0))
    return np.divide(total, weight, out=np.full_like(total, np.nan), where=weight > 0).reshape(values.shape)


def difference_filter(x: Floats, order: int, period: float | None = None) -> Any:
    """Normalised divided differences c_k ∝ 1 / Π_{j≠k} (x_k − x_j) over ``order`` + 1 neighbouring nodes.

    They remove polynomials of degree < order. Sparse (m, n), rows with Σ c² = 1; m = n on a periodic axis,
    n − order otherwise.
    """
    n = x.size
    if order == 0:
        return sparse.eye_array(n, format="csr")
    rows = n if period is not None else n - order
    index = np.arange(rows)[:, None] + np.arange(order + 1)
    nodes = x[index] if period is None else x[index % n] + period * (index // n)
    gaps = (nodes[:, :, None] - nodes[:, None, :]) / ((nodes[:, -1] - nodes[:, 0]) / order)[:, None, None]
    gaps[:, np.arange(order + 1), np.arange(order + 1)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    return sparse.csr_array((c.ravel(), (np.repeat(np.arange(rows), order + 1), (index % n).ravel())), shape=(rows, n))


def graph_filter(mesh: Mesh) -> Any:
    """Node minus mean of its neighbours, u_i − Σ_j w_j u_j, with the smallest Σ w² that reproduces linear functions.

    w = A (AᵀA)⁻¹ e₀ for rows a_j = (1, x_j − x_i). Sparse (n, n), rows scaled to norm one; rows of nodes whose
    neighbours do not determine w are zero.
    """
    adjacency = _adjacency(mesh)
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


def along(K: Any, u: Floats, axis: int) -> Floats:
    """Apply a sparse matrix K (m, n) along one axis, of length n, of the array u; NaN spread as far as K reaches."""
    moved = np.moveaxis(u, axis, 0)
    out = K @ moved.reshape(moved.shape[0], -1)
    return np.moveaxis(out.reshape(-1, *moved.shape[1:]), 0, axis)


def _apply(matrices: list[Any], u: Floats) -> Floats:
    """Apply one matrix along each axis."""
    return reduce(lambda v, axis: along(matrices[axis], v, axis), range(len(matrices)), u)


def _shaped(values: Floats, geometry: Geometry) -> Floats:
    """Field with one axis per grid axis, (T, *shape); on a mesh as it is."""
    return values.reshape(-1, *geometry.shape) if isinstance(geometry, Grid) else values


def _adjacency(mesh: Mesh) -> Any:
    """Ones where two different nodes share a cell, sparse (n, n)."""
    m, k = mesh.cells.shape
    incidence = sparse.csr_array((np.ones(m * k), (np.repeat(np.arange(m), k), mesh.cells.ravel())))
    pattern = (incidence.T @ incidence).tocoo()
    off = pattern.row != pattern.col
    return sparse.csr_array((np.ones(off.sum()), (pattern.row[off], pattern.col[off])), shape=pattern.shape)


def _binomial(n: int, wraps: bool) -> Any:
    """Weights 1, 4, 6, 4, 1 along an axis, sparse (n, n); two passes of 1, 2, 1."""
    ends = (1.0, 1.0) if wraps else (0.0, 0.0)
    offsets, values = [-1, 0, 1, 1 - n, n - 1], [1.0, 2.0, 1.0, *ends]
    if n < 3:
        offsets, values = [-1, 0, 1], [1.0, 2.0, 1.0]
    once = sparse.diags_array(values, offsets=offsets, shape=(n, n)).tocsr()
    return once @ once


def _axis_filter(name: str, K: Any) -> AxisFilter:
    """Filter with the correlations of some of its rows."""
    rows = K[:: max(1, K.shape[0] // _ROWS_FOR_CORRELATION)]
    rho = rows @ K.T
    return AxisFilter(name, K, float(rho.power(2).sum() / rows.shape[0]), float(rho.power(4).sum() / rows.shape[0]))


def _difference_bank(name: str, x: Floats, period: float | None = None) -> list[AxisFilter]:
    """Differences of all orders along an axis, no longer than half of it; the last one again for higher orders."""
    longest = max(1, (x.size - 1) // 2)
    orders = [max(o for o in _ORDERS if o <= min(order, longest)) for order in _ORDERS]
    return [_axis_filter(f"D_{name}^{o}" if o else "", difference_filter(x, o, period)) for o in orders]


def _graph_bank(mesh: Mesh) -> list[AxisFilter]:
    """Powers of the graph filter; rows that vanish are left out."""
    once = graph_filter(mesh)
    bank = [_axis_filter("", sparse.eye_array(mesh.n_nodes, format="csr"))]
    K = bank[0].K
    for power in _GRAPH_POWERS[1:]:
        K = once @ K
        norm = np.sqrt(K.power(2).sum(axis=1))
        kept = np.flatnonzero(norm > 1e-8)
        if kept.size == 0:
            break
        K_unit = sparse.diags_array(1.0 / norm[kept]) @ K[kept]
        bank.append(_axis_filter(f"graph^{power}", K_unit.tocsr()))
    return bank


def _filter_banks(geometry: Geometry, times: Floats) -> list[tuple[AxisFilter, ...]]:
    """All combinations of a filter in time with one in space (the same order on all axes), but for the identity."""
    in_time = {f.name: f for f in _difference_bank("t", times)}
    if isinstance(geometry, Grid):
        axes = [_difference_bank(name, x, geometry.periods.get(name)) for name, x in geometry.axes.items()]
        in_space = list({tuple(f.name for f in group): group for group in zip(*axes, strict=True)}.values())
    else:
        in_space = [(f,) for f in _graph_bank(geometry)]
    return [(t, *s) for t in in_time.values() for s in in_space if t.name or any(f.name for f in s)]


def _inflation(filters: tuple[AxisFilter, ...]) -> float:
    """Variance of log median|f| times the number of values: correlated values count less."""
    squares = float(np.prod([f.squares for f in filters]))
    fourths = float(np.prod([f.fourths for f in filters]))
    return _MAD_VARIANCE * (_MAD_SQUARE_SHARE * squares + (1.0 - _MAD_SQUARE_SHARE) * fourths)


def _estimates(u: Floats, banks: list[tuple[AxisFilter, ...]]) -> list[_Estimate]:
    """Robust scale after every filter that leaves enough values; NaN are dropped, of much data every s-th time used.

    u: (T, *shape).
    """
    stride = max(1, u.size // _MOST)
    estimates, in_time, v = [], "", u[::stride]
    for filters in banks:
        if filters[0].name != in_time:  # filters come grouped by their part in time
            in_time, v = filters[0].name, along(filters[0].K[::stride], u, 0)
        f = reduce(lambda w, k: along(k[1].K, w, k[0]), enumerate(filters[1:], start=1), v)
        f = np.abs(f[np.isfinite(f)])
        if f.size >= _FEWEST:
            error = float(np.sqrt(_inflation(filters) / f.size))
            estimates.append(_Estimate(float(np.median(f)) / _MAD, error, filters))
    return estimates


def _upper(estimate: _Estimate) -> float:
    """Bound that σ hardly exceeds: signal left in the data only adds to the estimate."""
    return estimate.sigma * (1.0 + _WITHIN * estimate.error)


def _choose(estimates: list[_Estimate], name: str) -> _Estimate:
    """Most precise estimate among those that agree with the one of the lowest upper bound."""
    if not estimates:
        raise DataError(
            f"field {name!r} has too few values to measure its noise: no filter leaves {_FEWEST}; "
            "give more times or nodes, or state the noise yourself"
        )
    low = min(estimates, key=_upper)
    agree = [e for e in estimates if e.sigma - low.sigma <= _WITHIN * low.sigma * max(e.error, low.error)]
    return min(agree, key=lambda e: e.error)


def _fit_signal_noise(f: Floats, s: Floats, inflation: float) -> SignalNoise:
    """a, b and the test of b > 0 from filtered values f and the signal s = Σ c² u² under the filter, both (m,)."""
    known = np.isfinite(f) & np.isfinite(s)
    f, s = f[known], s[known]
    # Independent values that the filtered ones are worth decide how many bins there can be.
    n_bins = int(np.clip(f.size * _MAD_VARIANCE / inflation / _BIN, 3, _MOST_BINS))
    bins = np.array_split(np.argsort(s, kind="stable"), n_bins)
    v = np.array([(np.median(np.abs(f[k])) / _MAD) ** 2 for k in bins])
    mean_s = np.array([s[k].mean() for k in bins])
    shape = f.size / n_bins / (4.0 * inflation)  # Var(log v) = 4 Var(log median), gamma: 1 / shape
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
