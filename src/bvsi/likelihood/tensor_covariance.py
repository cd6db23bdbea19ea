"""The residual covariance of a nodal space with diagonal noise, axis by axis.

    C_kj = Σ_s t^s_kj V_s diag(c_sj),     t^s: a or −b,   c_s: (T, n) at the nodes,   V_s: one derivative of the tests
    Σ_kl = Σ_st Σ_x V_s[·, x] V_t[·, x] Σ_j t^s_kj t^t_lj (c_sj σ_j² c_tj)(x)

The sum over times is a product with a small matrix, and the sums over x go axis by axis, with matrices of products of
two functions (:mod:`bvsi.linalg.kronecker`). With 12 × 12 functions on 64 × 64 nodes that takes some thirty times less
than products of sparse matrices. Whichever is shorter goes first: times that differ, or pairs of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.linalg.kronecker import Kronecker, Pairs, Windows, along_axes, dense_if_full
from bvsi.noise.models import StateCovariance
from bvsi.residual import Scaled, Sensitivity, Structure
from bvsi.residual.jacobians import NodalTests

#: What c_s σ² c_t depends on: nothing, so that one row stands for all times; the noise of a time; the time.
Kind = Literal["constant", "by noise", "by time"]

_BY_TIME: Kind = "by time"

#: V diag(c_j), and its stencil: ``a`` of the time terms, or ``b`` of the operators.
_Term: TypeAlias = tuple[str, Scaled]

#: The same with c σ², as the noise where c is the same at all times.
_Weighted: TypeAlias = tuple[str, Scaled, Array]

_Pair: TypeAlias = tuple[NodalTests, NodalTests]
_Diagonals: TypeAlias = dict[tuple[str, Kind], list[tuple[Array, Array]]]

# Numbers in an intermediate array of one chunk, 64 MB; bounds memory.
_CHUNK = 8_000_000
# Numbers in a slab of nodes and times, 0.8 MB, so that it stays in the cache; not measured on its own.
_SLAB = 100_000
# The fewest nodes that are worth a slab; not measured on its own.
_LEAST_NODES = 256
# Terms of an equation from which on those that are the same at all times are added up first: with splines as weights of
# the tests there are two or three for each spline, and their pairs took 20 times as long.
_TERMS = 16
# Part of the coefficients that are not zero from which on dense products are faster; not measured on its own.
_DENSE = 0.05


@dataclass(frozen=True, eq=False)
class TensorCovariance:
    """Σ_kl for pairs of blocks (k, l), equations (e, f) and functions that share a node.

    Attributes
    ----------
    mass
        M.
    noise
        Diagonal Σ_u.
    times
        Coefficients t_kj t_lj.
    """

    mass: Sensitivity
    noise: StateCovariance
    times: TimeProducts
    _matrices: dict[tuple[int, int], tuple[Any, Any, Any]] = field(default_factory=dict)

    @staticmethod
    def of(structure: Structure, noise: StateCovariance, k: Integers, l: Integers) -> TensorCovariance | None:  # noqa: E741
        """For a nodal space and diagonal noise; None for all others.

        Frames of a steady problem on a mesh have one sparse C each, whose product with itself is less work.
        """
        if structure.mass_at_nodes is None or not noise.diagonal:
            return None
        on_mesh = len(structure.mass_at_nodes.at_nodes()[0].tests.product.factors) < structure.coordinates.shape[1]
        if on_mesh and not structure.a.nnz:
            return None
        return TensorCovariance(structure.mass_at_nodes, noise, TimeProducts.of(structure, noise, k, l))

    def values(self, G: Sensitivity) -> Array:
        """Σ_kl with C_kj = a_kj M − b_kj G_j, (pairs of blocks, E, E, pairs of functions)."""
        starts = [own.tests.rows.start for own in self.mass.at_nodes()]
        terms: list[list[_Term]] = [[] for _ in starts]
        for stencil, J in (("a", self.mass), ("b", G)):
            for own in J.at_nodes():
                terms[starts.index(own.tests.rows.start)].append((stencil, own))
        single = self._one_by_one or (len(self._pairs) == 1 and max(map(len, terms)) > _TERMS)
        weighted = [self._weighted(_merged(own) if single else own) for own in terms]
        E = len(terms)
        if E == 1:
            return self._of_equations(*weighted, *weighted, single=single)[:, None, None]
        total = np.empty((self.times.n_pairs, E, E, len(self.mirror)))
        for e, f in np.ndindex(E, E):
            total[:, e, f] = self._of_equations(weighted[e], weighted[f], single=single)
        return total

    def _weighted(self, terms: Sequence[_Term]) -> list[_Weighted]:
        """With c σ², (1, n), (distinct noises, n) or (T, n)."""
        found, variances = [], np.stack(self.noise.distinct)
        for stencil, own in terms:
            variance = variances[:, own.columns]
            if not own.constant and len(variance) > 1:
                variance = variance[self.noise.label]
            found.append((stencil, own, own.factor * variance))
        return found

    def _of_equations(self, left: Sequence[_Weighted], right: Sequence[_Weighted], *, single: bool) -> Array:
        """Σ_kl of two equations, (pairs of blocks, pairs of functions).

        Of one equation the products of (t, s) are those of (s, t), turned.

        Parameters
        ----------
        single
            Whether products of pairs of functions are made one by one, and not kept.
        """
        total: Array | None = None
        by_rows: dict[tuple[str, Kind], Array] = {}
        turned: dict[tuple[str, Kind], Array] = {}
        done = set[_Pair]()
        for pair, diagonals in self._diagonals(left, right).items():
            if left is right and (pair[1], pair[0]) in done:
                continue
            done.add(pair)
            both = left is right and pair[0] is not pair[1]
            if sum(self.times.n_rows(kind) for _, kind in diagonals) > self.times.n_pairs:
                own = self._summed_first(diagonals, pair, both, single=single)
                total = own if total is None else np.add(total, own, out=total)
                continue
            sums = [np.asarray(sum(a * b for a, b in own)) for own in diagonals.values()]
            ends = np.cumsum([len(c) for c in sums])[:-1]
            into = turned if both else by_rows
            for key, own in zip(
                diagonals, np.split(self._contracted(np.concatenate(sums), pair, single=single), ends), strict=True
            ):
                _add(into, key, own)
        for (stencils, kind), own in turned.items():
            _add(by_rows, (stencils[::-1], kind), own[:, self.mirror])
            _add(by_rows, (stencils, kind), own)
        if by_rows:
            summed = self.times.windows(tuple(by_rows)) @ np.concatenate(list(by_rows.values()))
            total = summed if total is None else np.add(total, summed, out=total)
        return np.zeros((self.times.n_pairs, len(self.mirror))) if total is None else total

    def _summed_first(self, diagonals: _Diagonals, pair: _Pair, both: bool, *, single: bool) -> Array:
        """What a pair of derivatives adds, summed over times first; with its mirror image where both count."""
        total = self._contracted(self._over_times(diagonals), pair, single=single)
        if not both:
            return total
        backwards = {(stencils[::-1], kind): own for (stencils, kind), own in diagonals.items()}
        other = total
        if backwards.keys() != diagonals.keys():
            other = self._contracted(self._over_times(backwards), pair, single=single)
        return np.asarray(total + other[:, self.mirror])

    def _over_times(self, diagonals: _Diagonals) -> Array:
        """Σ_j t_kj t_lj (c_s σ² c_t)_j at the nodes, (pairs of blocks, n), some nodes at a time."""
        n = next(iter(diagonals.values()))[0][0].shape[1]
        out = np.empty((self.times.n_pairs, n))
        size = max(_LEAST_NODES, _SLAB // self.times.n_times)
        for start in range(0, n, size):
            nodes = slice(start, start + size)
            out[:, nodes] = 0.0
            for key, own in diagonals.items():
                out[:, nodes] += self.times.windows((key,)) @ np.asarray(sum(a[:, nodes] * b[:, nodes] for a, b in own))
        return out

    def _diagonals(self, left: Sequence[_Weighted], right: Sequence[_Weighted]) -> dict[_Pair, _Diagonals]:
        """c_s σ² and c_t (times, n) by stencils and kind, one pair for every field, for every pair of derivatives."""
        found: dict[_Pair, _Diagonals] = {}
        for (s, one, weighted), (t, other, _) in product(left, right):
            if one.first != other.first:
                continue
            a, kind = weighted, _BY_TIME
            if one.constant and other.constant:
                kind = "constant" if len(a) == 1 else "by noise"
            elif one.constant and len(a) > 1:
                a = a[self.noise.label]
            own = found.setdefault((one.tests, other.tests), {})
            own.setdefault((s + t, kind), []).append((a, other.factor))
        return found

    @cached_property
    def _one_by_one(self) -> bool:
        """Whether the products of all pairs of functions are too many to be kept."""
        return len(self._pairs) == 1 and self._pairs[0].many(self._factors[0].shape[1])

    def _contracted(self, c: Array, pair: _Pair, *, single: bool) -> Array:
        """V_s diag(c_j) V_tᵀ for all pairs of functions, (times, pairs)."""
        left, right = pair[0].product.factors, pair[1].product.factors
        if single:
            return self._pairs[0].diagonal_products(left[0], right[0], c)
        if len(self._pairs) == 1:
            A, B = left[0], right[0]
            # on meshes products take most of the memory: of (t, s) they are those of (s, t)
            turned = (id(A), id(B)) not in self._matrices and (id(B), id(A)) in self._matrices
            A, B = (B, A) if turned else (A, B)
            if (id(A), id(B)) not in self._matrices:
                self._matrices[id(A), id(B)] = (self._pairs[0].windows(A, B), A, B)
            values: Array = self._matrices[id(A), id(B)][0].on_lines(c)
            return values[:, self.mirror] if turned else values
        matrices = []
        for pairs, A, B in zip(self._pairs, left, right, strict=True):
            key = (id(A), id(B))
            if key not in self._matrices:  # A and B are kept beside it, so that their ids stay theirs
                self._matrices[key] = (pairs.products(A, B), A, B)
            matrices.append(self._matrices[key][0])
        growth = float(np.prod([max(1.0, P.shape[0] / P.shape[1]) for P in matrices]))
        step = max(1, int(_CHUNK / (growth * c.shape[1])))
        found = []
        for i in range(0, len(c), step):
            some = c[i : i + step]
            found.append(along_axes(matrices, some, len(some), 1).reshape(len(some), -1))
        return found[0] if len(found) == 1 else np.concatenate(found)

    @cached_property
    def ends(self) -> tuple[Integers, Integers]:
        """Rows of the residual of the two functions of every pair, (E, E, pairs) each; −1 where one is not used."""
        tests = [own.tests for own in self.mass.at_nodes()]
        position = np.stack(
            [np.where(own.product.places < 0, -1, own.rows.start + own.product.places) for own in tests]
        )
        shape = (len(tests), len(tests), len(self.mirror))
        rows = np.broadcast_to(position[:, None, self._ends[0]], shape)
        columns = np.broadcast_to(position[None, :, self._ends[1]], shape)
        used = (rows >= 0) & (columns >= 0)
        return np.where(used, rows, -1), np.where(used, columns, -1)

    @cached_property
    def mirror(self) -> Integers:
        """Place of the pair of functions (k, i) for every pair (i, k)."""
        left, right = self._ends
        n = int(left.max()) + 1
        order = np.argsort(left * n + right)
        return np.asarray(order[np.searchsorted(left * n + right, right * n + left, sorter=order)])

    @cached_property
    def _factors(self) -> tuple[Any, ...]:
        """Functions of each axis at its nodes."""
        return self.mass.at_nodes()[0].tests.product.factors

    @cached_property
    def _pairs(self) -> tuple[Pairs, ...]:
        """Pairs of functions that share a node, by axis."""
        return tuple(map(Pairs.of, self._factors))

    @cached_property
    def _ends(self) -> tuple[Integers, Integers]:
        """Numbers of the two functions of every pair, over all axes."""
        sizes, pairs = [int(A.shape[0]) for A in self._factors], self._pairs
        grids = (np.meshgrid(*(getattr(p, end) for p in pairs), indexing="ij") for end in ("left", "right"))
        left, right = (np.ravel_multi_index([g.ravel() for g in grid], sizes) for grid in grids)
        return left.astype(np.int64), right.astype(np.int64)


def _merged(terms: Sequence[_Term]) -> list[_Term]:
    """Terms of one equation, in which those that are the same at all times are one, Σ_s V_s diag(c_s), by field."""
    alike: dict[tuple[str, int], list[Scaled]] = {}
    for stencil, one in terms:
        if one.constant:
            alike.setdefault((stencil, one.first), []).append(one)
    merged = [(stencil, one) for stencil, one in terms if not one.constant]
    for (stencil, _), some in alike.items():
        whole = some[0]
        if len(some) > 1:
            parts = [sparse.csr_array(one.tests.product.factors[0]) for one in some]
            rows = np.concatenate([np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) for A in parts])
            columns = np.concatenate([A.indices for A in parts])
            values = np.concatenate([A.data * one.factor[0][A.indices] for A, one in zip(parts, some, strict=True)])
            total = sparse.coo_array((values, (rows, columns)), shape=parts[0].shape).tocsr()
            tests = replace(whole.tests, product=Kronecker.of([total]))
            whole = replace(whole, tests=tests, factor=np.ones_like(whole.factor))
        merged.append((stencil, whole))
    return merged


@dataclass(frozen=True, eq=False)
class TimeProducts:
    """t_kj t_lj for pairs of blocks, t = a or −b, (pairs × T) by stencils ``aa``, ``ab``, ``ba``, ``bb``.

    Attributes
    ----------
    row_of
        Row of by kind, which row of what is summed stands for which time, (T,).
    """

    coefficients: Mapping[str, Any]
    row_of: Mapping[Kind, Integers]
    _made: dict[tuple[str, Kind], Any] = field(default_factory=dict)
    _in_windows: dict[tuple[tuple[str, Kind], ...], Windows] = field(default_factory=dict)

    @staticmethod
    def of(structure: Structure, noise: StateCovariance, k: Integers, l: Integers) -> TimeProducts:  # noqa: E741
        """For pairs of blocks (k, l)."""
        T, stencils = structure.n_times, {"a": sparse.csr_array(structure.a), "b": -sparse.csr_array(structure.b)}
        products = {m + n: stencils[m][k].multiply(stencils[n][l]).tocsr() for m in "ab" for n in "ab"}
        every = np.arange(T)
        return TimeProducts(products, {"constant": 0 * every, "by noise": noise.label, "by time": every})

    @property
    def n_times(self) -> int:
        """Number of times."""
        return int(self.coefficients["aa"].shape[1])

    @property
    def n_pairs(self) -> int:
        """Number of pairs of blocks."""
        return int(self.coefficients["aa"].shape[0])

    def n_rows(self, kind: Kind) -> int:
        """Number of rows of a kind."""
        return int(self.row_of[kind].max()) + 1

    def matrix(self, stencils: str, kind: Kind) -> Any:
        """Coefficients summed over times with the same row, (pairs × rows)."""
        if (stencils, kind) not in self._made:
            row_of = self.row_of[kind]
            T, shape = len(row_of), (len(row_of), int(row_of.max()) + 1)
            sums = sparse.csr_array((np.ones(T), (np.arange(T), row_of)), shape=shape)
            self._made[stencils, kind] = dense_if_full(self.coefficients[stencils] @ sums, _DENSE)
        return self._made[stencils, kind]

    def windows(self, keys: tuple[tuple[str, Kind], ...]) -> Windows:
        """Those of some stencils and kinds side by side; rows are pairs of blocks in the order of time."""
        if keys not in self._in_windows:
            made = []
            for key in keys:
                made.append(sparse.csr_array(self.matrix(*key)))
            self._in_windows[keys] = Windows.of(sparse.hstack(made))
        return self._in_windows[keys]


def _add(sums: dict[tuple[str, Kind], Array], key: tuple[str, Kind], own: Array) -> None:
    sums[key] = np.add(sums[key], own, out=sums[key]) if key in sums else own
