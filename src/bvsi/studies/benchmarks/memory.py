"""Peak memory of discoveries, predicted and measured side by side.

``python -m bvsi.studies.benchmarks.memory`` runs each case in a process of its own. There everything is loaded and
compiled by small discoveries, and what these left is given back to the system; then

    measured = largest resident memory during the discovery − resident memory before it + bytes of the data

from VmHWM and VmRSS of Linux, VmHWM set back by ``/proc/self/clear_refs``. The prediction is made after that.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bvsi.app.study.memory import estimate_memory
from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.discovery import Method, discover
from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.performance.cases import CASES, PreparedCase, warm_up

_STATUS, _SET_BACK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MemoryCase:
    """A case of the performance benchmark: its name and size, and whether its own settings or the defaults are used.

    Parameters
    ----------
    check
        Whether the answer is checked; defaults always are.
    """

    name: str
    size: int
    defaults: bool = True
    check: bool = True

    @property
    def label(self) -> str:
        """For people."""
        how = "defaults" if self.defaults else "elements" if self.check else "elements, no check"
        return f"{self.name.replace('_', ' ')} {self.size}, {how}"

    def prepared(self) -> PreparedCase:
        """Data, library and settings."""
        own = CASES[self.name](self.size)
        if not self.defaults:
            return replace(own, check=self.check)
        return PreparedCase(own.data, own.library, own.truth)


STUDY = (
    MemoryCase("burgers", 256),
    MemoryCase("kdv", 256),
    MemoryCase("fokker_planck", 50),
    MemoryCase("fokker_planck", 50, defaults=False),
    MemoryCase("fokker_planck", 100),
    MemoryCase("fokker_planck", 100, defaults=False),
    MemoryCase("fokker_planck", 100, defaults=False, check=False),
    MemoryCase("cahn_hilliard", 20, defaults=False, check=False),
)
"""What is measured by default."""


@dataclass(frozen=True)
class Held:
    """Bytes predicted and measured, and seconds of discovery and prediction."""

    label: str
    predicted: float
    measured: float
    seconds: float
    predicting: float

    @property
    def share(self) -> float:
        """Measured in units of predicted."""
        return self.measured / self.predicted

    def __str__(self) -> str:
        sizes = f"{self.predicted / 1e6:9.0f} {self.measured / 1e6:9.0f} {self.share:6.2f}"
        return f"{self.label:<40} {sizes} {self.seconds:7.1f} {self.predicting:7.1f}"


HEAD = f"{'case':<40} {'predicted':>9} {'measured':>9} {'share':>6} {'run, s':>7} {'pred, s':>7}"


def measure(case: MemoryCase) -> Held:
    """In this process, which should be warm, and have done little else."""
    prepared = case.prepared()
    options = _options(prepared)
    _give_back()
    before = _resident("VmRSS") - sum(values.nbytes for values in prepared.data.fields.values())
    _SET_BACK.write_text("5", encoding="ascii")
    begin = time.perf_counter()
    discover(prepared.data, prepared.library, **options)
    measured, between = _resident("VmHWM") - before, time.perf_counter()
    estimate = estimate_memory(prepared.data, prepared.library, **options)
    end = time.perf_counter()
    return Held(case.label, estimate.peak, measured, between - begin, end - between)


def _options(prepared: PreparedCase) -> dict[str, Any]:
    return {
        "noise": prepared.noise,
        "method": Method(tests=prepared.discretisation, stencil=prepared.stencil),
        "check": prepared.check,
    }


def _give_back() -> None:
    """Free what the warming up left, and give it back to the system where the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _resident(key: str) -> float:
    try:
        rows = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise BvsiError("memory is measured from /proc, which only Linux has.") from None
    return next(1024.0 * float(row.split()[1]) for row in rows if row.startswith(key))


def held(cases: Sequence[MemoryCase]) -> list[Held]:
    """Cases one after the other in a process of their own."""
    command = [
        sys.executable,
        "-m",
        "bvsi.studies.benchmarks.memory",
        "--here",
        json.dumps([asdict(one) for one in cases]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise BvsiError(f"{', '.join(one.label for one in cases)}: {last}")
    return [Held(**row) for row in json.loads(done.stdout)]


def study(cases: Sequence[MemoryCase] = STUDY, progress: Progress = silent) -> list[Held]:
    """Each case in a process of its own."""
    found = []
    for number, case in enumerate(cases):
        progress(number, len(cases), case.label)
        found += held([case])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Predicted and measured peak memory of discoveries, in MB."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.memory", description=main.__doc__)
    parser.add_argument("--here", type=json.loads, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    if chosen.here is not None:
        warm_up()
        sys.stdout.write(json.dumps([asdict(measure(MemoryCase(**one))) for one in chosen.here]))
        return
    with progress_bar() as progress:
        rows = study(progress=progress)
    text = json.dumps([asdict(row) for row in rows]) if chosen.json else "\n".join([HEAD, *map(str, rows)])
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
