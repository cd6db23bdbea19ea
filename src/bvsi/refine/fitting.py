"""One equation fitted to the measurements themselves, by forward solves: the observation-space posterior.

    û_j = P u(t_j) + ε_j,     u_t = Σ_i θ_i F_i(u),     u(t_0) from V z,     p(z | τ) ∝ τ^{r/2} exp(−½ τ zᵀμz)

r is the number of positive μ; the other modes are free.
With Φ the deviance plus both exponents, H its Gauss–Newton curvature with the blocks A = Φ_θθ, B = Φ_zθ, C = Φ_zz:

    S = A − BᵀC⁻¹B,     θ | û ~ N(θ̂, S⁻¹) within bounds,     τ = (r − τ tr(μ Σ_z))/zᵀμz    (its most likely value)
    log p(û | model) = log p(û | θ̂) − Σ_i (½ θ̂_i²/s_i² + log s_i) − ½ log|S|
    log p(û | θ) = −½ (Φ − Σ_i θ_i²/s_i²) + ½ r log τ − ½ log|C|

up to what all models share.

θ̂ is where log p(û | θ) − Σ_i ½ θ_i²/s_i² is largest, and S is taken there with half the curvature of log|C|: the
initial state is marginalised, not profiled. Every experiment has its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from bvsi.common.arrays import Array
from bvsi.forward.semidiscrete import StepFailedError
from bvsi.forward.tangents import solve_with_tangents
from bvsi.infer.constraints.program import solve_program
from bvsi.infer.fit import Reason, Status
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.refine.measurements import Measurements, RefineError
from bvsi.refine.model import ForwardFit, ForwardModel
from bvsi.residual.discrete import NotFiniteError

# Change of the predictions, in standard deviations of the noise summed over all data, that halved steps may make: no
# estimate is then off by more than this part of its standard deviation.
_TIME_ERROR = 0.1
_MOST_STEPS = 256  # between two frames, not measured
# Change of Φ that a step promises below which the iteration ends: estimates within 0.03 of their standard deviation.
_CONVERGED = 1e-3
_ITERATIONS = 80  # the assays take 6 to 20
# Levenberg's λ: the first, factors after a good and a bad step, the least after a bad one, and the last.
_DAMPING = (1e-3, 0.2, 4.0, 0.03, 1e8)
_GOOD = 0.3  # part of the promised fall of Φ that a good step has: Gauss–Newton steps of counts go back and forth
_NEAR = 30.0  # promised fall of Φ below which slopes of log|C| are worth their solves
_APART = 0.5  # standard deviations over which they are differenced, and up to which they serve
_CLOSE = 0.1  # those within which they were taken, in the end
_ROOM = 0.02  # distance of a start from bounds, in units of s
_TIE = 0.01  # by which Φ may grow in a step: the integral of the deviance is not exact
_SETTLED = 0.02  # change of log τ and log σ² below which they stand
_STRIDE = 10.0  # factor by which τ and σ² change in one step, at most
_SMOOTHEST = 1e-6  # roughness, as a part of the mean square of the field, that an initial state has at least
_UNSOLVED = "refine: the equation cannot be solved from the smoothed first frame; is it stable?"
# Powers of e by which short waves may grow in a solution that goes where diffusion is negative: what rounding and
# interpolation leave around zero of degenerate diffusion stays harmless below one.
_RUNS_AWAY = 1.0
_ILL_POSED = "refine: the solution goes where diffusion is negative at the highest order: the equation is ill-posed."
_STALLED = "No step lowers the misfit, or all steps were used up: the estimate is not the most probable one."


@dataclass(frozen=True, eq=False)
class _Parameters:
    """Parameters: θ (d,), z (m,) of each experiment, τ of each of their modes (m,), σ², and steps between frames."""

    theta: Array
    z: tuple[Array, ...]
    tau: tuple[Array, ...]
    level: float
    steps: int


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the data say at a point, of each experiment, with σ² = 1: GᵀWG, GᵀWr, G the derivatives by (θ, z)."""

    curvature: tuple[Array, ...]
    slope: tuple[Array, ...]
    deviance: float


