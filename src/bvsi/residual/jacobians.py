"""Jacobians J_i(û_j) of operators on one sparsity pattern: sums of terms of several kinds behind one interface.

    Matrix     one sparse matrix for each time, or one for all times
    Scaled     V diag(c_j): a Kronecker product V times a diagonal matrix for each time, or one for all times. This is
               what nodal quadrature makes of operators without derivatives on the data.
    Delayed    Σ_j J(û_l) L_lj of fields at earlier times (:mod:`bvsi.residual.stencils`)
    Streamed   Σ_i w_i J_i(û_j), computed from the weak form whenever it is asked for, all operators in one pass
               (:mod:`bvsi.residual.streamed`)

A new kind needs the methods of :class:`JacobianKind`; nothing else asks which kind a Jacobian has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import methodcaller
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError
from bvsi.linalg import Kronecker, Pattern

#: Σ_j b_kj c_j ∘ V_j (n, K) by the identity of the factor c and the first unknown.
Sums: TypeAlias = "dict[tuple[int, int], Array]"


@dataclass(frozen=True, eq=False)
class Slots:
    """Some slots of a pattern, ascending, so that rows are in order; terms on the same slots share this record.

    Parameters
    ----------
    found
        The slots, or what gives them when they are first asked for.
    """

    pattern: Pattern
    found: Integers | Callable[[], Integers]

    def __reduce__(self) -> tuple[Any, ...]:
        return Slots, (self.pattern, self.index)  # a function cannot travel

    @cached_property
    def index(self) -> Integers:
        """The slots, (m,)."""
        return self.found() if callable(self.found) else self.found

    @cached_property
    def _structure(self) -> tuple[Integers, Integers]:
        """Columns of the entries, and first entry of each row."""
        counts = np.bincount(self.pattern.rows[self.index], minlength=self.pattern.shape[0])
        return self.pattern.indices[self.index], np.concatenate([[0], np.cumsum(counts)])

    def matrix(self, values: Array) -> Any:
        """Sparse matrix (N × n_u) with values (m,) on these slots."""
        return sparse.csr_array((values, *self._structure), shape=self.pattern.shape)


class JacobianSource(Protocol):
    """What computes Jacobians that are not kept, those of several operators in one pass; operators have numbers."""

    def apply(self, chosen: Sequence[int], time: int, V: Array) -> Array:
        """J_i(û_time) V of the chosen operators, (N, m, chosen)."""

    def inner(self, chosen: Sequence[int], G: Array, time: int) -> Array:
        """⟨G, J_i(û_time)⟩ of the chosen operators, (chosen,)."""


class JacobianKind(ABC):
    """One term of J_i(û_j); ``add_…`` methods add to an array in place.

    Shapes: values on the pattern (nnz,), V (n_u, …), results (N, …); of transposed products W (N, …), results (n_u, …).
    """

    @property
    @abstractmethod
    def constant(self) -> bool:
        """Whether it is the same at all times."""

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Terms with equal keys can be added with :meth:`plus`."""

    def streamed(self) -> tuple[JacobianSource, Mapping[int, float]] | None:
        """What computes it together with other terms, and its weights there by number; None for what is kept."""
        return None

    @abstractmethod
    def times(self, scale: float) -> Self:
        """scale · J."""

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """The sum with a term of the same key."""

    @abstractmethod
    def add_values(self, out: Array, scale: float, time: int) -> None:
        """scale · J(û_time) on the pattern, (nnz,)."""

    @abstractmethod
    def inner(self, G: Array, time: int) -> float:
        """⟨G, J(û_time)⟩ for values G (nnz,) on the pattern."""

    @abstractmethod
    def add_applied(self, out: Array, time: int, V: Array) -> None:
        """J(û_time) V for V (n_u, m)."""

    @abstractmethod
    def add_summed(self, out: Array, b: Any, V: Array, made: Sums) -> None:
        """Σ_j b_kj J(û_j) V_j for V (n_u, T) and a stencil b (K × T), (N, K).

        Parameters
        ----------
        made
            Sums over times that terms with the same b and V share.
        """

    @abstractmethod
    def add_summed_transposed(self, out: Array, b: Any, W: Array) -> None:
        """Σ_k b_kj J(û_j)ᵀ W_k for W (N, K, m), (n_u, T, m)."""

    def at_nodes(self) -> Scaled:
        """The term as V diag(c_j), for those that are."""
        raise TypeError(f"{type(self).__name__} is not a matrix of test functions at the nodes.")

    def of_some(self, own: Scaled) -> JacobianKind:
        """The term with some rows and unknowns of its matrix, at all of its times."""
        return own


