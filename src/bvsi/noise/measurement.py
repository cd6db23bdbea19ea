"""What the data say about their own noise: level, dependence on the signal, unevenness, outliers.

    Var(ε) = σ_f²,  or  a_f² + b_f |u| + c_f² u²  or  σ_f(t, x)²  where the data show it,
             more where gaps and outliers are interpolated

Filters measure it before any fit; the fit then refines the level.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from bvsi.common.arrays import Array, Mask, Rng
from bvsi.data import Data, Grid
from bvsi.data._arrays import slabs
from bvsi.errors import DataError, NoiseError
from bvsi.noise import IID, Diagonal, Noise, NoiseLevel, PerField, UnknownScale, estimate_noise, estimate_signal_noise
from bvsi.noise.correlation import Blurred, check_names, estimate_widths, shape_of, widths_of
from bvsi.noise.faults import copied, saturated, wrong_nodes
from bvsi.noise.level import WIDTH_ERROR, lattice_step, observed
from bvsi.noise.outliers import Bridged, bridge, patches, scattered_outliers
from bvsi.noise.signal import SignalNoise
from bvsi.noise.uneven import UnevenLevel, estimate_uneven, heavy_tails
from bvsi.residual.blur import Blur
from bvsi.residual.widths import bandwidth, widest_band


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
    crowded
        Part of a frame beyond which outliers are its signal: in the first frame of Cahn–Hilliard data, which is random,
        two thirds are.
    clear
        Part of ``tail`` up to which, with no weight below ``far`` over it, the first look at the data decides that they
        have no outliers: later ones take values off that were near an outlier, and it takes five of them. Not measured.
    patch
        Outliers of a frame that hang together beyond which they are a ridge of the signal, if neighbours hardly predict
        them: with 33 such values drawn to their predictions coefficients of Fokker–Planck at 50 × 50 were 5% off
        (seed 1), with what was measured 0.6%. Outliers at random places, 5% of all, rarely make a patch of six.
    resolved
        Cycles per step up to which signal reaches where correlated noise is distinguished from it, the ``suspect`` of
        the check.
    """

    rounding: float = 1e-8
    no_noise: float = 1e-5
    tail: float = 2e-4
    few: int = 3
    far: float = 0.23
    least: float = 1e-3
    crowded: float = 0.2
    clear: float = 0.5
    patch: int = 8
    resolved: float = 0.25


NOISE_LEVELS = NoiseLevels()
# Searches for outliers, each without those found before, with the level that is left. Of 1,280 among 25,856 values the
# first missed 24, most of them pairs of neighbours, the second 12.
_PASSES = 3


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
        Where gaps and outliers were interpolated, by field, (T, nodes): the noise of neighbours is alike there.
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
        return _without(self.data, self.bridged) if self.bridged else self.data

    @cached_property
    def band(self) -> dict[str, float] | None:
        """f_99 of the data by axis, in cycles per step; None on meshes."""
        if not isinstance(self.data.geometry, Grid):
            return None
        return bandwidth(self.data, self.sigma, None if self.blur is None else self.blur.widths)

    @property
    def blur(self) -> Blur | None:
        """What makes the noise of neighbours alike; None where nothing does."""
        return Blur.of(self.data, widths_of(self.noise))

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


def measure(data: Data, noise: Noise | None, *, robust: bool | None = None, rng: Rng | None = None) -> Measurement:
    """Noise of one experiment, as stated or from the data.

    Parameters
    ----------
    robust
        Whether outliers get less weight; by default where there are more than noise explains. With False values at a
        limit of the instrument, and pixels that are wrong at all times, are taken as measured, too; they are missing
        otherwise. So are frames that are made of others, where no noise is stated.
    rng
        For the noise that rounded values get while they are filtered, and the values that are hidden to measure how
        well gaps are interpolated, by default ``numpy.random.default_rng(0)``. Every measurement starts from a copy.
    """
    if noise is not None:
        check_names(noise, data)
    rng = np.random.default_rng(0) if rng is None else rng
    data, level, told = (data, _level(data, rng), []) if robust is False else _without_faults(data, noise, rng)
    made = _measured(data, noise, level, robust, rng)
    return replace(made, summary="; ".join([*told, made.summary])) if told else made


