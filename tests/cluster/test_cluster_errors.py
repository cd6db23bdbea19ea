"""What can be wrong with a client, a scheduler or a file is reported in one line."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import bvsi
from bvsi.cluster import cluster_likelihood, connect, dashboard
from bvsi.errors import BvsiError, DataError, MissingDependencyError
from bvsi.noise import IID

from .cluster_cases import LIBRARY, TIMES, waves


def test_nobody_answers():
    with (
        pytest.raises(BvsiError, match=r"nothing answers at 'tcp://127\.0\.0\.1:1'"),
        connect("tcp://127.0.0.1:1", timeout=1),
    ):
        pass


@pytest.mark.parametrize("address", ["", "nonsense://x", 5])
def test_no_address(address):
    with pytest.raises(BvsiError, match="scheduler: "), connect(address, timeout=1):
        pass


def test_an_address(client):
    with connect(client.scheduler.address) as other:
        assert isinstance(dashboard(other), str)
        assert other.status == "running"
    assert other.status == "closed"
    with pytest.raises(BvsiError, match="client: it is closed"):
        dashboard(other)


@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:8786", 3, object])
def test_no_client(wrong):
    with pytest.raises(BvsiError, match=r"client: a dask.distributed.Client is needed"):
        bvsi.discover(waves(TIMES), LIBRARY, client=wrong)


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bvsi\[cluster\]'"):
        bvsi.discover(waves(TIMES), LIBRARY, client=object())


def test_no_data(client):
    with pytest.raises(BvsiError, match="data: "):
        cluster_likelihood(client, [np.zeros(3)], LIBRARY, IID(1.0))


def test_errors_of_assembly_arrive(client):
    wild = bvsi.Library({"u": ["u", "1/(u - u)"]})
    with pytest.raises(BvsiError):
        cluster_likelihood(client, waves(TIMES), wild, IID(1.0))


def test_too_few_times(client):
    with pytest.raises(DataError, match="times"):
        cluster_likelihood(client, waves(TIMES[:3]), LIBRARY, IID(1.0), stencil=bvsi.TemporalTests())


def test_a_steady_problem_stays_here(client):
    rng = np.random.default_rng(0)
    grid = bvsi.Grid(x=np.linspace(0, 1, 24), y=np.linspace(0, 1, 24))
    data = bvsi.Data.from_arrays({"u": rng.standard_normal((24, 24))}, geometry=grid)
    with pytest.raises(BvsiError, match="client: a steady problem has few residuals"):
        bvsi.discover(data, bvsi.Library({"u": ["u", "dx(u)"]}, left="laplacian(u)"), client=client)
