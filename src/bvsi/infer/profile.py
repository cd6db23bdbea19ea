"""The profile estimator: least squares in which the noise is profiled out instead of ignored.

    θ̂ = argmin Q(θ),   Q(θ) = Σ_k r_kᵀ Σ_k(θ)⁻¹ r_k + (θ−μ_0)ᵀ Σ_0⁻¹ (θ−μ_0)

Σ_k(θ) moves with θ and there is no log-determinant, so that ½∇Q = −X̃ᵀWr with regressors X̃ at smoothed data: an unbiased
estimating equation (the lagged one, −XᵀWr, is biased by the noise in X). Gauss–Newton: θ ← θ + (X̃ᵀWX̃)⁻¹ X̃ᵀWr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import Progress, silent
from bvsi.errors import NotPositiveDefiniteError, RankError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints
from bvsi.infer.fit import CHI2_FACTOR, Fit, Reason, Status, Step, check_iteration, make_fit
from bvsi.infer.lagged import AnyPrior, Lagged, bound, matched, replaced_text, with_support
from bvsi.infer.priors import BoundPrior, InverseGammaPrior
from bvsi.infer.quadratic import Solver, constrained, expanded, factorise, noise_share
from bvsi.infer.starts import (
    KAPPA,
    PLATEAU,
    STRONGER,
    Enough,
    StartingPoint,
    Starts,
    dominant,
    feasible,
    instrumental,
    on_plateau,
    start_vector,
)
from bvsi.likelihood import NormalEquations, ProfileEquations, ResidualLikelihood

_SWAMPED = "The noise swamps the operators, so that error bars cannot be given: use fewer operators or more data."
_AMBIGUOUS = (
    "But two estimates fit the data about equally well, {name!r} at {one:.3g} and at {other:.3g}; do not trust either: "
    "use fewer operators, less noise, or a prior."
)
_INFORMATIVE = (
    "The prior has weight: here it is set against the misfit; Maximum() sets it against the calibrated error bars."
)
# Halvings of a step that does not lower Q: 2⁻⁸ of a step is next to none.
_HALVINGS = 8
# A step of this many standard deviations that does not lower Q is rounding, not misfit; two halvings show that. It is
# also the tolerance of a pilot, whose own error is larger than that of the whole.
_NEGLIGIBLE = 1e-2
# Where data are many the second evaluation is one of the slope alone, by the factors of the first, if a step of c
# standard deviations leaves no more than _LEFT: about c (_SHORT s + _CURVED c), s the share of noise in H, which makes
# Gauss–Newton steps too short. Of 56 steps with less than 0.05 by that (KS, porous medium, spirals, sine–Gordon,
# vorticity, 5 to 100% of noise, seeds 1 to 4) none left more than 0.04, of which the step along the slope leaves 1%.
_LEFT, _SHORT, _CURVED = 0.2, 4.0, 1e-3
# No coefficient may change by a larger part of it: H, and with it the error bar, is that of the first evaluation.
_ALIKE = 0.01
# Steps of so many standard deviations, or of such a part of a coefficient, leave the matrix about as it is. Where they
# do not, secants correct it, and a step that does not lower Q makes a matrix of its own. Not measured.
_CLOSE, _SMALL_PART = 3.0, 0.1
_TINY = float(np.finfo(float).tiny)
# Relative rise of Q that is rounding.
_RISE = 1e-12
# Part of a coefficient that is added to its standard deviation, which is zero where data have no noise.
_DIGITS = 1e-9
# Information of a prior relative to that of the data beyond which the status says so: error bars then change by 0.5%.
_WEIGHTY = 0.01


@dataclass(frozen=True)
class Profile:
    """The default estimator.

    Parameters
    ----------
    tol
        Converged when no coefficient moves by more than tol of its standard deviation.
    max_iterations
        Gauss–Newton steps of one attempt.
    starts
        When which start is tried.
    """

    tol: float = 1e-5
    max_iterations: int = 30
    starts: Starts = field(default=Starts(), repr=False)

    def __post_init__(self) -> None:
        check_iteration(self.tol, max_iterations=self.max_iterations)

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: AnyPrior = None,
        constraints: AnyConstraints = None,
        noise_prior: InverseGammaPrior | None = None,
        start: ArrayLike | Mapping[str, float] | None = None,
        nearer: Callable[[Array, float], Array] | None = None,
        rng: Rng | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Minimise Q; arguments as for :meth:`Lagged.fit`.

        Without a start it begins with the weights of the noisiest operators. Where the iteration fails, stops at a
        misfit, or noise makes up much of the operators, it continues from an instrumental estimate and from stronger
        weights; where none of these converges with a plausible misfit, from a lagged estimate, from zero, and along a
        path from the lagged to the profile equations. It keeps the lowest Q. The status says which starts were tried,
        where two of these estimates differ and fit equally well, and where a given start leads to a plateau.

        Parameters
        ----------
        nearer
            A better start, or the same, from a given one and its Q.
        rng
            For the one draw of noise that the covariance takes (default: as ``starts`` says, seed 0).
        """
        density = matched(prior, likelihood)
        allowed = with_support(constraints, density, likelihood.names)
        problem = _Problem(likelihood, bound(density, likelihood.d), allowed, self, progress)
        if start is None:
            best = problem.search(prior)
        else:
            attempt = problem.minimise(start_vector(likelihood, start), nearer=nearer)
            best = problem.checked(_tried(attempt, ["given"], "given"))
        fit = problem.finish(best, noise_prior, rng)
        notes = [text for text in (replaced_text(density), informative_text(fit)) if text]
        return replace(fit, status=fit.status.noted(" ".join(notes))) if notes else fit