@dataclass(frozen=True, eq=False)
class _Volume:
    """Σ log|C| around θ (d,): its gradient (d,) and curvature (d, d), and S (d, d), which says how far is far."""

    theta: Array
    gradient: Array
    curvature: Array
    S: Array

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
class _Expansion:
    """Φ, and of Φ + Σ log|C| −½ gradient, ½ curvature: A (d, d), g (d,) of θ; B (m, d), C (m, m), h (m,) of each z."""

    phi: float
    A: Array
    g: Array
    B: tuple[Array, ...]
    C: tuple[Array, ...]
    h: tuple[Array, ...]

    @staticmethod
    def of(model: ForwardModel, point: _Parameters, sums: _Sums, volume: _Volume | None = None) -> _Expansion:
        """Data and priors together."""
        d, scale = len(point.theta), model.scale
        H, slope = [H / point.level for H in sums.curvature], [g / point.level for g in sums.slope]
        held = [tau * one.mu for one, tau in zip(model.experiments, point.tau, strict=True)]
        phi = sums.deviance / point.level + float(np.sum((point.theta / scale) ** 2))
        phi += sum(float(np.sum(p * z**2)) for p, z in zip(held, point.z, strict=True))
        C = tuple(own[d:, d:] + np.diag(p) for own, p in zip(H, held, strict=True))
        gradient = np.zeros(d) if volume is None else volume.slope(point.theta)
        curvature = np.zeros((d, d)) if volume is None else volume.curvature
        return _Expansion(
            phi,
            sum(own[:d, :d] for own in H) + np.diag(scale**-2.0) + 0.5 * curvature,
            sum(own[:d] for own in slope) - point.theta / scale**2 - 0.5 * gradient,
            tuple(own[d:, :d] for own in H),
            C,
            tuple(own[d:] - p * z for own, p, z in zip(slope, held, point.z, strict=True)),
        )

    def reduced(self, factors: Sequence[Any], damping: float = 0.0) -> tuple[Array, Array]:
        """S = A − Σ BᵀC⁻¹B and g − Σ BᵀC⁻¹h, from the factors of C."""
        S, slope = self.A + damping * np.diag(np.diag(self.A)), self.g.copy()
        for B, h, factor in zip(self.B, self.h, factors, strict=True):
            solved = scipy.linalg.cho_solve(factor, np.column_stack([B, h]))
            S -= B.T @ solved[:, :-1]
            slope -= B.T @ solved[:, -1]
        return 0.5 * (S + S.T), slope


def fit_forward(model: ForwardModel, starts: Sequence[Array] = (), like: ForwardFit | None = None) -> ForwardFit:
    """Gauss–Newton steps with Levenberg's damping, within the bounds, from the best of some starts.

    Parameters
    ----------
    starts
        Coefficients (d,) to begin with, beside :meth:`ForwardModel.start`.
    like
        Fit of fewer operators to the same data, from which alone to begin.
    """
    begin = [*starts, model.start()] if like is None else list(starts)
    steps = 1 if like is None else like.steps
    while steps <= _MOST_STEPS:
        first = _first(model, begin, like, steps)
        found = _fitted(model, *first)
        if found is not None:
            return _result(model, found)
        steps = 2 * first[0].steps  # what was found is no solution of the equation, but of too long steps
    raise RefineError(_UNSOLVED)


@dataclass(frozen=True, eq=False)
class _Solved:
    """Where the iteration ended, with what was summed there, and the slopes of Σ log|C|."""

    point: _Parameters
    sums: _Sums
    volume: _Volume | None
    status: Status


