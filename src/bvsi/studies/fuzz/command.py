"""``python -m bvsi.studies.fuzz``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.errors import BvsiError
from bvsi.studies.fuzz.bases import make_bases
from bvsi.studies.fuzz.controls import CONTROLS, blind
from bvsi.studies.fuzz.tables import Campaign
from bvsi.studies.fuzz.trial import Record, Trials

# Bytes that making an input may take, with all that is imported: one change of 20,000 took all memory of a machine.
_LARGEST = 8_000_000_000


def campaign(
    out: Path, seed: int, *, inputs: int, minutes: float, first: int = 0, jobs: int = 1, progress: Progress = silent
) -> Campaign:
    """Run inputs until there are enough, or the time is over.

    Parameters
    ----------
    out
        Folder for all files.
    first
        Number of the first input.
    jobs
        Workers, each with a fork server of its own.
    """
    out.mkdir(parents=True, exist_ok=True)
    make_bases(out / "base")
    begin = time.time()
    until = begin + 60 * minutes
    if jobs == 1:
        records = worker(out, seed, range(first, first + inputs), until, 0, progress)
    else:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            shares = [range(first + i, first + inputs, jobs) for i in range(jobs)]
            futures = [pool.submit(worker, out, seed, share, until, i) for i, share in enumerate(shares)]
            records = sorted((record for future in futures for record in future.result()), key=lambda r: r.number)
    return Campaign(seed, time.time() - begin, len(CONTROLS), tuple(records))


def worker(out: Path, seed: int, numbers: range, until: float, place: int, progress: Progress = silent) -> list[Record]:
    """One worker: positive controls first, then its inputs until the time is over.

    Records are also written one by one, to ``records-PLACE.jsonl``: a campaign that is ended from outside leaves them.
    """
    records = []
    with Trials(out, seed, place) as trials, (out / f"records-{place}.jsonl").open("w", encoding="utf-8") as kept:
        # an input that takes more to make is drawn again; the commands, which run elsewhere, have limits of their own
        resource.setrlimit(resource.RLIMIT_AS, (_LARGEST, resource.getrlimit(resource.RLIMIT_AS)[1]))
        if missed := blind(trials):
            raise BvsiError(f"the fuzzer does not see what it has to: {', '.join(missed)}.")
        for number in numbers:
            if time.time() > until:
                break
            records.append(trials.record(number))
            kept.write(json.dumps(asdict(records[-1])) + "\n")
            kept.flush()
            progress(len(records), len(numbers), "inputs")
    return records


def repeat(out: Path, seed: int, number: int, times: int = 5) -> str:
    """Run one input again; what it was and how it ended, in words.

    Parameters
    ----------
    times
        Runs at most until there is a finding: the input is always the same, but commands with threads may race.
    """
    make_bases(out / "base")
    with Trials(out, seed, 0) as trials:
        for runs in range(1, times + 1):
            made = trials.make(number)
            outcome, found = trials.run(made)
            if found or runs == times:
                break
    ending = f"exit code {outcome.code}, {outcome.seconds:.1f} s, {outcome.peak / 1e6:.0f} MB"
    lines = [f"input {number} of seed {seed}: {made.family}, {made.change}", f"command: {shlex.join(made.arguments)}"]
    lines += [f"folder: {trials.server.trial}", ending]
    lines += [f"finding in run {runs}: {one.kind}: {one.detail}" for one in found] or [f"no finding in {times} runs"]
    return "\n".join([*lines, "stdout:", outcome.out, "stderr:", outcome.err])


def main(arguments: Sequence[str] | None = None) -> None:
    """Feed changed inputs to bvsi, and report what it must not do. Exit code 0 without findings, 1 with."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.fuzz", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="time to take (default 10)")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs at most")
    parser.add_argument("--seed", type=int, default=0, help="of all inputs (default 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (default 0)")
    parser.add_argument("--out", type=Path, default=Path("fuzz-results"), help="folder for findings and tables")
    parser.add_argument("--jobs", type=int, default=1, help="workers (default 1)")
    parser.add_argument("--repeat", type=int, metavar="NUMBER", help="run one input again and show how it ends")
    chosen = parser.parse_args(arguments)
    if chosen.repeat is not None:
        sys.stdout.write(_printable(repeat(chosen.out, chosen.seed, chosen.repeat)))
        return
    with progress_bar() as progress:
        done = campaign(
            chosen.out,
            chosen.seed,
            inputs=chosen.inputs,
            minutes=chosen.minutes,
            first=chosen.first,
            jobs=chosen.jobs,
            progress=progress,
        )
    done.write(chosen.out)
    sys.stdout.write(_printable(str(done)))
    if done.groups:
        raise SystemExit(1)


def _printable(text: str) -> str:
    """Inputs hold what a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text) + "\n"
