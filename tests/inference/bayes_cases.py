"""Small likelihoods for Bayesian methods, and closed forms in dense algebra to hold them against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bvsi.data import Data, Grid
from bvsi.forward import simulate
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID, Noise, add_noise
from bvsi.operators import Library, NoFlux
from bvsi.residual import assemble
from inference.cases import dense_weights, reaction_diffusion, stacked

SIGMA = 2e-3


def four_operators(noise: Noise = IID(SIGMA)) -> ResidualLikelihood:  # noqa: B008
    """u_t = 0.1 u_xx − 0.8 u, fitted with ``dx(u)`` and ``u**2`` too: two true coefficients are zero."""
    data, _ = reaction_diffusion(n=13, steps=12, sigma=SIGMA)
    library = Library({"u": ["laplacian(u)", "dx(u)", "u", "u**2"]}, boundary=NoFlux())
    return residual_likelihood(assemble(data, library), noise)


def two_operators(noise: Noise = IID(SIGMA)) -> ResidualLikelihood:  # noqa: B008
    """u_t = 0.1 u_xx − 0.8 u."""
    return residual_likelihood(assemble(*reaction_diffusion(n=9, steps=12, sigma=SIGMA)), noise)


def burgers(noise: Noise = IID(SIGMA)) -> ResidualLikelihood:  # noqa: B008
    """u_t = 0.05 u_xx − u u_x: sensitivities that change in time."""
    x, times = np.linspace(0, 1, 15), np.linspace(0, 0.4, 9)
    library = Library({"u": ["laplacian(u)", "u*dx(u)"]}, boundary=NoFlux())
    first = 0.5 + 0.4 * np.cos(np.pi * x)
    initial = Data(times=times[:2], fields={"u": np.stack([first, first])}, geometry=Grid(x=x))
    data = add_noise(simulate(library, (0.05, -1.0), initial, times), SIGMA, np.random.default_rng(5))
    return residual_likelihood(assemble(data, library), noise)


def fokker_planck(noise: Noise = IID(SIGMA)) -> ResidualLikelihood:  # noqa: B008
    """p_t = 0.2 Δp + 0.4 ∇·(p ∇x²) + 0.3 ∇·(p ∇y²) on a square."""
    x, times = np.linspace(-1, 1, 7), np.linspace(0, 0.5, 6)
    library = Library({"p": ["laplacian(p)", "div(p*grad(x**2))", "div(p*grad(y**2))"]}, boundary=NoFlux())
    first = 1.0 + 0.5 * np.cos(np.pi * x)[:, None] * np.cos(0.5 * np.pi * (x + 1))
    initial = Data(times=times[:2], fields={"p": np.stack([first, first]).reshape(2, -1)}, geometry=Grid(x=x, y=x))
    data = add_noise(simulate(library, (0.2, 0.4, 0.3), initial, times), SIGMA, np.random.default_rng(6))
    return residual_likelihood(assemble(data, library), noise)


def dense_quadratic(likelihood: ResidualLikelihood, theta: np.ndarray, variance: float) -> tuple[np.ndarray, ...]:
    """W(θ), y and X in dense matrices, for equal noise of that variance."""
    (residuals,) = likelihood.system.experiments
    return (dense_weights(residuals, theta, variance), *stacked(residuals))


def frozen_posterior(
    likelihood: ResidualLikelihood, theta: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance for weights W(θ) and the prior N(mean, precision⁻¹) (eq:lagged_gaussian_posterior)."""
    W, y, X = dense_quadratic(likelihood, theta, SIGMA**2)
    covariance = np.linalg.inv(precision + X.T @ W @ X)
    return covariance @ (precision @ mean + X.T @ W @ y), covariance


def differences(f: Callable[[np.ndarray], float], x: np.ndarray, step: np.ndarray) -> np.ndarray:
    """∇f by central differences of fourth order with steps (d,)."""
    gradient = np.empty(len(x))
    for i, h in enumerate(step):
        e = h * np.eye(len(x))[i]
        gradient[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h)
    return gradient