def _fitted(model: ForwardModel, point: _Parameters, sums: _Sums) -> _Solved | None:
    """The most probable point; None where the equation cannot be solved with halved steps in time."""
    damping, better, worse, least, last = _DAMPING
    checked = False  # whether steps in time are short enough, here and in the end
    volume: _Volume | None = None
    promised = np.inf
    for iteration in range(1, _ITERATIONS + 1):
        point, moved = _with_strengths(model, point, sums, volume)
        near = _CLOSE if promised < _CONVERGED else _APART
        if promised < _NEAR and (volume is None or not volume.within(point.theta, near)):
            volume = _volume(model, point, sums)
        at = _Expansion.of(model, point, sums, volume)
        _, promised = _step(model, point, at, 0.0)
        done = promised < _CONVERGED and moved < _SETTLED and volume is not None
        if done or (promised < 1 and not checked):
            checked, halved = True, replace(point, steps=2 * point.steps)
            if _differs(model, point, halved):
                again = _solved(model, halved)
                if again is None or halved.steps > _MOST_STEPS:
                    return None
                point, sums = halved, again
                continue
            if done:
                return _Solved(point, sums, volume, Status(True, iteration, "Converged."))
        step, hoped = _step(model, point, at, damping)
        tried = _solved(model, step)
        fall = -np.inf if tried is None else at.phi - _Expansion.of(model, step, tried).phi
        if volume is not None:  # as it changes with θ; with z, which is where Φ is lowest, it does not count
            fall -= volume.change(point.theta, step.theta)
        damping = better * damping if fall > _GOOD * hoped else worse * max(damping, least)
        if tried is not None and fall > -_TIE:
            point, sums = step, tried
        elif damping > last:
            break
    return _Solved(point, sums, volume, Status(False, iteration, _STALLED, frozenset({Reason.STALLED})))


def _first(
    model: ForwardModel, starts: Sequence[Array], like: ForwardFit | None, steps: int
) -> tuple[_Parameters, _Sums]:
    """The start with the lowest Φ; steps in time are halved until one can be solved."""
    states = [one.smooth[0] for one in model.experiments] if like is None else like.initial
    z = tuple(one.modes(state) for one, state in zip(model.experiments, states, strict=True))
    tau = tuple(_strengths(one, own, np.ones(len(one.fields))) for one, own in zip(model.experiments, z, strict=True))
    tau = tau if like is None else like.smoothness
    centre = np.diag(model.scale**-2.0)
    room = np.where(np.isinf(model.bounds.upper), _ROOM * np.abs(model.bounds.A) @ model.scale, 0.0)
    inner = replace(model.bounds, lower=model.bounds.lower + room)
    inside = [solve_program(centre, centre @ theta, inner) for theta in starts]
    level = 1.0 if like is None else like.level
    while steps <= _MOST_STEPS:
        points = [_Parameters(theta, z, tau, level, steps) for theta in inside]
        solved = [(point, sums) for point in points if (sums := _solved(model, point)) is not None]
        if solved:
            return min(solved, key=lambda pair: (at := _Expansion.of(model, *pair)).phi + _logdet(at))
        steps *= 2
    raise RefineError(_UNSOLVED)


def _solved(model: ForwardModel, point: _Parameters) -> _Sums | None:
    """Sums over the data at a point; None where the equation cannot be solved there."""
    model.watch()
    curvatures, slopes, deviance = [], [], 0.0
    for number, one in enumerate(model.experiments):
        p = len(point.theta) + len(one.mu)
        H, slope = np.zeros((p, p)), np.zeros(p)
        try:
            frames = _frames(model, point, number)
            for k, (state, tangents) in enumerate(frames):
                u, G = one.measured(state), one.measured(tangents)
                weight = one.known[k] / one.variance(u, k)
                H += G.T @ (weight[:, None] * G)
                slope += G.T @ (weight * (one.values[k] - u))
                deviance += one.deviance(u, k)
        except (StepFailedError, NotFiniteError):
            return None
        curvatures.append(H)
        slopes.append(slope)
    return _Sums(tuple(curvatures), tuple(slopes), deviance)


def _frames(
    model: ForwardModel, point: _Parameters, number: int, later: Sequence[float] | Array = ()
) -> Iterator[tuple[Array, Array]]:
    """State (S,) and derivatives (S, d + m) by θ and z of one experiment, at the times of the data and some later."""
    one, z = model.experiments[number], point.z[number]
    start, slopes, times = one.initial(z), one.initial_slopes(z), np.append(one.data.times, later)
    return solve_with_tangents(model.simulators[number], point.theta, start, slopes, times, point.steps)


def _step(model: ForwardModel, point: _Parameters, at: _Expansion, damping: float) -> tuple[_Parameters, float]:
    """The next point, and by how much Φ would fall if it were quadratic."""
    factors = [scipy.linalg.cho_factor(C + damping * np.diag(np.diag(C))) for C in at.C]
    S, slope = at.reduced(factors, damping)
    theta = solve_program(S, S @ point.theta + slope, model.bounds)
    x = theta - point.theta
    y = [scipy.linalg.cho_solve(f, h - B @ x) for f, B, h in zip(factors, at.B, at.h, strict=True)]
    promised = 2 * at.g @ x - x @ at.A @ x
    for B, C, h, own in zip(at.B, at.C, at.h, y, strict=True):
        promised += 2 * h @ own - own @ C @ own - 2 * own @ B @ x
    return replace(point, theta=theta, z=tuple(z + own for z, own in zip(point.z, y, strict=True))), float(promised)


