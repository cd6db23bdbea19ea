"""What instruments make of a field: each way takes exact values and gives what would be in the file.

white(p)           û = u + p s ε                              s: RMS of the field, ε standard normal
blurred(p, …)      û = u + p s (k ∗ ε),  Var(k ∗ ε) = 1       k: a Gaussian, as optics and smoothing make it
multiplied(p)      û = u (1 + p ε) + 0.005 s ε′
counted(n)         û = m/n,  m ~ Poisson(n u/mean u) · mean u
quantised(σ)       û on a lattice of 256 levels over the range of u, with noise of σ levels before rounding
outlying(q)        white 2%, and a share q of the values is anywhere in three times the range
uneven(p)          û = u + p s g ε,  log g linear in time and along the first axis, up to a factor of 7 from end to end
sensors(p)         û = u + p s g ε,  log g normal with standard deviation 0.5, one g per node
pixels(q)          white 2%, and a share q of the nodes is off by 0.5 to 2 s at all times, or stuck at one value
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


def _levels(share: float, levels: Callable[[Data, Rng], Array]) -> Observing:
    """Gaussian noise with levels g (T, nodes), of mean square one."""

    def observing(data: Data, rng: Rng) -> Data:
        g = levels(data, rng) * np.ones((len(data.times), data.n_nodes))
        g /= _size(g)
        noisy = {f: u + share * _size(u) * g * rng.standard_normal(u.shape) for f, u in data.fields.items()}
        return replace(data, fields=noisy)

    return observing


def uneven(share: float) -> Observing:
    """Noise that is larger at one end of the record, and of the first axis."""

    def levels(data: Data, rng: Rng) -> Array:
        t, x = data.times[:, None], data.geometry.points[:, 0]
        a, b = rng.uniform(-2, 2, 2)
        return np.asarray(np.exp(a * (t - t.min()) / np.ptp(t) + b * (x - x.min()) / np.ptp(x)))

    return _levels(share, levels)


def sensors(share: float) -> Observing:
    """Noise of a level of its own at every node."""
    return _levels(share, lambda data, rng: np.exp(0.5 * rng.standard_normal(data.n_nodes)))


def pixels(share: float) -> Observing:
    """A camera with pixels that are wrong at all times; those at the ends of the axes are fine."""

    def observing(data: Data, rng: Rng) -> Data:
        inside = np.flatnonzero(
            np.all((p := data.geometry.points) > p.min(axis=0), axis=1) & np.all(p < p.max(0), axis=1)
        )
        fields = {}
        for f, u in white(0.02)(data, rng).fields.items():
            v = np.array(u)
            for node in rng.choice(inside, max(1, round(share * data.n_nodes)), replace=False):
                stuck = rng.random() < 0.5
                v[:, node] = rng.uniform(u.min(), u.max()) if stuck else v[:, node] + rng.uniform(0.5, 2) * _size(u)
            fields[f] = v
        return replace(data, fields=fields)

    return observing


def exact() -> Observing:
    """No noise at all."""
    return _each(lambda u, _: u)


def single() -> Observing:
    """No noise, single precision."""
    return _each(lambda u, _: u.astype(np.float32).astype(np.float64))
