"""An experiment cut in time: pieces of consecutive residual blocks, and the frames that each of them needs.

A piece owns the blocks k0 ≤ k < k1, and the times that they are the first to have. Blocks after them that have an owned
time as well (the halo) are needed for S = Σ_j V_jᵀΣ_u,jV_j only, where V_j sums over all blocks with time j.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """blocks: own, first and last + 1; halo: last + 1 of those after them; frames: first and last + 1 of all these.

    owned: own times, counted from the first frame.
    """

    blocks: tuple[int, int]
    halo: int
    frames: tuple[int, int]
    owned: frozenset[int]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a time stencil, a and b (blocks × frames) of a piece."""

    a: Any
    b: Any

    @staticmethod
    def of(a: Any, b: Any, cut: Cut) -> Rows:
        """Rows of the blocks of a piece, its halo included, on its frames."""
        blocks, frames = slice(cut.blocks[0], cut.halo), slice(*cut.frames)
        return Rows(sparse.csr_array(a[blocks, frames]), sparse.csr_array(b[blocks, frames]))

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """The rows as they are."""
        del times, order
        return self.a, self.b


def cuts(a: Any, b: Any, n: int) -> tuple[Cut, ...]:
    """n pieces of the blocks of a stencil (K × T), sizes differing by one at most; K where there are fewer blocks."""
    used = sparse.csr_array((abs(a) + abs(b)) != 0)
    K, T = used.shape
    owner = np.full(T, K)
    np.minimum.at(owner, used.indices, np.repeat(np.arange(K), np.diff(used.indptr)))
    bounds = np.linspace(0, K, min(n, K) + 1).round().astype(int)
    return tuple(_cut(used, owner, int(k0), int(k1)) for k0, k1 in itertools.pairwise(bounds))


def _cut(used: Any, owner: NDArray[np.int64], k0: int, k1: int) -> Cut:
    owned = np.flatnonzero((owner >= k0) & (owner < k1))
    late = used[k1:, owned]
    halo = k1 + (int(np.flatnonzero(np.diff(late.indptr)).max()) + 1 if late.nnz else 0)
    times = used.indices[used.indptr[k0] : used.indptr[halo]]
    first, last = int(times.min()), int(times.max())
    return Cut((k0, k1), halo, (first, last + 1), frozenset((owned - first).tolist()))
