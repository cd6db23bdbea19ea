"""Cholesky by our own supernodal kernels: the default wherever Numba is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.linalg import compiled
from bvsi.linalg.factor import as_columns, blocks, check_pivots, check_values, not_positive_definite
from bvsi.linalg.pattern import Pattern
from bvsi.linalg.threads import single_threaded_blas

if TYPE_CHECKING:  # at run time these modules import Numba, so they are imported where they are used
    from bvsi.linalg.symbolic import Symbolic


@dataclass(frozen=True)
class Supernodal:
    """Multifrontal supernodal Cholesky in Numba on SciPy's BLAS, with a fast selected inverse."""

    @property
    def name(self) -> str:
        """``supernodal``."""
        return "supernodal"

    @property
    def remedy(self) -> str:
        """How to install what it needs."""
        if not compiled.numba_available():
            return compiled.REMEDY
        return "install SciPy from its wheels: this build exports BLAS with integers other than 32 bits"

    def available(self) -> bool:
        """True if Numba imports and SciPy's BLAS takes 32-bit integers."""
        return compiled.numba_available() and _addresses() is not None

    def analyse(self, pattern: Pattern, permutation: NDArray[np.int64]) -> SupernodalAnalysis:
        """Elimination tree, supernodes and row structures of a symmetric pattern."""
        from bvsi.linalg.symbolic import analyse_pattern

        return SupernodalAnalysis(pattern, analyse_pattern(pattern, permutation))


@dataclass(frozen=True, eq=False)
class SupernodalAnalysis:
    """A pattern and the structure of its factor; holds no work space, so threads may share it."""

    pattern: Pattern
    symbolic: Symbolic

    @property
    def backend(self) -> str:
        """``supernodal``."""
        return "supernodal"

    def factor(self, values: ArrayLike, *, label: str = "matrix") -> SupernodalFactor:
        """Factorise; of each pair of mirrored entries only one is read."""
        from bvsi.linalg.supernodal import factorise

        A = check_values(values, self.pattern, label)
        s = self.symbolic
        blas = _loaded_addresses()
        L = np.zeros(s.value_start[-1])
        L[s.lower_slots] = A[s.lower]
        diagonal = L[s.diagonal]
        with single_threaded_blas():
            broken = int(factorise(s.structure, L, s.stack_size, blas))
        if broken >= 0:
            raise not_positive_definite(label, int(s.permutation[broken]), float(diagonal[broken]))
        check_pivots(L[s.diagonal] ** 2, diagonal, s.permutation, label)
        return SupernodalFactor(s, L, blas)


@dataclass(frozen=True, eq=False)
class SupernodalFactor:
    """``P A Pᵀ = L Lᵀ``; L (value_start[-1],) in the layout of :class:`~bvsi.linalg.symbolic.Symbolic`."""

    symbolic: Symbolic
    L: NDArray[np.float64]
    blas: NDArray[np.int64]

    @property
    def backend(self) -> str:
        """``supernodal``."""
        return "supernodal"

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(2.0 * np.log(self.L[self.symbolic.diagonal]).sum())

    def solve(self, B: ArrayLike) -> NDArray[np.float64]:
        """``A⁻¹ B = Pᵀ L⁻ᵀ L⁻¹ P B``."""
        from bvsi.linalg.supernodal import solve_lower, solve_upper

        perm, structure = self.symbolic.permutation, self.symbolic.structure
        columns = as_columns(B, len(perm))
        out = np.empty(columns.shape)
        with single_threaded_blas():
            for block in blocks(columns.shape[1]):
                X = columns[:, block][perm]  # one gather; `take` would copy the block first
                solve_lower(structure, self.L, X, self.blas)
                solve_upper(structure, self.L, X, self.blas)
                out[perm, block] = X
        return out.reshape(np.shape(B))

    def whiten(self, B: ArrayLike) -> NDArray[np.float64]:
        """``L⁻¹ P B``, rows in the order of L."""
        from bvsi.linalg.supernodal import solve_lower

        perm, structure = self.symbolic.permutation, self.symbolic.structure
        columns = as_columns(B, len(perm))
        whitened = []
        with single_threaded_blas():
            for block in blocks(columns.shape[1]):
                X = columns[:, block][perm]
                solve_lower(structure, self.L, X, self.blas)
                whitened.append(X)
        out = whitened[0] if len(whitened) == 1 else np.concatenate([np.empty((len(perm), 0)), *whitened], axis=1)
        return out.reshape(np.shape(B))

    def whiten_transposed(self, Y: ArrayLike) -> NDArray[np.float64]:
        """``Pᵀ L⁻ᵀ Y``."""
        from bvsi.linalg.supernodal import solve_upper

        perm, structure = self.symbolic.permutation, self.symbolic.structure
        columns = as_columns(Y, len(perm))
        out = np.empty(columns.shape)
        with single_threaded_blas():
            for block in blocks(columns.shape[1]):
                X = np.array(columns[:, block], order="C")
                solve_upper(structure, self.L, X, self.blas)
                out[perm, block] = X
        return out.reshape(np.shape(Y))

    def gram(self, B: ArrayLike) -> NDArray[np.float64]:
        """``(RB)ᵀ(RB)``."""
        R = self.whiten(as_columns(B, len(self.symbolic.permutation)))
        return R.T @ R

    def selected_inverse(self) -> NDArray[np.float64]:
        """A⁻¹ on the pattern of A, by the Takahashi recursion: about twice the price of the factorisation."""
        from bvsi.linalg.selected_inverse import takahashi

        with single_threaded_blas():
            Z: NDArray[np.float64] = takahashi(self.symbolic.structure, self.L, self.blas)
        return Z[self.symbolic.slots]


def _addresses() -> NDArray[np.int64] | None:
    from bvsi.linalg.blas import addresses

    return addresses()


def _loaded_addresses() -> NDArray[np.int64]:
    found = _addresses()
    if found is None:
        raise RuntimeError(Supernodal().remedy)
    return found
