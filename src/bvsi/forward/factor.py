"""LU factors of matrices on the layout's pattern, for implicit steps in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from bvsi.errors import BvsiError
from bvsi.linalg import Pattern, nested_dissection
from bvsi.residual import Layout

Array = NDArray[np.float64]

_ROUNDING = 1e-13
SINGULAR = "its matrix M/h − ϑJ is singular, as it is where h is a growth time of the model."


class StepFailedError(BvsiError):
    """A step that has to be made smaller; the message says why."""


@dataclass(frozen=True, eq=False)
class Factor:
    """LU factors of B − C, whose rows and columns are permuted by ``order``.

    magnitude: |B| + |C|, permuted; entries of B − C carry rounding errors of this size.
    """

    lu: Any
    order: NDArray[np.int64]
    magnitude: Any

    def solve(self, b: Array) -> Array:
        """(B − C)⁻¹ b."""
        x = np.empty_like(b)
        x[self.order] = self.lu.solve(b[self.order])
        return x

    def is_rounding(self, b: Array, x: Array) -> bool:
        """Whether (B − C) x = b holds by cancellation only: |b| ≪ (|B| + |C|) |x| in every row."""
        return bool(np.all(np.abs(b[self.order]) <= _ROUNDING * (self.magnitude @ np.abs(x[self.order]))))


class Structure:
    """Where the entries of a matrix on the layout's pattern stand in the permuted one that is factored.

    free: columns of the unknowns.
    """

    def __init__(self, layout: Layout, free: NDArray[np.int64]) -> None:
        pattern, space = layout.pattern, layout.space
        slots = pattern.matrix(np.arange(1, pattern.nnz + 1))[:, free]
        # Dissection by the places of the unknowns keeps the fill low; it is good for symmetric patterns.
        self.order = nested_dissection(Pattern.from_matrix(slots + slots.T), space.dof_points[free % space.n_dofs])
        self._permuted = sparse.csc_array(slots[self.order][:, self.order])
        self._slots = self._permuted.data - 1

    def factor(self, B: Array, C: Array) -> Factor:
        """Factors of B − C, both values on the pattern (nnz,)."""
        try:
            lu = scipy.sparse.linalg.splu(
                self._matrix(B - C), permc_spec="NATURAL", diag_pivot_thresh=1e-3, options={"SymmetricMode": True}
            )
        except RuntimeError:  # SuperLU's word for a matrix that is exactly singular
            raise StepFailedError(SINGULAR) from None
        return Factor(lu, self.order, self._matrix(np.abs(B) + np.abs(C)))

    def _matrix(self, values: Array) -> Any:
        like = self._permuted
        return sparse.csc_array((values[self._slots], like.indices, like.indptr), shape=like.shape)
