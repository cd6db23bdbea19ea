"""One equation fitted to the measurements themselves, by forward solves: the observation-space posterior.

    û_j = P u(t_j) + ε_j,     u_t = Σ_i θ_i F_i(u),     u(t_0) from V z,     z_i ~ N(0, 1/p_i), p from a law

With Φ the deviance plus both exponents, S its curvature by θ and C that by z (:mod:`bvsi.refine.expansion`):

    θ | û ~ N(θ̂, S⁻¹) within bounds
    log p(û | model) = log p(û | θ̂) − ½ (θ̂ − μ)ᵀ Λ (θ̂ − μ) + ½ log|Λ| − ½ log|S|
    log p(û | θ) = −½ (Φ − (θ − μ)ᵀ Λ (θ − μ)) + ½ Σ log p_i − ½ log|C|

up to what all models share, with the prior of :mod:`bvsi.refine.prior`. With equalities θ = c + T η the inverse of S is
T (TᵀST)⁻¹ Tᵀ, and the determinants are those of TᵀST and TᵀΛT.

θ̂ is where log p(û | θ) − ½ (θ − μ)ᵀ Λ (θ − μ) is largest, and S is taken there with half the curvature of log|C|:
the initial state is marginalised, not profiled. Every experiment has its own, and the law of its modes is the most
likely one (:mod:`bvsi.refine.model`); with h its parameters, S loses ½ L_θh L_hh⁻¹ L_hθ of L = −2 log p.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from bvsi.common.arrays import Array, Rng
from bvsi.infer.constraints import project, solve_program
from bvsi.infer.fit import Reason, Status
from bvsi.infer.posteriors import GaussianPosterior, TruncatedPosterior
from bvsi.refine.expansion import (
    Expansion,
    Joint,
    Point,
    Sums,
    Volume,
    changes,
    frames_at,
    pulled,
    renewed,
    size_of,
    sums_alone,
    sums_at,
)
from bvsi.refine.instrument import RefineError
from bvsi.refine.model import ForwardFit, ForwardModel, first_law, law_curvature, law_slope, likely_law

# Change of the predictions, in standard deviations of the noise summed over all data, that halved steps may make: no
# estimate is then off by more than this part of its standard deviation.
_TIME_ERROR = 0.1
_MOST_STEPS = 256  # between two frames, not measured
# Times as long as the steps of the state are those of its derivatives: errors of 4³ times 10⁻⁴ or so change estimates
# by as small a part of their standard deviations.
_LONGER = 4
# Times as many steps as a start can be solved with that are tried before the fit: far from the solution many may be
# needed.
_SHORT = 8
_SLOWER = 0.5  # part of the coefficients of starts that cannot be solved with which they are tried again; not measured
# Change of Φ that a step promises below which the iteration ends: estimates within 0.03 of their standard deviation.
_CONVERGED = 1e-3
# The same, within 0.1, between sensors: with hundreds of modes derivatives on longer steps promise 0.004 that no step
# keeps, and the iteration went on for 27 of 34 steps (draw 2 of seed 992201). And where the misfit is so many times
# what noise explains: Gauss–Newton steps are too long there, and error bars are no better known (six assays together).
_CONVERGED_ROUGHLY, _NOT_FITTING = 1e-2, 2.0
_ITERATIONS = 120  # the assays take 6 to 20, six of them together 80
# Levenberg's λ: the first, factors after a good and a bad step, the least after a bad one, and the last.
_DAMPING = (1e-3, 0.2, 4.0, 0.03, 1e8)
_GOOD = 0.3  # part of the promised fall of Φ that a good step has: Gauss–Newton steps of counts go back and forth
_FEW = 1.0  # promised fall of Φ below which derivatives of the point before serve; with 30 they did not (40 sensors)
_NEAR = 30.0  # promised fall of Φ below which slopes of log|C| are worth their solves
_APART = 0.5  # standard deviations over which they are differenced, and up to which they serve
_CLOSE = 0.1  # those within which they were taken, in the end
_ROOM = 0.02  # distance of a start from bounds, in units of s
_TIE = 0.01  # by which Φ may grow in a step: the integral of the deviance is not exact
_EASE = (0.5, 1.2)  # factors on the part of the way to another law where it turns back and where it does not
_SETTLED = 0.05  # change of log p and log σ² below which they stand
_STRIDE = 10.0  # factor by which σ² changes in one step, at most
_WIDEST = 30  # wide test functions of a second start: fields that move by their own width between frames have no other
_DRAWS = 32  # of initial states with many modes, for the spread of predictions: known to an eighth
_ROUGH = 10.0  # as _TIME_ERROR, of starts of linear equations; what steps do to their estimates is known in the end
_FALLS = 0.02  # part of the misfit by which steps of θ alone fall, below which they end
# Modes by sensor with which fits between sensors begin, and the steps that they take at most. With all 8 the state fits
# the data at wrong coefficients and stays there (draw 14 of seed 4400132: z up to 103); with 2 it cannot: drift
# and diffusion were within 5% of the truth, growth within 27%, in 5 to 15 steps (4 draws; with 1 within 20% and 87%).
_BEGUN_WITH, _ROUGH_STEPS = 2, 25
# Factor of the lowest misfit of such fits up to which another one goes on too, and by how many standard deviations it
# has to be elsewhere.
_AS_LOW, _ELSEWHERE = 2.0, 5.0
_NEARLY = 5.0  # log-likelihood by which another minimum may be lower than the best to be told: odds of 150
_FAR = 0.02  # part of the data by which predictions move, beyond which a propagator is made anew
_TINY = 1e-300  # precision of free modes, for logarithms
_FLAT = 1e-3  # curvature of −2 log p by the parameters of a law below which their priors do not hold them either
# Factor by which the prior of a state between sensors is made wider than it is likely to be. States are no draws of a
# Gaussian field: of bumps above zero seen by 40 sensors, coefficients were off by up to 3 sd with 1, which log|C| made
# no better, and by 1.1, 0.5 and 0.1 with 2, 4 and 10, whose error bars are 1.3, 1.5 and 2 times as wide (3 draws).
_WEAKER = 4.0
_MOST_FREED = 0.9  # part of the information on coefficients that unknown laws may take, at most
_UNSOLVED = "refine: the equation cannot be solved from the smoothed first frame; is it stable?"
# Powers of e by which short waves may grow in a solution that goes where diffusion is negative: what rounding and
# interpolation leave around zero of degenerate diffusion stays harmless below one.
_RUNS_AWAY = 1.0
_ILL_POSED = "refine: the solution goes where diffusion is negative at the highest order: the equation is ill-posed."
_STALLED = "No step lowers the misfit, or all steps were used up: the estimate is not the most probable one."


def fit_forward(
    model: ForwardModel, starts: Sequence[Array] = (), like: ForwardFit | None = None, *, rng: Rng | None = None
) -> ForwardFit:
    """Gauss–Newton steps with Levenberg's damping, within the bounds, from the best of some starts.

    Parameters
    ----------
    starts
        Coefficients (d,) to begin with, beside :meth:`ForwardModel.start`.
    like
        Fit of fewer operators to the same data, from which alone to begin.
    rng
        For draws of what is predicted where modes are many, by default ``numpy.random.default_rng(0)``.
    """
    own = [model.start(), model.start(_WIDEST)] if like is None else []
    if like is None and not model.linear:
        own.append(model.start(linear=True))
    begin = list(np.unique(np.array([*starts, *own]), axis=0))
    steps = 1 if like is None else like.steps
    while steps <= _MOST_STEPS:
        first = _first(model, begin, like, steps)
        found = [one for point, sums in first if (one := _fitted(model, point, sums)) is not None]
        if found:
            draws = np.random.default_rng(0) if rng is None else rng
            return _lowest([_result(model, one, copy.deepcopy(draws)) for one in found])
        steps = 2 * first[0][0].steps  # what was found is no solution of the equation, but of too long steps
    raise RefineError(_UNSOLVED)


def _lowest(fits: Sequence[ForwardFit]) -> ForwardFit:
    """The most likely fit; its status tells of another minimum that is nearly as low."""
    best, *others = sorted(fits, key=lambda fit: -fit.log_likelihood)
    for other in others:
        sd = np.sqrt(best.posterior.variance)
        apart = np.divide(np.abs(other.theta - best.theta), sd, out=np.zeros_like(sd), where=sd > 0)
        if apart.max() > 1 and other.log_likelihood > best.log_likelihood - _NEARLY:
            worst, less = int(np.argmax(apart)), best.log_likelihood - other.log_likelihood
            text = (
                f"{best.names[worst]} = {other.theta[worst]:.4g} in another minimum fits nearly as well "
                f"(log-likelihood {-less:.1f}): use more sensors or frames, or bound the coefficients."
            )
            return replace(best, status=best.status.noted(text, Reason.AMBIGUOUS))
    return best


@dataclass(frozen=True, eq=False)
class _Solved:
    """Where the iteration ended, with what was summed there, and the slopes of Σ log|C|."""

    point: Point
    sums: Sums
    volume: Volume | None
    status: Status


def _fitted(model: ForwardModel, point: Point, sums: Sums) -> _Solved | None:
    """The most probable point; None where the equation cannot be solved with halved steps in time."""
    damping, better, worse, least, last = _DAMPING
    checked = False  # whether steps in time are short enough, here and in the end
    volume: Volume | None = None
    promised, longer, stale = np.inf, _LONGER, False
    ways, ease = [0 * law for law in point.law], np.ones(len(point.law))
    # between sensors states of a weak prior fit the data at wrong coefficients too, and stay there
    begun = not any(one.sparse for one in model.experiments)
    between = not begun
    for iteration in range(1, _ITERATIONS + 1):
        point, sums = _near(model, point, sums)
        begun = begun or promised < _NEAR
        moved = np.inf
        if begun:
            likely, moved = _with_laws(model, point, sums, volume)
            point, ways, ease = _relaxed(point, likely, ways, ease)
        rough = between or sums.deviance > _NOT_FITTING * model.count * point.level
        enough = _CONVERGED_ROUGHLY if rough else _CONVERGED
        near = _CLOSE if promised < enough else _APART
        if promised < _NEAR and (volume is None or not volume.within(point.theta, near)):
            volume = _volume(model, point, sums)
        at = Expansion.of(model, point, sums, volume)
        if not at.convex:  # with a volume of elsewhere (seeding 20 of Jin et al., u³ with delay)
            volume, at = None, Expansion.of(model, point, sums)
        _, promised = _step(model, point, at, 0.0)
        done = promised < enough and moved < _SETTLED and volume is not None
        if done or (promised < 1 and not checked):
            halved, known = replace(point, steps=2 * point.steps), checked and model.propagating
            if not known and _differs(model, point, halved, at):
                again = sums_at(model, halved)
                if again is None or halved.steps > _MOST_STEPS:
                    return None
                point, sums, checked = halved, again, not model.propagating
                continue
            checked, point = True, replace(point, longer=longer)
            if model.propagating and not known:  # derivatives are still those of the start
                point = renewed(model, point, whole=False)
                sums = sums_at(model, point) or sums
                continue
            if done and point.slopes:
                point = replace(point, slopes=())
                sums = sums_at(model, point) or sums
                continue
            if done:
                return _Solved(point, sums, volume, Status(True, iteration, "Converged."))
        point = replace(point, slopes=sums.slopes if promised < _FEW else ())
        step, hoped = _step(model, point, at, damping)
        tried = sums_at(model, step)
        fall = -np.inf if tried is None else at.phi - Expansion.of(model, step, tried).phi
        if volume is not None:  # as it changes with θ; with z, which is where Φ is lowest, it does not count
            fall -= volume.change(point.theta, step.theta)
        damping = better * damping if fall > _GOOD * hoped else worse * max(damping, least)
        if point.slopes and fall <= _GOOD * hoped and stale:
            point, stale = replace(point, slopes=()), False
            sums = sums_at(model, point) or sums
            continue
        stale = bool(point.slopes)
        if damping > 1 and longer > 1:  # what does not fit multiplies the errors of derivatives
            longer, damping, point = 1, _DAMPING[0], replace(point, longer=1, slopes=())
            sums = sums_at(model, point) or sums
        elif tried is not None and fall > -_TIE:
            point, sums = step, tried
        elif damping > last:
            break
    return _Solved(point, sums, volume, Status(False, iteration, _STALLED, frozenset({Reason.STALLED})))


def _differs(model: ForwardModel, point: Point, halved: Point, at: Expansion) -> bool:
    """Whether halved steps in time change the predictions; with propagators, whether they change the estimate."""
    change = changes(model, point, halved)
    if change is None:
        return True
    measure = size_of(model, point, change) if None in point.near else pulled(point, at, model, change)
    return measure > _TIME_ERROR


def _near(model: ForwardModel, point: Point, sums: Sums) -> tuple[Point, Sums]:
    """The same, with propagators that are not far from θ."""
    pairs = zip(model.experiments, point.near, strict=True)
    moved = [
        float(np.linalg.norm(near.G @ (point.theta - near.theta)) / np.linalg.norm(one.values))
        for one, near in pairs
        if near is not None
    ]
    if max(moved, default=0.0) <= _FAR:
        return point, sums
    point = renewed(model, point)
    again = sums_at(model, point)
    return point, sums if again is None else again


def _first(
    model: ForwardModel, starts: Sequence[Array], like: ForwardFit | None, steps: int
) -> list[tuple[Point, Sums]]:
    """The start with the lowest Φ, between sensors more; steps in time are halved until one can be solved."""
    states = [one.smooth[0] for one in model.experiments] if like is None else like.initial
    z = tuple(one.modes(state) for one, state in zip(model.experiments, states, strict=True))
    law = tuple(map(first_law, model.experiments, z)) if like is None else like.smoothness
    metric = model.prior.precision
    room = np.where(np.isinf(model.bounds.upper), _ROOM * np.abs(model.bounds.A) @ model.prior.scale, 0.0)
    inner = replace(model.bounds, lower=model.bounds.lower + room)
    inside = [solve_program(metric, metric @ theta, inner) for theta in starts]
    level = 1.0 if like is None else like.level
    between = like is None and any(one.sparse for one in model.experiments)
    while steps <= _MOST_STEPS:
        points = [Point(theta, z, law, level, steps, (None,) * len(z)) for theta in inside]
        if model.propagating:
            points = _first_linear(model, points)
        elif between:
            points = _first_between(model, points)
        solved = [(point, sums) for point in points if (sums := sums_at(model, point)) is not None]
        if like is None and not model.level_known:  # laws of states that go with another level are far off
            solved = [(replace(point, level=max(sums.deviance / model.count, _TINY)), sums) for point, sums in solved]
        if solved and between:
            return [_short_enough(model, *one) for one in solved]
        if solved:
            if len(solved) > 1:
                solved.sort(key=lambda pair: (at := Expansion.of(model, *pair)).phi + at.log_volume)
            return [_short_enough(model, *solved[0])]
        steps *= 2
        inside += [solve_program(metric, metric @ (_SLOWER * theta), inner) for theta in inside]
    raise RefineError(_UNSOLVED)


def _short_enough(model: ForwardModel, point: Point, sums: Sums) -> tuple[Point, Sums]:
    """With steps in time that are short enough, and longer ones for derivatives; as it is where a start needs many."""
    short = None if model.propagating else _short_steps(model, point, _SHORT * point.steps)
    if short is None:
        return point, sums
    found = replace(point, steps=short, longer=_LONGER)
    again = sums_at(model, found)
    return (point, sums) if again is None else (found, again)


def _short_steps(
    model: ForwardModel, point: Point, most: int = _MOST_STEPS, allowed: float = _TIME_ERROR
) -> int | None:
    """Steps between two frames that change the predictions little when they are halved; None where more are needed."""
    while True:
        halved = replace(point, steps=2 * point.steps)
        change = changes(model, point, halved)
        if change is not None and size_of(model, point, change) <= allowed:
            return point.steps
        if halved.steps > most:
            return None
        point = halved


def _first_linear(model: ForwardModel, points: Sequence[Point]) -> list[Point]:
    """The best start after steps of θ alone, with propagators there; none where nothing is solved."""
    begun = [(sums.deviance, p) for p in points if (sums := sums_alone(model, p)) is not None]
    if not begun:
        return []
    point = _alone_fitted(model, min(begun, key=lambda pair: pair[0])[1])
    rough = _short_steps(model, point, allowed=_ROUGH) or _MOST_STEPS
    if rough > point.steps:
        point = _alone_fitted(model, replace(point, steps=rough))
    return [renewed(model, point)]


def _first_between(model: ForwardModel, points: Sequence[Point]) -> list[Point]:
    """Points where few modes fit, the lowest misfit first; others that are nearly as low and elsewhere after it."""
    few = replace(model, experiments=tuple(one.some_modes(_BEGUN_WITH * one.data.n_nodes) for one in model.experiments))
    pairs = list(zip(few.experiments, model.experiments, strict=True))
    ends: list[tuple[Point, Sums]] = []
    for point in points:
        z = tuple(own.modes(one.V @ z) for (own, one), z in zip(pairs, point.z, strict=True))
        end = _roughly_fitted(few, replace(point, z=z))
        ends += [] if end is None else [end]
    ends.sort(key=lambda end: end[1].deviance)
    kept: list[tuple[Point, Sums]] = []
    for point, sums in ends:
        if sums.deviance < _AS_LOW * ends[0][1].deviance and all(_elsewhere(few, point, one) for one in kept):
            kept.append((point, sums))
    return [
        replace(
            points[0],
            theta=p.theta,
            z=tuple(one.modes(own.initial(z)) for (own, one), z in zip(pairs, p.z, strict=True)),
        )
        for p, _ in kept
    ]


def _elsewhere(model: ForwardModel, point: Point, other: tuple[Point, Sums]) -> bool:
    """Whether coefficients differ by many of the standard deviations that residuals of the other let expect."""
    at = Expansion.of(model, *other)
    x = point.theta - other[0].theta
    return bool(x @ at.reduced[0] @ x > len(x) * _ELSEWHERE**2)


def _roughly_fitted(model: ForwardModel, point: Point) -> tuple[Point, Sums] | None:
    """Where θ and z fit nearly as well as they can, what is left of the data being taken for noise."""
    damping, better, worse, least, last = _DAMPING
    sums, slow = sums_at(model, point), 0
    for _ in range(_ROUGH_STEPS):
        if sums is None or damping > last or slow == 2:
            break
        left = sums.deviance / model.count
        point = replace(point, level=max(1.0, left) if model.level_known else left)
        at = Expansion.of(model, point, sums)
        step, hoped = _step(model, point, at, damping)
        tried = sums_at(model, step)
        fall = -np.inf if tried is None else at.phi - Expansion.of(model, step, tried).phi
        damping = better * damping if fall > _GOOD * hoped else worse * max(damping, least)
        if tried is not None and fall > 0:
            slow = slow + 1 if tried.deviance > (1 - _FALLS) * sums.deviance else 0
            point, sums = step, tried
    return None if sums is None else (point, sums)


def _alone_fitted(model: ForwardModel, point: Point) -> Point:
    """Where θ alone fits nearly as well as it can, z being what it is."""
    damping, better, worse, least, last = _DAMPING
    sums = sums_alone(model, point)
    while sums is not None and damping <= last:
        S = sum(sums.curvature) / point.level + model.prior.information(point.theta)
        damped = S + damping * np.diag(np.diag(S))
        slope = sum(sums.slope) / point.level + model.prior.pull(point.theta)
        step = replace(point, theta=solve_program(damped, damped @ point.theta + slope, model.bounds))
        tried = sums_alone(model, step)
        if tried is None or tried.deviance >= sums.deviance:
            damping = worse * max(damping, least)
            continue
        fall = 1 - tried.deviance / sums.deviance
        damping, sums, point = better * damping, tried, step
        if fall < _FALLS:
            break
    return point


def _step(model: ForwardModel, point: Point, at: Expansion, damping: float) -> tuple[Point, float]:
    """The next point, and by how much Φ would fall if it were quadratic."""
    damped = at.damped(damping)
    S, slope = damped.reduced
    theta = solve_program(S, S @ point.theta + slope, model.bounds)
    x = theta - point.theta
    y = [scipy.linalg.cho_solve(f, h - B @ x) for f, B, h in zip(damped.factors, at.B, at.h, strict=True)]
    promised = 2 * at.g @ x - x @ at.A @ x
    for B, C, h, own in zip(at.B, at.C, at.h, y, strict=True):
        promised += 2 * h @ own - own @ C @ own - 2 * own @ B @ x
    return replace(point, theta=theta, z=tuple(z + own for z, own in zip(point.z, y, strict=True))), float(promised)


def _linear(sums: Sums, point: Point, number: int) -> tuple[Array, Array]:
    """K (m, m) and b (m,) of an experiment, as :mod:`bvsi.refine.model` has them."""
    d = len(point.theta)
    K = sums.curvature[number][d:, d:] / point.level
    return K, sums.slope[number][d:] / point.level + K @ point.z[number]


def _with_laws(model: ForwardModel, point: Point, sums: Sums, volume: Volume | None) -> tuple[Point, float]:
    """The most likely laws, and σ² where it is not known; and by how much their parameters moved."""
    laws = tuple(
        (first_law(one, z) if model.propagates(k) else likely_law(one, *_linear(sums, point, k), law)) - _weaker(model)
        for k, (one, z, law) in enumerate(zip(model.experiments, point.z, point.law, strict=True))
    )
    moved = max(
        float(np.abs(np.log(np.maximum(one.precisions(new), _TINY) / np.maximum(one.precisions(old), _TINY))).max())
        for one, new, old in zip(model.experiments, laws, point.law, strict=True)
    )
    level = point.level
    if not model.level_known:
        law = Joint.of(Expansion.of(model, point, sums, volume))
        level = sums.deviance / max(1.0, model.count - law.used(model, point))
        level = float(np.clip(level, point.level / _STRIDE, point.level * _STRIDE))
        moved = max(moved, abs(math.log(level / point.level)))
    return replace(point, law=laws, level=level), moved


def _relaxed(before: Point, after: Point, last: Sequence[Array], ease: Array) -> tuple[Point, list[Array], Array]:
    """A part of the way to other laws, the ways (fields, 3), and these parts, one per experiment.

    A part is halved where its law turns back from where it went last, and grows again slowly: laws and states that
    follow each other by one step at a time go back and forth for ever with whole ways (seeding 12 of Jin et al.).
    """
    ways = [new - old for new, old in zip(after.law, before.law, strict=True)]
    turned = np.array([np.sum(way * old) < 0 for way, old in zip(ways, last, strict=True)])
    ease = np.where(turned, _EASE[0] * ease, np.minimum(1.0, _EASE[1] * ease))
    laws = [old + part * way for old, part, way in zip(before.law, ease, ways, strict=True)]
    return replace(after, law=tuple(laws)), ways, ease


def _weaker(model: ForwardModel) -> Array:
    """By how much log a, log l, log q of the likely law of modes exceed those that are used."""
    return np.array([2 * math.log(_WEAKER) if model.profiled else 0.0, 0.0, 0.0])


def _volume(model: ForwardModel, point: Point, sums: Sums) -> Volume:
    """Gradient and curvature of Σ log|C| by θ, at the most probable z: differences over half an sd.

    Without it θ is the most probable one together with z. Where z is rough as soon as θ is small, as initial states are
    without diffusion, that is far from the θ that is most probable whatever z. Between sensors, where the prior of z is
    weak, it is zero: the best z of a flat prior has a score without bias, whatever the state is.
    """
    if model.profiled:  # the same everywhere: no point is far
        zero = np.zeros((len(point.theta), len(point.theta)))
        return Volume(point.theta, zero[0], zero, zero, zero)
    at = Expansion.of(model, point, sums)
    S, _ = at.reduced
    values, Q = np.linalg.eigh(at.T.T @ S @ at.T)
    R = at.T @ Q / np.sqrt(values)
    here, own = at.log_volume, _law_slopes(model, point, sums)
    slope, bend, pulled = np.zeros(len(values)), np.zeros(len(values)), np.zeros((len(values), len(own)))
    for i, direction in enumerate(R.T):
        there = [_moved(model, point, at.coupled, side * _APART * direction) for side in (1, -1)]
        up, down = (None if one is None else (one[0].log_volume - here, one[1] - own) for one in there)
        if up is not None and down is not None:
            slope[i], bend[i] = (up[0] - down[0]) / (2 * _APART), (up[0] + down[0]) / _APART**2
            pulled[i] = (up[1] - down[1]) / (2 * _APART)
        elif (one := up or down) is not None:
            slope[i], pulled[i] = (x * (1 if up else -1) / _APART for x in one)
    onto = S @ R
    bend = np.maximum(bend, -1.0)
    freed = _freed(model, point, sums, pulled, 1 + 0.5 * bend)
    return Volume(point.theta, onto @ slope, (onto * bend) @ onto.T, S, onto @ freed @ onto.T)


def _law_slopes(model: ForwardModel, point: Point, sums: Sums) -> Array:
    """Slopes of −2 log p by the laws of all experiments, one after the other."""
    pairs = enumerate(zip(model.experiments, point.law, strict=True))
    return np.concatenate([law_slope(one, *_linear(sums, point, k), law) for k, (one, law) in pairs])


def _freed(model: ForwardModel, point: Point, sums: Sums, pulled: Array, S: Array) -> Array:
    """½ L_θh L_hh⁻¹ L_hθ (d, d) of pulled = L_θh (d, h), where ½ L_θθ is diag(S); a part of that at most."""
    pairs = enumerate(zip(model.experiments, point.law, strict=True))
    blocks = [law_curvature(one, *_linear(sums, point, k), law) for k, (one, law) in pairs]
    values, Q = np.linalg.eigh(scipy.linalg.block_diag(*blocks))
    some = pulled @ Q[:, values > _FLAT] / np.sqrt(values[values > _FLAT])
    root = np.sqrt(S)
    parts, E = np.linalg.eigh(0.5 * some @ some.T / root[:, None] / root)
    return np.asarray(root[:, None] * ((E * np.minimum(parts, _MOST_FREED)) @ E.T) * root)


def _moved(model: ForwardModel, point: Point, coupled: Sequence[Array], x: Array) -> tuple[Expansion, Array] | None:
    """The expansion and the slopes by the laws at θ + x and the z most probable there; None where nothing is solved."""
    theta = point.theta + x
    if not model.bounds.inside(theta, 0.0):
        return None
    there = replace(point, theta=theta, z=tuple(z - K @ x for z, K in zip(point.z, coupled, strict=True)))
    sums = sums_at(model, there)
    return None if sums is None else (Expansion.of(model, there, sums), _law_slopes(model, there, sums))


def _result(model: ForwardModel, found: _Solved, rng: Rng) -> ForwardFit:
    point, sums = found.point, found.sums
    at = Expansion.of(model, point, sums, found.volume)
    blunt = replace(model, prior=model.prior.blunt)
    at = replace(at, A=at.A + blunt.prior.information(point.theta) - model.prior.information(point.theta))
    law = Joint.of(at)
    base = GaussianPosterior(model.names, point.theta + law.inverse @ law.slope, law.inverse)
    states, values, spreads = [], [], []
    for number, one in enumerate(model.experiments):
        drawn = law.drawn(number, _DRAWS, rng) if model.propagates(number) else None
        longer = replace(point, steps=max(1, point.steps // point.longer))  # derivatives as those of the last sums
        moved = one.seen(frames_at(model, longer, number, one.later, drawn))
        spreads.append(np.stack([law.spread(number, G, drawn) for _, G in moved]))
        frames = list(model.frames(point.theta, point.z[number], number, point.steps, one.later))
        states.append(np.stack([u for u, _ in frames[:: len(one.offsets)]]))
        values.append(np.stack([u for u, _ in one.seen(iter(frames))]))
    if (
        model.growth(point.theta, [own[: one.data.n_times] for own, one in zip(states, model.experiments, strict=True)])
        > _RUNS_AWAY
    ):
        raise RefineError(_ILL_POSED)
    held = sum(
        0.5 * float(np.log(one.precisions(law)[one.mu > 0]).sum())
        for one, law in zip(model.experiments, point.law, strict=True)
    )
    exponent = model.prior.exponent(point.theta)
    likelihood = held - 0.5 * (at.phi + at.log_volume - exponent)
    if not model.level_known:
        likelihood -= 0.5 * model.count * math.log(point.level)
    evidence = likelihood - 0.5 * (law.logdet + exponent) + model.prior.log_size
    best = project(base.mean, model.bounds, at.reduced[0]) if at.convex else point.theta  # after a last step
    weaker = _weaker(model)  # what the data tell is in units of the likely prior, not of the weaker one
    return ForwardFit(
        point.theta,
        TruncatedPosterior(base, model.bounds, point.theta) if model.bounds else base,
        likelihood,
        sums.deviance / point.level,
        model.count,
        law.used(blunt, point),
        evidence,
        model.prior.scale,
        exponent,
        evidence + model.prior.without(best, at.reduced[0]),
        model.prior.free,
        tuple(own[0] for own in states),
        tuple(values),
        tuple(spreads),
        tuple(law.initial_sd(one.initial_slopes(point.z[k]), k) for k, one in enumerate(model.experiments)),
        tuple(law.prior_part(one, point.law[k] + weaker, k) for k, one in enumerate(model.experiments)),
        point.law,
        point.level,
        point.steps,
        found.status.noted(_at_corners(model, point, np.diag(law.inverse)), Reason.NOT_PEAKED),
        _solve_error(model, point, at),
        _roughness(model, point),
    )


def _at_corners(model: ForwardModel, point: Point, variance: Array) -> str:
    """What tells of coefficients at a corner of their prior; empty where there is none."""
    names = [model.names[i] for i in model.prior.corners(point.theta, variance)]
    if not names:
        return ""
    return (
        f"{', '.join(names)}: at the corner of the prior, which is as narrow as what the data say; error bars and "
        "probabilities are rough: use sample=NUTS(...), or a wider prior."
    )


def _solve_error(model: ForwardModel, point: Point, at: Expansion) -> float:
    """Standard deviations by which the error of the solution in space moves a coefficient; zero if not known."""
    if None in point.near:
        return 0.0
    errors = [model.space_error(point.theta, z, k, point.steps) for k, z in enumerate(point.z)]
    return pulled(point, at, model, errors)


def _roughness(model: ForwardModel, point: Point) -> float:
    """Variance of the finest modes of states between sensors over that of the widest, at most; zero elsewhere."""
    found = [0.0]
    for one, law in zip(model.experiments, point.law, strict=True):
        by_field = zip(np.split(one.precisions(law), len(law)), np.split(one.mu > 0, len(law)), strict=True)
        found += [float(p[held].min() / p[held].max()) for p, held in by_field if one.sparse and held.any()]
    return max(found)
