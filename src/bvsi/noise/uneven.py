"""Noise whose level varies over times and nodes, whatever the signal: a lamp that fades, a sensor worse than others.

    log σ(t, x) = c_0 + Σ_a Σ_k c_ak cos(π k s_a) + e_t + e_x,      k = 1 … K_a,   s_a ∈ [0, 1]

s_a is the place along time and each coordinate of space. The cosines are fitted to the data after the filter that
leaves the least signal, f with E |f| = √(2/π) σ, by the quasi-likelihood of a scale,

    L(c) = Σ_i log σ_i + |f_i| / (√(2/π) σ_i),

which is least at the true σ and does not mind a few outliers much. e_t and e_x are the levels of single frames and
nodes: what a filter along the other axes leaves there, as far as its scatter is more than chance.

The level is that of a median. Where tails are heavier than those of a normal law the variance is more than it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, polygamma

from bvsi.common.arrays import Array, Integers, Rng
from bvsi.data.data import Data
from bvsi.data.grid import Grid
from bvsi.data.smoothness import shaped
from bvsi.noise.level import (
    MAD,
    AxisFilter,
    NoiseLevel,
    after_filters,
    cleanest_filters,
    dithered,
    filters_along,
    inflation,
    lattice_step,
    median_of,
    observed,
)
from bvsi.residual.blur import Blur

_MEAN = float(np.sqrt(2 / np.pi))  # E |ε|, ε standard normal
_VARIANCE = np.pi / 2 - 1  # Var |ε| / (E |ε|)²
# Share of ρ² in Cov(|ε|, |ε'|)/Var |ε| of two normals with correlation ρ, (1/π)/(1 − 2/π); ρ⁴ has nearly all the rest.
_SQUARE_SHARE = 0.876
_COSINES = 8  # along an axis, the most: half of a period is then an eighth of it; not measured
_PARAMETER = 4.0  # deviance that one more cosine has to explain: two standard deviations
_CELLS = (24, 16, 8)  # along time and a line, an axis of a plane, and of a body, in which |f| is added up; not measured
_ALPHA = 0.01  # p-value below which noise is taken to be uneven
# Spread of log σ that matters: with less, weights are off by a tenth, and the variance of an estimate by a hundredth.
_LEAST = 0.1
_FAINTEST = 30.0  # σ is at least its RMS divided by this: without any noise values are rounded, or not measured
# Frames from which on noise is distinguished from signal place by place: with 5 and 7 frames filters left signal of 3
# of 24 Fisher fields that was taken for uneven noise, with 9 and 15 frames of none (seeds 556, 557).
_FEWEST = 8
_ROUNDED = 48.0  # times the variance of rounding, two steps of a lattice: less noise follows the signal; not measured
_STEPPED = 0.1  # squared step of a lattice over the variance up to which medians hardly have steps; not measured
_QUARTERED = 16  # frames or nodes from which on quarters of them are looked at
# Standard errors by which tails are heavier, and the part of it that each quarter has. Not measured.
_SURE, _SHARED = 4.0, 0.3
_KNOWN = 0.3  # relative variance of the level of one frame or node, up to which it is looked at; not measured
_STEPS, _DONE = 50, 1e-6  # of Newton's method, which takes about six, and the change of L that ends it
_HALVED = tuple(0.5**k for k in range(12))  # steps tried, until one helps
_LARGEST = 700.0  # power of e that is a number
_RIDGE = 1e-9  # relative, for cosines that cells hardly distinguish


@dataclass(frozen=True, eq=False)
class UnevenLevel:
    """Level of the noise of one field, by time and node.

    Attributes
    ----------
    sigma
        (T, nodes), or (1, nodes) where it does not depend on time.
    p_value
        Probability of as uneven a level in even noise.
    where
        Along what it varies, in words; empty where it does not, or not so much that it matters.
    """

    sigma: Array
    p_value: float
    where: tuple[str, ...]

    @property
    def significant(self) -> bool:
        """Whether the level varies, at the level of 1%, and so much that it matters."""
        return bool(self.where) and self.p_value < _ALPHA

    @property
    def spread(self) -> float:
        """Standard deviation of log σ."""
        return float(np.std(np.log(self.sigma)))

    def __str__(self) -> str:
        return f"from {self.sigma.min():.3g} to {self.sigma.max():.3g} over {' and '.join(self.where)}"


def estimate_uneven(
    data: Data,
    level: NoiseLevel,
    others: Mapping[str, Array] | None = None,
    *,
    blur: Blur | None = None,
    rng: Rng | None = None,
) -> dict[str, UnevenLevel]:
    """How uneven the noise of every field is; empty where frames are too few to tell it from signal.

    Parameters
    ----------
    level
        Of the fields that have noise, as if it were even.
    others
        Variance by another law, such as growth with the signal, by field, (T, nodes); noise that it explains as well is
        not uneven by itself.
    blur
        Kernels of noise that is not independent.
    rng
        For the noise that rounded values get while they are filtered, by default ``default_rng(0)``.
    """
    others, rng = others or {}, np.random.default_rng(0) if rng is None else rng
    if len(data.times) < _FEWEST:
        return {}
    return {name: _estimated(data, name, level, others.get(name), blur, rng) for name in level.sigma}


def _estimated(
    data: Data, name: str, level: NoiseLevel, other: Array | None, blur: Blur | None, rng: Rng
) -> UnevenLevel:
    """Cosines first, then single frames and nodes."""
    values, sigma = observed(data, name), level.sigma[name]
    step, even = lattice_step(values), np.full((1, data.n_nodes), sigma)
    if other is not None and step is not None:  # counts, which are that by nature
        return UnevenLevel(even, 1.0, ())
    rounding = 0.0 if step is None else step**2 / 12
    u = shaped(dithered(values, step, rng), data.geometry)

    def after(words: str) -> _Filtered:
        return _Filtered.of(u, cleanest_filters(u, data.geometry, data.times, name, words, blur))

    cleanest = after(level.cleanest.get(name, ""))
    waves = _Waves.of(cleanest, data)
    logs, p, parameters, where = list(waves.logs(data)), waves.p_value, float(sum(waves.counts)), waves.where(data)
    unsure = [np.zeros_like(log) for log in logs]
    # blurred noise is alike in neighbours, which the test does not count, and that of rounding follows the signal
    alone = blur is None and sigma**2 > _ROUNDED * rounding
    for axis, what in enumerate(("single frames", "single nodes")):
        filters = filters_along(u, data.geometry, data.times, sigma, time=axis == 1) if alone else None
        own = None if filters is None else _Single.of(_Filtered.of(u, filters), logs, axis)
        if own is not None and own.p_value < _ALPHA and own.spread > _LEAST:
            logs[axis], unsure[axis] = logs[axis] + own.log, own.unsure
            p, parameters, where = min(p, own.p_value), parameters + own.parameters, (*where, what)
    if not where:
        return UnevenLevel(even, p, where)
    shape = np.exp(logs[0][:, None] + logs[1])
    if other is not None:
        better = cleanest.lack(np.sqrt(other + rounding)) - cleanest.lack(shape)
        where = where if better > _PARAMETER * (parameters - 2) else ()
    precise = after(level.filters[name])  # the cleanest filter is also the one whose level is too low by chance
    size = precise.median(shape) * np.exp(unsure[0][:, None] + unsure[1])
    square = np.maximum(_not_faint(size * shape) ** 2 - rounding, rounding)
    return UnevenLevel(np.sqrt(square if np.ptp(logs[0]) else square[:1]), p, where)


def heavy_tails(data: Data, name: str, variance: Array, level: NoiseLevel, *, blur: Blur | None = None) -> float:
    """Var ε over what medians show of it, for noise with heavier tails than a normal one has; one elsewhere. ::

        t = ⟨f²/σ²⟩ / (median |f/σ| / 0.6745)²

    Filters keep the variance of independent values, not their median. Signal that they leave has tails as well, but
    not in each quarter of the times and nodes.

    Parameters
    ----------
    variance
        By medians, a number or (T, nodes).
    """
    values = observed(data, name)
    if (step := lattice_step(values)) is not None and step**2 > _STEPPED * np.mean(variance):
        return 1.0
    u = shaped(values, data.geometry)
    own = _Filtered.of(u, cleanest_filters(u, data.geometry, data.times, name, level.cleanest.get(name, ""), blur))
    q = own.scaled / own.at(np.sqrt(np.broadcast_to(variance, values.shape)))
    parts = [half for axis in (0, 1) if q.shape[axis] >= _QUARTERED for half in np.array_split(q, 4, axis)]
    whole, *each = (_tails(part) for part in (q, *parts))
    t, error = whole
    error *= float(np.sqrt(own.dispersion / _VARIANCE))
    sure = t > 1 + max(_SURE * error, _LEAST) and all(part > 1 + _SHARED * (t - 1) for part, _ in each)
    return t if sure else 1.0


def _tails(q: Array) -> tuple[float, float]:
    """t of values with a common scale, and its standard error were they independent."""
    q = q[np.isfinite(q)]
    middle = median_of(q.copy()) if q.size else 0.0
    if not middle > 0:
        return 1.0, np.inf
    square = np.square(q * MAD / middle)
    return float(square.mean()), float(square.std() / np.sqrt(q.size))


def _not_faint(sigma: Array) -> Array:
    """σ (T, nodes), where it is far below its root mean square raised to a part of that."""
    return np.asarray(np.maximum(sigma, np.sqrt(np.mean(np.square(sigma))) / _FAINTEST))


@dataclass(frozen=True, eq=False)
class _Filtered:
    """|f| √(π/2) of one field, and where it is.

    Attributes
    ----------
    scaled
        (T', m), NaN where something is missing.
    frames, nodes
        In the middle of the filter, (T',) and (m,).
    dispersion
        Relative variance of a mean, times the number of its values.
    inflation
        The same of a median.
    """

    scaled: Array
    frames: Integers
    nodes: Integers
    dispersion: float
    inflation: float

    @staticmethod
    def of(u: Array, filters: tuple[AxisFilter, ...]) -> _Filtered:
        """The values (T, *shape) after filters along time and space; of many every s-th time."""
        f, stride = after_filters(u, filters)
        in_time, *others = [k.K for k in filters]
        frames, *places = (np.asarray(abs(K).argmax(axis=1)).ravel() for K in (in_time[::stride], *others))
        nodes = np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), u.shape[1:]) if places else np.zeros(1)
        squares, fourths = (float(np.prod([getattr(k, p) for k in filters])) for p in ("squares", "fourths"))
        dispersion = _VARIANCE * (_SQUARE_SHARE * squares + (1 - _SQUARE_SHARE) * fourths)
        scaled = np.abs(f.reshape(-1, f.shape[-1]).T) / _MEAN
        return _Filtered(scaled, frames, np.asarray(nodes).ravel().astype(int), dispersion, inflation(filters))

    def at(self, sigma: Array) -> Array:
        """σ (T, nodes) in the middle of the filter."""
        return sigma[np.ix_(self.frames, self.nodes)]

    def median(self, sigma: Array) -> float:
        """Size of the noise in units of σ (T, nodes)."""
        f = self.scaled / self.at(sigma)
        return float(median_of(f[np.isfinite(f)]) * _MEAN / MAD)

    def lack(self, sigma: Array) -> float:
        """2 L where the size of σ (T, nodes) is free, in units of the chance difference by one parameter."""
        known, own = np.isfinite(self.scaled), self.at(_not_faint(sigma))
        f, own = self.scaled[known], own[known]
        return 2.0 * float(np.sum(np.log(own)) + f.size * np.log(np.mean(f / own))) / self.dispersion


def _places(data: Data) -> tuple[Array, Array]:
    """s along time, (T, 1), and each coordinate of space, (nodes, dims)."""
    if isinstance(data.geometry, Grid):
        shape = data.geometry.shape
        index = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0))
        space = index / np.maximum(np.array(shape) - 1.0, 1.0)
    else:
        points = data.geometry.points
        space = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    return np.linspace(0.0, 1.0, len(data.times))[:, None], space


def _cosines(s: Array, counts: tuple[int, ...]) -> Array:
    """cos(π k s_a), k = 1 … K_a, of places (m, axes): (m, Σ K_a)."""
    parts = [np.cos(np.pi * np.outer(column, np.arange(1, K + 1))) for column, K in zip(s.T, counts, strict=True)]
    return np.concatenate([np.zeros((len(s), 0)), *parts], axis=1)


@dataclass(frozen=True, eq=False)
class _Waves:
    """Cosines along all axes.

    Attributes
    ----------
    counts
        K_a, along time first.
    c
        (1 + Σ K_a,).
    """

    counts: tuple[int, ...]
    c: Array
    p_value: float

    @staticmethod
    def of(filtered: _Filtered, data: Data) -> _Waves:
        """Two more along the axis where they help most, while they explain more than chance."""
        cells = _Cells.of(filtered, data)
        counts, tried = (0,) * cells.s.shape[1], 0
        c, L = cells.fit(counts)
        even, chance = L, filtered.dispersion
        while True:
            wider = [(*counts[:a], K + 2, *counts[a + 1 :]) for a, K in enumerate(counts) if cells.most[a] >= K + 2]
            fits = [(*cells.fit(one)[::-1], one) for one in wider]
            tried += len(fits)
            chance = max(filtered.dispersion, cells.dispersion(c, counts))
            least = min(fits, key=lambda one: one[0]) if fits else None
            if least is None or 2 * (L - least[0]) < 2 * _PARAMETER * chance:
                break
            L, c, counts = least
        p = chdtrc(sum(counts), 2 * (even - L) / chance) * tried if any(counts) else 1.0
        return _Waves(counts, c, float(min(1.0, p)))

    def logs(self, data: Data) -> tuple[Array, Array]:
        """Parts of log σ along time, (T,), and in space, (nodes,), c_0 in the latter."""
        time, space = _places(data)
        K = self.counts[0]
        in_time = _cosines(time, self.counts[:1]) @ self.c[1 : 1 + K]
        return in_time, self.c[0] + _cosines(space, self.counts[1:]) @ self.c[1 + K :]

    def where(self, data: Data) -> tuple[str, ...]:
        """Names of the axes along which the level varies; none where it hardly does."""
        names = ("time", *data.geometry.names)
        spread = [float(np.std(log)) for log in self.logs(data)]
        return tuple(n for n, K in zip(names, self.counts, strict=True) if K) if math.hypot(*spread) > _LEAST else ()


@dataclass(frozen=True, eq=False)
class _Cells:
    """Sums of |f| √(π/2) over parts of time and space.

    Attributes
    ----------
    s
        Places, (cells, 1 + dims).
    n, total
        Number and sum of the values, (cells,); where they are all zero, their level would have no bound from below.
    most
        Cosines along each axis, the most.
    """

    s: Array
    n: Array
    total: Array
    most: tuple[int, ...]

    @staticmethod
    def of(filtered: _Filtered, data: Data) -> _Cells:
        """Cells of equal length along every axis."""
        time, space = (s[i] for s, i in zip(_places(data), (filtered.frames, filtered.nodes), strict=True))
        dims = space.shape[1]
        counts = [min(_CELLS[0], len(time)), *(_CELLS[min(dims, len(_CELLS)) - 1],) * dims]
        rows, columns = _labels(time, counts[:1]), _labels(space, counts[1:])
        values, size = filtered.scaled, int(np.prod(counts[1:]))
        label = (rows[:, None] * size + columns).ravel()
        known = np.isfinite(values).ravel()
        label, values = label[known], values.ravel()[known]
        n = np.bincount(label, minlength=counts[0] * size).astype(float)
        total = np.maximum(np.bincount(label, values, minlength=counts[0] * size), n * values.mean() / _FAINTEST)
        places = [np.repeat(_means(rows, s, counts[0]), size) for s in time.T]
        places += [np.tile(_means(columns, s, size), counts[0]) for s in space.T]
        used = n > 0
        most = tuple(min(_COSINES, len(np.unique(s[used])) // 2) for s in places)
        return _Cells(np.stack(places, axis=1)[used], n[used], total[used], most)

    def fit(self, counts: tuple[int, ...]) -> tuple[Array, float]:
        """c where L is least, and it; L is convex in c."""
        B = self._columns(counts)
        c = np.zeros(B.shape[1])
        c[0] = np.log(self.total.sum() / self.n.sum())
        L, ridge = self._lack(B @ c), _RIDGE * self.n.sum() * np.eye(len(c))
        for _ in range(_STEPS):
            r = self.total * np.exp(-(B @ c))
            step = np.linalg.solve((B.T * r) @ B + ridge, B.T @ (r - self.n))
            tries = ((self._lack(B @ (c + t * step)), t) for t in _HALVED)
            least, t = next((one for one in tries if one[0] < L), (L, 0.0))
            c, gain, L = c + t * step, L - least, least
            if gain < _DONE:
                break
        return c, L

    def dispersion(self, c: Array, counts: tuple[int, ...]) -> float:
        """Relative variance of a value by the scatter of the cells around the fit."""
        sigma = np.exp(self._columns(counts) @ c)
        return float(np.sum((self.total / sigma - self.n) ** 2 / self.n) / max(1, len(self.n) - len(c)))

    def _columns(self, counts: tuple[int, ...]) -> Array:
        return np.column_stack([np.ones(len(self.n)), _cosines(self.s, counts)])

    def _lack(self, log: Array) -> float:
        return float(self.n @ log + self.total @ np.exp(np.minimum(-log, _LARGEST)))


def _labels(s: Array, counts: list[int]) -> Integers:
    """Cell of each place (m, axes)."""
    index = [np.minimum((column * K).astype(int), K - 1) for column, K in zip(s.T, counts, strict=True)]
    return np.asarray(np.ravel_multi_index(index, counts) if index else np.zeros(len(s), dtype=int))


def _medians(f: Array, axis: int) -> Array:
    """Along an axis, without NaN; zero where there is nothing else."""
    known = np.asarray(np.isfinite(f).any(axis=axis))
    found = np.zeros(len(known))
    found[known] = np.nanmedian(np.compress(known, f, 1 - axis), axis=axis)
    return found


def _means(label: Integers, s: Array, cells: int) -> Array:
    """Mean place of each cell; zero where it is empty."""
    return np.asarray(np.bincount(label, s, minlength=cells) / np.maximum(np.bincount(label, minlength=cells), 1))


@dataclass(frozen=True, eq=False)
class _Single:
    """Levels e of single frames or nodes, r = exp(e) + chance of relative variance v, e ~ N(0, τ²). ::

        Σ (r_i − 1)²/v ~ κ χ²_{m/κ},   κ = 1 + 3 v,       ⟨e_i⟩ = b log r_i,   Var e_i = b v,   b = τ²/(τ² + v)

    Attributes
    ----------
    log
        ⟨e⟩, zero where nothing is known.
    unsure
        Var e: the mean of σ² is exp(2⟨e⟩ + 2 Var e).
    spread, parameters
        τ, and Σ b.
    """

    log: Array
    unsure: Array
    spread: float
    parameters: float
    p_value: float

    @staticmethod
    def of(filtered: _Filtered, logs: list[Array], axis: int) -> _Single:
        """From values after a filter along the other axis.

        Parameters
        ----------
        logs
            Parts of log σ that are known, along time and in space.
        axis
            0 for frames, 1 for nodes.
        """
        known = np.exp(logs[0][filtered.frames, None] + logs[1][filtered.nodes])
        f = filtered.scaled / known
        n = np.count_nonzero(np.isfinite(f), axis=1 - axis)
        v = filtered.inflation / np.maximum(n, 1)
        r = _medians(f, 1 - axis)
        used = (v < _KNOWN) & (r > np.median(r[n > 0]) / _FAINTEST)  # what stands still was not measured
        m = int(np.count_nonzero(used))
        e = np.zeros(len(logs[axis]))
        if m < 3:
            return _Single(e, e, 0.0, 0.0, 1.0)
        r, v = r[used] / np.average(r[used], weights=n[used]), v[used]
        kappa = 1 + 3 * float(v.mean())
        p = float(chdtrc((m - 1) / kappa, np.sum((r - 1) ** 2 / v) / kappa))
        log = np.log(r) - np.mean(np.log(r))
        tau2 = max(0.0, float(np.var(log) - np.mean(polygamma(1, 1 / v))))
        share = tau2 / (tau2 + v)
        unsure = np.full(len(e), tau2)
        place = (filtered.frames, filtered.nodes)[axis][used]
        e[place], unsure[place] = share * log, share * v
        return _Single(e, unsure, tau2**0.5, float(share.sum()), p)
