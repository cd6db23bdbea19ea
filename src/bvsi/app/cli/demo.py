"""``bvsi demo``."""

from __future__ import annotations

from pathlib import Path

from bvsi.app.cli.folder import Out, check_folder
from bvsi.app.cli.options import Json, Quiet, say, shown_progress


def demo(out: Out = Path("demo"), as_json: Json = False, quiet: Quiet = False) -> None:
    """Go from an embedded data file to a report.

    A density that drifts and diffuses, and the potential that drives it.
    """
    from bvsi.app.study.summary import summary
    from bvsi.studies.demo import run, told

    check_folder(out)
    with shown_progress(quiet=quiet or as_json) as progress:
        finished = run(out, progress)
    record = {**summary(finished.found, finished.notes), "report": str(finished.report.resolve())}
    say(told(finished), record, as_json=as_json, quiet=quiet)
