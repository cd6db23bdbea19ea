"""One measurement of ``bvsi bench scale``: a case at a size, and a way to its coefficients.

few, many              ``discover(data, library, check=False)`` with ten candidates, or with all, per equation
floor, floor_many      plain weak-form least squares on the true terms, or on all candidates
pysindy                PySINDy's weak form with an oracle, where it is installed and can express the equation
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bvsi.data import Data
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.discovery.peer import PySindy
from bvsi.studies.benchmarks.performance.timing import peak_memory_gb
from bvsi.studies.benchmarks.scale import floor
from bvsi.studies.benchmarks.scale.cases import ScaleCase, Terms, case

Row = dict[str, Any]

OURS = ("few", "many")
WAYS = ("floor", "floor_many", *OURS, "pysindy")

# What is measured repeatedly, as the clock of the CPU has ticks of milliseconds: CPU seconds and runs.
_SHORT, _MOST_RUNS = 0.3, 20


def measure(
    name: str, shape: list[int], times: int, way: str, seed: int, cpu_limit: float = 0.0, memory_limit: float = 0.0
) -> Row:
    """CPU seconds, wall seconds, peak memory and errors, as JSON values.

    Parameters
    ----------
    shape
        Nodes by axis.
    way
        One of ``WAYS``.
    cpu_limit, memory_limit
        CPU seconds and GB after which the process is ended; 0 for no limit.
    """
    _limit(resource.RLIMIT_CPU, cpu_limit)
    _limit(resource.RLIMIT_AS, memory_limit * 2**30)
    chosen = case(name)
    data = chosen.noisy((tuple(shape), times), seed)
    ways = _ways(chosen, data)
    if way not in ways:
        raise BvsiError(f"way: {way!r} is none of {', '.join(WAYS)}.")
    wall = time.perf_counter()
    cpu, runs, found = _cpu(ways[way], once=way in OURS)
    wall = time.perf_counter() - wall
    values = data.n_nodes * len(data.times) * len(data.fields)
    row = {"cpu": cpu, "wall": wall / runs, "peak_gb": peak_memory_gb(), "values": values, **found}
    if way in OURS:  # NumPy beside it, in the same process and under the same load; its memory is not counted
        row["floor_cpu"] = _cpu(ways["floor_many" if way == "many" else "floor"], once=False)[0]
    return row


def _cpu(run: Callable[[], Row], *, once: bool) -> tuple[float, int, Row]:
    """CPU seconds of one run, the number of runs, and what the last one found."""
    cpu, runs, spent = time.process_time(), 0, 0.0
    while not runs or (not once and spent < _SHORT and runs < _MOST_RUNS):
        found = run()
        runs, spent = runs + 1, time.process_time() - cpu
    return spent / runs, runs, found


def warm_up() -> None:
    """Load and compile what a discovery needs, dense and sparse."""
    for chosen in (case("porous_medium"), case("ks_256")):
        _ours(chosen, chosen.noisy(chosen.sizes["tiny"], 0), chosen.few)


def _limit(what: int, value: float) -> None:
    if value > 0:
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (int(value), hard))


def _ways(chosen: ScaleCase, data: Data) -> Mapping[str, Callable[[], Row]]:
    return {
        "few": lambda: _ours(chosen, data, chosen.few),
        "many": lambda: _ours(chosen, data, chosen.many),
        "floor": lambda: _plain(chosen, data, None),
        "floor_many": lambda: _plain(chosen, data, chosen.many),
        "pysindy": lambda: _peer(chosen, data),
    }


def _ours(chosen: ScaleCase, data: Data, terms: Terms) -> Row:
    found = discover(data, chosen.library(terms), check=False)
    sd = dict(zip(found.names, found.sd.tolist(), strict=True))
    row = errors(dict(zip(found.names, found.theta.tolist(), strict=True)), chosen.coefficients(), sd)
    reason = str(found.settings.get("reason", ""))
    return {**row, "chi2": float(found.chi2), "reason": reason, "candidates": sum(map(len, terms.values()))}


def _plain(chosen: ScaleCase, data: Data, terms: Terms | None) -> Row:
    theta = floor.coefficients(chosen, data, terms)
    truth = chosen.coefficients()
    row = errors({name: value for name, value in theta.items() if name in truth}, truth, {})
    return {**row, "exact": None, "candidates": len(theta)}


def _peer(chosen: ScaleCase, data: Data) -> Row:
    estimate = PySindy().estimate(chosen.peer_case(), data)
    row = errors(dict(estimate.theta), dict(estimate.truth), {})
    return {**row, "candidates": estimate.details["candidates"]}


def errors(theta: Mapping[str, float], truth: Mapping[str, float], sd: Mapping[str, float]) -> Row:
    """Largest relative error, relative sd and |z| over the true terms; whether the terms are the true ones.

    Errors are None where a true term is missing.
    """
    if not set(truth) <= set(theta):
        return {"error": None, "sd": None, "z": None, "exact": False}
    off = {name: abs(theta[name] - value) for name, value in truth.items()}
    error = max(off[name] / abs(value) for name, value in truth.items())
    bars = [sd[name] for name in truth] if sd else []
    return {
        "error": float(error),
        "sd": max(s / abs(truth[n]) for s, n in zip(bars, truth, strict=True)) if bars else None,
        "z": float(np.max([off[n] / s for s, n in zip(bars, truth, strict=True)])) if bars else None,
        "exact": set(theta) == set(truth),
    }
