"""Steps in time of a Gmsh file: its sections of nodal values, of which meshio keeps only the last and no time.

    $NodeData   strings, real and whole numbers, each preceded by their count; then n lines or records: node, values

The first string is the name of the values, the first real number the time, the whole numbers are the step, the number
of components and n.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvsi.errors import DataError

_BEGIN, _END = b"$NodeData", b"$EndNodeData"


@dataclass(frozen=True, eq=False)
class GmshSteps:
    """Nodal values by time and name, each (n, components), as they stand in a file."""

    times: NDArray[np.float64]
    values: tuple[dict[str, NDArray[np.float64]], ...]


def gmsh_steps(path: Path) -> GmshSteps | None:
    """What a file says about times; None where it has no nodal values."""
    content = path.read_bytes()
    binary = content.split(b"\n", 2)[1].split()[1:2] == [b"1"]
    found: dict[float, dict[str, NDArray[np.float64]]] = {}
    start = content.find(_BEGIN)
    while start >= 0:
        end = content.find(_END, start)
        end = len(content) if end < 0 else end
        name, time, values = _section(path, content[start + len(_BEGIN) : end].lstrip(b"\r\n"), binary=binary)
        if name in found.setdefault(time, {}):
            raise DataError(f"{path}: values {name!r} occur twice in it at time {time:g}; give each step a time")
        found[time][name] = values
        start = content.find(_BEGIN, end)
    times = sorted(found)
    return GmshSteps(np.array(times), tuple(found[t] for t in times)) if times else None


def _section(path: Path, body: bytes, *, binary: bool) -> tuple[str, float, NDArray[np.float64]]:
    """Name, time and values of one section."""
    try:
        tags: list[list[bytes]] = []
        for _ in range(3):
            count, _, body = body.partition(b"\n")
            *own, body = body.split(b"\n", int(count))
            tags.append(own)
        (name, *_), (time, *_), (_, width, n, *_) = tags[0], tags[1] or [b"0"], tags[2]
        values = _values(body, int(n), int(width), binary=binary)
    except (ValueError, IndexError):
        raise DataError(f"{path}: a section of nodal values is damaged; write the file again") from None
    return name.strip().strip(b'"').decode(errors="replace"), float(time), values


def _values(body: bytes, n: int, width: int, *, binary: bool) -> NDArray[np.float64]:
    """Values (n, width) without the numbers of their nodes."""
    if binary:
        record = np.dtype([("node", "<i4"), ("values", "<f8", (width,))])
        return np.array(np.frombuffer(body, record, n)["values"])
    table: Any = np.array(body.split()[: n * (1 + width)], dtype=np.float64)
    return np.asarray(table.reshape(n, 1 + width)[:, 1:])
