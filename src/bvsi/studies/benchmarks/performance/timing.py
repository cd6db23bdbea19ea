"""Seconds and memory of a piece of work, here or in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bvsi.errors import BvsiError

T = TypeVar("T")

_WORKER = "bvsi.studies.benchmarks.performance.worker"


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of one run, and what it returned."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def best_of(repeats: int, work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the quickest of several runs, and what the last one returned."""
    seconds, result = timed(work)
    for _ in range(repeats - 1):
        again, result = timed(work)
        seconds = min(seconds, again)
    return seconds, result


def peak_memory_gb() -> float:
    """Peak memory of this process; Linux's VmHWM where there is one, since ru_maxrss may be that of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return float(line.split()[1]) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


def in_own_process(task: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a task of the worker returns, run in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", _WORKER, task, json.dumps(dict(settings))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise BvsiError(f"{task} with {dict(settings)} failed: {last}")
    row: dict[str, Any] = json.loads(done.stdout)
    return row
