"""Residual covariance, from the noise through the sensitivity of the residual (eq:covariance_nonlinear).

    C_kj(θ) = a_kj M − b_kj Σ_i θ_i J_i(û_j)          Σ_kl(θ) = Σ_j C_kj Σ_u,j C_ljᵀ

All blocks live on one sparsity pattern, planned and analysed once per experiment. Blocks with equal stencil rows,
noise and Jacobians have equal covariances and share one factorisation. Residuals that are not used, since they depend
on values that were not measured, have zero rows in C and a one on the diagonal of Σ: they add nothing to anything.

Groups of equal blocks are worked on side by side, each on a thread of its own: the linear algebra runs without the
interpreter lock. Results come in the order of the groups and BLAS is on one thread wherever there are several groups.
Sums therefore do not depend on the number of threads, not even in the last digit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sparse

from bvsi.common.arrays import Array, Integers
from bvsi.errors import BvsiError
from bvsi.linalg import Analysis, Factor, Pattern, Product, analyse, limited_cores, single_threaded_blas, usable_cores
from bvsi.noise.models import Noise, StateCovariance, state_covariance
from bvsi.residual import Residuals, Structure

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Z ↦ W Z for residuals Z (N, K, m).
Weights: TypeAlias = Callable[[Array], Array]

# Right-hand sides handled at once; the linear algebra works in blocks of this size anyway.
SOLVE_COLUMNS = 64
# Entries up to which more columns are taken at once, 0.8 MB: on 50 blocks of 121 residuals and 5 operators a density
# with its gradient takes 1.3 ms, with 64 columns 2.4 ms; of 441 residuals 4.2 and 5.
_LEAST_SLAB = 100_000
# Steps that differ by rounding only, as those of np.linspace do, are one step.
_SAME_STEP_DIGITS = 9
# Entries of a block below which one thread does all: smaller ones are over before a second thread has begun, and would
# only wait for the interpreter lock.
_LEAST_ENTRIES = 200_000


@dataclass(frozen=True, eq=False)
class CovariancePlan:
    """All about Σ_kl that does not depend on θ.

    Attributes
    ----------
    noise
        Σ_u by time.
    product
        Pattern of (C Σ_u) Cᵀ.
    smear
        Pattern of C Σ_u where Σ_u is not diagonal.
    spread
        Σ_u values on its common pattern.
    all_blocks
        The plan of all blocks, where these are some of them: its symbolic Cholesky is theirs.
    """

    structure: Structure
    noise: StateCovariance
    product: Product
    smear: Product | None
    spread: tuple[Array, ...]
    all_blocks: CovariancePlan | None = field(default=None, kw_only=True)

    @property
    def pattern(self) -> Pattern:
        """Pattern of Σ_kl."""
        return self.product.out

    @cached_property
    def analysis(self) -> Analysis:
        """Symbolic Cholesky of a diagonal block, which stacked weighting does not use."""
        if self.all_blocks is not None:
            return self.all_blocks.analysis
        return analyse(self.pattern, self.structure.coordinates)

    def groups(self, residuals: Residuals) -> tuple[Integers, ...]:
        """Blocks (indices k) by what their covariance is made of: those of a group share one."""
        return self._groups_constant if residuals.constant_jacobian else self._groups_varying

    @cached_property
    def _groups_constant(self) -> tuple[Integers, ...]:
        return self._sorted_blocks(by_state=False)

    @cached_property
    def _groups_varying(self) -> tuple[Integers, ...]:
        return self._sorted_blocks(by_state=True)

    def _sorted_blocks(self, *, by_state: bool) -> tuple[Integers, ...]:
        found: dict[tuple[object, ...], list[int]] = {}
        for k in range(self.structure.n_blocks):
            times, a, b = stencil_row(self.structure, k)
            state = tuple(times[b != 0]) if by_state else ()
            unused = self.structure.inactive(k).tobytes()
            key = (*_rounded(a), *_rounded(b), *self.noise.label[times], *state, unused)
            found.setdefault(key, []).append(k)
        return tuple(np.array(blocks) for blocks in found.values())

    def diagonal_block(self, k: int, times: Integers, C: Array) -> Array:
        """Σ_kk = Σ_j C_kj Σ_u,j C_kjᵀ on the pattern, (nnz,), from C_kj (times, nnz); one where nothing is used."""
        values = self.product.values(self.sensitivities_times_noise(times, C), C, symmetric=True)
        values[self._diagonal[self.structure.inactive(k)]] = 1.0
        return values

    @cached_property
    def _diagonal(self) -> Integers:
        """Slots of the diagonal of Σ_kk, (N,)."""
        rows = np.arange(self.pattern.shape[0])
        return self.pattern.locate(rows, rows)

    def noise_times(self, time: int, V: Array) -> Array:
        """Σ_u,time V for V (n_u, m)."""
        return _times(self.noise.distinct[int(self.noise.label[time])], V)

    def noise_everywhere(self, V: Array) -> Array:
        """Σ_u,j V_j at all times, for V (n_u, T) or (n_u, T, m)."""
        product = np.empty_like(V)
        for label, noise in enumerate(self.noise.distinct):
            there = self.noise.label == label
            some = V[:, there]
            product[:, there] = _times(noise, some.reshape(len(V), -1)).reshape(some.shape)
        return product

    def sensitivities_times_noise(self, times: Integers, C: Array) -> Array:
        """C_kj Σ_u,j of all times of a block, (times, nnz) on the left pattern of the product."""
        return np.stack([self.sensitivity_times_noise(c, int(j)) for c, j in zip(C, times, strict=True)])

    def sensitivity_times_noise(self, c: Array, time: int) -> Array:
        """C_kj Σ_u,j on the left pattern of the product."""
        label = int(self.noise.label[time])
        if self.smear is None:
            variances: Array = self.noise.distinct[label]
            return c * variances[self.structure.pattern.indices]
        return self.smear.values(c, self.spread[label])


def _times(noise: Any, V: Array) -> Array:
    """Σ V for a matrix Σ, or for its diagonal."""
    return np.asarray(noise @ V if sparse.issparse(noise) else noise[:, None] * V)


def plan_covariance(structure: Structure, noise: Noise | StateCovariance) -> CovariancePlan:
    """Plan products and factorisation for one experiment."""
    state = noise if isinstance(noise, StateCovariance) else state_covariance(noise, structure)
    smear: Product | None = None
    spread: tuple[Array, ...] = ()
    left = structure.pattern
    if not state.diagonal:
        matrices = [sparse.csr_array(sparse.diags_array(s)) if s.ndim == 1 else s for s in state.distinct]
        common = Pattern.from_matrix(sum(abs(m) for m in matrices))
        spread = tuple(common.gather(m) for m in matrices)
        smear = Product.plan(structure.pattern, common)
        left = smear.out
    product = Product.plan(left, structure.pattern)
    return CovariancePlan(structure, state, product, smear, spread)


def stencil_row(structure: Structure, k: int) -> tuple[Integers, Array, Array]:
    """Times with a weight in block k, and the weights a_kj and b_kj there."""
    a = _row(structure.a, k)
    b = _row(structure.b, k)
    times = np.array(sorted({*a, *b}), dtype=np.int64)
    return times, np.array([a.get(j, 0.0) for j in times]), np.array([b.get(j, 0.0) for j in times])


def sensitivities(residuals: Residuals, theta: Array, k: int) -> tuple[Integers, Array]:
    """Times j of block k and C_kj = a_kj M − b_kj Σ_i θ_i J_i(û_j), (times, nnz) on the structure's pattern.

    Rows of residuals that are not used are zero.
    """
    structure = residuals.structure
    times, a, b = stencil_row(structure, k)
    C = a[:, None] * structure.M
    for row, (time, weight) in enumerate(zip(times, b, strict=True)):
        if weight:
            C[row] -= weight * residuals.jacobian(theta, int(time))
    if structure.active is not None:
        C[:, ~structure.active[structure.pattern.rows, k]] = 0.0
    return times, C


@dataclass(frozen=True, eq=False)
class FactorisedGroup:
    """Σ_kk(θ) that some blocks share, factorised.

    Attributes
    ----------
    blocks
        Their indices k; the first stands for all.
    times
        Times j of the first block, (m,).
    b
        Weights b_kj there.
    C
        C_kj on the structure's pattern, (m, nnz).
    """

    blocks: Integers
    times: Integers
    b: Array
    C: Array
    factor: Factor

    def slabs(self, columns: int, rows: int) -> Iterator[Integers]:
        """Blocks a few at a time, so that with ``columns`` right-hand sides each they fill one block of a solve.

        Where blocks of N ``rows`` are small they are more, so that calls take less time than arithmetic.
        """
        size = max(1, max(SOLVE_COLUMNS, _LEAST_SLAB // rows) // columns)
        for start in range(0, len(self.blocks), size):
            yield self.blocks[start : start + size]


@dataclass(frozen=True, eq=False)
class Part:
    """One experiment of a likelihood: its residuals, the plan of their covariance, and a label for messages.

    Attributes
    ----------
    plan
        None for weightings that have no covariance.
    """

    residuals: Residuals
    plan: CovariancePlan | None
    label: str

    @property
    def covariance(self) -> CovariancePlan:
        """The plan, for weightings that need one."""
        if self.plan is None:
            raise BvsiError("this needs the noise covariance, which unweighted residuals lack; use Block() weighting.")
        return self.plan

    def factorised(self, theta: Array, blocks: Integers, *, newest: bool = False) -> FactorisedGroup:
        """Cholesky factor of Σ_kk(θ) of a group of blocks; of C_kj Σ_u C_kjᵀ at the newest time j alone if so asked."""
        plan, k = self.covariance, int(blocks[0])
        times, C = sensitivities(self.residuals, theta, k)
        b = stencil_row(self.residuals.structure, k)[2]
        if newest:
            times, C, b = times[-1:], C[-1:], b[-1:]
        label = f"residual covariance of {self.label}, block {k}"
        factor = plan.analysis.factor(plan.diagonal_block(k, times, C), label=label)
        return FactorisedGroup(blocks, times, b, C, factor)


def _row(matrix: Any, k: int) -> dict[int, float]:
    start, stop = matrix.indptr[k], matrix.indptr[k + 1]
    return dict(zip(matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist(), strict=True))


def _rounded(values: Array) -> tuple[float, ...]:
    """Values to nine digits of the largest, as a key."""
    scale = float(np.abs(values).max()) or 1.0
    return (float(f"{scale:.{_SAME_STEP_DIGITS - 1}e}"), *np.round(values / scale, _SAME_STEP_DIGITS).tolist())


def threads_for(n: int, entries: int) -> int:
    """Threads for n pieces of work on so many entries each."""
    return min(n, usable_cores()) if entries >= _LEAST_ENTRIES else 1


def over_groups(
    part: Part, theta: Array, work: Callable[[FactorisedGroup], Result], *, newest: bool = False
) -> Iterator[Result]:
    """``work`` on every group of an experiment, factorised at θ; results in the order of the groups.

    At most as many factors exist at a time as there are threads, and twice as many results wait. Of several errors the
    one of the first group is raised.

    Parameters
    ----------
    newest
        See :meth:`Part.factorised`.
    """
    groups = part.covariance.groups(part.residuals)

    def one(blocks: Integers) -> Result:
        return work(part.factorised(theta, blocks, newest=newest))

    with single_threaded_blas() if len(groups) > 1 else nullcontext():
        yield from side_by_side(one, groups, threads=threads_for(len(groups), part.covariance.pattern.nnz))


def block_solver(part: Part, theta: Array, *, keep: bool) -> Weights:
    """Z ↦ blockdiag(Σ_kk(θ))⁻¹ Z for Z (N, K, m), with one Cholesky factor per distinct block.

    Parameters
    ----------
    keep
        Whether factors stay for many calls; for a few they are made again where there are several, side by side.
    """
    groups = part.covariance.groups(part.residuals)
    factors = [part.factorised(theta, group) for group in groups] if keep or len(groups) <= 1 else None

    def solve(Z: Array) -> Array:
        out = np.empty_like(Z)
        if factors is None:
            solved = over_groups(part, theta, lambda one: (one.blocks, _solved(one, Z)))
        else:
            solved = ((one.blocks, _solved(one, Z)) for one in factors)
        for blocks, columns in solved:
            out[:, blocks] = columns
        return out

    return solve


def _solved(one: FactorisedGroup, Z: Array) -> Array:
    """Σ_kk⁻¹ Z_k for the blocks of a group, (N, blocks, m)."""
    columns = Z[:, one.blocks]
    return one.factor.solve(columns.reshape(len(Z), -1)).reshape(columns.shape)


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], *, threads: int) -> Iterator[Result]:
    """work(item) of all of them on so many threads, one of BLAS each; results in order, with a few under way."""
    return map(work, items) if threads <= 1 or len(items) <= 1 else _threaded(work, items, threads)


def _threaded(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()

    def alone(item: Item) -> Result:
        with limited_cores(1):  # threads of ours have what is beside them to themselves
            return work(item)

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(alone, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
