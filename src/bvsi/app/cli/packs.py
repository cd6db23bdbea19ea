"""``bvsi pack`` and ``verify``: a result in one file that can be cited, checked and repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bvsi.app.cli.limits import MaxMemory, checked_memory
from bvsi.app.cli.options import Json, Quiet, free_to_write, say, shown_progress
from bvsi.errors import BvsiError


def pack(
    folder: Annotated[Path, typer.Argument(help="The folder of a result, as bvsi run writes it.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: FOLDER.bvsi.zip.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pack a result into one file.

    With the digests of its data, study, versions, equation, posterior, verdict and report; others check it with verify.
    """
    from bvsi.app.files import write_whole
    from bvsi.app.study.pack import ENDING
    from bvsi.app.study.pack import pack as packed

    if not folder.is_dir():
        raise BvsiError(f"{folder}: there is no such folder; give that of a result, which bvsi run writes.")
    whole = folder.resolve()
    path = out or whole.with_name(f"{whole.name}{ENDING}")
    free_to_write(path, force=force, option="--out")
    content = packed(folder)
    write_whole(path, content)
    say(
        f"file: {path} ({len(content)} bytes)", {"file": str(path), "bytes": len(content)}, as_json=as_json, quiet=quiet
    )


def verify(
    path: Annotated[Path, typer.Argument(help="A pack, NAME.bvsi.zip.", show_default=False)],
    data: Annotated[list[Path], typer.Option(help="The data, to repeat the result; once per file of the study.")] = [],  # noqa: B006
    max_memory: MaxMemory = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a pack, and with its data repeat it.

    Nothing in it is run or trusted. Exit code 2 where it was changed, or where the result cannot be repeated.
    """
    from bvsi.app.study.pack import verify as checked

    memory = None if max_memory is None else checked_memory(max_memory)
    with shown_progress(quiet=quiet or as_json) as progress:
        verified = checked(path, data, max_memory=memory, progress=progress)
    found = verified.found
    digests = [f"data {name}: SHA-256 {digest}" for name, digest in verified.data.items()]
    lines = [found.equation, f"verdict: {found.verdict}", *digests, f"manifest: SHA-256 {verified.digest}"]
    record = {
        "equation": found.equation.splitlines(),
        "verdict": found.verdict,
        "data": dict(verified.data),
        "digest": verified.digest,
        "repeated": verified.repeated or None,
        "checks": list(verified.lines),
    }
    say("\n".join([*lines, *verified.lines]), record, as_json=as_json, quiet=quiet)
