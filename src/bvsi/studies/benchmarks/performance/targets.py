"""What the benchmark has to show, and what it measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bvsi.studies.benchmarks.performance.ours import SAME


@dataclass(frozen=True)
class SpeedTarget:
    """A number that has to be at least (``at_least``) or at most ``wanted``; None where it was not measured."""

    what: str
    wanted: float
    measured: float | None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it is."""
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "met": self.met}


def targets(comparisons: Sequence[Mapping[str, Any]], growth: Mapping[str, Mapping[str, Any]]) -> list[SpeedTarget]:
    """All targets of a run."""
    return [*(t for one in comparisons for t in _ways(one)), *_growth(growth)]


def ratio(comparison: Mapping[str, Any], above: str, below: str) -> float | None:
    """Seconds of one way over those of another; None where one was not run."""
    seconds = {row["key"]: row["seconds"] for row in comparison["rows"]}
    top, bottom = seconds.get(above), seconds.get(below)
    return top / bottom if top is not None and bottom else None


def _ways(one: Mapping[str, Any]) -> Iterator[SpeedTarget]:
    at = f"n_x = {one['nx']}"
    same = {row["key"]: row["same"] for row in one["rows"]}
    # the closed form may leave out the model that the paper would take; only what gives the same result counts
    cut = any(row["extrapolated"] for row in one["rows"] if row["key"] == "literal")
    agree = cut and same.get("paper_refit") is None  # as far as could be compared
    key = next((key for key in ("paper", "paper_refit") if same.get(key)), "paper_refit" if agree else "")
    how = ", every model refitted" if key == "paper_refit" else ""
    wanted = f"{at}: dense way{' (extrapolated)' if cut else ''} / bvsi with the same result to {SAME:g}{how}"
    yield SpeedTarget(wanted, 50, ratio(one, "literal", key), at_least=True)
    every = f"{at}: the same, dense way with every time (extrapolated)"
    yield SpeedTarget(every, 50, ratio(one, "literal_blocks", key), at_least=True)
    yield SpeedTarget(f"{at}: lagged iteration / bare linear algebra", 1.5, ratio(one, "iteration", "bare"))
    yield SpeedTarget(f"{at}: bvsi's own discovery / one forward solve", 10, ratio(one, "own", "forward"))


def _growth(growth: Mapping[str, Mapping[str, Any]]) -> Iterator[SpeedTarget]:
    wanted = {"nodes": 1.3, "times": 1.05, "operators": 1.2}
    for what, one in growth.items():
        for name, label in (("iteration", "one lagged iteration"), ("fit", "a whole lagged fit")):
            yield SpeedTarget(f"exponent in {what}, {label}", wanted[what], one["exponents"][name])
        for row in one["rows"] if what == "nodes" else ():
            yield SpeedTarget(f"n_x = {row['nx']}, five operators: iteration / bare linear algebra", 1.5, row["ratio"])