def _without_faults(data: Data, noise: Noise | None, rng: Rng) -> tuple[Data, NoiseLevel | None, list[str]]:
    """The data without what the instrument did not measure, their level by filters, and what that was, in words."""
    more = {} if noise is not None else _copied(data, rng)
    told = [f"{f}: {_count(mask[:, 0], 'frame')} made of those beside them, and missing" for f, mask in more.items()]
    data = _without(data, more) if more else data
    level = _level(data, rng)
    if level is None or not (noise is None or stated_variance(shape_of(noise), data) is not None):
        return data, level, told
    cut = _saturated(data, level)
    told += [f"{f}: {_count(mask, 'value')} at a limit, saturated, and missing" for f, mask in cut.items()]
    if cut:
        data = _without(data, cut)
        level = _level(data, rng) or level
    wrong = _wrong(data, level)
    told += [f"{f}: {_count(mask[0], 'node')} wrong at all times, and missing" for f, mask in wrong.items()]
    if wrong:
        data = _without(data, wrong)
        level = _level(data, rng)
    return data, level, told


def _count(mask: Mask, what: str) -> str:
    n = int(np.count_nonzero(mask))
    return f"{n} {what}s are" if n > 1 else f"1 {what} is"


def _measured(data: Data, noise: Noise | None, level: NoiseLevel | None, robust: bool | None, rng: Rng) -> Measurement:
    """The same of data without values that were cut off; the level is that of filters."""
    bridged = Bridged(data)
    if data.measured is not None:
        bridged = bridge(data, _known(data, noise, level), rng)
    if noise is not None:
        return _stated(bridged, noise, level, robust, rng)
    if level is None:
        rms = {f: _size(bridged.data, f) for f in data.fields}
        unknown = "level from the fit; the data are too few for filters"
        return Measurement(bridged.data, UnknownScale(), {}, rms, {}, 0.0, unknown, _masks(bridged.factor))
    return _from_filters(bridged, level, robust, rng)


def _copied(data: Data, rng: Rng) -> dict[str, Mask]:
    """Values in frames that repeat others or were interpolated, by field, where what is left has noise that tells."""
    found = {f: copied(observed(data, f)) for f in data.fields}
    masks = {f: np.tile(one[:, None], data.n_nodes) for f, one in found.items() if one.any()}
    left = _level(_without(data, masks), rng) if masks else None
    if left is None:
        return {}
    least = {f: max(NOISE_LEVELS.no_noise * _size(data, f), lattice_step(observed(data, f)) or 0.0) for f in masks}
    return {f: mask for f, mask in masks.items() if left.sigma[f] > least[f]}


def _saturated(data: Data, level: NoiseLevel) -> dict[str, Mask]:
    """Values that were cut off at a limit, by field."""
    masks = {f: saturated(observed(data, f), level.sigma[f]) for f in _noisy(data, level)}
    return {f: mask for f, mask in masks.items() if mask is not None}


def _wrong(data: Data, level: NoiseLevel) -> dict[str, Mask]:
    """Values of nodes of a grid that are wrong at all times, by field."""
    grid = data.geometry
    if not (isinstance(grid, Grid) and grid.dim and len(data.times) > 1):
        return {}
    masks = {f: wrong_nodes(observed(data, f), grid, data.times, level.sigma[f]) for f in _noisy(data, level)}
    return {f: np.tile(mask, (len(data.times), 1)) for f, mask in masks.items() if mask.any()}


def _noisy(data: Data, level: NoiseLevel) -> list[str]:
    """Fields that have noise to speak of."""
    return [f for f, sigma in level.sigma.items() if sigma > NOISE_LEVELS.no_noise * _size(data, f)]


def _known(data: Data, noise: Noise | None, level: NoiseLevel | None) -> dict[str, float] | None:
    """Noise by field of data with gaps, in units of which their variance is given: as stated, else by filters."""
    assert data.measured is not None
    stated = None if noise is None else stated_variance(noise, data)
    if stated is not None:
        return {f: float(np.sqrt(np.mean(v[data.measured[f]] if v.ndim else v))) for f, v in stated.items()}
    return None if level is None else {f: max(s, _floor(data, f)) for f, s in level.sigma.items()}


