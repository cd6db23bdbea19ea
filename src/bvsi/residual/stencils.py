"""Time stencils: two sparse matrices a, b (residual blocks × times).

    y_k = Σ_j a_kj M û_j            X_k = Σ_j b_kj F(û_j)

so that ``Σ_j a_kj u(t_j)`` approximates u_t where ``Σ_j b_kj F(u(t_j))`` approximates F. Steps may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.errors import DataError

Array = NDArray[np.float64]


class Stencil(Protocol):
    """A discretisation of u_t = F(u) in time."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a, b (K × T), sparse, for the time derivative of an order."""


@dataclass(frozen=True)
class BackwardEuler:
    """(u_k − u_{k−1})/Δt_k = F(u_k): first order, the paper's choice."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1, 1)/Δt, b = (0, 1) at (k−1, k)."""
        h = _steps(times, 1, self, order)
        return _banded(-1 / h, 1 / h), _banded(0 * h, 1 + 0 * h)


@dataclass(frozen=True)
class CrankNicolson:
    """(u_k − u_{k−1})/Δt_k = (F(u_{k−1}) + F(u_k))/2: second order."""

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """a = (−1, 1)/Δt, b = (½, ½) at (k−1, k)."""
        h = _steps(times, 1, self, order)
        half = np.full(len(h), 0.5)
        return _banded(-1 / h, 1 / h), _banded(half, half)


@dataclass(frozen=True)
class BDF2:
    """Backward differences over three times: second order. With ω = Δt_k/Δt_{k−1}:

    [ω² u_{k−2} − (1+ω)² u_{k−1} + (1+2ω) u_k] / ((1+ω) Δt_k) = F(u_k)
    """

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """For equal steps a = (½, −2, 3/2)/Δt, b = (0, 0, 1) at (k−2, k−1, k)."""
        steps = _steps(times, 2, self, order)
        h, w = steps[1:], steps[1:] / steps[:-1]
        scale = 1 / ((1 + w) * h)
        return _banded(w**2 * scale, -((1 + w) ** 2) * scale, (1 + 2 * w) * scale), _banded(0 * h, 0 * h, 1 + 0 * h)


def _steps(times: Array, needed: int, stencil: object, order: int) -> Array:
    if order != 1:
        raise DataError(
            f"stencil: {type(stencil).__name__} has first time derivatives only; use TemporalTests() for order {order}."
        )
    if len(times) < needed + 1:
        raise DataError(
            f"times: {type(stencil).__name__} needs at least {needed + 1} times, the data have {len(times)}."
        )
    return np.diff(times)


def _banded(*diagonals: Array) -> Any:
    """Row k holds ``diagonals[m][k]`` in column k + m; zeros are left out."""
    K, m = len(diagonals[0]), len(diagonals)
    offsets = list(range(m))
    matrix = sparse.csr_array(sparse.diags_array(diagonals, offsets=offsets, shape=(K, K + m - 1)))
    matrix.eliminate_zeros()
    return matrix
