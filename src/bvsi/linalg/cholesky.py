"""Sparse Cholesky factorisation: analyse a pattern once, factorise many value sets.

analysis = analyse(pattern, coordinates=nodes)
factor   = analysis.factor(values, label="residual covariance")
factor.logdet(), factor.solve(B), factor.whiten(B), factor.selected_inverse()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.errors import MissingDependencyError
from bvsi.linalg import machine
from bvsi.linalg.factor import (
    Analysis,
    Backend,
    Factor,
    by_blocks,
    check_pattern,
    check_pivots,
    check_values,
    not_positive_definite,
)
from bvsi.linalg.machine import single_threaded_blas
from bvsi.linalg.ordering import minimum_degree, nested_dissection
from bvsi.linalg.pattern import Pattern
from bvsi.linalg.superlu import SuperLU

Array = NDArray[np.float64]


def available_backends() -> tuple[Backend, ...]:
    """Back ends that work in this installation, fastest first; :func:`analyse` takes the first by default."""
    backends: tuple[Backend, ...] = (Supernodal(), SuperLU())
    return tuple(backend for backend in backends if backend.available())


def analyse(pattern: Pattern, *, coordinates: ArrayLike | None = None, backend: Backend | None = None) -> Analysis:
    """Symbolic analysis of ``P A Pᵀ = L Lᵀ`` for all symmetric positive definite A on a pattern.

    Parameters
    ----------
    pattern: symmetric, (n, n), with its whole diagonal.
    coordinates: (n, dim) place of every unknown. With them the order of elimination is geometric nested
        dissection, which is the better one on grids and meshes; without, minimum degree.
    backend: default the fastest available. ``analysis.backend`` tells which one it is.
    """
    check_pattern(pattern)
    chosen = available_backends()[0] if backend is None else backend
    if not chosen.available():
        raise MissingDependencyError(
            f"the Cholesky back end {chosen.name!r} is not available here: {chosen.remedy}; "
            "or leave `backend` out to take the fastest that is"
        )
    permutation = minimum_degree(pattern) if coordinates is None else nested_dissection(pattern, coordinates)
    return chosen.analyse(pattern, permutation)


if TYPE_CHECKING:  # at run time these modules import Numba, so they are imported where they are used
    from bvsi.linalg.symbolic import Symbolic


@dataclass(frozen=True)
class Supernodal:
    """Multifrontal supernodal Cholesky in Numba on SciPy's BLAS, with a fast selected inverse."""

    name: ClassVar[str] = "supernodal"

    @property
    def remedy(self) -> str:
        """How to install what it needs."""
        if not machine.numba_available():
            return machine.REMEDY
        return "install SciPy from its wheels: this build exports BLAS with integers other than 32 bits"

    def available(self) -> bool:
        """True if Numba imports and SciPy's BLAS takes 32-bit integers."""
        return machine.numba_available() and _addresses() is not None

    def analyse(self, pattern: Pattern, permutation: NDArray[np.int64]) -> SupernodalAnalysis:
        """Elimination tree, supernodes and row structures of a symmetric pattern."""
        from bvsi.linalg.symbolic import analyse_pattern

        return SupernodalAnalysis(pattern, analyse_pattern(pattern, permutation))


@dataclass(frozen=True, eq=False)
class SupernodalAnalysis:
    """A pattern and the structure of its factor; holds no work space, so threads may share it."""

    pattern: Pattern
    symbolic: Symbolic

    backend: ClassVar[str] = "supernodal"

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
class SupernodalFactor(Factor):
    """``P A Pᵀ = L Lᵀ``; L (value_start[-1],) in the layout of :class:`~bvsi.linalg.symbolic.Symbolic`."""

    symbolic: Symbolic
    L: Array
    blas: NDArray[np.int64]

    backend: ClassVar[str] = "supernodal"

    def logdet(self) -> float:
        """``2 Σ_i log L_ii``."""
        return float(2.0 * np.log(self.L[self.symbolic.diagonal]).sum())

    def solve(self, B: ArrayLike) -> Array:
        """``A⁻¹ B = Pᵀ L⁻ᵀ L⁻¹ P B``."""
        perm = self.symbolic.permutation
        return by_blocks(B, perm, perm, lambda X: self._upper(self._lower(X)))

    def whiten(self, B: ArrayLike) -> Array:
        """``L⁻¹ P B``, rows in the order of L."""
        return by_blocks(B, self.symbolic.permutation, slice(None), self._lower)

    def whiten_transposed(self, Y: ArrayLike) -> Array:
        """``Pᵀ L⁻ᵀ Y``."""
        perm = self.symbolic.permutation
        return by_blocks(Y, np.arange(len(perm)), perm, self._upper)

    def _lower(self, X: Array) -> Array:
        """``L⁻¹ X``, in place."""
        from bvsi.linalg.supernodal import solve_lower

        solve_lower(self.symbolic.structure, self.L, X, self.blas)
        return X

    def _upper(self, X: Array) -> Array:
        """``L⁻ᵀ X``, in place."""
        from bvsi.linalg.supernodal import solve_upper

        solve_upper(self.symbolic.structure, self.L, X, self.blas)
        return X

    def selected_inverse(self) -> Array:
        """A⁻¹ on the pattern of A, by the Takahashi recursion: about twice the price of the factorisation."""
        from bvsi.linalg.supernodal import takahashi

        with single_threaded_blas():
            Z: Array = takahashi(self.symbolic.structure, self.L, self.blas)
        return Z[self.symbolic.slots]


def _addresses() -> NDArray[np.int64] | None:
    from bvsi.linalg.blas import addresses

    return addresses()


def _loaded_addresses() -> NDArray[np.int64]:
    found = _addresses()
    if found is None:
        raise RuntimeError(Supernodal().remedy)
    return found
