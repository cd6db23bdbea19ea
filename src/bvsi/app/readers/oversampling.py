"""Which axis of a large set may be coarsened: how much signal the filter would take away, judged by spectra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.app.readers.coordinates import Axis
from bvsi.app.readers.reduction import coarse_size, response
from bvsi.errors import DataError

Floats = NDArray[np.float64]

# Share of the variance that coarsening may change in all: 0.3 % of the amplitude.
_NEGLIGIBLE = 1e-5
# Fewer points along an axis than this are of no use.
_FEWEST = 16
# Standard errors by which an excess must exceed the noise floor to count as signal.
_CERTAIN = 3.0
# Noise bandwidth of the Blackman–Harris window in bins: neighbouring bins are not independent.
_BANDWIDTH = 2.0
# Coordinates that miss a uniform spacing by less than this fraction of it are rounded.
_UNIFORM = 1e-3


@dataclass(frozen=True)
class Spectrum:
    """Mean power of the lines along one axis of a field.

    Attributes
    ----------
    omega
        Frequencies per point, (f,), without the mean.
    power
        |û|² as parts of the variance, (f,); they sum to the variance of the lines.
    lines
        Number of lines.
    variance
        Variance of the field over all samples.
    """

    omega: Floats
    power: Floats
    lines: int
    variance: float

    @property
    def below(self) -> NDArray[np.bool_]:
        """Frequencies below the highest, which has half the power of white noise."""
        return np.asarray(self.omega < np.pi * (1 - 1e-9))

    @property
    def floor(self) -> float:
        """White floor P₀: mean power of the uppermost quarter of the frequencies."""
        return float(self.power[self.below & (self.omega >= 0.75 * np.pi)].mean())


def spectrum(lines: Floats, periodic: bool, variance: float) -> Spectrum | None:
    """Spectrum of lines (m, n); None where none is free of NaN. Bounded lines are detrended and windowed."""
    whole = lines[np.isfinite(lines).all(axis=1)]
    n = lines.shape[1]
    if not len(whole) or n < _FEWEST:
        return None
    whole = whole - whole.mean(axis=1, keepdims=True)
    window = np.ones(n)
    if not periodic:
        from scipy.signal import detrend
        from scipy.signal.windows import blackmanharris

        whole, window = detrend(whole, axis=1), blackmanharris(n, sym=False)
    power = np.mean(np.abs(np.fft.rfft(whole * window, axis=1)) ** 2, axis=0)
    double = np.full(power.size, 2.0)
    double[0] = 1.0
    if n % 2 == 0:
        double[-1] = 1.0
    power = double * power / (n * np.sum(window**2))
    return Spectrum(2 * np.pi * np.arange(power.size) / n, power, len(whole), variance)


def lost_share(found: Spectrum, levels: int) -> float:
    """Share of the variance by which coarse values differ from the signal at the same points.

    Σ_ω S(ω) |1 − G(ω)|² over the variance, with S the power above the white floor P₀. What does not exceed the
    statistical error of the sum counts as nothing.
    """
    omega, power, floor = found.omega[found.below], found.power[found.below], found.floor
    missed = np.abs(1.0 - response(omega, levels)) ** 2
    top = omega >= 0.75 * np.pi
    # The power in a bin, averaged over lines, is exponential with mean P₀.
    error = floor * np.sqrt(_BANDWIDTH * float(np.sum((missed - missed[top].mean()) ** 2)) / found.lines)
    excess = float(np.sum(missed * (power - floor)))
    return max(0.0, excess - _CERTAIN * error) / found.variance if found.variance > 0 else 0.0


@dataclass(frozen=True)
class Candidate:
    """An axis that may be halved.

    Attributes
    ----------
    axis
        The axis.
    periodic
        Whether it wraps.
    spectra
        One per field that varies along it; empty where nothing is known.
    space
        Whether it is one of space.
    keep_ends
        Whether its ends must stay. Halving an axis that does not wrap loses points at both.
    """

    axis: Axis
    periodic: bool
    spectra: tuple[Spectrum, ...]
    space: bool = False
    keep_ends: bool = False

    def size(self, levels: int) -> int:
        """Points after some halvings; 0 where the filter does not fit."""
        n = self.axis.size
        for _ in range(levels):
            if self.periodic and n % 2:
                return 0
            n = coarse_size(n, self.periodic)
        return n

    def loss(self, levels: int) -> float:
        """Largest share lost of any field; infinite where the axis cannot be halved so often."""
        if not self.spectra or self.size(levels) < _FEWEST or not _uniform(self.axis):
            return np.inf
        return max(lost_share(found, levels) for found in self.spectra)

    def possible(self, levels: int) -> bool:
        """Whether so many halvings cut no signal that matters."""
        return not (self.keep_ends and not self.periodic) and self.loss(levels) <= _NEGLIGIBLE


def _uniform(axis: Axis) -> bool:
    if axis.values is None:
        return False
    step = np.diff(axis.values)
    line = np.linspace(axis.values[0], axis.values[-1], axis.size)
    return bool(np.max(np.abs(axis.values - line)) <= _UNIFORM * np.abs(step).mean())


def halvings(candidates: tuple[Candidate, ...], bytes_per_point: float, max_memory: float) -> tuple[int, ...]:
    """How often each axis is halved so that the fields fit; the most oversampled axis first.

    Parameters
    ----------
    candidates
        Time, then space.
    bytes_per_point
        Bytes per point of all fields together.
    """
    levels = [0] * len(candidates)

    def needed() -> float:
        return bytes_per_point * float(
            np.prod([c.size(n) for c, n in zip(candidates, levels, strict=True)], dtype=float)
        )

    full = needed()
    while needed() > max_memory:
        best = _roomiest(candidates, levels)
        if best is None:
            raise DataError(
                f"max_memory: the fields take {full / 1e9:.3g} GB, more than {max_memory / 1e9:.3g} GB, and coarsening "
                f"further than to {needed() / 1e9:.3g} GB would cut real signal{_why(candidates, levels)}; take a part "
                "with select, or raise max_memory"
            )
        levels[best] += 1
    return tuple(levels)


def _roomiest(candidates: tuple[Candidate, ...], levels: list[int]) -> int | None:
    """The axis with most spare halvings; of equal ones space before time, which decides on the time derivative."""
    spare = []
    for candidate, level in zip(candidates, levels, strict=True):
        count = 0
        while candidate.possible(level + count + 1):
            count += 1
        spare.append(count)
    best = max(range(len(spare)), key=lambda i: (spare[i], i))
    return best if spare[best] else None


def _why(candidates: tuple[Candidate, ...], levels: list[int]) -> str:
    """Reasons by axis, as the end of a sentence."""
    reasons = []
    for candidate, level in zip(candidates, levels, strict=True):
        share, name = candidate.loss(level + 1), candidate.axis.name
        if candidate.keep_ends and not candidate.periodic:
            reasons.append(f"{name}: a boundary condition holds at its ends")
        elif np.isfinite(share):
            reasons.append(f"{name}: {share:.1g} of the variance")
        elif not _uniform(candidate.axis):
            reasons.append(f"{name}: spacing not uniform")
        else:
            reasons.append(
                f"{name}: too few points, or odd and periodic" if candidate.spectra else f"{name}: too few lines"
            )
    return f" ({', '.join(reasons)})"


Sample = Callable[[str, Mapping[str, slice]], Floats]
"""Values of an array by name, over time and space, with a slice (in the order of the layout) per axis name."""

# Lines looked at per frame or stretch, frames for lines in space, and length of the stretches of time.
_LINES = 600
_FRAMES = 12
_STRETCH = 256


def candidates(
    axes: tuple[Axis, ...],
    periodic: Mapping[str, float],
    names: tuple[str, ...],
    sample: Sample,
    *,
    keep_ends: bool = False,
) -> tuple[Candidate, ...]:
    """Spectra along every axis from a few lines of each field.

    Parameters
    ----------
    axes
        Time, then space.
    names
        Arrays that depend on time.
    sample
        Reads a part of one of them.
    keep_ends
        Whether the ends of axes in space must stay.
    """
    found = []
    for number, axis in enumerate(axes):
        wraps = axis.name in periodic
        spectra = []
        for name in names:
            parts = [sample(name, cut) for cut in _cuts(axes, number)]
            lines = np.concatenate([np.moveaxis(part, number, -1).reshape(-1, part.shape[number]) for part in parts])
            inside = lines[np.isfinite(lines)]
            one = spectrum(lines, wraps, float(inside.var()) if inside.size else 0.0)
            spectra.append(one)
        known = tuple(one for one in spectra if one is not None)
        whole = known if len(known) == len(spectra) else ()
        found.append(Candidate(axis, wraps, whole, space=number > 0, keep_ends=keep_ends and number > 0))
    return tuple(found)


def _cuts(axes: tuple[Axis, ...], number: int) -> list[dict[str, slice]]:
    """Parts of the data with whole lines along one axis: thinned along the others, and stretches of the time."""
    time = axes[0]
    across = [axis for axis in axes[1:] if axis is not axes[number]]
    each = _LINES ** (1.0 / max(1, len(across)))
    thin = {axis.name: slice(None, None, max(1, round(axis.size / each))) for axis in across}
    if number > 0:
        thin[axes[number].name] = slice(None)
        frames = np.unique(np.linspace(0, time.size - 1, _FRAMES).astype(int))
        return [{time.name: slice(int(k), int(k) + 1), **thin} for k in frames]
    length = min(time.size, _STRETCH)
    starts = np.unique(np.linspace(0, time.size - length, 3).astype(int))
    return [{time.name: slice(int(k), int(k) + length), **thin} for k in starts]