@dataclass(frozen=True, eq=False)
class _Law:
    """What filters say about the noise: level, growth with the signal, widths of kernels.

    Attributes
    ----------
    error
        Relative standard error of the level.
    """

    level: NoiseLevel
    variance: dict[str, Array]
    widths: dict[str, float]
    error: float
    notes: tuple[str, ...]
    growth: Mapping[str, SignalNoise]

    @staticmethod
    def of(data: Data, level: NoiseLevel, rng: Rng, *, gaps: Mapping[str, Mask]) -> _Law:
        """From the values that were measured.

        Parameters
        ----------
        level
            Level of white noise.
        gaps
            Where values were interpolated, by field: they are less noisy than others. Without any the level is of the
            same data, and its filters serve again.
        """
        notes, widths = [], _widths(data, rng)
        blur = Blur.of(data, widths)
        if blur is not None:
            level = estimate_noise(data, copy.deepcopy(rng), blur=blur)
            steps = (f"{w:.2g} steps of {axis}" for axis, w in blur.widths.items() if w)
            notes.append(f"noise is blurred over {' and '.join(steps)}")
        variance: dict[str, Array] = {f: np.array(max(level.sigma[f], _floor(data, f)) ** 2) for f in data.fields}
        notes += [f"{f}: σ = {np.sqrt(v):.3g} by filters ({level.filters[f]})" for f, v in variance.items()]
        growth = estimate_signal_noise(data, None if gaps else level, blur=blur)
        for name, found in growth.items():
            if found.significant:
                variance[name] = np.maximum(found.of(data)[name], _floor(data, name) ** 2)
        others = {f: v for f, v in variance.items() if v.ndim}
        for name, own in _uneven(_without(data, gaps) if gaps else data, level, others, blur, rng).items():
            variance[name] = np.broadcast_to(np.maximum(own.sigma, _floor(data, name)) ** 2, data.fields[name].shape)
            growth.pop(name)
            notes.append(f"{name}: noise is uneven, σ {own}")
        notes += [f"{f}: noise grows with the signal, σ² = {law}" for f, law in growth.items() if law.significant]
        error = max((e for e in level.relative_error.values() if np.isfinite(e)), default=0.0)
        # where a kernel is taken too narrow σ is too low, and so is the density at long waves: errors add up
        error += 0.5 * WIDTH_ERROR * np.count_nonzero(list(widths.values()))
        return _Law(level, variance, widths, error, tuple(notes), growth)

    def _grows(self, name: str) -> bool:
        """Whether the noise of a field grows with the signal."""
        law = self.growth.get(name)
        return law is not None and law.significant

    def with_tails(self, data: Data) -> _Law:
        """With the variance of noise that has heavy tails, of data without outliers."""
        blur = Blur.of(data, self.widths)
        noisy = {f: self.variance[f] for f in _noisy(data, self.level) if not self._grows(f)}  # counts are skewed
        tails = {f: heavy_tails(data, f, v, self.level, blur=blur) for f, v in noisy.items()}
        heavy = {f: t for f, t in tails.items() if t > 1}
        notes = (f"{f}: noise has tails, with {t:.3g} times the variance that medians show" for f, t in heavy.items())
        variance = {f: v * tails.get(f, 1.0) for f, v in self.variance.items()}
        return replace(self, variance=variance, notes=(*self.notes, *notes))


def _from_filters(bridged: Bridged, level: NoiseLevel, robust: bool | None, rng: Rng) -> Measurement:
    """What filters say, and outliers, which depend on it; where there are any, what filters say without them.

    Parameters
    ----------
    bridged
        Data whose scattered gaps are interpolated.
    level
        Level by filters of white noise, from measured values alone.
    """
    data = bridged.data
    law, replaced = _Law.of(data, level, rng, gaps=_masks(bridged.factor)), Bridged(data)
    for _ in range(_PASSES):
        known = _without(data, _masks(replaced.factor)) if replaced.factor else data
        more = _without_outliers(known, law.level, law.variance, robust)
        if not more.factor:
            break
        replaced = _and_more(replaced, more)
        known = _without(data, _masks(_together(bridged.factor, replaced.factor)))
        law = _Law.of(known, _level(known, rng) or level, rng, gaps={})
    factor = _together(bridged.factor, replaced.factor)
    law = law.with_tails(_without(data, _masks(factor)) if factor else data)
    variance = _times(law.variance, factor)
    notes = [*_notes(replaced), *law.notes, *(bridged.summary(name) for name in bridged.factor)]
    model = _model(variance, data, law.growth)
    model = Blurred(model, law.widths) if law.widths else model
    sigma = {f: float(np.sqrt(v.mean())) for f, v in law.variance.items()}
    made = Measurement(replaced.data, model, variance, sigma, sigma, law.error, "; ".join(notes), _masks(factor))
    return made if factor else replace(made, growth=law.growth)


def _without(data: Data, masks: Mapping[str, Mask]) -> Data:
    """The data without some values, by field, (T, nodes)."""
    every = np.ones((len(data.times), data.n_nodes), dtype=bool)
    known = {f: every if data.measured is None else data.measured[f] for f in data.names}
    return replace(data, measured={f: mask & ~masks[f] if f in masks else mask for f, mask in known.items()})


def _masks(factor: dict[str, Array]) -> dict[str, Mask]:
    """Where values are not measurements."""
    return {name: one != 1 for name, one in factor.items()}


