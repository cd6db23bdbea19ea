"""The Dask client: how to get one, what it must be able to do, where its dashboard is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bvsi.cluster.address import START, Address
from bvsi.errors import BvsiError, MissingDependencyError

_TIMEOUT = 10.0
Tls = tuple[Path | None, Path | None, Path | None]
OPEN_CLUSTER = (
    "note: this cluster is not encrypted; whoever reaches its scheduler or runs a worker can run programs on the "
    "workers and on this machine. Use tls:// where you do not trust the network."
)


def distributed() -> Any:
    """The module dask.distributed, imported when it is needed."""
    try:
        import distributed as module
    except ImportError:
        raise MissingDependencyError("client: a cluster needs Dask: pip install 'bvsi[cluster]'.") from None
    return module


@contextmanager
def connect(address: str, *, tls: Tls = (None, None, None), timeout: float = _TIMEOUT) -> Iterator[Any]:
    """A client of the scheduler at an address such as ``tcp://127.0.0.1:8786``, closed at the end.

    Whoever runs the scheduler or a worker can run programs on this machine: what they send is unpickled by the client.

    Parameters
    ----------
    tls
        Certificate of the authority, own certificate and its key, for ``tls://``; None: those of Dask's settings.
    timeout
        Seconds after which a scheduler that does not answer is given up.
    """
    module, place = distributed(), Address.parse(address)
    place.check_answer(timeout)
    try:
        security = _security(module, place, tls)
        client = module.Client(place.text, timeout=timeout, set_as_default=False, security=security)
    except BvsiError:
        raise
    except Exception as error:  # whatever a server says that speaks otherwise than Dask expects
        raise place.silent(error) from None
    try:
        yield client
    finally:
        client.close()


def _security(module: Any, place: Address, tls: Tls) -> Any:
    """Dask's record of certificates; None where none are given."""
    if not any(tls):
        return None
    if not place.encrypted:
        raise BvsiError(f"scheduler: certificates are given, and {place.text!r} is not encrypted; write tls://.")
    missing = next((path for path in tls if path is not None and not path.is_file()), None)
    if missing is not None or tls[0] is None:
        raise BvsiError(f"scheduler: {f'there is no file {missing}' if missing else '--tls-ca is needed'}; check it.")
    ca, certificate, key = (None if path is None else str(path) for path in tls)
    return module.Security(tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True)


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
        raise BvsiError(f"client: the cluster has no workers, or does not answer; {START}.") from None
