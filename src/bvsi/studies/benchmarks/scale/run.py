"""The whole benchmark: every case in every way, each in a process of its own, ratios and growth.

Data are made before the clock starts and read from the cache by the processes, so that the memory of the solvers is not
counted. Growth is measured on λ–ω with ten candidates: CPU ∝ values^p, p by least squares on the logarithms.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.performance.machine import machine
from bvsi.studies.benchmarks.performance.timing import in_own_process
from bvsi.studies.benchmarks.scale.cases import CASES, LAMBDA_OMEGA, SIZES, ScaleCase, Size, case
from bvsi.studies.benchmarks.scale.measure import WAYS, Row

GROWTH: dict[str, tuple[Size, ...]] = {
    "full": (((64, 64), 51), ((128, 128), 101), ((256, 256), 201)),
    "small": (((64, 64), 51), ((96, 96), 76), ((128, 128), 101)),
    "tiny": (),
}
"""Nodes and times of λ–ω for the growth with the number of values."""


@dataclass(frozen=True)
class ScalePlan:
    """What to measure.

    Parameters
    ----------
    size
        Name of a size: full, small or tiny.
    cases
        Names; all by default.
    ways
        As in :data:`WAYS`.
    growth
        Whether growth is measured too.
    cache
        Folder of the data; by default the user's cache.
    cpu_limit, memory_limit
        CPU seconds and GB after which a measurement is given up; 0 for none.
    """

    size: str = "small"
    cases: tuple[str, ...] = tuple(CASES)
    ways: tuple[str, ...] = WAYS
    seed: int = 0
    growth: bool = True
    cache: Path | None = None
    cpu_limit: float = field(default=1800.0)
    memory_limit: float = field(default=12.0)

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise BvsiError(f"size: {self.size!r} is none of {', '.join(SIZES)}.")
        for name in self.cases:
            case(name)
        if not self.cases:
            raise BvsiError(f"cases: at least one of {', '.join(CASES)} is needed.")

    def settings(self, chosen: ScaleCase, size: Size, way: str) -> dict[str, Any]:
        """Arguments of a measurement."""
        limits = {"cpu_limit": self.cpu_limit, "memory_limit": self.memory_limit}
        return {"name": chosen.name, "shape": list(size[0]), "times": size[1], "way": way, "seed": self.seed, **limits}


def run(plan: ScalePlan, progress: Progress = silent) -> Iterator[dict[str, Any]]:
    """Measure everything: after each measurement a record of JSON values of all that is known."""
    cases = [(case(name), case(name).sizes[plan.size]) for name in plan.cases]
    sizes = GROWTH[plan.size] if plan.growth else ()
    few = ScalePlan(**{**vars(plan), "ways": ("few", "floor")})
    start = {"machine": machine(), "size": plan.size, "seed": plan.seed}
    with _cache(plan.cache):
        rows: list[Row] = []
        for rows in _measured(plan, cases, progress):
            yield {**start, "rows": rows, "growth": _growth([])}
        for growing in _measured(few, [(LAMBDA_OMEGA, size) for size in sizes], progress):
            yield {**start, "rows": rows, "growth": _growth(growing)}


def _growth(rows: list[Row]) -> Row:
    return {"rows": rows, "exponents": {way: exponent(rows, way) for way in ("few", "floor")}}


def _measured(plan: ScalePlan, chosen: Sequence[tuple[ScaleCase, Size]], progress: Progress) -> Iterator[list[Row]]:
    """All rows so far, one more way each time: case, shape, times, what was measured by way; failures are reported."""
    rows: list[Row] = []
    for number, (one, size) in enumerate(chosen):
        label = f"{one.name} {'×'.join(map(str, size[0]))}×{size[1]}"
        progress(number, len(chosen), f"{label}, data")
        one.make(*size)
        ways: dict[str, Row] = {}
        rows.append({"case": one.name, "shape": list(size[0]), "times": size[1], "ways": ways})
        for way in plan.ways:
            why = absent(one, way)
            progress(number, len(chosen), f"{label}, {way}")
            try:
                ways[way] = {"absent": why} if why else in_own_process("scale", plan.settings(one, size, way))
            except BvsiError as error:
                ways[way] = {"failed": str(error).rpartition("failed: ")[2]}
            yield rows
    progress(len(chosen), len(chosen), "done")


def absent(one: ScaleCase, way: str) -> str:
    """Why a way is not measured; empty where it is."""
    if way in ("many", "floor_many") and not one.many:
        return "ten candidates only"
    if way == "pysindy" and not one.peer:
        return "PySINDy cannot express the equation"
    if way == "pysindy" and importlib.util.find_spec("pysindy") is None:
        return "PySINDy is not installed"
    return ""


def exponent(rows: Sequence[Row], way: str) -> float | None:
    """p in CPU ∝ values^p; None with fewer than two sizes."""
    made = [row["ways"][way] for row in rows if "cpu" in row["ways"].get(way, {})]
    if len(made) < 2:
        return None
    x, y = (np.log([one[key] for one in made]) for key in ("values", "cpu"))
    return float(np.polyfit(x, y, 1)[0])


def ratio(row: Row, way: str, other: str) -> float | None:
    """CPU of one way in units of another; None where one of them was not measured.

    NumPy is the one measured beside it, in the same process, where there is one.
    """
    own, top = row["ways"].get(way, {}), row["ways"].get(way, {}).get("cpu")
    beside = own.get("floor_cpu") if other.startswith("floor") else None
    bottom = beside or row["ways"].get(other, {}).get("cpu")
    return top / bottom if top and bottom else None


@contextmanager
def _cache(folder: Path | None) -> Iterator[None]:
    """The folder of cached data, for this process and those that it starts."""
    before = os.environ.get("BVSI_CACHE")
    if folder is not None:
        os.environ["BVSI_CACHE"] = str(folder.resolve())
    try:
        yield
    finally:
        if folder is not None:
            os.environ.pop("BVSI_CACHE")
            os.environ.update({} if before is None else {"BVSI_CACHE": before})
