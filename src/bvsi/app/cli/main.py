"""``bvsi``: the commands. Each imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bvsi._version import __version__
from bvsi.app.cli.bench import bench
from bvsi.app.cli.data_files import init, inspect
from bvsi.app.cli.demo import demo
from bvsi.app.cli.doctor import doctor
from bvsi.app.cli.options import os_fault, printable
from bvsi.app.cli.packs import pack, verify
from bvsi.app.cli.reproduce import reproduce
from bvsi.app.cli.results import compare, export, predict, refine, report, simulate
from bvsi.app.cli.run import forecast, run
from bvsi.errors import BvsiError

HELP = """Discover PDEs, with honest uncertainty, from noisy full-field data.

From a data file to an equation, in three steps:

\b
  bvsi inspect run.nc    what is in the file: fields, noise, resolution
  bvsi init run.nc       writes study.toml, with operators; edit it
  bvsi run study.toml    selects, infers, checks; writes the report

Without data of your own: bvsi demo. Exit codes: 0 done, 2 an error in the input, 130 interrupted.
"""

_LONGEST = 1000
"""Characters of a line of an error message."""


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"bvsi {__version__}\n")
        raise typer.Exit


app = typer.Typer(
    add_completion=True, no_args_is_help=True, help=HELP, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


_RESULTS = (report, predict, export, simulate, refine, compare)
for command in (demo, inspect, init, run, forecast, *_RESULTS, pack, verify, doctor):
    app.command()(command)
app.add_typer(reproduce, name="reproduce")
app.add_typer(bench, name="bench")


def main() -> None:
    """Entry point: one clear message and exit code 2 for errors in the input."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of failures that zarr also reports itself
    try:
        _check_arguments()
        _commands()()
        sys.stdout.flush()
    except BvsiError as error:
        _refuse(str(error))
    except BrokenPipeError:  # the reader of the output has gone: nothing is left to print
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  the interpreter flushes it at its end
        raise SystemExit(1) from None
    except OSError as error:  # folders that may not be written to, full disks, names that are too long
        _refuse(os_fault(error))
    except MemoryError as error:
        _refuse(f"not enough memory ({error or 'size unknown'}); use part of the data, or fewer operators.")


@cache
def _commands() -> Callable[[], object]:
    """All commands with their options; made once for all calls in a process, since that takes 50 ms."""
    return typer.main.get_command(app)


def _refuse(message: str) -> NoReturn:
    """One message on standard error, and exit code 2."""
    with suppress(OSError, ValueError):  # a standard error that is closed, or a full disk behind it
        sys.stderr.write(f"error: {_shortened(printable(message))}\n")
    raise SystemExit(2) from None


def _shortened(text: str) -> str:
    """The text with long lines cut: a file may have thousands of names."""
    return "\n".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in text.split("\n"))


def _check_arguments() -> None:
    """Refuse line breaks, which could put lines of their own into messages, and patterns that the shell replaced."""
    odd = next((part for part in sys.argv[1:] if "\n" in part or "\r" in part), None)
    if odd is not None:
        raise BvsiError(f"an argument has a line break: {odd!r}; rename the file, or write it in one line.")
    command = " ".join(sys.argv[1:2])
    files = [Path(part) for part in sys.argv[2:] if Path(part).suffix and not part.startswith("-")]
    if command in ("inspect", "init") and sum(file.suffix == files[0].suffix for file in files) > 1:
        pattern = files[0].with_name(f"*{files[0].suffix}")
        raise BvsiError(f"a series of files is one argument, in quotes: bvsi {command} '{pattern}'.")


if __name__ == "__main__":
    main()
