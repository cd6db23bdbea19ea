"""Cholesky through SciPy's SuperLU: always there, slower."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import NotPositiveDefiniteError
from bvsi.linalg.factor import (
    Factor,
    by_blocks,
    check_pivots,
    check_values,
    inverse_by_columns,
    not_positive_definite,
)
from bvsi.linalg.machine import single_threaded_blas
from bvsi.linalg.ordering import permuted
from bvsi.linalg.pattern import Pattern

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SuperLU:
    """``P A Pᵀ = L D Lᵀ`` read off an LU factorisation without pivoting. Its selected inverse is slow."""

    name: ClassVar[str] = "superlu"

    @property
    def remedy(self) -> str:
        """Nothing is needed beyond SciPy."""
        return "pip install scipy"

    def available(self) -> bool:
        """Always true: SciPy is required."""
        return True

    def analyse(self, pattern: Pattern, permutation: NDArray[np.int64]) -> SuperLUAnalysis:
        """Permute the pattern; SuperLU repeats its own symbolic work at every factorisation."""
        reordered, order = permuted(pattern, permutation)
        return SuperLUAnalysis(pattern, permutation, reordered, order)


@dataclass(frozen=True, eq=False)
class SuperLUAnalysis:
    """Pattern of A, the permutation, the pattern of P A Pᵀ and the slot in A of each of its entries."""

    pattern: Pattern
    permutation: NDArray[np.int64]
    reordered: Pattern
    order: NDArray[np.int64]

    backend: ClassVar[str] = "superlu"

    def factor(self, values: ArrayLike, *, label: str = "matrix") -> SuperLUFactor:
        """Factorise without pivoting; exact symmetry of the values is assumed."""
        A = check_values(values, self.pattern, label)[self.order]
        indptr, indices = self.reordered.indptr.astype(np.intc), self.reordered.indices.astype(np.intc)
        # The rows of a symmetric matrix are its columns.
        M = sparse.csc_matrix((A, indices, indptr), shape=self.reordered.shape)
        diagonal = M.diagonal()
        try:
            lu = _symmetric_lu(M)
        except RuntimeError:  # an exactly zero pivot, without saying where
            raise self._singular(M, label) from None
        exchanged = np.flatnonzero(lu.perm_r != lu.perm_c)
        if len(exchanged):  # it only leaves the diagonal when that is exactly zero
            raise not_positive_definite(label, int(self.permutation[exchanged[0]]), diagonal[exchanged[0]])
        order = np.argsort(lu.perm_c)
        rows, pivots = self.permutation[order], lu.U.diagonal()
        check_pivots(pivots, diagonal[order], rows, label)
        return SuperLUFactor(self.pattern, self.permutation, lu, rows, pivots)

    def _singular(self, M: Any, label: str) -> NotPositiveDefiniteError:
        """Find the row of a zero pivot: the one that a tiny shift of the diagonal makes smallest."""
        diagonal = M.diagonal()
        shift = 1e-10 * max(float(np.abs(diagonal).max()), np.finfo(np.float64).tiny)
        try:
            lu = _symmetric_lu(sparse.csc_matrix(M + shift * sparse.eye_array(M.shape[0])))
            column = int(np.argsort(lu.perm_c)[np.argmin(lu.U.diagonal())])
        except RuntimeError:
            column = int(np.argmin(diagonal))
        return not_positive_definite(label, int(self.permutation[column]), float(diagonal[column]), 0.0)


@dataclass(frozen=True, eq=False)
class SuperLUFactor(Factor):
    """``A[rows][:, rows] = L D Lᵀ`` with L of unit diagonal and ``pivots`` the diagonal of D.

    SuperLU was handed ``A[p][:, p]`` with p = ``permutation`` and refined the order once more, to ``rows``.
    """

    pattern: Pattern
    permutation: NDArray[np.int64]
    lu: Any
    rows: NDArray[np.int64]
    pivots: Array

    backend: ClassVar[str] = "superlu"

    @cached_property
    def _lower(self) -> Any:
        """A solver for L alone. SuperLU offers none, but the LU factors of L are L and the identity."""
        return _symmetric_lu(sparse.csc_matrix(self.lu.L))

    def logdet(self) -> float:
        """``Σ_i log D_ii``."""
        return float(np.log(self.pivots).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B``."""
        return by_blocks(B, self.permutation, self.permutation, self.lu.solve)

    def whiten(self, B: ArrayLike) -> Array:
        """``D^{−1/2} L⁻¹ P B``, rows in elimination order."""
        scale = 1.0 / np.sqrt(self.pivots)[:, None]
        return by_blocks(B, self.rows, slice(None), lambda X: scale * self._lower.solve(X))

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``Pᵀ L⁻ᵀ D^{−1/2} Y``."""
        scale = 1.0 / np.sqrt(self.pivots)[:, None]
        return by_blocks(Y, np.arange(len(self.rows)), self.rows, lambda X: self._lower.solve(scale * X, trans="T"))

    def selected_inverse(self) -> Array:
        """A⁻¹ on the pattern of A by n solves: exact, and slow (see :func:`inverse_by_columns`)."""
        return inverse_by_columns(self, self.pattern)


def _symmetric_lu(M: Any) -> Any:
    """LU in the order given, pivots on the diagonal."""
    from scipy.sparse.linalg import splu

    with single_threaded_blas():
        return splu(M, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
