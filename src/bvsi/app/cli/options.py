"""Options that commands share, and what they print."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bvsi.common.progress import Progress, silent
from bvsi.errors import BvsiError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text, for other programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; no progress bar.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, such as tcp://host:8786, whose workers do the work.", show_default=False
    ),
]
TlsCa = Annotated[
    Path | None, typer.Option(help="Certificate of the authority, for tls:// schedulers.", show_default=False)
]
TlsCert = Annotated[Path | None, typer.Option(help="Certificate of this client.", show_default=False)]
TlsKey = Annotated[Path | None, typer.Option(help="Its private key.", show_default=False)]
Tls = tuple[Path | None, Path | None, Path | None]
Result = Annotated[Path, typer.Argument(help="result.nc, or the folder that it is in.", show_default=False)]


_FULL = (errno.ENOSPC, errno.EFBIG, *((errno.EDQUOT,) if hasattr(errno, "EDQUOT") else ()))
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


def say(text: str, record: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Text for people, or one JSON object; nothing where that was asked for."""
    if as_json:
        text = json.dumps(record, ensure_ascii=False)
        sys.stdout.write("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n")
    elif not quiet:
        sys.stdout.write(f"{printable(text)}\n")


def printable(text: str) -> str:
    """The text with escapes for what a terminal would obey or not show: names in files may hold anything."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def os_fault(error: OSError) -> str:
    """What the system could not do, and what to do about it, in one sentence."""
    told = " ".join(str(error).split())
    if error.errno in _FULL:
        return f"{told}: the disk is full, or a limit is reached; free some space, then give the same command again."
    if error.errno in _NOT_ALLOWED:
        return f"{told}: check the permissions, or choose another place."
    return f"{told}: check the path and the disk."


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress]:
    """A progress bar on the terminal, or none."""
    if quiet:
        yield silent
        return
    from bvsi.common.progress import progress_bar

    with progress_bar() as progress:
        yield progress


@contextmanager
def cluster(scheduler: str | None, tls: Tls = (None, None, None), *, quiet: bool) -> Iterator[Any]:
    """A client of the scheduler at an address, and on standard error who works there; None without an address.

    Parameters
    ----------
    tls
        Certificate of the authority, own certificate, and its key.
    """
    if scheduler is None:
        if any(tls):
            raise BvsiError(
                "--tls-ca, --tls-cert, --tls-key: they belong to a scheduler; add --scheduler tls://host:8786."
            )
        yield None
        return
    from bvsi.cluster.client import OPEN_CLUSTER, connect, dashboard, threads_of

    with connect(scheduler, tls=tls) as client:
        threads = threads_of(client)
        if not quiet:
            words = f"cluster: workers {len(threads)}, threads {sum(threads.values())}, dashboard {dashboard(client)}"
            sys.stderr.write(f"{printable(words)}\n")
            if not scheduler.startswith("tls://"):
                sys.stderr.write(f"{OPEN_CLUSTER}\n")
        yield client


def check_file(path: Path, *, option: str) -> None:
    """Refuse before the work, not after it, a place where no file can be."""
    if path.is_dir():
        raise BvsiError(f"{option}: {path} is a folder; name a file.")
    if any(place.exists() and not place.is_dir() for place in path.parents):
        raise BvsiError(f"{option}: {path.parent} cannot be a folder, since a file has that name; choose another.")


def free_to_write(path: Path, *, force: bool, option: str) -> None:
    """Refuse to write over a file, or where there is no folder."""
    check_file(path, option=option)
    if path.exists() and not force:
        raise BvsiError(f"{option}: {path} exists already; choose another name, or overwrite it with --force.")
    if not path.parent.is_dir():
        raise BvsiError(f"{option}: there is no folder {path.parent}; make it first.")


def result_file(given: Path) -> Path:
    """The file of a result, given itself or by its folder."""
    path = given / "result.nc" if given.is_dir() else given
    if given.is_dir():
        from bvsi.app.study.outputs import recover

        recover(given)
    if given.is_dir() and path.is_symlink():
        raise BvsiError(f"{path}: this is a link; name the result itself.")
    if not path.is_file():
        raise BvsiError(f"{given}: no result here; give result.nc or its folder, which bvsi run writes.")
    return path