@dataclass(frozen=True, eq=False)
class _Point:
    """θ with its equations, or with q and g of its own and the matrix H of a point near it.

    Attributes
    ----------
    solver
        Factor of H + Σ_0⁻¹.
    profile
        Profile with S and N, where the equations are of θ itself.
    """

    theta: Array
    equations: NormalEquations
    solver: Solver
    profile: ProfileEquations | None


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Where one minimisation ended.

    Parameters
    ----------
    point
        Everything at θ, with S and N, where that has been computed.
    """

    theta: Array
    objective: float
    status: Status
    history: tuple[Step, ...]
    point: _Point | None = None

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged ones first, then the lower Q."""
        return self.status.converged, -self.objective


@dataclass(frozen=True, eq=False)
class _Problem:
    likelihood: ResidualLikelihood
    prior: BoundPrior
    constraints: LinearConstraints | None
    settings: Profile
    progress: Progress

    def at(self, theta: Array, smoothing: float = 1.0, rng: Rng | None = None) -> _Point:
        """Everything at one θ; S and N only with an rng, or where no evaluation is wasted."""
        if rng is None and smoothing and self.hasty:
            rng = np.random.default_rng(self.settings.starts.seed)
        profile = self.likelihood.profile_equations(theta, smoothing=smoothing, rng=rng)
        return _Point(theta, profile.equations, self._solver(profile.equations.H), profile)

    @property
    def hasty(self) -> bool:
        """Whether data are so many, or so little is asked for, that the first evaluation may be the last."""
        return self.likelihood.costly or self.settings.tol > 1

    def near(self, theta: Array, H: Array, solver: Solver | None = None) -> _Point:
        """q and g at θ with the matrix of a point near it: a solve for r alone, none for the columns of X̃."""
        q = self.likelihood.density(theta, gradient=True, logdet=False).q
        equations = NormalEquations(H, -0.5 * q.gradient, (np.array([q.value]),), 0.0, self.likelihood.n)
        return _Point(theta, equations, self._solver(H) if solver is None else solver, None)

    def _solver(self, H: Array) -> Solver:
        return constrained(H + self.prior.precision, self.constraints, self.likelihood.names)

    def objective(self, point: _Point) -> float:
        """Q, with the prior."""
        return point.equations.q + self.prior.distance(point.theta)

    def downhill(self, point: _Point) -> Array:
        """−½∇Q = X̃ᵀWr + Σ_0⁻¹(μ_0 − θ)."""
        return point.equations.g + self.prior.gradient(point.theta)

    def step(self, point: _Point, secants: Sequence[tuple[Array, Array]] = ()) -> Array:
        """Gauss–Newton step (X̃ᵀWX̃ + Σ_0⁻¹)⁻¹ (−½∇Q), the matrix corrected by earlier steps.

        The noise that is left in X̃ makes the Gauss–Newton matrix too large and its steps too short; BFGS updates with
        the pairs (step, change of ½∇Q) correct that.
        """
        if not secants:
            return point.solver.update(point.theta, self.downhill(point)) - point.theta
        B = point.equations.H + self.prior.precision
        for s, y in secants:
            if s @ y > 0:
                B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y)
        return (
            constrained(B, self.constraints, self.likelihood.names).update(point.theta, self.downhill(point))
            - point.theta
        )

    def moved(self, point: _Point, step: Array) -> Array:
        """θ + step, with bounds kept to the last bit."""
        theta = point.theta + step
        return self.constraints.clipped(theta) if self.constraints else theta

    def minimise(
        self, theta: Array, metric: Array | None = None, nearer: Callable[[Array, float], Array] | None = None
    ) -> _Attempt:
        """Gauss–Newton with secant corrections; steps that do not lower Q are halved.

        Close to the minimum the matrix stays as it is, and secants correct it, where q and g cost far less than H.

        Parameters
        ----------
        metric
            H to begin with, where one is known.
        nearer
            Where to begin instead, from θ and Q there.
        """
        history: list[Step] = []
        secants: list[tuple[Array, Array]] = []
        cheap, costly = self.likelihood.slope_is_cheap, self.hasty
        tol = max(self.settings.tol, _NEGLIGIBLE) if costly else self.settings.tol
        theta = feasible(self.likelihood, theta, self.constraints)
        point = self.at(theta) if metric is None or not cheap else self.near(theta, metric)
        if nearer is not None and (moved := nearer(theta, point.equations.q)) is not theta:
            point = self.at(feasible(self.likelihood, moved, self.constraints))

        def ended(theta: Array, message: str, *reasons: Reason) -> _Attempt:
            status = Status(not reasons, len(history), message, frozenset(reasons))
            return _Attempt(theta, self.objective(point), status, tuple(history))

        for iteration in range(1, self.settings.max_iterations + 1):
            step = self.step(point, secants)
            change = self._size(step, point)
            history.append(Step(point.theta, change, point.equations.q / self.likelihood.n))
            self.progress(iteration, None, f"profile, change {change:.1e} sd")
            slope = None if change <= tol or not costly else self._slope(point, step)
            if change <= tol or slope is not None:
                if slope is not None:
                    learnt = [(slope.theta - point.theta, self.downhill(point) - self.downhill(slope))]
                    point, step = slope, self.step(slope, learnt)
                last = ended(self.moved(point, step), f"converged (iterations: {iteration}).")
                return replace(last, point=self._carried(point, last.theta)) if costly else last
            halvings = 2 if change <= _NEGLIGIBLE else _HALVINGS
            near = self._close(step, point)
            lower = self._descend(point, step, halvings, close=cheap and near)
            if lower is None and point.profile is None:  # with a matrix of its own it may go on
                point, secants = self.at(point.theta), []
                continue
            if lower is None and change <= _NEGLIGIBLE:
                return ended(point.theta, f"converged (iterations: {iteration}), as far as rounding allows.")
            if lower is None:
                return ended(point.theta, "stalled, no step lowers Q.", Reason.STALLED)
            # what was learnt far away spoils the steps here
            learnt = [(lower.theta - point.theta, self.downhill(point) - self.downhill(lower))]
            secants = [*secants, *learnt] if near else []
            point = lower
        return ended(point.theta, f"not converged in {self.settings.max_iterations} iterations.", Reason.LIMIT)

    def _slope(self, point: _Point, step: Array) -> _Point | None:
        """Where a step leads, with g of its own and all else carried there; None where that is too far."""
        if point.profile is None or point.profile.N is None:
            return None
        share = self._scale(point) * noise_share(point.solver.inverse(), point.profile.N)
        change, theta = self._size(step, point), self.moved(point, step)
        left, part = change * (_SHORT * share + _CURVED * change), np.abs(step) / np.maximum(np.abs(theta), _TINY)
        near = left <= _LEFT and part.max() <= _ALIKE
        slope, carried = self.likelihood.slope_near(theta, point.theta) if near else None, self._carried(point, theta)
        if slope is None or carried is None:
            return None
        return replace(carried, equations=replace(carried.equations, g=slope))

    def _carried(self, point: _Point, theta: Array) -> _Point | None:
        """Everything at a θ that is next to a point, from what is known there; None where that has no S and N."""
        if point.profile is None or point.profile.S is None:
            return None
        equations = point.equations.moved(theta - point.theta)
        return replace(point, theta=theta, equations=equations, profile=replace(point.profile, equations=equations))

    def _descend(self, point: _Point, step: Array, attempts: int, *, close: bool) -> _Point | None:
        for _ in range(attempts):
            theta = self.moved(point, step)
            try:
                tried = self.near(theta, point.equations.H, point.solver) if close else self.at(theta)
            except (RankError, NotPositiveDefiniteError):
                tried = None
            if tried is not None and self.objective(tried) <= self.objective(point) * (1 + _RISE):
                return tried
            step = 0.5 * step
        return None

    def _close(self, step: Array, point: _Point) -> bool:
        """Whether a step leaves the matrix about as it is: a few standard deviations, or a small part of θ."""
        few = self._sizes(step, point) <= _CLOSE
        return bool(np.all(few | (np.abs(step) <= _SMALL_PART * np.abs(point.theta))))

    def checked(self, attempt: _Attempt) -> _Attempt:
        """The attempt from a start that was given, which may end on a plateau."""
        q = attempt.history[-1].chi2 * self.likelihood.n
        if not on_plateau(self.likelihood, self.prior, attempt.theta, q, self.constraints, self.settings.starts):
            return attempt
        return replace(attempt, status=attempt.status.noted(PLATEAU, Reason.PLATEAU, failed=True))

    def search(self, prior: AnyPrior) -> _Attempt:
        """Minimise from where a pilot on some of the blocks ends, else from the starts of the table."""
        few, tried = self.likelihood.pilot(self.settings.starts.pilot), list[str]()
        if few is not None:
            roughly = replace(self.settings, tol=max(self.settings.tol, _NEGLIGIBLE))
            found = self._piloted(replace(self, likelihood=few, settings=roughly), prior, tried)
            if found is not None:
                return found
        return self.everywhere(prior, tried)

    def _piloted(self, pilot: _Problem, prior: AnyPrior, tried: list[str]) -> _Attempt | None:
        """Minimise from the estimate of a pilot, which tried all starts; None where that may not be enough."""
        try:
            rough = pilot.everywhere(prior, [])
        except (RankError, NotPositiveDefiniteError):
            return None
        tried += [f"{name} (pilot)" for name in rough.status.starts]
        if not rough.status.converged or rough.point is None:
            return None
        metric = rough.point.equations.H * (self.likelihood.n / pilot.likelihood.n)
        attempt = self._started(rough.theta, metric)
        if attempt is None or not attempt.status.converged:
            return None
        best = _tried(self._assessed(attempt), tried, f"{rough.status.start} (pilot)")
        if self.plausible(best) or not pilot.plausible(rough):
            return best
        # a misfit that the pilot's blocks do not have: another start has to end at the same point
        other = self._started(instrumental(pilot.likelihood, self.prior), metric)
        tried.append("instrumental (pilot)")
        return _tried(best, tried, best.status.start) if self._agreed([attempt, other], best) else None

    def everywhere(self, prior: AnyPrior, tried: list[str]) -> _Attempt:
        """Minimise from the starts of the table, in order, until one is enough; keep the best."""
        attempts: list[_Attempt | None] = []
        best: _Attempt | None = None
        for start in self.table(prior):
            tried.append(start.name)
            attempt = self._started(start.theta())
            attempts.append(attempt)
            if attempt is not None and (best is None or attempt.rank > best.rank):
                best = _tried(self._assessed(attempt), tried, start.name)
            if best is not None and self.enough(start.enough, best, attempts):
                break
        if best is None:  # says why
            best = _tried(self._assessed(self.minimise(self._lagged(prior))), tried, "lagged")
        several = len(attempts) > 2  # two that settled, or agree, need no further word
        return _tried(self._unambiguous(best, attempts) if several else best, tried, best.status.start)

    def table(self, prior: AnyPrior) -> tuple[StartingPoint, ...]:
        """The starts, in the order in which they are tried."""
        lagged = cache(lambda: self._lagged(prior))
        return (
            StartingPoint("dominant", lambda: self._dominant(KAPPA), Enough.SETTLED),
            StartingPoint("instrumental", lambda: instrumental(self.likelihood, self.prior), Enough.AGREED),
            StartingPoint("dominant, stronger", lambda: self._dominant(STRONGER * KAPPA), Enough.PLAUSIBLE),
            StartingPoint("lagged", lagged),
            StartingPoint("zero", lambda: np.zeros(self.likelihood.d)),
            StartingPoint("lagged, by continuation", lambda: self.continuation(lagged())),
        )

    def enough(self, rule: Enough, best: _Attempt, attempts: Sequence[_Attempt | None]) -> bool:
        """Whether the best estimate so far needs no further start."""
        if rule is Enough.SETTLED:
            # with unknown noise a plateau has the misfit of larger noise, so that another start has to agree
            return self.likelihood.scale_known and self._settled(best)
        if rule is Enough.AGREED:
            return self._settled(best) or self._agreed(attempts, best)
        return rule is Enough.PLAUSIBLE and best.status.converged and self.plausible(best)

    def _lagged(self, prior: AnyPrior) -> Array:
        roughly = Lagged(tol=1e-2, max_iterations=15)
        return roughly.fit(self.likelihood, prior=prior, constraints=self.constraints).theta

    def _dominant(self, factor: float) -> Array | None:
        rng = np.random.default_rng(self.settings.starts.seed)
        try:
            return dominant(self.likelihood, self.prior, rng, factor)
        except (RankError, NotPositiveDefiniteError):
            return None

    def continuation(self, theta: Array) -> Array | None:
        """Follow the solution from the lagged (smoothing 0) towards the profile equations (smoothing 1)."""
        try:
            for smoothing in self.settings.starts.continuation:
                for _ in range(self.settings.starts.corrections):
                    point = self.at(feasible(self.likelihood, theta, self.constraints), smoothing)
                    theta = point.theta + self.step(point)
        except (RankError, NotPositiveDefiniteError):
            return None
        return theta

    def _started(self, theta: Array | None, metric: Array | None = None) -> _Attempt | None:
        """Minimise from a start of our own; None where there is none, or where it leads nowhere."""
        try:
            return None if theta is None else self.minimise(theta, metric)
        except (RankError, NotPositiveDefiniteError):
            return None

    def _unambiguous(self, best: _Attempt, attempts: Sequence[_Attempt | None]) -> _Attempt:
        """Not converged, with the reason, where another minimum is clearly elsewhere and hardly higher.

        Q of the truth varies by (2n)^½ with the noise, so that a difference of less does not distinguish two minima.
        """
        point, _ = _known(best)
        allowed = np.sqrt(2 * self.likelihood.n) * self._scale(point)
        for other in attempts:
            if other is None or not other.status.converged or other.objective - best.objective > allowed:
                continue
            apart = self._sizes(other.theta - best.theta, point)
            if apart.max() > self.settings.starts.apart:
                i = int(apart.argmax())
                text = _AMBIGUOUS.format(name=self.likelihood.names[i], one=best.theta[i], other=other.theta[i])
                return replace(best, status=best.status.noted(text, Reason.AMBIGUOUS, failed=True))
        return best

    def _assessed(self, attempt: _Attempt) -> _Attempt:
        """With S and N at the estimate."""
        if attempt.point is not None:
            return attempt
        return replace(attempt, point=self.at(attempt.theta, rng=np.random.default_rng(self.settings.starts.seed)))

    def _settled(self, attempt: _Attempt) -> bool:
        """Converged, with the misfit of the stated noise, and with little noise in H, so that Q has one minimum."""
        return attempt.status.converged and self.plausible(attempt) and not self._noisy(attempt)

    def _agreed(self, attempts: Sequence[_Attempt | None], best: _Attempt) -> bool:
        """Whether starts that have nothing in common end at one point, with little noise: misfit is then no plateau."""
        point, together = _known(best)[0], self.settings.starts.together
        if any(other is None or not other.status.converged for other in attempts) or self._noisy(best):
            return False
        return all(self._size(other.theta - best.theta, point) < together for other in attempts if other is not None)

    def _noisy(self, attempt: _Attempt) -> bool:
        """Whether noise makes up much of H, so that Q may have several minima."""
        point, profile = _known(attempt)
        assert profile.N is not None
        return self._scale(point) * noise_share(point.solver.inverse(), profile.N) > self.settings.starts.noisy

    def plausible(self, attempt: _Attempt) -> bool:
        """Whether the misfit is that of the stated noise; with unknown noise any is."""
        return not self.likelihood.scale_known or attempt.history[-1].chi2 < CHI2_FACTOR

    def finish(self, attempt: _Attempt, noise_prior: InverseGammaPrior | None, rng: Rng | None) -> Fit:
        """Posterior with the sandwich covariance at the estimate, A⁻¹ S A⁻¹ with A = H − N."""
        at = replace(attempt, point=self.at(attempt.theta, rng=rng)) if rng is not None else self._assessed(attempt)
        point, profile = _known(at)
        quadratic = expanded(self.likelihood, attempt.theta, profile, self.prior)
        solver, status = point.solver, attempt.status
        try:
            solver = constrained(quadratic.A, self.constraints, self.likelihood.names)
        except (RankError, np.linalg.LinAlgError):
            status = status.noted(_SWAMPED, Reason.SWAMPED, failed=True)
        return make_fit(
            self.likelihood,
            attempt.theta,
            point.equations,
            self.prior,
            noise_prior,
            inverse=solver.inverse(),
            quadratic=quadratic,
            status=status,
            history=attempt.history,
            method="profile",
            constraints=self.constraints,
            centre=solver.free(attempt.theta, self.downhill(point)) if self.constraints else None,
        )

    def _scale(self, point: _Point) -> float:
        return self.likelihood.noise_scale(point.equations)

    def _size(self, step: Array, point: _Point) -> float:
        return float(self._sizes(step, point).max())

    def _sizes(self, step: Array, point: _Point) -> Array:
        """|step| in standard deviations, (d,)."""
        sd = np.sqrt(self._scale(point) * np.diag(point.solver.inverse()))
        return np.asarray(np.abs(step) / np.maximum(sd + _DIGITS * np.abs(point.theta), _TINY))


