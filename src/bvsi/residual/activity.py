"""Which residuals can be used: those that depend on measured values only.

active_ik = no (n, j) with û_nj not measured and  (a_kj ≠ 0 and M_in ≠ 0)  or  (b_kj ≠ 0 and some J_in ≠ 0)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.data import Data
from bvsi.linalg import Pattern

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def active_residuals(pattern: Pattern, M: Array, a: Any, b: Any, missing: Array) -> Mask:
    """active, (N, K).

    pattern: (N × n_u) of M and every J; M: its values (nnz,).
    a, b: time stencil (K × T).
    missing: one where an unknown was not measured, else zero, (n_u, T).
    """
    mass = pattern.matrix((M != 0).astype(float)) @ missing != 0
    operators = pattern.matrix(np.ones(pattern.nnz)) @ missing != 0
    lost = _ones(a) @ mass.T.astype(float) + _ones(b) @ operators.T.astype(float)
    return np.asarray(lost.T == 0)


def missing_unknowns(data: Data, fields: tuple[str, ...], transfer: Any | None) -> Array | None:
    """One where an unknown depends on a value that was not measured, (n_u, T); None where all were.

    transfer: map P (n_dofs × nodes) from nodes to unknowns; None where they are the same.
    """
    if data.measured is None:
        return None
    missing = [(~data.measured[field]).T.astype(float) for field in fields]
    if transfer is not None:
        reads = _ones(transfer)
        missing = [(reads @ one != 0).astype(float) for one in missing]
    stacked = np.concatenate(missing)
    return stacked if stacked.any() else None


def _ones(matrix: Any) -> Any:
    """One where a sparse matrix is not zero."""
    return sparse.csr_array((sparse.csr_array(matrix) != 0).astype(float))
