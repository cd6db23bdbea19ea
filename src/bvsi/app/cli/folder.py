"""The folder that a command writes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bvsi.errors import BvsiError

Out = Annotated[Path, typer.Option(help="Folder for results.")]


def check_folder(out: Path) -> None:
    """Refuse before the work, not after it, a place where no folder can be."""
    if any(place.exists() and not place.is_dir() for place in (out, *out.parents)):
        raise BvsiError(f"--out {out}: there is a file of that name; choose another folder.")
