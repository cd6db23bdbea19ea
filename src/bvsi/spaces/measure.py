"""Quadrature with the basis functions evaluated at its points.

    E_β (n_q × n):  (E_β)_qj = ∂^β φ_j(x_q)          weights w (n_q,)

Fields and derivatives at the points are ``E_β u``; functionals are ``E_αᵀ (w ∘ g)``; matrices are
``E_αᵀ diag(w ∘ c) E_β``. All E_β of a measure share one sparsity pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import SpaceError
from bvsi.linalg import Pattern

Array = NDArray[np.float64]
MultiIndex = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Basis functions and their derivatives at points.

    pattern: (n_q × n), the same for every derivative.
    values: multi-index β → entries of E_β (nnz,).
    """

    pattern: Pattern
    values: Mapping[MultiIndex, Array]

    @staticmethod
    def from_local(n: int, columns: NDArray[np.int64], values: Mapping[MultiIndex, Array]) -> Evaluation:
        """Build from rows of equal length: basis functions ``columns`` (n_q, m) with ``values`` (n_q, m)."""
        n_q, m = columns.shape
        order = np.argsort(columns, axis=1, kind="stable")
        indices = np.take_along_axis(columns, order, axis=1).ravel()
        pattern = Pattern((n_q, n), np.arange(0, n_q * m + 1, m, dtype=np.int64), indices.astype(np.int64))
        return Evaluation(pattern, {index: np.take_along_axis(v, order, axis=1).ravel() for index, v in values.items()})

    def matrix(self, index: MultiIndex) -> Any:
        """E_index as a sparse matrix."""
        return self.pattern.matrix(self.entries(index))

    def entries(self, index: MultiIndex) -> Array:
        """Entries of E_index; a derivative that the element does not carry is refused."""
        try:
            return self.values[index]
        except KeyError:
            raise SpaceError(f"the element has no derivative {index}; use an element of higher order.") from None


@dataclass(frozen=True, eq=False)
class Measure:
    """Integration over cells or boundary facets.

    weights: (n_q,); points: (n_q, dim); normals: outward unit normals (n_q, dim) on the boundary, else None.
    trial, test: the fields' and the test functions' basis at the points.
    """

    weights: Array
    points: Array
    normals: Array | None
    trial: Evaluation
    test: Evaluation

    @property
    def n_points(self) -> int:
        """Number of quadrature points."""
        return len(self.weights)
