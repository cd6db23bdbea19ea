"""Records of a campaign as tables: by kind of input and command, and findings grouped by their cause."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bvsi.studies.fuzz.judge import Finding, digest
from bvsi.studies.fuzz.trial import Record


@dataclass(frozen=True)
class Group:
    """Findings with one signature.

    Attributes
    ----------
    numbers
        Numbers of the inputs, in their order.
    families, commands
        Where they were met.
    """

    example: Finding
    numbers: tuple[int, ...]
    families: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Campaign:
    """All that was run.

    Attributes
    ----------
    seconds
        Wall time.
    controls
        Detectors that were tried before, none of which failed.
    """

    seed: int
    seconds: float
    controls: int
    records: tuple[Record, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Findings by their signature, the most frequent first."""
        met: dict[str, list[tuple[Record, Finding]]] = {}
        for record in self.records:
            for finding in record.findings:
                met.setdefault(finding.signature, []).append((record, finding))
        groups = [
            Group(
                pairs[0][1],
                tuple(sorted(record.number for record, _ in pairs)),
                tuple(sorted({record.family for record, _ in pairs})),
                tuple(sorted({record.command for record, _ in pairs})),
            )
            for pairs in met.values()
        ]
        return tuple(sorted(groups, key=lambda group: -len(group.numbers)))

    def __str__(self) -> str:
        rate = 60 * len(self.records) / max(self.seconds, 1e-9)
        count = sum(bool(record.findings) for record in self.records)
        head = (
            f"# Fuzzing of bvsi\n\nSeed {self.seed}: {len(self.records)} inputs in {self.seconds / 60:.1f} minutes, "
            f"{rate:.0f} a minute. {self.controls} positive controls were seen. {count} inputs with findings, "
            f"{len(self.groups)} different ones.\n"
        )
        return "\n".join(
            [head, "## By kind of input and command\n", *self._table(), "", "## Findings\n", *self._findings(), ""]
        )

    def _table(self) -> list[str]:
        columns = (
            "input",
            "command",
            "inputs",
            "exit 0",
            "exit 2",
            "other",
            "memory refused",
            "slowest s",
            "largest MB",
            "findings",
        )
        keys = sorted({(record.family, record.command) for record in self.records})
        rows = [_row(*key, [r for r in self.records if (r.family, r.command) == key]) for key in keys]
        return _markdown(columns, [*rows, _row("all", "", self.records)])

    def _findings(self) -> list[str]:
        if not self.groups:
            return ["None."]
        rows = [
            (
                digest(group.example.signature), group.example.kind, len(group.numbers), ", ".join(group.families),
                ", ".join(group.commands),
                f"{group.numbers[0]:06d}", group.example.detail[:160], group.example.signature[:160],
            )
            for group in self.groups
        ]  # fmt: skip
        return _markdown(("group", "kind", "inputs", "of", "by", "example", "detail", "where"), rows)

    def write(self, out: Path) -> None:
        """``fuzz.json`` and ``fuzz.md``."""
        told: dict[str, Any] = {
            "seed": self.seed,
            "seconds": self.seconds,
            "controls": self.controls,
            "inputs": len(self.records),
        }
        told["groups"] = [{"group": digest(group.example.signature), **asdict(group)} for group in self.groups]
        told["records"] = [asdict(record) for record in self.records]
        (out / "fuzz.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        (out / "fuzz.md").write_text(str(self), encoding="utf-8", errors="backslashreplace")


def _row(family: str, command: str, records: Sequence[Record]) -> tuple[object, ...]:
    codes = Counter(-1000 if record.hung else record.code for record in records)
    other = [f"{'hang' if code == -1000 else code} × {n}" for code, n in sorted(codes.items()) if code not in (0, 2)]
    slowest = max((record.seconds for record in records), default=0.0)
    largest = max((record.extra for record in records), default=0) / 1e6
    refused, findings = sum(r.refused for r in records), sum(bool(r.findings) for r in records)
    return (
        family,
        command,
        len(records),
        codes[0],
        codes[2],
        ", ".join(other),
        refused,
        f"{slowest:.1f}",
        f"{largest:.0f}",
        findings,
    )


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(_cell(value) for value in row) for row in rows]
    return [f"| {line} |" for line in lines]


def _cell(value: object) -> str:
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
    return text.replace("|", "\\|")
