"""An experiment cut in time: pieces of consecutive residual blocks, and the frames that each of them needs.

Blocks on both sides of a cut have times in common. Sums over blocks do not mind, but S = Σ_j V_jᵀΣ_u,jV_j does, where
V_j sums over all blocks with time j: pieces hand on their part of V_j to the first piece that has the time.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cut:
    """Blocks and frames of one piece of an experiment.

    Attributes
    ----------
    blocks
        Blocks of a piece, first and last + 1.
    frames
        Frames that they need, first and last + 1.
    shared
        Times that other pieces have as well.
    first
        Those of them that no earlier piece has.
    """

    blocks: tuple[int, int]
    frames: tuple[int, int]
    shared: frozenset[int]
    first: frozenset[int]


@dataclass(frozen=True, eq=False)
class StencilRows:
    """Some rows of a time stencil, a and b (blocks × frames) of a piece."""

    a: Any
    b: Any

    @staticmethod
    def of(a: Any, b: Any, cut: Cut) -> StencilRows:
        """StencilRows of the blocks of a piece on its frames."""
        blocks, frames = slice(*cut.blocks), slice(*cut.frames)
        return StencilRows(sparse.csr_array(a[blocks, frames]), sparse.csr_array(b[blocks, frames]))

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """The rows as they are."""
        del times, order
        return self.a, self.b


def cuts(a: Any, b: Any, n: int) -> tuple[Cut, ...]:
    """n pieces of the blocks of a stencil (K × T), sizes differing by one at most; K where there are fewer blocks."""
    used = sparse.csr_array((abs(a) + abs(b)) != 0)
    K, T = used.shape
    bounds = [int(k) for k in np.linspace(0, K, min(n, K) + 1).round()]
    blocks = list(itertools.pairwise(bounds))
    has = np.zeros((len(blocks), T), dtype=bool)  # which piece has which time
    for p, (k0, k1) in enumerate(blocks):
        has[p, used.indices[used.indptr[k0] : used.indptr[k1]]] = True
    shared = has.sum(axis=0) > 1
    owner = has.argmax(axis=0)
    return tuple(_cut(own, has[p], shared, shared & (owner == p)) for p, own in enumerate(blocks))


def _cut(blocks: tuple[int, int], has: Mask, shared: Mask, first: Mask) -> Cut:
    times = np.flatnonzero(has)
    frames = (int(times[0]), int(times[-1]) + 1)
    return Cut(
        blocks, frames, frozenset(np.flatnonzero(has & shared).tolist()), frozenset(np.flatnonzero(first).tolist())
    )
