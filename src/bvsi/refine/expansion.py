"""What the data say at one point: sums over them, the expansion of their likelihood, and the Gaussian law of it.

With Φ the deviance plus both exponents, and A = ½ Φ_θθ, B = ½ Φ_zθ, C = ½ Φ_zz its Gauss–Newton curvature:

    S = A − Σ BᵀC⁻¹B,     (θ, z) ~ N((θ̂, ẑ), ½ Φ″⁻¹)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import OutOfTimeError, Progress, silent
from bvsi.errors import BvsiError
from bvsi.forward.semidiscrete import StepFailedError
from bvsi.forward.tangents import solve_with_tangents
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.nuts import NUTS
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.infer.posteriors.closed_form import covariance_root
from bvsi.infer.priors import PriorDensity
from bvsi.infer.sampling import LogPosterior, prepare
from bvsi.likelihood import ValueGradient
from bvsi.refine.instrument import RefineError
from bvsi.refine.linear import Propagated
from bvsi.refine.measurements import Measurements
from bvsi.refine.model import ForwardFit, ForwardModel
from bvsi.refine.prior import inverse_along
from bvsi.residual.discrete import NotFiniteError

_KEPT = 20_000_000  # derivatives that are kept to be used again: 160 MB


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters: θ (d,), z (m,) and the law of it (fields, 3) of each experiment, σ², and steps between frames.

    Attributes
    ----------
    near
        Propagators of linear equations, at coefficients not far from θ.
    longer
        How many times as long as those of the state the steps of its derivatives are: one until steps are short enough.
    slopes
        Derivatives (T, s, d + m) of each experiment at a point nearby, that serve here; none where they are made anew.
    """

    theta: Array
    z: tuple[Array, ...]
    law: tuple[Array, ...]
    level: float
    steps: int
    near: tuple[Propagated | None, ...]
    longer: int = 1
    slopes: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False)
class Sums:
    """What the data say at a point, of each experiment, with σ² = 1: GᵀWG, GᵀWr, G the derivatives by (θ, z).

    Attributes
    ----------
    slopes
        G (T, s, d + m) of each experiment that may serve nearby; none where there are too many, or log|C| is asked for.
    """

    curvature: tuple[Array, ...]
    slope: tuple[Array, ...]
    deviance: float
    slopes: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False)
class Volume:
    """Σ log|C| around θ (d,): its gradient (d,) and curvature (d, d), and S (d, d), which tells how far is far.

    Attributes
    ----------
    freed
        (d, d), what S loses since the laws of the initial states follow θ.
    """

    theta: Array
    gradient: Array
    curvature: Array
    S: Array
    freed: Array

    def slope(self, theta: Array) -> Array:
        """Gradient (d,) at another θ."""
        return self.gradient + self.curvature @ (theta - self.theta)

    def change(self, theta: Array, other: Array) -> float:
        """From θ to another one."""
        x = other - theta
        return float(self.slope(theta) @ x + 0.5 * x @ self.curvature @ x)

    def within(self, theta: Array, distance: float) -> bool:
        """Whether θ is that near, in standard deviations."""
        x = theta - self.theta
        return bool(x @ self.S @ x <= distance**2)


