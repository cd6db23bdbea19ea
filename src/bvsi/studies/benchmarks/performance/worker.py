"""One measurement in a process of its own: ``python -m bvsi.studies.benchmarks.performance.worker TASK JSON``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bvsi.errors import BvsiError
from bvsi.studies.benchmarks.performance import cases, growth
from bvsi.studies.benchmarks.scale import measure as scale

TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "lagged": growth.measure,
    "case": cases.measure,
    "scale": scale.measure,
}
WARM_UP: Mapping[str, Callable[[], object]] = {
    "lagged": lambda: growth.measure(20, repeats=1),
    "case": cases.warm_up,
    "scale": scale.warm_up,
}
"""Small work of the same kind, so that loading and compiling is not part of what is measured."""


def main() -> int:
    """Run a task and print what it returns as JSON."""
    task, settings = sys.argv[1], json.loads(sys.argv[2])
    try:
        WARM_UP[task]()
        row = TASKS[task](**settings)
    except BvsiError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