def with_unknown_scale(fit: Fit, likelihood: ResidualLikelihood, noise_prior: InverseGammaPrior) -> Fit:
    """A profile fit with a flat prior and without constraints, where the size of the noise is not known after all.

    θ, H, g and q do not depend on it; error bars and χ²/n follow from what the fit has. Nothing is evaluated.
    """
    quadratic, equations = fit.quadratic, fit.equations
    assert quadratic is not None
    assert quadratic.S is not None
    assert quadratic.S_blocks is not None
    scale = likelihood.noise_scale(equations)
    A = quadratic.H - scale * (quadratic.H - quadratic.A)
    # scores of the blocks know the size of the noise, the covariance of the model does not
    S_blocks = quadratic.S if np.array_equal(quadratic.S_blocks, quadratic.S) else quadratic.S_blocks / scale
    return make_fit(
        likelihood,
        fit.theta,
        equations,
        bound(None, len(fit.theta)),
        noise_prior,
        inverse=factorise(A, fit.names).inverse(),
        quadratic=replace(quadratic, A=A, S_blocks=S_blocks, scale_known=False),
        status=fit.status,
        history=fit.history,
        method=fit.method,
        constraints=None,
    )


def informative_text(fit: Fit) -> str:
    """Whether the prior has more than a hundredth of the information of the data in some direction; empty if not."""
    if fit.quadratic is None or fit.quadratic.precision is None:
        return ""
    precision = fit.quadratic.precision
    try:
        share = scipy.linalg.eigh(precision, precision + fit.quadratic.A, eigvals_only=True)[-1]
    except np.linalg.LinAlgError:  # A, less its noise, has no information in some direction
        share = 1.0
    return _INFORMATIVE if share > _WEIGHTY else ""


def _known(attempt: _Attempt) -> tuple[_Point, ProfileEquations]:
    """The point and its equations, of an attempt that has been assessed."""
    assert attempt.point is not None
    assert attempt.point.profile is not None
    return attempt.point, attempt.point.profile


def _tried(attempt: _Attempt, tried: Sequence[str], start: str) -> _Attempt:
    """With the starts tried so far, and the one that it comes from."""
    return replace(attempt, status=replace(attempt.status, starts=tuple(tried), start=start))
