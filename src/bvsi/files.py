"""Files that are whole or absent: written aside, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A path to write to; it becomes ``path`` when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        yield Path(aside)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    finally:
        Path(aside).unlink(missing_ok=True)