@dataclass(frozen=True, eq=False)
class _Joint:
    """The Gaussian law of (θ, z): S⁻¹ of θ, the slope of Φ there, C⁻¹B and the covariance of each z, log|S|."""

    inverse: Array
    slope: Array
    coupled: tuple[Array, ...]
    of_z: tuple[Array, ...]
    logdet: float

    @staticmethod
    def of(at: _Expansion) -> _Joint:
        """Without damping."""
        factors = [scipy.linalg.cho_factor(C) for C in at.C]
        S, slope = at.reduced(factors)
        inverse = np.linalg.inv(S)
        coupled = [scipy.linalg.cho_solve(f, B) for f, B in zip(factors, at.B, strict=True)]
        own = [scipy.linalg.cho_solve(f, np.eye(len(K))) for f, K in zip(factors, coupled, strict=True)]
        of_z = [c + K @ inverse @ K.T for c, K in zip(own, coupled, strict=True)]
        symmetric, logdet = 0.5 * (inverse + inverse.T), float(np.linalg.slogdet(S)[1])
        return _Joint(symmetric, slope, tuple(coupled), tuple(of_z), logdet)

    def used(self, model: ForwardModel, point: _Parameters) -> float:
        """Parameters that the data determine: all, less what the priors say about them."""
        told = float(np.sum(np.diag(self.inverse) / model.scale**2))
        for one, tau, covariance in zip(model.experiments, point.tau, self.of_z, strict=True):
            told += float(np.sum(tau * one.mu * np.diag(covariance)))
        return len(point.theta) + sum(map(len, point.z)) - told

    def spread(self, number: int, G: Array) -> Array:
        """Standard deviations (s,) of values of an experiment with derivatives G (s, d + m)."""
        cross = -self.inverse @ self.coupled[number].T
        covariance = np.block([[self.inverse, cross], [cross.T, self.of_z[number]]])
        return np.asarray(np.sqrt(np.einsum("sp,pq,sq->s", G, covariance, G, optimize=True)))


