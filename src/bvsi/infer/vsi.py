"""Classical variational system identification: unweighted least squares on the residual (sec:VSI).

θ = argmin ‖y − Xθ‖² + penalty
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from bvsi.common.arrays import Array
from bvsi.errors import BvsiError
from bvsi.infer.constraints import AnyConstraints, as_linear
from bvsi.infer.fit import Fit, Reason, Status, check_iteration, misfit_by_block
from bvsi.infer.quadratic import constrained, factorise
from bvsi.likelihood import Isotropic, NormalEquations, ResidualLikelihood, residual_likelihood
from bvsi.noise import IID
from bvsi.residual import ResidualSystem

#: Residuals; of a likelihood the noise and the weighting are left aside.
Unweighted: TypeAlias = ResidualSystem | ResidualLikelihood


@dataclass(frozen=True)
class LeastSquares:
    """θ = (XᵀX)⁻¹ Xᵀy (eq:VSI_solution), with one step of refinement; a quadratic program under constraints."""

    def fit(self, system: Unweighted, *, constraints: AnyConstraints = None) -> Fit:
        """Estimate all coefficients.

        Parameters
        ----------
        constraints
            As for :meth:`Lagged.fit`.
        """
        unweighted, names = _unweighted(system), system.names
        allowed = None if constraints is None else as_linear(constraints, names)
        theta = np.zeros(system.d)
        for _ in range(2):  # the second step, on the residual of the first, recovers the digits lost in XᵀX
            equations = unweighted.normal_equations(theta)
            solver = constrained(equations.H, allowed, names)
            theta = solver.update(theta, equations.g)
        return _result(unweighted, theta, "VSI, least squares", 1, solver.inverse())


@dataclass(frozen=True)
class Ridge:
    """θ = argmin ‖y − Xθ‖² + alpha Σ_i (‖X_i‖ θ_i)².

    Parameters
    ----------
    alpha
        Without unit; a single operator's coefficient is shrunk by the factor 1/(1 + alpha).
    """

    alpha: float

    def __post_init__(self) -> None:
        _penalty(self.alpha)

    def fit(self, system: Unweighted, *, constraints: AnyConstraints = None) -> Fit:
        """Estimate all coefficients.

        Parameters
        ----------
        constraints
            As for :meth:`Lagged.fit`.
        """
        unweighted, zero = _unweighted(system), np.zeros(system.d)
        equations = unweighted.normal_equations(zero)
        H = equations.H + self.alpha * np.diag(np.diag(equations.H))
        theta = constrained(H, as_linear(constraints, system.names), system.names).update(zero, equations.g)
        return _result(unweighted, theta, f"VSI, ridge {self.alpha:g}", 1)


@dataclass(frozen=True)
class Lasso:
    """θ = argmin ½‖y − Xθ‖² + alpha ‖y‖ Σ_i ‖X_i‖ ``|θ_i|``, by coordinate descent on the normal equations.

    Parameters
    ----------
    alpha
        Without unit; at alpha = 1 every coefficient is zero.
    """

    alpha: float
    tol: float = 1e-10
    max_sweeps: int = 10_000

    def __post_init__(self) -> None:
        _penalty(self.alpha)
        check_iteration(self.tol, max_sweeps=self.max_sweeps)

    def fit(self, system: Unweighted) -> Fit:
        """Estimate all coefficients."""
        unweighted = _unweighted(system)
        equations = unweighted.normal_equations(np.zeros(system.d))
        factorise(equations.H + 1e-12 * np.diag(np.diag(equations.H)), system.names)  # names operators that vanish
        theta, sweeps, settled = self._descend(equations)
        fit = _result(unweighted, theta, f"VSI, lasso {self.alpha:g}", sweeps)
        if settled:
            return fit
        message = f"not converged in {sweeps} sweeps; raise max_sweeps or alpha, or remove operators that are alike."
        return replace(fit, status=Status(False, sweeps, message, frozenset({Reason.LIMIT})))

    def _descend(self, equations: NormalEquations) -> tuple[Array, int, bool]:
        """Cyclic soft thresholding in scaled coefficients β_i = ‖X_i‖ θ_i / ‖y‖."""
        scale = np.sqrt(np.diag(equations.H))
        size = np.sqrt(equations.q) or 1.0
        R = equations.H / scale[:, None] / scale
        c = equations.g / scale / size
        beta = np.zeros(len(scale))
        sweeps, largest = 0, np.inf
        while sweeps < self.max_sweeps and largest > self.tol:
            sweeps, largest = sweeps + 1, 0.0
            for i in range(len(beta)):
                pull = c[i] - R[i] @ beta + beta[i]
                updated = np.sign(pull) * max(abs(pull) - self.alpha, 0.0)
                largest = max(largest, abs(updated - beta[i]))
                beta[i] = updated
        return np.asarray(beta * size / scale), sweeps, largest <= self.tol


def _penalty(alpha: float) -> None:
    if not (np.isfinite(alpha) and alpha >= 0):
        raise BvsiError(f"alpha: a penalty is a number that is not negative; got {alpha}.")


def _unweighted(system: Unweighted) -> ResidualLikelihood:
    if isinstance(system, ResidualLikelihood):
        return system.unweighted()
    # Without weights the noise has no part in the fit; any model binds.
    return residual_likelihood(system, IID(1.0), Isotropic())


def _result(
    unweighted: ResidualLikelihood, theta: Array, method: str, iterations: int, inverse: Array | None = None
) -> Fit:
    equations = unweighted.normal_equations(theta)
    blocks = misfit_by_block(unweighted, equations)
    status = Status(True, iterations, "done; least squares gives no error bars, use Lagged() for them.")
    return Fit(unweighted.names, theta, None, equations.q / equations.n, blocks, status, (), method, equations, inverse)
