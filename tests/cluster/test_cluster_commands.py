"""Commands with --scheduler, and work that is spread item by item."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bvsi.app.study import load_study
from bvsi.app.study import run as engine
from bvsi.cluster import connect, over
from bvsi.data import Data
from bvsi.discovery import Discovery
from bvsi.errors import BvsiError, DataError
from bvsi.noise import add_noise
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery.method import CoefficientEstimate
from bvsi.studies.benchmarks.discovery.store import FILE, Key, Store
from bvsi.studies.benchmarks.discovery.study import Plan, Task, perform, run

from .cluster_cases import TIMES, waves

pytest.importorskip("zarr")
distributed = pytest.importorskip("distributed")
Command = Callable[..., tuple[int, str, str]]
STUDY = """[data]
file = "waves.zarr"
periodic = ["x"]

[library]
keep = ["laplacian(u)", "u**2"]

[library.equations]
u = ["laplacian(u)", "u", "dx(u)", "u**2"]

[discretisation]
tests = "elements"
stencil = "backward-euler"

[check]
enabled = false

[forecast]
enabled = false
"""


@pytest.fixture
def bvsi(command: Command) -> Command:
    """Run a command; exit code, stdout, stderr."""
    return command


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    waves(TIMES).to_xarray().to_zarr(folder / "waves.zarr", encoding={"u": {"chunks": (3, 20)}}, consolidated=False)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return folder / "study.toml"


@contextmanager
def server(greeting: bytes) -> Iterator[str]:
    """Address of a server that is no scheduler."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):  # it may be gone
                connection.sendall(greeting)
                connection.recv(100)

        threading.Thread(target=greet, daemon=True).start()
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"


def test_run_gives_the_local_result(client, study, bvsi, monkeypatch, tmp_path):
    """From a relative path, of which workers know nothing; they read the store themselves."""
    monkeypatch.chdir(study.parent)
    expected = engine.discovered(engine.read_inputs(load_study(study)))
    asked, discover = [], engine.discover
    monkeypatch.setattr(engine, "discover", lambda *a, **k: asked.append(k["stored"]) or discover(*a, **k))
    command = ("run", "study.toml", "--out", tmp_path / "result", "--json")
    code, out, err = bvsi(*command, "--scheduler", client.scheduler.address)
    assert code == 0, err
    assert "workers 2, threads 2, dashboard http" in err
    assert [one.path for one in asked[0]] == [study.parent / "waves.zarr"]
    found = Discovery.load(tmp_path / "result" / "result.nc")
    assert found.names == expected.names
    assert_allclose(found.theta, expected.theta, rtol=1e-9)
    assert_allclose(found.sd, expected.sd, rtol=1e-7)
    # the scheduler is no setting: what the cluster has found, a local run does not compute again
    monkeypatch.setattr(engine, "discover", None)
    code, again, _ = bvsi(*command)
    assert code == 0
    assert json.loads(again) == json.loads(out)


def test_data_that_workers_do_not_see_are_sent(client, study, monkeypatch):
    asked = []
    monkeypatch.setattr(engine, "discover", lambda *_, **k: asked.append(k["stored"]))
    inputs = engine.read_inputs(load_study(study))
    monkeypatch.setattr(engine, "seen_by_workers", lambda *_: False)
    engine.discovered(inputs, client=client)
    assert asked == [None]


@pytest.mark.parametrize(
    "address",
    ["", " ", "tcp://", "tcp://:8786", "tcp://a b:1", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://x:1e3",
     "inproc://1/2/3", "http://127.0.0.1:8786", "127.0.0.1", "tcp://$(id):8786", "x" * 5000, "tcp://h:\u0661",
     "tcp://\x1b[31m:1"],
    ids=range(15),
)  # fmt: skip
def test_malformed_addresses(study, bvsi, tmp_path, address):
    code, out, err = bvsi("run", study, "--out", tmp_path / "new", "--scheduler", address)
    assert (code, out) == (2, "")
    assert err.startswith("error: scheduler: an address such as")
    assert len(err) < 200
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "localhost:1", "tcp://[::1]:1", f"tcp://{'x' * 80}.x:8786"])
def test_nobody_answers(study, bvsi, tmp_path, address):
    for command in (["run", study], ["bench", "discovery", "--no-peer"]):
        code, out, err = bvsi(*command, "--out", tmp_path / "new", "--scheduler", address)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: scheduler: nothing answers at '{address}'")
        assert len(err.splitlines()) == 1
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"\0" * 8, b"HT"], ids=range(4))
def test_another_server(greeting):
    with (
        server(greeting) as address,
        pytest.raises(BvsiError, match="not a scheduler of Dask"),
        connect(address, timeout=0.3),
    ):
        pass


