"""Files of a study: table.md, table.csv and figure.png."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bvsi.app.files import png_bytes, write_whole
from bvsi.studies.benchmarks.discovery.store import Run
from bvsi.studies.benchmarks.discovery.table import comma_separated, markdown, rows


@dataclass(frozen=True)
class Report:
    """The table as text, and where the files are."""

    table: str
    files: tuple[Path, ...]


def write(runs: Sequence[Run], out: Path) -> Report:
    """Table and figure of all runs in a folder."""
    from matplotlib.figure import Figure

    from bvsi.app.plot.discovery_benchmark import discovery_benchmark

    table = rows(runs)
    texts = {out / "table.md": markdown(table), out / "table.csv": comma_separated(table)}
    for path, text in texts.items():
        write_whole(path, text)
    cases = len({run.key.case for run in runs})
    figure = Figure(figsize=(9, 2.6 * cases), layout="constrained")
    discovery_benchmark(figure.subplots(cases, 2, squeeze=False), [_drawn(run) for run in runs])
    write_whole(out / "figure.png", png_bytes(figure, dpi=110))
    return Report(texts[out / "table.md"], (*texts, out / "figure.png"))


def _drawn(run: Run) -> dict[str, object]:
    return {
        "case": run.key.case,
        "level": run.key.level,
        "method": run.key.method,
        "e_inf": run.e_inf,
        "tpr": run.tpr,
    }
