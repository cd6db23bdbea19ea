"""An experiment cut in time: pieces of consecutive residual blocks, and the frames that each of them needs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array
from bvsi.residual import Stencil, TemporalTests
from bvsi.spaces.axis import UniformSplines


@dataclass(frozen=True)
class Cut:
    """Blocks of one piece of an experiment, and the frames that they need, each first and last + 1."""

    blocks: tuple[int, int]
    frames: tuple[int, int]

    def of(self, matrix: Any) -> Any:
        """Its rows and columns of a stencil (K × T)."""
        return sparse.csr_array(matrix[slice(*self.blocks), slice(*self.frames)])


@dataclass(frozen=True, eq=False)
class StencilRows:
    """Some rows of a time stencil, a and b (blocks × frames) of a piece."""

    a: Any
    b: Any

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """The rows as they are."""
        del times, order
        return self.a, self.b


@dataclass(frozen=True, eq=False)
class SplineRows(TemporalTests):
    """Some test functions in time of an experiment, for the frames of a piece.

    Parameters
    ----------
    record
        Times of the experiment.
    """

    record: Array = field(default_factory=lambda: np.zeros(0))
    cut: Cut = field(default_factory=lambda: Cut((0, 0), (0, 0)))

    def splines(self, times: Array, order: int = 1) -> UniformSplines:
        """Those of the experiment."""
        del times
        return super().splines(self.record, order)

    def first(self, times: Array, every: int) -> int:
        """The first of every so many frames, where those of the experiment are."""
        del times
        return (super().first(self.record, every) - self.cut.frames[0]) % every

    def at(self, times: Array, chosen: slice, order: int = 1) -> tuple[Any, Any]:
        """Rows at some of the frames."""
        del times
        frames = slice(self.cut.frames[0] + (chosen.start or 0), self.cut.frames[1], chosen.step)
        a, b = super().at(self.record, frames, order)
        return a[slice(*self.cut.blocks)], b[slice(*self.cut.blocks)]

    def matrices(self, times: Array, order: int = 1) -> tuple[Any, Any]:
        """Rows at all frames."""
        del times
        a, b = super().matrices(self.record, order)
        return self.cut.of(a), self.cut.of(b)


def rows_of(stencil: Stencil, times: Array, order: int, cut: Cut) -> Stencil:
    """The stencil of a piece of an experiment with these times."""
    if isinstance(stencil, TemporalTests):
        return SplineRows(stencil.degree, stencil.gap, stencil.ends, times, cut)
    a, b = stencil.matrices(times, order)
    return StencilRows(cut.of(a), cut.of(b))


def cuts(a: Any, b: Any, n: int) -> tuple[Cut, ...]:
    """n pieces of the blocks of a stencil (K × T), sizes differing by one at most; K where there are fewer blocks."""
    used = sparse.csr_array((abs(a) + abs(b)) != 0)
    K = used.shape[0]
    found = []
    for k0, k1 in itertools.pairwise(int(k) for k in np.linspace(0, K, min(n, K) + 1).round()):
        times = used.indices[used.indptr[k0] : used.indptr[k1]]
        found.append(Cut((k0, k1), (int(times.min()), int(times.max()) + 1)))
    return tuple(found)