def test_without_dask(study, bvsi, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = bvsi("run", study, "--out", tmp_path / "new", "--scheduler", "tcp://127.0.0.1:1")
    assert code == 2
    assert "pip install 'bvsi[cluster]'" in err


def square(item: tuple[int, str]) -> int:
    """A number squared; a negative one is refused. The second, if there is one, is the event that has to come first."""
    number, event = item
    if event:
        assert distributed.Event(event).wait(60)
    if number < 0:
        raise DataError(f"number: {number} is negative; take another.")
    return number**2


def test_items_come_as_they_are_done(client):
    told, done = [], []
    items = [(3, "another item has arrived"), (4, ""), (5, "")]
    for one in over(client, square, items, lambda *words: told.append(words), what="squares"):
        done.append(one)
        distributed.Event(items[0][1], client=client).set()
    assert sorted(done) == list(over(None, square, [(n, "") for n, _ in items])) == [(0, 9), (1, 16), (2, 25)]
    assert done[0] != (0, 9)
    assert [words[:2] for words in told] == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 3)]
    assert told[1][2].startswith("squares on the cluster, 2 workers, (")


@pytest.mark.parametrize("remote", [True, False])
def test_an_error_of_an_item_arrives_as_it_is(client, remote):
    items = [(1, ""), (-2, ""), *[(n, "") for n in range(5)]]
    done = []
    with pytest.raises(DataError, match=r"^number: -2 is negative; take another\.$"):
        done.extend(over(client if remote else None, square, items))
    assert list(over(client, square, items[:1])) == [(0, 1)]  # the cluster is as it was


def test_no_items(client):
    assert list(over(client, square, [])) == []


@dataclass(frozen=True)
class Waves:
    """Data of which there are many."""

    name: str = "waves"
    truth: dict = field(default_factory=lambda: {"u": 1.0})
    candidates: dict = field(default_factory=lambda: {"u": ("u",)})

    def library(self) -> Library:
        return Library(self.candidates)

    def noisy(self, level: float, seed: int) -> Data:
        return add_noise(waves(TIMES), level, np.random.default_rng(seed))


@dataclass(frozen=True)
class Spread:
    """A method that finds the spread of the values, and none where there is little noise; it tells its process."""

    name: str = "spread"
    settings: dict = field(default_factory=dict)

    def applies(self, case: Waves) -> bool:
        return case.name == "waves"

    def estimate(self, case: Waves, data: Data) -> CoefficientEstimate:
        found = float(data.fields["u"].std())
        if found < 0.7:
            raise RuntimeError("too quiet")
        return CoefficientEstimate({"u": found}, case.truth, 0.0, details={"process": os.getpid()})


def quick_plan(seeds: int) -> Plan:
    return Plan([Waves()], [Spread()], (0.01, 0.5), seeds)


def test_seeds_of_a_benchmark(client, tmp_path):
    """The same runs in the same order as here; with one of them done before."""
    here = run(quick_plan(3), Store(tmp_path / "here"))
    run(quick_plan(1), Store(tmp_path / "there"))
    there = run(quick_plan(3), Store(tmp_path / "there"), client=client)
    assert [(one.key, one.theta, one.error) for one in there] == [(one.key, one.theta, one.error) for one in here]
    assert {one.error for one in there} == {None, "RuntimeError: too quiet"}
    processes = [one.details["process"] == os.getpid() for one in there if not one.error]
    assert processes == [True, False, False]
    assert len((tmp_path / "there" / FILE).read_text().splitlines()) == 6
    assert run(quick_plan(3), Store(tmp_path / "there")) == there


def test_a_worker_with_other_versions_is_refused(client):
    task = Task(Key("waves", 0.5, 0, "spread", "of another version"), Spread(), Waves())
    with pytest.raises(BvsiError, match="other versions"):
        list(over(client, perform, [task]))
