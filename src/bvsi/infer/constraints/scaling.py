"""Powers of two that bring the entries of a matrix near one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def equilibrate(M: Array) -> tuple[Array, Array]:
    """Row and column factors r (m,), c (n,) that minimise Σ (log |r_i M_ij c_j|)² over the entries that are not zero.

    They are rounded to powers of two, so that scaling is exact (Curtis and Reid, 1972).
    """
    rows, columns = np.nonzero(M)
    m, n = M.shape
    design = np.zeros((len(rows), m + n))
    entries = np.arange(len(rows))
    design[entries, rows] = 1.0
    design[entries, m + columns] = 1.0
    # the factors of a part of M that hangs together are known up to one common factor: the least squares are singular
    exponents = np.linalg.lstsq(design, -np.log2(np.abs(M[rows, columns])), rcond=1e-10)[0]
    factors = np.exp2(np.round(exponents))
    return factors[:m], factors[m:]
