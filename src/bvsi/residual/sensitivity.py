"""Sensitivities of operators to the state: J_i(û_j) on the slots of one sparsity pattern.

Entries are constant in time, (m,); or vary with it, (T, m); or are a sparse matrix times a diagonal one for each time,

    J(û_j) = V diag(c_j),        V: a Kronecker product,   c: (T, n), or (1, n) where it is constant

which is what nodal quadrature makes of operators without derivatives on the data (:class:`Scaled`); or are worked out
from the weak form whenever they are asked for (:class:`Streamed`), all operators of a time in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from bvsi.linalg import Kronecker, Pattern

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodalTests:
    """Test functions at the nodes, V, in some rows of the residual.

    product: V as a Kronecker product; pattern: of V, in the order of the slots; start: row in which it begins.
    """

    product: Kronecker
    pattern: Pattern
    start: int = 0

    @property
    def rows(self) -> slice:
        """Rows of the residual."""
        return slice(self.start, self.start + self.product.shape[0])

    @cached_property
    def values(self) -> Array:
        """Entries of V on its pattern, (m,)."""
        return self.product.entries(self.pattern.rows, self.pattern.indices)


@dataclass(frozen=True, eq=False)
class Scaled:
    """V diag(c_j): tests V; factor c, (T, n), or (1, n) where it is the same at all times.

    first: column of the pattern with which the n begin.
    """

    tests: NodalTests
    factor: Array
    first: int = 0

    @property
    def constant(self) -> bool:
        """Whether it is the same at all times."""
        return len(self.factor) == 1

    @property
    def columns(self) -> slice:
        """Columns of the pattern."""
        return slice(self.first, self.first + self.factor.shape[1])

    def at(self, time: int) -> Array:
        """Entries at a time, (m,)."""
        factor = self.factor[0 if self.constant else time]
        return np.asarray(self.tests.values * factor[self.tests.pattern.indices])

    def times(self, scale: float) -> Scaled:
        """scale · V diag(c_j)."""
        return replace(self, factor=scale * self.factor)


class Source(Protocol):
    """Operators whose Jacobians are not kept, by number; see :class:`~bvsi.residual.weak_jacobians.WeakJacobians`."""

    def values(self, weights: Mapping[int, float], time: int) -> Array:
        """Σ_i w_i J_i(û_time) on the whole pattern, (nnz,)."""

    def apply(self, chosen: Sequence[int], time: int, V: Array) -> Array:
        """J_i(û_time) V of the chosen operators, (N, m, chosen)."""

    def inner(self, chosen: Sequence[int], G: Array, time: int) -> Array:
        """⟨G, J_i(û_time)⟩ of the chosen operators, (chosen,)."""

    def everywhere(self, weights: Mapping[int, float], V: Array) -> Array:
        """Σ_i w_i J_i(û_j) V_j at all times, (N, T)."""

    def transposed_everywhere(self, weights: Mapping[int, float], W: Array) -> Array:
        """Σ_i w_i J_i(û_j)ᵀ W_j at all times, (n_u, T)."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """Σ_i w_i J_i(û_j) on the whole pattern, made by a source when it is asked for; weights: number → w_i."""

    source: Source
    weights: Mapping[int, float]

    def at(self, time: int) -> Array:
        """Values at a time on the whole pattern, (nnz,)."""
        return self.source.values(self.weights, time)

    def times(self, scale: float) -> Streamed:
        """scale · Σ_i w_i J_i."""
        return replace(self, weights={i: scale * w for i, w in self.weights.items()})

    def plus(self, other: Streamed) -> Streamed:
        """The sum with another of the same source."""
        keys = [*self.weights, *(i for i in other.weights if i not in self.weights)]
        return replace(self, weights={i: self.weights.get(i, 0.0) + other.weights.get(i, 0.0) for i in keys})


Entries: TypeAlias = "Array | Scaled | Streamed"


def entries_at(entries: Entries, time: int) -> Array:
    """Entries of a block at a time, (m,)."""
    if isinstance(entries, Scaled | Streamed):
        return entries.at(time)
    return entries if entries.ndim == 1 else np.asarray(entries[time])


def _constant(entries: Entries) -> bool:
    return entries.constant if isinstance(entries, Scaled) else isinstance(entries, np.ndarray) and entries.ndim == 1


def _times(entries: Entries, scale: float) -> Entries:
    return entries.times(scale) if isinstance(entries, Scaled | Streamed) else scale * entries


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """J_i(û_j) of one operator, on some slots of the structure's pattern.

    blocks: ascending slots, and entries on them; streamed entries are on all slots.
    scale: number in front of all entries; operators that differ by a number share them.
    """

    pattern: Pattern
    blocks: tuple[tuple[Integers, Entries], ...]
    scale: float = 1.0

    @property
    def constant(self) -> bool:
        """Whether J_i is the same at all times."""
        return all(_constant(entries) for _, entries in self.blocks)

    def add(self, total: Array, scale: float, time: int) -> None:
        """Add scale · J_i(û_time) to values (nnz,) on the pattern, in place."""
        for slots, entries in self.blocks:
            if isinstance(entries, Streamed):
                total += (self.scale * scale) * entries.at(time)
            else:
                total[slots] += (self.scale * scale) * entries_at(entries, time)

    def values(self, time: int) -> Array:
        """J_i(û_time) on the whole pattern, (nnz,)."""
        total = np.zeros(self.pattern.nnz)
        self.add(total, 1.0, time)
        return total

    def inner(self, G: Array, time: int) -> float:
        """⟨G, J_i(û_time)⟩ for values G (nnz,) on the pattern."""
        total = 0.0
        for slots, entries in self.blocks:
            if isinstance(entries, Streamed):
                total += float(entries.source.inner(list(entries.weights), G, time) @ [*entries.weights.values()])
            else:
                total += float(G[slots] @ entries_at(entries, time))
        return self.scale * total

    def apply(self, time: int, V: Array) -> Array:
        """J_i(û_time) V for V (n_u, m), (N, m)."""
        total: Array = np.zeros((self.pattern.shape[0], V.shape[1]))
        for (_, entries), structure in zip(self.blocks, self._structures, strict=True):
            if isinstance(entries, Streamed):
                total += entries.source.apply(list(entries.weights), time, V) @ np.array([*entries.weights.values()])
            elif isinstance(entries, Scaled):
                factor = entries.factor[0 if entries.constant else time]
                total[entries.tests.rows] += entries.tests.product @ (factor[:, None] * V[entries.columns])
            else:
                total += _matrix(entries_at(entries, time), structure, self.pattern.shape) @ V
        return self.scale * total

    def everywhere(self, V: Array) -> Array:
        """J_i(û_j) V_j at all times, for V (n_u, T), (N, T)."""
        total: Array = np.zeros((self.pattern.shape[0], V.shape[1]))
        for (_, entries), structure in zip(self.blocks, self._structures, strict=True):
            if isinstance(entries, Scaled):
                total[entries.tests.rows] += entries.tests.product @ (entries.factor.T * V[entries.columns])
            elif isinstance(entries, Streamed):
                total += entries.source.everywhere(entries.weights, V)
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
                own = entries.tests.product.transposed_times(V[entries.tests.rows])
                total[entries.columns] += entries.factor.T * own
            elif isinstance(entries, Streamed):
                total += entries.source.transposed_everywhere(entries.weights, V)
            elif entries.ndim == 1:
                total += _matrix(entries, structure, self.pattern.shape).T @ V
            else:
                for j, row in enumerate(entries):
                    total[:, j] += _matrix(row, structure, self.pattern.shape).T @ V[:, j]
        return self.scale * total

    def summed(self, b: Any, V: Array) -> Array:
        """Σ_j b_kj J_i(û_j) V_j for V (n_u, T) and a stencil b (K × T), (N, K); of scaled entries sums go first."""
        if not self._scaled:
            return np.asarray((b @ self.everywhere(V).T).T)
        total: Array = np.zeros((self.pattern.shape[0], b.shape[0]))
        for _, entries in self.blocks:
            assert isinstance(entries, Scaled)
            total[entries.tests.rows] += entries.tests.product @ _over_times(b, entries, V)
        return self.scale * total

    def summed_transposed(self, b: Any, W: Array) -> Array:
        """Σ_k b_kj J_i(û_j)ᵀ W_k for W (N, K), (n_u, T)."""
        if not self._scaled:
            return self.transposed_everywhere(np.asarray(W @ b))
        total: Array = np.zeros((self.pattern.shape[1], b.shape[1]))
        for _, entries in self.blocks:
            assert isinstance(entries, Scaled)
            own = entries.tests.product.transposed_times(W[entries.tests.rows]) @ b
            total[entries.columns] += entries.factor.T * own
        return self.scale * total

    @property
    def _scaled(self) -> bool:
        return all(isinstance(entries, Scaled) for _, entries in self.blocks)

    @cached_property
    def _structures(self) -> tuple[tuple[Integers, Integers], ...]:
        """CSR structure of each block: its slots are ascending, so its rows are in order. Empty where not needed."""
        return tuple(
            _csr(self.pattern, slots) if isinstance(entries, np.ndarray) else _NOTHING for slots, entries in self.blocks
        )


def _over_times(b: Any, entries: Scaled, V: Array) -> Array:
    """Σ_j b_kj c_j ∘ V_j at the nodes, (n, K)."""
    own = V[entries.columns]
    if entries.constant:
        return np.asarray((own @ b.T) * entries.factor.T)
    return np.asarray((own * entries.factor.T) @ b.T)


def combined_sensitivity(J: Sequence[Sensitivity], weights: Array) -> Sensitivity:
    """Σ_i w_i J_i; factors of the same sparse matrix are added up, so that it stands there once."""
    used = [(one, float(w)) for one, w in zip(J, weights, strict=True) if w]
    if len(used) == 1:
        (one, w) = used[0]
        return replace(one, scale=w * one.scale)
    blocks: dict[tuple[int, int], tuple[Integers, Entries]] = {}
    for one, w in used:
        for slots, entries in one.blocks:
            key, more = (id(slots), _identity(entries)), _times(entries, w * one.scale)
            blocks[key] = (slots, _plus(blocks[key][1], more) if key in blocks else more)
    return Sensitivity(J[0].pattern, tuple(blocks.values()))


def _identity(entries: Entries) -> int:
    """What two blocks have in common whose sum is of the same kind."""
    if isinstance(entries, Scaled):
        return id(entries.tests)
    return id(entries.source if isinstance(entries, Streamed) else entries)


def _plus(one: Entries, other: Entries) -> Entries:
    if isinstance(one, Scaled) and isinstance(other, Scaled):
        return replace(one, factor=one.factor + other.factor)
    if isinstance(one, Streamed) and isinstance(other, Streamed):
        return one.plus(other)
    assert isinstance(one, np.ndarray)
    assert isinstance(other, np.ndarray)
    return np.asarray(one + other)


def apply_all(J: Sequence[Sensitivity], time: int, V: Array) -> Array:
    """J_i(û_time) V of all operators for V (n_u, m), (N, m, d); those of one source in one pass."""
    out = np.empty((J[0].pattern.shape[0], V.shape[1], len(J)))
    streamed, kept = _by_source(J)
    for source, members in streamed.items():
        numbers, weights = _weights([J[n] for n in members])
        applied = source.apply(numbers, time, V)
        out[:, :, members] = (applied.reshape(-1, len(numbers)) @ weights).reshape(*applied.shape[:2], -1)
    for n in kept:
        out[:, :, n] = J[n].apply(time, V)
    return out


def inner_all(J: Sequence[Sensitivity], G: Array, time: int) -> Array:
    """⟨G, J_i(û_time)⟩ of all operators for values G (nnz,) on the pattern, (d,); those of one source in one pass."""
    out = np.empty(len(J))
    streamed, kept = _by_source(J)
    for source, members in streamed.items():
        numbers, weights = _weights([J[n] for n in members])
        out[members] = source.inner(numbers, G, time) @ weights
    for n in kept:
        out[n] = J[n].inner(G, time)
    return out


def total_at(J: Sequence[Sensitivity], weights: Array, time: int) -> Array:
    """Σ_i w_i J_i(û_time) on the pattern, (nnz,); those of one source in one pass."""
    total = np.zeros(J[0].pattern.nnz)
    streamed, kept = _by_source(J)
    for members in streamed.values():
        combined_sensitivity([J[n] for n in members], weights[members]).add(total, 1.0, time)
    for n in kept:
        J[n].add(total, float(weights[n]), time)
    return total


def _by_source(J: Sequence[Sensitivity]) -> tuple[dict[Source, list[int]], list[int]]:
    """Positions of operators that are streamed and nothing else, by their source; and positions of all others."""
    streamed: dict[Source, list[int]] = {}
    kept = []
    for n, one in enumerate(J):
        if len(one.blocks) == 1 and isinstance(one.blocks[0][1], Streamed):
            streamed.setdefault(one.blocks[0][1].source, []).append(n)
        else:
            kept.append(n)
    return streamed, kept


def _weights(J: Sequence[Sensitivity]) -> tuple[list[int], Array]:
    """Numbers of the source that streamed operators use, and the weights (numbers, operators) of each in them."""
    entries = [(one.scale, e) for one in J for _, e in one.blocks if isinstance(e, Streamed)]
    numbers = sorted({i for _, e in entries for i in e.weights})
    weights = [[scale * e.weights.get(i, 0.0) for scale, e in entries] for i in numbers]
    return numbers, np.array(weights)


_NOTHING = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _csr(pattern: Pattern, slots: Integers) -> tuple[Integers, Integers]:
    """First entry of each row, and columns, of the entries on some slots."""
    counts = np.bincount(pattern.rows[slots], minlength=pattern.shape[0])
    return np.concatenate([[0], np.cumsum(counts)]), pattern.indices[slots]


def _matrix(values: Array, structure: tuple[Integers, Integers], shape: tuple[int, int]) -> Any:
    return sparse.csr_array((values, structure[1], structure[0]), shape=shape)
