"""``bvsi doctor``: versions, back ends, threads, what is missing and how to get it."""

from __future__ import annotations

from bvsi.app.cli.options import Json, Quiet, say


def doctor(as_json: Json = False, quiet: Quiet = False) -> None:
    """Show what is installed and what is missing.

    Versions, solvers, threads, optional packages and how to get them.
    """
    from bvsi.app.study.health import health

    found = health()
    say(str(found), found.record(), as_json=as_json, quiet=quiet)