def _strengths(one: Measurements, z: Array, determined: Array) -> Array:
    """τ of each mode, one per field: the number of modes that the data determine, (fields,), over zᵀμz."""
    rough = (one.mu * z**2).reshape(len(one.fields), -1).sum(axis=1)
    least = _SMOOTHEST * (float(np.mean(one.smooth[0] ** 2)) or 1.0)
    return np.repeat(np.maximum(determined, _SMOOTHEST) / np.maximum(rough, least), len(z) // len(one.fields))


def _with_strengths(
    model: ForwardModel, point: _Parameters, sums: _Sums, volume: _Volume | None
) -> tuple[_Parameters, float]:
    """τ, and σ² where it is not known, nearer to the most likely ones; and by how much their logarithms moved."""
    law = _Joint.of(_Expansion.of(model, point, sums, volume))
    taus, changes = [], [0.0]
    for one, z, tau, covariance in zip(model.experiments, point.z, point.tau, law.of_z, strict=True):
        told = (one.mu > 0) - tau * one.mu * np.diag(covariance)
        found = _strengths(one, z, told.reshape(len(one.fields), -1).sum(axis=1))
        found = np.clip(found, tau / _STRIDE, tau * _STRIDE)
        changes.append(float(np.abs(np.log(found / tau)).max()) if one.rank else 0.0)
        taus.append(found)
    level = point.level
    if not model.level_known:
        level = sums.deviance / max(1.0, model.count - law.used(model, point))
        level = float(np.clip(level, point.level / _STRIDE, point.level * _STRIDE))
        changes.append(abs(math.log(level / point.level)))
    return replace(point, tau=tuple(taus), level=level), max(changes)


def _volume(model: ForwardModel, point: _Parameters, sums: _Sums) -> _Volume:
    """Gradient and curvature of Σ log|C| by θ, at the most probable z: differences over half an sd.

    Without it θ is the most probable one together with z. Where z is rough as soon as θ is small, as initial states are
    without diffusion, that is far from the θ that is most probable whatever z.
    """
    at = _Expansion.of(model, point, sums)
    factors = [scipy.linalg.cho_factor(C) for C in at.C]
    S, _ = at.reduced(factors)
    values, Q = np.linalg.eigh(S)
    R = Q / np.sqrt(values)
    coupled = [scipy.linalg.cho_solve(f, B) for f, B in zip(factors, at.B, strict=True)]
    here = _logdet(at)
    slope, bend = np.zeros(len(values)), np.zeros(len(values))
    for i, direction in enumerate(R.T):
        there = [_moved(model, point, coupled, side * _APART * direction) for side in (1, -1)]
        up, down = (None if one is None else _logdet(one) - here for one in there)
        if up is not None and down is not None:
            slope[i], bend[i] = (up - down) / (2 * _APART), (up + down) / _APART**2
        elif up is not None or down is not None:
            slope[i] = (up if up is not None else -down) / _APART  # type: ignore[operator]
    onto = S @ R
    return _Volume(point.theta, onto @ slope, (onto * np.maximum(bend, -1.0)) @ onto.T, S)


def _moved(model: ForwardModel, point: _Parameters, coupled: Sequence[Array], x: Array) -> _Expansion | None:
    """The expansion at θ + x, with z as it is most probable there; None out of bounds, or where nothing is solved."""
    theta = point.theta + x
    if not model.bounds.inside(theta, 0.0):
        return None
    there = replace(point, theta=theta, z=tuple(z - K @ x for z, K in zip(point.z, coupled, strict=True)))
    sums = _solved(model, there)
    return None if sums is None else _Expansion.of(model, there, sums)


def _logdet(at: _Expansion) -> float:
    return sum(float(np.linalg.slogdet(C)[1]) for C in at.C)


def _differs(model: ForwardModel, point: _Parameters, halved: _Parameters) -> bool:
    """Whether halved steps in time change the predictions, or cannot be solved."""
    change = 0.0
    for number, one in enumerate(model.experiments):
        try:
            coarse, fine = (model.predicted(p.theta, p.z[number], number, p.steps) for p in (point, halved))
        except (StepFailedError, NotFiniteError):
            return True
        change += float(np.sum(one.known * (fine - coarse) ** 2 / (point.level * one.variance(fine))))
    return change > _TIME_ERROR**2


def _result(model: ForwardModel, found: _Solved) -> ForwardFit:
    point, sums = found.point, found.sums
    at = _Expansion.of(model, point, sums, found.volume)
    law = _Joint.of(at)
    base = GaussianPosterior(model.names, point.theta + law.inverse @ law.slope, law.inverse)
    states, values, spreads = [], [], []
    for number, one in enumerate(model.experiments):
        frames = list(_frames(model, point, number, one.later))
        states.append(np.stack([u for u, _ in frames]))
        values.append(np.stack([one.measured(u) for u, _ in frames]))
        spreads.append(np.stack([law.spread(number, one.measured(G)) for _, G in frames]))
    if (
        model.growth(point.theta, [own[: one.data.n_times] for own, one in zip(states, model.experiments, strict=True)])
        > _RUNS_AWAY
    ):
        raise RefineError(_ILL_POSED)
    held = sum(
        0.5 * float(np.log(tau[one.mu > 0]).sum()) for one, tau in zip(model.experiments, point.tau, strict=True)
    )
    likelihood = held - 0.5 * (at.phi + _logdet(at) - float(np.sum((point.theta / model.scale) ** 2)))
    if not model.level_known:
        likelihood -= 0.5 * model.count * math.log(point.level)
    evidence = (
        likelihood - 0.5 * law.logdet - float(np.sum(0.5 * (point.theta / model.scale) ** 2 + np.log(model.scale)))
    )
    return ForwardFit(
        point.theta,
        TruncatedPosterior(base, model.bounds, point.theta) if model.bounds else base,
        likelihood,
        sums.deviance / point.level,
        model.count,
        law.used(model, point),
        evidence,
        model.scale,
        tuple(own[0] for own in states),
        tuple(values),
        tuple(spreads),
        point.tau,
        point.level,
        point.steps,
        found.status,
    )
