"""On a Dask cluster: two workers against one, and four of which one is killed.

Three experiments: the selection of Cahn–Hilliard on elements, with block weights, and a whole ``discover`` of spirals,
or of a long record of Kuramoto–Sivashinsky, by the default method, whose tiles are cut in time. Workers have one thread
each. Starting them, loading compiled code and, of the selection, assembling pieces are timed apart: a study has them
once, and evaluations many times.

On a machine that others use too, the processor's time is what counts: that of the calling thread plus that of the
busiest worker is what nobody can wait less for.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.app.files import write_whole
from bvsi.cluster import cluster_likelihood
from bvsi.cluster.client import distributed
from bvsi.data import Data
from bvsi.discovery import discover
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID
from bvsi.operators import Library
from bvsi.residual import assemble
from bvsi.select import SelectionPath, Sweep
from bvsi.spaces import Galerkin
from bvsi.studies.benchmarks.scale.cases import CASES, SIZES, ScaleCase, Size
from bvsi.studies.problems import cahn_hilliard
from bvsi.studies.problems.cahn_hilliard import CahnHilliardCase

Array = NDArray[np.float64]

SPIRALS, LINE = "lambda_omega", "ks_256"
MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "33554432"}
"""Environment of the workers. Dask has freed memory given back at once, and each array then costs its pages again:
workers took 1.5 to 1.9 times the processor (KS 256 × 3001)."""
WANTED = 1.6
"""How many times faster two workers have to be than one."""


@dataclass(frozen=True)
class Timed:
    """Seconds of one run: to assemble the pieces, to select, and of the processor on the busiest worker to select.

    Attributes
    ----------
    difference
        Difference of θ to that on one machine, relative.
    """

    workers: int
    killed: bool
    assembling: float
    selecting: float
    busiest: float
    evaluations: int
    selected: tuple[str, ...]
    difference: float


class Counter:
    """Counts evaluations, and kills a process while the one after a certain number is under way, once asked to."""

    def __init__(self) -> None:
        self.evaluations, self.after, self.pid = 0, 0, 0

    def arm(self, pid: int, after: int) -> None:
        """Kill a process after so many evaluations from now."""
        self.evaluations, self.after, self.pid = 0, after, pid

    def __call__(self, done: float, total: float | None, what: str) -> None:
        """A progress callback."""
        del done, total
        self.evaluations += "evaluations" in what
        if self.pid and self.evaluations == self.after:
            threading.Timer(0.05, os.kill, (self.pid, signal.SIGKILL)).start()
            self.pid = 0


def main(arguments: list[str] | None = None) -> int:
    """Time a selection or a discovery on one and two workers, kill one of four, and compare."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.cluster", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--spirals", choices=SIZES, help="discover spirals of this size, by the default method")
    parser.add_argument("--record", type=int, help="discover Kuramoto–Sivashinsky on 256 nodes and so many frames")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise of both (default 0)")
    parser.add_argument("--nx", type=int, default=20, help="elements per side (default 20)")
    parser.add_argument(
        "--repeats", type=int, default=2, help="selections per cluster; the quickest counts (default 2)"
    )
    options = parser.parse_args(arguments)
    if options.spirals or options.record:
        size = CASES[SPIRALS].sizes[options.spirals] if options.spirals else ((256,), options.record)
        compare(CASES[SPIRALS if options.spirals else LINE], size, options.seed, options.out)
        return 0
    case = CahnHilliardCase(nx=options.nx)
    begin = time.perf_counter()
    expected = Sweep().select(_here(case))
    local = time.perf_counter() - begin
    sys.stdout.write(f"here, all cores: {local:.1f} s, {len(expected.best.names)} operators\n")
    rows = []
    for workers, kill in ((1, None), (2, None), (4, 5)):
        rows.append(measure(case, workers, expected, kill=kill, repeats=options.repeats if kill is None else 1))
        sys.stdout.write(line(rows[-1]) + "\n")
    ratio, work = (getattr(rows[0], of) / getattr(rows[1], of) for of in ("selecting", "busiest"))
    sys.stdout.write(f"two workers are {ratio:.2f} times faster than one (wanted: {WANTED}), ")
    sys.stdout.write(f"and the busiest has {work:.2f} times less to do\n")
    results = {
        "nx": options.nx,
        "here": local,
        "ratio": ratio,
        "work_ratio": work,
        "runs": [asdict(row) for row in rows],
    }
    write_whole(options.out / "cluster.json", json.dumps(results, indent=1))
    return 0


def measure(case: CahnHilliardCase, workers: int, expected: SelectionPath, *, kill: int | None, repeats: int) -> Timed:
    """Select on a cluster of its own.

    Parameters
    ----------
    kill
        Evaluations after which one worker dies.
    """
    counter = Counter()
    with cluster(workers) as client:
        begin = time.perf_counter()
        likelihood = cluster_likelihood(client, *_model(case), **_settings(case), progress=counter)
        assembling = time.perf_counter() - begin
        _warm_up(likelihood)
        counter.evaluations = 0
        if kill is not None:
            counter.arm(max(client.run(os.getpid).values()), kill)
        seconds, busiest = [], []
        for _ in range(repeats):
            begin, before = time.perf_counter(), client.run(time.process_time)
            found = Sweep().select(likelihood)
            seconds.append(time.perf_counter() - begin)
            after = client.run(time.process_time)
            busiest.append(max(after[worker] - before[worker] for worker in after if worker in before))
    same = found.best.names == expected.best.names
    scale = np.abs(expected.best.theta).max()
    difference = float(np.abs(found.best.theta - expected.best.theta).max() / scale) if same else float("inf")
    return Timed(
        workers,
        kill is not None,
        assembling,
        min(seconds),
        min(busiest),
        counter.evaluations // repeats,
        tuple(found.best.names),
        difference,
    )


