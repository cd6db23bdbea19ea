"""One small cluster of processes for all tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "200ms"}


@contextmanager
def started(n_workers: int) -> Iterator[Any]:
    """A client of a cluster of its own, one thread per worker, without a dashboard and samples of what it does."""
    with warnings.catch_warnings(), dask.config.set(QUIET):
        warnings.simplefilter("ignore")  # of distributed itself
        cluster = distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        )
        client = distributed.Client(cluster, set_as_default=False)
    try:
        yield client
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client.close()
            cluster.close()


@pytest.fixture(scope="package")  # not of the session: idle workers take time from all other tests
def client() -> Iterator[Any]:
    with started(2) as running:
        yield running
