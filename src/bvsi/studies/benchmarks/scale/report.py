"""Files of the benchmark: scale.json, scale.md and scale.png."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bvsi.app.files import png_bytes, write_whole
from bvsi.app.plot.scale import LABELS, scale
from bvsi.studies.benchmarks.performance.report import PerformanceReport, Record, machine_text, number, table
from bvsi.studies.benchmarks.scale.run import ratio

NAME = "scale"

_HEAD = [
    *("case", "size", "way", "candidates", "CPU", "wall", "/ NumPy", "/ ten", "peak GB", "error", "sd", "|z|"),
    "right model",
]


def write(record: Record, out: Path) -> PerformanceReport:
    """Write all files to a folder."""
    from matplotlib.figure import Figure

    text = markdown(record)
    texts = {out / f"{NAME}.json": json.dumps(record, indent=1, ensure_ascii=False) + "\n", out / f"{NAME}.md": text}
    for path, content in texts.items():
        write_whole(path, content)
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    scale(figure, record)
    picture = out / f"{NAME}.png"
    write_whole(picture, png_bytes(figure, dpi=110))
    return PerformanceReport(text, (*texts, picture))


def markdown(record: Record) -> str:
    """Tables of all cases and of the growth, machine and versions."""
    parts = [
        f"# Scale, {record['size']} size, 5% noise, seed {record['seed']}",
        machine_text(record["machine"]),
        "CPU seconds without the check. Errors, sd and |z|: the largest over the true terms, the first two relative.",
        _cases(record["rows"]),
    ]
    if record["growth"]["rows"]:
        exponents = record["growth"]["exponents"]
        told = ", ".join(f"{LABELS[way]} {number(p)}" for way, p in exponents.items())
        parts += ["## Growth of λ–ω with the number of values", _cases(record["growth"]["rows"]), f"Exponents: {told}."]
    return "\n\n".join(parts) + "\n"


def latest(record: Record) -> str:
    """The last measurement, in a line."""
    row = (record["growth"]["rows"] or record["rows"])[-1]
    case, size, way, *cells = _cells(row, list(row["ways"])[-1])
    told = [f"{name} {cell}" for name, cell in zip(_HEAD[3:], cells, strict=True) if cell not in ("", "–")]
    return f"{case} {size}, {way}: {', '.join(told)}"


def _cases(rows: list[Any]) -> str:
    return table(_HEAD, [_cells(row, way) for row in rows for way in row["ways"]])


def _cells(row: dict[str, Any], way: str) -> list[str]:
    """One measurement, by the columns of the table."""
    one, size = row["ways"][way], "×".join(map(str, (*row["shape"], row["times"])))
    start = [row["case"], size, LABELS[way]]
    if "cpu" not in one:
        return [*start, *[""] * (len(_HEAD) - 4), one.get("absent") or f"failed: {one['failed']}"]
    plain = ratio(row, way, "floor_many" if way == "many" else "floor")
    ten = ratio(row, way, "few") if way == "many" else None
    numbers = [one["cpu"], one["wall"], plain, ten, one["peak_gb"], one["error"], one["sd"], one["z"]]
    right = {True: "yes", False: "no", None: ""}[one["exact"]]
    return [*start, str(one["candidates"]), *map(number, numbers), right]
