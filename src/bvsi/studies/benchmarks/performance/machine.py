"""What the benchmark ran on: processor, memory, system, versions, BLAS, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bvsi.app.study.health import health

_MORE = ("numba", "pysindy", "threadpoolctl")


def machine() -> dict[str, Any]:
    """As JSON values; what cannot be found is empty."""
    found = health()
    versions = {**found.versions, **{name: _version(name) for name in _MORE if name not in found.versions}}
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": found.cores,
        "memory_gb": _memory_gb(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", ""),
        "versions": versions,
        "commit": _commit(),
        "blas": list(found.blas),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _commit() -> str:
    """Commit of the sources, with a plus where they were changed; empty for an installed package."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        tracked = git("ls-files", Path(__file__).name)  # a package inside some other project's folder has no commit
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain") else "") if tracked else ""
    except (OSError, subprocess.CalledProcessError):
        return ""