def _together(gaps: dict[str, Array], outliers: dict[str, Array]) -> dict[str, Array]:
    """Factors of the variance at gaps, and at outliers elsewhere."""
    every = {**outliers, **gaps}
    return {f: np.where(one != 1, one, outliers[f]) if f in outliers else one for f, one in every.items()}


def _times(variance: dict[str, Array], factor: dict[str, Array]) -> dict[str, Array]:
    return {f: v * factor[f] if f in factor else v for f, v in variance.items()}


def _uneven(
    data: Data, level: NoiseLevel, others: Mapping[str, Array], blur: Blur | None, rng: Rng
) -> dict[str, UnevenLevel]:
    """Levels of the fields whose noise is uneven, whatever another law says of it."""
    noisy = replace(level, sigma={f: level.sigma[f] for f in _noisy(data, level)})
    found = estimate_uneven(data, noisy, others, blur=blur, rng=copy.deepcopy(rng))
    return {f: own for f, own in found.items() if own.significant}


def _widths(data: Data, rng: Rng) -> dict[str, float]:
    """Widths of blurred noise, by axis; none where the signal is as short as noise can be."""
    widths = estimate_widths(data, copy.deepcopy(rng))
    blur = Blur.of(data, widths)
    if blur is None:
        return {}
    band = bandwidth(data, estimate_noise(data, copy.deepcopy(rng), blur=blur).sigma, blur.widths)
    return widths if max(band.values()) < NOISE_LEVELS.resolved else {}


def _level(data: Data, rng: Rng) -> NoiseLevel | None:
    try:
        return estimate_noise(data, copy.deepcopy(rng))
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


def _model(variance: dict[str, Array], data: Data, growth: Mapping[str, SignalNoise]) -> Noise:
    if all(v.ndim == 0 for v in variance.values()):
        return PerField({f: float(np.sqrt(v)) for f, v in variance.items()})
    shape = (len(data.times), data.geometry.n_nodes)
    gain = {f: law.b for f, law in growth.items() if law.b and law.significant}
    return Diagonal({f: np.sqrt(_at_nodes(v, shape)) for f, v in variance.items()}, gain)


def _at_nodes(variance: Array, shape: tuple[int, int]) -> Array:
    """(nodes,) where it is the same at all times, else (T, nodes)."""
    every = np.broadcast_to(variance, shape)
    return every[0] if np.all(every == every[0]) else every


def _notes(replaced: Bridged) -> list[str]:
    """How outliers were treated, in words."""
    counts = {f: int(np.count_nonzero(one != 1)) for f, one in sorted(replaced.factor.items())}
    return [f"{f}: {n} outliers are replaced, and count as missing" for f, n in counts.items()]


def _and_more(replaced: Bridged, more: Bridged) -> Bridged:
    """With outliers that were found without those before."""
    fields = {
        f: np.where(more.factor[f] != 1, more.data.fields[f], u) if f in more.factor else u
        for f, u in replaced.data.fields.items()
    }
    return Bridged(replaced.data.with_fields(fields), _together(replaced.factor, more.factor))


def _without_outliers(
    data: Data, level: NoiseLevel | None, variance: Mapping[str, Array], robust: bool | None
) -> Bridged:
    """Data whose outliers are what their neighbours predict, and count as gaps that were interpolated.

    An interpolated value repeats the noise of its neighbours; :mod:`bvsi.noise.outliers` has the variance with which it
    may be taken for one of its own. On meshes, and where neighbours predict little, outliers have Student-t weights.
    """
    if robust is False or level is None:
        return Bridged(data)
    most = {f: max(NOISE_LEVELS.few, NOISE_LEVELS.tail * values.size) for f, values in data.fields.items()}

    def ordinary(weights: Array, most: float) -> bool:
        clear = NOISE_LEVELS.clear
        return not robust and weights.size <= clear * most and not np.any(weights < NOISE_LEVELS.far / clear)

    fields, factor = dict(data.fields), {}
    for f, v in variance.items():
        sigma = level.sigma[f] if v.ndim == 0 else float(np.sqrt(v.mean()))
        try:
            found = scattered_outliers(
                observed(data, f), data.geometry, data.times, sigma, ordinary=partial(ordinary, most=most[f])
            )
        except DataError:
            return Bridged(data)
        if v.ndim:
            found = found.where_local(data.fields[f], v, sigma)
        count = found.outliers.size
        if not count > (0 if robust else most[f]) and not np.any(found.weights < NOISE_LEVELS.far):
            continue
        fields[f], factor[f] = np.array(data.fields[f]), np.ones(data.fields[f].shape)
        part = count / data.fields[f].size
        own = np.broadcast_to(v, data.fields[f].shape).ravel()[found.outliers]
        # values that neighbours hardly predict, and frames full of outliers, may be signal, and keep some weight
        frames = found.outliers // data.fields[f].shape[1]
        crowded = np.bincount(frames, minlength=len(data.times)) > NOISE_LEVELS.crowded * data.fields[f].shape[1]
        sure = (found.spread <= own) & ~crowded[frames] & isinstance(data.geometry, Grid)
        kept = found.values
        if isinstance(data.geometry, Grid):  # a ridge that is hardly resolved stays what it is
            ridge = (patches(found.outliers, data.geometry) > NOISE_LEVELS.patch) & ~crowded[frames]
            kept = np.where(ridge, data.fields[f].ravel()[found.outliers], kept)
        fields[f].ravel()[found.outliers] = np.where(sure, found.predicted, kept)
        fields[f].ravel()[found.missing] = found.filled
        weight = np.maximum(found.weights, NOISE_LEVELS.least)
        factor[f].ravel()[found.outliers] = np.where(sure, (2 - part) / (1 - part), 1 / weight)
    return Bridged(data.with_fields(fields), factor) if factor else Bridged(data)


