"""Work of many independent items, such as the seeds of a study: one after the other here, or tasks on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from bvsi.cluster.client import distributed, threads_of
from bvsi.cluster.place import Workers
from bvsi.common.progress import Progress, silent

Item = TypeVar("Item")
Result = TypeVar("Result")


def over(
    client: Any,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress = silent,
    *,
    what: str = "tasks",
    label: Callable[[Item], str] = str,
) -> Iterator[tuple[int, Result]]:
    """(i, work(items[i])) for every i, as they are done.

    The first error ends it, as it is; what has not begun is then given up, and so it is where the caller stops. What a
    dead worker had to do is repeated, so that work must depend on its item alone.

    Parameters
    ----------
    client
        A dask.distributed.Client, each item then a task with one thread; None: here, in order.
    what, label
        For the progress, what is done, and one item in words.
    """
    if client is None:
        return _here(work, items, progress, what, label)
    return _on_workers(Workers.of(client, silent), work, items, progress, what, label)


def _here(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress,
    what: str,
    label: Callable[[Item], str],
) -> Iterator[tuple[int, Result]]:
    for number, item in enumerate(items):
        progress(number, len(items), f"{what}, {label(item)}")
        yield number, work(item)
    progress(len(items), len(items), f"{what}, done")


def _on_workers(
    place: Workers,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress,
    what: str,
    label: Callable[[Item], str],
) -> Iterator[tuple[int, Result]]:
    def tell(done: int, told: str) -> None:
        progress(done, len(items), f"{what} on the cluster, {len(threads_of(place.client))} workers, {told}")

    tell(0, "begun")
    futures = [place.call_on(None, one_item, work, item) for item in items]
    number_of = {future: number for number, future in enumerate(futures)}
    try:
        for done, future in enumerate(distributed().as_completed(futures, loop=place.client.loop), start=1):
            (result,) = place.values([future])
            number = number_of[future]
            future.release()  # the cluster need not keep it
            tell(done, label(items[number]))
            yield number, result
    finally:
        for future in futures:
            future.release()
    tell(len(items), "done")


def one_item(work: Callable[[Item], Result], item: Item) -> Result:
    """work(item), under a name of its own, which a partial function does not have."""
    return work(item)
