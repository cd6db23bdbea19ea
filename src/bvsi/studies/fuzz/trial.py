"""One input after the other in a folder of its own: made, run by the fork server, judged, and saved as a finding."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bvsi.studies.fuzz.client import TIMEOUT, FuzzOutcome, Server
from bvsi.studies.fuzz.inputs import Input, make_input
from bvsi.studies.fuzz.judge import Finding, Traces, judge
from bvsi.studies.fuzz.watch import TOKEN, differences, make_canary, read_secrets, state_of, unread

_SAVED = 2
"""Findings of one signature that are saved with all their files."""
# Draws of an input before it is given up, and what is added to its number for another one.
_ATTEMPTS, _APART = 5, 10**9
_OWN = ("trial", "home", "seen")


@dataclass(frozen=True)
class Record:
    """One input and its ending, in short.

    Attributes
    ----------
    refused
        Whether the command was refused memory, and said so.
    """

    number: int
    family: str
    command: str
    code: int
    hung: bool
    seconds: float
    extra: int
    refused: bool
    findings: tuple[Finding, ...]
    change: str


class Trials:
    """A worker: its area holds the folder of the trial, canaries, and a fork server.

    Parameters
    ----------
    out
        Folder of the whole campaign, with the bases.
    number
        Number of the worker.
    """

    def __init__(self, out: Path, seed: int, number: int = 0) -> None:
        self.out, self.seed = out.resolve(), seed
        self.bases = self.out / "base"
        self.area = self.out / "work" / f"{number}"
        self.canary = self.area / "canary"
        shutil.rmtree(self.area, ignore_errors=True)
        make_canary(self.canary)
        shutil.copytree(self.bases / "home", self.area / "home")
        self.server = Server(self.area, self.bases / "study")
        self.saved: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.__exit__(kind, error, trace)

    def record(self, number: int) -> Record:
        """Make input ``number``, run it, judge it; findings are saved."""
        try:
            made = self.make(number)
        except Exception as error:  # of the fuzzer itself: told, and no reason to stop
            words = f"input {number} cannot be made: {type(error).__name__}: {error}"
            finding = Finding("internal", words, f"internal {type(error).__name__}")
            return Record(number, "internal", "", 0, False, 0.0, 0, False, (finding,), "")
        outcome, found = self.run(made)
        if outcome.hung and "numba" in outcome.err:  # functions that were compiled for the first time: once more
            self.server.run(self.make(number).arguments, timeout=10 * TIMEOUT)
            outcome, found = self.run(self.make(number))
        if found:
            self._save(number, made, outcome, found)
        refused = "more memory than there is" in outcome.err or "not enough memory" in outcome.err
        extra = max(outcome.peak - self.server.resident, 0)
        return Record(
            number,
            made.family,
            made.command,
            outcome.code,
            outcome.hung,
            outcome.seconds,
            extra,
            refused,
            found,
            made.change,
        )

    def make(self, number: int) -> Input:
        """The input in the folder of the trial; drawn again where its changes contradict or cannot be made."""
        for attempt in range(_ATTEMPTS):
            self.empty()
            try:
                return make_input(self.seed, number + attempt * _APART, self.bases, self.server.trial, self.canary)
            except (OSError, RecursionError, MemoryError, TypeError, ValueError):
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("every attempt returns or raises")

    def empty(self) -> None:
        """Remove what the last command left."""
        shutil.rmtree(self.server.trial)
        self.server.trial.mkdir()
        shutil.rmtree(self.server.home)
        shutil.copytree(self.bases / "home", self.server.home)

    def run(
        self, given: Input, *, python: str | None = None, timeout: float = TIMEOUT
    ) -> tuple[FuzzOutcome, tuple[Finding, ...]]:
        """Run what stands in the folder of the trial, and judge it.

        Parameters
        ----------
        python
            A text to run in place of bvsi.
        """
        around, inner = state_of(self.area, without=_OWN), state_of(self.server.trial)
        unread(self.canary)
        outcome = self.server.run(given.arguments, python=python, timeout=timeout)
        secrets = () if given.reads else read_secrets(self.canary)
        after = state_of(self.server.trial)
        traces = Traces(
            differences(around, state_of(self.area, without=_OWN), given.around),
            differences(inner, after, given.writes),
            secrets,
            self._leaked([name for name in after if after[name] != inner.get(name)]) if secrets else (),
            bool(given.around),
        )
        if traces.outside or given.around:
            self._restore()
        return outcome, judge(outcome, traces, given.arguments)

    def _leaked(self, names: list[str]) -> tuple[str, ...]:
        """Files that hold the text of the secret one."""
        files = [
            name
            for name in names
            if (self.server.trial / name).is_file() and not (self.server.trial / name).is_symlink()
        ]
        return tuple(name for name in files if TOKEN.encode() in (self.server.trial / name).read_bytes())

    def _restore(self) -> None:
        """Canaries as they were, and nothing else beside the folder of the trial."""
        for path in self.area.iterdir():
            if path.name not in _OWN:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        make_canary(self.canary)

    def _save(self, number: int, given: Input, outcome: FuzzOutcome, found: tuple[Finding, ...]) -> None:
        """The input, made again, with what the command printed; of each signature the first few."""
        signature = found[0].signature
        self.saved[signature] = self.saved.get(signature, 0) + 1
        if self.saved[signature] > _SAVED:
            return
        folder = self.out / "findings" / f"{number:06d}"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "input").mkdir(parents=True)
        make_input(self.seed, number, self.bases, folder / "input", self.canary)
        (folder / "stdout").write_text(outcome.out, encoding="utf-8", errors="backslashreplace")
        (folder / "stderr").write_text(outcome.err, encoding="utf-8", errors="backslashreplace")
        line = shlex.join(["bvsi", *given.arguments])
        (folder / "command").write_text(f"{line}\n", encoding="utf-8", errors="backslashreplace")
        told = {"seed": self.seed, "number": number, **asdict(given), "findings": [asdict(one) for one in found]}
        told |= {"code": outcome.code, "seconds": outcome.seconds, "peak": outcome.peak, "acts": outcome.acts}
        (folder / "finding.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
