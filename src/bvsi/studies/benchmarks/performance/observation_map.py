"""Maximum a posteriori in the space of the observations: the forward solve is fitted to the data.

    min_θ ‖(û − u(θ))/σ‖² + (θ − μ_0)ᵀ Σ_0⁻¹ (θ − μ_0)

by Gauss–Newton, ∂u/∂θ_i by forward differences: d + 1 forward solves per iteration. What bvsi does without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.forward import simulate
from bvsi.infer.priors import BoundPrior
from bvsi.operators import Library

Array = NDArray[np.float64]

_DIFFERENCE = 1e-5  # part of a coefficient; forward solves are accurate to 1e-10
_HALVINGS = 12


@dataclass(frozen=True, eq=False)
class MapEstimate:
    """Estimate in observation space.

    Attributes
    ----------
    theta
        (d,).
    covariance
        (d, d) of Laplace's approximation.
    chi2
        ‖(û − u)/σ‖²/n.
    solves
        Forward solves in all.
    converged
        Whether the last step was below the tolerance.
    """

    theta: Array
    covariance: Array
    chi2: float
    iterations: int
    solves: int
    converged: bool


def observation_map(
    data: Data,
    library: Library,
    initial: Data,
    sigma: float,
    prior: BoundPrior,
    start: Array,
    *,
    max_iterations: int = 30,
    progress: Progress = silent,
) -> MapEstimate:
    """Fit backward-Euler solutions on the mesh of the data, one step per frame, to all frames but the first.

    Parameters
    ----------
    initial
        Its first frame is the state at the first time, taken as known.
    start
        First θ (d,).
    """
    fields = data.names

    def forward(theta: Array) -> Array:
        solved = simulate(library, theta, initial, data.times)
        return np.concatenate([solved.fields[f][1:].ravel() for f in fields])

    observed = np.concatenate([data.fields[f][1:].ravel() for f in fields])
    return gauss_newton(forward, observed, sigma, prior, start, max_iterations=max_iterations, progress=progress)


def gauss_newton(
    forward: Callable[[Array], Array],
    observed: Array,
    sigma: float,
    prior: BoundPrior,
    start: Array,
    *,
    tol: float = 1e-3,
    max_iterations: int = 30,
    progress: Progress = silent,
) -> MapEstimate:
    """Minimise ‖(û − u(θ))/σ‖² + prior; ends when no coefficient moves by more than tol standard deviations.

    Steps that do not lower the objective, or whose forward solve fails, are halved.
    """
    theta, solves = np.asarray(start, dtype=float), 1
    u = forward(theta)
    value = _objective(u, theta, observed, sigma, prior)
    converged, iteration = False, 0
    while not converged and iteration < max_iterations:
        iteration += 1
        J = _differences(forward, theta, u) / sigma
        solves += len(theta)
        H = J.T @ J + prior.precision
        step = np.linalg.solve(H, J.T @ (observed - u) / sigma + prior.gradient(theta))
        converged = bool(np.max(np.abs(step) / np.sqrt(np.diag(np.linalg.inv(H)))) <= tol)
        for halving in range(_HALVINGS):
            solves += 1
            tried = theta + step / 2**halving
            moved = _solved(forward, tried)
            lower = np.inf if moved is None else _objective(moved, tried, observed, sigma, prior)
            if moved is not None and (lower <= value or converged):
                theta, u, value = tried, moved, min(value, lower)
                break
        else:
            break
        progress(iteration, None, f"observation-space MAP, {solves} forward solves")
    chi2 = float(np.mean(((observed - u) / sigma) ** 2))
    return MapEstimate(theta, np.asarray(np.linalg.inv(H), dtype=float), chi2, iteration, solves, converged)


def _differences(forward: Callable[[Array], Array], theta: Array, u: Array) -> Array:
    """∂u/∂θ (n, d)."""
    columns = []
    for i, value in enumerate(theta):
        h = _DIFFERENCE * max(1.0, abs(float(value)))
        moved = theta.copy()
        moved[i] += h
        columns.append((forward(moved) - u) / h)
    return np.stack(columns, axis=1)


def _objective(u: Array, theta: Array, observed: Array, sigma: float, prior: BoundPrior) -> float:
    return float(np.sum(((observed - u) / sigma) ** 2)) + prior.distance(theta)


def _solved(forward: Callable[[Array], Array], theta: Array) -> Array | None:
    """The forward solve, or None where the equation has no solution with these coefficients."""
    try:
        u = forward(theta)
    except BvsiError:
        return None
    return u if np.all(np.isfinite(u)) else None
