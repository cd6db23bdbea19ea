"""Small experiments, and their residual algebra written out in dense matrices."""

from __future__ import annotations

import numpy as np

from bvsi.data import Data, Grid
from bvsi.forward import simulate
from bvsi.noise import add_noise
from bvsi.operators import Library, NoFlux
from bvsi.residual import Residuals, ResidualSystem, assemble

UNIFORM = np.linspace(0, 0.5, 6)
UNEQUAL = np.array([0.0, 0.07, 0.2, 0.26, 0.41, 0.5])


def smooth_1d(n: int = 9, times: np.ndarray = UNEQUAL, *, fields: tuple[str, ...] = ("u",), seed: int = 0) -> Data:
    """Smooth random waves on an uneven 1D grid."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n) ** 1.2
    values = {}
    for field in fields:
        amplitude, phase, rate = rng.uniform(0.5, 1, 3), rng.uniform(0, 3, 3), rng.uniform(0.5, 2, 3)
        waves = [
            A * np.cos(m * np.pi * x + p) * np.exp(-r * times[:, None])
            for m, (A, p, r) in enumerate(zip(amplitude, phase, rate, strict=True), 1)
        ]
        values[field] = 1.0 + sum(waves)
    return Data(times=times, fields=values, geometry=Grid(x=x))


def reaction_diffusion(
    n: int = 17, steps: int = 20, sigma: float = 1e-3, seed: int = 0, theta: tuple[float, float] = (0.1, -0.8)
) -> tuple[Data, Library]:
    """u_t = θ₁ u_xx + θ₂ u, simulated with the discretisation that the identification uses, plus noise."""
    x = np.linspace(0, 1, n)
    times = np.linspace(0, 1, steps + 1)
    library = Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux())
    start = 1.5 + np.cos(np.pi * x) + 0.5 * np.cos(2 * np.pi * x)
    initial = Data(times=times[:2], fields={"u": np.stack([start, start])}, geometry=Grid(x=x))
    clean = simulate(library, theta, initial, times)
    return add_noise(clean, sigma, np.random.default_rng(seed)), library


def reaction_system(**choices: object) -> ResidualSystem:
    """Residual system of :func:`reaction_diffusion`."""
    return assemble(*reaction_diffusion(**choices))


def dense_mass(residuals: Residuals) -> np.ndarray:
    """M, (N, n_u)."""
    return residuals.structure.pattern.matrix(residuals.structure.M).toarray()


def dense_jacobian(residuals: Residuals, i: int, time: int) -> np.ndarray:
    """J_i(û_time), (N, n_u)."""
    values = np.zeros(residuals.structure.pattern.nnz)
    residuals.J[i].add(values, 1.0, time)
    return residuals.structure.pattern.matrix(values).toarray()


def dense_sensitivities(residuals: Residuals, theta: np.ndarray) -> np.ndarray:
    """C_kj = a_kj M − b_kj Σ_i θ_i J_i(û_j), (K, T, N, n_u)."""
    s = residuals.structure
    a, b, M = s.a.toarray(), s.b.toarray(), dense_mass(residuals)
    J = np.stack([sum(t * dense_jacobian(residuals, i, j) for i, t in enumerate(theta)) for j in range(s.n_times)])
    return a[:, :, None, None] * M - b[:, :, None, None] * J


def dense_covariance(residuals: Residuals, theta: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Σ_kl = Σ_j C_kj Σ_u,j C_ljᵀ, (K, K, N, N); state: Σ_u by time, (T, n_u, n_u)."""
    C = dense_sensitivities(residuals, theta)
    return np.einsum("kjnu,juv,ljmv->klnm", C, state, C, optimize=True)


def dense_weights(residuals: Residuals, theta: np.ndarray, variance: float = 1.0) -> np.ndarray:
    """blockdiag(Σ_kk)⁻¹ for equal noise everywhere, (K N, K N), blocks one after another."""
    n_u = residuals.structure.n_state
    state = np.broadcast_to(variance * np.eye(n_u), (residuals.structure.n_times, n_u, n_u))
    C = dense_sensitivities(residuals, theta)
    K, N = residuals.structure.n_blocks, residuals.structure.n_rows
    W = np.zeros((K * N, K * N))
    for k in range(K):
        block = np.einsum("jnu,juv,jmv->nm", C[k], state, C[k], optimize=True)
        W[k * N : (k + 1) * N, k * N : (k + 1) * N] = np.linalg.inv(block)
    return W


def stacked(residuals: Residuals) -> tuple[np.ndarray, np.ndarray]:
    """y (K N,) and X (K N, d), blocks one after another."""
    return residuals.y.T.ravel(), residuals.X.transpose(1, 0, 2).reshape(-1, residuals.X.shape[2])
