"""The other side of the fork server: starts it, sends commands, and gathers what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TIMEOUT = 20.0
"""Seconds after which a command is called a hang."""
MEMORY = 3_500_000_000
"""Bytes that a command can get beyond what the server has; more is refused by the system."""
FILE_SIZE = 200_000_000
"""Bytes of the largest file that a command can write."""


@dataclass(frozen=True)
class FuzzOutcome:
    """How a command ended.

    Attributes
    ----------
    code
        Exit code; negative: the signal that ended it.
    hung
        Killed after the timeout.
    seconds, cpu
        Wall and processor time.
    peak
        Bytes of memory at most, those of the server included.
    out, err
        What it printed.
    acts
        What the audit hook noted, each kind, event, detail.
    """

    code: int
    hung: bool
    seconds: float
    cpu: float
    peak: int
    out: str
    err: str
    acts: tuple[tuple[str, str, str], ...]


class Server:
    """A fork server with a folder of its own.

    Parameters
    ----------
    area
        Its folder; commands run in ``area/trial``, their home and temporary folder is ``area/home``.
    warm_up
        Folder of a whole study that commands are run on before the first fork; quicker afterwards.
    """

    def __init__(self, area: Path, warm_up: Path | None = None) -> None:
        self.area = area.resolve()
        self.warm_up = warm_up
        self.trial, self.home, self.seen = (self.area / name for name in ("trial", "home", "seen"))
        for folder in (self.trial, self.home, self.seen, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        self._process = self._start()
        self.resident = self._greeting()

    @property
    def cache(self) -> Path:
        """Where Numba keeps compiled functions; it is not part of what is watched."""
        return self.area.parents[1] / "cache"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def run(
        self,
        arguments: Sequence[str],
        *,
        python: str | None = None,
        timeout: float = TIMEOUT,
        environment: Mapping[str, str] | None = None,
    ) -> FuzzOutcome:
        """Run a command of bvsi in the trial folder, or a text of Python."""
        out, err, audit = (self.seen / name for name in ("stdout", "stderr", "audit"))
        audit.unlink(missing_ok=True)
        answer = self._ask(
            {
                "arguments": list(arguments), "python": python, "timeout": timeout, "folder": str(self.trial),
                "out": str(out), "err": str(err), "audit": str(audit), "memory": MEMORY, "file_size": FILE_SIZE,
                "allowed": [str(self.trial), str(self.home), str(self.seen), str(self.cache)],
                "environment": {**homes(self.home), **(environment or {})},
            }
        )  # fmt: skip
        acts = [tuple(json.loads(line)) for line in _text(audit).splitlines()] if audit.exists() else []
        return FuzzOutcome(**answer, out=_text(out), err=_text(err), acts=tuple(acts))

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, **homes(self.home), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"NUMBA_CACHE_DIR": str(self.cache), "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
        more = [] if self.warm_up is None else [str(self.warm_up.resolve())]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "bvsi.studies.fuzz.server", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.seen,
        )

    def _greeting(self) -> int:
        told = self._read()
        if told["threads"] != 1:
            raise RuntimeError(f"the fork server has {told['threads']} threads; what it imports must start none")
        return int(told["resident"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise RuntimeError("the fork server has no input")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the fork server ended with {self._process.wait()}; its complaints stand above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def homes(home: Path) -> dict[str, str]:
    """Variables that keep what libraries write for a user inside a folder."""
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "MPLCONFIGDIR")
    return dict.fromkeys(names, str(home))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace")
