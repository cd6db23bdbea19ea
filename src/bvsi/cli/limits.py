"""What files may do while a command reads them: memory, and where values may come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bvsi.errors import BvsiError

if TYPE_CHECKING:
    from bvsi.study import Study

AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Let data files take values from files outside of their folder."),
]
MaxMemory = Annotated[
    float | None,
    typer.Option(help="Bytes that the fields may take, such as 4e9; default 1e9.", show_default=False),
]

# Room for what a process needs beside the fields themselves: imports, and the copies of filters.
_BESIDE = 700_000_000


def with_limits(study: Study, max_memory: float | None, *, allow_outside: bool) -> Study:
    """The study with what was said on the command line."""
    if max_memory is None:
        return replace(study, allow_outside=allow_outside)
    data = study.settings.data.model_copy(update={"max_memory": checked_memory(max_memory)})
    settings = study.settings.model_copy(update={"data": data})
    return replace(study, settings=settings, allow_outside=allow_outside)


def checked_memory(max_memory: float) -> float:
    """A number of bytes that was given."""
    if not 0 < max_memory < float("inf"):
        raise BvsiError(f"--max-memory {max_memory:g}: give a positive number of bytes, such as 4e9.")
    return max_memory


@contextmanager
def limited_memory(max_memory: float) -> Iterator[None]:
    """Keep reading a file from taking much more than the memory allowed, where the system can do that (Linux).

    A damaged or hostile file can unpack to any size, whatever its header says; then the reading fails, not the machine.
    """
    used = _data_bytes()
    if used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(used + max_memory + _BESIDE)
    limits = [limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int | None:
    """Bytes of private memory that this process has now; None where the system does not tell."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return int(fields[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
