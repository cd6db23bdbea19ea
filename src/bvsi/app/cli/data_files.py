"""``bvsi inspect`` and ``bvsi init``: from a data file to a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from bvsi.app.cli.limits import AllowOutside, MaxMemory, checked_memory
from bvsi.app.cli.options import Json, Quiet, check_file, free_to_write, os_fault, say, shown_progress
from bvsi.errors import BvsiError

if TYPE_CHECKING:
    from bvsi.app.readers import Reading

File = Annotated[
    Path,
    typer.Argument(
        help="Data: NetCDF, Zarr, HDF5, NPZ, MATLAB, CSV, VTK/VTU/XDMF series (in quotes: 'run_*.vtu'), TIFF stack.",
        show_default=False,
    ),
]
Dims = Annotated[str, typer.Option(help="Axes of the arrays, for files that do not name them: t,x,y.")]
Time = Annotated[str, typer.Option(help="Name of the time dimension, column or array.")]


def inspect(
    file: File,
    dims: Dims = "",
    time: Time = "",
    picture: Annotated[
        Path | None, typer.Option(help="PNG to write; default: NAME.inspect.png in the current folder.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Write no picture.")] = False,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what is in a data file.

    Fields, resolution, noise, spectrum, and what to try; with a picture.

    Where the values cannot be read, the contents of the file are listed, and the exit code is 2.
    """
    limits = _limits(max_memory, allow_outside=allow_outside)
    _check_readable(file, limits)
    reading = _reading(file, dims, time, limits)
    from bvsi.app.study.inspection import inspect as look

    target = picture or Path(f"{file.name.replace('*', '_')}.inspect.png")
    if not no_picture:
        check_file(target, option="--picture")
    with shown_progress(quiet=quiet or as_json) as progress:
        seen = look(file, reading, limits=limits, progress=progress)
    record, text = seen.record(), str(seen)
    if seen.data is not None and not no_picture:
        from bvsi.app.study.inspection_picture import write_picture

        try:
            write_picture(seen, target)
        except OSError as error:  # what was found is printed all the same
            text = f"{text}\nno picture: {os_fault(error)}"
        else:
            record["picture"], text = str(target), f"{text}\npicture: {target}"
    if seen.data is not None:
        given = [f"--{name} {quote(value)}" for name, value in (("dims", dims), ("time", time)) if value]
        text += "\nnext: " + " ".join(["bvsi init", quote(str(file)), *given])
    say(text, record, as_json=as_json, quiet=quiet)
    if seen.data is None:
        raise BvsiError(seen.obstacle)


def init(
    file: File,
    out: Annotated[Path, typer.Option(help="The study file to write.")] = Path("study.toml"),
    dims: Dims = "",
    time: Time = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    allow_outside: AllowOutside = False,
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented study.toml for a data file.

    It has operators to begin with, and everything that can be set.
    """
    limits = _limits(max_memory, allow_outside=allow_outside)
    if not all(str(path).isprintable() for path in (file, out)):
        raise BvsiError(f"{str(file)!r}: a study file cannot hold this name; rename the file in plain letters.")
    _check_readable(file, limits)
    reading = _reading(file, dims, time, limits)
    from bvsi.app.files import write_whole
    from bvsi.app.study.template import template

    free_to_write(out, force=force, option="--out")
    text = template(file, study_file=out, reading=reading, limits=limits)
    write_whole(out, text)
    words = f"study: {out}\nLook at the operators in it, then: bvsi run {quote(str(out))}"
    say(words, {"study": str(out)}, as_json=as_json, quiet=quiet)


def _limits(max_memory: float | None, *, allow_outside: bool) -> Reading:
    from bvsi.app.readers import Reading

    limits = Reading(allow_outside=allow_outside, guarded=True)
    return limits if max_memory is None else replace(limits, max_memory=checked_memory(max_memory))


def _check_readable(file: Path, limits: Reading) -> None:
    """Report faults of a file before importing what only a look at it needs."""
    from bvsi.app.readers import contents

    contents(file, limits)


def _reading(file: Path, dims: str, time: str, limits: Reading) -> Reading | None:
    """What the file suggests, with what was given; None where nothing was."""
    from bvsi.app.readers import suggest

    if not dims and not time:
        return None
    known = tuple(name.strip() for name in dims.split(",")) if dims else None
    changed = suggest(file, replace(limits, dims=known))
    return replace(changed, time=time) if time else changed
