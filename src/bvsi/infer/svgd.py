"""Stein variational gradient descent (eq:SVGD): particles that move until they stand for the posterior.

    w_i ← w_i + λ φ(w_i)

in coordinates w in which the approximate posterior is N(0, I): particles are preconditioned by its covariance, and
constraints cannot be violated. The direction φ, and the kernelised Stein discrepancy that says how far they are, are

    φ(x) = 1/n Σ_j [κ(x_j, x) s_j + ∇_{x_j} κ(x_j, x)],      s_j = ∇ log p(x_j)                      (eq:SVGD)
    KSD² = ‖φ‖² = 1/n² Σ_ij [κ s_iᵀs_j + s_iᵀ∇_j κ + s_jᵀ∇_i κ + tr ∇_i∇_j κ]
    κ(x, y) = exp(−|x − y|²/h) + c (1 + (x − x̄)ᵀ(y − x̄)),      h = median |x_i − x_j|²

The linear part makes mean and covariance right: at φ = 0 it asks that Σ s_j = 0 and Σ s_j (x_j − x̄)ᵀ = −n I, which are
identities of p. Without it the particles are too close together, the more so the fewer they are for the dimension.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from bvsi.common.arrays import Array, Rng
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.infer.constraints import AnyConstraints
from bvsi.infer.fit import Fit, Reason, Status, check_iteration
from bvsi.infer.lagged import AnyPrior
from bvsi.infer.objective import Objective, ProfileDensity, check_objective
from bvsi.infer.posteriors import ParticlePosterior
from bvsi.infer.priors import InverseGammaPrior
from bvsi.infer.sampling import SamplingProblem, prepare, sampled_fit, started
from bvsi.likelihood import ResidualLikelihood
from bvsi.linalg import single_threaded_blas, usable_cores


@dataclass(frozen=True)
class MedianRBF:
    """The kernel above.

    Parameters
    ----------
    linear
        c; 0 is the plain radial kernel of the paper.
    """

    linear: float = 0.3

    def __post_init__(self) -> None:
        if not (np.isfinite(self.linear) and self.linear >= 0):
            raise BvsiError(f"linear: a number that is not negative is needed, such as 0.3; got {self.linear}.")

    def independent(self, x: Array) -> float:
        """E[KSD²] of as many independent draws of N(0, I): 1/n (k + 2k/h + c (k² + 2k)), with the h of x (n, k)."""
        n, k = x.shape
        return float((k + 2 * k / max(_distances(x)[1], 1.0) + self.linear * (k * k + 2 * k)) / n)

    def direction(self, x: Array, s: Array) -> tuple[Array, float]:
        """φ (n, k) at all particles x (n, k) with scores s (n, k), and KSD²."""
        n, k = x.shape
        D, h = _distances(x)
        K = np.exp(-D / h)
        phi = (K @ s + (2 / h) * (x * K.sum(axis=1)[:, None] - K @ x)) / n
        pull = (2 / h) * (np.einsum("ik,ik->i", s, x)[:, None] - s @ x.T)
        ksd2 = max(0.0, float(np.mean(K * (s @ s.T + pull + pull.T + 2 * k / h - 4 * D / h**2))))
        if not self.linear:
            return phi, ksd2
        y = x - x.mean(axis=0)
        moments = s.T @ y / n + np.eye(k)
        phi += self.linear * (s.mean(axis=0) + y @ moments.T)
        return phi, ksd2 + self.linear * (float(np.square(moments).sum()) + float(np.square(s.mean(axis=0)).sum()))


def _distances(x: Array) -> tuple[Array, float]:
    """|x_i − x_j|² (n, n), and their median."""
    y = x - x.mean(axis=0)  # digits would be lost far from the origin
    squares = np.square(y).sum(axis=1)
    D = np.maximum(squares[:, None] + squares - 2 * y @ y.T, 0.0)
    return D, max(float(np.median(D[np.triu_indices(len(x), 1)])), np.finfo(float).tiny)


def variance_shortfall(x: Array, s: Array) -> float:
    """1 + 1/(nk) Σ_j s_jᵀ(x_j − x̄): zero by Stein's identity, v − 1 short for N(0, I) and particles of variance v."""
    n, k = x.shape
    return float(1.0 + np.vdot(s, x - x.mean(axis=0)) / (n * k))


# Step λ to begin with, its factors after a step that was accepted and one that was not, and the least. In units of the
# posterior, so that one choice serves all; not measured one by one.
_FIRST_STEP, _LARGER, _SMALLER, _SMALLEST = 0.3, 1.2, 0.5, 1e-7
# A discrepancy that grows by less than this is rounding, or the bandwidth that follows the particles.
_GROWTH = 1.001
# Times the squared discrepancy of independent draws of N(0, I) that particles may have at the end, since the law is
# another one. Not measured.
_ROOM = 4.0
# Iterations over which the discrepancy has to stand still.
_WINDOW = 10
# Part of the variance that may be missing before the status says so, and particles per dimension that shapes take. Not
# measured.
_SHORT, _PER_DIMENSION = 0.1, 4