@dataclass(frozen=True, eq=False)
class Matrix(JacobianKind):
    """A sparse matrix: scale times values on slots, (T, m), or (1, m) where they are the same at all times."""

    slots: Slots
    entries: Array
    scale: float = 1.0

    @property
    def constant(self) -> bool:
        """Whether one matrix serves all times."""
        return len(self.entries) == 1

    @property
    def key(self) -> Hashable:
        """Constant matrices on the same slots add up; those of all times only where they are multiples of one array."""
        return Matrix, self.slots, None if self.constant else id(self.entries)

    def times(self, scale: float) -> Matrix:
        """scale · J."""
        return replace(self, scale=scale * self.scale)

    def plus(self, other: Matrix) -> Matrix:
        """The sum; the entries of all times are not copied."""
        if self.constant:
            return Matrix(self.slots, self.scale * self.entries + other.scale * other.entries)
        return replace(self, scale=self.scale + other.scale)

    def add_values(self, out: Array, scale: float, time: int) -> None:
        """scale · J(û_time)."""
        out[self.slots.index] += (scale * self.scale) * self._at(time)

    def inner(self, G: Array, time: int) -> float:
        """⟨G, J(û_time)⟩."""
        return self.scale * float(G[self.slots.index] @ self._at(time))

    def add_applied(self, out: Array, time: int, V: Array) -> None:
        """J(û_time) V."""
        out += self.scale * (self._matrix(time) @ V)

    def add_summed(self, out: Array, b: Any, V: Array, made: Sums) -> None:  # noqa: ARG002
        """J(û_j) V_j, and their sums."""
        everywhere = np.zeros((len(out), V.shape[1], 1))
        self._add_all(everywhere, V[:, :, None], transposed=False)
        out += (b @ everywhere[:, :, 0].T).T

    def add_summed_transposed(self, out: Array, b: Any, W: Array) -> None:
        """J(û_j)ᵀ Σ_k b_kj W_k."""
        self._add_all(out, over_blocks(W, b), transposed=True)

    def _add_all(self, out: Array, V: Array, *, transposed: bool) -> None:
        times = [slice(None)] if self.constant else [slice(j, j + 1) for j in range(len(self.entries))]
        for time, chosen in enumerate(times):
            matrix, own = self._matrix(time), V[:, chosen]
            product = (matrix.T if transposed else matrix) @ own.reshape(len(V), -1)
            out[:, chosen] += self.scale * product.reshape(-1, *own.shape[1:])

    def _at(self, time: int) -> Array:
        return np.asarray(self.entries[0 if self.constant else time])

    def _matrix(self, time: int) -> Any:
        """J(û_time) but for its scale; one that serves all times is kept."""
        return self._of_all_times if self.constant else self.slots.matrix(self.entries[time])

    @cached_property
    def _of_all_times(self) -> Any:
        return self.slots.matrix(self.entries[0])


@dataclass(frozen=True, eq=False)
class NodalTests:
    """Test functions at the nodes, V, in some rows of the residual.

    Attributes
    ----------
    product
        V as a Kronecker product.
    pattern
        Pattern of V, in the order of the slots.
    rows
        Rows of the residual.
    """

    product: Kronecker
    pattern: Pattern
    rows: slice

    @cached_property
    def values(self) -> Array:
        """Entries of V on its pattern, (m,)."""
        return self.product.entries(self.pattern.rows, self.pattern.indices)


