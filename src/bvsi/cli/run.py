"""``bvsi run``: a study from its file to its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bvsi.cli.folder import check_folder
from bvsi.cli.options import Json, Quiet, say, shown_progress


def run(
    study: Annotated[Path, typer.Argument(help="The study file.", show_default=False)] = Path("study.toml"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; default: that of the study.", show_default=False)
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Check the study against its data, compute nothing.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Discover the equation of a study.

    Selects operators, infers coefficients, checks, forecasts; writes result and report.

    Everything is checked before it is computed. Interrupted, the same command goes on where it was; results appear when
    they are whole.
    """
    from bvsi.study import load_study

    loaded = load_study(study)  # before what only running needs is imported: faults of the file are told at once
    from bvsi.study import read_inputs, run_study
    from bvsi.study.summary import summary

    if out is not None:
        check_folder(out)
    with shown_progress(quiet=quiet or as_json) as progress:
        if check_only:
            inputs = read_inputs(loaded, progress=progress)
            words = [*(repr(one) for one in inputs.data), repr(inputs.library), *inputs.notes, "The study can be run."]
            say("\n".join(words), {"data": words[:-1], "valid": True}, as_json=as_json, quiet=quiet)
            return
        try:
            finished = run_study(loaded, out=out, progress=progress)
        except KeyboardInterrupt:
            sys.stderr.write(f"interrupted; bvsi run {study} goes on where it was\n")
            raise typer.Exit(130) from None
    record = {**summary(finished.found, finished.notes), "report": str(finished.report)}
    notes = [f"note: {note}" for note in finished.notes]
    notes += [] if finished.anew else ["nothing was computed anew: data and settings are those of an earlier run"]
    forecast = [] if finished.found.forecast is None else [finished.found.forecast.text]
    text = "\n\n".join([str(finished.found), *forecast, "\n".join([*notes, f"report: {finished.report}"])])
    say(text, record, as_json=as_json, quiet=quiet)
