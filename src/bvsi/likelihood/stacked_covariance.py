"""Covariance of all residuals of an experiment, block by block in time, as one sparse matrix.

    Σ_kl = Σ_j C_kj Σ_u,j C_ljᵀ,      C_kj = a_kj M − b_kj G_j,      G_j = Σ_i θ_i J_i(û_j)
         = Σ_j [a_kj a_lj P_j − a_kj b_lj Q_j − b_kj a_lj Q_jᵀ + b_kj b_lj R_j]
    P_j = M Σ_u,j Mᵀ,   Q_j = M Σ_u,j G_jᵀ,   R_j = G_j Σ_u,j G_jᵀ

Two products for every time (for every distinct noise where the Jacobians are constant), and one small sparse matrix
that adds them up: the price does not depend on how many blocks a time stands in. Residuals that are not used have the
rows of the identity.

Covariance of some of the residuals of an experiment, those that do not depend on missing values, time by time.

    Σ = Σ_j C_j Σ_u,j C_jᵀ,      C_j[(k, i), ·] = a_kj M_i − b_kj Σ_m θ_m J_m,i(û_j)

The rows of C_j are those of the residuals (k, i) that are asked for and use time j, and no others are formed. Where a
mask moves, few of the residuals of all test functions at all times are left, and the products over all of them would be
far more work. Functions that are wide touch so many values that the products of axes
(:mod:`bvsi.likelihood.tensor_covariance`) are less work all the same; the rows are then taken from those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError
from bvsi.likelihood.covariance import CovariancePlan, side_by_side, threads_for
from bvsi.likelihood.tensor_covariance import Kind, TensorCovariance, TimeProducts
from bvsi.linalg import Pattern
from bvsi.linalg.factor import Bands
from bvsi.residual import Residuals, Sensitivity, Structure


@dataclass(frozen=True, eq=False)
class StackedCovariance:
    """Where every entry of Σ stands: rows k·N + i, blocks (k, l) that share a time, each on the plan's pattern.

    Attributes
    ----------
    blocks
        Plan of one block.
    k, l
        (n_pairs,) blocks with a common time, sorted.
    """

    blocks: CovariancePlan
    k: Integers
    l: Integers  # noqa: E741 - as in the formula

    @staticmethod
    def of(blocks: CovariancePlan) -> StackedCovariance:
        """All pairs of blocks with a common time."""
        used = _used(blocks.structure)
        shared = sparse.coo_array(used @ used.T)
        order = np.lexsort((shared.col, shared.row))
        return StackedCovariance(blocks, shared.row[order].astype(np.int64), shared.col[order].astype(np.int64))

    @property
    def nnz(self) -> int:
        """Entries of Σ."""
        if self.tensor is not None:
            return len(self.k) * int(np.count_nonzero(self.tensor.ends[0] >= 0))
        return len(self.k) * self.blocks.pattern.nnz

    @property
    def density(self) -> float:
        """Part of the entries of Σ that can be other than zero."""
        structure = self.blocks.structure
        return self.nnz / float(structure.n_blocks * structure.n_rows) ** 2

    @cached_property
    def pattern(self) -> Pattern:
        """Pattern of Σ, (K N × K N)."""
        return self._layout[0]

    @property
    def _slots(self) -> Integers:
        """Slot in Σ of each slot of each pair's block, (n_pairs, nnz)."""
        return self._layout[1]

    @cached_property
    def _block(self) -> Pattern:
        """Pattern of one block; from the pairs of functions where there are products of axes, without the nodes."""
        if self.tensor is None:
            return self.blocks.pattern
        rows, columns = (end[end >= 0] for end in self.tensor.ends)
        N = self.blocks.structure.n_rows
        return Pattern.from_coo(rows, columns, (N, N))[0]

    @cached_property
    def _layout(self) -> tuple[Pattern, Integers]:
        own, K = self._block, self.blocks.structure.n_blocks
        N = own.shape[0]
        length = np.diff(own.indptr)
        partners = np.bincount(self.k, minlength=K)
        counts = partners[:, None] * length  # entries of row (k, i)
        indptr = np.concatenate([[0], np.cumsum(counts.ravel())]).astype(np.int64)
        start = indptr[:-1].reshape(K, N)
        position = np.arange(len(self.k)) - np.concatenate([[0], np.cumsum(partners)])[self.k]
        within = np.arange(own.nnz) - own.indptr[own.rows]
        slots = start[self.k][:, own.rows] + position[:, None] * length[own.rows] + within
        indices = np.empty(int(indptr[-1]), dtype=np.int64)
        indices[slots] = self.l[:, None] * N + own.indices
        return Pattern((K * N, K * N), indptr, indices), slots

    @cached_property
    def _times(self) -> TimeProducts:
        return TimeProducts.of(self.blocks.structure, self.blocks.noise, self.k, self.l)

    def values(self, residuals: Residuals, theta: Array) -> Array:
        """Σ(θ) on the pattern, (nnz,)."""
        plan, G = self.blocks, residuals.jacobians(theta)
        if self.tensor is not None:
            used, slots, mirrored = self._pair_slots
            own = self.tensor.values(G).ravel()
            own = own if used is None else own[used]
            values = np.zeros(self.pattern.nnz)
            values[slots], values[mirrored] = own, own
            return self._with_unused(values)
        kind, rows = self._rows(G)
        M = residuals.structure.M
        Q, R = (np.zeros((self._times.n_rows(kind), plan.pattern.nnz)) for _ in range(2))

        def products(n: int) -> None:
            row, j = rows[n]
            own = G.values(j)
            Q[row] = plan.product.values(plan.sensitivity_times_noise(M, j), own)
            R[row] = plan.product.values(plan.sensitivity_times_noise(own, j), own, symmetric=True)

        for _ in side_by_side(products, range(len(rows)), threads=threads_for(len(rows), plan.pattern.nnz)):
            pass
        ab, ba, bb = (self._times.matrix(stencils, kind) for stencils in ("ab", "ba", "bb"))
        block = self._of_time_terms + ab @ Q + ba @ Q[:, plan.pattern.transpose[1]] + bb @ R
        values = np.empty(self.pattern.nnz)
        values[self._slots] = block
        return self._with_unused(values)

    def _with_unused(self, values: Array) -> Array:
        """With the rows of the identity for residuals that are not used, in place."""
        values[self._unused] = 0.0
        values[self._unused_diagonal] = 1.0
        return values

    def dense(self, residuals: Residuals, theta: Array) -> Array:
        """The lower triangle of Σ(θ), (K N, K N); what stands above it means nothing."""
        assert self.tensor is not None
        structure = self.blocks.structure
        N, n = structure.n_rows, structure.n_rows * structure.n_blocks
        rows, columns = (end.ravel() for end in self.tensor.ends)
        used = np.flatnonzero(rows >= 0)
        place = columns[used] * n + rows[used]
        A = np.zeros((n, n))
        flat, blocks = A.ravel(), self.tensor.values(residuals.jacobians(theta)).reshape(len(self._half), -1)
        for own, k, l in zip(blocks, self.k[self._half], self.l[self._half], strict=True):  # noqa: E741
            flat[place + (l * N * n + k * N)] = own if len(used) == len(own) else own[used]
        if structure.active is not None:
            unused = np.flatnonzero(~structure.active.T.ravel())
            A[unused], A[:, unused] = 0.0, 0.0
            A[unused, unused] = 1.0
        return A

    def banded(self, residuals: Residuals, theta: Array) -> list[Array]:
        """The lower triangle of Σ(θ) in :attr:`bands`."""
        assert self.tensor is not None
        panels, values = self.bands.zeros(), self.tensor.values(residuals.jacobians(theta))
        for A, (pairs, used, places, unused) in zip(panels, self._in_bands, strict=True):
            own = values[pairs].ravel()
            A[places], A[unused] = own if used is None else own[used], 1.0
        return panels

    @cached_property
    def bands(self) -> Bands:
        """Blocks of times, each of all functions."""
        return Bands(self.blocks.structure.n_rows, self.blocks.structure.n_blocks, int(np.max(self.l - self.k)))

    @property
    def narrow(self) -> bool:
        """Whether on a line the blocks that share times are fewer rows than the functions that share nodes."""
        structure = self.blocks.structure
        if self.tensor is None or structure.coordinates.shape[1] > 1:
            return False
        functions = int(np.max(self._block.indices - self._block.rows))
        periodic = functions > structure.n_rows // 2
        overlap = int(np.diff(self._block.indptr).max()) / 2 * (2 if periodic else 1)
        return self.bands.below * structure.n_rows <= overlap * structure.n_blocks

    @cached_property
    def _in_bands(self) -> tuple[tuple[slice, Integers | None, Integers, Integers], ...]:
        """By panel: pairs of blocks, pairs of functions in them that are used, None for all, their places, and ones.

        The ones, on the diagonal, stand for residuals that are not used. Most panels share their arrays.
        """
        assert self.tensor is not None
        active, k, l = self.blocks.structure.active, self.k[self._half], self.l[self._half]  # noqa: E741
        left, right = (end.ravel() for end in self.tensor.ends)
        known, found = dict[bytes, tuple[Integers | None, Integers]](), []
        for number, (first, c, _, before) in enumerate(self.bands.panels):
            pairs = slice(*np.searchsorted(k // self.bands.width, (number, number + 1)).tolist())
            start, apart = self.bands.block(k[pairs], l[pairs])
            key, ones = np.stack([start - before, apart]).tobytes(), np.zeros(0, dtype=np.int64)
            kept = np.broadcast_to((left >= 0) & (right >= 0), (len(start), len(left)))
            if active is not None:
                kept = kept & active.T[k[pairs]][:, left] & active.T[l[pairs]][:, right]
                ones = np.flatnonzero(~active.T.ravel()[first : first + c]) * (c + 1)
            if active is not None or key not in known:
                used = None if kept.all() else np.flatnonzero(kept)
                places = ((start - before)[:, None] + apart[:, None] * left + right).ravel()
                known[key] = used, places if used is None else places[used]
            found.append((pairs, *known[key], ones))
        return tuple(found)

    @cached_property
    def _half(self) -> Integers:
        """Pairs of blocks with k ≤ l."""
        return np.flatnonzero(self.k <= self.l)

    @cached_property
    def tensor(self) -> TensorCovariance | None:
        """Σ from products of axes, for blocks k ≤ l, which stand for their mirror images."""
        half = self._half
        return TensorCovariance.of(self.blocks.structure, self.blocks.noise, self.k[half], self.l[half])

    @cached_property
    def _pair_slots(self) -> tuple[Integers | None, Integers, Integers]:
        """Slots in Σ of the pairs of functions of every block k ≤ l, and those of their mirror images.

        First the places of those that are used, None for all.
        """
        assert self.tensor is not None
        places = self._block.locate(*self.tensor.ends)
        flipped = places.transpose(1, 0, 2)[..., self.tensor.mirror]
        reverse = np.lexsort((self.k, self.l))  # the pair (l, k) for every pair (k, l)
        slots = self._slots[self._half][:, places.ravel()].ravel()
        mirrored = self._slots[reverse[self._half]][:, flipped.ravel()].ravel()
        if np.all(places >= 0):
            return None, slots, mirrored
        used = np.flatnonzero(np.tile(places.ravel() >= 0, len(self._half)))
        return used, slots[used], mirrored[used]

    @cached_property
    def _of_time_terms(self) -> Array:
        """Σ_j a_kj a_lj P_j of every pair, (n_pairs, nnz): no θ in it."""
        plan, M = self.blocks, self.blocks.structure.M
        P = np.zeros((self._times.n_rows("by noise"), plan.pattern.nnz))
        for row, j in _first_times(self._times.row_of["by noise"]):
            P[row] = plan.product.values(plan.sensitivity_times_noise(M, j), M, symmetric=True)
        return np.asarray(self._times.matrix("aa", "by noise") @ P)

    @cached_property
    def _unused(self) -> Integers:
        """Slots in rows and columns of residuals that are not used."""
        active = self.blocks.structure.active
        if active is None:
            return np.zeros(0, dtype=np.int64)
        used = active.T.ravel()
        return np.flatnonzero(~(used[self.pattern.rows] & used[self.pattern.indices]))

    @cached_property
    def _unused_diagonal(self) -> Integers:
        """Those of them on the diagonal."""
        rows, columns = (index[self._unused] for index in (self.pattern.rows, self.pattern.indices))
        return np.asarray(self._unused[rows == columns])

    def logdet_gradient(self, residuals: Residuals, theta: Array, inverse: Array) -> Array:
        """∂ log det Σ/∂θ_i = −2 Σ_j ⟨J_i(û_j), A_j M Σ_u,j − B_j G_j Σ_u,j⟩, (d,), from W on the pattern (nnz,).

        A_j = Σ_kl b_kj a_lj W_kl and B_j = Σ_kl b_kj b_lj W_kl on the pattern of a block: of W only the entries on the
        pattern of Σ are needed, the selected inverse. Times with the same noise and Jacobian are summed first.
        """
        plan, G = self.blocks, residuals.jacobians(theta)
        kind, rows = self._rows(G)
        W = inverse.copy()
        W[self._unused] = 0.0
        W = W[self._slots]
        minus_A_transposed, B = (self._times.matrix(stencils, kind).T @ W for stencils in ("ab", "bb"))
        slope = np.zeros(len(theta))
        for row, j in rows:
            inner = plan.product.gradient(
                minus_A_transposed[row], plan.sensitivity_times_noise(residuals.structure.M, j)
            )
            inner += plan.product.gradient(B[row], plan.sensitivity_times_noise(G.values(j), j))
            slope += residuals.operators_inner(inner[0], j)
        return 2.0 * slope

    def _rows(self, G: Sensitivity) -> tuple[Kind, list[tuple[int, int]]]:
        """Products depend on the noise where G is constant, else on the time; rows, and a time that stands for each."""
        kind: Kind = "by noise" if G.constant else "by time"
        return kind, _first_times(self._times.row_of[kind])


def _first_times(row_of: Integers) -> list[tuple[int, int]]:
    """Rows, and the first time of each."""
    rows, first = np.unique(row_of, return_index=True)
    return list(zip(rows.tolist(), first.tolist(), strict=True))


def _used(structure: Structure) -> Any:
    """One where a block uses a time, (K × T)."""
    used = abs(structure.a) + abs(structure.b)
    return sparse.csr_array((np.ones(used.nnz), used.indices, used.indptr), shape=used.shape)


def space_time_coordinates(structure: Structure) -> Array:
    """Place and time of each residual, (K N, dim + 1), rows k·N + i: where its test functions sit."""
    K, N = structure.n_blocks, structure.n_rows
    place = np.tile(structure.coordinates, (K, 1))
    return np.concatenate([place, np.repeat(structure.block_times, N)[:, None]], axis=1)


# Multiplications of a dense factorisation that take as long as one of a product of sparse matrices, and as an entry of
# the products of axes: 8 and 75 ns on 26⁴ values, where one of them takes 0.17.
_SPARSE, _TENSOR = 50.0, 450.0


@dataclass(frozen=True, eq=False)
class RowsCovariance:
    """Σ of the residuals that are used, as a dense matrix.

    Attributes
    ----------
    blocks
        Plan of one block.
    rows
        The residuals, k N + i, ascending, (n,).
    whole
        Products of axes for all residuals, where they are less work.
    """

    blocks: CovariancePlan
    rows: Integers
    whole: StackedCovariance | None = None

    @staticmethod
    def of(blocks: CovariancePlan) -> RowsCovariance | None:
        """For spline tests of which so few residuals are used that it is less work; None for all others.

        Sparse factors of bands as wide as Σ of all of them take n³ times the square of its density.
        """
        structure = blocks.structure
        if structure.lagged:
            used = np.ones((structure.n_blocks, structure.n_rows)) if structure.active is None else structure.active.T
            return LaggedCovariance(blocks, np.flatnonzero(used))
        if structure.active is None or structure.mass_at_nodes is None:
            return None
        made, every = RowsCovariance(blocks, np.flatnonzero(structure.active.T.ravel())), StackedCovariance.of(blocks)
        work = _SPARSE * made.entries**2 / float(structure.n_state * structure.n_times)
        if every.tensor is not None and _TENSOR * every.nnz / 2 < work:
            made, work = replace(made, whole=every), _TENSOR * every.nnz / 2
        n = float(structure.n_rows * structure.n_blocks)
        return made if work < n**3 * min(1 / 3, every.density**2) else None

    @property
    def nnz(self) -> int:
        """Entries of Σ."""
        return len(self.rows) ** 2

    @cached_property
    def entries(self) -> float:
        """Entries of all C_j."""
        structure = self.blocks.structure
        k, i = np.divmod(self.rows, structure.n_rows)
        return float(np.diff(self._stencils[0].indptr)[k] @ np.diff(structure.pattern.indptr)[i])

    @property
    def pattern(self) -> Pattern:
        """All entries, (n × n)."""
        n = len(self.rows)
        return Pattern((n, n), np.arange(n + 1, dtype=np.int64) * n, np.tile(np.arange(n, dtype=np.int64), n))

    @cached_property
    def _stencils(self) -> tuple[Any, Any, Any]:
        """Where a or b is not zero, a and b, (K × T)."""
        a, b = (sparse.csr_array(s) for s in (self.blocks.structure.a, self.blocks.structure.b))
        return sparse.csr_array((abs(a) + abs(b)) != 0), a.toarray(), b.toarray()

    def _at(self, time: int) -> tuple[Integers, Array, Array, Pattern, Integers]:
        """Residuals that use a time, their a and b, the pattern of their rows of C_j, and its slots."""
        structure, (used, a, b) = self.blocks.structure, self._stencils
        k, i = np.divmod(self.rows, structure.n_rows)
        own = np.flatnonzero(used[:, [time]].toarray()[k, 0])
        pattern, slots = structure.pattern.restrict_rows(i[own])
        return own, a[k[own], time], b[k[own], time], pattern, slots

    def dense(self, residuals: Residuals, theta: Array) -> Array:
        """Σ(θ), (n, n); what stands above the diagonal may mean nothing."""
        if self.whole is not None:
            return self._of_axes(self.whole, residuals, theta)
        M, G = residuals.structure.M, residuals.jacobians(theta)
        A = np.zeros((len(self.rows), len(self.rows)))
        for j in range(residuals.structure.n_times):
            own, a, b, pattern, slots = self._at(j)
            C = pattern.matrix(a[pattern.rows] * M[slots] - b[pattern.rows] * G.values(j)[slots])
            noise = self.blocks.noise.distinct[int(self.blocks.noise.label[j])]
            left = C @ noise if sparse.issparse(noise) else pattern.matrix(C.data * noise[pattern.indices])
            A[np.ix_(own, own)] += (left @ C.T).toarray()
        return A

    def _of_axes(self, whole: StackedCovariance, residuals: Residuals, theta: Array) -> Array:
        """The lower triangle, from the products of axes."""
        assert whole.tensor is not None
        N, half, n = residuals.structure.n_rows, whole.k <= whole.l, len(self.rows)
        position = np.full(N * residuals.structure.n_blocks, -1, dtype=np.int64)
        position[self.rows] = np.arange(n)
        first, second = (end.ravel() for end in whole.tensor.ends)
        there = np.flatnonzero(first >= 0)
        values = whole.tensor.values(residuals.jacobians(theta)).reshape(int(half.sum()), -1)
        A = np.zeros((n, n))
        for own, k, l in zip(values, whole.k[half], whole.l[half], strict=True):  # noqa: E741
            row, column = position[l * N + second[there]], position[k * N + first[there]]
            both = (row >= 0) & (column >= 0)
            A[row[both], column[both]] = own[there[both]]
        return A

    def logdet_gradient(self, residuals: Residuals, theta: Array, inverse: Array) -> Array:
        """∂ log det Σ/∂θ_i = −2 Σ_j ⟨b_j ∘ W C_j Σ_u,j, J_i(û_j)⟩, (d,), from W on the pattern (n²,)."""
        M, G = residuals.structure.M, residuals.jacobians(theta)
        W, slope = inverse.reshape(len(self.rows), -1), np.zeros(len(theta))
        for j in range(residuals.structure.n_times):
            own, a, b, pattern, slots = self._at(j)
            C = pattern.matrix(a[pattern.rows] * M[slots] - b[pattern.rows] * G.values(j)[slots])
            WC = self.blocks.noise_times(j, C.T @ W[np.ix_(own, own)]).T
            inner = b[pattern.rows] * WC[pattern.rows, pattern.indices]
            onto: Array = np.bincount(slots, inner, residuals.structure.pattern.nnz).astype(float)
            slope -= 2.0 * residuals.operators_inner(onto, j)
        return slope


# Numbers of C that are computed at a time: 160 MB. Where all of C has fewer, dense products are quicker.
_AT_ONCE = 20_000_000


class LaggedCovariance(RowsCovariance):
    """Σ = C Σ_u Cᵀ where operators read fields at earlier times, from products with Cᵀ."""

    def dense(self, residuals: Residuals, theta: Array) -> Array:
        """Σ(θ), (n, n)."""
        structure = residuals.structure
        G, n = residuals.jacobians(theta), len(self.rows)
        k, i = np.divmod(self.rows, structure.n_rows)
        together = max(1, _AT_ONCE // (structure.n_state * structure.n_times))
        kind = np.asarray if together >= n else sparse.csr_array
        C, spread = [], []
        for first in range(0, n, together):
            own = np.arange(first, min(first + together, n))
            unit = np.zeros((structure.n_rows, structure.n_blocks, len(own)))
            unit[i[own], k[own], own - first] = 1.0
            V = structure.mass.summed_transposed(structure.a, unit) - G.summed_transposed(structure.b, unit)
            C.append(kind(V.reshape(-1, len(own)).T))
            spread.append(kind(self.blocks.noise_everywhere(V).reshape(-1, len(own)).T))
        if together >= n:
            return np.asarray(C[0] @ spread[0].T)
        return np.asarray((sparse.vstack(C) @ sparse.vstack(spread).T).toarray())

    def logdet_gradient(self, residuals: Residuals, theta: Array, inverse: Array) -> Array:
        """Refused."""
        del residuals, theta, inverse
        raise BvsiError("lag(...) goes with Profile(), whose objective has no log-determinant.")
