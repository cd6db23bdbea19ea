"""The paper's way, taken literally: dense covariances, dense Cholesky, every smaller model fitted from scratch.

    Σ(θ) = Σ_j C_j Σ_u C_jᵀ,   C_j = a_j M − b_j Σ_i θ_i J_i,   Σ_u = σ² I
    lagged   θ ← θ + H⁻¹g,   H = XᵀΣ(θ)⁻¹X,   g = XᵀΣ(θ)⁻¹r(θ)                (sec:lagged_covariance_inference)
    BIC_res  Σ_k (rᵀΣ⁻¹r + log det Σ) + n log 2π + d log n                    (eq:residual_bic)

and backward elimination (sec:sequential_operator_elimination): of all models with one operator less, each fitted from
least squares, the one with the smallest BIC_res, as long as it is smaller than that of the model at hand.

This is the reference that bvsi is compared with, so that the formulas stand here a second time on purpose: NumPy and
SciPy's LAPACK only, nothing of ``bvsi.likelihood`` or ``bvsi.select``. It takes y, X, M and J as they are assembled.
Two things are made cheaper than in the paper. The paper factorises Σ of every time; here all times share one, which is
right for operators that are linear in the state and even steps. J_i are summed as sparse matrices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.residual import ResidualSystem

Array = NDArray[np.float64]

_TOL = 1e-8  # as of bvsi.Lagged, so that the two can be compared to many digits
_MAX_ITERATIONS = 50


@dataclass
class Clock:
    """Seconds by kind of work, added up.

    Parameters
    ----------
    evaluations
        Covariances that were formed and factorised.
    """

    forming: float = 0.0
    factorising: float = 0.0
    solving: float = 0.0
    evaluations: int = 0

    def add(self, forming: float, factorising: float, solving: float) -> None:
        """One more evaluation."""
        self.forming += forming
        self.factorising += factorising
        self.solving += solving
        self.evaluations += 1

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.forming + self.factorising + self.solving


@dataclass(frozen=True, eq=False)
class Dense:
    """One experiment with even steps and operators that are linear in the state.

    Attributes
    ----------
    Z
        (N, K, 1 + d), y and X side by side.
    M
        (N, n_u).
    J
        d matrices (N × n_u), sparse.
    a, b
        Stencil of a block, one entry per time.
    sigma
        Sigma of the noise.
    """

    names: tuple[str, ...]
    Z: Array
    M: Array
    J: tuple[Any, ...]
    a: Array
    b: Array
    sigma: float
    clock: Clock = field(default_factory=Clock)

    @staticmethod
    def of(system: ResidualSystem, sigma: float) -> Dense:
        """The arrays of a residual system."""
        (one,) = system.experiments
        structure = one.structure
        if not one.constant_jacobian or structure.active is not None:
            raise BvsiError("system: the literal way needs operators that are linear in the state, and all values.")
        a, b = structure.a.toarray(), structure.b.toarray()
        times = np.flatnonzero(np.any([a[0], b[0]], axis=0))
        J = tuple(structure.pattern.matrix(sensitivity.values(0)) for sensitivity in one.J)
        M = structure.pattern.matrix(structure.M).toarray()
        return Dense(system.names, one.Z, M, J, a[0, times], b[0, times], sigma)

    def without(self, name: str) -> Dense:
        """One operator less."""
        i = self.names.index(name)
        kept = [j for j in range(len(self.names)) if j != i]
        return replace(
            self,
            names=tuple(self.names[j] for j in kept),
            Z=np.ascontiguousarray(self.Z[:, :, [0, *(1 + j for j in kept)]]),
            J=tuple(self.J[j] for j in kept),
        )

    @property
    def n(self) -> int:
        """Number of residuals."""
        N, K, _ = self.Z.shape
        return int(N * K)


@dataclass(frozen=True, eq=False)
class LiteralFit:
    """A model at its lagged estimate: theta (d,), covariance (d, d), score BIC_res."""

    names: tuple[str, ...]
    theta: Array
    covariance: Array
    score: float
    iterations: int


@dataclass(frozen=True, eq=False)
class LiteralSelection:
    """The model selected, and what it took.

    Attributes
    ----------
    fits
        Models fitted.
    skipped
        Models that were left out for lack of time.
    blocks
        Times, K.
    """

    best: LiteralFit
    full: LiteralFit
    fits: int
    skipped: int
    blocks: int
    clock: Clock

    @property
    def seconds(self) -> float:
        """Measured, plus what the models left out would take if they were like the others."""
        return self.clock.seconds * (1 + self.skipped / self.fits)

    @property
    def seconds_every_block(self) -> float:
        """Extrapolated: Σ of every time formed and factorised on its own, as the paper does."""
        per_block = (self.clock.forming + self.clock.factorising) * (1 + self.skipped / self.fits)
        return self.seconds + (self.blocks - 1) * per_block

    @property
    def seconds_without_forming(self) -> float:
        """As if the products C Σ_u Cᵀ cost nothing: Cholesky and solves alone."""
        return (self.clock.factorising + self.clock.solving) * (1 + self.skipped / self.fits)


def select(
    dense: Dense, keep: Sequence[str] = (), *, limit: float = math.inf, progress: Progress = silent
) -> LiteralSelection:
    """Backward elimination by BIC_res.

    Parameters
    ----------
    keep
        Operators that stay.
    limit
        Seconds after which no further model is begun.
    """
    full = best = fit(dense)
    fits, skipped, current = 1, 0, dense
    while True:
        free = [name for name in current.names if name not in keep] if len(current.names) > 1 else []
        tried = []
        for number, name in enumerate(free):
            if dense.clock.seconds > limit:
                skipped += len(free) - number
                break
            progress(number, len(free), f"literal way, {len(free)} models of {len(current.names) - 1} operators")
            smaller = current.without(name)
            tried.append((fit(smaller), smaller))
        fits += len(tried)
        better = min(tried, key=lambda one: one[0].score, default=None)
        if better is None or skipped or better[0].score >= best.score:
            return LiteralSelection(best, full, fits, skipped, dense.Z.shape[1], dense.clock)
        best, current = better


def fit(dense: Dense) -> LiteralFit:
    """Lagged iteration from least squares, and BIC_res at its end."""
    d = len(dense.names)
    columns = dense.Z.reshape(-1, 1 + d)
    theta = np.asarray(np.linalg.lstsq(columns[:, 1:], columns[:, 0], rcond=None)[0], dtype=float)
    change, iterations = math.inf, 0
    while change > _TOL and iterations < _MAX_ITERATIONS:
        H, g, _, _ = _normal_equations(dense, theta)
        covariance = np.asarray(np.linalg.inv(H), dtype=float)
        step = np.linalg.solve(H, g)
        theta = np.asarray(theta + step, dtype=float)
        change = float(np.max(np.abs(step) / (np.abs(theta) + np.sqrt(np.diag(covariance)))))
        iterations += 1
    _, _, q, logdet = _normal_equations(dense, theta)
    score = q + logdet + dense.n * math.log(2 * math.pi) + d * math.log(dense.n)
    return LiteralFit(dense.names, theta, covariance, score, iterations)


def _normal_equations(dense: Dense, theta: Array) -> tuple[Array, Array, float, float]:
    """H, g, q = rᵀΣ⁻¹r and log det Σ, summed over the blocks."""
    N, K, m = dense.Z.shape
    stamps = [time.perf_counter()]
    J = sum(float(t) * one for t, one in zip(theta, dense.J, strict=True)).toarray()
    covariance = np.zeros((N, N))
    for a, b in zip(dense.a, dense.b, strict=True):
        C = dense.sigma * (a * dense.M - b * J)
        covariance += C @ C.T
    stamps.append(time.perf_counter())
    L = scipy.linalg.cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    stamps.append(time.perf_counter())
    white = scipy.linalg.solve_triangular(L, dense.Z.reshape(N, K * m), lower=True, check_finite=False).reshape(-1, m)
    r = white[:, 0] - white[:, 1:] @ theta
    H, g = white[:, 1:].T @ white[:, 1:], white[:, 1:].T @ r
    logdet = 2 * K * float(np.log(np.diag(L)).sum())
    stamps.append(time.perf_counter())
    dense.clock.add(*np.diff(stamps).tolist())
    return H, g, float(r @ r), logdet
