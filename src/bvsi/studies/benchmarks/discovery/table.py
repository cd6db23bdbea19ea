"""The summary: one row per case and noise level, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bvsi.studies.benchmarks.discovery.store import Run

_NONE = "–"
_COLUMNS = (
    ("tpr", ".2f", 2),
    ("e_inf", ".1e", 2),
    ("coverage", ".2f", 1),
    ("consistent", ".2f", 1),
    ("seconds", ".1f", 2),
)
"""Measure, format, and for how many methods it stands in the table: ours only, or both."""


@dataclass(frozen=True)
class Summary:
    """Runs of one method on one case and level; None where a measure does not exist.

    Attributes
    ----------
    tpr
        Mean.
    e_inf, seconds
        Medians.
    coverage
        Share of 95% intervals of selected true operators that contain the truth.
    consistent
        Share of verdicts that are ``consistent``; failed runs count with TPR 0 and E∞ 1.
    error
        Error of the first that failed.
    """

    runs: int
    failed: int
    tpr: float
    e_inf: float
    coverage: float | None
    consistent: float | None
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class TableRow:
    """Both methods on one case and level; the peer is None where it cannot express the equation or was left out."""

    case: str
    level: float
    ours: Summary | None
    peer: Summary | None

    @property
    def ratio(self) -> float | None:
        """E∞ of the peer divided by ours: above 1 where ours is nearer to the truth."""
        if self.ours is None or self.peer is None or self.ours.e_inf == 0:
            return None
        return self.peer.e_inf / self.ours.e_inf


def summary(runs: Sequence[Run]) -> Summary:
    """Summary of the runs of one method on one case and level."""
    inside = [value for run in runs for value in run.covered.values()]
    verdicts = [run.verdict for run in runs if run.verdict is not None]
    return Summary(
        runs=len(runs),
        failed=sum(run.error is not None for run in runs),
        tpr=fmean(run.tpr for run in runs),
        e_inf=median(run.e_inf for run in runs),
        coverage=fmean(inside) if inside else None,
        consistent=fmean(verdict.split(":")[0].strip() == "consistent" for verdict in verdicts) if verdicts else None,
        seconds=median(run.seconds for run in runs),
        error=next((run.error for run in runs if run.error is not None), None),
    )


def rows(runs: Sequence[Run], *, ours: str = "bvsi", peer: str = "PySINDy") -> list[TableRow]:
    """One row per case and level, in the order of the runs."""
    groups: dict[tuple[str, float], dict[str, list[Run]]] = {}
    for run in runs:
        groups.setdefault((run.key.case, run.key.level), {}).setdefault(run.key.method, []).append(run)
    return [
        TableRow(case, level, *(summary(group[name]) if name in group else None for name in (ours, peer)))
        for (case, level), group in groups.items()
    ]


def markdown(table: Sequence[TableRow]) -> str:
    """A table for people, with what its columns mean."""
    head = ["case", "noise", "TPR", "TPR peer", "E∞", "E∞ peer", "ratio", "coverage", "consistent", "s", "s peer"]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    lines += [f"| {' | '.join(_cells(row))} |" for row in table]
    failed = [
        f"{row.case}, {100 * row.level:g}%: {name} failed in {s.failed} of {s.runs} runs, {s.error}"
        for row in table
        for name, s in (("bvsi", row.ours), ("the peer", row.peer))
        if s is not None and s.failed
    ]
    return "\n".join([*lines, "", _LEGEND, *(f"- {line}" for line in failed), ""])


_LEGEND = f"""\
TPR = TP/(TP+FN+FP), mean; E∞ = largest relative error of a true coefficient, median (1: one is missed); ratio = E∞ of
the peer / ours; coverage of 95% intervals; consistent: share of fits judged so; s: median seconds. Noise in percent of
the RMS. bvsi runs at its defaults. The peer is PySINDy's weak form at its defaults, with the threshold chosen by an
oracle that knows the truth. Failed runs count as TPR 0 and E∞ 1. {_NONE}: the peer cannot express the
equation, or there is no such number.
"""


def comma_separated(table: Sequence[TableRow]) -> str:
    """The same numbers, in full, one column per method and measure; empty where there is none."""
    fields = ("runs", "failed", "tpr", "e_inf", "coverage", "consistent", "seconds")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "level", *(f"{who}_{name}" for who in ("bvsi", "peer") for name in fields), "ratio"])
    for row in table:
        values = [None if s is None else getattr(s, name) for s in (row.ours, row.peer) for name in fields]
        writer.writerow([row.case, row.level, *("" if v is None else v for v in (*values, row.ratio))])
    return text.getvalue()


def _cells(row: TableRow) -> list[str]:
    both = (row.ours, row.peer)
    cells = [_number(getattr(s, name, None), form) for name, form, methods in _COLUMNS for s in both[:methods]]
    return [row.case, f"{100 * row.level:g}%", *cells[:4], _number(row.ratio, ".2g"), *cells[4:]]


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)