@dataclass(frozen=True)
class Discovered:
    """One discovery: wall seconds, CPU seconds here and of the busiest worker, and what was found.

    Attributes
    ----------
    here
        Of the thread that calls ``discover``.
    dask
        Of Dask's threads beside it, its scheduler among them: some of it is heartbeats, as long as others have the
        machine.
    """

    workers: int
    killed: bool
    seconds: float
    here: float
    dask: float
    busiest: float
    evaluations: int
    equation: str
    theta: tuple[float, ...]
    sd: tuple[float, ...]

    def __str__(self) -> str:
        killed = ", one killed" if self.killed else ""
        cpu = f"{self.here:.1f} CPU s here and {self.dask:.1f} of Dask, {self.busiest:.1f} on the busiest"
        cpu = f"{cpu}, {self.evaluations} evaluations"
        return f"{self.workers} workers{killed}: {self.seconds:.1f} s, {cpu}\n  {self.equation}"


def compare(case: ScaleCase, size: Size, seed: int, out: Path) -> None:
    """Discover with ten candidates in each equation by the default method on one, two and four workers."""
    data, warm = case.noisy(size, seed), case.noisy(case.sizes["tiny"], 0)
    rows = []
    for workers, kill in ((1, None), (2, None), (4, None), (4, 3)):
        rows.append(discovered(data, warm, case.library(case.few), workers, kill))
        sys.stdout.write(f"{rows[-1]}\n")
    one, two, four, fewer = rows
    busy = (one.here + one.busiest) / (two.here + two.busiest)
    every = (one.here + one.dask + one.busiest) / (two.here + two.dask + two.busiest)
    off = max(abs(a - b) / s for a, b, s in zip(fewer.theta, four.theta, four.sd, strict=True))
    told = f"{busy:.2f} times less of the processors ({every:.2f} with Dask's threads; wanted: {WANTED})"
    sys.stdout.write(f"two workers take {one.seconds / two.seconds:.2f} times less time than one and {told}; ")
    sys.stdout.write(f"with one of four killed θ is off by {off:.1e} sd\n")
    results = {
        "case": case.name,
        "size": size,
        "seed": seed,
        "ratio": one.seconds / two.seconds,
        "work_ratio": busy,
        "with_dask": every,
        "off": off,
    }
    results["load"] = os.getloadavg()
    write_whole(out / "cluster_discover.json", json.dumps({**results, "runs": list(map(asdict, rows))}, indent=1))


def discovered(data: Data, warm: Data, library: Library, workers: int, kill: int | None) -> Discovered:
    """Discover on a cluster of its own, after everything was loaded once on each worker, with small data."""
    counter = Counter()
    with cluster(workers) as client:
        discover(warm, library, check=False, client=client)
        if kill is not None:
            counter.arm(max(client.run(os.getpid).values()), kill)
        before = client.run(time.process_time)
        clocks = np.array([time.perf_counter(), time.thread_time(), time.process_time()])
        found = discover(data, library, check=False, client=client, progress=counter)
        clocks = np.array([time.perf_counter(), time.thread_time(), time.process_time()]) - clocks
        after = client.run(time.process_time)
    busiest = max(after[worker] - before[worker] for worker in after if worker in before)
    equation = " ".join(str(found).split("verdict")[0].split())
    numbers = tuple(found.theta.tolist()), tuple(found.sd.tolist())
    seconds, here, process = clocks.tolist()
    cpu = (here, process - here, busiest)
    return Discovered(workers, kill is not None, seconds, *cpu, counter.evaluations, equation, *numbers)


def _warm_up(likelihood: ResidualLikelihood) -> None:
    """Everything once, so that compiled code is loaded."""
    theta = np.full(likelihood.d, 1e-3)
    likelihood.normal_equations(theta)
    likelihood.unweighted().normal_equations(theta)
    likelihood.profile_equations(theta, rng=np.random.default_rng(0))
    likelihood.instrumental_equations(theta)
    likelihood.noise_share(np.random.default_rng(0))


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of a cluster of processes on this machine, one thread each."""
    module = distributed()
    os.environ.update({name: value for name, value in MEMORY.items() if name not in os.environ})
    with (
        module.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as running,
        module.Client(running, set_as_default=False) as client,
    ):
        yield client


def line(row: Timed) -> str:
    """One run in words."""
    killed = ", one killed in the middle" if row.killed else ""
    seconds = f"selected in {row.selecting:.1f} s ({row.busiest:.1f} s of processor on the busiest)"
    return (
        f"{row.workers} workers{killed}: assembled in {row.assembling:.1f} s, {seconds} with {row.evaluations} "
        f"evaluations; {len(row.selected)} operators, θ differs by {row.difference:.1e}"
    )


def _model(case: CahnHilliardCase) -> tuple[Any, ...]:
    return cahn_hilliard.observed(case), cahn_hilliard.library(case.treatment), IID(case.sigma)


def _settings(case: CahnHilliardCase) -> dict[str, Any]:
    return {"discretisation": Galerkin(case.element), "stencil": case.stencil}


def _here(case: CahnHilliardCase) -> ResidualLikelihood:
    data, library, noise = _model(case)
    return residual_likelihood(assemble(data, library, **_settings(case)), noise)


if __name__ == "__main__":
    raise SystemExit(main())
