"""What this machine offers: cores and threads of BLAS.

The dense blocks inside a sparse factor are small; on a busy machine threaded BLAS made them up to 100 times
slower. The number of BLAS threads mostly belongs to the whole process, so threads of ours that each saved and
restored it on their own could leave it wrong for good: the second would save the 1 that the first has set.
Hence the first to enter sets it, and restores it when it leaves; whoever enters meanwhile changes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Context, or decorator, in which BLAS uses one thread; may be nested and used by several threads.

    The dense products of a discovery are small as well: with two threads the demo took 10 CPU seconds instead of 2.9,
    8.6 of the clock, and 57 beside another process.

    A second thread loses the limit when the first leaves, which costs time but is not wrong. A caller that
    runs many factorisations in a pool of threads should therefore enter this context once, around the pool.
    """
    libraries = _libraries()
    with ExitStack() as stack:
        if libraries.lock.acquire(blocking=False):
            stack.callback(libraries.lock.release)
            stack.enter_context(libraries.per_process.limit(limits=1))
        if libraries.per_thread is not None:
            stack.enter_context(libraries.per_thread.limit(limits=1))
        yield


@dataclass(frozen=True)
class _Libraries:
    """BLAS libraries by the reach of their thread count: the process, or (OpenMP) the calling thread."""

    per_process: Any
    per_thread: Any
    lock: Any = field(default_factory=threading.Lock)


@cache
def _libraries() -> _Libraries:
    """The BLAS libraries loaded, found by one scan of the process."""
    import scipy.linalg  # noqa: F401  (loads SciPy's BLAS, so that the scan sees it)
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    per_thread = blas.select(threading_layer="openmp")
    own = {library.filepath for library in per_thread.lib_controllers}
    others = [library.filepath for library in blas.lib_controllers if library.filepath not in own]
    return _Libraries(blas.select(filepath=others), per_thread if own else None)


_LIMIT: ContextVar[int | None] = ContextVar("cores that may be used", default=None)


@contextmanager
def limited_cores(n: int) -> Iterator[None]:
    """Context in which :func:`usable_cores` is at most n, for the thread that enters it."""
    token = _LIMIT.set(max(1, n))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def usable_cores() -> int:
    """Cores that may be used: those of this process, or fewer inside :func:`limited_cores`."""
    limit = _LIMIT.get()
    return _process_cores() if limit is None else min(limit, _process_cores())


def _process_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