@dataclass(frozen=True, eq=False)
class Scaled(JacobianKind):
    """V diag(c_j): tests V on slots; factor c, (T, n), or (1, n) where it is the same at all times.

    Parameters
    ----------
    first
        Column of the residual's pattern with which the n begin.
    """

    slots: Slots
    tests: NodalTests
    factor: Array
    first: int = 0

    @property
    def constant(self) -> bool:
        """Whether one diagonal serves all times."""
        return len(self.factor) == 1

    @property
    def key(self) -> Hashable:
        """Diagonals behind the same V add up."""
        return Scaled, self.slots, self.tests

    @property
    def columns(self) -> slice:
        """Columns of the residual's pattern."""
        return slice(self.first, self.first + self.factor.shape[1])

    def at_nodes(self) -> Scaled:
        """The term itself."""
        return self

    def times(self, scale: float) -> Scaled:
        """scale · V diag(c_j)."""
        return replace(self, factor=scale * self.factor)

    def plus(self, other: Scaled) -> Scaled:
        """V diag(c_j + c'_j)."""
        return replace(self, factor=self.factor + other.factor)

    def add_values(self, out: Array, scale: float, time: int) -> None:
        """scale · V diag(c_time)."""
        out[self.slots.index] += scale * self._entries(time)

    def inner(self, G: Array, time: int) -> float:
        """⟨G, V diag(c_time)⟩."""
        return float(G[self.slots.index] @ self._entries(time))

    def add_applied(self, out: Array, time: int, V: Array) -> None:
        """V diag(c_time) applied."""
        out[self.tests.rows] += self.tests.product @ (self._diagonal(time)[:, None] * V[self.columns])

    def add_summed(self, out: Array, b: Any, V: Array, made: Sums) -> None:
        """V Σ_j b_kj c_j ∘ V_j: sums over times go first."""
        key = (id(self.factor), self.first)
        if key not in made:
            own = V[self.columns].T  # times before nodes, as in the factor: four times faster
            made[key] = np.asarray((b @ own) * self.factor if self.constant else b @ (own * self.factor)).T
        out[self.tests.rows] += self.tests.product @ made[key]

    def add_summed_transposed(self, out: Array, b: Any, W: Array) -> None:
        """c_j ∘ Σ_k b_kj Vᵀ W_k: sums over blocks go last."""
        tested = self.tests.product.transposed_times(W[self.tests.rows].reshape(-1, W.shape[1] * W.shape[2]))
        out[self.columns] += self.factor.T[:, :, None] * over_blocks(tested.reshape(-1, *W.shape[1:]), b)

    def _diagonal(self, time: int) -> Array:
        return np.asarray(self.factor[0 if self.constant else time])

    def _entries(self, time: int) -> Array:
        return np.asarray(self.tests.values * self._diagonal(time)[self.tests.pattern.indices])


_COUPLED = "lag(...) couples times; leave the method out, or use Stacked() or Tiles() weights and Profile()."