def _stated(bridged: Bridged, noise: Noise, level: NoiseLevel | None, robust: bool | None, rng: Rng) -> Measurement:
    """The stated model, its variances where they are simple, else those of filters; gaps and outliers change either.

    Parameters
    ----------
    bridged
        Data whose scattered gaps are interpolated.
    level
        Level by filters of white noise, from measured values alone.
    """
    data, stated, shape = bridged.data, f"as stated, {noise!r}", shape_of(noise)
    relative = stated_variance(shape, data)
    if relative is None and robust:
        raise NoiseError("robust: outliers can be found with IID, PerField, Diagonal, SignalNoise and Blurred only.")
    if (blur := Blur.of(data, widths_of(noise))) is not None and level is not None:
        level = estimate_noise(data, copy.deepcopy(rng), blur=blur)
    measured = {} if level is None else {f: np.array(level.sigma[f] ** 2) for f in data.fields}
    variance = measured if relative is None or shape is not noise else relative
    replaced = Bridged(data) if relative is None else _without_outliers(data, level, variance, robust)
    factor = _together(bridged.factor, replaced.factor)
    if relative is not None and (factor or isinstance(shape, SignalNoise)):
        relative, variance = _times(relative, factor), _times(variance, factor)
        model = _model(relative, data, dict.fromkeys(data.fields, shape) if isinstance(shape, SignalNoise) else {})
        model = Blurred(model, shape.widths) if isinstance(shape, Blurred) else model
        noise = model if shape is noise else UnknownScale(model)
    sigma = {f: float(np.sqrt(np.mean(v))) for f, v in variance.items()}
    filtered = {f: float(np.sqrt(v)) for f, v in measured.items()}
    told = "; ".join([*_notes(replaced), stated])
    return Measurement(replaced.data, noise, variance, sigma, filtered, 0.0, told, _masks(factor))


def stated_variance(noise: Noise, data: Data) -> dict[str, Array] | None:
    """Variance by field of simple models; None for others."""
    if isinstance(noise, IID):
        return {f: np.array(noise.sigma**2) for f in data.fields}
    if isinstance(noise, PerField):
        return {f: np.array(noise.sigma[f] ** 2) for f in data.fields if f in noise.sigma}
    if isinstance(noise, Diagonal):
        return {f: np.square(np.asarray(noise.sigma[f], dtype=float)) for f in data.fields if f in noise.sigma}
    if isinstance(noise, Blurred):
        return stated_variance(noise.level, data)
    if isinstance(noise, SignalNoise):
        return {f: np.maximum(v, _floor(data, f) ** 2) for f, v in noise.of(data).items()}
    return None


def measure_all(
    experiments: Sequence[Data], noise: Noise | Sequence[Noise] | None, *, robust: bool | None, rng: Rng | None = None
) -> tuple[Measurement, ...]:
    """All experiments, with one noise model for all or one each."""
    several = isinstance(noise, Sequence)
    models = list(noise) if isinstance(noise, Sequence) else [noise] * len(experiments)
    if several and len(models) != len(experiments):
        raise NoiseError(f"noise: {len(models)} models for {len(experiments)} experiments; give one, or one each.")
    return tuple(measure(data, model, robust=robust, rng=rng) for data, model in zip(experiments, models, strict=True))
