"""What files may do while a command reads them: memory, and where values may come from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from bvsi.errors import BvsiError

if TYPE_CHECKING:
    from bvsi.app.study import Study

AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Let data files take values from files outside their folder."),
]
MaxMemory = Annotated[
    float | None,
    typer.Option(help="Bytes that the fields may take, such as 4e9; default 1e9.", show_default=False),
]


def with_limits(study: Study, max_memory: float | None, *, allow_outside: bool) -> Study:
    """The study with what was said on the command line."""
    study = replace(study, allow_outside=allow_outside, guarded=True)
    if max_memory is None:
        return study
    data = study.settings.data.model_copy(update={"max_memory": checked_memory(max_memory)})
    return replace(study, settings=study.settings.model_copy(update={"data": data}))


def checked_memory(max_memory: float) -> float:
    """A number of bytes that was given."""
    if not 0 < max_memory < float("inf"):
        raise BvsiError(f"--max-memory {max_memory:g}: give a positive number of bytes, such as 4e9.")
    return max_memory
