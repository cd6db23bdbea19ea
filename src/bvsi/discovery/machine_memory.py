"""How much memory this machine has, and how much of it is free."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
# Bounds of containers and batch systems, of version 2 and 1 of control groups: limit, and what is used of it.
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@dataclass(frozen=True)
class MachineMemory:
    """Bytes that this process could ever have, and those that are free now; None where the system does not tell."""

    total: float | None
    free: float | None

    @staticmethod
    def here() -> MachineMemory:
        """Of this machine, or of the container that the process is in."""
        total, free = _physical(), _available()
        for limit, used in _GROUPS:
            bound = _number(limit)
            if bound is not None and (total is None or bound < total):
                total = bound
                taken = _number(used)
                left = None if taken is None else bound - taken
                free = left if free is None else free if left is None else min(free, left)
        return MachineMemory(total, free)


def _physical() -> float | None:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _available() -> float | None:
    """What Linux could give without swapping."""
    try:
        rows = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next(1024.0 * float(row.split()[1]) for row in rows if row.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # also where it says "max"
        return None