@dataclass(frozen=True, eq=False)
class Expansion:
    """Φ, and of Φ + Σ log|C| −½ gradient, ½ curvature: A (d, d), g (d,) of θ; B (m, d), C (m, m), h (m,) of each z.

    Equalities leave the columns of T (d, n) free.
    """

    phi: float
    A: Array
    g: Array
    B: tuple[Array, ...]
    C: tuple[Array, ...]
    h: tuple[Array, ...]
    T: Array

    @staticmethod
    def of(model: ForwardModel, point: Point, sums: Sums, volume: Volume | None = None) -> Expansion:
        """Data and priors together."""
        d = len(point.theta)
        H, slope = sums.curvature, [g / point.level for g in sums.slope]
        held = [one.precisions(law) for one, law in zip(model.experiments, point.law, strict=True)]
        phi = sums.deviance / point.level + model.prior.exponent(point.theta)
        phi += sum(float(np.sum(p * z**2)) for p, z in zip(held, point.z, strict=True))
        C = tuple(_raised(own[d:, d:] / point.level, p) for own, p in zip(H, held, strict=True))
        gradient = np.zeros(d) if volume is None else volume.slope(point.theta)
        curvature = np.zeros((d, d)) if volume is None else volume.curvature - 2 * volume.freed
        return Expansion(
            phi,
            sum(own[:d, :d] / point.level for own in H) + model.prior.information(point.theta) + 0.5 * curvature,
            sum(own[:d] for own in slope) + model.prior.pull(point.theta) - 0.5 * gradient,
            tuple(own[d:, :d] / point.level for own in H),
            C,
            tuple(own[d:] - p * z for own, p, z in zip(slope, held, point.z, strict=True)),
            model.prior.T,
        )

    @property
    def log_volume(self) -> float:
        """Σ log|C|."""
        return sum(2 * float(np.log(np.diag(factor)).sum()) for factor, _ in self.factors)

    @cached_property
    def factors(self) -> tuple[Any, ...]:
        """Of each C."""
        return tuple(map(scipy.linalg.cho_factor, self.C))

    @cached_property
    def coupled(self) -> tuple[Array, ...]:
        """C⁻¹B of each z."""
        return tuple(scipy.linalg.cho_solve(f, B) for f, B in zip(self.factors, self.B, strict=True))

    @cached_property
    def reduced(self) -> tuple[Array, Array]:
        """S = A − Σ BᵀC⁻¹B and g − Σ BᵀC⁻¹h."""
        S = self.A - sum(B.T @ K for B, K in zip(self.B, self.coupled, strict=True))
        return 0.5 * (S + S.T), self.pull(self.g, self.h)

    def pull(self, g: Array, h: Sequence[Array]) -> Array:
        """g − Σ BᵀC⁻¹h (d,)."""
        return np.asarray(g - sum(K.T @ own for K, own in zip(self.coupled, h, strict=True)))

    @property
    def convex(self) -> bool:
        """Whether S is positive along the equalities."""
        return bool(np.linalg.eigvalsh(self.T.T @ self.reduced[0] @ self.T)[0] > 0)

    def damped(self, damping: float) -> Expansion:
        """With diagonals of A and C that are larger by a part."""
        if damping == 0:  # its factors serve again
            return self
        A, *C = (_raised(X.copy(), damping * np.diag(X)) for X in (self.A, *self.C))
        return replace(self, A=A, C=tuple(C))


def _raised(X: Array, p: Array) -> Array:
    """X + diag(p), in place of X: with thousands of modes every further matrix takes time."""
    X[np.diag_indices_from(X)] += p
    return X


