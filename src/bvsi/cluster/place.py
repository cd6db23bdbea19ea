"""Where pieces are: on workers, as futures, or here, as themselves."""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from bvsi.cluster.client import distributed, threads_of
from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.linalg import limited_cores, single_threaded_blas


class Place(Protocol):
    """A way to have functions of pieces computed."""

    @property
    def n_threads(self) -> int:
        """Threads that compute."""

    def calls(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*args) for all of them side by side, or something that :meth:`values` turns into it."""

    def values(self, results: Sequence[Any], what: str = "") -> list[Any]:
        """Results of calls, in order."""


@dataclass(frozen=True)
class Here:
    """In this process, one after the other."""

    n_threads: int = 1

    def calls(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*args), now."""
        return [function(*args) for args in arguments]

    def values(self, results: Sequence[Any], what: str = "") -> list[Any]:
        """They are there."""
        del what
        return list(results)


@dataclass(frozen=True, eq=False)
class Workers:
    """On the workers of a Dask cluster.

    Attributes
    ----------
    threads
        Threads by address of the worker, when the pieces were made.
    """

    client: Any
    threads: dict[str, int]
    progress: Progress = silent
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    @staticmethod
    def of(client: Any, progress: Progress) -> Workers:
        """All workers there are."""
        return Workers(client, threads_of(client), progress)

    @property
    def n_threads(self) -> int:
        """Threads of all workers."""
        return sum(self.threads.values())

    def calls(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Futures; futures among the arguments, also in lists, become what they stand for."""
        if not arguments:
            return []
        # With as many tasks as threads each has one; with fewer a task may use what others leave.
        cores = min(max(1, self.n_threads // len(arguments)), min(self.threads.values()))
        fixed = [[function] * len(arguments), [cores] * len(arguments)]
        with _quiet():
            futures: list[Any] = self.client.map(
                _task, *fixed, *zip(*arguments, strict=True), key=function.__name__, pure=False
            )
        return futures

    def call_on(self, worker: str | None, function: Callable[..., Any], *args: Any) -> Any:
        """A future of one call with one thread, on a worker unless that one is gone."""
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        key = f"{function.__name__}-{uuid.uuid4().hex}"
        with _quiet():
            return self.client.submit(_task, function, 1, *args, key=key, pure=False, **where)

    def values(self, results: Sequence[Any], what: str = "") -> list[Any]:
        """Wait for futures. Dask itself repeats what a dead worker had to do."""
        module = distributed()
        try:
            values: list[Any] = self.client.gather(list(results))
        except module.KilledWorker as error:
            raise BvsiError(
                "client: workers died one after the other on the same task, which mostly means too little memory; give "
                f"them more, or use more workers. ({str(error).splitlines()[0]})"
            ) from None
        except (module.CancelledError, OSError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BvsiError(f"client: the cluster was lost on the way ({reason}); start it again.") from None
        failed = next((one for one in values if isinstance(one, _Failure)), None)
        if failed is not None:
            raise failed.error
        what = what or f"{next(self._count)} evaluations"
        self.progress(len(results), len(results), f"on the cluster, {len(self.threads)} workers, {what}")
        return values

    def one_by_one(self, results: Sequence[Any], what: str) -> list[Any]:
        """The same, reported as they come."""
        finished = distributed().as_completed(list(results), loop=self.client.loop)
        for done, _ in enumerate(finished, start=1):
            self.progress(done, len(results), f"on the cluster, {len(self.threads)} workers, {what}")
        return self.values(results, what)


@dataclass(frozen=True, eq=False)
class _Failure:
    """An error of ours instead of a result. Dask would print what fails, also where the caller goes on without it."""

    error: BvsiError


def _task(function: Callable[..., Any], cores: int, *args: Any) -> Any:
    """A function on a worker, with no more threads than its share; failures of what it needs are its own."""
    needed = (one for arg in args for one in (arg if isinstance(arg, list) else [arg]))
    failed = next((one for one in needed if isinstance(one, _Failure)), None)
    if failed is not None:
        return failed
    with limited_cores(cores), ExitStack() as stack:
        if cores == 1:
            stack.enter_context(single_threaded_blas())
        try:
            return function(*args)
        except BvsiError as error:
            return _Failure(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's advice on large arguments: frames go with their task on purpose, so that it can be repeated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield
