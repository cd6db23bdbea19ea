"""Files of the benchmark: performance.json, performance.md and performance.png."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bvsi.app.files import png_bytes, write_whole
from bvsi.studies.benchmarks.performance.targets import ratio

Record = Mapping[str, Any]
NAME = "performance"
_SECONDS = (
    *("assembly", "planning", "start", "fit", "total", "iteration"),
    *("bare_factor", "bare_solve", "bare_half", "ratio", "ratio_half", "peak_gb"),
)


@dataclass(frozen=True)
class PerformanceReport:
    """The tables as text, and where the files are."""

    text: str
    files: tuple[Path, ...]


def write(record: Record, out: Path) -> PerformanceReport:
    """Write all files to a folder."""
    from matplotlib.figure import Figure

    from bvsi.app.plot.performance import performance

    text = markdown(record)
    texts = {out / f"{NAME}.json": json.dumps(record, indent=1, ensure_ascii=False) + "\n", out / f"{NAME}.md": text}
    for path, content in texts.items():
        write_whole(path, content)
    sizes = len(record["comparisons"])
    figure = Figure(figsize=(12, 3.4 * (1 + sizes)), layout="constrained")
    performance(figure, record["comparisons"], record["growth"])
    picture = out / f"{NAME}.png"
    write_whole(picture, png_bytes(figure, dpi=110))
    return PerformanceReport(text, (*texts, picture))


def markdown(record: Record) -> str:
    """All tables, machine and versions."""
    parts = ["# Performance", machine_text(record["machine"])]
    for one in record["comparisons"]:
        parts += [f"## Ways to the coefficients, n_x = {one['nx']}, {one['nodes']} nodes, ten candidates", _ways(one)]
    for what, one in record["growth"].items():
        parts += [f"## Lagged fit, growth with {what}", _growth(one, what)]
    if record["cases"]:
        parts += ["## Whole discoveries, seconds by step", _cases(record["cases"])]
    parts += ["## What it has to show", _targets(record["targets"])]
    return "\n\n".join(parts) + "\n"


def machine_text(machine: Record) -> str:
    """What it ran on, in words."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    blas = "; ".join(" ".join(f"{k} {v}" for k, v in one.items()) for one in machine["blas"])
    load = ", ".join(f"{value:.1f}" for value in machine["load"])
    threads = machine["OMP_NUM_THREADS"] or "not set"
    return (
        f"{machine['date']}; {machine['processor']}, {machine['cores']} cores ({machine['usable_cores']} usable), "
        f"{machine['memory_gb']} GB; load {load}; OMP_NUM_THREADS {threads}\n\n"
        f"{versions}; commit {machine['commit'] or 'unknown'}\n\nBLAS: {blas}"
    )


def _ways(one: Record) -> str:
    rows = []
    for row in one["rows"]:
        factors = [ratio(one, row["key"], other) for other in ("paper", "own", "forward")]
        mark = " (extrapolated)" if row["extrapolated"] else ""
        same = {True: "yes", False: "no", None: ""}[row["same"]]
        rows.append([row["label"], number(row["seconds"]) + mark, *map(number, factors), same, row["note"]])
    head = ["way", "seconds", "/ paper's algorithm by bvsi", "/ bvsi's own", "/ forward solve", "same result", "note"]
    return table(head, rows)


def _growth(one: Record, what: str) -> str:
    rows = [[str(row[what]), str(row["iterations"]), *(number(row[key]) for key in _SECONDS)] for row in one["rows"]]
    e = one["exponents"]
    told = f"Exponents: one iteration {e['iteration']:.2f}, whole fit {e['fit']:.2f}, with assembly {e['total']:.2f}."
    head = [what, "iterations", *(key.replace("_", " ") for key in _SECONDS)]
    return "\n\n".join([table(head, rows), told, *one["failed"]])


def _cases(cases: Sequence[Record]) -> str:
    head = [
        "case",
        "nodes × times",
        "candidates",
        "assembly",
        "plan",
        "selection",
        "check",
        "total",
        "peak GB",
        "found",
    ]
    rows = []
    for row in cases:
        name = f"{row['name']} {row['size']}"
        if "failed" in row:
            rows.append([name, *[""] * (len(head) - 2), f"failed: {row['failed']}"])
            continue
        seconds = (number(row[key]) for key in ("assembly", "planning", "selection", "check", "total", "peak_gb"))
        found = f"{row['operators']} operators{', the true ones' if row['exact'] else ''}"
        rows.append([name, f"{row['nodes']} × {row['times']}", str(row["candidates"]), *seconds, found])
    return table(head, rows)


def _targets(targets: Sequence[Record]) -> str:
    rows = [
        [
            one["what"],
            f"{'≥' if one['at_least'] else '≤'} {one['wanted']:g}",
            number(one["measured"]),
            {True: "yes", False: "no", None: "not measured"}[one["met"]],
        ]
        for one in targets
    ]
    return table(["what", "wanted", "measured", "met"], rows)


def number(value: float | None) -> str:
    """Three digits; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of even width, so that it can be read as text."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
