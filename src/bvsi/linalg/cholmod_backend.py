"""Cholesky through CHOLMOD, when scikit-sparse 0.4.x is installed.

Version 0.5.0 is refused: it turns factors simplicial and leaks them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from bvsi.linalg.factor import (
    as_columns,
    blocks,
    check_pivots,
    check_values,
    inverse_by_columns,
    not_positive_definite,
)
from bvsi.linalg.ordering import permuted
from bvsi.linalg.pattern import Pattern
from bvsi.linalg.threads import single_threaded_blas


@dataclass(frozen=True)
class Cholmod:
    """SuiteSparse's supernodal Cholesky. Its selected inverse is slow."""

    @property
    def name(self) -> str:
        """``cholmod``."""
        return "cholmod"

    @property
    def remedy(self) -> str:
        """How to install what it needs."""
        return "install libsuitesparse-dev, then pip install 'scikit-sparse>=0.4.16,<0.5'"

    def available(self) -> bool:
        """True if scikit-sparse 0.4.x imports."""
        return _module() is not None

    def analyse(self, pattern: Pattern, permutation: NDArray[np.int64]) -> CholmodAnalysis:
        """CHOLMOD's symbolic analysis of the permuted pattern."""
        reordered, order = permuted(pattern, permutation)
        # The values do not matter to the analysis.
        symbolic = _module().analyze(
            _matrix(reordered, np.ones(pattern.nnz)), mode="supernodal", ordering_method="natural"
        )
        return CholmodAnalysis(pattern, permutation, reordered, order, symbolic)


@dataclass(frozen=True, eq=False)
class CholmodAnalysis:
    """Pattern of A, permutation, pattern of P A Pᵀ, slot in A of its entries, and CHOLMOD's analysis."""

    pattern: Pattern
    permutation: NDArray[np.int64]
    reordered: Pattern
    order: NDArray[np.int64]
    symbolic: Any
    # All factors of one analysis share CHOLMOD's work space, so only one thread at a time may be inside.
    lock: Any = field(default_factory=threading.RLock)

    @property
    def backend(self) -> str:
        """``cholmod``."""
        return "cholmod"

    def factor(self, values: ArrayLike, *, label: str = "matrix") -> CholmodFactor:
        """Factorise; CHOLMOD reads one triangle."""
        A = _matrix(self.reordered, check_values(values, self.pattern, label)[self.order])
        diagonal = A.diagonal()
        with self.lock, single_threaded_blas():
            try:
                factor = self.symbolic.cholesky(A)
            except _module().CholmodNotPositiveDefiniteError as error:
                # The column counts eliminations, in CHOLMOD's own order.
                row = int(self.symbolic.P()[min(int(error.column), len(diagonal) - 1)])
                raise not_positive_definite(label, int(self.permutation[row]), float(diagonal[row])) from None
            order, pivots = factor.P(), factor.D()
        check_pivots(pivots, diagonal[order], self.permutation[order], label)
        return CholmodFactor(self, factor, self.permutation[order], pivots)


@dataclass(frozen=True, eq=False)
class CholmodFactor:
    """``A[rows][:, rows] = L Lᵀ``; ``pivots`` are the squared diagonal entries of L."""

    analysis: CholmodAnalysis
    cholmod: Any
    rows: NDArray[np.int64]
    pivots: NDArray[np.float64]

    @property
    def backend(self) -> str:
        """``cholmod``."""
        return "cholmod"

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(np.log(self.pivots).sum())

    def solve(self, B: ArrayLike) -> NDArray[np.float64]:
        """``A⁻¹ B``."""
        columns = as_columns(B, len(self.rows))
        perm = self.analysis.permutation
        out = np.empty(columns.shape)
        with self.analysis.lock, single_threaded_blas():
            for block in blocks(columns.shape[1]):
                out[perm, block] = self.cholmod.solve_A(columns[perm, block])
        return out.reshape(np.shape(B))

    def whiten(self, B: ArrayLike) -> NDArray[np.float64]:
        """``L⁻¹ P B``, rows in elimination order."""
        columns = as_columns(B, len(self.rows))
        out = np.empty(columns.shape)
        with self.analysis.lock, single_threaded_blas():
            for block in blocks(columns.shape[1]):
                reordered = columns[self.rows, block]
                out[:, block] = self.cholmod.solve_L(reordered, use_LDLt_decomposition=False)
        return out.reshape(np.shape(B))

    def whiten_transposed(self, Y: ArrayLike) -> NDArray[np.float64]:
        """``Pᵀ L⁻ᵀ Y``."""
        columns = as_columns(Y, len(self.rows))
        out = np.empty(columns.shape)
        with self.analysis.lock, single_threaded_blas():
            for block in blocks(columns.shape[1]):
                reordered = np.ascontiguousarray(columns[:, block])
                out[self.rows, block] = self.cholmod.solve_Lt(reordered, use_LDLt_decomposition=False)
        return out.reshape(np.shape(Y))

    def gram(self, B: ArrayLike) -> NDArray[np.float64]:
        """``(RB)ᵀ(RB)``."""
        R = self.whiten(as_columns(B, len(self.rows)))
        return R.T @ R

    def selected_inverse(self) -> NDArray[np.float64]:
        """A⁻¹ on the pattern of A by n solves: exact, and slow (see :func:`inverse_by_columns`)."""
        return inverse_by_columns(self, self.analysis.pattern)


@cache
def _module() -> Any:
    """``sksparse.cholmod`` of scikit-sparse 0.4.x, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        from sksparse import cholmod

        return cholmod if version("scikit-sparse").startswith("0.4.") else None
    except (ImportError, PackageNotFoundError):
        return None


def _matrix(pattern: Pattern, values: NDArray[np.float64]) -> Any:
    indptr, indices = pattern.indptr.astype(np.intc), pattern.indices.astype(np.intc)
    # The rows of a symmetric matrix are its columns.
    return sparse.csc_matrix((values, indices, indptr), shape=pattern.shape)
