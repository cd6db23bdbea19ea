"""Likelihoods with stacked weighting, and their algebra written out in dense matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from bvsi.data import Data, Grid
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.likelihood.stacked import Stacked
from bvsi.noise import IID, PerTime
from bvsi.operators import Library
from bvsi.residual import BackwardEuler, CrankNicolson, Residuals, Stencil, TemporalTests, assemble
from bvsi.spaces import SplineTests
from inference.cases import dense_jacobian, dense_sensitivities, stacked
from likelihood.test_profile_equations import state_covariances
from likelihood.test_residual_covariance import SETTINGS, STENCILS, Setting, diagonals


def spline_setting(terms: list[str], theta: list[float], *, per_time: bool = False) -> Setting:
    """Waves on an even grid, tested with splines."""
    x, t = np.linspace(0, 1, 21), np.linspace(0, 0.5, 13)
    u = 1 + np.cos(4 * x + 2 * t[:, None]) * np.exp(-t[:, None])
    data = Data(times=t, fields={"u": u}, geometry=Grid(x=x))
    sigma = np.random.default_rng(3).uniform(0.01, 0.03, 13) if per_time else np.full(13, 0.02)
    noise = PerTime(sigma) if per_time else IID(0.02)
    covariances = diagonals(np.repeat(sigma[:, None], 21, axis=1))
    return Setting(data, Library({"u": terms}), np.array(theta), noise, covariances, SplineTests(gap=2, degree=4))


SPLINES = {
    "splines, linear": spline_setting(["laplacian(u)", "dx(u)"], [0.02, -0.5]),
    "splines, nonlinear": spline_setting(["laplacian(u)", "u*dx(u)", "u**3"], [0.02, -0.5, 0.3], per_time=True),
}
ALL = SETTINGS | SPLINES
TEMPORAL = TemporalTests(degree=3, gap=2)
CASES: list[tuple[str, Stencil]] = [
    *((name, STENCILS[i % 3]) for i, name in enumerate(SETTINGS)),
    ("iid", BackwardEuler()),
    ("nonlinear", BackwardEuler()),
    ("nonlinear", CrankNicolson()),
    ("covariance of two fields", BackwardEuler()),
    *((name, TEMPORAL) for name in SPLINES),
]
CASES = list(dict.fromkeys(CASES))
SQUARE = [case for case in CASES if case[0] not in {"iid, boundary unknown", *SPLINES}]


def ids(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


@cache
def stacked_likelihood(name: str, stencil: Stencil, weighting: Stacked = Stacked()) -> ResidualLikelihood:  # noqa: B008
    setting = ALL[name]
    system = assemble(setting.data, setting.library, discretisation=setting.discretisation, stencil=stencil)
    return residual_likelihood(system, setting.noise, weighting)


@dataclass(frozen=True)
class DenseStacked:
    """r, X, C, Σ_u and B_i = b ⊗ J_i of one experiment, rows k·N + i and columns j·n_u + u.

    r: (n,); X: (n, d); C: (n, T n_u); state: Σ_u, (T n_u, T n_u); B: (d, n, T n_u).
    """

    r: np.ndarray
    X: np.ndarray
    C: np.ndarray
    state: np.ndarray
    B: np.ndarray

    @staticmethod
    def of(residuals: Residuals, theta: np.ndarray, state: np.ndarray) -> DenseStacked:
        s = residuals.structure
        n, columns = s.n_blocks * s.n_rows, s.n_times * s.n_state
        y, X = stacked(residuals)
        C = dense_sensitivities(residuals, theta).transpose(0, 2, 1, 3).reshape(n, columns)
        J = np.array([[dense_jacobian(residuals, i, j) for j in range(s.n_times)] for i in range(residuals.d)])
        B = np.einsum("kj,ijnu->iknju", s.b.toarray(), J).reshape(residuals.d, n, columns)
        whole = np.einsum("jl,juv->julv", np.eye(s.n_times), state).reshape(columns, columns)
        return DenseStacked(y - X @ theta, X, C, whole, B)

    def recombined(self, T: np.ndarray) -> DenseStacked:
        """With test functions T of the old ones, T (n, n)."""
        return DenseStacked(T @ self.r, T @ self.X, T @ self.C, self.state, T @ self.B)

    @cached_property
    def covariance(self) -> np.ndarray:
        return self.C @ self.state @ self.C.T

    @cached_property
    def W(self) -> np.ndarray:
        return np.linalg.inv(self.covariance)

    @cached_property
    def smoothed(self) -> np.ndarray:
        """X̃ (n, d)."""
        return self.X - (self.B @ (self.state @ (self.C.T @ (self.W @ self.r)))).T

    @property
    def q(self) -> float:
        return float(self.r @ self.W @ self.r)

    @property
    def H(self) -> np.ndarray:
        return self.smoothed.T @ self.W @ self.smoothed

    @property
    def g(self) -> np.ndarray:
        return self.smoothed.T @ self.W @ self.r

    @property
    def N(self) -> np.ndarray:
        """E[ξᵀWξ] = tr(W A_i Σ_u A_jᵀ), A_i = B_i (I − Σ_u CᵀWC)."""
        A = self.B @ (np.eye(len(self.state)) - self.state @ self.C.T @ self.W @ self.C)
        return np.einsum("nm,imu,jnu->ij", self.W, A @ self.state, A, optimize=True)


@cache
def dense_stacked(name: str, stencil: Stencil) -> DenseStacked:
    (residuals,) = stacked_likelihood(name, stencil).system.experiments
    setting = ALL[name]
    state = setting.covariances if name in SPLINES else state_covariances(setting)
    return DenseStacked.of(residuals, setting.theta, np.asarray(state))