@dataclass(frozen=True, eq=False)
class Joint:
    """The Gaussian law of (θ, z): S⁻¹ of θ, the slope of Φ there, C⁻¹B and the covariance of each z, log|S|.

    With equalities they are T (TᵀST)⁻¹ Tᵀ and log|TᵀST|.
    """

    inverse: Array
    slope: Array
    coupled: tuple[Array, ...]
    of_z: tuple[Array, ...]
    logdet: float

    @staticmethod
    def of(at: Expansion) -> Joint:
        """Without damping."""
        S, slope = at.reduced
        inverse, logdet = inverse_along(S, at.T)
        own = [scipy.linalg.cho_solve(f, np.eye(len(K))) for f, K in zip(at.factors, at.coupled, strict=True)]
        of_z = tuple(c + K @ inverse @ K.T for c, K in zip(own, at.coupled, strict=True))
        return Joint(inverse, slope, at.coupled, of_z, logdet)

    def used(self, model: ForwardModel, point: Point) -> float:
        """Parameters that the data determine: all, less what the priors say about them."""
        told = float(np.sum(self.inverse * model.prior.information(point.theta)))
        for one, law, covariance in zip(model.experiments, point.law, self.of_z, strict=True):
            told += float(one.precisions(law) @ np.diag(covariance))
        return model.prior.free + sum(map(len, point.z)) - told

    def prior_part(self, one: Measurements, law: Array, number: int) -> Array:
        """Variance of the modes of an initial state over that of their prior, (m,); zero of modes without one."""
        return np.asarray(one.precisions(law) * np.diag(self.of_z[number]))

    def initial_sd(self, slopes: Array, number: int) -> Array:
        """Standard deviations (S,) of an initial state with derivatives (S, m) by z."""
        return np.asarray(np.sqrt(np.einsum("sm,mn,sn->s", slopes, self.of_z[number], slopes, optimize=True)))

    def drawn(self, number: int, count: int, rng: Rng) -> tuple[Array, Array]:
        """So many draws of θ and z of an experiment, less their means, (d, k) and (m, k)."""
        root = covariance_root(self.inverse).R
        x = root @ rng.standard_normal((root.shape[1], count))
        K = self.coupled[number]
        own = self.of_z[number] - K @ self.inverse @ K.T
        return x, np.linalg.cholesky(own) @ rng.standard_normal((len(own), count)) - K @ x

    def spread(self, number: int, G: Array, drawn: tuple[Array, Array] | None = None) -> Array:
        """Standard deviations (s,) of values of an experiment with derivatives G (s, d + m), or along draws."""
        if drawn is not None:
            d = len(self.inverse)
            return np.asarray(np.sqrt(np.mean((G[:, :d] @ drawn[0] + G[:, d:]) ** 2, axis=1)))
        cross = -self.inverse @ self.coupled[number].T
        covariance = np.block([[self.inverse, cross], [cross.T, self.of_z[number]]])
        return np.asarray(np.sqrt(np.einsum("sp,pq,sq->s", G, covariance, G, optimize=True)))


def sums_at(model: ForwardModel, point: Point) -> Sums | None:
    """Sums over the data at a point; None where the equation cannot be solved there."""
    model.watch()
    curvatures, slopes, deviance = [], [], 0.0
    count = sum(one.values.size * (len(point.theta) + len(one.mu)) for one in model.experiments)
    keeping, kept = model.profiled and not model.propagating and count <= _KEPT, list(point.slopes)
    for number, one in enumerate(model.experiments):
        try:
            u = model.predicted(point.theta, point.z[number], number, point.steps)
            if (near := point.near[number]) is not None:
                H, slope = near.H, near.slope(one, one.values - u)
            else:
                if keeping and not point.slopes:
                    kept.append(np.stack(list(_slopes(model, point, number))))
                H, slope = one.sums(u, kept[number] if kept else _slopes(model, point, number))
        except (StepFailedError, NotFiniteError):
            return None
        curvatures.append(H)
        slopes.append(slope)
        deviance += one.deviance(u)
    return Sums(tuple(curvatures), tuple(slopes), deviance, tuple(kept))


def sums_alone(model: ForwardModel, point: Point) -> Sums | None:
    """Sums over the data of θ alone, z being what it is; None where the equation cannot be solved there."""
    curvatures, slopes, deviance = [], [], 0.0
    for number, one in enumerate(model.experiments):
        try:
            u, G = model.solved(point.theta, point.z[number], number, point.steps)
        except (StepFailedError, NotFiniteError):
            return None
        H, slope = one.sums(u, G)
        curvatures.append(H)
        slopes.append(slope)
        deviance += one.deviance(u)
    return Sums(tuple(curvatures), tuple(slopes), deviance)


def renewed(model: ForwardModel, point: Point, *, whole: bool = True) -> Point:
    """With propagators at θ, or only with derivatives by θ as they are there."""
    near = list(point.near)
    for k, (one, made) in enumerate(zip(model.experiments, model.simulators, strict=True)):
        if model.propagates(k):
            known = None if whole else point.near[k]
            _, G = model.solved(point.theta, point.z[k], k, point.steps)
            near[k] = Propagated.of(one, made, point.theta, G, known)
    return replace(point, near=tuple(near))


def _slopes(model: ForwardModel, point: Point, number: int) -> Iterator[Array]:
    return (G for _, G in model.experiments[number].seen(_tangents(model, point, number)))


