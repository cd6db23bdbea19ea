"""The Dask client: how to get one, what it must be able to do, where its dashboard is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bvsi.errors import BvsiError, MissingDependencyError

_TIMEOUT = 10.0
_START = "start one with `dask scheduler` and `dask worker tcp://host:8786`"


def distributed() -> Any:
    """The module dask.distributed, imported when it is needed."""
    try:
        import distributed as module
    except ImportError:
        raise MissingDependencyError("client: a cluster needs Dask: pip install 'bvsi[cluster]'.") from None
    return module


@contextmanager
def connect(address: str, *, timeout: float = _TIMEOUT) -> Iterator[Any]:
    """A client of the scheduler at an address such as ``tcp://127.0.0.1:8786``, closed at the end.

    timeout: seconds after which a scheduler that does not answer is given up.
    """
    module = distributed()
    if not isinstance(address, str) or not address.strip():
        raise BvsiError(f"scheduler: an address such as 'tcp://127.0.0.1:8786' is needed, not {address!r}.")
    try:
        client = module.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BvsiError(f"scheduler: nothing answers at {address!r} ({reason}); {_START}.") from None
    try:
        yield client
    finally:
        client.close()


def dashboard(client: Any) -> str:
    """Address of the page on which Dask shows what the workers do; empty where it has none."""
    check_client(client)
    return str(client.dashboard_link or "")


def check_client(client: object) -> None:
    """Refuse what is not a running client that waits for its results."""
    module = distributed()
    if not isinstance(client, module.Client):
        raise BvsiError(
            f"client: a dask.distributed.Client is needed, such as Client('tcp://127.0.0.1:8786'), not {client!r}."
        )
    if client.asynchronous:
        raise BvsiError("client: an asynchronous client cannot be waited for; make one without asynchronous=True.")
    if client.status != "running":
        raise BvsiError(f"client: it is {client.status}; make a new one.")


def threads_of(client: Any, *, timeout: float = _TIMEOUT) -> dict[str, int]:
    """Threads by address of the worker; a cluster without workers is refused."""
    check_client(client)
    try:
        client.wait_for_workers(1, timeout=timeout)
        return {str(address): int(n) for address, n in client.nthreads().items()}
    except (OSError, TimeoutError):
        raise BvsiError(f"client: the cluster has no workers, or does not answer; {_START}.") from None
