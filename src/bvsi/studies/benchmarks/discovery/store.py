"""Results on disk, one JSON line per finished run, so that a study continues where it was interrupted.

A run belongs to a study by the hash of everything that it depends on; runs with another hash stay in the file, and
count as not done. A last line without its end (the process was killed while it wrote) is removed, and the run done
again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bvsi._version import __version__
from bvsi.errors import BvsiError

FILE = "results.jsonl"


@dataclass(frozen=True)
class Key:
    """Which run: ``settings`` is the hash of what its result depends on besides case, level, seed and method."""

    case: str
    level: float
    seed: int
    method: str
    settings: str


@dataclass(frozen=True)
class Run:
    """One finished run. A failed one has its error, and the measures of an empty equation: TPR 0 and E∞ 1.

    Parameters
    ----------
    covered
        Whether the 95% interval of each selected true operator contains its coefficient.
    theta
        What was found.
    """

    key: Key
    tpr: float
    e_inf: float
    seconds: float
    theta: Mapping[str, float] = field(default_factory=dict)
    covered: Mapping[str, bool] = field(default_factory=dict)
    verdict: str | None = None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def digest(settings: Mapping[str, Any]) -> str:
    """A short hash of JSON values."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


class Store:
    """The file of finished runs in a folder, which is made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._runs = {run.key: run for run in _read(self.path)}

    def get(self, key: Key) -> Run | None:
        """The finished run, or None."""
        return self._runs.get(key)

    def add(self, run: Run, settings: Mapping[str, Any]) -> None:
        """Append a run with its settings in full; it is on the disk when this returns."""
        line = json.dumps({**asdict(run), "bvsi": __version__, "settings": dict(settings)}, ensure_ascii=False)
        drop_broken_tail(self.path)
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._runs[run.key] = run


def drop_broken_tail(path: Path) -> None:
    """Cut off what follows the last end of a line."""
    if not path.exists():
        return
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(path, whole)


def _read(path: Path) -> list[Run]:
    """All whole lines."""
    text = path.read_bytes() if path.exists() else b""
    runs = []
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            row = json.loads(line)
            del row["settings"], row["bvsi"]
            runs.append(Run(**{**row, "key": Key(**row["key"])}))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise BvsiError(
                f"{path}, line {number}: not a run of this benchmark; remove the line or the file."
            ) from None
    return runs
