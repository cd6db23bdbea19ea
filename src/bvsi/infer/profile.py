"""The profile estimator: least squares in which the noise is profiled out instead of ignored.

    θ̂ = argmin Q(θ),   Q(θ) = Σ_k r_kᵀ Σ_k(θ)⁻¹ r_k + (θ−μ_0)ᵀ Σ_0⁻¹ (θ−μ_0)

Σ_k(θ) moves with θ and there is no log-determinant, so that ½∇Q = −X̃ᵀWr with regressors X̃ at smoothed data: an unbiased
estimating equation (the lagged one, −XᵀWr, is biased by the noise in X). Gauss–Newton: θ ← θ + (X̃ᵀWX̃)⁻¹ X̃ᵀWr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from bvsi.common.progress import Progress, silent
from bvsi.errors import NotPositiveDefiniteError, RankError
from bvsi.infer.constrained import ConstrainedSolver, constrained
from bvsi.infer.constraints import AnyConstraints, LinearConstraints
from bvsi.infer.dominant import PILOT, PLATEAU, Dominant, on_plateau
from bvsi.infer.fit import CHI2_FACTOR, Fit, Reason, Status, Step, check_iteration, make_fit
from bvsi.infer.gaussian_prior import AnyPrior, matched, replaced_text, with_support
from bvsi.infer.instrumental import Instrumental
from bvsi.infer.lagged import Lagged, feasible, start_vector
from bvsi.infer.priors import BoundPrior, InverseGammaPrior
from bvsi.infer.quadratic import expanded, noise_share, sandwich
from bvsi.likelihood import ProfileEquations, ResidualLikelihood

Array = NDArray[np.float64]

_SWAMPED = "The noise swamps the operators, so that error bars cannot be given: use fewer operators or more data."
_NOISY = 0.1
_HALVINGS = 8
# A step of this many standard deviations that does not lower Q is rounding, not misfit; fewer halvings show that.
_NEGLIGIBLE = 1e-2
# Steps of so many standard deviations, or of such a part of a coefficient, leave the matrix about as it is.
_CLOSE = 3.0
_SMALL_PART = 0.1
# Two minima are two estimates this many standard deviations apart.
_APART = 5.0
# Two estimates less than this many standard deviations apart are one.
_TOGETHER = 0.1
_AMBIGUOUS = (
    "But two estimates fit the data about equally well, {name!r} at {one:.3g} and at {other:.3g}; do not trust either: "
    "use fewer operators, less noise, or a prior."
)
# Information of a prior relative to that of the data that is told.
_WEIGHTY = 0.01
_INFORMATIVE = (
    "The prior has weight: here it is set against the misfit; Maximum() sets it against the calibrated error bars."
)
_CONTINUATION = (0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Profile:
    """The default estimator.

    tol: converged when no coefficient moves by more than tol of its standard deviation.
    max_iterations: Gauss–Newton steps of one attempt.
    dominant, instrumental, lagged: give the first θ; roughly is enough.
    """

    tol: float = 1e-5
    max_iterations: int = 30
    dominant: Dominant = field(default_factory=Dominant)
    lagged: Lagged = field(default_factory=lambda: Lagged(tol=1e-2, max_iterations=15))
    instrumental: Instrumental = field(default_factory=Instrumental)

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
        rng: np.random.Generator | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Minimise Q; arguments as for :meth:`Lagged.fit`.

        rng: for the one draw of noise that the covariance takes (default: seed 0).

        Without a start it begins with the weights of the noisiest operators. Where the iteration fails, stops at a
        misfit, or noise makes up much of the operators, it goes on from an instrumental estimate and from stronger
        weights; where none of these converges with a plausible misfit, from a lagged estimate, from zero, and along a
        path from the lagged to the profile equations. It keeps the lowest Q. The status tells where two of these
        estimates differ and fit equally well, and where a given start leads to a plateau.
        """
        density = matched(prior, likelihood)
        problem = _Problem(likelihood, density.gaussian, with_support(constraints, density), self, progress)
        best = problem.search(prior) if start is None else problem.from_start(start_vector(likelihood, start))
        fit = problem.finish(best, noise_prior, rng)
        return replace(fit, status=fit.status.noted(replaced_text(density)).noted(informative_text(fit)))


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Where one minimisation ended."""

    theta: Array
    objective: float
    status: Status
    history: tuple[Step, ...]
    point: _Point | None = None
    """Everything at θ, with S and N from the default draw, where that has been computed."""


@dataclass(frozen=True, eq=False)
class _Point:
    """θ with its misfit q, g = −½∇q, the objective Q, and a matrix H, of θ itself or of a point near it.

    equations: with S and N, where all of it was worked out; solver: factor of H + Σ_0⁻¹.
    """

    theta: Array
    q: float
    g: Array
    H: Array
    solver: ConstrainedSolver
    objective: float
    equations: ProfileEquations | None = None

    @property
    def exact(self) -> ProfileEquations:
        """The equations, of a point whose own they are."""
        assert self.equations is not None
        return self.equations


@dataclass(frozen=True, eq=False)
class _Problem:
    likelihood: ResidualLikelihood
    prior: BoundPrior
    constraints: LinearConstraints
    settings: Profile
    progress: Progress

    def at(self, theta: Array, smoothing: float = 1.0, rng: np.random.Generator | None = None) -> _Point:
        """Everything at one θ; S and N only with an rng."""
        profile = self.likelihood.profile_equations(theta, smoothing=smoothing, rng=rng)
        one = profile.equations
        solver = constrained(one.H + self.prior.precision, self.constraints)
        return _Point(theta, one.q, one.g, one.H, solver, one.q + self.prior.distance(theta), profile)

    def near(self, theta: Array, other: _Point) -> _Point:
        """q and g at θ with the matrix of a point near it: a solve for r alone, none for the columns of X̃."""
        q = self.likelihood.density(theta, gradient=True, logdet=False).q
        return replace(
            other,
            theta=theta,
            q=q.value,
            g=-0.5 * q.gradient,
            objective=q.value + self.prior.distance(theta),
            equations=None,
        )

    def downhill(self, point: _Point) -> Array:
        """−½∇Q = X̃ᵀWr + Σ_0⁻¹(μ_0 − θ)."""
        return point.g + self.prior.gradient(point.theta)

    def step(self, point: _Point, secants: Sequence[tuple[Array, Array]] = ()) -> Array:
        """Gauss–Newton step (X̃ᵀWX̃ + Σ_0⁻¹)⁻¹ (−½∇Q), the matrix corrected by earlier steps.

        The noise that is left in X̃ makes the Gauss–Newton matrix too large and its steps too short; BFGS updates with
        the pairs (step, change of ½∇Q) mend that.
        """
        if not secants:
            return point.solver.update(point.theta, self.downhill(point)) - point.theta
        B = point.H + self.prior.precision
        for s, y in secants:
            if s @ y > 0:
                B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y)
        return constrained(B, self.constraints).update(point.theta, self.downhill(point)) - point.theta

    def moved(self, point: _Point, step: Array) -> Array:
        """θ + step, with bounds kept to the last bit."""
        return self.constraints.clipped(point.theta + step)

    def minimise(self, theta: Array, metric: Array | None = None) -> _Attempt:
        """Gauss–Newton with secant corrections; steps that do not lower Q are halved.

        Close to the minimum the matrix stays as it is, and secants correct it, where q and g cost far less than H.

        metric: H to begin with, where one is known.
        """
        history: list[Step] = []
        secants: list[tuple[Array, Array]] = []
        cheap = self.likelihood.slope_is_cheap
        point = self._first(feasible(self.likelihood, theta, self.constraints), metric if cheap else None)
        for iteration in range(1, self.settings.max_iterations + 1):
            step = self.step(point, secants)
            change = self._size(step, point)
            history.append(Step(point.theta, change, point.q / self.likelihood.n))
            self.progress(iteration, None, f"profile, change {change:.1e} sd")
            if change <= self.settings.tol:
                message = f"converged (iterations: {iteration})."
                return _Attempt(
                    self.moved(point, step), point.objective, Status(True, iteration, message), tuple(history)
                )
            lower = self._descend(
                point, step, 2 if change <= _NEGLIGIBLE else _HALVINGS, close=cheap and self._close(step, point)
            )
            if lower is None and point.equations is None:  # with a matrix of its own it may go on
                point, secants = self.at(point.theta), []
                continue
            if lower is None and change <= _NEGLIGIBLE:
                message = f"converged (iterations: {iteration}), as far as rounding allows."
                return _Attempt(point.theta, point.objective, Status(True, iteration, message), tuple(history))
            if lower is None:
                status = Status(False, iteration, "stalled, no step lowers Q.", frozenset({Reason.STALLED}))
                return _Attempt(point.theta, point.objective, status, tuple(history))
            secants.append((lower.theta - point.theta, self.downhill(point) - self.downhill(lower)))
            point = lower
        message = f"not converged in {self.settings.max_iterations} iterations."
        status = Status(False, len(history), message, frozenset({Reason.LIMIT}))
        return _Attempt(point.theta, point.objective, status, tuple(history))

    def _close(self, step: Array, point: _Point) -> bool:
        """Whether a step leaves the matrix about as it is: a few standard deviations, or a small part of θ."""
        few = self._sizes(step, point) <= _CLOSE
        return bool(np.all(few | (np.abs(step) <= _SMALL_PART * np.abs(point.theta))))

    def _first(self, theta: Array, metric: Array | None) -> _Point:
        """The point to begin with."""
        if metric is None:
            return self.at(theta)
        solver = constrained(metric + self.prior.precision, self.constraints)
        return self.near(theta, _Point(theta, 0.0, np.zeros(len(theta)), metric, solver, 0.0))

    def from_start(self, theta: Array) -> _Attempt:
        """Minimise from a start that was given, and tell where that ends on a plateau."""
        attempt = self.minimise(theta)
        q = attempt.history[-1].chi2 * self.likelihood.n
        if not on_plateau(self.likelihood, self.prior, attempt.theta, q, self.constraints):
            return attempt
        return replace(attempt, status=attempt.status.noted(PLATEAU, Reason.PLATEAU, failed=True))

    def search(self, prior: AnyPrior) -> _Attempt:
        """Minimise from where a pilot on some of the blocks ends, else from the starts of :meth:`everywhere`."""
        pilot = self.likelihood.pilot(PILOT)
        if pilot is not None:
            found = self._piloted(replace(self, likelihood=pilot, settings=self._roughly()), prior)
            if found is not None:
                return found
        return self.everywhere(prior)

    def _roughly(self) -> Profile:
        """The settings of a pilot: its own error is larger than that of the whole, and so is its tolerance."""
        return replace(self.settings, tol=max(self.settings.tol, _NEGLIGIBLE))

    def _piloted(self, pilot: _Problem, prior: AnyPrior) -> _Attempt | None:
        """Minimise from the estimate of a pilot, which heard all starts; None where that may not be enough."""
        try:
            rough = pilot.everywhere(prior)
        except (RankError, NotPositiveDefiniteError):
            return None
        if not rough.status.converged or rough.point is None:
            return None
        metric = rough.point.H * (self.likelihood.n / pilot.likelihood.n)
        attempt = self._started(rough.theta, metric)
        if attempt is None or not attempt.status.converged:
            return None
        best = self._assessed(attempt)
        if self.plausible(best) or not pilot.plausible(rough):
            return best
        # a misfit that the pilot's blocks do not have: another start has to end at the same point
        other = self._started(self.settings.instrumental.estimate(pilot.likelihood, self.prior), metric)
        return best if self._agreed([attempt, other], best) else None

    def everywhere(self, prior: AnyPrior) -> _Attempt:
        """Minimise from the weights of the noisiest operators; from other starts where that may not be enough."""
        attempts = [self._started(self._dominant(self.settings.dominant))]
        best = self._better(None, attempts[0])
        # with unknown noise a plateau has the misfit of larger noise, so that another start has to agree
        if best is not None and self._settled(best) and self.likelihood.scale_known:
            return best
        attempts.append(self._started(self.settings.instrumental.estimate(self.likelihood, self.prior)))
        best = self._better(best, attempts[1])
        if best is not None and (self._settled(best) or self._agreed(attempts, best)):
            return best
        attempts.append(self._started(self._dominant(self.settings.dominant.stronger)))
        best = self._better(best, attempts[2])
        if best is not None and best.status.converged and self.plausible(best):
            return self._unambiguous(best, attempts)  # noisy, but three starts have been heard
        lagged = self.settings.lagged.fit(self.likelihood, prior=prior, constraints=self.constraints).theta
        attempts += [self._started(lagged), self._started(np.zeros_like(lagged)), self.continuation(lagged)]
        for attempt in attempts[3:]:
            best = self._better(best, attempt)
        return self._assessed(self.minimise(lagged)) if best is None else self._unambiguous(best, attempts)

    def _unambiguous(self, best: _Attempt, attempts: Sequence[_Attempt | None]) -> _Attempt:
        """Not converged, with the reason, where another minimum is clearly elsewhere and hardly higher.

        Q of the truth varies by (2n)^½ with the noise, so that a difference of less does not tell two minima apart.
        """
        point = best.point
        assert point is not None
        allowed = np.sqrt(2 * self.likelihood.n) * self._scale(point)
        for other in attempts:
            if other is None or not other.status.converged or other.objective - best.objective > allowed:
                continue
            apart = self._sizes(other.theta - best.theta, point)
            if apart.max() > _APART:
                i = int(apart.argmax())
                told = _AMBIGUOUS.format(name=self.likelihood.names[i], one=best.theta[i], other=other.theta[i])
                return replace(best, status=best.status.noted(told, Reason.AMBIGUOUS, failed=True))
        return best

    def _dominant(self, dominant: Dominant) -> Array | None:
        try:
            return dominant.estimate(self.likelihood, self.prior)
        except (RankError, NotPositiveDefiniteError):
            return None

    def _started(self, theta: Array | None, metric: Array | None = None) -> _Attempt | None:
        """Minimise from a start of our own; None where there is none, or where it leads nowhere."""
        try:
            return None if theta is None else self.minimise(theta, metric)
        except (RankError, NotPositiveDefiniteError):
            return None

    def _better(self, best: _Attempt | None, other: _Attempt | None) -> _Attempt | None:
        """The attempt of higher rank, assessed."""
        if other is None or (best is not None and _rank(other) <= _rank(best)):
            return best
        return self._assessed(other)

    def _assessed(self, attempt: _Attempt) -> _Attempt:
        """With S and N at the estimate, from the default draw: whether to look further must be reproducible."""
        return replace(attempt, point=self.at(attempt.theta, rng=np.random.default_rng(0)))

    def _settled(self, attempt: _Attempt) -> bool:
        """Converged, with the misfit of the stated noise, and with little noise in H, so that Q has one minimum."""
        return attempt.status.converged and self.plausible(attempt) and not self._noisy(attempt)

    def _agreed(self, attempts: Sequence[_Attempt | None], best: _Attempt) -> bool:
        """Whether starts that have nothing in common end at one point, with little noise: misfit is then no plateau."""
        point = best.point
        assert point is not None
        if any(other is None or not other.status.converged for other in attempts) or self._noisy(best):
            return False
        return all(self._size(other.theta - best.theta, point) < _TOGETHER for other in attempts if other is not None)

    def _noisy(self, attempt: _Attempt) -> bool:
        """Whether noise makes up much of H, so that Q may have several minima: λ_max(H⁻¹N) > 0.1."""
        point = attempt.point
        assert point is not None
        assert point.exact.N is not None
        return self._scale(point) * noise_share(point.solver.inverse(), point.exact.N) > _NOISY

    def continuation(self, theta: Array) -> _Attempt | None:
        """Follow the solution from the lagged (smoothing 0) to the profile equations (smoothing 1)."""
        try:
            for smoothing in _CONTINUATION:
                for _ in range(4):
                    point = self.at(feasible(self.likelihood, theta, self.constraints), smoothing)
                    theta = point.theta + self.step(point)
            return self.minimise(theta)
        except (RankError, NotPositiveDefiniteError):
            return None

    def plausible(self, attempt: _Attempt) -> bool:
        """Whether the misfit is that of the stated noise; with unknown noise any is."""
        return not self.likelihood.scale_known or attempt.history[-1].chi2 < CHI2_FACTOR

    def finish(self, attempt: _Attempt, noise_prior: InverseGammaPrior | None, rng: np.random.Generator | None) -> Fit:
        """Posterior with the sandwich covariance at the estimate, A⁻¹ S A⁻¹ with A = H − N."""
        if rng is None and attempt.point is None:
            attempt = self._assessed(attempt)
        point = attempt.point if rng is None else self.at(attempt.theta, rng=rng)
        assert point is not None
        status = attempt.status
        quadratic = expanded(self.likelihood, attempt.theta, point.exact, self.prior)
        assert quadratic.S is not None
        assert quadratic.S_blocks is not None
        solver = point.solver
        try:
            solver = constrained(quadratic.A, self.constraints)
        except (RankError, np.linalg.LinAlgError):
            status = status.noted(_SWAMPED, Reason.SWAMPED, failed=True)
        inverse = solver.inverse()
        fit = make_fit(
            self.likelihood,
            attempt.theta,
            point.exact.equations,
            self.prior,
            noise_prior,
            covariance=sandwich(inverse, quadratic.S),
            inverse=inverse,
            score_covariance=sandwich(inverse, quadratic.S_blocks),
            status=status,
            history=attempt.history,
            method="profile",
            constraints=self.constraints,
            centre=solver.free(attempt.theta, self.downhill(point)) if self.constraints else None,
        )
        return replace(fit, quadratic=quadratic)

    def _descend(self, point: _Point, step: Array, attempts: int, *, close: bool) -> _Point | None:
        for _ in range(attempts):
            theta = self.moved(point, step)
            try:
                tried = self.near(theta, point) if close else self.at(theta)
            except (RankError, NotPositiveDefiniteError):
                tried = None
            if tried is not None and tried.objective <= point.objective * (1 + 1e-12):
                return tried
            step = 0.5 * step
        return None

    def _scale(self, point: _Point) -> float:
        """σ² in units of the noise model: one where it is known, else its estimate q/n."""
        return 1.0 if self.likelihood.scale_known else point.q / self.likelihood.n

    def _size(self, step: Array, point: _Point) -> float:
        return float(self._sizes(step, point).max())

    def _sizes(self, step: Array, point: _Point) -> Array:
        """|step| in standard deviations, (d,)."""
        sd = np.sqrt(self._scale(point) * np.diag(point.solver.inverse()))
        return np.asarray(np.abs(step) / np.maximum(sd + 1e-9 * np.abs(point.theta), np.finfo(float).tiny))


def informative_text(fit: Fit) -> str:
    """Whether the prior has more than a hundredth of the information of the data in some direction; empty if not."""
    if fit.quadratic is None or fit.quadratic.precision is None:
        return ""
    precision = fit.quadratic.precision
    share = scipy.linalg.eigh(precision, precision + fit.quadratic.A, eigvals_only=True)[-1]
    return _INFORMATIVE if share > _WEIGHTY else ""


def _rank(attempt: _Attempt) -> tuple[bool, float]:
    """Converged ones first, then the lower Q."""
    return attempt.status.converged, -attempt.objective
