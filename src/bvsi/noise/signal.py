"""Noise that grows with the signal, counted or proportional: the scale of what filters leave, by size of the signal.

Several measurements of one experiment: their mean, and its noise from their scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import nnls
from scipy.special import fdtrc

from bvsi.common.arrays import Array, Mask
from bvsi.data.data import LONGEST, Data, Geometry
from bvsi.data.grid import Grid
from bvsi.data.mesh import Mesh
from bvsi.data.smoothness import SLAB, adjacency_of, along, shaped
from bvsi.errors import DataError, NoiseError
from bvsi.noise.level import (
    MAD,
    MAD_VARIANCE,
    MOST,
    NoiseLevel,
    after_filters,
    cleanest_filters,
    in_space,
    inflation,
    lattice_step,
    median_of,
    observed,
    times_last,
)
from bvsi.noise.models import Diagonal, Frames, StateCovariance
from bvsi.residual import Structure
from bvsi.residual.blur import Blur

_BIN, _MOST_BINS = 60, 40  # independent values per bin of signal strength, and the number of bins
_PARAMETER = 4.0  # deviance that a further coefficient has to explain: two standard deviations
_ALPHA = 0.01  # p-value below which noise is taken to grow with the signal: one false alarm in a hundred fields
_LEFT = 35 / 128  # part of the variance of white noise that the low-pass of one axis leaves
_ROUNDS = 4  # in which the spread of the signal inside a bin is taken off; the fit moves by 1e-3 in the third


@dataclass(frozen=True)
class SignalNoise:
    """Noise whose variance grows with the signal: ``Var(ε) = a² + b |u| + c² u²``.

    It is measured by :func:`estimate_signal_noise`, or stated: ``SignalNoise(b=1.0)`` for counts, ``SignalNoise(a=0.01,
    c=0.1)`` for noise of 10% of the signal above a floor. u is the smoothed signal, never the noisy value.

    Attributes
    ----------
    a
        Standard deviation where u = 0.
    b
        Variance per unit of the signal: 1 for counts, the gain of a camera.
    c
        Relative noise where u is large.
    p_value
        Probability of as strong an increase in noise of one level; zero where the law is stated.
    """

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0
    p_value: float = 0.0
    scale_known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not all(np.isfinite(v) and v >= 0 for v in (self.a, self.b, self.c)):
            raise NoiseError(f"a, b, c: numbers of at least zero are needed; got {self.a}, {self.b}, {self.c}.")

    @property
    def significant(self) -> bool:
        """Whether the noise grows with the signal, at the level of 1%."""
        return (self.b > 0 or self.c > 0) and self.p_value < _ALPHA

    def __str__(self) -> str:
        parts = [f"{self.a:.3g}²"] if self.a else []
        parts += [f"{self.b:.3g} |u|"] if self.b else []
        parts += [f"({self.c:.3g} u)²"] if self.c else []
        return " + ".join(parts) or "0"

    def variance(self, signal: Array) -> Array:
        """``a² + b |u| + c² u²``."""
        return np.asarray(self.a**2 + self.b * np.abs(signal) + self.c**2 * signal**2)

    def of(self, data: Data) -> dict[str, Array]:
        """The variance by field, (T, nodes), at the smoothed signal of the data.

        Where nothing is counted nearby the mean count is not zero for sure: it is at least the part of one count that
        smoothing keeps.
        """
        found = {}
        for name in data.names:
            signal, left = _signal(data, name)
            if self.b and (step := lattice_step(observed(data, name))):
                signal = np.maximum(signal, left * step)
            found[name] = self.variance(signal)
        return found

    def covariance(self, structure: Structure) -> StateCovariance:
        """Refused: the variance depends on the data."""
        del structure
        raise NoiseError(
            "noise: SignalNoise needs the data; state it in discover(), or the roots of .of(data) in Diagonal."
        )

    def at(self, frames: Frames, nodes: Mask | None = None) -> SignalNoise:
        """The same law everywhere."""
        del frames, nodes
        return self


def estimate_signal_noise(
    data: Data, level: NoiseLevel | None = None, *, blur: Blur | None = None
) -> dict[str, SignalNoise]:
    """Fit Var(ε) = a² + b |u| + c² u² to every field, and test b = c = 0.

    E f² = μ = a² + b s₁ + c² s₂ with s_p = Σ w² |u|^p, for data f after a filter with weights w; u is the denoised
    signal, of large data the local low-pass. With the low-pass bins beside peaks mix variances, of which a median shows
    less than the mean: noise of 10% of the signal in a plane was measured 5% too low in variance. The values f are put
    in bins of equal count by s₂; the squared robust scale v of f (mean μ / μ)^½ in a bin has about a gamma distribution
    of mean μ. Its likelihood is maximised over a², b, c² ≥ 0, and the likelihood ratio to b = c = 0 is tested, divided
    by the scatter of the bins where this is larger than expected. b and c are both used only where the data ask for
    both, and a beside the b of counts.
    Where values are multiples of a step, as counts are, a median has steps too, and v is the mean square; bins then
    have the same share of s₁, and so as many counts.

    Of more than half a million values every s-th time is used.

    Parameters
    ----------
    level
        Level of the same data, or of the same with outliers, by :func:`estimate_noise`; it saves the search for the
        filter that leaves the least signal.
    blur
        Kernels of noise that is not independent.
    """
    result = {}
    for name in data.fields:
        u = shaped(observed(data, name), data.geometry)
        found = "" if level is None else level.cleanest.get(name, "")
        filters = cleanest_filters(u, data.geometry, data.times, name, found, blur)
        f, stride = after_filters(u, filters)
        matrices = [k.K for k in filters]
        signal = None if _large(data) else shaped(_signal(data, name)[0], data.geometry)
        s1, s2 = (_strength(u, signal, data.geometry, matrices, stride, power) for power in (1, 2))
        result[name] = _fit(f.ravel(), s1, s2, inflation(filters), robust=lattice_step(u) is None)
    return result


def _strength(
    u: Array, signal: Array | None, geometry: Geometry, matrices: list[Any], stride: int, power: int
) -> Array:
    """s = Σ w² |u|^power of the signal under a filter, at every s-th time, flat, times last.

    Parameters
    ----------
    u
        (T, *shape).
    signal
        Of the same shape; None for the local low-pass of u.
    """
    in_time, *others = [K.power(2) for K in matrices]
    in_time, passes = in_time[::stride], _passes(u.shape, geometry)
    out = np.empty((in_time.shape[0], int(np.prod([K.shape[0] for K in others]))))
    step = max(1, SLAB // max(1, int(u[0].size)) // stride)
    for start in range(0, len(out), step):
        rows = in_time[start : start + step]
        first, last = int(rows.indices.min()), int(rows.indices.max()) + 1
        frames = slice(first, last)
        near = _smoothed_frames(u, passes, frames) if signal is None else signal[frames]
        part = along(rows[:, first:last], np.abs(near) ** power, 0)
        out[start : start + step] = np.moveaxis(in_space(others, times_last(part)), -1, 0).reshape(len(part), -1)
    return out.T.ravel()


def _large(data: Data) -> bool:
    """Whether denoising would take too long."""
    nodes = isinstance(data.geometry, Mesh) and data.n_nodes > LONGEST
    return nodes or len(data.times) * data.n_nodes > MOST


def _signal(data: Data, name: str) -> tuple[Array, float]:
    """The signal of a field (T, n), and the part of the variance of white noise that it has.

    From the smoothing of :mod:`bvsi.data.denoise`, which takes as much away as there is noise: the local low-pass makes
    low places next to high ones too high, and χ²/n of counts in a plane 4% too low. Large data have the low-pass.
    """
    u, geometry = observed(data, name), data.geometry
    large = _large(data)
    if large or not np.isfinite(u).all():
        low = smoothed(u, geometry)
        low = np.where(np.isfinite(low), low, data.fields[name])  # inside holes nothing is near
        if large:
            return low, _LEFT ** (1 + len(geometry.names))
        u = np.where(np.isfinite(u), u, low)
        data = replace(data, fields={name: u}, measured=None)
    smoother = data.smoothers[name]
    return smoother.smooth(u), smoother.left


def smoothed(values: Array, geometry: Geometry) -> Array:
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


def _smoothed_frames(u: Array, passes: list[Any], frames: slice) -> Array:
    """Low-pass of some frames of u (T, *shape); weights are shared among the values that are there."""
    in_time = passes[0][frames]
    first, last = int(in_time.indices.min()), int(in_time.indices.max()) + 1
    near, matrices = u[first:last], [in_time[:, first:last], *passes[1:]]
    present = np.isfinite(near)
    if present.all():
        return _apply(matrices, near)
    weight, total = _apply(matrices, present.astype(np.float64)), _apply(matrices, np.where(present, near, 0.0))
    return np.asarray(np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0))


def _apply(matrices: list[Any], u: Array) -> Array:
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


def _fit(f: Array, s1: Array, s2: Array, inflated: float, *, robust: bool) -> SignalNoise:
    """The law from filtered values f and the signal s₁, s₂ under the filter, all (m,).

    Parameters
    ----------
    robust
        Whether scales are medians, not mean squares.
    """
    known = np.isfinite(f) & np.isfinite(s1) & np.isfinite(s2)
    if not known.all():
        f, s1, s2 = f[known], s1[known], s2[known]
    # Independent values that the filtered ones are worth decide how many bins there can be.
    n_bins = int(np.clip(f.size * MAD_VARIANCE / inflated / _BIN, 3, _MOST_BINS))
    order = np.argsort(s2, kind="stable")  # bins of neighbours, by rising s₂
    f, s1, s2 = f[order], s1[order], s2[order]
    bins = _bins(s1, n_bins, robust)
    n_bins = len(bins)
    means = np.array([(1.0, s1[k].mean(), s2[k].mean()) for k in bins])
    shape = f.size / n_bins / (4.0 * inflated)  # Var(log v) = 4 Var(log median), gamma: 1 / shape
    v = np.array([_square(f[k], robust) for k in bins])
    if not np.any(v > 0) or np.ptp(means[:, 2]) <= 1e-12 * means[:, 2].max():
        return SignalNoise(float(np.sqrt(v.mean())), p_value=1.0)
    even = v.mean()
    none = _deviance(np.maximum(v, 1e-12 * v.max()), np.full(n_bins, even), shape)
    for _ in range(_ROUNDS if robust else 1):  # a mean square does not mind how the signal is spread
        v = np.maximum(v, 1e-12 * v.max())
        law = _law(v, means, shape, counts=not robust)
        mu = np.maximum(law[0] + law[1] * s1 + law[2] * s2, 1e-12 * v.max())
        v = np.array([_square(f[k] / np.sqrt(mu[k]), robust) * mu[k].mean() for k in bins]) if robust else v
    v = np.maximum(v, 1e-12 * v.max())
    deviance = _deviance(v, means @ law, shape)
    gain, freedom = none - deviance, n_bins - 2
    scatter = max(1.0, deviance / freedom)
    # a coefficient that is zero and cannot be negative is free in half of all cases, and there are two to choose from
    p_value = float(fdtrc(1, freedom, gain / scatter)) if gain > 0 else 1.0
    return SignalNoise(float(np.sqrt(law[0])), float(law[1]), float(np.sqrt(law[2])), p_value)


def _bins(s1: Array, n: int, robust: bool) -> list[slice]:
    """Values in n parts of equal count, or, for mean squares, with as much of s₁."""
    m = len(s1)
    if robust or not s1.any():
        ends = np.cumsum([m // n + (i < m % n) for i in range(n)])
    else:
        share = np.cumsum(s1)
        ends = np.append(np.searchsorted(share, share[-1] * np.arange(1, n) / n), m)
    return [slice(a, b) for a, b in pairwise([0, *ends.tolist()]) if b > a]


def _square(f: Array, robust: bool) -> float:
    """σ² of values (m,)."""
    return (median_of(np.abs(f)) / MAD) ** 2 if robust else float(f @ f) / f.size


def _law(v: Array, means: Array, shape: float, *, counts: bool) -> Array:
    """(a², b, c²) of the largest gamma likelihood of v, mean μ = means @ law; b beside c only where it helps.

    Counts need no a where nothing is counted. In a plane a made the variance there up to twice too large.
    """
    laws = [_gamma_fit(v, means, used) for used in ([0, 2], [0, 1], [0, 1, 2], *([[1]] if counts else []))]
    scores = [_deviance(v, means @ law, shape) + _PARAMETER * np.count_nonzero(law) for law in laws]
    return laws[int(np.argmin(scores))]


def _gamma_fit(v: Array, means: Array, used: list[int]) -> Array:
    """Coefficients ≥ 0 of some columns, zero elsewhere: scoring with weights 1/μ² from μ = v, halved until it helps.

    Whole steps from a flat law went back and forth where variances span three decades: the fit of a² + c² u² to noise
    of 5% above a low floor ended at c = 0.
    """
    columns, mu = means[:, used], np.maximum(v, 1e-12 * v.max())
    found = nnls(columns / mu[:, None], v / mu)[0]
    least = _deviance(v, columns @ found, 1.0)
    for _ in range(50):
        mu = np.maximum(columns @ found, 1e-12 * v.max())
        step = nnls(columns / mu[:, None], v / mu)[0] - found
        tried = [found + step / 2.0**k for k in range(8)]
        deviances = [_deviance(v, columns @ one, 1.0) for one in tried]
        best = int(np.argmin(deviances))
        if not deviances[best] < least - 1e-10 * abs(least):
            break
        found, least = tried[best], deviances[best]
    law = np.zeros(3)
    law[used] = found
    return law


def _deviance(v: Array, mu: Array, shape: float) -> float:
    """Twice the lack of gamma log-likelihood, 2 k Σ (v/μ − 1 − log v/μ)."""
    mu = np.maximum(mu, 1e-12 * v.max())
    return float(2.0 * shape * np.sum(v / mu - 1.0 - np.log(v / mu)))


def from_replicates(measurements: Sequence[Data]) -> tuple[Data, Diagonal]:
    """Mean of R measurements of the same experiment, and the noise of that mean, per field, node and time. ::

        û = Σ_r û_r / R,        Var(û) = ⟨Σ_r (û_r − û)² / (R − 1)⟩ / R

    ⟨·⟩ is a mean over neighbours in time and space, weights 1, 4, 6, 4, 1 along each: a scatter of few values says
    little by itself. Use it as ``data, noise = from_replicates([...]); discover(data, library, noise=noise)``.

    Parameters
    ----------
    measurements
        At least two, at the same times and nodes, complete.
    """
    first = _checked(measurements)
    mean, sigma = {}, {}
    for name in first.names:
        values = np.stack([one.fields[name] for one in measurements])
        mean[name] = values.mean(axis=0)
        variance = smoothed(values.var(axis=0, ddof=1), first.geometry) / len(values)
        if not variance.max() > 0:
            raise DataError(f"measurements: those of {name!r} are all the same; they are copies, not measurements.")
        sigma[name] = np.sqrt(np.maximum(variance, 1e-12 * variance.max()))
    return first.with_fields(mean), Diagonal(sigma)


def from_counts(measurements: Sequence[Data]) -> tuple[Data, SignalNoise]:
    """Mean of R counts of the same experiment, and the law of its noise, Var(û) = b u. ::

        b = Σ Σ_r (û_r − û)² / (R − 1) / Σ û / R

    R b is the step of the counts times their overdispersion, which is one for Poisson's. Values may be counts, or
    counts per area: all fields have the same units.

    Parameters
    ----------
    measurements
        At least two, at the same times and nodes, complete and not negative.
    """
    first = _checked(measurements)
    values = np.stack([[one.fields[name] for name in first.names] for one in measurements])
    mean = values.mean(axis=0)
    if values.min() < 0 or not mean.max() > 0:
        raise DataError("measurements: counts are not negative, and not all zero; use from_replicates for others.")
    b = float(values.var(axis=0, ddof=1).sum() / mean.sum()) / len(values)
    if not b > 0:
        raise DataError("measurements: all are the same; they are copies, not measurements.")
    return first.with_fields(dict(zip(first.names, mean, strict=True))), SignalNoise(b=b)


def _checked(measurements: Sequence[Data]) -> Data:
    """The first of several measurements of one experiment; others that do not fit are refused."""
    if len(measurements) < 2:
        raise DataError("measurements: at least two are needed; one alone has no scatter. Leave noise= out instead.")
    first = measurements[0]
    for other in measurements[1:]:
        same = other.names == first.names and np.array_equal(other.times, first.times)
        if not same or not np.array_equal(other.geometry.points, first.geometry.points):
            raise DataError(
                "measurements: all need the same fields, times and nodes; give others to discover one by one."
            )
    if any(one.measured is not None for one in measurements):
        raise DataError("measurements: values are missing; fill them, or give the measurements to discover one by one.")
    return first