@dataclass(frozen=True)
class SVGD:
    """Particles for any prior and objective.

    Parameters
    ----------
    particles
        How many.
    objective
        ℓ; by default the calibrated profile, the paper's is ``ResidualDensity()``.
    tol
        Converged when ten iterations lower the discrepancy by less than this part of it, and it is not above that of as
        many independent draws.
    max_iterations
        Tries before giving up; each takes one gradient per particle.
    """

    particles: int = 100
    objective: Objective = field(default_factory=ProfileDensity)
    kernel: MedianRBF = field(default_factory=MedianRBF)
    tol: float = 1e-2
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        check_iteration(self.tol, max_iterations=self.max_iterations)
        check_objective(self.objective)
        if not isinstance(self.particles, int) or self.particles < 3:
            raise BvsiError(f"particles: a whole number, at least 3, is needed; got {self.particles!r}.")

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: AnyPrior = None,
        constraints: AnyConstraints = None,
        noise_prior: InverseGammaPrior | None = None,
        start: Fit | None = None,
        rng: Rng | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Move particles from the approximate posterior to the target.

        Parameters
        ----------
        prior
            Prior of the coefficients, of any kind; flat by default.
        constraints
            As for :meth:`Lagged.fit`; they hold for every particle in every iteration.
        start
            Fit with the approximate posterior; by default the closed form that the objective names, ``Profile()`` or
            ``Lagged()``, with the Gaussian of the prior's moments.
        rng
            For the first particles (default: seed 0).
        """
        rng = np.random.default_rng(0) if rng is None else rng
        target, begin = started(likelihood, self.objective, prior, constraints, noise_prior, start, progress)
        problem = prepare(target, begin, rng)
        w = problem.start(self.particles, rng)
        with single_threaded_blas(), ThreadPoolExecutor(usable_cores()) as pool:
            return self._result(likelihood, problem, self._descend(problem, pool, w, progress))

    def _descend(self, problem: SamplingProblem, pool: Executor, w: Array, progress: Progress) -> _Flow:
        """Steps that do not raise the discrepancy, larger while that goes well."""
        score = _scores(problem, pool, w)
        if score is None:
            raise BvsiError("start: some draws of the approximate posterior have no density under the target.")
        phi, ksd2 = self.kernel.direction(w, score)
        step, seen = _FIRST_STEP, [ksd2]
        for tries in range(1, self.max_iterations + 1):
            progress(tries, None, f"SVGD, Stein discrepancy {np.sqrt(ksd2):.3g}")
            moved = problem.kept_inside(w, w + step * phi)
            tried = _scores(problem, pool, moved)
            ahead, lower = (phi, np.inf) if tried is None else self.kernel.direction(moved, tried)
            if tried is None or lower > _GROWTH * ksd2:
                step *= _SMALLER
                if step < _SMALLEST:
                    return _Flow(w, score, seen, tries, self._near(w, seen))
                continue
            w, score, phi, ksd2, step = moved, tried, ahead, lower, step * _LARGER
            seen.append(ksd2)
            still = len(seen) > _WINDOW and np.sqrt(seen[-1 - _WINDOW]) < (1 + self.tol) * np.sqrt(seen[-1])
            if still and self._near(w, seen):
                return _Flow(w, score, seen, tries, True)
        return _Flow(w, score, seen, self.max_iterations, False)

    def _near(self, w: Array, seen: list[float]) -> bool:
        """Whether the discrepancy is not above that of as many independent draws, with room for other laws."""
        return bool(seen[-1] <= _ROOM * self.kernel.independent(w))

    def _result(self, likelihood: ResidualLikelihood, problem: SamplingProblem, flow: _Flow) -> Fit:
        discrepancy, short = float(np.sqrt(flow.seen[-1])), variance_shortfall(flow.w, flow.score)
        warnings = _warnings(self.particles, problem.coordinates.n, short)
        diagnostics = {"stein_discrepancy": discrepancy, "variance_shortfall": short, "iterations": flow.tries}
        theta = problem.coordinates.theta(flow.w)
        posterior = ParticlePosterior(likelihood.names, theta, diagnostics, warnings)
        message = f"converged in {flow.tries} iterations, Stein discrepancy {discrepancy:.3g}."
        if not flow.converged:
            message = f"not {message} Raise max_iterations, or give a start that is nearer, such as Maximum().fit(...)."
        reasons = frozenset({Reason.SAMPLING}) if warnings or not flow.converged else frozenset()
        status = Status(flow.converged, flow.tries, " ".join([message, *warnings]), reasons)
        return sampled_fit(likelihood, posterior, status, f"SVGD, {self.particles} particles")


@dataclass(frozen=True, eq=False)
class _Flow:
    """Where the particles are: w and score (n, k), KSD² of each accepted step, number of tries."""

    w: Array
    score: Array
    seen: list[float]
    tries: int
    converged: bool


def _scores(problem: SamplingProblem, pool: Executor, w: Array) -> Array | None:
    """∇ log p at all particles, some to each thread; None where one of them is outside."""
    some = pool.map(lambda part: [problem.density(one) for one in part], np.array_split(w, usable_cores()))
    terms = [term for part in some for term in part]
    return None if any(term.value == -np.inf for term in terms) else np.stack([term.gradient for term in terms])


def _warnings(particles: int, dimension: int, short: float) -> tuple[str, ...]:
    notes = []
    if particles < _PER_DIMENSION * dimension:
        notes.append(
            f"{particles} particles are few for {dimension} dimensions: trust their mean and covariance at most, not "
            f"intervals; use {_PER_DIMENSION * dimension} or more."
        )
    if short > _SHORT:
        notes.append(
            f"The variance of the particles is about {100 * short:.0f}% too small, by Stein's identity; use more of "
            "them, or the kernel MedianRBF() with its linear part."
        )
    return tuple(notes)
