"""What instruments make of a field: each way takes exact values and gives what would be in the file.

white(p)           û = u + p s ε                              s: RMS of the field, ε standard normal
blurred(p, …)      û = u + p s (k ∗ ε),  Var(k ∗ ε) = 1       k: a Gaussian, as optics and smoothing make it
multiplied(p)      û = u (1 + p ε) + 0.005 s ε′
counted(n)         û = m/n,  m ~ Poisson(n u/mean u) · mean u
quantised(σ)       û on a lattice of 256 levels over the range of u, with noise of σ levels before rounding
outlying(q)        white 2%, and a share q of the values is anywhere in three times the range
single()           rounded to single precision
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from bvsi.data import Data

Array = NDArray[np.float64]
Rng = np.random.Generator
Observing = Callable[[Data, Rng], Data]
"""Exact data and a generator → observed data."""


def _each(observed: Callable[[Array, Rng], Array]) -> Observing:
    """One field after the other."""

    def observing(data: Data, rng: Rng) -> Data:
        return replace(data, fields={name: observed(np.asarray(u), rng) for name, u in data.fields.items()})

    return observing


def _size(u: Array) -> float:
    return float(np.sqrt(np.mean(u**2)))


def white(share: float) -> Observing:
    """Independent Gaussian noise."""
    return _each(lambda u, rng: u + share * _size(u) * rng.standard_normal(u.shape))


def blurred(share: float, *, space: float = 0.0, time: float = 0.0) -> Observing:
    """Gaussian noise correlated over so many nodes and frames; for fields on a line."""

    def observed(u: Array, rng: Rng) -> Array:
        noise = rng.standard_normal(u.shape)
        if time:
            noise = gaussian_filter1d(noise, time, axis=0, mode="reflect")
        if space:
            noise = gaussian_filter1d(noise, space, axis=1, mode="wrap")
        return np.asarray(u + share * _size(u) * noise / noise.std())

    return _each(observed)


def multiplied(share: float) -> Observing:
    """Noise that grows with the signal."""

    def observed(u: Array, rng: Rng) -> Array:
        return np.asarray(
            u * (1 + share * rng.standard_normal(u.shape)) + 0.005 * _size(u) * rng.standard_normal(u.shape)
        )

    return _each(observed)


def counted(counts: float) -> Observing:
    """Poisson counts, so many per cell on average; for positive fields."""
    # solvers leave values below zero by rounding
    return _each(lambda u, rng: rng.poisson(counts * np.maximum(u, 0.0) / u.mean()) * (u.mean() / counts))


def quantised(levels: float) -> Observing:
    """A camera of 8 bits."""

    def observed(u: Array, rng: Rng) -> Array:
        step = np.ptp(u) / 200  # the brightest and the darkest places do not saturate
        return np.asarray(u.min() + step * np.round((u - u.min()) / step + levels * rng.standard_normal(u.shape)))

    return _each(observed)


def outlying(share: float) -> Observing:
    """White noise of 2%, and values that are anywhere."""

    def observed(u: Array, rng: Rng) -> Array:
        noisy = u + 0.02 * _size(u) * rng.standard_normal(u.shape)
        anywhere = u.mean() + 1.5 * np.ptp(u) * rng.uniform(-1, 1, u.shape)
        return np.where(rng.random(u.shape) < share, anywhere, noisy)

    return _each(observed)


def exact() -> Observing:
    """No noise at all."""
    return _each(lambda u, _: u)


def single() -> Observing:
    """No noise, single precision."""
    return _each(lambda u, _: u.astype(np.float32).astype(np.float64))
