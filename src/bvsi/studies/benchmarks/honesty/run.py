"""Runs of the benchmark, and their rates.

A run is *right* where the operators are the true ones and no coefficient is more than four standard deviations off. It
is *consistent* where the verdict says so; anything else is an alarm, and a refusal (an error) is one too.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bvsi.check import Verdict
from bvsi.common.progress import Progress
from bvsi.discovery import discover
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.discovery.metrics import standard_scores
from bvsi.studies.benchmarks.discovery.store import drop_broken_tail
from bvsi.studies.benchmarks.honesty.cases import CASES
from bvsi.studies.benchmarks.honesty.physics import PHYSICS

# Standard deviations beyond which a coefficient is wrong, and within which an interval of 95% lies.
_WRONG, _COVERED = 4.0, 1.96


@dataclass(frozen=True)
class HonestyRun:
    """One run.

    Attributes
    ----------
    names
        Operators found.
    right
        Whether they are the true ones with coefficients near the truth; always False where one is missing.
    z
        (found − true)/sd by true operator.
    verdict
        Or why it was refused.
    refused
        Whether it was.
    doubts
        Whether the result names doubts of its own beside the verdict.
    seconds
        CPU.
    """

    case: str
    physics: str
    number: int
    names: tuple[str, ...]
    right: bool
    z: Mapping[str, float]
    verdict: str
    refused: bool
    doubts: bool
    chi2: float
    seconds: float

    @property
    def consistent(self) -> bool:
        """Whether the verdict says that nothing is wrong."""
        return self.verdict == str(Verdict.CONSISTENT)


def run_once(name: str, number: int, seed: int) -> HonestyRun:
    """Draw a case and discover its equation with the defaults."""
    case = CASES[name]
    rng = np.random.default_rng([seed, number, *name.encode()])
    kind = case.physics[number % len(case.physics)]
    drawn = PHYSICS[kind].draw(rng, case.sampling or PHYSICS[kind].sampling)
    data = case.observing(drawn.data, rng)
    missing = (case.missing or {}).get(kind, "")
    begin = time.process_time()
    try:
        found = discover(data, drawn.library(missing))
    except BvsiError as error:
        seconds = time.process_time() - begin
        return HonestyRun(name, kind, number, (), False, {}, str(error), True, False, np.nan, seconds)
    z = standard_scores(found, drawn.truth)
    near = bool(z) and max(abs(v) for v in z.values()) < _WRONG
    right = set(found.names) == set(drawn.truth) and near
    seconds, doubts = time.process_time() - begin, bool(found.doubts)
    return HonestyRun(
        name, kind, number, found.names, right, z, str(found.verdict), False, doubts, float(found.chi2), seconds
    )


def run_cases(names: Sequence[str], repeats: int, seed: int, kept: Path, progress: Progress) -> Iterator[HonestyRun]:
    """All runs; those in the file ``kept`` are not repeated, and new ones are added to it as they are done."""
    drop_broken_tail(kept)
    done = {(one.case, one.number): one for one in _read(kept, seed)}
    for number, (name, repeat) in enumerate((name, repeat) for name in names for repeat in range(repeats)):
        progress(number, len(names) * repeats, name)
        one = done.get((name, repeat)) or run_once(name, repeat, seed)
        if (name, repeat) not in done:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**asdict(one), "seed": seed}) + "\n")
        yield one


def _read(path: Path, seed: int) -> list[HonestyRun]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return [
        HonestyRun(**{**{k: v for k, v in row.items() if k != "seed"}, "names": tuple(row["names"])})
        for row in rows
        if row["seed"] == seed
    ]


@dataclass(frozen=True)
class Rates:
    """Shares of the runs of one case, or of all.

    Attributes
    ----------
    coverage
        Of 95% intervals of true operators in the runs that are consistent and have no wrong operator; NaN without any.
    named
        Share of the alarms, refusals left out, whose cause is named rightly; NaN where there are none.
    verdicts
        How often each was given.
    """

    runs: int
    right_consistent: float
    right_alarm: float
    wrong_alarm: float
    wrong_consistent: float
    coverage: float
    named: float
    verdicts: Mapping[str, int]
    seconds: float


def rates(runs: Sequence[HonestyRun]) -> Rates:
    """Rates of some runs."""
    n = len(runs)

    def share(*, right: bool, consistent: bool) -> float:
        return sum(one.right == right and one.consistent == consistent for one in runs) / n

    z = [v for one in runs if one.consistent and set(one.names) <= set(one.z) for v in one.z.values()]
    alarms = [one for one in runs if not one.consistent and not one.refused]
    named = [one.verdict in map(str, CASES[one.case].causes) for one in alarms]
    return Rates(
        n,
        share(right=True, consistent=True),
        share(right=True, consistent=False),
        share(right=False, consistent=False),
        share(right=False, consistent=True),
        float(np.mean(np.abs(z) < _COVERED)) if z else float("nan"),
        float(np.mean(named)) if named else float("nan"),
        dict(Counter("refused" if one.refused else one.verdict for one in runs)),
        float(np.mean([one.seconds for one in runs])),
    )
