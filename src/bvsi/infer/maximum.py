"""Maximum likelihood and maximum a posteriori under the full objective, with the Laplace approximation at the mode.

    θ̂ = argmax ℓ(θ) + log p(θ)   on the allowed set,      Cov ≈ T (−Tᵀ∇²(ℓ + log p) T)⁻¹ Tᵀ

A quasi-Newton method (SLSQP of SciPy) in coordinates θ = μ + L w, in which an approximate posterior is N(0, I). A
corner of the prior, −|θ_i − m|/b, enters as −s t_i/b with s t_i ≥ ±(θ_i − m), s the standard deviation: a linear
constraint of each quadratic sub-problem, on which coefficients land exactly. T spans the directions that active
constraints and corners leave free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bvsi.common.arrays import Array
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError, NotPositiveDefiniteError
from bvsi.infer.constraints import AnyConstraints, LinearConstraints, project
from bvsi.infer.fit import ClosedForm, Fit, Reason, Status, assessed, check_iteration, truncated
from bvsi.infer.lagged import AnyPrior
from bvsi.infer.objective import Objective, ProfileDensity, check_objective
from bvsi.infer.posteriors import GaussianPosterior, Level, NormalInverseGammaPosterior, student_of_level
from bvsi.infer.posteriors.closed_form import covariance_root
from bvsi.infer.priors import Flat, InverseGammaPrior, JointNormal, Normal
from bvsi.infer.sampling import LogPosterior, started
from bvsi.likelihood import ResidualLikelihood

# Distance to a bound or corner, in standard deviations, below which the estimate lies on it.
_ON = 1e-6
# Part of a row that rounding may leave where other rows imply it.
_INDEPENDENT = 1e-9
# Steps of the differences of the exact gradient that give its derivative, in standard deviations.
_DIFFERENCE = 0.05
# Curvature along a direction of one standard deviation of the start, below which there is no peak; one for a start that
# is right.
_LEAST_CURVATURE = 1e-3
_NOT_PEAKED = "The posterior is not peaked at the estimate in every direction: use NUTS() for error bars."


@dataclass(frozen=True)
class Maximum:
    """MLE without a prior, MAP with one.

    Parameters
    ----------
    objective
        ℓ; by default the calibrated profile, the paper's is ``ResidualDensity()``.
    tol
        Converged when no coefficient is expected to move by more than tol standard deviations.
    max_iterations
        Max iterations of the quasi-Newton method.
    """

    objective: Objective = field(default_factory=ProfileDensity)
    tol: float = 1e-4
    max_iterations: int = 200

    def __post_init__(self) -> None:
        check_iteration(self.tol, max_iterations=self.max_iterations)
        check_objective(self.objective)

    def fit(
        self,
        likelihood: ResidualLikelihood,
        *,
        prior: AnyPrior = None,
        constraints: AnyConstraints = None,
        noise_prior: InverseGammaPrior | None = None,
        start: Fit | None = None,
        progress: Progress = silent,
    ) -> Fit:
        """Maximise; arguments as for :meth:`SVGD.fit`. Error bars are those of the Laplace approximation.

        With noise of unknown size that is the approximation given σ², and the posterior a Student-t.
        """
        target, begin = started(likelihood, self.objective, prior, constraints, noise_prior, start, progress)
        # the mean, since priors may vanish on bounds, where the mode can lie
        frame = _Frame(target, begin.mean, covariance_root(begin.covariance).R, progress)
        theta, message, iterations = frame.maximise(self.tol, self.max_iterations)
        covariance, notes, peaked = frame.laplace(theta)
        base: ClosedForm = GaussianPosterior(likelihood.names, theta, covariance)
        if not likelihood.scale_known and covariance.any():
            given = noise_prior or InverseGammaPrior()
            base = frame.student(theta, covariance, given.alpha + 0.5 * likelihood.n)
        posterior = truncated(base, frame.pinned(theta), theta)
        equations = likelihood.normal_equations(theta)
        status = Status(not message, iterations, message or f"converged (iterations: {iterations}).")
        status = status.noted(notes)
        if not peaked:
            status = status.noted(_NOT_PEAKED, Reason.NOT_PEAKED, failed=True)
        scale = likelihood.noise_scale(equations)
        method = "maximum likelihood" if prior is None else "maximum a posteriori"
        return assessed(likelihood, posterior, theta, equations, scale, status=status, method=method)


@dataclass(frozen=True, eq=False)
class _Frame:
    """θ = μ + L w: centre (d,) and L (d, k)."""

    target: LogPosterior
    centre: Array
    L: Array
    progress: Progress

    @property
    def corners(self) -> NDArray[np.intp]:
        """Coefficients that can move and whose prior has a corner."""
        return np.flatnonzero(np.isfinite(self.target.prior.kinks) & (self.sd > 0))

    @property
    def sd(self) -> Array:
        """Lengths of the rows of L (d,)."""
        return np.asarray(np.linalg.norm(self.L, axis=1))

    def maximise(self, tol: float, max_iterations: int) -> tuple[Array, str, int]:
        """θ̂, what went wrong (empty where nothing did), and the number of iterations."""
        k, corners, prior, sd = self.L.shape[1], self.corners, self.target.prior, self.sd
        weight = np.concatenate([np.zeros(k), (sd / prior.kink_scale)[corners]])
        calls = 0

        def negative(x: Array) -> tuple[float, Array]:
            nonlocal calls
            calls += 1
            self.progress(calls, None, "full objective, gradients")
            try:
                term = self.target.smooth(self.theta(x[:k]))
            except NotPositiveDefiniteError:
                return np.inf, np.zeros_like(x)
            gradient = np.concatenate([-self.L.T @ term.gradient, np.zeros(len(corners))])
            return -term.value + float(weight @ x), gradient + weight

        begin = np.concatenate([np.zeros(k), np.abs(self.centre - prior.kinks)[corners] / sd[corners]])
        value = negative(begin)[0]
        if not np.isfinite(value):
            raise BvsiError("start: the target is zero there; give a fit that respects prior and constraints, or none.")
        # ℓ falls by ½ tol² for a step of tol standard deviations; it is a sum of many terms, which bounds its digits
        floor = 1e-14 * abs(value)
        import scipy.optimize  # it takes long to import

        found = scipy.optimize.minimize(
            negative,
            begin,
            jac=True,
            method="SLSQP",
            constraints=self._rows(),
            options={"maxiter": max_iterations, "ftol": max(0.5 * tol**2, floor)},
        )
        theta = self._exact(self.theta(found.x[:k]))
        failed = "" if found.success else f"not converged: {found.message}. Raise max_iterations, or give a start."
        return theta, failed, int(found.nit)

    def theta(self, w: Array) -> Array:
        """μ + L w, with bounds kept to the last digit."""
        return self.target.constraints.clipped(self.centre + self.L @ w)

    def laplace(self, theta: Array) -> tuple[Array, str, bool]:
        """Covariance (d, d) of the Laplace approximation, where not to trust it, and whether there is a peak."""
        on, pinned = self._on(theta), self.pinned(theta)
        basis = self._directions(pinned)
        if not basis.shape[1]:
            return np.zeros((len(theta), len(theta))), self._active_notes(on), True
        hessian = -np.stack([self._difference(theta, v) for v in basis.T]) @ basis
        hessian = 0.5 * (hessian + hessian.T)
        eigenvalues, vectors = np.linalg.eigh(hessian)
        flat = eigenvalues <= _LEAST_CURVATURE
        # where there is no peak the spread of the start has to do, which is that of the columns of the basis
        spread = basis @ vectors / np.sqrt(np.where(flat, 1.0, eigenvalues))
        return np.asarray(spread @ spread.T), self._active_notes(on), not flat.any()

    def student(self, theta: Array, covariance: Array, a: float) -> NormalInverseGammaPosterior:
        """The Laplace approximation given σ², mixed over σ². ::

            ℓ = −a log b,   b = β_0 + ½Q,     ∇²ℓ = −A + g gᵀ/a,     A = a ∇²Q/(2b),  g = ∇ℓ = −a ∇Q/(2b)

        A is the curvature given the most probable level σ² = b/a, which is the unit of σ² here. Priors that are not
        Gaussian keep the mode where it is: from their slope and curvature there nothing follows for other levels.

        Parameters
        ----------
        covariance
            (d, d) of the Laplace approximation without σ², −(∇²ℓ + ∇² log p)⁻¹.
        a
            α_0 + ½n.
        """
        g = self.target.log_likelihood(theta).gradient
        along = covariance @ g
        R = covariance_root(covariance - np.outer(along, along) / (a + g @ along)).R
        gaussian = all(isinstance(factor.law, Normal | JointNormal | Flat) for factor in self.target.prior.factors)
        slopes = (g, self.target.prior.gradient(theta)) if gaussian else (0 * g, 0 * g)
        held = np.stack([self._prior_curvature(theta, v) for v in R.T], axis=1)
        S = np.eye(R.shape[1]) - R.T @ held
        return student_of_level(self.target.names, theta, R, R.T @ held, slopes, Level(a, a), S)

    def _prior_curvature(self, theta: Array, v: Array) -> Array:
        """−∇² log p v of the smooth part of the prior (d,), by differences that stay off bounds."""
        size = min(_DIFFERENCE, 0.5 * self._room(theta, v))
        ahead, behind = (self.target.prior.smooth_gradient(theta + s * size * v) for s in (1, -1))
        return np.asarray((behind - ahead) / (2 * size))

    def pinned(self, theta: Array) -> LinearConstraints:
        """The constraints, with those that are active and corners at which θ lies as equalities."""
        constraints, prior = self.target.constraints, self.target.prior
        rows, corners = self._on(theta)
        value = constraints.A @ theta
        near_lower = np.abs(value - constraints.lower) <= np.abs(value - constraints.upper)
        bound = np.where(near_lower, constraints.lower, constraints.upper)
        on = np.isin(np.arange(len(constraints)), rows)
        lower, upper = (np.where(on, bound, side) for side in (constraints.lower, constraints.upper))
        kinks = np.where(np.isin(np.arange(len(theta)), corners), prior.kinks, np.nan)
        low, high = np.nan_to_num(kinks, nan=-np.inf), np.nan_to_num(kinks, nan=np.inf)
        texts = [f"corner of the prior of {name!r}" for name in self.target.names]
        return replace(constraints, lower=lower, upper=upper).with_bounds(low, high, texts)

    def _directions(self, pinned: LinearConstraints) -> Array:
        """Columns (d, n) of about one standard deviation each that span what the equalities leave free."""
        affine = pinned.affine()
        rows, sd = self._scaled(pinned)
        unit = rows[pinned.equality & (sd > 0)]
        N = scipy.linalg.null_space(unit, rcond=_INDEPENDENT) if len(unit) else np.eye(self.L.shape[1])
        return np.asarray(affine.T @ (self.L @ N)[affine.free])  # without the rounding of N

    def _scaled(self, constraints: LinearConstraints) -> tuple[Array, Array]:
        """Rows (m, k) of A L, of length one, and their lengths (m,): zero for equalities that hold in L already."""
        rows = constraints.A @ self.L
        sd = np.linalg.norm(rows, axis=1)
        sd[sd <= _INDEPENDENT * (np.abs(constraints.A) @ self.sd)] = 0.0
        return np.divide(rows, sd[:, None], out=np.zeros_like(rows), where=sd[:, None] > 0), sd

    def _difference(self, theta: Array, v: Array) -> Array:
        """Derivative of ∇(ℓ + log p) along v (d,), by central differences that stay off bounds and corners."""
        size = min(_DIFFERENCE, 0.5 * self._room(theta, v))
        ahead, behind = (self.target.smooth(theta + s * size * v).gradient for s in (1, -1))
        return np.asarray((ahead - behind) / (2 * size))

    def _room(self, theta: Array, v: Array) -> float:
        """How far ±v leads before an inequality that is not active."""
        constraints = self.target.constraints
        slack, speed = constraints.slack(theta), np.abs(constraints.A @ v)
        moving = (speed > 1e-9 * np.linalg.norm(constraints.A * self.sd, axis=1)) & (slack > 0)
        return float(np.min(slack[moving] / speed[moving], initial=np.inf))

    def _on(self, theta: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of constraints that are active, and coefficients on a corner."""
        constraints, prior = self.target.constraints, self.target.prior
        sd = np.linalg.norm(constraints.A @ self.L, axis=1)
        active = constraints.equality | (constraints.slack(theta) <= _ON * sd)
        at = np.abs(theta - prior.kinks) <= _ON * self.sd
        return np.flatnonzero(active), np.flatnonzero(at)

    def _active_notes(self, on: tuple[NDArray[np.intp], NDArray[np.intp]]) -> str:
        constraints, names = self.target.constraints, self.target.names
        rows = [constraints.texts[i] for i in on[0] if not constraints.equality[i]]
        notes = [f"Active: {', '.join(map(repr, rows))}."] if rows else []
        notes += [f"At the corner of the prior: {', '.join(repr(names[i]) for i in on[1])}."] if len(on[1]) else []
        notes += ["There the posterior is not Gaussian: use NUTS() for its error bars."] if notes else []
        return " ".join(notes)

    def _rows(self) -> list[Any]:
        """The constraints on θ, and t ≥ ±(θ − m)/sd at corners, for x = (w, t)."""
        from scipy.optimize import LinearConstraint

        constraints, corners, prior = self.target.constraints, self.corners, self.target.prior
        count, result = len(corners), []
        if constraints:
            shift = constraints.A @ self.centre
            unit, sd = self._scaled(constraints)
            rows = np.concatenate([unit, np.zeros((len(unit), count))], axis=1)
            for kind in (constraints.equality & (sd > 0), ~constraints.equality & (sd > 0)):
                if kind.any():
                    bounds = ((side - shift)[kind] / sd[kind] for side in (constraints.lower, constraints.upper))
                    result.append(LinearConstraint(rows[kind], *bounds))
        if count:
            unit = (self.L / np.where(self.sd > 0, self.sd, 1.0)[:, None])[corners]
            offset = (self.centre - prior.kinks)[corners] / self.sd[corners]
            for sign in (1.0, -1.0):
                rows = np.concatenate([-sign * unit, np.eye(count)], axis=1)
                result.append(LinearConstraint(rows, sign * offset, np.inf))
        return result

    def _exact(self, theta: Array) -> Array:
        """θ on bounds and corners that it is next to, and back onto the constraints where rounding violates them."""
        constraints = self.target.constraints
        if not constraints.satisfied(theta, tol=1e-13):
            sd = np.maximum(self.sd, 1e-12 * np.abs(theta) + np.finfo(float).tiny)
            theta = project(theta, constraints, np.diag(1 / sd**2))
        affine = self.pinned(theta).affine()
        return constraints.clipped(affine.theta(affine.eta(theta)))
