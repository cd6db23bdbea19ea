"""Groups of residual blocks side by side: Σ_k f(Σ_kk(θ)), each term on a thread of its own.

The linear algebra runs without the interpreter lock. Results come in the order of the groups and BLAS is on one thread
wherever there are several groups, so that sums do not depend on the number of threads, not even in the last digit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bvsi.likelihood.covariance import BlockGroup, FactorisedGroup, Part
from bvsi.linalg import single_threaded_blas, usable_cores

Array = NDArray[np.float64]
Result = TypeVar("Result")

# Smaller blocks are over before a second thread has begun, and would only wait for the interpreter lock.
_LEAST_ENTRIES = 200_000


def over_groups(
    part: Part, theta: Array, work: Callable[[FactorisedGroup], Result], *, newest: bool = False
) -> Iterator[Result]:
    """``work`` on every group of an experiment, factorised at θ; results in the order of the groups.

    newest: see :meth:`Part.factorised`.
    At most as many factors exist at a time as there are threads, and twice as many results wait. Of several errors the
    one of the first group is raised.
    """
    groups = part.covariance.groups(part.residuals)

    def one(group: BlockGroup) -> Result:
        return work(part.factorised(theta, group, newest=newest))

    if len(groups) <= 1:
        yield from map(one, groups)
        return
    threads = min(len(groups), usable_cores()) if part.covariance.pattern.nnz >= _LEAST_ENTRIES else 1
    with single_threaded_blas():
        yield from map(one, groups) if threads == 1 else _side_by_side(one, groups, threads)


def block_solver(part: Part, theta: Array) -> Callable[[Array], Array]:
    """Z ↦ blockdiag(Σ_kk(θ))⁻¹ Z for Z (N, K, m); one Cholesky factor per distinct block, kept."""
    groups = [part.factorised(theta, group) for group in part.covariance.groups(part.residuals)]

    def solve(Z: Array) -> Array:
        out = np.empty_like(Z)
        for one in groups:
            out[:, one.group.blocks] = _solved(one, Z)
        return out

    return solve


def streamed_solver(part: Part, theta: Array) -> Callable[[Array], Array]:
    """The same for a few calls: no factor is kept where there are several, and groups are done side by side."""
    if len(part.covariance.groups(part.residuals)) <= 1:
        return block_solver(part, theta)

    def solve(Z: Array) -> Array:
        out = np.empty_like(Z)
        for blocks, solved in over_groups(part, theta, lambda one: (one.group.blocks, _solved(one, Z))):
            out[:, blocks] = solved
        return out

    return solve


def _solved(one: FactorisedGroup, Z: Array) -> Array:
    """Σ_kk⁻¹ Z_k for the blocks of a group, (N, blocks, m)."""
    columns = Z[:, one.group.blocks]
    return one.factor.solve(columns.reshape(len(Z), -1)).reshape(columns.shape)


def side_by_side(work: Callable[[int], None], n: int, entries: int) -> None:
    """work(0) … work(n − 1) on all threads; one after the other where they have few entries each."""
    threads = min(n, usable_cores()) if entries >= _LEAST_ENTRIES else 1
    if threads == 1:
        for i in range(n):
            work(i)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, range(n)):
            pass


def _side_by_side(
    one: Callable[[BlockGroup], Result], groups: tuple[BlockGroup, ...], threads: int
) -> Iterator[Result]:
    """Results in order, with a window of groups under way."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for group in groups:
                waiting.append(pool.submit(one, group))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
