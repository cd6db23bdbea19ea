"""Covariance of some of the residuals of an experiment, those that do not depend on missing values, time by time.

    Σ = Σ_j C_j Σ_u,j C_jᵀ,      C_j[(k, i), ·] = a_kj M_i − b_kj Σ_m θ_m J_m,i(û_j)

The rows of C_j are those of the residuals (k, i) that are asked for and use time j, and no others are formed. Where a
mask moves, few of the residuals of all test functions at all times are left, and the products over all of them would be
far more work. Functions that are wide touch so many values that the products of axes
(:mod:`bvsi.likelihood.tensor_covariance`) are less work all the same; the rows are then taken from those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.likelihood.covariance import CovariancePlan
from bvsi.likelihood.stacked_covariance import StackedCovariance
from bvsi.linalg import Pattern
from bvsi.linalg.pattern import scatter
from bvsi.residual import Residuals

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Multiplications of a dense factorisation that take as long as one of a product of sparse matrices, and as an entry of
# the products of axes: 8 and 75 ns on 26⁴ values, where one of them takes 0.17.
_SPARSE, _TENSOR = 50.0, 450.0


@dataclass(frozen=True, eq=False)
class RowsCovariance:
    """Σ of the residuals that are used, as a dense matrix.

    Attributes
    ----------
    blocks
        Plan of one block.
    rows
        The residuals, k N + i, ascending, (n,).
    whole
        Products of axes for all residuals, where they are less work.
    """

    blocks: CovariancePlan
    rows: Integers
    whole: StackedCovariance | None = None

    @staticmethod
    def of(blocks: CovariancePlan) -> RowsCovariance | None:
        """For spline tests of which so few residuals are used that it is less work; None for all others."""
        structure = blocks.structure
        if structure.active is None or structure.mass_at_nodes is None:
            return None
        made, every = RowsCovariance(blocks, np.flatnonzero(structure.active.T.ravel())), StackedCovariance.of(blocks)
        work = _SPARSE * made.entries**2 / float(structure.n_state * structure.n_times)
        if every.tensor is not None and _TENSOR * every.nnz / 2 < work:
            made, work = replace(made, whole=every), _TENSOR * every.nnz / 2
        return made if work < float(structure.n_rows * structure.n_blocks) ** 3 / 3 else None

    @property
    def nnz(self) -> int:
        """Entries of Σ."""
        return len(self.rows) ** 2

    @cached_property
    def entries(self) -> float:
        """Entries of all C_j."""
        structure = self.blocks.structure
        k, i = np.divmod(self.rows, structure.n_rows)
        return float(np.diff(self._stencils[0].indptr)[k] @ np.diff(structure.pattern.indptr)[i])

    @property
    def pattern(self) -> Pattern:
        """All entries, (n × n)."""
        n = len(self.rows)
        return Pattern((n, n), np.arange(n + 1, dtype=np.int64) * n, np.tile(np.arange(n, dtype=np.int64), n))

    @cached_property
    def _stencils(self) -> tuple[Any, Any, Any]:
        """Where a or b is not zero, a and b, (K × T)."""
        a, b = (sparse.csr_array(s) for s in (self.blocks.structure.a, self.blocks.structure.b))
        return sparse.csr_array((abs(a) + abs(b)) != 0), a.toarray(), b.toarray()

    def _at(self, time: int) -> tuple[Integers, Array, Array, Pattern, Integers]:
        """Residuals that use a time, their a and b, the pattern of their rows of C_j, and its slots."""
        structure, (used, a, b) = self.blocks.structure, self._stencils
        k, i = np.divmod(self.rows, structure.n_rows)
        own = np.flatnonzero(used[:, [time]].toarray()[k, 0])
        pattern, slots = structure.pattern.restrict_rows(i[own])
        return own, a[k[own], time], b[k[own], time], pattern, slots

    def dense(self, residuals: Residuals, theta: Array) -> Array:
        """Σ(θ), (n, n); what stands above the diagonal may mean nothing."""
        if self.whole is not None:
            return self._of_axes(self.whole, residuals, theta)
        M, G = residuals.structure.M, residuals.jacobians(theta)
        A = np.zeros((len(self.rows), len(self.rows)))
        for j in range(residuals.structure.n_times):
            own, a, b, pattern, slots = self._at(j)
            C = pattern.matrix(a[pattern.rows] * M[slots] - b[pattern.rows] * G.values(j)[slots])
            noise = self.blocks.noise.distinct[int(self.blocks.noise.label[j])]
            left = C @ noise if sparse.issparse(noise) else pattern.matrix(C.data * noise[pattern.indices])
            A[np.ix_(own, own)] += (left @ C.T).toarray()
        return A

    def _of_axes(self, whole: StackedCovariance, residuals: Residuals, theta: Array) -> Array:
        """The lower triangle, from the products of axes."""
        assert whole.tensor is not None
        N, half, n = residuals.structure.n_rows, whole.k <= whole.l, len(self.rows)
        position = np.full(N * residuals.structure.n_blocks, -1, dtype=np.int64)
        position[self.rows] = np.arange(n)
        first, second = (end.ravel() for end in whole.tensor.ends)
        there = np.flatnonzero(first >= 0)
        values = whole.tensor.values(residuals.jacobians(theta)).reshape(int(half.sum()), -1)
        A = np.zeros((n, n))
        for own, k, l in zip(values, whole.k[half], whole.l[half], strict=True):  # noqa: E741
            row, column = position[l * N + second[there]], position[k * N + first[there]]
            both = (row >= 0) & (column >= 0)
            A[row[both], column[both]] = own[there[both]]
        return A

    def logdet_gradient(self, residuals: Residuals, theta: Array, inverse: Array) -> Array:
        """∂ log det Σ/∂θ_i = −2 Σ_j ⟨b_j ∘ W C_j Σ_u,j, J_i(û_j)⟩, (d,), from W on the pattern (n²,)."""
        M, G = residuals.structure.M, residuals.jacobians(theta)
        W, slope = inverse.reshape(len(self.rows), -1), np.zeros(len(theta))
        for j in range(residuals.structure.n_times):
            own, a, b, pattern, slots = self._at(j)
            C = pattern.matrix(a[pattern.rows] * M[slots] - b[pattern.rows] * G.values(j)[slots])
            WC = self.blocks.noise_times(j, C.T @ W[np.ix_(own, own)]).T
            inner = b[pattern.rows] * WC[pattern.rows, pattern.indices]
            onto = scatter(slots, inner, residuals.structure.pattern.nnz)
            slope -= 2.0 * residuals.operators_inner(onto, j)
        return slope
