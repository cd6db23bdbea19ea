"""Values of an experiment as they were measured: the law of their noise, and the modes of its initial state.

    û_jn = u(t_j, x_n) + ε_jn,     Var ε = v(u) = a² + b (|u| + l) + c² u²,     u(t_0) = V z

V and μ: eigenvectors and eigenvalues of squared second differences. The deviance is that of the quasi-likelihood,
2 ∫_u^û (û − s)/v(s) ds: (û − u)²/v where v is constant, and Poisson's, divided by b, for counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import roots_legendre

from bvsi.common.arrays import Array, Mask
from bvsi.data import Data
from bvsi.data.denoise import smoothers
from bvsi.data.smoothness import second_differences
from bvsi.errors import BvsiError
from bvsi.noise import Noise, PerTime, SignalNoise
from bvsi.noise.correlation import correlated, shape_of
from bvsi.noise.level import lattice_step, observed
from bvsi.noise.measurement import Measurement, measure, stated_variance

# Modes of the initial state of one experiment; finer ones are zero. Each is a column of the derivatives.
_MOST_MODES = 400
# Part of one step of the counts that is added to a mean count in its variance. With a tenth, as in SignalNoise.of, the
# weights of counts of nothing vary so much that Gauss–Newton steps go back and forth (1 of 30 assays, seed 100).
_LEAST = 0.5
# Points of the integral of the deviance: exact to rounding where v changes by less than a factor of ten.
_NODES, _WEIGHTS = (0.5 * (x + o) for x, o in zip(roots_legendre(12), (1.0, 0.0), strict=True))
_SMALL = 1e-2  # part of the size of a field that is added where the step of the counts is not seen; see above
_ZERO = 1e-10  # part of the largest eigenvalue below which one is the rounding of zero


class RefineError(BvsiError):
    """The equation cannot be fitted by forward solves; the message says why, and what would help."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """Values of one experiment, with the law of their noise, and the modes of its initial state.

    Attributes
    ----------
    data
        The experiment; gaps and outliers bridged, which only the start uses.
    values
        (T, s), fields one after the other.
    known
        (T, s), which of them were measured.
    floor, counted, relative
        a², b and c² of the variance, (T, s), (s,) and (s,).
    least
        What is added to |u| in the counted part, (s,).
    level_known
        Whether the variance is known, or only its shape.
    V
        (s, m).
    mu
        (m,).
    """

    data: Data
    fields: tuple[str, ...]
    values: Array
    known: Mask
    floor: Array
    counted: Array
    relative: Array
    least: Array
    level_known: bool
    V: Array
    mu: Array

    @staticmethod
    def of(data: Data, noise: Noise | None, fields: Sequence[str]) -> Measurements:
        """Noise as stated, or from the data."""
        measured = measure(data, noise)
        if correlated(measured.noise):
            raise RefineError(
                "refine: noise that is correlated between nodes or times cannot be used; state noise=IID, PerField, "
                "Diagonal or SignalNoise."
            )
        own, shape = measured.data, (data.n_times, data.n_nodes)
        laws = {f: _law(noise, measured, f) for f in fields}
        fixed = _variance(measured)
        every = np.ones(shape, dtype=bool)
        known = {f: every if data.measured is None else data.measured[f] for f in fields}
        V, mu = _modes(data)
        return Measurements(
            data=own,
            fields=tuple(fields),
            values=_side_by_side(own.fields[f] for f in fields),
            known=_side_by_side(known[f] & ~measured.bridged.get(f, ~every) for f in fields),
            floor=_side_by_side(np.broadcast_to(law.a**2 if (law := laws[f]) else fixed[f], shape) for f in fields),
            counted=np.repeat([law.b if (law := laws[f]) else 0.0 for f in fields], data.n_nodes),
            relative=np.repeat([law.c**2 if (law := laws[f]) else 0.0 for f in fields], data.n_nodes),
            least=np.repeat([_least(own, f) if laws[f] else 0.0 for f in fields], data.n_nodes),
            level_known=measured.noise.scale_known,
            V=scipy.linalg.block_diag(*[V] * len(fields)),
            mu=np.tile(mu, len(fields)),
        )

    def variance(self, u: Array, frame: int | slice = slice(None)) -> Array:
        """v(u) of the values at some times."""
        return np.asarray(self.floor[frame] + self.counted * (np.abs(u) + self.least) + self.relative * u**2)

    def deviance(self, u: Array, frame: int) -> float:
        """2 Σ ∫_u^û (û − s)/v(s) ds of the values (s,) at one time."""
        off = np.where(self.known[frame], self.values[frame] - u, 0.0)
        if not self.counted.any() and not self.relative.any():
            return float(np.sum(off**2 / self.floor[frame]))
        inside = u + off * _NODES[:, None]
        weights = (_WEIGHTS * (1 - _NODES))[:, None]
        return float(2 * np.sum(off**2 * np.sum(weights / self.variance(inside, frame), axis=0)))

    @cached_property
    def smooth(self) -> Array:
        """States (T, s) without most of the noise, for the start."""
        found, n = smoothers(self.data), self.data.n_nodes
        parts = [self.values[:, i : i + n] for i in range(0, self.values.shape[1], n)]
        states: Array = _side_by_side(found[f].smooth(u) for f, u in zip(self.fields, parts, strict=True))
        return states

    @property
    def rank(self) -> int:
        """Modes that the prior holds."""
        return int(np.count_nonzero(self.mu))


def _law(noise: Noise | None, measured: Measurement, name: str) -> SignalNoise | None:
    """How the noise of a field grows with the signal; None where it does not."""
    if isinstance(noise, SignalNoise):
        return noise
    found = None if measured.growth is None else measured.growth.get(name)
    return found if found is not None and found.significant else None


def _variance(measured: Measurement) -> dict[str, Array]:
    """Variance by field, or its shape where the level is not known."""
    shape = shape_of(measured.noise)
    if isinstance(shape, PerTime):
        return {f: np.square(np.asarray(shape.sigma, dtype=float))[:, None] for f in measured.data.names}
    if measured.noise.scale_known:
        return dict(measured.variance)
    found = stated_variance(shape, measured.data)
    assert found is not None  # all other shapes are correlated
    return found


def _least(data: Data, name: str) -> float:
    """Part of a step of counts, or of the size of the field."""
    values = observed(data, name)
    return max(_LEAST * (lattice_step(values) or 0.0), _SMALL * float(np.sqrt(np.nanmean(np.square(values)))))


def _modes(data: Data) -> tuple[Array, Array]:
    """Eigenvectors V (n, m) and eigenvalues μ (m,) of Σ_a D_aᵀD_a, the smoothest first."""
    pairs = [np.linalg.eigh((D.T @ D).toarray()) for D in second_differences(data.geometry, data.times[:1])[1:]]
    mu = reduce(np.add.outer, [np.where(m > _ZERO * m.max(), m, 0.0) for m, _ in pairs], np.zeros(()))
    order = np.argsort(mu, axis=None, kind="stable")[:_MOST_MODES]
    places = np.unravel_index(order, mu.shape) if mu.ndim else ()
    V = reduce(
        lambda left, right: (left[:, None, :] * right[None, :, :]).reshape(-1, len(order)),
        [v[:, place] for (_, v), place in zip(pairs, places, strict=True)],
        np.ones((1, len(order))),
    )
    return V, mu.ravel()[order]


def _side_by_side(parts: Iterable[Any]) -> Any:
    return np.ascontiguousarray(np.concatenate(list(parts), axis=1))
