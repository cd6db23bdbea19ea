"""The study: cases × noise levels × seeds × methods, skipping what is done."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bvsi.cluster import over
from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.discovery.method import BenchmarkCase, BenchmarkMethod, CoefficientEstimate
from bvsi.studies.benchmarks.discovery.metrics import covered, largest_relative_error, true_positive_ratio
from bvsi.studies.benchmarks.discovery.store import Key, Run, Store, digest

LEVELS = (0.0, 0.01, 0.1, 0.2, 0.5, 1.0)
"""Standard deviations of the noise as shares of the RMS of each field."""


@dataclass(frozen=True)
class Plan:
    """What to run.

    Parameters
    ----------
    seeds
        How many per noise level. Without noise they are all the same, and one is run.
    """

    cases: Sequence[BenchmarkCase]
    methods: Sequence[BenchmarkMethod]
    levels: Sequence[float] = LEVELS
    seeds: int = 5

    def __post_init__(self) -> None:
        if not (self.cases and self.methods and self.levels):
            raise BvsiError("plan: at least one case, one method and one level are needed.")
        if self.seeds < 1:
            raise BvsiError(f"seeds: at least 1 is needed; got {self.seeds}.")
        for level in self.levels:
            if not (math.isfinite(level) and level >= 0):
                raise BvsiError(f"levels: shares of the RMS, 0 or more, are needed; got {level}.")

    @property
    def data_sets(self) -> list[tuple[BenchmarkCase, float, int]]:
        """Cases, levels and seeds, in the order in which they are run."""
        return [
            (case, level, seed)
            for case in self.cases
            for level in self.levels
            for seed in range(self.seeds if level else 1)
        ]


@dataclass(frozen=True, eq=False)
class Task:
    """One run to be made: a method on one data set."""

    key: Key
    method: BenchmarkMethod
    case: BenchmarkCase

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.key.case}, {100 * self.key.level:g}% noise, seed {self.key.seed}, {self.method.name}"


def run(plan: Plan, store: Store, *, client: Any = None, progress: Progress = silent) -> list[Run]:
    """All runs of the plan, those in the store as they are; a run that fails is kept with its error.

    Parameters
    ----------
    client
        A dask.distributed.Client; runs are then tasks on its cluster, in the store as they are done.
    """
    tasks = _tasks(plan)
    missing = list({task.key: task for task in tasks if store.get(task.key) is None}.values())
    for number, found in over(client, perform, missing, progress, what="discovery", label=lambda task: task.label):
        store.add(found, _settings(missing[number].method, missing[number].case))
    runs = (store.get(task.key) for task in tasks)
    return [found for found in runs if found is not None]


def _tasks(plan: Plan) -> list[Task]:
    """Every method on every data set that it can express, in order."""
    return [
        Task(Key(case.name, level, seed, method.name, digest(_settings(method, case))), method, case)
        for case, level, seed in plan.data_sets
        for method in plan.methods
        if method.applies(case)
    ]


def perform(task: Task) -> Run:
    """The run of a task; where it is a worker's, only with the versions with which it was planned."""
    if digest(_settings(task.method, task.case)) != task.key.settings:
        raise BvsiError("a worker has other versions than this computer; install the same packages everywhere.")
    return measure(task.key, task.method, task.case, task.case.noisy(task.key.level, task.key.seed))


def measure(key: Key, method: BenchmarkMethod, case: BenchmarkCase, data: Data) -> Run:
    """One run; every error becomes part of the result, so that one failure does not end a long study."""
    begin = time.perf_counter()
    try:
        return _scored(key, method.estimate(case, data))
    except Exception as error:
        return Run(key, 0.0, 1.0, time.perf_counter() - begin, error=f"{type(error).__name__}: {error}")


def _scored(key: Key, estimate: CoefficientEstimate) -> Run:
    if not all(map(math.isfinite, estimate.theta.values())):
        raise BvsiError("the coefficients found are not finite.")
    return Run(
        key,
        tpr=true_positive_ratio(estimate.theta, estimate.truth),
        e_inf=largest_relative_error(estimate.theta, estimate.truth),
        seconds=estimate.seconds,
        theta=dict(estimate.theta),
        covered=covered(estimate.intervals, estimate.truth),
        verdict=estimate.verdict,
        details=dict(estimate.details),
    )


def _settings(method: BenchmarkMethod, case: BenchmarkCase) -> dict[str, Any]:
    """What a result depends on: the method's settings, the truth and the candidates."""
    return {
        "method": dict(method.settings),
        "truth": dict(case.truth),
        "candidates": {field: list(texts) for field, texts in case.candidates.items()},
    }
