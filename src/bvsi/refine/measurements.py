"""Values of an experiment as they were measured: the law of their noise, and the modes of its initial state.

    û_j = P u(t_j) + ε_j,     Var ε = v(u) = a² + b (|u| + l) + c² u²
    u(t_0) = V z,     of counts  b log(1 + e^{Vz/b}),     z_i ~ N(0, 1/p_i),     p_i = a (1 + κ_i/l)^q

P takes states from the nodes where the equation is solved to those of the data, blurred and averaged over bins as they
are (:mod:`bvsi.refine.instrument`); usually they are the same. V and μ:
eigenvectors and eigenvalues of squared second differences, κ = μ^½ over its middle value, which grows with the square
of the wave number: l tells how wide the features of the state are, q how smooth they are. Modes with μ = 0 are free.
Counts have an initial state above zero: below b noise is
larger than what is counted, and far above b the state is V z. The deviance is that of the quasi-likelihood,
2 ∫_u^û (û − s)/v(s) ds: (û − u)²/v where v is constant, and Poisson's, divided by b, for counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
from numpy.typing import ArrayLike
from scipy.special import expit, roots_legendre

from bvsi.common.arrays import Array, Mask
from bvsi.data import Data, Grid, Mesh
from bvsi.data.denoise import smoothers
from bvsi.data.smoothness import second_differences
from bvsi.noise import Covariance, Noise, PerTime, SignalNoise
from bvsi.noise.correlation import check_names, shape_of, without_blur
from bvsi.noise.level import lattice_step, observed
from bvsi.noise.measurement import Measurement, measure, stated_variance
from bvsi.refine.instrument import Correlated, RefineError, Widths, check_instrument, exposure, observed_by

# Modes of the initial state of one experiment; finer ones are zero. Each is a column of the derivatives.
_MOST_MODES = 400
_MOST_LINEAR = 3000  # those of linear equations, whose propagator is a dense matrix of that size
# Those of a field between sensors, by sensor. Of 40 sensors and bumps 0.45 spacings wide 5 modes left out as much as
# 0.5 sd of the noise, and 8 of them 0.2, which is what the mesh did.
_PER_SENSOR = 8
# Nodes where the equation is solved, by node of the data, beyond which the state between them is a matter of its prior.
_SPARSE = 3.0
_LARGEST = 300.0  # |log p| beyond which laws are out of all bounds
# Part of one step of the counts that is added to a mean count in its variance. With a tenth, as in SignalNoise.of, the
# weights of counts of nothing vary so much that Gauss–Newton steps go back and forth (1 of 30 assays, seed 100).
_LEAST = 0.5
# Nodes up to which a line is solved on one twice as fine. Fronts of degenerate diffusion (u_t = c Δu² of the assay of
# Jin et al. with seeding 12) fell below zero by 1 cell on the 38 nodes, and by 0.1 on 75, for a fifth more time.
_FEW = 100
# Points of the integral of the deviance: exact to rounding where v changes by less than a factor of ten.
_NODES, _WEIGHTS = (0.5 * (x + o) for x, o in zip(roots_legendre(12), (1.0, 0.0), strict=True))
_SMALL = 1e-2  # part of the size of a field that is added where the step of the counts is not seen; see above
# Standard deviations of the noise below which a value may be zero: degenerate diffusion is allowed there.
_UNCLEAR = 3.0
# Part of the size of counted fields over which their initial state bends towards zero, at least. With none, one fit of
# the assay of Jin et al. with seeding 20 took more than 80 steps; log p(û | model) of others changed by 0.5 at most.
_BENDS = 0.02
_FAINT = 0.1  # part of b that a positive state is at least, where modes are made of it: they would be far below zero
# τ that are tried between sensors, from values that follow each of them to nearly the smoothest of all.
_STRENGTHS = np.logspace(-6.0, 6.0, 13)
_ZERO = 1e-10  # part of the largest eigenvalue below which one is the rounding of zero


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
    correlated
        What neighbours share of the noise; None where values are independent.
    level_known
        Whether the variance is known, or only its shape.
    kernels
        Whether places are blurred, or averages over bins.
    offsets, weights
        Times (q,) within an exposure, from that of its frame, at which the equation is solved, and their weights (q,).
    on
        Where the equation is solved, with S degrees of freedom.
    P
        (s, S), sparse; None where that is where the data are, and nothing is blurred.
    bend
        b of counts, (S,), whose initial state is above zero; zero of other fields.
    V
        (S, m).
    mu
        (m,), zero of modes without a prior.
    later
        Times after those of the data for which there are predictions, (L,).
    """

    data: Data
    fields: tuple[str, ...]
    values: Array
    known: Mask
    floor: Array
    counted: Array
    relative: Array
    least: Array
    correlated: Correlated | None
    level_known: bool
    kernels: bool
    offsets: Array
    weights: Array
    on: Grid | Mesh
    P: Any
    bend: Array
    V: Array
    mu: Array
    later: Array

    @staticmethod
    def of(
        data: Data,
        noise: Noise | None,
        fields: Sequence[str],
        on: Grid | Mesh | None = None,
        later: ArrayLike = (),
        blur: Widths | None = None,
        bins: Widths | None = None,
    ) -> Measurements:
        """Noise as stated, or from the data; other arguments as in :func:`bvsi.discovery.refining.refine`."""
        check_instrument(data, on, blur, bins)
        kernel, box = blur or {}, bins or {}
        further = np.asarray(later, dtype=float)
        if further.ndim != 1 or not np.all(np.diff(np.append(data.times[-1], further)) > 0):
            raise RefineError(f"later: increasing times after the last of the data, {data.times[-1]:g}, are needed.")
        if noise is not None:
            check_names(noise, data, fields)
        # a peak that moves by its own width between frames looks like outliers; of stated noise the misfit tells them
        measured = measure(data, noise, robust=None if noise is None else False)
        data = measured.data  # without values that are saturated
        shape = (data.n_times, data.n_nodes)
        alike = Correlated.of(measured.noise, data, fields)
        laws = {f: None if alike else _law(noise, measured, f) for f in fields}
        fixed = _variance(measured)
        every = np.ones(shape, dtype=bool)
        known = {f: every if data.measured is None else data.measured[f] for f in fields}
        place = _finer(data) if on is None else on
        V, mu = _modes(place, _most_modes(place, data, on is not None))
        H, inside = observed_by(place, data.geometry, kernel, box)
        if not inside.any():
            raise RefineError("blur, bins: all of them reach out of the domain; give on=, a larger grid or mesh.")
        offsets, weights = exposure(float(box.get("time", 0.0)), data.times)
        every_known = _side_by_side(known[f] & inside & ~measured.bridged.get(f, ~every) for f in fields)
        if alike is not None and alike.time is not None and not every_known.all():
            raise RefineError(
                "noise: noise that is alike in time needs data without gaps, outliers, and kernels that reach out of "
                "the domain; leave these frames or nodes out, or state noise that is alike in space only."
            )
        above = {f: _bend(data, f, laws[f]) for f in fields}
        return Measurements(
            data=data,
            fields=tuple(fields),
            values=_side_by_side(data.fields[f] for f in fields),
            known=every_known,
            floor=_side_by_side(np.broadcast_to(law.a**2 if (law := laws[f]) else fixed[f], shape) for f in fields),
            counted=np.repeat([law.b if (law := laws[f]) else 0.0 for f in fields], data.n_nodes),
            relative=np.repeat([law.c**2 if (law := laws[f]) else 0.0 for f in fields], data.n_nodes),
            least=np.repeat([_least(data, f) if laws[f] else 0.0 for f in fields], data.n_nodes),
            correlated=alike,
            level_known=measured.noise.scale_known,
            kernels=any(width for name, width in (*kernel.items(), *box.items()) if name != "time"),
            offsets=offsets,
            weights=weights,
            on=place,
            P=None if H is None else sparse.block_diag([H] * len(fields), format="csr"),
            bend=np.repeat([above[f] for f in fields], place.n_nodes),
            V=scipy.linalg.block_diag(*[V] * len(fields)),
            mu=np.tile(mu, len(fields)),
            later=further,
        )

    def variance(self, u: Array, frame: int | slice = slice(None)) -> Array:
        """v(u) of the values at some times."""
        return np.asarray(self.floor[frame] + self.counted * (np.abs(u) + self.least) + self.relative * u**2)

    def deviance(self, u: Array) -> float:
        """2 Σ ∫_u^û (û − s)/v(s) ds of predicted values (T, s); rᵀΣ⁻¹r of correlated noise."""
        off = np.where(self.known, self.values - u, 0.0)
        if self.correlated is not None:
            return float(np.sum(off * self._weighed(off[:, :, None])[:, :, 0]))
        if not self.counted.any() and not self.relative.any():
            return float(np.sum(off**2 / self.floor))
        inside = u + off * _NODES[:, None, None]
        weights = (_WEIGHTS * (1 - _NODES))[:, None, None]
        return float(2 * np.sum(off**2 * np.sum(weights / self.variance(inside), axis=0)))

    def sums(self, u: Array, slopes: Iterable[Array]) -> tuple[Array, Array]:
        """GᵀΣ⁻¹G (p, p) and GᵀΣ⁻¹(û − u) (p,) of predictions u (T, s) and their derivatives, (s, p) for each time."""
        if self.correlated is not None and self.correlated.time is not None:
            G = np.stack(list(slopes))
            WG = self._weighed(G)
            return np.einsum("tsp,tsq->pq", G, WG, optimize=True), np.einsum("tsp,ts->p", WG, self.values - u)
        H: Any = 0.0
        slope: Any = 0.0
        for k, G in enumerate(slopes):
            if self.correlated is not None:
                WG = self._weighed_at(G, k)
            else:
                WG = (self.known[k] / self.variance(u[k], k))[:, None] * G
            H, slope = H + G.T @ WG, slope + WG.T @ (self.values[k] - u[k])
        return H, slope

    def _weighed_at(self, X: Array, frame: int) -> Array:
        """D⁻¹ρ⁻¹D⁻¹ X (s, p) at one time, as far as it is independent of others."""
        assert self.correlated is not None
        sd = np.sqrt(self.floor[frame])[:, None]
        return np.asarray(self.correlated.solve(X / sd, self.known[frame]) / sd)

    def _weighed(self, X: Array) -> Array:
        """Σ⁻¹ X (T, s, p)."""
        assert self.correlated is not None
        if self.correlated.time is None:
            return np.stack([self._weighed_at(own, k) for k, own in enumerate(X)])
        sd = np.sqrt(self.floor)[:, :, None]
        Y = np.stack([self.correlated.solve(own, frame) for own, frame in zip(X / sd, self.known, strict=True)])
        return np.asarray(np.tensordot(self.correlated.time, Y, axes=1) / sd)

    @property
    def count(self) -> int:
        """Values that are fitted; of correlated noise, directions in which they are independent."""
        return int(np.count_nonzero(self.known)) if self.correlated is None else self.correlated.count(self.known)

    def initial(self, z: Array) -> Array:
        """State (S,) at the first time."""
        w, b = self.V @ z, np.where(self.bend > 0, self.bend, 1.0)
        return np.where(self.bend > 0, b * np.logaddexp(0.0, w / b), w)

    def initial_slopes(self, z: Array) -> Array:
        """Its derivatives (S, m) by z."""
        if not self.bend.any():
            return self.V
        b = np.where(self.bend > 0, self.bend, 1.0)
        return np.asarray(np.where(self.bend > 0, expit(self.V @ z / b), 1.0)[:, None] * self.V)

    def modes(self, state: Array) -> Array:
        """z (m,) of a state (S,)."""
        b = np.where(self.bend > 0, self.bend, 1.0)
        above = np.maximum(state, _FAINT * b)
        w = np.where(self.bend > 0, above + b * np.log(-np.expm1(-above / b)), state)
        return np.asarray(self.V.T @ w)

    def solved_at(self, times: Array) -> Array:
        """Times (q T,) at which the equation is solved, for frames at times (T,)."""
        return np.asarray(np.add.outer(times, self.offsets).ravel())

    def seen(self, frames: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
        """What is measured of states (S,) and their derivatives (S, p) at :meth:`solved_at`: (s,) and (s, p)."""
        while group := list(islice(frames, len(self.weights))):
            u, G = (np.tensordot(self.weights, np.stack(part), axes=1) for part in zip(*group, strict=True))
            yield (u, G) if self.P is None else (np.asarray(self.P @ u), np.asarray(self.P @ G))

    @cached_property
    def smooth(self) -> Array:
        """States (T, S) without most of the noise, for the start."""
        states = self._at_nodes() if self.at_nodes else self._between_sensors()
        return np.where(self.bend > 0, np.maximum(states, 0.0), states)

    def _at_nodes(self) -> Array:
        found, n = smoothers(self.data), self.data.n_nodes
        parts = [self.values[:, i : i + n] for i in range(0, self.values.shape[1], n)]
        states: Array = _side_by_side(found[f].smooth(u) for f, u in zip(self.fields, parts, strict=True))
        return states

    def _between_sensors(self) -> Array:
        """V z_j with z_j = (GᵀWG + τμ)⁻¹ GᵀW û_j, G = PV, time by time; τ where û is most likely, one for all."""
        G, v = self.P @ self.V, self.variance(self.values)
        found = []
        for tau in _STRENGTHS * float(np.mean(1 / v)) * np.mean(G**2) / self.mu.max():
            z, log = [], 0.0
            for values, known, own in zip(self.values, self.known, v, strict=True):
                W = known / own
                H = (G.T * W) @ G + np.diag(tau * self.mu + _ZERO * tau * self.mu.max())
                factor = scipy.linalg.cho_factor(H)
                z.append(scipy.linalg.cho_solve(factor, G.T @ (W * values)))
                log += z[-1] @ (G.T @ (W * values)) - 2 * float(np.log(np.diag(factor[0])).sum())
            found.append((log + len(z) * self.rank * np.log(tau), np.array(z)))
        return np.asarray(max(found, key=lambda pair: pair[0])[1] @ self.V.T)

    @property
    def extremes(self) -> Data:
        """Smooth states; those that noise does not distinguish from zero are zero."""
        noise = float(np.sqrt(np.mean(self.variance(self.values))))
        return self.as_data(np.where(np.abs(self.smooth) < _UNCLEAR * noise, 0.0, self.smooth))

    def as_data(self, values: Array) -> Data:
        """Values (T, S) by field; those without an equation as they were measured."""
        own = dict(zip(self.fields, np.split(values, len(self.fields), axis=1), strict=True))
        if not self.at_nodes:
            return Data(self.data.times, own, self.on)
        return self.data.with_fields({**self.data.fields, **own})

    @property
    def positive(self) -> tuple[str, ...]:
        """Fields that are not below zero."""
        return tuple(f for f, b in zip(self.fields, np.split(self.bend, len(self.fields)), strict=True) if b[0] > 0)

    @property
    def averaged(self) -> bool:
        """Whether values are averages over time or places, not those of the fields."""
        return self.kernels or len(self.offsets) > 1

    @property
    def at_nodes(self) -> bool:
        """Whether the equation is solved where the data are."""
        return self.on is self.data.geometry

    @property
    def sparse(self) -> bool:
        """Whether the state between the places of the data is a matter of its prior."""
        return self.on.n_nodes > _SPARSE * self.data.n_nodes

    def some_modes(self, most: int = _MOST_MODES) -> Measurements:
        """The same with so many modes of each field at most, by default those that nonlinear equations can carry."""
        count = len(self.mu) // len(self.fields)
        kept = np.concatenate([np.arange(min(count, most)) + i * count for i in range(len(self.fields))])
        return self if len(kept) == len(self.mu) else replace(self, V=self.V[:, kept], mu=self.mu[kept])

    @property
    def rank(self) -> int:
        """Modes that the prior holds."""
        return int(np.count_nonzero(self.mu))

    @cached_property
    def fineness(self) -> Array:
        """κ/κ_m of all modes, (m,): κ = μ^½ is their squared wave number, κ_m the middle one."""
        held = self.mu[self.mu > 0]
        return np.asarray(np.sqrt(self.mu / np.median(held))) if held.size else self.mu

    def precisions(self, law: Array) -> Array:
        """p (m,) of the modes, from (log a, log l, log q) of each field, (fields, 3); zero without a prior."""
        a, scale, q = self._each(law)
        exponent = np.clip(np.log(a) + q * np.log1p(self.fineness / scale), -_LARGEST, _LARGEST)
        return np.where(self.mu > 0, np.exp(exponent), 0.0)

    def _each(self, law: Array) -> Array:
        """a, l and q of each mode, (3, m), of laws that may be out of all bounds."""
        return np.repeat(np.exp(np.clip(law, -_LARGEST, _LARGEST)), len(self.mu) // len(law), axis=0).T

    def precision_slopes(self, law: Array) -> Array:
        """∂ log p/∂ law of each mode, by the parameters of its own field, (3, m)."""
        _, scale, q = self._each(law)
        x = self.fineness / scale
        return np.asarray((self.mu > 0) * np.stack([np.ones_like(x), -q * x / (1 + x), q * np.log1p(x)]))


def _law(noise: Noise | None, measured: Measurement, name: str) -> SignalNoise | None:
    """How the noise of a field grows with the signal; None where it does not."""
    if isinstance(noise, SignalNoise):
        return noise
    found = None if measured.growth is None else measured.growth.get(name)
    return found if found is not None and found.significant else None


def _variance(measured: Measurement) -> dict[str, Array]:
    """Variance by field, or its shape where the level is not known."""
    shape = shape_of(without_blur(measured.noise))
    if isinstance(shape, Covariance):
        return shape.variances(measured.data.names, measured.data.n_nodes)
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


def _bend(data: Data, name: str, law: SignalNoise | None) -> float:
    """b of counts, and a part of the size of the field at least; zero where values may be below zero."""
    values = observed(data, name)
    if law is None or law.b == 0 or np.nanmin(values) < 0:
        return 0.0
    return max(law.b, _BENDS * float(np.sqrt(np.nanmean(np.square(values)))))


def _finer(data: Data) -> Grid | Mesh:
    """The line with a node more between each two, where nodes are few; else where the data are."""
    grid = data.geometry
    if not isinstance(grid, Grid) or grid.dim != 1 or grid.periods or data.auxiliary or grid.n_nodes > _FEW:
        return grid
    (name,), (x,) = grid.names, grid.axes.values()
    between = np.sort(np.concatenate([x, 0.5 * (x[1:] + x[:-1])]))
    return Grid(coordinates=grid.coordinates, **{name: between})


def _most_modes(place: Grid | Mesh, data: Data, sensors: bool) -> int:
    """How many there are at most: all on grids of a middle size, which linear equations can carry."""
    if sensors:
        return min(_MOST_MODES, data.n_nodes * _PER_SENSOR)
    return min(_MOST_LINEAR if isinstance(place, Grid) and place.n_nodes <= _MOST_LINEAR else _MOST_MODES, data.n_nodes)


def _modes(geometry: Grid | Mesh, most: int) -> tuple[Array, Array]:
    """Eigenvectors V (n, m) and eigenvalues μ (m,) of Σ_a D_aᵀD_a, the smoothest first."""
    pairs = [np.linalg.eigh((D.T @ D).toarray()) for D in second_differences(geometry, np.zeros(1))[1:]]
    mu = reduce(np.add.outer, [np.where(m > _ZERO * m.max(), m, 0.0) for m, _ in pairs], np.zeros(()))
    order = np.argsort(mu, axis=None, kind="stable")[:most]
    places = np.unravel_index(order, mu.shape) if mu.ndim else ()
    V = reduce(
        lambda left, right: (left[:, None, :] * right[None, :, :]).reshape(-1, len(order)),
        [v[:, place] for (_, v), place in zip(pairs, places, strict=True)],
        np.ones((1, len(order))),
    )
    return V, mu.ravel()[order]


def _side_by_side(parts: Iterable[Any]) -> Any:
    return np.ascontiguousarray(np.concatenate(list(parts), axis=1))