@dataclass(frozen=True, eq=False)
class Delayed(JacobianKind):
    """Σ_j J(û_l) L_lj: what reads a field at an earlier time. It has no value at one time: only sums are known.

    Parameters
    ----------
    shift
        L, (T × T), sparse.
    """

    term: Scaled
    shift: Any

    @property
    def constant(self) -> bool:
        """Never: the noise of a time enters at another."""
        return False

    @property
    def key(self) -> Hashable:
        """Terms with the same L add up."""
        return Delayed, id(self.shift), self.term.key

    def at_nodes(self) -> Scaled:
        """J(û_l) without L."""
        return self.term

    def of_some(self, own: Scaled) -> Delayed:
        """The same L."""
        return replace(self, term=own)

    def times(self, scale: float) -> Delayed:
        """scale · J L."""
        return replace(self, term=self.term.times(scale))

    def plus(self, other: Delayed) -> Delayed:
        """(J + J') L."""
        return replace(self, term=self.term.plus(other.term))

    def add_values(self, out: Array, scale: float, time: int) -> None:  # noqa: ARG002
        """Refused."""
        raise BvsiError(_COUPLED)

    def inner(self, G: Array, time: int) -> float:  # noqa: ARG002
        """Refused."""
        raise BvsiError(_COUPLED)

    def add_applied(self, out: Array, time: int, V: Array) -> None:  # noqa: ARG002
        """Refused."""
        raise BvsiError(_COUPLED)

    def add_summed(self, out: Array, b: Any, V: Array, made: Sums) -> None:  # noqa: ARG002
        """Σ_l b_kl J(û_l) (L V)_l."""
        self.term.add_summed(out, b, np.ascontiguousarray((self.shift @ V.T).T), {})

    def add_summed_transposed(self, out: Array, b: Any, W: Array) -> None:
        """Lᵀ Σ_k b_kl J(û_l)ᵀ W_k."""
        own = np.zeros_like(out)
        self.term.add_summed_transposed(own, b, W)
        n, T, m = own.shape
        out += (self.shift.T @ own.transpose(1, 0, 2).reshape(T, n * m)).reshape(T, n, m).transpose(1, 0, 2)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """J_i(û_j) of one operator on the structure's pattern: scale times the sum of its terms.

    Parameters
    ----------
    scale
        Operators that differ by a number share their terms.
    """

    pattern: Pattern
    terms: tuple[JacobianKind, ...]
    scale: float = 1.0

    @property
    def constant(self) -> bool:
        """Whether J_i is the same at all times."""
        return all(term.constant for term in self.terms)

    def streamed(self) -> tuple[JacobianSource, Mapping[int, float]] | None:
        """What computes all of it together with other operators, and its weights there; None for what is kept."""
        found = self.terms[0].streamed() if len(self.terms) == 1 else None
        return found and (found[0], {i: self.scale * w for i, w in found[1].items()})

    def at_nodes(self) -> list[Scaled]:
        """The terms as V diag(c_j), on nodal spaces."""
        found = list(map(methodcaller("at_nodes"), self.terms))
        return found if self.scale == 1.0 else [term.times(self.scale) for term in found]

    def add(self, total: Array, scale: float, time: int) -> None:
        """Add scale · J_i(û_time) to values (nnz,) on the pattern, in place."""
        for term in self.terms:
            term.add_values(total, self.scale * scale, time)

    def values(self, time: int) -> Array:
        """J_i(û_time) on the whole pattern, (nnz,)."""
        total = np.zeros(self.pattern.nnz)
        self.add(total, 1.0, time)
        return total

    def inner(self, G: Array, time: int) -> float:
        """⟨G, J_i(û_time)⟩ for values G (nnz,) on the pattern."""
        return self.scale * sum(term.inner(G, time) for term in self.terms)

    def apply(self, time: int, V: Array) -> Array:
        """J_i(û_time) V for V (n_u, m), (N, m)."""
        out = np.zeros((self.pattern.shape[0], V.shape[1]))
        for term in self.terms:
            term.add_applied(out, time, V)
        return self.scale * out

    def everywhere(self, V: Array) -> Array:
        """J_i(û_j) V_j at all times, for V (n_u, T), (N, T)."""
        return self.summed(sparse.eye_array(V.shape[1]), V)

    def transposed_everywhere(self, W: Array) -> Array:
        """J_i(û_j)ᵀ W_j at all times, for W (N, T), (n_u, T)."""
        return self.summed_transposed(sparse.eye_array(W.shape[1]), W)

    def summed(self, b: Any, V: Array, made: Sums | None = None) -> Array:
        """Σ_j b_kj J_i(û_j) V_j for V (n_u, T) and a stencil b (K × T), (N, K)."""
        out, made = np.zeros((self.pattern.shape[0], b.shape[0])), {} if made is None else made
        for term in self.terms:
            term.add_summed(out, b, V, made)
        return self.scale * out

    def summed_transposed(self, b: Any, W: Array) -> Array:
        """Σ_k b_kj J_i(û_j)ᵀ W_k for W (N, K) or (N, K, m), (n_u, T) or (n_u, T, m)."""
        m = math.prod(W.shape[2:])
        out = np.zeros((self.pattern.shape[1], b.shape[1], m))
        for term in self.terms:
            term.add_summed_transposed(out, b, W.reshape(*W.shape[:2], m))
        return (self.scale * out).reshape(*out.shape[:2], *W.shape[2:])


def over_blocks(W: Array, b: Any) -> Array:
    """Σ_k b_kj W_k for W (N, K, m), (N, T, m)."""
    N, K, m = W.shape
    if m == 1:
        return np.asarray(W[:, :, 0] @ b)[:, :, None]
    return np.asarray(b.T @ W.transpose(1, 0, 2).reshape(K, N * m)).reshape(-1, N, m).transpose(1, 0, 2)


def summed_each(J: Sequence[Sensitivity], b: Any, V: Array, rows: int) -> Array:
    """Σ_j b_kj J_i(û_j) V_j of d operators, (rows, K, d); sums over times that operators share are made once."""
    made: Sums = {}
    out = np.empty((rows, b.shape[0], len(J)))
    for i, one in enumerate(J):
        out[:, :, i] = one.summed(b, V, made)
    return out


def combined_sensitivity(J: Sequence[Sensitivity], weights: Array) -> Sensitivity:
    """Σ_i w_i J_i; terms whose sum is of the same kind are added up."""
    used = [(one, float(w)) for one, w in zip(J, weights, strict=True) if w]
    if len(used) == 1:
        (one, w) = used[0]
        return replace(one, scale=w * one.scale)
    terms: dict[Hashable, JacobianKind] = {}
    for one, w in used:
        for term in one.terms:
            more = term.times(w * one.scale)
            terms[term.key] = terms[term.key].plus(more) if term.key in terms else more
    return Sensitivity(J[0].pattern, tuple(terms.values()))
