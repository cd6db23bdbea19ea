"""Whether the answers can be trusted: coverage of intervals and verdicts, on data that resolve the equation and not.

``python -m bvsi.studies.benchmarks.trust --out DIR``: discovery at its defaults on Burgers, KdV and Fokker–Planck data
at 1, 5, 10 and 20% noise, many seeds; the share of 95% intervals that contain each true coefficient, and of the
verdicts that are ``consistent``. Then the same equations sampled too coarsely: how often the verdict says
so. It continues where it was interrupted; runs are kept in DIR/trust/results.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from bvsi.app.files import write_whole
from bvsi.check import Verdict
from bvsi.cluster import connect
from bvsi.common.progress import progress_bar
from bvsi.studies.benchmarks.discovery.ours import Bvsi
from bvsi.studies.benchmarks.discovery.store import Run, Store
from bvsi.studies.benchmarks.discovery.study import Plan, run
from bvsi.studies.problems.classics import CLASSICS
from bvsi.studies.problems.classics.case import Classic

LEVELS = (0.01, 0.05, 0.1, 0.2)
COARSE_LEVELS = (0.01, 0.1)


@dataclass(frozen=True)
class Sampling:
    """A classic with a sampling of its own: arguments of its ``simulate``."""

    case: str
    settings: tuple[tuple[str, float], ...] = ()

    @property
    def classic(self) -> Classic:
        """The case, under a name with the sampling."""
        whole = CLASSICS[self.case]
        if not self.settings:
            return whole
        told = ", ".join(f"{what} = {n:g}" for what, n in self.settings)
        return replace(whole, name=f"{self.case} ({told})", make=partial(whole.make, **dict(self.settings)))


RESOLVED: tuple[Sampling, ...] = (
    Sampling("burgers"),
    Sampling("kdv", (("nodes", 256), ("times", 101), ("final", 10.0))),
    Sampling("fokker_planck_2d"),
)
"""Samplings that resolve the equation; KdV with fewer nodes and frames than its own, so that a run takes seconds."""

COARSE: tuple[Sampling, ...] = (
    Sampling("burgers", (("nodes", 16),)),
    Sampling("kdv", (("nodes", 48),)),
    Sampling("kdv", (("times", 26),)),
    Sampling("fokker_planck_2d", (("nodes", 16),)),
)
"""Samplings at which coefficients, or the selection, are wrong by far more than noise explains."""

_UNRESOLVED = (str(Verdict.TIME), str(Verdict.SPACE))


def main(arguments: Sequence[str] | None = None) -> None:
    """Coverage of intervals and rates of verdicts, on resolved and on unresolved data."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.trust", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--seeds", type=int, default=100, help="noise seeds per level (default 100)")
    parser.add_argument("--coarse-seeds", type=int, default=20, help="seeds on coarse data (default 20)")
    known = list(dict.fromkeys(one.case for one in RESOLVED))
    parser.add_argument("--cases", nargs="*", default=known, choices=known, help="which equations (default: all)")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, whose workers make the runs")
    chosen = parser.parse_args(arguments)
    store = Store(chosen.out / "trust")
    remote = connect(chosen.scheduler) if chosen.scheduler is not None else nullcontext()
    with remote as client, progress_bar() as progress:

        def runs(some: Sequence[Sampling], levels: Sequence[float], seeds: int) -> list[Run]:
            cases = [one.classic for one in some if one.case in chosen.cases]
            plan = Plan(cases, [Bvsi()], levels, seeds) if seeds else None
            return [] if plan is None else run(plan, store, client=client, progress=progress)

        fine, coarse = runs(RESOLVED, LEVELS, chosen.seeds), runs(COARSE, COARSE_LEVELS, chosen.coarse_seeds)
    text = table(fine, coarse)
    write_whole(chosen.out / "trust.md", text)
    sys.stdout.write(f"{text}\ntrust.md: {chosen.out / 'trust.md'}\n")


def table(fine: Sequence[Run], coarse: Sequence[Run]) -> str:
    """Both studies as Markdown."""
    lines = [
        "| resolved case | noise | runs | TPR | coverage by coefficient | consistent |",
        "|---|---:|---:|---:|---|---:|",
    ]
    for (case, level), runs in grouped(fine).items():
        truth = CLASSICS[case.split(" ")[0]].truth
        cover = ", ".join(f"{np.mean([r.covered.get(name, False) for r in runs]):.2f}" for name in truth)
        consistent = np.mean([r.verdict == str(Verdict.CONSISTENT) for r in runs])
        tpr = np.mean([r.tpr for r in runs])
        lines.append(f"| {case} | {100 * level:g}% | {len(runs)} | {tpr:.3f} | {cover} | {consistent:.2f} |")
    lines += ["", "| coarse case | noise | runs | said so | median E∞ | verdicts |", "|---|---:|---:|---:|---:|---|"]
    for (case, level), runs in grouped(coarse).items():
        said = np.mean([r.verdict in _UNRESOLVED for r in runs])
        counts = {v: sum(r.verdict == v for r in runs) for v in dict.fromkeys(r.verdict or "failed" for r in runs)}
        told = ", ".join(f"{v}: {n}" for v, n in counts.items())
        error = np.median([r.e_inf for r in runs])
        lines.append(f"| {case} | {100 * level:g}% | {len(runs)} | {said:.2f} | {error:.2g} | {told} |")
    return "\n".join([*lines, ""])


def grouped(runs: Sequence[Run]) -> dict[tuple[str, float], list[Run]]:
    """Runs by case and level."""
    found: dict[tuple[str, float], list[Run]] = {}
    for one in runs:
        found.setdefault((one.key.case, one.key.level), []).append(one)
    return found


if __name__ == "__main__":
    main()