def _tangents(model: ForwardModel, point: Point, number: int) -> Iterator[tuple[Array, Array]]:
    return frames_at(model, replace(point, steps=max(1, point.steps // point.longer)), number)


def frames_at(
    model: ForwardModel,
    point: Point,
    number: int,
    later: Sequence[float] | Array = (),
    drawn: tuple[Array, Array] | None = None,
) -> Iterator[tuple[Array, Array]]:
    """State (S,) and derivatives (S, d + m) by θ and z of one experiment, within the frames of the data and some later.

    Parameters
    ----------
    drawn
        Changes of θ and z, (d, k) and (m, k); derivatives are then along those of z, (S, d + k).
    """
    one, z, near = model.experiments[number], point.z[number], point.near[number]
    if near is not None and drawn is not None:
        u, made = model.predicted(point.theta, z, number, point.steps), model.simulators[number]
        return near.frames(one, made, point.theta, u, point.steps, np.asarray(later), drawn[1])
    start, slopes, times = one.initial(z), one.initial_slopes(z), np.append(one.data.times, later)
    slopes = slopes if drawn is None else slopes @ drawn[1]
    return solve_with_tangents(model.simulators[number], point.theta, start, slopes, one.solved_at(times), point.steps)


def changes(model: ForwardModel, point: Point, other: Point) -> list[Array] | None:
    """By how much predictions (T, s) of each experiment differ at another point; None where it cannot be solved."""
    found = []
    for number in range(len(model.experiments)):
        try:
            here, there = (model.predicted(p.theta, p.z[number], number, p.steps) for p in (point, other))
        except (StepFailedError, NotFiniteError):
            return None
        found.append(there - here)
    return found


def size_of(model: ForwardModel, point: Point, change: Sequence[Array]) -> float:
    """Of a change (T, s) of the predictions, in standard deviations of the noise, over all values."""
    pairs = zip(model.experiments, change, strict=True)
    return float(np.sqrt(sum(np.sum(one.known * x**2 / one.variance(one.values)) for one, x in pairs) / point.level))


def pulled(point: Point, at: Expansion, model: ForwardModel, change: Sequence[Array]) -> float:
    """Standard deviations by which a coefficient moves, at most, if predictions change so; needs propagators."""
    d, triples = len(point.theta), zip(model.experiments, point.near, change, strict=True)
    b = [near.slope(one, x) / point.level for one, near, x in triples if near is not None]
    slope = at.pull(np.sum([own[:d] for own in b], axis=0), [own[d:] for own in b])
    inverse, _ = inverse_along(at.reduced[0], at.T)
    sd = np.sqrt(np.diag(inverse))
    return float((np.abs(inverse @ slope)[sd > 0] / sd[sd > 0]).max())


# Chains: steps of derivatives are so many times longer than those of the state, as in :mod:`bvsi.refine.fitting`.
_LONGER = 4
# Fall of Φ that a step of z alone promises, below which what it promises is as good as made, and steps at most.
_NEARLY, _STEPS = 0.1, 8
At = Callable[[Array], tuple[ForwardModel, Array]]


def sampled(
    model: ForwardModel, fit: ForwardFit, nuts: NUTS, at: At | None = None, *, rng: Rng, progress: Progress = silent
) -> ForwardFit:
    """The fit with a posterior of draws in place of the Gaussian one. ::

        log p(θ, z | û) = −½ Φ(θ, z),        ∂/∂(θ, z) = (g, h)
        log p(θ | û) = −½ min_z Φ(θ, z),     ∂/∂θ = g − Σ BᵀC⁻¹h

    The density is that of the fit, and so are the law of the modes and σ². Where initial states are integrated out,
    chains are of (θ, z), and z is left out of the draws. Where they are at their best they are so for every θ: beside
    the best z at θ̂ and what C⁻¹B makes of θ − θ̂, a step of z or two with C at θ̂. Derivatives are those at θ̂ there,
    where they were kept; chains with gradients that are not exact have the law of their density all the same. Chains
    run where the Gaussian law of the fit is N(0, I), so that most steps take a few gradients.

    Parameters
    ----------
    nuts
        Draws, tuning and chains; its objective is not used.
    at
        The operators, and the coefficients θ (d,) there, where parameters inside operators are among the unknowns.
    """
    z = tuple(one.modes(state) for one, state in zip(model.experiments, fit.initial, strict=True))
    point = Point(fit.theta, z, fit.smoothness, fit.level, fit.steps, (None,) * len(z), _LONGER)
    point = renewed(model, point) if model.propagating else point
    sums, stopped = sums_at(model, point), list[OutOfTimeError]()
    if sums is None:
        raise RefineError("sample: the equation cannot be solved again where the fit ended.")
    point, mode = replace(point, slopes=sums.slopes), Expansion.of(model, point, sums)

    def expanded(there: Point) -> Expansion | None:
        own, theta = (model, there.theta) if at is None else at(there.theta)
        sums = None if stopped else sums_at(own, replace(there, theta=theta))
        return None if sums is None else Expansion.of(own, there, sums)

    def log_posterior(unknowns: Array) -> ValueGradient:
        if model.profiled:
            return _at_best(point, mode, unknowns, expanded)
        theta, *own = np.split(unknowns, ends[:-1])
        found = expanded(replace(point, theta=theta, z=tuple(own)))
        if found is None:
            return ValueGradient(-np.inf, np.zeros(len(unknowns)))
        return ValueGradient(-0.5 * found.phi, np.concatenate([found.g, *found.h]))

    ends = np.cumsum([len(fit.theta), *(() if model.profiled else map(len, z))])
    names = (*model.names, *(f"z_{k}" for k in range(ends[-1] - ends[0])))
    A = np.pad(model.bounds.A, ((0, 0), (0, int(ends[-1] - ends[0]))))
    bounds = LinearConstraints(names, A, model.bounds.lower, model.bounds.upper, model.bounds.texts)
    best = np.concatenate([fit.theta, *(() if model.profiled else z)])
    precision = mode.reduced[0] if model.profiled else _whole(mode)
    base = GaussianPosterior(names, best, inverse_along(precision, bounds.affine().T)[0])
    law = TruncatedPosterior(base, bounds, best) if bounds else base
    target = LogPosterior(names, log_posterior, PriorDensity(names, (), ()), bounds)

    def told(done: float, total: float | None, what: str) -> None:
        """Progress; what ends it is kept, since the sampler has words of its own for it."""
        try:
            progress(done, total, what)
        except OutOfTimeError as error:
            stopped.append(error)
            raise

    try:
        draws = nuts.sample(prepare(target, law, rng), model.names, rng=rng, progress=told)
    except BvsiError as error:
        if stopped:
            raise stopped[0] from error
        raise RefineError(f"sample: {error}") from error
    return replace(fit, posterior=draws)


def _at_best(point: Point, mode: Expansion, theta: Array, at: Callable[[Point], Expansion | None]) -> ValueGradient:
    """−½ min_z Φ(θ, z) and its gradient (d,), from an expansion at a point; what the last step promises is made."""
    x = theta - point.theta
    z = [z - K @ x for z, K in zip(point.z, mode.coupled, strict=True)]
    for _ in range(_STEPS):
        if (found := at(replace(point, theta=theta, z=tuple(z)))) is None:
            break
        y = [scipy.linalg.cho_solve(f, h) for f, h in zip(mode.factors, found.h, strict=True)]
        promised = sum(float(h @ own) for h, own in zip(found.h, y, strict=True))
        if promised < _NEARLY:
            pull = sum(K.T @ h for K, h in zip(mode.coupled, found.h, strict=True))
            return ValueGradient(-0.5 * (found.phi - promised), np.asarray(found.g - pull))
        z = [own + step for own, step in zip(z, y, strict=True)]
    return ValueGradient(-np.inf, np.zeros(len(theta)))


def _whole(at: Expansion) -> Array:
    """½ Φ″ (d + m, d + m) of coefficients and the modes of all experiments."""
    C = scipy.linalg.block_diag(*at.C)
    B: Sequence[Array] = at.B
    return np.block([[at.A, np.concatenate(B).T], [np.concatenate(B), C]])
