"""Sparse Cholesky factorisation: analyse a pattern once, factorise many value sets.

analysis = analyse(pattern, coordinates=nodes)
factor   = analysis.factor(values, label="residual covariance")
factor.logdet(), factor.solve(B), factor.whiten(B), factor.selected_inverse()

It is multifrontal and supernodal, compiled by Numba on SciPy's BLAS: SciPy's SuperLU takes four to five times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Integers
from bvsi.linalg.factor import Factor, by_blocks, check_pattern, check_pivots, check_values, not_positive_definite
from bvsi.linalg.machine import single_threaded_blas
from bvsi.linalg.ordering import minimum_degree, nested_dissection
from bvsi.linalg.pattern import Pattern


def analyse(pattern: Pattern, *, coordinates: ArrayLike | None = None) -> Analysis:
    """Symbolic analysis of ``P A Pᵀ = L Lᵀ`` for all symmetric positive definite A on a pattern.

    Parameters
    ----------
    pattern: symmetric, (n, n), with its whole diagonal.
    coordinates: (n, dim) place of every unknown. With them the order of elimination is geometric nested
        dissection, which is the better one on grids and meshes; without, minimum degree.
    """
    from bvsi.linalg.symbolic import analyse_pattern  # imports Numba

    check_pattern(pattern)
    permutation = minimum_degree(pattern) if coordinates is None else nested_dissection(pattern, coordinates)
    return analyse_pattern(pattern, permutation)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Structure of L in ``P A Pᵀ = L Lᵀ``; it holds no work space, so threads may share it.

    Supernode J has the columns ``first[J] … first[J+1]−1``, the rows ``rows[row_start[J]:row_start[J+1]]``
    (ascending; its own columns first), and the values ``L[value_start[J]:value_start[J+1]]``, a matrix of
    that many rows and columns stored by columns.

    Parameters
    ----------
    pattern: of A.
    permutation: (n,) row of A in every row of L.
    inverse: (n,) row of L of every row of A.
    first: (n_super + 1,) first column of every supernode.
    parent: (n_super,) the supernode that holds the first row below the diagonal block; −1 at a root.
    row_start: (n_super + 1,); rows: concatenated row structures.
    value_start: (n_super + 1,) places in the value array of L.
    diagonal: (n,) place of every diagonal entry of L.
    slots: (nnz,) place in L of every entry of A's pattern; the two mirror images share a place.
    lower: entries of A's pattern that fill L: one of each mirror pair, and the diagonal.
    stack_size: numbers that the update matrices of the multifrontal method need at most.
    factor_nnz: entries of L without the zeros that merging added.
    """

    pattern: Pattern
    permutation: Integers
    inverse: Integers
    first: Integers
    parent: Integers
    row_start: Integers
    rows: Integers
    value_start: Integers
    diagonal: Integers
    slots: Integers
    lower: Integers
    stack_size: int
    factor_nnz: int

    @cached_property
    def lower_slots(self) -> Integers:
        """Place in L of the entries ``lower``."""
        return self.slots[self.lower]

    @cached_property
    def most_below(self) -> int:
        """Most rows of a supernode below its own."""
        return int(np.max(np.diff(self.row_start) - np.diff(self.first)))

    @property
    def structure(self) -> tuple[Integers, ...]:
        """(first, parent, row_start, rows, value_start): what the numeric kernels take."""
        return self.first, self.parent, self.row_start, self.rows, self.value_start

    def factor(self, values: ArrayLike, *, label: str = "matrix") -> SupernodalFactor:
        """Factorise the matrix with these values, (nnz,) on the full symmetric pattern.

        The values are taken to be symmetric: of each pair of mirrored entries only one is read. A matrix that is not
        positive definite, is singular to working precision (see :func:`~bvsi.linalg.factor.check_pivots`) or has
        values that are not finite raises :class:`NotPositiveDefiniteError`, with ``label`` as its name.
        """
        from bvsi.linalg.blas import addresses
        from bvsi.linalg.supernodal import factorise, work_space

        A = check_values(values, self.pattern, label)
        blas = addresses()
        L = np.zeros(self.value_start[-1])
        L[self.lower_slots] = A[self.lower]
        diagonal = L[self.diagonal]
        with single_threaded_blas():
            broken = int(factorise(self.structure, L, work_space(self.first, self.stack_size), blas))
        if broken >= 0:
            raise not_positive_definite(label, int(self.permutation[broken]), float(diagonal[broken]))
        check_pivots(L[self.diagonal] ** 2, diagonal, self.permutation, label)
        return SupernodalFactor(self, L, blas)


@dataclass(frozen=True, eq=False)
class SupernodalFactor(Factor):
    """``P A Pᵀ = L Lᵀ``; L (value_start[-1],) in the layout of :class:`Analysis`."""

    analysis: Analysis
    L: Array
    blas: Integers

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(2.0 * np.log(self.L[self.analysis.diagonal]).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B = Pᵀ L⁻ᵀ L⁻¹ P B``."""
        perm = self.analysis.permutation
        return by_blocks(B, perm, perm, self._lower, self._upper)

    def whiten(self, B: ArrayLike) -> Array:
        """``L⁻¹ P B``, rows in the order of L."""
        return by_blocks(B, self.analysis.permutation, slice(None), self._lower)

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``Pᵀ L⁻ᵀ Y``."""
        perm = self.analysis.permutation
        return by_blocks(Y, np.arange(len(perm)), perm, self._upper)

    def _lower(self, X: Array) -> Array:
        """``L⁻¹ X``, in place where X is in C order."""
        from bvsi.linalg.supernodal import solve_lower

        X = np.ascontiguousarray(X)
        work = np.empty(self.analysis.most_below * X.shape[1])
        solve_lower(self.analysis.structure, self.L, X.reshape(-1), X.shape[1], work, self.blas)
        return X

    def _upper(self, X: Array) -> Array:
        """``L⁻ᵀ X``, in place where X is in C order."""
        from bvsi.linalg.supernodal import solve_upper

        X = np.ascontiguousarray(X)
        work = np.empty(self.analysis.most_below * X.shape[1])
        solve_upper(self.analysis.structure, self.L, X.reshape(-1), X.shape[1], work, self.blas)
        return X

    def selected_inverse(self) -> Array:
        """A⁻¹ on the pattern of A, by the Takahashi recursion: about twice the price of the factorisation."""
        from bvsi.linalg.supernodal import takahashi

        with single_threaded_blas():
            Z: Array = takahashi(self.analysis.structure, self.L, self.blas)
        return Z[self.analysis.slots]
