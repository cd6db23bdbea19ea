"""Cahn–Hilliard selection on a Dask cluster: two workers against one, and four of which one is killed.

Workers have one thread each. Starting them, loading compiled code and assembling pieces are timed apart: a study has
them once, and evaluations many times.
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
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID
from bvsi.residual import assemble
from bvsi.select import SelectionPath, Sweep
from bvsi.spaces import Galerkin
from bvsi.studies.problems import cahn_hilliard
from bvsi.studies.problems.cahn_hilliard import CahnHilliardCase

Array = NDArray[np.float64]

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
    """Time the selection on one and two workers, kill one of four, and compare."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.cluster", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--nx", type=int, default=20, help="elements per side (default 20)")
    parser.add_argument(
        "--repeats", type=int, default=2, help="selections per cluster; the quickest counts (default 2)"
    )
    options = parser.parse_args(arguments)
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
