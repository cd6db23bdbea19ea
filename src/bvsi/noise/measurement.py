"""What the data say of their own noise: level, dependence on the signal, outliers.

    Var(ε) = σ_f²,  or  a_f² + b_f² u²  where the data show it,  divided by Student-t weights at outliers

Filters measure it before any fit; the fit then refines the level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.errors import DataError, NoiseError
from bvsi.noise import IID, Diagonal, Noise, NoiseLevel, PerField, UnknownScale, estimate_noise, estimate_signal_noise
from bvsi.noise.bridging import Bridged, bridge
from bvsi.noise.level import observed
from bvsi.noise.outliers import scattered_outliers
from bvsi.noise.signal import SignalNoise, smoothed
from bvsi.residual.widths import bandwidth, widest_band

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class NoiseLevels:
    """What decides how noise is measured.

    Parameters
    ----------
    rounding
        Data are not known better than to this part of their size, even without noise; not measured.
    no_noise
        Noise below this part of the size of a field is none; not measured.
    tail
        Share of values beyond which outliers are more than the tail of the noise.
    few
        Outliers that are not more than the tail in small data, whatever their share; not measured.
    far
        Weight below which a value is an outlier by itself: that of 10 sd, which none of 9 classic equations with 1 and
        10% of noise reaches.
    least
        Weight that an outlier has at least: what replaces it is a prediction, and this well known for sure.
    clear
        Part of ``tail`` up to which, with no weight below ``far`` over it, the first look at the data decides that they
        have no outliers: later ones take values off that were near an outlier, and it takes five of them. Not measured.
    """

    rounding: float = 1e-8
    no_noise: float = 1e-5
    tail: float = 2e-4
    few: int = 3
    far: float = 0.23
    least: float = 1e-3
    clear: float = 0.5


NOISE_LEVELS = NoiseLevels()


@dataclass(frozen=True, eq=False)
class Measurement:
    """One experiment with what is known of its noise.

    Attributes
    ----------
    data
        As given, outliers replaced.
    noise
        Its model.
    variance
        Variance of the noise by field, a number or (T, nodes).
    sigma
        One level per field.
    filtered
        The same by filters, whatever was stated, empty where they had too few data.
    error
        Relative standard error of the levels, zero where they were stated.
    summary
        What was done, in words.
    bridged
        Where gaps were interpolated, by field, (T, nodes): the noise of neighbours is alike there.
    growth
        How the noise of each field grows with the signal; None where that was not looked for, or not without gaps.
    """

    data: Data
    noise: Noise
    variance: dict[str, Array]
    sigma: dict[str, float]
    filtered: dict[str, float]
    error: float
    summary: str
    bridged: Mapping[str, Mask] = field(default_factory=dict)
    growth: Mapping[str, SignalNoise] | None = None

    @property
    def observed(self) -> Data:
        """The data without what was interpolated."""
        if not self.bridged:
            return self.data
        every = np.ones((len(self.data.times), self.data.n_nodes), dtype=bool)
        known = {f: every if self.data.measured is None else self.data.measured[f] for f in self.data.names}
        masks = {f: mask & ~self.bridged[f] if f in self.bridged else mask for f, mask in known.items()}
        return replace(self.data, measured=masks)

    @cached_property
    def band(self) -> dict[str, float] | None:
        """f_99 of the data by axis, in cycles per step; None on meshes."""
        return bandwidth(self.data, self.sigma) if isinstance(self.data.geometry, Grid) else None

    @property
    def noise_free(self) -> bool:
        """Whether the noise was measured, and there is none to speak of in any field."""
        if not self.error:
            return False
        return all(s < NOISE_LEVELS.no_noise * _size(self.data, f) for f, s in self.sigma.items())


def cycles_of(measured: Sequence[Measurement], *, steady: bool = False) -> dict[str, float] | None:
    """f_99 by axis, the highest over experiments; None where they are not all on grids.

    Parameters
    ----------
    steady
        Whether the time is left out: frames stand for themselves.
    """
    bands = [m.band for m in measured if m.band is not None]
    if len(bands) < len(measured):
        return None
    return {axis: f for axis, f in widest_band(bands).items() if not (steady and axis == "time")}


def measure(
    data: Data, noise: Noise | None, *, robust: bool | None = None, rng: np.random.Generator | None = None
) -> Measurement:
    """Noise of one experiment, as stated or from the data.

    Parameters
    ----------
    robust
        Whether outliers get less weight; by default where there are more than noise explains.
    rng
        For the values that are hidden to measure how well gaps are interpolated; each field starts from a copy.
    """
    level = _level(data)
    bridged = Bridged(data, {})
    if data.measured is not None:
        known = None if level is None else dict(level.sigma)
        bridged = bridge(data, known, np.random.default_rng(0) if rng is None else rng)
    gaps = {name: factor != 1 for name, factor in bridged.factor.items()}
    return replace(_measured(bridged, noise, level, robust), bridged=gaps)


def _measured(bridged: Bridged, noise: Noise | None, level: NoiseLevel | None, robust: bool | None) -> Measurement:
    """Noise of data whose scattered gaps are interpolated.

    Parameters
    ----------
    level
        Level by filters, from measured values alone.
    """
    data, single = bridged.data, bridged.factor
    if noise is not None and stated_variance(_shape(noise), data) is None:
        if robust:
            raise NoiseError("robust: outliers can be weighted down with IID, PerField and Diagonal noise only.")
        robust = False
    clean, weights, notes = _without_outliers(data, level, robust)
    if noise is not None:
        return _stated(clean, noise, level, {**weights, **_gap_weights(single, weights)}, notes)
    if level is None:
        rms = {f: _size(clean, f) for f in data.fields}
        return Measurement(
            clean, UnknownScale(), {}, rms, {}, 0.0, "level from the fit; the data are too few for filters"
        )
    sigma = {f: max(level.sigma[f], _floor(clean, f)) for f in data.fields}
    variance: dict[str, Array] = {f: np.array(s**2) for f, s in sigma.items()}
    notes = [*notes, *(f"{f}: σ = {s:.3g} by filters ({level.filters[f]})" for f, s in sigma.items())]
    growth = estimate_signal_noise(clean, None if single else level)
    for name, found in growth.items():
        if found.significant:
            signal = smoothed(observed(clean, name), clean.geometry)
            signal = np.where(np.isfinite(signal), signal, clean.fields[name])  # inside holes nothing is near
            variance[name] = np.maximum(found.a**2 + found.b**2 * signal**2, _floor(clean, name) ** 2)
            notes.append(f"{name}: noise grows with the signal, σ² = {found.a:.3g}² + ({found.b:.3g} {name})²")
    for name, w in weights.items():
        variance[name] = variance[name] / w
    for name, factor in single.items():
        variance[name] = factor * variance[name]
        notes.append(bridged.summary(name))
    error = max((e for e in level.relative_error.values() if np.isfinite(e)), default=0.0)
    made = Measurement(clean, _model(variance, data), variance, sigma, sigma, float(error), "; ".join(notes))
    return made if single else replace(made, growth=growth)


def _level(data: Data) -> NoiseLevel | None:
    try:
        return estimate_noise(data)
    except DataError:
        return None


def _size(data: Data, name: str) -> float:
    """RMS of the values of a field that were measured."""
    u, mask = data.fields[name], None if data.measured is None else data.measured[name]
    known = (u[rows].ravel() if mask is None else u[rows][mask[rows]] for rows in slabs(u))
    squares, n = np.sum([(float(values @ values), values.size) for values in known], axis=0)
    return float(np.sqrt(squares / n))


def _floor(data: Data, name: str) -> float:
    size = _size(data, name)
    return NOISE_LEVELS.rounding * size if size > 0 else 1.0


def _model(variance: dict[str, Array], data: Data) -> Noise:
    if all(v.ndim == 0 for v in variance.values()):
        return PerField({f: float(np.sqrt(v)) for f, v in variance.items()})
    shape = (len(data.times), data.geometry.n_nodes)
    return Diagonal({f: np.sqrt(np.broadcast_to(v, shape)) for f, v in variance.items()})


def _without_outliers(
    data: Data, level: NoiseLevel | None, robust: bool | None
) -> tuple[Data, dict[str, Array], list[str]]:
    """Data with outliers replaced, their weights by field, and what is said about it."""
    if robust is False or level is None:
        return data, {}, []
    most = {f: max(NOISE_LEVELS.few, NOISE_LEVELS.tail * values.size) for f, values in data.fields.items()}

    def ordinary(weights: Array, most: float) -> bool:
        clear = NOISE_LEVELS.clear
        return not robust and weights.size <= clear * most and not np.any(weights < NOISE_LEVELS.far / clear)

    try:
        found = {
            f: scattered_outliers(
                observed(data, f), data.geometry, data.times, level.sigma[f], ordinary=partial(ordinary, most=most[f])
            )
            for f in data.names
        }
    except DataError:
        return data, {}, []
    total = {f: one.outliers.size for f, one in found.items()}
    many = {f for f, n in total.items() if n > (0 if robust else most[f])}
    many |= {f for f, one in found.items() if np.any(one.weights < NOISE_LEVELS.far)}
    if not many:
        return data, {}, []
    # missing values have no weight of their own
    weights, fields = {f: np.ones(data.fields[f].shape) for f in many}, dict(data.fields)
    for f in many:
        fields[f] = np.array(data.fields[f])
        weights[f].ravel()[found[f].outliers] = np.maximum(found[f].weights, NOISE_LEVELS.least)
        fields[f].ravel()[found[f].outliers] = found[f].values
        fields[f].ravel()[found[f].missing] = found[f].filled
    notes = [f"{f}: {total[f]} outliers have Student-t weights" for f in sorted(many)]
    return data.with_fields(fields), weights, notes


def _gap_weights(factor: dict[str, Array], weights: dict[str, Array]) -> dict[str, Array]:
    """Weights of outliers and of interpolated gaps together."""
    return {f: np.where(one != 1, 1 / one, weights.get(f, np.array(1.0))) for f, one in factor.items()}


def _stated(
    data: Data, noise: Noise, level: NoiseLevel | None, weights: dict[str, Array], notes: list[str]
) -> Measurement:
    """The stated model, its variances where they are simple, else those of the filters; weights change either."""
    stated, shape = f"as stated, {noise!r}", _shape(noise)
    relative = stated_variance(shape, data)
    measured = {} if level is None else {f: np.array(level.sigma[f] ** 2) for f in data.fields}
    variance = measured if relative is None or shape is not noise else relative
    if weights and relative is not None:
        relative, variance = _weighted(relative, weights), _weighted(variance, weights)
        model = _model(relative, data)
        noise = model if shape is noise else UnknownScale(model)
    sigma = {f: float(np.sqrt(np.mean(v))) for f, v in variance.items()}
    filtered = {f: float(np.sqrt(v)) for f, v in measured.items()}
    return Measurement(data, noise, variance, sigma, filtered, 0.0, "; ".join([*notes, stated]))


def _shape(noise: Noise) -> Noise:
    """The model without its unknown scale."""
    return noise.shape if isinstance(noise, UnknownScale) else noise


def _weighted(variance: dict[str, Array], weights: dict[str, Array]) -> dict[str, Array]:
    return {f: v / weights[f] if f in weights else v for f, v in variance.items()}


def stated_variance(noise: Noise, data: Data) -> dict[str, Array] | None:
    """Variance by field of simple models; None for others."""
    if isinstance(noise, IID):
        return {f: np.array(noise.sigma**2) for f in data.fields}
    if isinstance(noise, PerField):
        return {f: np.array(noise.sigma[f] ** 2) for f in data.fields if f in noise.sigma}
    if isinstance(noise, Diagonal):
        return {f: np.square(np.asarray(noise.sigma[f], dtype=float)) for f in data.fields if f in noise.sigma}
    return None


def measure_all(
    experiments: Sequence[Data],
    noise: Noise | Sequence[Noise] | None,
    *,
    robust: bool | None,
    rng: np.random.Generator | None = None,
) -> tuple[Measurement, ...]:
    """All experiments, with one noise model for all or one each."""
    several = isinstance(noise, Sequence)
    models = list(noise) if isinstance(noise, Sequence) else [noise] * len(experiments)
    if several and len(models) != len(experiments):
        raise NoiseError(f"noise: {len(models)} models for {len(experiments)} experiments; give one, or one each.")
    return tuple(measure(data, model, robust=robust, rng=rng) for data, model in zip(experiments, models, strict=True))
