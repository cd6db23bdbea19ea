"""The whole benchmark: comparisons, growth, larger cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.performance.compare import CompareSettings, compare, warm_up
from bvsi.studies.benchmarks.performance.growth import Sweeps, growth
from bvsi.studies.benchmarks.performance.machine import machine
from bvsi.studies.benchmarks.performance.targets import targets
from bvsi.studies.benchmarks.performance.timing import in_own_process
from bvsi.studies.problems import fokker_planck

USUAL: tuple[tuple[str, int], ...] = (("burgers", 256), ("kdv", 512), ("cahn_hilliard", 25))
LARGE: tuple[tuple[str, int], ...] = (
    ("fokker_planck", 400),
    ("cahn_hilliard", 50),
    ("cahn_hilliard", 100),
    ("reaction_diffusion_3d", 40),
)
"""Cases by name and size."""

_LARGE_CELLS = 400


@dataclass(frozen=True)
class RunPlan:
    """What to measure.

    Parameters
    ----------
    sizes
        Cells per side of the comparison.
    cases
        Name and size.
    warm
        Whether everything is loaded and compiled beforehand, so that it is not measured.
    """

    sizes: tuple[int, ...] = (25, 50)
    ways: CompareSettings = field(default_factory=CompareSettings)
    sweeps: Sweeps = field(default_factory=Sweeps)
    cases: tuple[tuple[str, int], ...] = USUAL
    warm: bool = True

    def __post_init__(self) -> None:
        if not self.sizes:
            raise BvsiError("sizes: at least one number of cells per side is needed, such as 25,50.")
        for nx in (*self.sizes, *self.sweeps.cells):
            fokker_planck.Case(nx=nx)  # refuses what the forward solve cannot be sampled to

    @staticmethod
    def of(sizes: Sequence[int], *, large: bool, peer: bool) -> RunPlan:
        """As the command asks for it."""
        usual = Sweeps()
        sweeps = Sweeps(cells=(*usual.cells, _LARGE_CELLS)) if large else usual
        return RunPlan(tuple(sizes), CompareSettings(peer=peer), sweeps, USUAL + LARGE if large else USUAL)

    @staticmethod
    def quick(sizes: Sequence[int], *, peer: bool) -> RunPlan:
        """A few seconds of work, to see that everything runs."""
        nx = min(sizes, default=0)
        sweeps = Sweeps(cells=(nx, 2 * nx), frames=(11, 21), operators=(2, 5), nx=nx)
        ways = CompareSettings(limit=0.2, peer=peer, repeats=1, map_iterations=2, defaults=False)
        return RunPlan(tuple(sizes), ways, sweeps, cases=(), warm=False)


def run(plan: RunPlan, progress: Progress = silent) -> dict[str, Any]:
    """Measure everything; a record of JSON values."""
    record: dict[str, Any] = {"machine": machine()}
    fokker_planck.forward_solve(fokker_planck.N_FINE, accurate_time=False, progress=progress)  # made once, then read
    if plan.warm:
        warm_up(plan.ways.peer)
    record["comparisons"] = [compare(nx, plan.ways, progress) for nx in plan.sizes]
    record["growth"] = growth(plan.sweeps, progress)
    record["cases"] = _cases(plan, progress)
    record["targets"] = [target.record() for target in targets(record["comparisons"], record["growth"])]
    return record


def _cases(plan: RunPlan, progress: Progress) -> list[dict[str, Any]]:
    """Larger cases, each in a process of its own; one that fails, for lack of memory say, is reported and skipped."""
    rows = []
    for number, (name, size) in enumerate(plan.cases):
        progress(number, len(plan.cases), f"cases, {name} {size}")
        try:
            rows.append(in_own_process("case", {"name": name, "size": size}))
        except BvsiError as error:
            rows.append({"name": name, "size": size, "failed": str(error)})
    progress(len(plan.cases), len(plan.cases), "cases, done")
    return rows
