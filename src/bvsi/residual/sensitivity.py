"""Sensitivities of operators to the state: J_i(û_j) on the slots of one sparsity pattern.

Entries are constant in time, (m,); or vary with it, (T, m); or are a sparse matrix times a diagonal one for each time,

    J(û_j) = V diag(c_j),        V: (m,) on the slots,   c: (T, n)

which is what nodal quadrature makes of operators without derivatives on the data (:class:`Scaled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.linalg import Pattern

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scaled:
    """V diag(c_j): values (m,) of V; factor (T, n); columns (m,) of the values, as indices into the n of the factor.

    first: column of the pattern with which the n begin.
    """

    values: Array
    factor: Array
    columns: Integers
    first: int = 0

    def at(self, time: int) -> Array:
        """Entries at a time, (m,)."""
        return np.asarray(self.values * self.factor[time, self.columns])

    def times(self, scale: float) -> Scaled:
        """scale · V diag(c_j)."""
        return replace(self, factor=scale * self.factor)


Entries: TypeAlias = "Array | Scaled"


def entries_at(entries: Entries, time: int) -> Array:
    """Entries of a block at a time, (m,)."""
    if isinstance(entries, Scaled):
        return entries.at(time)
    return entries if entries.ndim == 1 else np.asarray(entries[time])


def _times(entries: Entries, scale: float) -> Entries:
    return entries.times(scale) if isinstance(entries, Scaled) else scale * entries


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """J_i(û_j) of one operator, on some slots of the structure's pattern.

    blocks: ascending slots, and entries on them.
    scale: number in front of all entries; operators that differ by a number share them.
    """

    pattern: Pattern
    blocks: tuple[tuple[Integers, Entries], ...]
    scale: float = 1.0

    @property
    def constant(self) -> bool:
        """Whether J_i is the same at all times."""
        return all(not isinstance(entries, Scaled) and entries.ndim == 1 for _, entries in self.blocks)

    def add(self, total: Array, scale: float, time: int) -> None:
        """Add scale · J_i(û_time) to values (nnz,) on the pattern, in place."""
        for slots, entries in self.blocks:
            total[slots] += (self.scale * scale) * entries_at(entries, time)

    def values(self, time: int) -> Array:
        """J_i(û_time) on the whole pattern, (nnz,)."""
        total = np.zeros(self.pattern.nnz)
        self.add(total, 1.0, time)
        return total

    def inner(self, G: Array, time: int) -> float:
        """⟨G, J_i(û_time)⟩ for values G (nnz,) on the pattern."""
        return self.scale * sum(float(G[slots] @ entries_at(entries, time)) for slots, entries in self.blocks)

    def apply(self, time: int, V: Array) -> Array:
        """J_i(û_time) V for V (n_u, m), (N, m)."""
        total: Array = np.zeros((self.pattern.shape[0], V.shape[1]))
        for (_, entries), structure in zip(self.blocks, self._structures, strict=True):
            total += _matrix(entries_at(entries, time), structure, self.pattern.shape) @ V
        return self.scale * total

    def everywhere(self, V: Array) -> Array:
        """J_i(û_j) V_j at all times, for V (n_u, T), (N, T)."""
        total: Array = np.zeros((self.pattern.shape[0], V.shape[1]))
        for (_, entries), structure in zip(self.blocks, self._structures, strict=True):
            if isinstance(entries, Scaled):
                n = entries.factor.shape[1]
                own = entries.factor.T * V[entries.first : entries.first + n]
                local = (structure[0], structure[1] - entries.first)
                total += _matrix(entries.values, local, (self.pattern.shape[0], n)) @ own
            elif entries.ndim == 1:
                total += _matrix(entries, structure, self.pattern.shape) @ V
            else:
                for j, row in enumerate(entries):
                    total[:, j] += _matrix(row, structure, self.pattern.shape) @ V[:, j]
        return self.scale * total

    def transposed_everywhere(self, V: Array) -> Array:
        """J_i(û_j)ᵀ V_j at all times, for V (N, T), (n_u, T)."""
        total: Array = np.zeros((self.pattern.shape[1], V.shape[1]))
        for (_, entries), structure in zip(self.blocks, self._structures, strict=True):
            if isinstance(entries, Scaled):
                n = entries.factor.shape[1]
                local = (structure[0], structure[1] - entries.first)
                own = _matrix(entries.values, local, (self.pattern.shape[0], n)).T @ V
                total[entries.first : entries.first + n] += entries.factor.T * own
            elif entries.ndim == 1:
                total += _matrix(entries, structure, self.pattern.shape).T @ V
            else:
                for j, row in enumerate(entries):
                    total[:, j] += _matrix(row, structure, self.pattern.shape).T @ V[:, j]
        return self.scale * total

    @cached_property
    def _structures(self) -> tuple[tuple[Integers, Integers], ...]:
        """CSR structure of each block: its slots are ascending, so its rows are in order."""
        counts = [np.bincount(self.pattern.rows[slots], minlength=self.pattern.shape[0]) for slots, _ in self.blocks]
        starts = [np.concatenate([[0], np.cumsum(c)]) for c in counts]
        return tuple(
            (start, self.pattern.indices[slots]) for start, (slots, _) in zip(starts, self.blocks, strict=True)
        )


def combined_sensitivity(J: Sequence[Sensitivity], weights: Array) -> Sensitivity:
    """Σ_i w_i J_i; factors of the same sparse matrix are added up, so that it stands there once."""
    used = [(one, float(w)) for one, w in zip(J, weights, strict=True) if w]
    if len(used) == 1:
        (one, w) = used[0]
        return replace(one, scale=w * one.scale)
    blocks: dict[tuple[int, int], tuple[Integers, Entries]] = {}
    for one, w in used:
        for slots, entries in one.blocks:
            shared = isinstance(entries, Scaled)
            key = (id(slots), id(entries.values if isinstance(entries, Scaled) else entries))
            more = _times(entries, w * one.scale)
            if key in blocks and shared:
                before = blocks[key][1]
                assert isinstance(before, Scaled)
                assert isinstance(more, Scaled)
                more = replace(before, factor=before.factor + more.factor)
            elif key in blocks:
                more = np.asarray(blocks[key][1]) + np.asarray(more)
            blocks[key] = (slots, more)
    return Sensitivity(J[0].pattern, tuple(blocks.values()))


def _matrix(values: Array, structure: tuple[Integers, Integers], shape: tuple[int, int]) -> Any:
    return sparse.csr_array((values, structure[1], structure[0]), shape=shape)
