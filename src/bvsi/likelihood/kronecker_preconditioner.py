"""An approximate inverse of Σ for spline tests: the part that the time terms have in it, which is a Kronecker product.

    Σ ≈ (a diag(σ̄_j²) aᵀ) ⊗ (A_1 A_1ᵀ) ⊗ … ⊗ (A_d A_dᵀ)

for each equation; A_a: test functions along axis a at the nodes, σ̄_j²: mean noise variance at a time. What operators
add is not much larger than the time terms where the tests resolve the dynamics, so that conjugate gradients need some
dozens of steps, each of them axis by axis; no matrix is larger than that of one axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.likelihood.covariance import Part
from bvsi.linalg import Kronecker

Array = NDArray[np.float64]

# Added to the small matrices, relative to their largest entry: functions that hardly differ would blow up rounding.
_RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class _Equation:
    """One equation: its rows, those of all tests that are kept (None for all), and the inverses over space and time."""

    rows: slice
    kept: NDArray[np.int64] | None
    space: Kronecker
    time: Array

    def inverse_times(self, R: Array) -> Array:
        """P⁻¹R for R (rows, K, m); tests that are left out count as zero."""
        K, m = R.shape[1:]
        full = np.ascontiguousarray(R).reshape(-1, K * m)
        if self.kept is not None:
            full = np.zeros((self.space.shape[1], K * m))
            full[self.kept] = R.reshape(-1, K * m)
        inner = self.space @ full
        inner = inner if self.kept is None else inner[self.kept]
        return np.asarray(np.matmul(self.time, inner.reshape(-1, K, m)))


@dataclass(frozen=True, eq=False)
class KroneckerPreconditioner:
    """R ↦ P⁻¹R for residuals R (N, K, m)."""

    equations: tuple[_Equation, ...]

    @staticmethod
    def of(part: Part) -> KroneckerPreconditioner | None:
        """For tests at nodes with diagonal noise; None for all others."""
        structure, noise = part.residuals.structure, part.covariance.noise
        if structure.mass_at_nodes is None or not noise.diagonal:
            return None
        a, equations = structure.a.toarray(), []
        for entries in structure.mass_at_nodes.at_nodes():
            tests = entries.tests.product
            means = np.array([variances[entries.columns].mean() for variances in noise.distinct])
            space = Kronecker(tuple(_inverse(_gram(A)) for A in tests.factors))
            time = _inverse((a * means[noise.label]) @ a.T)
            equations.append(_Equation(entries.tests.rows, tests.rows, space, time))
        return KroneckerPreconditioner(tuple(equations))

    def __call__(self, R: Array) -> Array:
        """P⁻¹R."""
        out = np.empty_like(R)
        for equation in self.equations:
            out[equation.rows] = equation.inverse_times(R[equation.rows])
        return out


def _gram(A: Any) -> Array:
    dense = A.toarray() if sparse.issparse(A) else A
    return np.asarray(dense @ dense.T)


def _inverse(G: Array) -> Array:
    ridge = _RIDGE * float(np.abs(G).max()) * np.eye(len(G))
    inverse = np.linalg.inv(G + ridge)
    return np.asarray(0.5 * (inverse + inverse.T))
