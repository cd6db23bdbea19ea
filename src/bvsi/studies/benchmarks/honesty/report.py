"""Files of the benchmark: honesty.json, honesty.md and honesty.png."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bvsi.app.files import png_bytes, write_whole
from bvsi.app.plot.honesty import honesty
from bvsi.studies.benchmarks.honesty.run import HonestyRun, Rates, rates
from bvsi.studies.benchmarks.performance.machine import machine
from bvsi.studies.benchmarks.performance.report import PerformanceReport, machine_text, table

NAME = "honesty"


def write(runs: Sequence[HonestyRun], seed: int, out: Path) -> PerformanceReport:
    """Write all files to a folder."""
    from matplotlib.figure import Figure

    by_case = {name: rates([r for r in runs if r.case == name]) for name in dict.fromkeys(r.case for r in runs)}
    whole, here = rates(runs), machine()
    text = markdown(by_case, whole, seed, machine_text(here))
    record = {"seed": seed, "machine": here, "all": asdict(whole), "cases": {k: asdict(v) for k, v in by_case.items()}}
    texts = {out / f"{NAME}.json": json.dumps(record, indent=1, ensure_ascii=False) + "\n", out / f"{NAME}.md": text}
    for path, content in texts.items():
        write_whole(path, content)
    figure = Figure(figsize=(9, 1.5 + 0.24 * len(by_case)), layout="constrained")
    honesty(figure, {name: asdict(one) for name, one in by_case.items()})
    picture = out / f"{NAME}.png"
    write_whole(picture, png_bytes(figure, dpi=110))
    return PerformanceReport(text, (*texts, picture))


def markdown(by_case: dict[str, Rates], whole: Rates, seed: int, where: str) -> str:
    """Rates of all cases, and over all of them."""
    head = ["case", "runs", "right, consistent", "right, alarm", "wrong, alarm", "wrong, consistent", "coverage"]
    head += ["cause named", "verdicts", "CPU s"]
    rows = [_row(name, one) for name, one in {**by_case, "all": whole}.items()]
    return "\n\n".join([f"# Honesty, seed {seed}", where, table(head, rows)]) + "\n"


def _row(name: str, one: Rates) -> list[str]:
    told = ", ".join(f"{verdict} {count}" for verdict, count in one.verdicts.items())
    shares = (one.right_consistent, one.right_alarm, one.wrong_alarm, one.wrong_consistent, one.coverage, one.named)
    numbers = ["" if value != value else f"{value:.2f}" for value in shares]
    return [name, str(one.runs), *numbers, told, f"{one.seconds:.1f}"]
