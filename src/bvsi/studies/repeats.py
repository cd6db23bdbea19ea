"""The command of a study whose cases are drawn and run some times, with a line for each repeat and case."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Run = TypeVar("Run")
# Repeats that are timed with what is estimated held fixed as well.
_TIMED = 5


def run_cases(
    description: str,
    cases: Iterable[str],
    repeat: Callable[..., Run],
    line: Callable[[Run], str],
    summary: Callable[[str, Sequence[Run]], str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the cases that the arguments name.

    Parameters
    ----------
    repeat
        ``repeat(name, number, seed, timed=...)`` draws a case and runs it.
    line, summary
        One run, and all of a case, in words.
    """
    names = list(cases)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    outcomes: dict[str, list[Run]] = {name: [] for name in given.cases}
    for number in range(given.repeats):  # all cases have as many, wherever it is cut off
        for name in given.cases:
            one = repeat(name, number, given.seed, timed=number < _TIMED)
            outcomes[name].append(one)
            sys.stdout.write(f"{name} {number}: {line(one)}\n")
            sys.stdout.flush()
    for name in given.cases:
        sys.stdout.write(summary(name, outcomes[name]) + "\n")
    return 0
